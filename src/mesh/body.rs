//! A file as an HTTP body, piece by piece: a package is never held in memory as a whole.
//!
//! Used by the link (a package to a node) and by the CLI (a package to the mesh).

use axum::body::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

/// Bytes in one piece: few system calls, and a thousand downloads still fit into memory.
const PIECE_BYTES: usize = 64 * 1024;

/// `left` bytes from where the file stands.
pub struct FileBody {
    file: tokio::fs::File,
    left: u64,
}

impl FileBody {
    /// The next `left` bytes of the file.
    pub fn new(file: std::fs::File, left: u64) -> Self {
        FileBody { file: tokio::fs::File::from_std(file), left }
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let wanted = usize::try_from(self.left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let mut piece = vec![0; wanted];
        let mut buffer = ReadBuf::new(&mut piece);
        ready!(Pin::new(&mut self.file).poll_read(context, &mut buffer))?;
        let filled = buffer.filled().len();
        if filled == 0 {
            // Ended early: the connection must break, or the other side would take it for the whole.
            return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
        }
        self.left -= filled as u64;
        piece.truncate(filled);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(piece)))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

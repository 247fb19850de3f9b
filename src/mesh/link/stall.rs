//! A stream that breaks off when its peer takes nothing for a while.
//!
//! The HTTP library bounds how long a head may take to arrive, but not how long an answer may take to
//! leave: a client that asks for a package and never reads would hold a connection and a file for ever.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// See the module.
pub struct Stall<S> {
    stream: S,
    limit: Duration,
    /// Runs while a write waits.
    deadline: Pin<Box<Sleep>>,
    waiting: bool,
}

impl<S> Stall<S> {
    /// Breaks `stream` off when a write waits for longer than `limit`.
    pub fn new(stream: S, limit: Duration) -> Self {
        Stall { stream, limit, deadline: Box::pin(tokio::time::sleep(limit)), waiting: false }
    }

    fn watch<T>(&mut self, context: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.waiting = false;
            return result;
        }
        if !self.waiting {
            self.waiting = true;
            let until = Instant::now() + self.limit;
            self.deadline.as_mut().reset(until);
        }
        match self.deadline.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stall<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stall<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    #[tokio::test]
    async fn a_peer_that_never_reads_is_cut_off() {
        let (ours, theirs) = tokio::io::duplex(1024);
        let mut stream = Stall::new(ours, Duration::from_millis(50));
        let said = stream.write_all(&[0; 4096]).await.unwrap_err();
        assert_eq!(said.kind(), io::ErrorKind::TimedOut);
        drop(theirs);
    }
}

//! The accept loop: one task a connection, with a deadline on everything that a peer can drag out.
//!
//! Our own because admission, handshake deadlines and caps are requirements of the mesh. A full house
//! leaves new connections in the kernel's queue: those that are served already go on being served.

use super::stall::Stall;
use super::{FAREWELL_TIME, HANDSHAKE_TIME, HEAD_BYTES_MAX, HEAD_LINES_MAX, HEAD_TIME, STALL_TIME};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

/// What every connection gets.
#[derive(Clone)]
pub struct Door {
    /// TLS settings; replaced when the certificate is renewed.
    pub tls: watch::Receiver<Arc<ServerConfig>>,
    /// The calls.
    pub router: Router,
    /// Turns true when the mesh is asked to end.
    pub stopping: watch::Receiver<bool>,
}

/// Serves until the mesh is asked to end, then lets open calls end.
pub async fn run(listener: TcpListener, door: Door, connections_max: usize) {
    let places = Arc::new(Semaphore::new(connections_max));
    let mut stopping = door.stopping.clone();
    loop {
        let place = match places.clone().try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                log::warn!("{connections_max} connections are open: new ones wait");
                tokio::select! {
                    place = places.clone().acquire_owned() => match place {
                        Ok(place) => place,
                        Err(_) => break,
                    },
                    _ = stopping.changed() => break,
                }
            }
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.changed() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let door = door.clone();
                tokio::spawn(async move {
                    connection(stream, door).await;
                    drop(place);
                });
            }
            Err(error) => {
                // Out of descriptors, mostly: it passes when connections end; a tight loop helps nobody.
                log::warn!("accepting a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    // Each connection holds a place: all places free means that all have ended.
    let everyone = u32::try_from(connections_max).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(FAREWELL_TIME, places.acquire_many(everyone)).await;
}

async fn connection(stream: TcpStream, door: Door) {
    // Answers are small and complete when they are written.
    let _ = stream.set_nodelay(true);
    let config = door.tls.borrow().clone();
    let handshake = TlsAcceptor::from(config).accept(Stall::new(stream, STALL_TIME));
    // Scanners and lost peers: nothing that a person could act on.
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIME, handshake).await else { return };
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_headers(HEAD_LINES_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(door.router));
    let mut served = std::pin::pin!(served);
    let mut stopping = door.stopping;
    tokio::select! {
        _ = served.as_mut() => return,
        _ = stopping.wait_for(|stop| *stop) => {}
    }
    served.as_mut().graceful_shutdown();
    let _ = served.await;
}

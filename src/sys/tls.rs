//! The node's end of the link: TCP and TLS 1.3 for the HTTP client, in the thread's one wait.
//!
//! The sockets never block: connecting, the handshake, every read and every write wait in
//! [`Waiter::wait`], so that a signal (and, where it is heeded, the bell) ends a long poll or a
//! download at once, and the watchdog is fed while the deadline of the call runs. A name is looked up
//! on the calling thread, without a thread of its own; the last good answer is kept for the time when
//! the name server is silent. No proxy, no redirect, no system certificates, nothing listens.

mod trust;

pub use trust::Pin;

use super::clock;
use super::wait::{self, For, Waiter, Woken};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Agent, Error};

/// Buffer of each direction, in bytes: enough for the answers' headers, small enough to stay idle with.
const BUFFER_BYTES: usize = 8 * 1024;
/// Most bytes of answer headers.
const HEADER_BYTES_MAX: usize = 8 * 1024;
/// Most addresses of one name that are tried.
const ADDRESSES_MAX: usize = 16;
/// For a connection, with its handshake.
const CONNECT_LIMIT: Duration = Duration::from_secs(15);
/// For one address of several.
const ADDRESS_LIMIT: Duration = Duration::from_secs(5);
/// For sending a request.
const SEND_LIMIT: Duration = Duration::from_secs(15);
/// A connection that was idle longer is not used again.
const IDLE_LIMIT: Duration = Duration::from_secs(120);

/// A call was given up because of a signal or the bell; whoever decides takes them from the waiter.
#[derive(Debug)]
pub struct Disturbed;

impl fmt::Display for Disturbed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("given up: something more urgent came")
    }
}

impl std::error::Error for Disturbed {}

/// Whether an error is [`Disturbed`].
pub fn is_disturbed(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Disturbed>())
}

/// An HTTP client for one peer, of one thread.
pub fn client(pin: Pin, waiter: Arc<Waiter>, user_agent: &str) -> io::Result<Agent> {
    let tls = Arc::new(trust::config(pin).map_err(io::Error::other)?);
    let config = Config::builder()
        .https_only(true)
        .http_status_as_error(false)
        .proxy(None)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(user_agent)
        .input_buffer_size(BUFFER_BYTES)
        .output_buffer_size(BUFFER_BYTES)
        .max_response_header_size(HEADER_BYTES_MAX)
        .max_idle_connections(1)
        .max_idle_connections_per_host(1)
        .max_idle_age(IDLE_LIMIT)
        .timeout_connect(Some(CONNECT_LIMIT))
        .timeout_send_request(Some(SEND_LIMIT))
        .timeout_send_body(Some(SEND_LIMIT))
        // Each call sets its own limits for the answer; these hold where one forgets.
        .timeout_recv_response(Some(SEND_LIMIT))
        .timeout_recv_body(Some(SEND_LIMIT))
        .timeout_global(Some(CONNECT_LIMIT + SEND_LIMIT * 3))
        .build();
    Ok(Agent::with_parts(
        config,
        Dial { tls, waiter: waiter.clone() },
        Names { waiter, last: Mutex::default() },
    ))
}

/// Looks names up on the calling thread. The C library's own limit is the only one there is: five
/// seconds with musl's default, for a name with a dot in it.
#[derive(Debug)]
struct Names {
    waiter: Arc<Waiter>,
    last: Mutex<Option<(String, Vec<SocketAddr>)>>,
}

impl Resolver for Names {
    fn resolve(&self, uri: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let host = uri.host().ok_or(Error::HostNotFound)?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let port = uri.port_u16().unwrap_or(443);
        let addresses = match bare.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => self.look_up(bare, port)?,
        };
        let mut found = self.empty();
        addresses.iter().take(ADDRESSES_MAX).for_each(|address| found.push(*address));
        Ok(found)
    }
}

impl Names {
    fn look_up(&self, name: &str, port: u16) -> Result<Vec<SocketAddr>, Error> {
        self.waiter.progress();
        let found: Vec<SocketAddr> =
            (name, port).to_socket_addrs().map(Iterator::collect).unwrap_or_default();
        let mut last = self.last.lock().map_err(|_| Error::HostNotFound)?;
        if !found.is_empty() {
            *last = Some((name.to_owned(), found.clone()));
            return Ok(found);
        }
        match &*last {
            Some((known, addresses)) if known == name => Ok(addresses.clone()),
            _ => Err(Error::HostNotFound),
        }
    }
}

/// Makes connections.
#[derive(Debug)]
struct Dial {
    tls: Arc<ClientConfig>,
    waiter: Arc<Waiter>,
}

impl Connector<()> for Dial {
    type Out = Stream;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Stream>, Error> {
        let host = details.uri.host().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(bare).map_err(|_| Error::BadUri("the host is no name".into()))?;
        let until = deadline(&details.timeout);
        let socket = self.reach(&details.addrs, until)?;
        let connection = ClientConnection::new(self.tls.clone(), name)
            .map_err(|error| io::Error::other(error.to_string()))?;
        let buffers =
            LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        let mut stream = Stream { connection, socket, waiter: self.waiter.clone(), buffers };
        while stream.connection.is_handshaking() {
            if !stream.exchange(until)? {
                return Err(Error::Io(io::Error::new(
                    io::ErrorKind::ConnectionAborted,
                    "the peer hung up during the TLS handshake",
                )));
            }
        }
        Ok(Some(stream))
    }
}

impl Dial {
    /// The first of the addresses that answers.
    fn reach(&self, addresses: &[SocketAddr], until: Duration) -> io::Result<TcpStream> {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for (index, address) in addresses.iter().enumerate() {
            let alone = clock::monotonic() + ADDRESS_LIMIT;
            let limit = if index + 1 < addresses.len() { alone.min(until) } else { until };
            match self.reach_one(*address, limit) {
                Ok(socket) => return Ok(socket),
                Err(error) if is_disturbed(&error) => return Err(error),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn reach_one(&self, address: SocketAddr, until: Duration) -> io::Result<TcpStream> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket: OwnedFd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) => {}
            Err(rustix::io::Errno::INPROGRESS) => {
                wait_for(&self.waiter, socket.as_fd(), For::Writing, until)?;
                rustix::net::sockopt::socket_error(&socket)??;
            }
            Err(error) => return Err(error.into()),
        }
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// One TLS connection.
struct Stream {
    connection: ClientConnection,
    socket: TcpStream,
    waiter: Arc<Waiter>,
    buffers: LazyBuffers,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:?})", self.socket.peer_addr().ok())
    }
}

impl Stream {
    /// Sends what is to be sent; without that, waits for something and takes it in. False at the end.
    fn exchange(&mut self, until: Duration) -> io::Result<bool> {
        if self.connection.wants_write() {
            return self.flush(until).map(|()| true);
        }
        match self.connection.read_tls(&mut self.socket) {
            Ok(0) => return Ok(false),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return wait_for(&self.waiter, self.socket.as_fd(), For::Reading, until).map(|()| true);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        }
        if let Err(error) = self.connection.process_new_packets() {
            // Tell the peer why, if the socket takes it; the error is ours to report either way.
            let _ = self.connection.write_tls(&mut self.socket);
            return Err(io::Error::new(io::ErrorKind::InvalidData, error.to_string()));
        }
        Ok(true)
    }

    fn flush(&mut self, until: Duration) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait_for(&self.waiter, self.socket.as_fd(), For::Writing, until)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Transport for Stream {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let until = deadline(&timeout);
        let mut sent = 0;
        while sent < amount {
            let rest = self.buffers.output().get(sent..amount).unwrap_or_default();
            sent += self.connection.writer().write(rest)?;
            self.flush(until).map_err(|error| in_time(error, &timeout))?;
        }
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let until = deadline(&timeout);
        loop {
            let room = self.buffers.input_append_buf();
            match self.connection.reader().read(room) {
                Ok(amount) => {
                    self.buffers.input_appended(amount);
                    return Ok(amount > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            if !self.exchange(until).map_err(|error| in_time(error, &timeout))? {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }

    fn is_open(&mut self) -> bool {
        // What lies in wait on an idle connection is the peer's goodbye or a session ticket.
        while wait::readable_now(self.socket.as_fd()) {
            match self.connection.read_tls(&mut self.socket) {
                Ok(0) | Err(_) => return false,
                Ok(_) => {}
            }
            match self.connection.process_new_packets() {
                Ok(state) if state.peer_has_closed() || state.plaintext_bytes_to_read() > 0 => return false,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
        true
    }

    fn is_tls(&self) -> bool {
        true
    }
}

fn wait_for(
    waiter: &Waiter,
    fd: std::os::fd::BorrowedFd<'_>,
    purpose: For,
    until: Duration,
) -> io::Result<()> {
    match waiter.wait(&[(fd, purpose)], until)? {
        Woken::Ready => Ok(()),
        Woken::Deadline => Err(io::ErrorKind::TimedOut.into()),
        Woken::Signal | Woken::Bell => Err(io::Error::other(Disturbed)),
    }
}

fn deadline(timeout: &NextTimeout) -> Duration {
    // A wait without an end does not exist here: the longest that a call may take, if nobody said.
    let after = if timeout.after.is_not_happening() { Duration::from_secs(600) } else { *timeout.after };
    clock::monotonic().saturating_add(after)
}

fn in_time(error: io::Error, timeout: &NextTimeout) -> Error {
    if error.kind() == io::ErrorKind::TimedOut { Error::Timeout(timeout.reason) } else { Error::Io(error) }
}

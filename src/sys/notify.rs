//! The notify protocol of sd_notify(3): a datagram with `KEY=value` lines to the socket that the
//! environment names, by path or in the abstract name space (`@`).
//!
//! Without `NOTIFY_SOCKET` nothing is sent: the host runs under any supervisor. Failures are ignored:
//! a supervisor that is gone for a moment is no reason to end, and one whose queue is full is no reason
//! to hang: what it must hear is tried for a second, the rest is dropped.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Mutex;
use std::time::Duration;

use super::clock;

/// Tries of a message that must be heard, and the time between two.
const TRIES: (u32, Duration) = (20, Duration::from_millis(50));

/// The supervisor's ear.
#[derive(Debug, Default)]
pub struct Notifier {
    supervisor: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
    fed: Mutex<Option<Duration>>,
}

impl Notifier {
    /// As the environment says.
    pub fn from_environment() -> Self {
        let address = std::env::var_os("NOTIFY_SOCKET").and_then(|name| address(name.as_bytes()));
        let supervisor = address.and_then(|address| {
            let socket = UnixDatagram::unbound().ok()?;
            socket.set_nonblocking(true).ok()?;
            Some((socket, address))
        });
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let for_us = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|usec| for_us && *usec > 0).map(Duration::from_micros);
        Notifier { supervisor, watchdog, fed: Mutex::default() }
    }

    /// The state is loaded, the work begins.
    pub fn ready(&self) {
        self.send_surely("READY=1");
    }

    /// The end was asked for and has begun.
    pub fn stopping(&self) {
        let _ = self.send("STOPPING=1");
    }

    /// One line for a person, shown by `systemctl status`.
    pub fn status(&self, text: &str) {
        let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let _ = self.send(&format!("STATUS={line}"));
    }

    /// Real work goes on before READY: asks for this much more time from now on.
    pub fn extend(&self, by: Duration) {
        let _ = self.send(&format!("EXTEND_TIMEOUT_USEC={}", by.as_micros()));
    }

    /// The longest that may pass between two calls of [`Notifier::progress`].
    pub fn pulse(&self) -> Option<Duration> {
        self.watchdog.map(|limit| limit / 3)
    }

    /// Something got done, or a wait with a deadline is under way: feeds the watchdog, not more often
    /// than it needs. Never called because of being alive alone (E7).
    pub fn progress(&self) {
        let Some(pulse) = self.pulse() else { return };
        let now = clock::monotonic();
        let Ok(mut fed) = self.fed.lock() else { return };
        if fed.is_none_or(|last| now.saturating_sub(last) >= pulse / 2) {
            *fed = Some(now);
            let _ = self.send("WATCHDOG=1");
        }
    }

    fn send_surely(&self, text: &str) {
        for _ in 0..TRIES.0 {
            match self.send(text) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(TRIES.1),
                _ => return,
            }
        }
    }

    fn send(&self, text: &str) -> io::Result<()> {
        match &self.supervisor {
            Some((socket, address)) => socket.send_to_addr(text.as_bytes(), address).map(|_| ()),
            None => Ok(()),
        }
    }
}

fn address(name: &[u8]) -> Option<SocketAddr> {
    match name.strip_prefix(b"@") {
        Some(rest) => SocketAddr::from_abstract_name(rest).ok(),
        None if name.starts_with(b"/") => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name)).ok(),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(address: SocketAddr) -> String {
        let ear = UnixDatagram::bind_addr(&address).unwrap();
        let socket = UnixDatagram::unbound().unwrap();
        let notifier = Notifier {
            supervisor: Some((socket, address)),
            watchdog: Some(Duration::from_secs(30)),
            fed: Mutex::default(),
        };
        notifier.status("two\nlines");
        notifier.progress();
        notifier.progress();
        notifier.ready();
        let mut all = String::new();
        let mut buffer = [0u8; 256];
        ear.set_nonblocking(true).unwrap();
        while let Ok(length) = ear.recv(&mut buffer) {
            all.push_str(std::str::from_utf8(&buffer[..length]).unwrap());
            all.push('|');
        }
        all
    }

    #[test]
    fn a_supervisor_that_does_not_listen_hangs_nobody() {
        let address = address(format!("@nox-deaf-{}", std::process::id()).as_bytes()).unwrap();
        let _ear = UnixDatagram::bind_addr(&address).unwrap();
        let socket = UnixDatagram::unbound().unwrap();
        socket.set_nonblocking(true).unwrap();
        let notifier = Notifier { supervisor: Some((socket, address)), ..Notifier::default() };
        let began = clock::monotonic();
        (0..2000).for_each(|_| notifier.status("x"));
        notifier.ready();
        assert!(clock::monotonic() - began < Duration::from_secs(10));
    }

    #[test]
    fn path_and_abstract_addresses_are_heard_and_the_watchdog_is_not_flooded() {
        let unique = format!("nox-notify-{}", std::process::id());
        let wanted = "STATUS=two lines|WATCHDOG=1|READY=1|";
        assert_eq!(heard(address(format!("@{unique}").as_bytes()).unwrap()), wanted);
        let path = std::env::temp_dir().join(&unique);
        assert_eq!(heard(address(path.as_os_str().as_bytes()).unwrap()), wanted);
        std::fs::remove_file(path).unwrap();
        assert!(address(b"relative").is_none());
    }
}

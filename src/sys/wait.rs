//! The one wait: signals, the bell, any file descriptors and a deadline, in a single `poll`.
//!
//! Signals are blocked before the second thread starts and are read from a signalfd, so no handler
//! code exists. The bell is an eventfd that another thread rings. Neither is consumed by waiting: who
//! waits is told, and whoever decides takes them ([`Waiter::take_signal`], [`Waiter::take_bell`]), so
//! that a signal met in the depth of a download is still there for the loop.
//!
//! A wait feeds the watchdog only while a deadline runs, which every wait has; the one `unsafe` of the
//! host is here.

#![allow(unsafe_code)]

use super::clock;
use super::notify::Notifier;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a wait on a descriptor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// Something to read, or the end.
    Reading,
    /// Room to write.
    Writing,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// At least one descriptor is ready.
    Ready,
    /// A signal is waiting to be taken.
    Signal,
    /// The bell was rung and is heeded.
    Bell,
    /// The deadline has passed.
    Deadline,
}

/// The signals that the host listens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM or SIGINT: end.
    Stop,
    /// SIGHUP: read the settings again and reconcile now.
    Again,
}

/// Rings from any thread, wakes the waiter that it belongs to.
#[derive(Clone, Debug)]
pub struct Bell(Arc<OwnedFd>);

impl Bell {
    /// A bell that is silent.
    pub fn new() -> io::Result<Self> {
        Ok(Bell(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// Rings; rung twice before it is heard is heard once.
    pub fn ring(&self) {
        // Only a counter that is full refuses, and then it rings already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    fn take(&self) -> bool {
        rustix::io::read(&self.0, &mut [0u8; 8]).is_ok()
    }
}

/// One thread's waiting place.
#[derive(Debug)]
pub struct Waiter {
    signals: Option<OwnedFd>,
    bell: Bell,
    heeds_bell: AtomicBool,
    notifier: Option<Arc<Notifier>>,
}

impl Waiter {
    /// For the first thread: blocks the signals for this thread and all that it starts from now on.
    pub fn with_signals(notifier: Arc<Notifier>) -> io::Result<Self> {
        let signals = Some(block_signals()?);
        let heeds_bell = AtomicBool::new(false);
        Ok(Waiter { signals, bell: Bell::new()?, heeds_bell, notifier: Some(notifier) })
    }

    /// For another thread: a bell and deadlines.
    pub fn plain() -> io::Result<Self> {
        Ok(Waiter { signals: None, bell: Bell::new()?, heeds_bell: AtomicBool::new(false), notifier: None })
    }

    /// The bell that wakes this waiter.
    pub fn bell(&self) -> Bell {
        self.bell.clone()
    }

    /// Whether the bell ends the waits from now on.
    pub fn heed_bell(&self, heed: bool) {
        self.heeds_bell.store(heed, Ordering::Relaxed);
    }

    /// Takes the next signal, if one is there.
    pub fn take_signal(&self) -> Option<Signal> {
        // The size of a signalfd_siginfo; the number stands in its first four bytes (signalfd(2)).
        let mut info = [0u8; 128];
        let length = rustix::io::read(self.signals.as_ref()?, &mut info).ok()?;
        let number = info.first_chunk::<4>().filter(|_| length == info.len())?;
        match i32::from_ne_bytes(*number) {
            libc::SIGHUP => Some(Signal::Again),
            _ => Some(Signal::Stop),
        }
    }

    /// Something got done; also said before a call that the system may answer late, such as a look-up
    /// of a name.
    pub fn progress(&self) {
        if let Some(notifier) = &self.notifier {
            notifier.progress();
        }
    }

    /// Whether the bell was rung since it was last taken.
    pub fn take_bell(&self) -> bool {
        self.bell.take()
    }

    /// Waits until a descriptor is ready, a signal is there, the bell rings or `until` (monotonic) has
    /// come. A descriptor that is ready wins over the rest only when nothing else happened.
    pub fn wait(&self, on: &[(BorrowedFd<'_>, For)], until: Duration) -> io::Result<Woken> {
        let heeds_bell = self.heeds_bell.load(Ordering::Relaxed);
        loop {
            let left = until.saturating_sub(clock::monotonic());
            let pulse = self.notifier.as_ref().and_then(|notifier| notifier.pulse());
            let slice = pulse.map_or(left, |pulse| pulse.min(left));
            let mut fds: Vec<PollFd<'_>> = on
                .iter()
                .map(|(fd, purpose)| {
                    let flags = match purpose {
                        For::Reading => PollFlags::IN,
                        For::Writing => PollFlags::OUT,
                    };
                    PollFd::from_borrowed_fd(*fd, flags)
                })
                .collect();
            let asked = fds.len();
            if heeds_bell {
                fds.push(PollFd::new(&self.bell.0, PollFlags::IN));
            }
            if let Some(signals) = &self.signals {
                fds.push(PollFd::new(signals, PollFlags::IN));
            }
            match poll(&mut fds, Some(&timespec(slice))) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
                Ok(_) => {}
            }
            self.progress();
            let is_ready = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
            if self.signals.is_some() && is_ready(fds.len() - 1) {
                return Ok(Woken::Signal);
            }
            if heeds_bell && is_ready(asked) {
                return Ok(Woken::Bell);
            }
            if (0..asked).any(is_ready) {
                return Ok(Woken::Ready);
            }
            if slice == left {
                return Ok(Woken::Deadline);
            }
        }
    }

    /// Waits for a signal, the bell or the end of this time.
    pub fn pause(&self, time: Duration) -> io::Result<Woken> {
        self.heed_bell(true);
        let woken = self.wait(&[], clock::monotonic().saturating_add(time));
        self.heed_bell(false);
        woken
    }
}

/// A descriptor that becomes readable when the process has ended.
pub fn process_end(id: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok(rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?)
}

/// Whether bytes or the end can be read from this descriptor now.
pub fn readable_now(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)];
    matches!(poll(&mut fds, Some(&timespec(Duration::ZERO))), Ok(count) if count > 0)
}

fn timespec(time: Duration) -> Timespec {
    // A thousand years are long enough, and they fit.
    let seconds = i64::try_from(time.as_secs().min(31_536_000_000)).unwrap_or_default();
    Timespec { tv_sec: seconds, tv_nsec: i64::from(time.subsec_nanos()) as _ }
}

fn block_signals() -> io::Result<OwnedFd> {
    // SAFETY: `set` is initialised by sigemptyset before it is read; the calls get valid pointers to it
    // or null where signal(7) allows it; the descriptor that signalfd returns is owned by nobody else.
    unsafe {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        let refused = libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        if refused != 0 {
            return Err(io::Error::from_raw_os_error(refused));
        }
        let fd = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bell_wakes_at_once_and_stays_until_it_is_taken() {
        let waiter = Waiter::plain().unwrap();
        let bell = waiter.bell();
        std::thread::spawn(move || bell.ring()).join().unwrap();
        let began = clock::monotonic();
        assert_eq!(waiter.pause(Duration::from_secs(20)).unwrap(), Woken::Bell);
        assert_eq!(waiter.pause(Duration::from_secs(20)).unwrap(), Woken::Bell);
        assert!(clock::monotonic() - began < Duration::from_secs(10));
        assert!(waiter.take_bell());
        assert!(!waiter.take_bell());
        assert_eq!(waiter.pause(Duration::from_millis(1)).unwrap(), Woken::Deadline);
    }

    #[test]
    fn an_unheeded_bell_lets_a_wait_go_on() {
        let waiter = Waiter::plain().unwrap();
        waiter.bell().ring();
        let until = clock::monotonic() + Duration::from_millis(5);
        assert_eq!(waiter.wait(&[], until).unwrap(), Woken::Deadline);
        assert!(waiter.take_bell());
    }

    #[test]
    fn a_ready_descriptor_is_told() {
        let waiter = Waiter::plain().unwrap();
        let (reader, writer) = io::pipe().unwrap();
        let until = clock::monotonic() + Duration::from_secs(20);
        assert_eq!(waiter.wait(&[(writer.as_fd(), For::Writing)], until).unwrap(), Woken::Ready);
        assert!(!readable_now(reader.as_fd()));
        drop(writer);
        assert_eq!(waiter.wait(&[(reader.as_fd(), For::Reading)], until).unwrap(), Woken::Ready);
        assert!(readable_now(reader.as_fd()));
    }
}

//! Plain lines on stderr, one a decision; the service manager's journal adds the time.
//!
//! A logger of our own because that is all that is needed; journald reads the `<N>` in front as the
//! priority where stderr goes to it.

use log::{Level, LevelFilter, Log, Metadata, Record};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

struct Stderr;

/// Whether a journal reads along (systemd sets JOURNAL_STREAM).
static JOURNAL: AtomicBool = AtomicBool::new(false);

impl Log for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level() && metadata.target().starts_with("nox_mesh")
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let (priority, word) = match record.level() {
            Level::Error => ("<3>", "error: "),
            Level::Warn => ("<4>", "warning: "),
            Level::Info => ("<6>", ""),
            Level::Debug | Level::Trace => ("<7>", "debug: "),
        };
        let front = if JOURNAL.load(Ordering::Relaxed) { priority } else { word };
        // A log that cannot be written must not end the mesh.
        let _ = writeln!(std::io::stderr(), "{front}{}", record.args());
    }

    fn flush(&self) {}
}

/// Sets the logger up; a second call changes nothing.
pub fn start() {
    JOURNAL.store(std::env::var_os("JOURNAL_STREAM").is_some(), Ordering::Relaxed);
    if log::set_logger(&Stderr).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
}

//! Where log lines go: to stderr, one line each.
//!
//! When stderr is the journal (`JOURNAL_STREAM` names its device and inode) a line gets its `<N>`
//! priority and no name of its level. A write that fails is ignored: a full disk or a closed terminal
//! must never end the host. Own lines at the level of the settings, those of crates only from `warn`.

use log::{Level, LevelFilter, Log, Metadata, Record};
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;

struct Journal {
    is_journal: bool,
}

/// Begins to log; called once.
pub fn start(level: LevelFilter) {
    let journal = Box::leak(Box::new(Journal { is_journal: stderr_is_journal() }));
    // A second call finds the first logger in place, which is what is wanted.
    let _ = log::set_logger(journal);
    log::set_max_level(level);
}

/// Changes the level.
pub fn set_level(level: LevelFilter) {
    log::set_max_level(level);
}

impl Log for Journal {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("nox_mesh") || metadata.level() <= Level::Warn
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = line(self.is_journal, record.level(), &record.args().to_string());
            // Ignored on purpose, see the header.
            let _ = std::io::stderr().lock().write_all(line.as_bytes());
        }
    }

    fn flush(&self) {}
}

fn line(is_journal: bool, level: Level, text: &str) -> String {
    let (priority, name) = match level {
        Level::Error => (3, "error"),
        Level::Warn => (4, "warning"),
        Level::Info => (6, "info"),
        Level::Debug | Level::Trace => (7, "debug"),
    };
    let mut line = String::with_capacity(text.len() + 12);
    // invariant: writing to a String cannot fail.
    let _ = if is_journal { write!(line, "<{priority}>") } else { write!(line, "{name}: ") };
    line.extend(text.chars().map(|c| if c.is_control() { ' ' } else { c }));
    line.push('\n');
    line
}

fn stderr_is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    let Ok(stderr) = std::fs::metadata("/proc/self/fd/2") else { return false };
    stream == format!("{}:{}", stderr.dev(), stderr.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_with_a_priority_in_the_journal() {
        assert_eq!(line(true, Level::Error, "a\nb"), "<3>a b\n");
        assert_eq!(line(true, Level::Info, "a"), "<6>a\n");
        assert_eq!(line(false, Level::Warn, "a"), "warning: a\n");
    }
}

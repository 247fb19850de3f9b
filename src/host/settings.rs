//! What a person may set in `/etc/nox-mesh-host/settings`, `key=value` lines with `#` comments.
//!
//! A mistake never ends the process (C92): the value that was in force before stays, and the mistake is
//! logged and reported. Read at the start and again at SIGHUP.

use log::LevelFilter;
use std::time::Duration;

/// The file, below the root.
pub const PATH: &str = "etc/nox-mesh-host/settings";
/// Largest settings file, in bytes.
pub const BYTES_MAX: usize = 64 * 1024;

/// The settings in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `log_level`: error, warn, info, debug, trace.
    pub log_level: LevelFilter,
    /// `reconcile_seconds`: the longest time between two reconciles, and how long a long poll waits.
    pub reconcile: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { log_level: LevelFilter::Info, reconcile: Duration::from_secs(60) }
    }
}

/// Reads a file over the settings in force; the mistakes are sentences.
pub fn read(text: &str, in_force: Settings) -> (Settings, Vec<String>) {
    let mut settings = in_force;
    let mut mistakes = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Err(mistake) = set(&mut settings, line) {
            mistakes.push(format!("settings, line {}: {mistake}", number + 1));
        }
    }
    (settings, mistakes)
}

fn set(settings: &mut Settings, line: &str) -> Result<(), String> {
    let (key, value) = line.split_once('=').ok_or("expected key=value")?;
    let value = value.trim();
    match key.trim() {
        "log_level" => {
            settings.log_level =
                value.parse().map_err(|_| "log_level: expected error, warn, info, debug or trace")?;
        }
        "reconcile_seconds" => {
            let seconds = value.parse().ok().filter(|seconds| (1..=300).contains(seconds));
            let seconds = seconds.ok_or("reconcile_seconds: expected a number from 1 to 300")?;
            settings.reconcile = Duration::from_secs(seconds);
        }
        // An older host must live with a newer release's settings.
        unknown => return Err(format!("'{unknown}' is no setting of this version")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c92_a_mistake_keeps_what_was_in_force_and_is_told() {
        let in_force = Settings { log_level: LevelFilter::Warn, reconcile: Duration::from_secs(5) };
        let (settings, mistakes) = read(
            "# a comment\n\nlog_level=loud\nreconcile_seconds=0\nreconcile_seconds = 7\n\
             future=1\nnonsense\n\0\n",
            in_force,
        );
        assert_eq!(settings, Settings { reconcile: Duration::from_secs(7), ..in_force });
        assert_eq!(mistakes.len(), 5, "{mistakes:?}");
        assert_eq!(mistakes[0], "settings, line 3: log_level: expected error, warn, info, debug or trace");
        assert_eq!(read("log_level=debug", in_force).0.log_level, LevelFilter::Debug);
    }
}

//! The report as text for people.

use super::report::{EvidenceReport, Report, VerdictKind};
use super::state::State;
use crate::mesh::presence::Millis;
use std::fmt::{self, Write};

/// Most names in one list.
const NAMES_MAX: usize = 5;
/// Most log lines shown of one node; the JSON has all of them.
const LOG_LINES_MAX: usize = 8;
/// Sentences are broken here, so that they fit a terminal.
const COLUMNS: usize = 96;

/// Names in a row, cut when there are many.
pub fn names<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = all.collect();
    let shown = all.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    let more = all.len().saturating_sub(NAMES_MAX);
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

/// A time span in the unit that fits.
pub fn duration(ms: Millis) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 if ms > 0 => format!("{ms} ms"),
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

impl State {
    /// As a word.
    pub fn word(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Running => "running",
            State::Holding => "holding",
            State::Complete => "complete",
            State::Stopped => "stopped",
        }
    }
}

impl VerdictKind {
    /// As words for people.
    pub fn words(self) -> &'static str {
        match self {
            VerdictKind::BrokenRelease => "broken release",
            VerdictKind::BrokenMachine => "broken machine",
            VerdictKind::MeshOutage => "mesh outage",
            VerdictKind::Undecided => "undecided",
        }
    }
}

impl Report {
    /// The whole report as text for people.
    pub fn text(&self) -> String {
        written(|out| {
            self.write_head(out)?;
            self.write_waves(out)?;
            self.write_not_included(out)?;
            self.write_waiting(out)
        })
    }

    /// Where the rollout stands: without the waves, and of the others only what it waits for.
    pub fn status(&self) -> String {
        written(|out| {
            self.write_head(out)?;
            self.write_waiting(out)
        })
    }

    /// Why it stopped and what that was, for whoever watches; nothing while it runs.
    pub fn why(&self) -> String {
        written(|out| self.write_why(out))
    }

    fn write_head(&self, out: &mut String) -> fmt::Result {
        writeln!(out, "rollout {} of {}: {} ({})", self.id, self.version, self.state.word(), self.summary)?;
        self.write_why(out)
    }

    fn write_why(&self, out: &mut String) -> fmt::Result {
        if let Some(stopped) = &self.stopped_because {
            sentence(out, "  stopped: ", &stopped.text)?;
            if !stopped.begun.is_empty() {
                let begun = names(stopped.begun.iter().map(String::as_str));
                writeln!(out, "  had begun before the stop: {begun}")?;
            }
        }
        if let Some(verdict) = &self.verdict {
            sentence(out, "  verdict: ", &format!("{} - {}", verdict.kind.words(), verdict.text))?;
            for line in &verdict.evidence {
                sentence(out, "    ", line)?;
            }
            sentence(out, "  next: ", &verdict.next)?;
        }
        Ok(())
    }

    fn write_not_included(&self, out: &mut String) -> fmt::Result {
        if !self.not_included.is_empty() {
            writeln!(out, "not told")?;
        }
        self.not_included.iter().try_for_each(|node| writeln!(out, "  {:<16} {}", node.name, node.reason))
    }

    fn write_waiting(&self, out: &mut String) -> fmt::Result {
        for wait in &self.waiting_for {
            let who = wait.name.as_deref().unwrap_or("rollout");
            let reason = wait.reason.replace('_', " ");
            write!(out, "waiting: {who} for {reason}, since {}", duration(wait.for_ms))?;
            match wait.left_ms {
                Some(left) => writeln!(out, ", at most {} more", duration(left))?,
                None => writeln!(out)?,
            }
        }
        Ok(())
    }

    fn write_waves(&self, out: &mut String) -> fmt::Result {
        for wave in &self.waves {
            let canary = if wave.canary { " (canary)" } else { "" };
            writeln!(out, "wave {}{canary}: {}", wave.number, wave.state.replace('_', " "))?;
            for node in self.nodes.iter().filter(|node| node.wave == Some(wave.number)) {
                let version = node.version.as_deref().unwrap_or("unknown");
                write!(out, "  {:<16} {:<18} runs {version}", node.name, node.outcome)?;
                match &node.detail {
                    Some(detail) => writeln!(out, "  {detail}")?,
                    None => writeln!(out)?,
                }
                if let Some(evidence) = &node.evidence {
                    write_evidence(evidence, out)?;
                }
            }
        }
        Ok(())
    }
}

fn written(write: impl FnOnce(&mut String) -> fmt::Result) -> String {
    let mut out = String::new();
    // invariant: writing to a String cannot fail.
    let _ = write(&mut out);
    out
}

/// A sentence behind its label, broken between words; what follows the first line is indented.
fn sentence(out: &mut String, label: &str, text: &str) -> fmt::Result {
    write!(out, "{label}")?;
    let mut column = label.chars().count();
    for (index, word) in text.split(' ').enumerate() {
        let width = word.chars().count();
        if index > 0 && column + 1 + width > COLUMNS {
            write!(out, "\n      {word}")?;
            column = 6 + width;
        } else {
            let space = if index > 0 { " " } else { "" };
            write!(out, "{space}{word}")?;
            column += space.len() + width;
        }
    }
    writeln!(out)
}

fn write_evidence(evidence: &EvidenceReport, out: &mut String) -> fmt::Result {
    let word = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".into());
    writeln!(
        out,
        "    {} -> {} ({}): result {}, {}, status {}",
        evidence.from,
        evidence.to,
        evidence.reason,
        word(&evidence.result),
        word(&evidence.code),
        word(&evidence.status)
    )?;
    let skipped = evidence.log.len().saturating_sub(LOG_LINES_MAX);
    for line in evidence.log.iter().skip(skipped) {
        writeln!(out, "    | {line}")?;
    }
    Ok(())
}

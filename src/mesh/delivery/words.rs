//! How a node fared, in words: for the list of nodes and for the verdict.

use super::state::{Fell, Member, Outcome};

/// How a node fared, as a word.
pub fn outcome_word(member: &Member) -> &'static str {
    match member.outcome {
        Outcome::Pending => "pending",
        Outcome::Told => "told",
        Outcome::Received => "received",
        Outcome::Starting => "waiting",
        Outcome::Deferring { .. } => "deferred",
        Outcome::Confirmed => "confirmed",
        Outcome::RolledBack { .. } => "rolled-back",
        Outcome::InstallFailed { .. } => "install-failed",
        Outcome::Deferred { .. } => "deferred",
        Outcome::Silent => "silent",
        Outcome::NotConfirmed => "not-confirmed",
        Outcome::UnexpectedVersion { .. } => "unexpected-version",
        Outcome::Withdrawn => "withdrawn",
    }
}

/// Outcome and detail in one line.
pub fn outcome_text(member: &Member) -> String {
    let word = outcome_word(member);
    detail(member).map_or_else(|| word.to_owned(), |detail| format!("{word}: {detail}"))
}

/// What the word leaves open.
pub fn detail(member: &Member) -> Option<String> {
    let about = match &member.outcome {
        Outcome::Deferring { reason } | Outcome::Deferred { reason } => Some(format!("put off ({reason})")),
        Outcome::RolledBack { machine: true } => Some("for a reason of the machine".into()),
        Outcome::InstallFailed { machine, reason, detail } => {
            let class = if *machine { "machine" } else { "release" };
            Some(format!("{reason} ({class}) {detail}").trim_end().to_owned())
        }
        Outcome::NotConfirmed if member.received.is_none() => Some("it never took the order".into()),
        Outcome::NotConfirmed => Some("not confirmed in time".into()),
        Outcome::UnexpectedVersion { version } => Some(format!("runs {version}, which nobody ordered")),
        Outcome::Silent => Some("not heard for the window after it held the order".into()),
        Outcome::Withdrawn => Some("its order was taken back before it began".into()),
        Outcome::Confirmed if member.fell == Some(Fell::Silent) => Some("silent since it confirmed".into()),
        Outcome::Pending
        | Outcome::Told
        | Outcome::Received
        | Outcome::Starting
        | Outcome::Confirmed
        | Outcome::RolledBack { machine: false } => None,
    };
    match (about, &member.later) {
        (Some(about), Some(later)) => Some(format!("{about}; {later}")),
        (about, later) => about.or_else(|| later.clone()),
    }
}

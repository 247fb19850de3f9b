//! Every bound of the link in one place, with the reason for its number.

/// Largest declaration, in bytes: fifty times what a busy machine needs, and it still fits twice into
/// the host's memory budget.
pub const DECLARATION_BYTES_MAX: usize = 1024 * 1024;
/// Largest envelope around a declaration: JSON escapes at most double an ordinary text.
pub const ENVELOPE_BYTES_MAX: usize = 2 * DECLARATION_BYTES_MAX + 4096;
/// Largest heartbeat, in bytes.
pub const HEARTBEAT_BYTES_MAX: usize = 16 * 1024;
/// Largest answer to a heartbeat, a join or a claim, in bytes.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024;
/// Most log text that one rollback record brings along, in bytes: less than half a heartbeat.
pub const EVIDENCE_BYTES_MAX: usize = 6 * 1024;
/// Most log lines that one rollback record brings along.
pub const EVIDENCE_LINES_MAX: usize = 40;
/// Most rollback records in one heartbeat; the next one follows when the mesh has stored these.
pub const ROLLBACKS_PER_HEARTBEAT_MAX: usize = 1;
/// Most failed resources named in one heartbeat; the count of all is told beside them.
pub const FAILURES_MAX: usize = 8;
/// Longest error text of one failure, in bytes.
pub const ERROR_BYTES_MAX: usize = 160;
/// Most refused versions in one heartbeat.
pub const REFUSED_MAX: usize = 8;
/// Most resources in one declaration.
pub const RESOURCES_MAX: usize = 4096;
/// Largest package, in bytes.
pub const PACKAGE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Longest a long poll may be asked to wait, in seconds.
pub const POLL_SECONDS_MAX: u64 = 300;

/// Cuts a text to at most `bytes_max` bytes at a character's boundary; control characters become `?`.
pub fn cut(text: &str, bytes_max: usize) -> String {
    let mut out = String::new();
    for character in text.chars().map(|c| if c.is_control() { '?' } else { c }) {
        if out.len() + character.len_utf8() > bytes_max {
            break;
        }
        out.push(character);
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn cutting_respects_characters() {
        assert_eq!(super::cut("aé\nb", 2), "a");
        assert_eq!(super::cut("aé\nb", 3), "aé");
        assert_eq!(super::cut("aé\nb", 4), "aé?");
    }
}

//! `key=value` files: the one format that both the shell scripts and the host read and write.
//!
//! One pair a line, no quoting, no escapes, no comments. A key may repeat (`log=` lines). Unknown keys
//! stay in and are ignored by the readers, so that a file of the next release can be read by this one
//! (C36). A file with a NUL byte, without its final line break or with a line that is no pair is
//! damaged as a whole (C43, C45): half a file is worse than none.

use std::fmt;

/// Largest file that is read, in bytes.
pub const FILE_BYTES_MAX: usize = 64 * 1024;

/// The pairs of one file, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs(Vec<(String, String)>);

/// Why a file is not a `key=value` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damaged {
    /// Nothing in it.
    Empty,
    /// More than [`FILE_BYTES_MAX`] bytes.
    TooLarge,
    /// Not UTF-8, or a control character such as NUL in it.
    NotText,
    /// The last line has no line break: the file was cut.
    CutOff,
    /// This line (counted from 1) has no `=` or no proper key.
    NoPair(usize),
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damaged::Empty => f.write_str("the file is empty"),
            Damaged::TooLarge => write!(f, "the file is larger than {FILE_BYTES_MAX} bytes"),
            Damaged::NotText => f.write_str("the file holds bytes that are no text"),
            Damaged::CutOff => f.write_str("the file's last line is cut off"),
            Damaged::NoPair(line) => write!(f, "line {line} is not key=value"),
        }
    }
}

impl std::error::Error for Damaged {}

impl Pairs {
    /// No pairs yet.
    pub fn new() -> Self {
        Pairs::default()
    }

    /// Reads a whole file.
    pub fn parse(bytes: &[u8]) -> Result<Self, Damaged> {
        if bytes.is_empty() {
            return Err(Damaged::Empty);
        }
        if bytes.len() > FILE_BYTES_MAX {
            return Err(Damaged::TooLarge);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| Damaged::NotText)?;
        if text.chars().any(|c| c.is_control() && c != '\n') {
            return Err(Damaged::NotText);
        }
        let body = text.strip_suffix('\n').ok_or(Damaged::CutOff)?;
        let mut pairs = Vec::new();
        for (number, line) in body.split('\n').enumerate() {
            let (key, value) = line.split_once('=').ok_or(Damaged::NoPair(number + 1))?;
            if !is_key(key) {
                return Err(Damaged::NoPair(number + 1));
            }
            pairs.push((key.to_owned(), value.to_owned()));
        }
        Ok(Pairs(pairs))
    }

    /// The value of the first pair with this key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// The values of every pair with this key, in order.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// The first value with this key, parsed; `None` if it is missing or does not parse.
    pub fn parsed<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.get(key)?.parse().ok()
    }

    /// Adds a pair. Control characters in the value become `?`: a value is one line, always.
    pub fn push(&mut self, key: &str, value: impl fmt::Display) -> &mut Self {
        debug_assert!(is_key(key), "{key} is not a key");
        let one_line = value.to_string().chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        self.0.push((key.to_owned(), one_line));
        self
    }
}

impl fmt::Display for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(key, value)| writeln!(f, "{key}={value}"))
    }
}

fn is_key(key: &str) -> bool {
    !key.is_empty()
        && key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut pairs = Pairs::new();
        pairs.push("format", 1).push("detail", "a=b c").push("log", "one\ntwo").push("log", "");
        let again = Pairs::parse(pairs.to_string().as_bytes()).unwrap();
        assert_eq!(again, pairs);
        assert_eq!(again.get("detail"), Some("a=b c"));
        assert_eq!(again.all("log").collect::<Vec<_>>(), ["one?two", ""]);
        assert_eq!(again.parsed::<u32>("format"), Some(1));
        assert_eq!(again.get("missing"), None);
    }

    #[test]
    fn c43_c45_a_damaged_file_is_damaged_as_a_whole() {
        let large = format!("a={}\n", "x".repeat(FILE_BYTES_MAX));
        let rows: [(&[u8], Damaged); 7] = [
            (b"", Damaged::Empty),
            (b"\0\0\0\0", Damaged::NotText),
            (b"a=1\nb=\0\n", Damaged::NotText),
            (b"a=1\nb=2", Damaged::CutOff),
            (b"a=1\n\n", Damaged::NoPair(2)),
            (b"A=1\n", Damaged::NoPair(1)),
            (large.as_bytes(), Damaged::TooLarge),
        ];
        for (bytes, wanted) in rows {
            assert_eq!(Pairs::parse(bytes), Err(wanted));
        }
    }
}

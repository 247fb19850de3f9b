//! The version of a host, and its order.
//!
//! Grammar: `N.N.N`, each number of up to nine digits, then an optional suffix: `~` or `+` and up to
//! 32 characters of `[0-9A-Za-z.]`. `1.5.0~rc1` comes before `1.5.0`, `1.5.0+fix` after it. The order
//! is that of dpkg (deb-version(7)) and of rpm for this grammar; a test asks the real `dpkg`.
//! No epoch and no package revision: a rollback compares plain versions (2-node, step 5).

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// Longest suffix after its `~` or `+`, in bytes.
pub const SUFFIX_BYTES_MAX: usize = 32;

/// A version of the host, for example `1.4.0` or `1.5.0~rc1`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    numbers: [u32; 3],
    suffix: String,
}

/// Why a text is not a version; displays as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAVersion(pub String);

impl fmt::Display for NotAVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.0.chars().take(64).map(|c| if c.is_control() { '?' } else { c }).collect();
        write!(
            f,
            "'{shown}' is not a version: expected N.N.N, then optionally ~ or + and letters, digits, dots"
        )
    }
}

impl std::error::Error for NotAVersion {}

impl Version {
    /// `0.0.0`, below every release.
    pub fn zero() -> Self {
        Version { numbers: [0; 3], suffix: String::new() }
    }
}

impl FromStr for Version {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let no = || NotAVersion(text.to_owned());
        let cut = text.find(['~', '+']).unwrap_or(text.len());
        let (head, suffix) = text.split_at(cut);
        let mut parts = head.split('.');
        let mut numbers = [0u32; 3];
        for number in &mut numbers {
            *number = parts.next().and_then(decimal).ok_or_else(no)?;
        }
        if parts.next().is_some() || !suffix_is_valid(suffix) {
            return Err(no());
        }
        Ok(Version { numbers, suffix: suffix.to_owned() })
    }
}

/// A number without sign or leading zero, of at most nine digits.
fn decimal(text: &str) -> Option<u32> {
    let plain = !text.is_empty() && text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit());
    let leading_zero = text.len() > 1 && text.starts_with('0');
    if plain && !leading_zero { text.parse().ok() } else { None }
}

fn suffix_is_valid(suffix: &str) -> bool {
    let Some(rest) = suffix.get(1..) else { return suffix.is_empty() };
    !rest.is_empty()
        && rest.len() <= SUFFIX_BYTES_MAX
        && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.')
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}{}", self.suffix)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| compare_suffixes(&self.suffix, &other.suffix))
    }
}

/// dpkg's comparison of what follows the numbers: runs of non-digits and of digits in turn.
fn compare_suffixes(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    while !a.is_empty() || !b.is_empty() {
        let text = compare_text(&mut a, &mut b);
        if text != Ordering::Equal {
            return text;
        }
        let number = take_number(&mut a).cmp(&take_number(&mut b));
        if number != Ordering::Equal {
            return number;
        }
    }
    Ordering::Equal
}

/// Compares and consumes the leading run of non-digits: `~` first, then the end, letters, the rest.
fn compare_text(a: &mut &[u8], b: &mut &[u8]) -> Ordering {
    loop {
        let (x, y) = (text_rank(a.first()), text_rank(b.first()));
        if x != y {
            return x.cmp(&y);
        }
        if x == 0 {
            return Ordering::Equal;
        }
        *a = a.get(1..).unwrap_or_default();
        *b = b.get(1..).unwrap_or_default();
    }
}

fn text_rank(byte: Option<&u8>) -> i32 {
    match byte {
        None => 0,
        Some(b) if b.is_ascii_digit() => 0,
        Some(b'~') => -1,
        Some(b) if b.is_ascii_alphabetic() => i32::from(*b),
        Some(b) => i32::from(*b) + 256,
    }
}

/// Consumes the leading digits; returns them without leading zeros, longest first in the order.
fn take_number<'a>(rest: &mut &'a [u8]) -> (usize, &'a [u8]) {
    let end = rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, tail) = rest.split_at(end);
    *rest = tail;
    let zeros = digits.iter().take_while(|b| **b == b'0').count();
    let significant = digits.get(zeros..).unwrap_or_default();
    (significant.len(), significant)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_and_what_is_not_a_version() {
        for good in ["0.0.0", "1.4.0", "1.10.0", "999999999.0.1", "1.5.0~rc1", "1.5.0+fix.2"] {
            assert_eq!(v(good).to_string(), good);
        }
        let long = format!("1.0.0+{}", "a".repeat(33));
        for bad in [
            "",
            "1",
            "1.2",
            "1.2.3.4",
            "v1.2.3",
            " 1.2.3",
            "1.2.3 ",
            "1.2.3\n",
            "01.2.3",
            "1.2.3-1",
            "1.2.3~",
            "1.2.3+",
            "-1.2.3",
            "1.2.3;rm",
            "1.2.3~a b",
            "1000000000.0.0",
            "\0\0\0\0\0",
            "1.2.3~é",
            &long,
        ] {
            assert!(bad.parse::<Version>().is_err(), "{bad:?} was taken for a version");
        }
    }

    #[test]
    fn order_of_releases_and_suffixes() {
        let rising = [
            "0.9.9",
            "1.4.0~rc1",
            "1.4.0~rc2",
            "1.4.0~rc10",
            "1.4.0",
            "1.4.0+a",
            "1.4.0+a1",
            "1.9.0",
            "1.10.0",
        ];
        for (i, low) in rising.iter().enumerate() {
            for (j, high) in rising.iter().enumerate() {
                assert_eq!(v(low).cmp(&v(high)), i.cmp(&j), "{low} against {high}");
            }
        }
    }

    /// The order must be dpkg's own, or a rollback and the package manager would disagree.
    #[test]
    fn order_is_that_of_dpkg() {
        let tool = std::process::Command::new("dpkg").arg("--version").output();
        if tool.is_err() {
            eprintln!("no dpkg on this machine: left out");
            return;
        }
        let texts = [
            "1.4.0",
            "1.4.0~a",
            "1.4.0~~",
            "1.4.0+1",
            "1.4.0+01a",
            "1.4.0+1.2",
            "1.4.0+a.b",
            "1.4.0~1a",
            "1.4.1",
        ];
        for a in texts.iter().filter_map(|t| t.parse::<Version>().ok()) {
            for b in texts.iter().filter_map(|t| t.parse::<Version>().ok()) {
                for (operator, wanted) in [("lt", Ordering::Less), ("eq", Ordering::Equal)] {
                    let said = std::process::Command::new("dpkg")
                        .args(["--compare-versions", &a.to_string(), operator, &b.to_string()])
                        .status()
                        .unwrap();
                    assert_eq!(said.success(), compare(&a, &b) == wanted, "dpkg: {a} {operator} {b}");
                }
            }
        }
    }

    fn compare(a: &Version, b: &Version) -> Ordering {
        a.cmp(b)
    }
}

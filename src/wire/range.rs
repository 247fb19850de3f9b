//! `Range` and `Content-Range` as far as packages need them: one open range from an offset (RFC 9110,
//! section 14). A node resumes a download where it broke off; nothing else is asked for.

use std::fmt;

/// What a `Range` header asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The whole value: no header, or one that is not for us (ignored, as the RFC says).
    Whole,
    /// From this offset to the end.
    From(u64),
    /// From this offset to this one, both included.
    Between(u64, u64),
    /// Nothing that this value has: answer 416.
    Unsatisfiable,
}

/// Reads a `Range` header for a value of `length` bytes.
pub fn wanted(header: Option<&str>, length: u64) -> Wanted {
    let Some(spec) = header.and_then(|h| h.trim().strip_prefix("bytes=")) else { return Wanted::Whole };
    if spec.contains(',') {
        return Wanted::Whole;
    }
    let Some((first, last)) = spec.split_once('-') else { return Wanted::Whole };
    match (first.trim().parse::<u64>(), last.trim()) {
        (Ok(first), _) if first >= length => Wanted::Unsatisfiable,
        (Ok(first), "") => Wanted::From(first),
        (Ok(first), last) => match last.parse::<u64>() {
            Ok(last) if last >= first => Wanted::Between(first, last.min(length - 1)),
            _ => Wanted::Whole,
        },
        (Err(_), last) if first.trim().is_empty() => match last.parse::<u64>() {
            Ok(0) => Wanted::Unsatisfiable,
            Ok(count) => Wanted::From(length.saturating_sub(count)),
            Err(_) => Wanted::Whole,
        },
        (Err(_), _) => Wanted::Whole,
    }
}

/// A `Content-Range` of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// First byte served.
    pub first: u64,
    /// Last byte served.
    pub last: u64,
    /// Length of the whole value.
    pub length: u64,
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytes {}-{}/{}", self.first, self.last, self.length)
    }
}

/// Reads a `Content-Range` header.
pub fn served(header: &str) -> Option<Served> {
    let (range, length) = header.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let served =
        Served { first: first.parse().ok()?, last: last.parse().ok()?, length: length.parse().ok()? };
    (served.first <= served.last && served.last < served.length).then_some(served)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_as_the_rfc_has_them() {
        let rows = [
            (None, Wanted::Whole),
            (Some("bytes=0-"), Wanted::From(0)),
            (Some("bytes=99-"), Wanted::From(99)),
            (Some("bytes=100-"), Wanted::Unsatisfiable),
            (Some("bytes=10-19"), Wanted::Between(10, 19)),
            (Some("bytes=10-1000"), Wanted::Between(10, 99)),
            (Some("bytes=-10"), Wanted::From(90)),
            (Some("bytes=-0"), Wanted::Unsatisfiable),
            (Some("bytes=19-10"), Wanted::Whole),
            (Some("bytes=0-1,5-6"), Wanted::Whole),
            (Some("items=0-1"), Wanted::Whole),
            (Some("bytes=abc"), Wanted::Whole),
        ];
        for (header, expected) in rows {
            assert_eq!(wanted(header, 100), expected, "{header:?}");
        }
        assert_eq!(wanted(Some("bytes=0-"), 0), Wanted::Unsatisfiable);
    }

    #[test]
    fn what_is_served_reads_back() {
        let range = Served { first: 5, last: 9, length: 10 };
        assert_eq!(served(&range.to_string()), Some(range));
        for bad in ["bytes 9-5/10", "bytes 5-10/10", "bytes */10", "", "bytes 1-2"] {
            assert_eq!(served(bad), None, "{bad}");
        }
    }
}

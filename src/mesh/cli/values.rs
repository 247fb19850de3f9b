//! Values that people type: durations, sizes of waves.

use crate::mesh::delivery::Size;
use std::time::Duration;

/// Longest duration that is taken: a rollout of a year is a typing error.
const SECONDS_MAX: u64 = 365 * 86_400;
/// Most waves that are spelled out; the last one is repeated anyway.
const WAVES_MAX: usize = 32;

/// A list of sizes, as one argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(pub Vec<Size>);

/// `500ms`, `10s`, `5m`, `24h`, `7d`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("'{text}' is not a duration: expected a number and ms, s, m, h or d, for example 10m");
    let split = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let milliseconds = match unit {
        "ms" => Some(number),
        "s" => number.checked_mul(1000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        "d" => number.checked_mul(86_400_000),
        _ => None,
    };
    let duration = Duration::from_millis(milliseconds.ok_or_else(wrong)?);
    if duration > Duration::from_secs(SECONDS_MAX) { Err(wrong()) } else { Ok(duration) }
}

/// `2` nodes or `5%`.
pub fn size(text: &str) -> Result<Size, String> {
    let wrong =
        || format!("'{text}' is not a size: expected a number of nodes (2) or a share (5%), not zero");
    let (number, percent) = match text.strip_suffix('%') {
        Some(number) => (number, true),
        None => (text, false),
    };
    let plain = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    let number: u32 = number.parse().map_err(|_| wrong())?;
    match (plain, percent, number) {
        (true, true, 1..=100) => Ok(Size::Percent(number)),
        (true, false, 1..) => Ok(Size::Nodes(number)),
        _ => Err(wrong()),
    }
}

/// `2,5%,20%`.
pub fn sizes(text: &str) -> Result<Sizes, String> {
    let sizes = text.split(',').map(|part| size(part.trim())).collect::<Result<Vec<_>, _>>()?;
    if sizes.len() > WAVES_MAX { Err(format!("at most {WAVES_MAX} waves")) } else { Ok(Sizes(sizes)) }
}

/// Seconds as people say them: `12s`, `5m`, `3h`, `2d`.
pub fn ago(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_type() {
        let rows =
            [("500ms", Some(500)), ("10s", Some(10_000)), ("5m", Some(300_000)), ("1h", Some(3_600_000))];
        for (text, wanted) in rows {
            assert_eq!(duration(text).ok().map(|d| d.as_millis()), wanted, "{text}");
        }
        for bad in ["", "10", "s", "-1s", "1.5h", "10 s", "999999999999999999999s", "9999d", "10S"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        let wanted = Sizes(vec![Size::Nodes(2), Size::Percent(5), Size::Percent(20)]);
        assert_eq!(sizes("2,5%, 20%").unwrap(), wanted);
        for bad in ["", "0", "0%", "101%", "+2", "2,,3", "5 %", "-1"] {
            assert!(sizes(bad).is_err(), "{bad}");
        }
    }
}

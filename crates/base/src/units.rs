use std::time::{Duration, SystemTime};

use crate::{Error, Kind, Result};

/// Reads a duration as users write it: `1800ms`, `60s`, `1m30s`.
pub fn parse_duration(text: &str) -> Result<Duration> {
    humantime::parse_duration(text.trim()).map_err(|cause| {
        Error::new(Kind::Usage, format!("read '{text}' as a duration"), cause)
            .remedy("write a number and a unit, such as 1800ms, 60s or 2m")
    })
}

/// Writes a duration as [`parse_duration`] reads it.
pub fn format_duration(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

/// Now, in UTC, to the millisecond: `2026-11-28T13:49:58.123Z`.
pub fn timestamp() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}

/// A part of a whole: `12.3 %`.
pub fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

/// A ratio as the change that it is: `+3.9 %`.
pub fn change(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

/// A time in nanoseconds with a unit that leaves two or three digits: `1.25 ms`, `310 us`.
pub fn brief_time(ns: f64) -> String {
    let (value, unit) = match ns {
        n if n < 1e3 => (n, "ns"),
        n if n < 1e6 => (n / 1e3, "us"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    let digits = match value {
        v if v >= 99.95 || v.fract() == 0.0 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brief_time_has_two_or_three_digits() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (999.0, "999 ns"),
            (1250.0, "1.25 us"),
            (31e6, "31 ms"),
            (61.25e9, "61.2 s"),
        ] {
            assert_eq!(brief_time(ns), text);
        }
    }

    #[test]
    fn parts_and_changes_are_told_in_percent() {
        assert_eq!((percent(0.1234).as_str(), change(1.039).as_str()), ("12.3 %", "+3.9 %"));
        assert_eq!(change(0.9), "-10.0 %");
        let now = timestamp();
        assert_eq!((now.len(), &now[10..11], &now[23..]), (24, "T", "Z"), "{now}");
    }

    #[test]
    fn durations_are_read_as_they_are_written() {
        for text in ["1s 800ms", "1m 30s", "2us"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
        assert_eq!(parse_duration("1800ms").unwrap(), Duration::from_millis(1800));
    }

    #[test]
    fn a_number_without_a_unit_is_refused_with_an_example() {
        let e = parse_duration("1800").unwrap_err();
        assert_eq!(e.kind, Kind::Usage);
        assert!(e.to_string().contains("1800ms"), "{e}");
    }
}

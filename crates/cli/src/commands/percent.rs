//! Shares and ratios, as users write and read them.

use metasched_base::{Error, Kind, Result};
use metasched_stats::Interval;

/// A ratio as the change that it is, with its interval: `+3.9 % (+1.2 to +6.7)`.
pub fn change(ratio: Interval) -> String {
    let percent = |value: f64| (value - 1.0) * 100.0;
    let (low, high) = (percent(ratio.low), percent(ratio.high));
    format!("{} ({low:+.1} to {high:+.1})", metasched_base::change(ratio.estimate))
}

/// Reads `5%` or `0.05` as 0.05.
pub fn parse_percent(text: &str) -> Result<f64> {
    let (number, scale) = match text.trim().strip_suffix('%') {
        Some(number) => (number.trim(), 100.0),
        None => (text.trim(), 1.0),
    };
    match number.parse::<f64>() {
        Ok(value) if value > 0.0 && value / scale < 1.0 => Ok(value / scale),
        _ => Err(Error::new(
            Kind::Usage,
            format!("read '{text}' as a precision"),
            "it is not between 0 and 100 %",
        )
        .remedy("write it like 5%")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_read_in_percent_or_as_a_number() {
        assert_eq!(parse_percent("5%").unwrap(), 0.05);
        assert_eq!(parse_percent("2.5 %").unwrap(), 0.025);
        assert_eq!(parse_percent("0.05").unwrap(), 0.05);
        for wrong in ["5", "0%", "-1%", "x", "", "100%"] {
            assert_eq!(parse_percent(wrong).unwrap_err().kind, Kind::Usage, "{wrong}");
        }
    }
}

//! Shares and ratios, as users write and read them.

use metasched_base::{Error, Kind, Result};
use metasched_stats::Interval;

/// A ratio as the change that it is, with its interval: `+3.9 % (+1.2 to +6.7)`.
pub fn change(ratio: Interval) -> String {
    let percent = |value: f64| (value - 1.0) * 100.0;
    let (low, high) = (percent(ratio.low), percent(ratio.high));
    format!("{} ({low:+.1} to {high:+.1})", metasched_base::change(ratio.estimate))
}

/// Reads `5%` or `5` as 0.05. A bare number below 1 is refused: as a part it would be another one
/// than in percent.
pub fn parse_percent(text: &str) -> Result<f64> {
    let (number, least) = match text.trim().strip_suffix('%') {
        Some(number) => (number.trim(), 0.0),
        None => (text.trim(), 1.0),
    };
    match number.parse::<f64>() {
        Ok(value) if value > 0.0 && value >= least && value < 100.0 => Ok(value / 100.0),
        Ok(value) if value > 0.0 && value < 1.0 => {
            let cause = format!("it may mean {value} % or {} %", percent_of(value));
            Err(Error::new(Kind::Usage, attempt(text), cause).remedy("write it like 5%"))
        }
        _ => Err(Error::new(Kind::Usage, attempt(text), "it is not between 0 and 100 %")
            .remedy("write it like 5%")),
    }
}

fn attempt(text: &str) -> String {
    format!("read '{text}' as a percentage")
}

/// Without what comes of binary fractions: 7, not 7.000000000000001.
fn percent_of(part: f64) -> f64 {
    const DIGITS: f64 = 1e9;
    (part * 100.0 * DIGITS).round() / DIGITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_read_in_percent_with_and_without_the_sign() {
        for (text, part) in [("5%", 0.05), ("5", 0.05), ("2.5 %", 0.025), ("0.5%", 0.005)] {
            assert_eq!(parse_percent(text).unwrap(), part, "{text}");
        }
        for wrong in ["0%", "-1%", "x", "", "100%", "100", "0"] {
            assert_eq!(parse_percent(wrong).unwrap_err().kind, Kind::Usage, "{wrong}");
        }
        let e = parse_percent("0.05").unwrap_err().to_string();
        assert!(e.contains("0.05 % or 5 %") && e.contains("like 5%"), "{e}");
    }
}

use metasched_base::{Error, Kind, Result};

/// Reads `5%` or `0.05` as 0.05.
pub(super) fn parse_percent(text: &str) -> Result<f64> {
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

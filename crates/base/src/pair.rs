use crate::{Error, Kind, Result};

/// Reads `NAME=VALUE`, whose name must not be empty, as `what`; `example` is how one is written.
pub fn parse_pair(text: &str, what: &str, example: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.to_owned()))
        }
        _ => {
            Err(Error::new(Kind::Usage, format!("read '{text}' as {what}"), "it is not NAME=VALUE")
                .remedy(format!("write it like {example}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_has_a_name_and_any_value() {
        let read = |text| parse_pair(text, "a variable", "LANG=C");
        assert_eq!(read("A=b=c").unwrap(), ("A".to_owned(), "b=c".to_owned()));
        assert_eq!(read("A=").unwrap().1, "");
        for wrong in ["A", "=b", " =b"] {
            let e = read(wrong).unwrap_err();
            assert_eq!(e.kind, Kind::Usage);
            assert!(e.remedy.contains("LANG=C"), "{e}");
        }
    }
}

//! Variables in the texts of a manifest: `$NAME` and `${NAME}`; `$$` is a dollar sign.

use metasched_base::{Error, Kind, Result};

/// A piece of a text: as it is, or the name of a variable.
enum Piece<'a> {
    Text(&'a str),
    Variable(&'a str),
}

/// Replaces the variables; one that `value` does not know is an error.
pub fn expand(text: &str, value: impl Fn(&str) -> Option<String>) -> Result<String> {
    let mut out = String::new();
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Variable(name) => out.push_str(&value(name).ok_or_else(|| {
                Error::new(
                    Kind::BadInput,
                    format!("expand '{text}'"),
                    format!("the variable {name} has no value"),
                )
                .remedy("set it in the environment, or write $$ for a dollar sign")
            })?),
        }
    }
    Ok(out)
}

/// The names of the variables in a text.
pub(super) fn variables(text: &str) -> impl Iterator<Item = &str> {
    pieces(text).into_iter().filter_map(|piece| match piece {
        Piece::Variable(name) => Some(name),
        Piece::Text(_) => None,
    })
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        pieces.push(Piece::Text(&rest[..at]));
        let after = &rest[at + 1..];
        let braced = after.strip_prefix('{').and_then(|inner| {
            let end = inner.find('}')?;
            Some((&inner[..end], end + 2))
        });
        let bare = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let bare = (&after[..bare.unwrap_or(after.len())], bare.unwrap_or(after.len()));
        let (name, length) = braced.unwrap_or(bare);
        if name.is_empty() {
            // A dollar sign that begins no variable; two of them are one.
            pieces.push(Piece::Text("$"));
            rest = after.strip_prefix('$').unwrap_or(after);
        } else {
            pieces.push(Piece::Variable(name));
            rest = &after[length..];
        }
    }
    pieces.push(Piece::Text(rest));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(name: &str) -> Option<String> {
        (name == "RUN").then(|| "/run/x".to_owned())
    }

    #[test]
    fn variables_are_replaced_in_both_spellings() {
        for (text, wanted) in [
            ("$RUN/a.sock", "/run/x/a.sock"),
            ("${RUN}b", "/run/xb"),
            ("5$$ and $", "5$ and $"),
            ("$$RUN", "$RUN"),
            ("plain", "plain"),
        ] {
            assert_eq!(expand(text, known).unwrap(), wanted, "{text}");
        }
    }

    #[test]
    fn a_variable_without_a_value_is_an_error_that_names_it() {
        let e = expand("$NOPE/x", known).unwrap_err();
        assert!(e.cause.contains("NOPE"), "{e}");
    }
}

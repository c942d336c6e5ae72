use std::fmt::Display;

use serde::de::DeserializeOwned;

use crate::{Error, Kind, Result, nearest};

/// A file that a user wrote, so that what is wrong in it is told with its line.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The file's name, as the user gave it.
    pub path: &'a str,
    /// What is in it.
    pub text: &'a str,
}

impl Place<'_> {
    /// `path:line` of a byte in the file.
    pub fn line(&self, offset: usize) -> String {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        format!("{}:{line}", self.path)
    }

    /// What is wrong at a byte in the file.
    pub fn error(&self, attempt: impl Into<String>, offset: usize, cause: impl Display) -> Error {
        Error::new(Kind::BadInput, attempt, format!("{}: {cause}", self.line(offset)))
    }

    /// What the file says, which is TOML. Where a key or a value is not known and a known one is
    /// near, that is the remedy, else `remedy`.
    pub fn toml<T: DeserializeOwned>(&self, attempt: &str, remedy: &str) -> Result<T> {
        toml::from_str(self.text).map_err(|e| {
            let error = self.error(attempt, e.span().map_or(0, |span| span.start), e.message());
            match known_word(e.message()) {
                Some(word) => error.remedy(format!("did you mean '{word}'?")),
                None => error.remedy(remedy),
            }
        })
    }
}

/// The word that was meant, if serde says that one is unknown, and which there are. It has no other
/// way to say so than this message.
fn known_word(message: &str) -> Option<&str> {
    let mut words = message.split('`').skip(1).step_by(2);
    let wrong = words.next().filter(|_| message.starts_with("unknown "))?;
    let expected: Vec<&str> = words.collect();
    nearest(wrong, expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_that_of_the_byte_and_past_the_end_the_last_one() {
        let place = Place { path: "a.toml", text: "one\ntwo\n" };
        assert_eq!(place.line(0), "a.toml:1");
        assert_eq!(place.line(4), "a.toml:2");
        assert_eq!(place.line(99), "a.toml:3");
        let e = place.error("read it", 5, "it is wrong");
        assert_eq!(e.cause, "a.toml:2: it is wrong");
    }

    #[test]
    fn an_unknown_key_is_told_with_its_line_and_with_the_one_that_was_meant() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            #[allow(dead_code)]
            policy: String,
        }
        let read = |text| Place { path: "a.toml", text }.toml::<File>("read it", "see the page");
        read("policy = 'fifo'").unwrap();
        let e = read("# one\npolcy = 'fifo'").unwrap_err();
        assert!(e.cause.starts_with("a.toml:2: unknown field"), "{e}");
        assert_eq!(e.remedy, "did you mean 'policy'?");
        assert_eq!(read("policy = 1").unwrap_err().remedy, "see the page");
    }
}

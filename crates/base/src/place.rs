use std::fmt::Display;

use crate::{Error, Kind};

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
}

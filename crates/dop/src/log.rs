//! What is said to the user.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;

/// Where the line goes that is written at exit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Log {
    Stderr,
    File(PathBuf),
}

impl Log {
    /// Writes a line to it, after those of other processes.
    pub fn write(&self, line: &str) {
        let path = match self {
            Log::Stderr => return say(line),
            Log::File(path) => path,
        };
        let open = OpenOptions::new().append(true).create(true).open(path);
        // In one piece, so that lines of several processes stay whole.
        let written = open.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        if let Err(error) = written {
            say(&format!(
                "cannot write what was done to {}: {error}; name another file in METASCHED_DOP_LOG",
                path.display()
            ));
        }
    }
}

/// Writes a line to standard error. That may be closed, which is the program's business.
pub(crate) fn say(line: &str) {
    let _ = io::stderr().write_all(format!("metasched-dop: {line}\n").as_bytes());
}

//! What is said to the user.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::OnceLock;

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

/// Which file standard error was when the library was started, by its device and number; none if it was closed.
static STDERR: OnceLock<Option<(u64, u64)>> = OnceLock::new();

fn stderr_now() -> Option<(u64, u64)> {
    // SAFETY: all numbers may be zero.
    let mut data: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `data` is ours for the call, which looks whether the descriptor is open.
    let found = unsafe { libc::fstat(libc::STDERR_FILENO, &raw mut data) } == 0;
    found.then_some((data.st_dev, data.st_ino))
}

/// Says which file standard error is. To be called before the program can close it.
pub(crate) fn know_stderr() {
    STDERR.get_or_init(stderr_now);
}

/// Writes a line to standard error. Where the program has closed that, or has a file of its own in its place, the
/// line is lost: it must not get into that file.
pub(crate) fn say(line: &str) {
    if STDERR.get().is_some_and(|known| *known != stderr_now()) {
        return;
    }
    let _ = io::stderr().write_all(format!("metasched-dop: {line}\n").as_bytes());
}

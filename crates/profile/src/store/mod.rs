//! What was measured, kept in one SQLite file.
//!
//! Every finished measurement is committed at once, with a journal that works over
//! network file systems too (the testbed's guest writes to its host's files), so
//! that a kill or a power cut at any moment loses at most the run in progress.

mod open;
mod query;
mod schema;
#[cfg(test)]
mod tests;
mod write;

use std::path::{Path, PathBuf};

use metasched_base::{Error, Kind};
use rusqlite::Connection;

pub use open::default_path;
pub use query::Query;
pub use write::NewMeasurement;

/// The store of results.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

impl Store {
    /// The file that it lives in.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Turns a failure of SQLite into one that says what to do.
    fn failure(&self, attempt: &str, cause: &rusqlite::Error) -> Error {
        failure(&self.path, attempt, cause)
    }
}

/// As [`Store::failure`], while there is no store yet.
fn failure(path: &Path, attempt: &str, cause: &rusqlite::Error) -> Error {
    use rusqlite::ErrorCode as Code;
    let file = path.display();
    let attempt = format!("{attempt} '{file}'");
    let code = match cause {
        rusqlite::Error::SqliteFailure(e, _) => Some(e.code),
        _ => None,
    };
    match code {
        Some(Code::NotADatabase) => {
            Error::new(Kind::BadInput, attempt, "the file is not a SQLite database")
                .remedy("give another path with --store; the file was left as it is")
        }
        Some(Code::DatabaseCorrupt) => Error::new(Kind::BadInput, attempt, "the file is damaged")
            .remedy(format!(
                "keep a copy, save what can be read with `sqlite3 '{file}' .recover`, \
                 or give another path with --store; the file was left as it is"
            )),
        Some(Code::DiskFull) => Error::new(Kind::Failed, attempt, "no space is left on its disk")
            .remedy("free some and repeat the command: what was finished before is kept"),
        Some(Code::ReadOnly | Code::PermissionDenied | Code::AuthorizationForStatementDenied) => {
            Error::new(Kind::Denied, attempt, cause)
                .remedy("give a path that can be written with --store")
        }
        Some(Code::CannotOpen) => Error::new(Kind::Failed, attempt, cause)
            .remedy("give a path in a folder that can be written with --store"),
        Some(Code::DatabaseBusy | Code::DatabaseLocked) => {
            Error::new(Kind::Busy, attempt, "another process holds it")
                .remedy("wait until the other metasched is done")
        }
        Some(Code::SystemIoFailure) => Error::new(Kind::Failed, attempt, cause)
            .remedy("check the disk; what was finished before is kept"),
        _ => Error::new(Kind::Failed, attempt, cause),
    }
}

/// A value in the store that this program did not write.
fn unreadable(path: &Path, table: &str, id: i64, cause: impl std::fmt::Display) -> Error {
    Error::new(
        Kind::BadInput,
        format!("read the store '{}'", path.display()),
        format!("row {id} of '{table}' makes no sense: {cause}"),
    )
    .remedy("give another path with --store, or delete that row; the file was left as it is")
}

/// Now, as the store writes it.
pub(crate) fn now() -> String {
    metasched_base::timestamp()
}

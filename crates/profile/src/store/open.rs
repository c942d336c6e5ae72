use std::path::{Path, PathBuf};
use std::time::Duration;

use metasched_base::{Error, Kind, Result, ResultExt};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::{Store, failure, schema};

/// How long another process may hold the store: a commit takes milliseconds, over
/// the testbed's shared folder some hundred.
const BUSY_TIMEOUT: Duration = Duration::from_secs(20);

/// Where the store is when nobody says: `$METASCHED_STORE`, else
/// `/var/lib/metasched/store.db` for root and the XDG state folder for others.
pub fn default_path() -> PathBuf {
    if let Some(path) = std::env::var_os("METASCHED_STORE").filter(|p| !p.is_empty()) {
        return PathBuf::from(path);
    }
    if nix::unistd::geteuid().is_root() {
        return PathBuf::from("/var/lib/metasched/store.db");
    }
    let state = std::env::var_os("XDG_STATE_HOME")
        .filter(|p| !p.is_empty())
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state")))
        .unwrap_or_else(|| PathBuf::from("."));
    state.join("metasched/store.db")
}

impl Store {
    /// Opens the store, makes it where there is none, and brings an older one to
    /// the present schema in place, in one transaction.
    ///
    /// Errors: [`Kind::BadInput`] if the file is not a store, is damaged, or was
    /// written by a newer metasched; [`Kind::Denied`] if it cannot be written;
    /// [`Kind::Busy`] if another process holds it. None of them changes the file.
    pub fn open(path: impl AsRef<Path>) -> Result<Store> {
        let path = path.as_ref();
        let attempt = "open the store";
        let whole = || format!("{attempt} '{}'", path.display());
        if path.is_dir() {
            return Err(Error::new(Kind::BadInput, whole(), "it is a folder")
                .remedy("give the path of a file with --store"));
        }
        if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|e| {
                let kind = match e.kind() {
                    std::io::ErrorKind::PermissionDenied
                    | std::io::ErrorKind::ReadOnlyFilesystem => Kind::Denied,
                    _ => Kind::Failed,
                };
                Error::new(kind, whole(), format!("its folder cannot be made: {e}"))
                    .remedy("give a path in a folder that can be written with --store")
            })?;
        }
        let path = std::path::absolute(path).attempt(Kind::Failed, whole)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection =
            Connection::open_with_flags(&path, flags).map_err(|e| failure(&path, attempt, &e))?;
        let mut store = Store { connection, path };
        store.prepare(attempt)?;
        Ok(store)
    }

    fn prepare(&mut self, attempt: &str) -> Result<()> {
        let fail = |e: &rusqlite::Error, path: &Path| failure(path, attempt, e);
        let path = self.path.clone();
        let whole = format!("{attempt} '{}'", path.display());
        let db = &mut self.connection;
        db.busy_timeout(BUSY_TIMEOUT).map_err(|e| fail(&e, &path))?;
        // Reads the header, hence the first to see a file that is no database.
        let (application, version, tables) = facts(db).map_err(|e| fail(&e, &path))?;
        if application != schema::APPLICATION_ID && (application != 0 || version != 0 || tables > 0)
        {
            return Err(Error::new(
                Kind::BadInput,
                whole,
                "it is a SQLite database of another program",
            )
            .remedy("give another path with --store; the file was left as it is"));
        }
        if version > schema::CURRENT {
            return Err(Error::new(
                Kind::BadInput,
                whole,
                format!(
                    "a newer metasched wrote it (schema {version}; this one knows up to {})",
                    schema::CURRENT
                ),
            )
            .remedy("use that metasched, or give another path with --store"));
        }
        // Opening read-only files succeeds: only a write shows it.
        if db.is_readonly("main").map_err(|e| fail(&e, &path))? {
            return Err(Error::new(Kind::Denied, whole, "it cannot be written")
                .remedy("change its permissions, or give another path with --store"));
        }
        let damage: String = db
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(|e| fail(&e, &path))?;
        if damage != "ok" {
            let corrupt = rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT),
                Some(damage),
            );
            return Err(fail(&corrupt, &path));
        }
        db.pragma_update(None, "journal_mode", "TRUNCATE")
            .and_then(|()| db.pragma_update(None, "synchronous", "FULL"))
            .and_then(|()| db.pragma_update(None, "foreign_keys", true))
            .map_err(|e| fail(&e, &path))?;
        if version < schema::CURRENT {
            migrate(db).map_err(|e| fail(&e, &path))?;
        }
        Ok(())
    }
}

/// The application id, the schema's version, and the number of tables.
fn facts(db: &mut Connection) -> rusqlite::Result<(i32, i32, i64)> {
    // One transaction, because another process may be making the store at this moment:
    // read one by one, its tables would be there and the mark before them would not.
    let snapshot = db.transaction()?;
    // Takes the read lock; reading a pragma alone may not.
    let tables = snapshot.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok((
        snapshot.query_row("PRAGMA application_id", [], |row| row.get(0))?,
        snapshot.query_row("PRAGMA user_version", [], |row| row.get(0))?,
        tables,
    ))
}

/// Takes the steps that the store lacks, all or none.
fn migrate(db: &mut Connection) -> rusqlite::Result<()> {
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Asked again under the lock: another process may have been first.
    let version: i32 = change.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    for step in schema::STEPS.iter().skip(usize::try_from(version).unwrap_or(0)) {
        change.execute_batch(step)?;
    }
    change.pragma_update(None, "application_id", schema::APPLICATION_ID)?;
    change.pragma_update(None, "user_version", schema::CURRENT)?;
    change.commit()
}

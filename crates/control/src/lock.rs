use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_host::process::ProcessId;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

/// Where everything lives that is true until the next boot only.
pub const RUN_DIR: &str = "/run/metasched";

/// How long a guard may take to put things right after a metasched was killed.
const GUARD_PATIENCE: Duration = Duration::from_secs(20);

/// Who only asks for the holder has the lock for the microseconds that reading takes.
const READER_PATIENCE: Duration = Duration::from_millis(100);

/// Who owns changes of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    /// The process.
    pub id: ProcessId,
    /// What it does: `metasched run`, `metasched profile`, ...
    pub command: String,
    /// Since when, in seconds since 1970.
    pub since_unix_s: u64,
}

/// The lock that only one metasched on a machine holds: whoever changes schedulers.
///
/// It is shared with the guard, so that after a kill -9 it stays held until the
/// guard has put things right.
#[derive(Debug)]
pub(crate) struct Lock(Flock<File>);

impl Lock {
    /// Takes the lock in `run_dir`, which is made if need be.
    pub(crate) fn take(run_dir: &Path, command: &str) -> Result<Self> {
        let path = run_dir.join("lock");
        let attempt = || format!("take the lock '{}'", path.display());
        let open = std::fs::create_dir_all(run_dir).and_then(|()| {
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)
        });
        let mut file = open.map_err(|e| match e.kind() {
            std::io::ErrorKind::PermissionDenied => Error::new(Kind::Denied, attempt(), e)
                .remedy("changing the scheduler takes root: run it with sudo"),
            _ => Error::new(Kind::Failed, attempt(), e),
        })?;
        let began = Instant::now();
        let mut lock = loop {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => break lock,
                Err((back, Errno::EWOULDBLOCK)) => {
                    file = back;
                    // The text may be half written by one that takes the lock just now.
                    let owner = read(&path);
                    let dead = owner.as_ref().is_some_and(|o| !o.id.is_alive(Path::new("/")));
                    let patience = if dead { GUARD_PATIENCE } else { READER_PATIENCE };
                    if began.elapsed() >= patience {
                        return Err(busy(attempt(), owner, dead));
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err((_, e)) => return Err(e).attempt(Kind::Failed, attempt),
            }
        };
        let owner = LockHolder {
            id: ProcessId::of(Path::new("/"), std::process::id().cast_signed())
                .unwrap_or(ProcessId { pid: std::process::id().cast_signed(), start_ticks: 0 }),
            command: command.to_owned(),
            since_unix_s: crate::exit::unix_now_s(),
        };
        let text = serde_json::to_string(&owner).attempt(Kind::Failed, attempt)?;
        lock.set_len(0)
            .and_then(|()| lock.seek(SeekFrom::Start(0)))
            .and_then(|_| writeln!(lock, "{text}"))
            .attempt(Kind::Failed, attempt)?;
        Ok(Self(lock))
    }

    /// Another handle of the same lock, for the guard.
    pub(crate) fn share(&self) -> Result<File> {
        self.0.try_clone().attempt(Kind::Failed, || "share the lock with the guard".to_owned())
    }
}

/// Who holds the lock in `run_dir` now, if anybody does.
pub fn lock_holder(run_dir: &Path) -> Option<LockHolder> {
    let path = run_dir.join("lock");
    let file = File::open(&path).ok()?;
    match Flock::lock(file, FlockArg::LockSharedNonblock) {
        Err((_, Errno::EWOULDBLOCK)) => read(&path),
        _ => None,
    }
}

fn read(path: &Path) -> Option<LockHolder> {
    serde_json::from_str(std::fs::read_to_string(path).ok()?.lines().next()?).ok()
}

fn busy(attempt: String, owner: Option<LockHolder>, dead: bool) -> Error {
    match owner {
        Some(owner) if dead => Error::new(
            Kind::Busy,
            attempt,
            format!(
                "the guard of '{}' (process {}, killed) is still putting things right",
                owner.command, owner.id.pid
            ),
        )
        .remedy("try again in some seconds; guard.log beside the lock says what it does"),
        Some(owner) => Error::new(
            Kind::Busy,
            attempt,
            format!("'{}' (process {}) holds it", owner.command, owner.id.pid),
        )
        .remedy(if owner.command.ends_with(" start") {
            "use 'metasched switch NAME' to change what it runs, or 'metasched stop'".to_owned()
        } else {
            format!("wait for it to end, or stop it: kill {}", owner.id.pid)
        }),
        None => Error::new(Kind::Busy, attempt, "another metasched holds it")
            .remedy("wait for it to end"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_taker_is_told_who_holds_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let lock = Lock::take(folder.path(), "metasched run").unwrap();
        let e = Lock::take(folder.path(), "metasched profile").unwrap_err();
        assert_eq!(e.kind, Kind::Busy);
        let pid = std::process::id();
        assert!(e.to_string().contains(&format!("'metasched run' (process {pid})")), "{e}");
        assert_eq!(lock_holder(folder.path()).unwrap().command, "metasched run");
        drop(lock);
        assert_eq!(lock_holder(folder.path()), None);
        Lock::take(folder.path(), "metasched profile").unwrap();
    }

    #[test]
    fn the_lock_is_held_as_long_as_anyone_shares_it() {
        let folder = tempfile::tempdir().unwrap();
        let lock = Lock::take(folder.path(), "metasched run").unwrap();
        let shared = lock.share().unwrap();
        // A killed process runs no destructor: its descriptors are closed, no more.
        let raw = std::mem::ManuallyDrop::new(lock);
        nix::unistd::close(std::os::fd::AsRawFd::as_raw_fd(&*raw.0)).unwrap();
        assert!(lock_holder(folder.path()).is_some());
        drop(shared);
        assert_eq!(lock_holder(folder.path()), None);
    }
}

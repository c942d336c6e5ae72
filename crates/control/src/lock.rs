use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_host::process::ProcessId;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::unistd::{Uid, geteuid};
use serde::{Deserialize, Serialize};

/// Where everything lives that is true until the next boot only.
pub const RUN_DIR: &str = "/run/metasched";

/// How long a guard may take to put things right after a metasched was killed.
const GUARD_PATIENCE: Duration = Duration::from_secs(20);

/// A process that only asks for the holder has the lock for the microseconds that reading takes.
const READER_PATIENCE: Duration = Duration::from_millis(100);

/// The process that owns changes of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    /// The process.
    pub id: ProcessId,
    /// What it does: `metasched run`, `metasched profile`, ...
    pub command: String,
    /// Since when, in seconds since 1970.
    pub since_unix_s: u64,
}

/// The lock that only one metasched on a machine holds: the one that changes schedulers.
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
        let failed = |e: std::io::Error| match e.kind() {
            std::io::ErrorKind::PermissionDenied => Error::new(Kind::Denied, attempt(), e)
                .remedy("changing the scheduler takes root: run it with sudo"),
            _ => Error::new(Kind::Failed, attempt(), e),
        };
        make_run_dir(run_dir).map_err(failed)?;
        let mut file = open_ours(&path).map_err(failed)?;
        keep_to_ourselves(&file, &path, geteuid())
            .map_err(|e| Error { attempt: attempt(), ..e })?;
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

/// Makes the run folder, where everybody may look and only we may write, whatever the umask is.
pub fn make_run_dir(run_dir: &Path) -> std::io::Result<()> {
    match DirBuilder::new().recursive(true).mode(0o755).create(run_dir) {
        Ok(()) if std::fs::metadata(run_dir)?.mode() & 0o022 != 0 => {
            std::fs::set_permissions(run_dir, Permissions::from_mode(0o755))
        }
        made => made,
    }
}

/// Opens or makes the lock file; from the first moment nobody else can open one that is made
/// here, since whoever can open it, if only to read, can hold the lock.
fn open_ours(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(path)
}

/// Closes a lock file that is there already to all but `us`; refuses one of somebody else's,
/// who could open it again.
fn keep_to_ourselves(file: &File, path: &Path, us: Uid) -> Result<()> {
    let attempt = || format!("protect '{}'", path.display());
    let found = file.metadata().attempt(Kind::Failed, attempt)?;
    if found.uid() != us.as_raw() {
        let cause = format!("it belongs to the user {}, who could hold it for ever", found.uid());
        return Err(Error::new(Kind::Denied, attempt(), cause)
            .remedy(format!("remove it, and find out who made it: rm '{}'", path.display())));
    }
    file.set_permissions(Permissions::from_mode(0o600)).attempt(Kind::Failed, attempt)
}

/// The holder of the lock in `run_dir`, if it is held. Only users that may take the lock learn this.
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
    fn nobody_else_can_open_the_lock_and_so_hold_it() {
        let folder = tempfile::tempdir().unwrap();
        let (run_dir, path) = (folder.path().join("run"), folder.path().join("run/lock"));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        drop(Lock::take(&run_dir, "metasched run").unwrap());
        assert_eq!(format!("{:o} {:o}", mode(&path), mode(&run_dir)), "600 755");
        // One that an earlier version made, by a umask of nothing at all.
        for (path, lax) in [(&path, 0o666), (&run_dir, 0o777)] {
            std::fs::set_permissions(path, Permissions::from_mode(lax)).unwrap();
        }
        drop(Lock::take(&run_dir, "metasched run").unwrap());
        assert_eq!(format!("{:o} {:o}", mode(&path), mode(&run_dir)), "600 755");
    }

    #[test]
    fn a_lock_file_that_somebody_else_made_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let file = File::create(&path).unwrap();
        let e = keep_to_ourselves(&file, &path, Uid::from_raw(geteuid().as_raw() + 1)).unwrap_err();
        assert_eq!(e.kind, Kind::Denied);
        assert!(e.remedy.contains("rm '"), "{e}");
        // Nor is a link followed to a file of somebody's.
        std::fs::rename(&path, folder.path().join("other")).unwrap();
        std::os::unix::fs::symlink("other", &path).unwrap();
        assert_eq!(Lock::take(folder.path(), "metasched run").unwrap_err().kind, Kind::Failed);
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

//! What a workload needs before it is first started: prepared files, kept on disk,
//! and what is staged in memory for one boot.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_host::process::Spawn;
use nix::fcntl::{Flock, FlockArg};

use super::Site;
use super::step::{command, interrupted, run};
use crate::manifest::{Step, Workload};

/// Its presence says that the folder's preparation was finished.
const DONE: &str = ".metasched-done";

/// Holds the boot for which the folder was staged.
const STAGED: &str = ".metasched-staged";

/// How many prepared folders of a workload are kept: the last one used, and another to
/// go back to. A change of any file or parameter makes a folder of some 100 MB.
const KEPT: usize = 2;

/// A workload's prepared folder, which is not removed while this lives.
#[derive(Debug)]
pub struct Prepared {
    /// Whether it was prepared by this call.
    pub now: bool,
    /// None where the cache cannot be written: nobody can remove anything there; and for a
    /// command, which has no folder.
    _locks: Vec<Flock<fs::File>>,
}

/// Prepares the workload unless that was done already.
///
/// The files are made where they stay, because Python environments hold their own
/// path; a marker, written last, tells a finished folder from one that was cut off,
/// which is made anew.
pub fn prepare(workload: &Workload, site: &Site) -> Result<Prepared> {
    if workload.is_command() {
        return Ok(Prepared { now: false, _locks: Vec::new() });
    }
    let mut prepared = Prepared { now: false, _locks: Vec::new() };
    for one in workload.each() {
        let (now, lock) = prepare_one(one, site)?;
        prepared.now |= now;
        prepared._locks.extend(lock);
    }
    Ok(prepared)
}

/// Of one workload; gives whether it was prepared now, and the lock on its folder.
fn prepare_one(workload: &Workload, site: &Site) -> Result<(bool, Option<Flock<fs::File>>)> {
    let cache = site.cache(workload);
    let marker = cache.join(DONE);
    make_folder(cache.parent().unwrap_or(&cache))?;
    let lock_path = cache.with_extension("lock");
    let held = lock(&lock_path, FlockArg::LockSharedNonblock, site);
    if marker.exists() {
        // The time of the last use; that it cannot be written costs a preparation at most.
        let _ = fs::File::open(&marker).and_then(|file| file.set_modified(SystemTime::now()));
        return Ok((false, held.ok()));
    }
    drop(held);
    let held = lock(&lock_path, FlockArg::LockExclusiveNonblock, site)?;
    // Another process may have done it while we waited.
    let now = !marker.exists();
    if now {
        make(workload, site, &cache)?;
        write_marker(&marker, &workload.prepared_hash)?;
        prune(&cache);
    }
    // For others to use it too. In between it is free, but nobody removes the newest.
    held.relock(FlockArg::LockShared)
        .attempt(Kind::Failed, || format!("lock '{}'", lock_path.display()))?;
    Ok((now && workload.manifest.prepare.is_some(), Some(held)))
}

/// Fills the folder anew.
fn make(workload: &Workload, site: &Site, cache: &Path) -> Result<()> {
    if cache.exists() {
        fs::remove_dir_all(cache)
            .attempt(Kind::Failed, || format!("remove the unfinished '{}'", cache.display()))?;
    }
    make_folder(cache)?;
    let Some(step) = &workload.manifest.prepare else { return Ok(()) };
    let variables = site.preparing_variables(workload);
    let log = cache.with_extension("log");
    let whole = contained(&step.command);
    let spawn = command(&whole, &workload.manifest.folder, &variables);
    let what = format!("prepare the workload '{}'", workload.manifest.name);
    run(&what, step, &spawn, &log, &site.interrupt)
}

/// Removes what was prepared of the same workload but for those used last, and those in
/// use, which are locked. What cannot be removed costs space, no more.
fn prune(cache: &Path) {
    let Some(entries) = cache.parent().and_then(|folder| fs::read_dir(folder).ok()) else { return };
    // An unfinished one has no marker, and counts as the oldest.
    let used = |folder: &PathBuf| fs::metadata(folder.join(DONE)).and_then(|m| m.modified()).ok();
    let mut folders: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort_by_key(|folder| Reverse(used(folder)));
    for folder in folders.iter().skip(KEPT) {
        // The lock's file stays: somebody may be waiting for it.
        let Ok(file) = fs::File::create(folder.with_extension("lock")) else { continue };
        if let Ok(_lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            let _ = fs::remove_dir_all(folder);
            let _ = fs::remove_file(folder.with_extension("log"));
        }
    }
}

/// Does what is to be done once per boot before the first start.
pub fn stage(workload: &Workload, site: &Site) -> Result<()> {
    if workload.is_command() {
        return Ok(());
    }
    workload.each().into_iter().try_for_each(|one| stage_one(one, site))
}

fn stage_one(workload: &Workload, site: &Site) -> Result<()> {
    let scratch = site.scratch(workload);
    let marker = scratch.join(STAGED);
    let boot = site.boot_id()?;
    if fs::read_to_string(&marker).is_ok_and(|staged| staged == boot) {
        return Ok(());
    }
    // With it goes what was staged for other contents or parameters: it takes memory, and
    // nobody measures a workload twice at the same time.
    let folder = scratch.parent().unwrap_or(&scratch);
    if folder.exists() {
        fs::remove_dir_all(folder)
            .attempt(Kind::Failed, || format!("empty '{}'", folder.display()))?;
    }
    make_folder(&scratch)?;
    if let Some(step) = &workload.manifest.stage {
        let group = site.groups.group(&workload.manifest.name, "stage")?;
        let variables = site.preparing_variables(workload);
        let spawn = command(&step.command, &workload.manifest.folder, &variables);
        let staged = in_scratch(workload, step, &group.place(spawn), &scratch, site);
        // What it may have left running is ended in any case.
        group.kill().and(staged)?;
    }
    write_marker(&marker, &boot)
}

fn in_scratch(
    workload: &Workload,
    step: &Step,
    spawn: &Spawn,
    scratch: &Path,
    site: &Site,
) -> Result<()> {
    let what = format!("stage the workload '{}'", workload.manifest.name);
    run(&what, step, spawn, &scratch.join("stage.log"), &site.interrupt)
}

/// The command, in a process namespace of its own where that is possible: preparing
/// starts installers and compilers, and when metasched is killed, the kernel then
/// kills all of them with the first.
fn contained(command: &[String]) -> Vec<String> {
    let unshare = ["unshare", "--pid", "--fork", "--kill-child=SIGKILL", "--"];
    let works = Spawn::new(unshare.into_iter().chain(["true"]))
        .start()
        .and_then(|mut child| child.wait(Duration::from_secs(10)))
        .is_ok_and(|status| status.is_some_and(|status| status.success()));
    if works {
        unshare.into_iter().map(str::to_owned).chain(command.iter().cloned()).collect()
    } else {
        command.to_vec()
    }
}

fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|e| {
        let kind = match e.kind() {
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                Kind::Denied
            }
            _ => Kind::Failed,
        };
        Error::new(kind, format!("make the folder '{}'", folder.display()), e)
            .remedy("set METASCHED_CACHE_ROOT to a folder that can be written")
    })
}

fn write_marker(marker: &Path, text: &str) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut file = fs::File::create(marker)?;
        std::io::Write::write_all(&mut file, text.as_bytes())?;
        file.sync_all()
    };
    write().attempt(Kind::Failed, || format!("write '{}'", marker.display()))
}

/// Waits for the lock: exclusive for who prepares a folder or removes it, shared for who
/// uses it.
fn lock(path: &Path, how: FlockArg, site: &Site) -> Result<Flock<fs::File>> {
    let attempt = || format!("lock '{}'", path.display());
    let mut file = fs::File::create(path).attempt(Kind::Failed, attempt)?;
    loop {
        match Flock::lock(file, how) {
            Ok(lock) => return Ok(lock),
            Err((back, nix::errno::Errno::EWOULDBLOCK)) => file = back,
            Err((_, e)) => return Err(e).attempt(Kind::Failed, attempt),
        }
        if site.interrupt.is_raised() {
            return Err(interrupted("finish the preparation"));
        }
        site.interrupt.sleep(Duration::from_millis(200));
    }
}

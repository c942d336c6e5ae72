//! What a workload needs before it is first started: prepared files, kept on disk,
//! and what is staged in memory for one boot.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_host::process::Spawn;
use nix::fcntl::{Flock, FlockArg};

use super::Site;
use super::step::{command, run};
use crate::manifest::{Step, Workload};

/// Its presence says that the folder's preparation was finished.
const DONE: &str = ".metasched-done";

/// Holds the boot for which the folder was staged.
const STAGED: &str = ".metasched-staged";

/// Prepares the workload unless that was done already; true if it was done now.
///
/// The files are made where they stay, because Python environments hold their own
/// path; a marker, written last, tells a finished folder from one that was cut off,
/// which is made anew.
pub fn prepare(workload: &Workload, site: &Site) -> Result<bool> {
    let cache = site.cache(workload);
    let Some(step) = &workload.manifest.prepare else {
        make_folder(&cache)?;
        return Ok(false);
    };
    let marker = cache.join(DONE);
    if marker.exists() {
        return Ok(false);
    }
    make_folder(cache.parent().unwrap_or(&cache))?;
    let _lock = lock(&cache.with_extension("lock"), site)?;
    // Another process may have done it while we waited.
    if marker.exists() {
        return Ok(false);
    }
    if cache.exists() {
        fs::remove_dir_all(&cache)
            .attempt(Kind::Failed, || format!("remove the unfinished '{}'", cache.display()))?;
    }
    make_folder(&cache)?;
    let variables = site.variables(workload, Duration::ZERO);
    let log = cache.with_extension("log");
    let whole = contained(&step.command);
    let spawn = command(&whole, &workload.manifest.folder, &variables);
    let what = format!("prepare the workload '{}'", workload.manifest.name);
    run(&what, step, &spawn, &log, &site.interrupt)?;
    write_marker(&marker, &workload.hash)?;
    Ok(true)
}

/// Does what is to be done once per boot before the first start.
pub fn stage(workload: &Workload, site: &Site) -> Result<()> {
    let scratch = site.scratch(workload);
    let marker = scratch.join(STAGED);
    let boot = site.boot_id()?;
    if fs::read_to_string(&marker).is_ok_and(|staged| staged == boot) {
        return Ok(());
    }
    if scratch.exists() {
        fs::remove_dir_all(&scratch)
            .attempt(Kind::Failed, || format!("empty '{}'", scratch.display()))?;
    }
    make_folder(&scratch)?;
    if let Some(step) = &workload.manifest.stage {
        let group = site.groups.group(&workload.manifest.name, "stage")?;
        let variables = site.variables(workload, Duration::ZERO);
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

/// Waits for the lock, so that two calls do not prepare one folder at once.
fn lock(path: &PathBuf, site: &Site) -> Result<Flock<fs::File>> {
    let attempt = || format!("lock '{}'", path.display());
    let mut file = fs::File::create(path).attempt(Kind::Failed, attempt)?;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((back, nix::errno::Errno::EWOULDBLOCK)) => file = back,
            Err((_, e)) => return Err(e).attempt(Kind::Failed, attempt),
        }
        site.interrupt.check("the preparation")?;
        site.interrupt.sleep(Duration::from_millis(200));
    }
}

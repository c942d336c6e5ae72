//! `metasched stop`.

use std::path::Path;

use metasched_base::{Error, Kind, Result};
use metasched_control::keeper::stop;
use metasched_control::{EEVDF, RUN_DIR, holder, lock_holder};
use metasched_host::process::Prompt;
use metasched_host::sched_ext::SchedExt;
use serde::Serialize;

use crate::context::Context;

/// Stops the running scheduler, so that EEVDF is back.
///
/// A keeper that does not answer for four seconds is ended: SIGTERM, then SIGKILL.
#[derive(Debug, clap::Args)]
pub struct Args {}

#[derive(Debug, Serialize)]
struct Stopped {
    /// Whether anything was stopped.
    stopped: bool,
    /// What is in force now.
    in_force: String,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(_args: &Args, context: &Context) -> Result<u8> {
    let _prompt = Prompt::new();
    let (root, run_dir) = (Path::new("/"), Path::new(RUN_DIR));
    let mut note = |text: &str| eprintln!("metasched: {text}");
    let stopped = match stop(root, run_dir, &context.interrupt, &mut note)? {
        Some(in_force) => Stopped { stopped: true, in_force },
        None => nothing_kept(run_dir)?,
    };
    context.print(&stopped, |s| {
        if s.stopped {
            format!("stopped; '{}' is in force", s.in_force)
        } else {
            format!("nothing to stop: '{}' is in force", s.in_force)
        }
    })?;
    Ok(0)
}

/// Without a keeper there is nothing to stop, or it is not ours to stop.
fn nothing_kept(run_dir: &Path) -> Result<Stopped> {
    if let Some(owner) = lock_holder(run_dir) {
        return Err(Error::new(
            Kind::Busy,
            "stop the scheduler",
            format!("'{}' (process {}) is in charge of it", owner.command, owner.id.pid),
        )
        .remedy(format!("stop that: kill {}", owner.id.pid)));
    }
    let status = SchedExt::at(Path::new("/")).status()?;
    if status.is_default() {
        return Ok(Stopped { stopped: false, in_force: EEVDF.to_owned() });
    }
    let ops = status.ops.unwrap_or_default();
    if !nix::unistd::geteuid().is_root() {
        let cause = "only root sees who holds it";
        return Err(
            Error::new(Kind::Denied, format!("stop '{ops}'"), cause).remedy("run it with sudo")
        );
    }
    let (who, remedy) = match holder(Path::new("/"), &ops) {
        Some(h) => (
            format!("process {} ({}) holds it", h.id.pid, h.command.join(" ")),
            match h.unit {
                Some(unit) => format!("stop that: systemctl stop {unit}"),
                None => format!("stop that: kill -INT {}", h.id.pid),
            },
        ),
        None => (
            "it was not started by metasched".to_owned(),
            "stop it by the means that started it; SysRq-S takes any scheduler out".to_owned(),
        ),
    };
    Err(Error::new(Kind::Busy, format!("stop '{ops}'"), who).remedy(remedy))
}

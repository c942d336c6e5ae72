//! `metasched stop`.

use std::path::Path;
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Result};
use metasched_control::keeper::{Answer, Order, ask};
use metasched_control::{EEVDF, RUN_DIR, holder, lock_holder};
use metasched_host::sched_ext::SchedExt;
use serde::Serialize;

use crate::context::Context;

/// Stops the running scheduler, so that EEVDF is back.
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
    let run_dir = Path::new(RUN_DIR);
    let stopped = match ask(run_dir, &Order::Stop)? {
        Some(Answer::Stopped { back }) => {
            wait_for_the_lock(run_dir);
            Stopped { stopped: true, in_force: back.unwrap_or_else(|| EEVDF.to_owned()) }
        }
        _ => nothing_kept(run_dir)?,
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

/// The keeper answers before it ends; whoever starts the next scheduler needs its lock.
fn wait_for_the_lock(run_dir: &Path) {
    let end = Instant::now() + Duration::from_secs(5);
    while lock_holder(run_dir).is_some() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
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

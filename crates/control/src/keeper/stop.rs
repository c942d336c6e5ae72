//! Stopping a keeper, also one that does not answer.

use std::path::Path;
use std::time::{Duration, Instant};

use metasched_base::{Error, Interrupt, Kind, Result, format_duration};
use metasched_host::process::ProcessId;
use metasched_host::sched_ext::{SchedExt, State, Status};
use nix::sys::signal::Signal;

use super::client::{Heard, converse};
use super::messages::{Answer, Order};
use crate::candidate::name_in_force;
use crate::lock::{LockHolder, lock_holder};
use crate::program::OPS_NAME;

/// How long a keeper that does not answer may take after SIGTERM. One that was only stopped
/// takes its program out and ends, well within this.
const TERMINATE_GRACE: Duration = Duration::from_secs(3);

/// After SIGKILL it ends as soon as the kernel lets go of it.
const KILL_GRACE: Duration = Duration::from_secs(20);

/// How long the lock may stay held after the keeper's end: the guard waits as long for the
/// kernel, and may then have to start again what was found.
const GUARD_PATIENCE: Duration = Duration::from_secs(30);

/// How long the kernel may take to put in force or take out what it is at.
const KERNEL_PATIENCE: Duration = Duration::from_secs(20);

/// How often is looked for an end.
const LOOK: Duration = Duration::from_millis(10);

/// Stops the keeper of this run folder, and waits until another may take its place. What is in
/// force then, by its name in the kernel; `None` when there is no keeper.
///
/// A keeper that does not answer is ended by signals; `note` is told of that. SIGKILL leaves
/// what it leaves to its guard.
///
/// # Errors
/// What the keeper answers as one; `Busy` where whoever does not answer is not the keeper,
/// or where another scheduler is in force afterwards; `Timeout` where nothing helps;
/// `Interrupted` by a signal.
pub fn stop(
    root: &Path,
    run_dir: &Path,
    interrupt: &Interrupt,
    note: &mut dyn FnMut(&str),
) -> Result<Option<String>> {
    // Found now: when the keeper has ended they are nobody's.
    let children: Vec<ProcessId> =
        lock_holder(run_dir).iter().flat_map(|owner| owner.id.children(root)).collect();
    let heard = converse(run_dir, &Order::Stop, interrupt)?;
    match &heard {
        Heard::Nobody => return Ok(None),
        Heard::Answer(Answer::Failed(failure)) => return Err(failure.clone().into()),
        // It answers before it ends, or has ended in the middle of it.
        Heard::Answer(_) | Heard::Busy(..) | Heard::Ended => {}
        Heard::Silent(peer) => {
            let owner = keeper(run_dir, *peer)?;
            go_on(&children);
            end(&owner, interrupt, note)?;
        }
    }
    go_on(&children);
    let status = settled(root, run_dir, interrupt)?;
    let name = name_in_force(&status);
    let as_it_was = match &heard {
        Heard::Answer(Answer::Stopped { back: None }) => status.is_default(),
        // What was found was seen in force again, or it is not known whether anything was.
        _ => name != OPS_NAME,
    };
    if !as_it_was {
        let cause = format!("the keeper has ended, but the scheduler '{name}' is in force");
        return Err(Error::new(Kind::Busy, "have back what was in force before", cause)
            .remedy("'metasched status' tells whose that is"));
    }
    Ok(Some(name))
}

/// A guard, or a scheduler, that was stopped along with its keeper could not do its part.
fn go_on(children: &[ProcessId]) {
    for child in children {
        child.signal(Signal::SIGCONT);
    }
}

/// The holder of the lock, if that is the process that does not answer.
fn keeper(run_dir: &Path, peer: Option<i32>) -> Result<LockHolder> {
    match lock_holder(run_dir) {
        Some(owner) if peer.is_none_or(|pid| pid == owner.id.pid) => Ok(owner),
        owner => {
            let holds = owner.map_or("nobody holds its lock".to_owned(), |owner| {
                format!("process {} holds its lock", owner.id.pid)
            });
            let cause = format!("process {} does not answer, and {holds}", peer.unwrap_or(0));
            Err(Error::new(Kind::Busy, "stop the keeper", cause)
                .remedy("see whether it is a metasched, and end it by hand"))
        }
    }
}

/// Ends a process that does not answer.
fn end(owner: &LockHolder, interrupt: &Interrupt, note: &mut dyn FnMut(&str)) -> Result<()> {
    let (id, command) = (owner.id, &owner.command);
    note(&format!("the keeper (process {}, '{command}') does not answer: it is ended", id.pid));
    for (signal, grace) in [(Signal::SIGTERM, TERMINATE_GRACE), (Signal::SIGKILL, KILL_GRACE)] {
        id.signal(signal);
        // One that is stopped hears nothing but SIGKILL until it goes on.
        id.signal(Signal::SIGCONT);
        if wait_until(grace, interrupt, || !id.is_alive(Path::new("/")))? {
            return Ok(());
        }
    }
    let cause = format!("it survived SIGKILL for {}", format_duration(KILL_GRACE));
    Err(Error::new(Kind::Timeout, format!("end process {} ('{command}')", id.pid), cause).remedy(
        format!(
            "it waits in the kernel: see /proc/{}/stack; SysRq-S takes any scheduler out",
            id.pid
        ),
    ))
}

/// Waits until nobody holds the lock any more, and the kernel has done with what was in force;
/// tells what is.
fn settled(root: &Path, run_dir: &Path, interrupt: &Interrupt) -> Result<Status> {
    let sysfs = SchedExt::at(root);
    let free = wait_until(GUARD_PATIENCE, interrupt, || lock_holder(run_dir).is_none())?;
    let status = sysfs.wait("stop the keeper", KERNEL_PATIENCE, LOOK, |status| {
        !free || status.is_default() || status.state == State::Enabled
    })?;
    if !free {
        let cause = format!(
            "the lock is still held after {}, and the state is '{}'",
            format_duration(GUARD_PATIENCE),
            status.state
        );
        return Err(Error::new(Kind::Timeout, "stop the keeper", cause)
            .remedy(format!("see '{}'", run_dir.join("guard.log").display())));
    }
    Ok(status)
}

/// Whether it comes true within that time.
fn wait_until(most: Duration, interrupt: &Interrupt, so: impl Fn() -> bool) -> Result<bool> {
    let until = Instant::now() + most;
    loop {
        if so() {
            return Ok(true);
        }
        if Instant::now() >= until {
            return Ok(false);
        }
        if !interrupt.sleep(LOOK) {
            return Err(Error::new(Kind::Interrupted, "wait for the keeper's end", "interrupted")
                .remedy("see 'metasched status'"));
        }
    }
}

//! The process that decides for lanes whose policies have a half in user space.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use metasched_base::{Error, Interrupt, Kind, Result};
use metasched_host::process::{Child, Output, Prompt};
use metasched_loader::{UserDriver, UserFiles, policies, variant};
use metasched_userhalf::{Halves, half_of};

use crate::own::{own_program, spawn_own};

/// How often it is looked whether the process lives; so long nobody decides when it has died.
const LOOK: Duration = Duration::from_millis(200);

/// Whether a policy, or the policy of a preset, has a half in user space.
pub(crate) fn has_half(name: &str) -> bool {
    let info = variant(name);
    info.is_ok_and(|info| half_of(info.preset_of.unwrap_or(info.name)).is_some())
}

/// Sees to it that there is one. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Decider {
    /// Gone, it ends the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Decider {
    /// Starts the process, and starts it again whenever it ends. Where that fails the policies
    /// decide alone.
    pub(crate) fn start(files: UserFiles) -> Result<Self> {
        let program = own_program()?.display().to_string();
        let (end, ended) = channel();
        let thread = std::thread::spawn(move || see_to_it(&program, &files, &ended));
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Decider {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn see_to_it(program: &str, files: &UserFiles, ended: &Receiver<()>) {
    let mut child = start(program, files).ok();
    while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        let gone = child.as_mut().is_none_or(|child| !matches!(child.poll(), Ok(None)));
        if gone {
            child = start(program, files).ok();
        }
    }
}

fn start(program: &str, files: &UserFiles) -> Result<Child> {
    files
        .pass_to(spawn_own(&[program.to_owned(), "decide".to_owned()]).stderr(Output::Inherit))?
        .start()
}

/// What that process does: decides until the program has left the kernel, or a signal comes.
///
/// # Errors
/// `BadInput` where it was not started by the process that has loaded the program.
pub fn decider_main(interrupt: &Interrupt) -> Result<()> {
    // Before those that it decides about, who would else wait for their turn to be decided.
    let _prompt = Prompt::new();
    let name = |number: u32| policies().get(number as usize).map(|policy| policy.name);
    let halves = Halves::new(move |number| half_of(name(number)?));
    let mut driver = UserDriver::new(UserFiles::inherited()?, halves)?;
    while !interrupt.is_raised() {
        match driver.serve() {
            Err(Error { kind: Kind::SchedulerExit, .. }) => return Ok(()),
            served => served?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_half_in_user_space_is_known_by_name() {
        assert!(has_half("rustland"));
        assert!(!has_half("fifo") && !has_half("rr") && !has_half("no such policy"));
    }
}

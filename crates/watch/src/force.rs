//! What is in force now.

use std::path::Path;

use metasched_base::{Interrupt, Result};
use metasched_control::RUN_DIR;
use metasched_control::keeper::{Answer, KeeperStatus, Order, ask, scheduler_name};
use metasched_host::sched_ext::SchedExt;

/// What is in force, and what the keeper says of it.
#[derive(Clone, Debug)]
pub struct Force {
    /// As users name it.
    pub scheduler: String,
    /// How many schedulers were ever enabled: two looks with the same number saw the same one, or
    /// the default one.
    pub enabled: u64,
    /// What the keeper holds; none where there is no keeper, or it says nothing.
    pub keeper: Option<KeeperStatus>,
}

/// Asks the kernel, whose word counts, and the keeper.
pub fn in_force(interrupt: &Interrupt) -> Result<Force> {
    let status = SchedExt::at(Path::new("/")).status()?;
    // Without root its socket is closed to us, and one that hangs tells nothing: what the kernel
    // says is true all the same.
    let keeper = match ask(Path::new(RUN_DIR), &Order::Status, interrupt) {
        Ok(Some(Answer::Status(keeper))) => Some(*keeper),
        _ => None,
    };
    let scheduler = scheduler_name(&status, keeper.as_ref());
    Ok(Force { scheduler, enabled: status.enable_seq, keeper })
}

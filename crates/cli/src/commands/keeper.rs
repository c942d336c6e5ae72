//! What the commands that give the keeper orders share.

use std::path::Path;

use metasched_base::{Error, Kind, Result};
use metasched_control::keeper::{Answer, KeeperStatus, Order, ask};
use metasched_control::{RUN_DIR, holder, lock_holder};
use metasched_host::sched_ext::{SchedExt, State};

use crate::context::Context;

/// What to do where no scheduler is kept that lanes could be in.
pub const START_ONE_WITH_LANES: &str = "start one that lanes can be in: metasched start vtime";

/// Asks the keeper, which must be there; `start` is what to do where none is.
pub fn ask_keeper(context: &Context, attempt: &str, order: &Order, start: &str) -> Result<Answer> {
    let run_dir = Path::new(RUN_DIR);
    if let Some(answer) = ask(run_dir, order, &context.interrupt)? {
        return Ok(answer);
    }
    if let Some(owner) = lock_holder(run_dir) {
        let by = format!("'{}' (process {})", owner.command, owner.id.pid);
        return Err(in_charge(attempt, &by));
    }
    let root = Path::new("/");
    let status = SchedExt::at(root).status()?;
    Err(match status.ops.filter(|_| status.state == State::Enabled) {
        // A bench, say, that loads a program by itself; or somebody else's scheduler.
        Some(ops) => {
            let by = holder(root, &ops).map(|by| (by.command.join(" "), by.id.pid));
            let by = by.map_or(String::new(), |(command, pid)| {
                format!(" of the process {pid} ('{command}')")
            });
            in_charge(attempt, &format!("the scheduler '{ops}'{by}"))
        }
        None => Error::new(Kind::Failed, attempt, "metasched keeps no scheduler").remedy(start),
    })
}

/// That somebody has the scheduler who answers nobody.
fn in_charge(attempt: &str, by: &str) -> Error {
    let cause = format!("{by} is in charge, and takes no orders and tells of nothing meanwhile");
    Error::new(Kind::Busy, attempt, cause)
        .remedy("wait for it to end, or stop it; 'metasched status' shows what is in force")
}

/// What the keeper holds.
pub fn kept_status(context: &Context, attempt: &str) -> Result<KeeperStatus> {
    match ask_keeper(context, attempt, &Order::Status, START_ONE_WITH_LANES)? {
        Answer::Status(status) => Ok(*status),
        other => Err(no_answer(&other)),
    }
}

/// The failure that the keeper speaks of something else.
pub fn no_answer(said: &Answer) -> Error {
    Error::new(Kind::Failed, "understand the keeper", format!("it answered {said:?}"))
        .remedy("use the metasched of the same version as the keeper")
}

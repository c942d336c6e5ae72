//! What the commands that give the keeper orders share.

use std::path::Path;

use metasched_base::{Error, Kind, Result};
use metasched_control::keeper::{Answer, KeeperStatus, Order, ask};
use metasched_control::{RUN_DIR, lock_holder};

use crate::context::Context;

/// What to do where no scheduler is kept that lanes could be in.
pub const START_ONE_WITH_LANES: &str = "start one that lanes can be in: metasched start vtime";

/// Asks the keeper, which must be there; `start` is what to do where none is.
pub fn ask_keeper(context: &Context, attempt: &str, order: &Order, start: &str) -> Result<Answer> {
    let run_dir = Path::new(RUN_DIR);
    if let Some(answer) = ask(run_dir, order, &context.interrupt)? {
        return Ok(answer);
    }
    Err(match lock_holder(run_dir) {
        Some(owner) => Error::new(
            Kind::Busy,
            attempt,
            format!("'{}' (process {}) is in charge", owner.command, owner.id.pid),
        )
        .remedy("wait for it to end, or stop it"),
        None => Error::new(Kind::Failed, attempt, "metasched keeps no scheduler").remedy(start),
    })
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

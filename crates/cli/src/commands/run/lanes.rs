//! Lanes in force: what `metasched run --mode lanes` and `metasched rules` share.

use std::path::Path;
use std::time::Instant;

use metasched_base::{Error, Kind, Result};
use metasched_control::keeper::Keeper;
use metasched_control::{
    Candidate, CandidateKind, Explanation, Follower, Switcher, SwitcherOptions, resolve,
};
use metasched_profile::wanted::Wanted;

use super::hold::HoldArgs;
use crate::commands::lane::explain::text;
use crate::context::Context;

/// Puts every application on its lane and holds that until stopped.
pub fn hold(
    wanted: Wanted,
    table: &[Candidate],
    options: SwitcherOptions,
    hold: &HoldArgs,
    context: &Context,
) -> Result<u8> {
    let default = resolve(table, &wanted.default)?;
    if default.kind != CandidateKind::Policy {
        return Err(Error::new(
            Kind::BadInput,
            format!("use '{}' as the default lane's policy", default.name),
            "lanes are in our own program",
        )
        .remedy("choose a policy of ours: metasched list"));
    }
    let warn = |text: &str| eprintln!("metasched: warning: {text}");
    let follower = Follower::new(Path::new("/"), wanted.rules, warn)?;
    let run_dir = options.run_dir.clone();
    let mut keeper = Keeper::start(Switcher::new(options)?, &default, &run_dir)?;
    keeper.follow(follower)?;
    context.print(&Explanation::of(&keeper.status()?), text)?;
    let until = hold.duration.map(|duration| Instant::now() + duration);
    keeper.run(&context.interrupt, until)?;
    Ok(hold.exit_code(context.interrupt.is_raised()))
}

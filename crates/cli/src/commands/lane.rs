//! `metasched lane`: a verb a file, and what the commands about lanes share.

pub mod assign;
pub mod explain;
mod list;
mod set;
mod unassign;

use std::collections::BTreeMap;

use metasched_base::Result;
use metasched_loader::{Setting, variant};

use crate::context::Context;

/// Gives cgroups lanes of their own, changes lanes, and shows them
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Assign(assign::Args),
    Unassign(unassign::Args),
    Set(set::Args),
    List(list::Args),
    Explain(explain::Args),
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    match &args.command {
        Command::Assign(args) => assign::run(args, context),
        Command::Unassign(args) => unassign::run(args, context),
        Command::Set(args) => set::run(args, context),
        Command::List(args) => list::run(args, context),
        Command::Explain(args) => explain::run(args, context),
    }
}

/// Reads settings as options of a policy, which is known by its name.
///
/// # Errors
/// `BadInput` where there is no such policy, or no such option of it.
pub fn settings(policy: &str, given: &[Setting]) -> Result<BTreeMap<String, u64>> {
    variant(policy)?.read_settings(given)
}

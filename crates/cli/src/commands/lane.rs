//! `metasched lane`: a verb a file, and what the commands about lanes share.

pub mod assign;
pub mod explain;
mod list;
mod set;
mod unassign;

use metasched_base::Result;

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

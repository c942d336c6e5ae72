//! `metasched rules`: lanes by a file of rules.

use metasched_base::Result;
use metasched_control::{CandidateEnv, candidates};
use metasched_profile::wanted::Wanted;

use super::run::lanes::hold;
use super::run::{HoldArgs, Mode, PlanArgs};
use crate::context::Context;

/// Puts cgroups on lanes by a file of rules, and holds that in the foreground.
///
/// The file says which cgroups are whose, those that are made later too, and which policy
/// each application has; what it leaves open is as the plan has it. Everything is put back
/// at Ctrl-C or the end of --for. 'metasched lane list' and 'metasched lane explain' show
/// meanwhile what came of it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file of rules, see docs/lanes.md
    #[arg(value_name = "FILE")]
    file: String,
    /// The policy of everything that is in none of its cgroups. If not given, what the file
    /// says, else fair
    #[arg(long, value_name = "POLICY")]
    default: Option<String>,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    hold: HoldArgs,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let table = candidates(&CandidateEnv::system())?;
    let options = args.hold.options("metasched rules")?;
    let plan = || args.plan.read(Mode::Lanes);
    let default = args.default.as_deref();
    let wanted = Wanted::from_file(&args.file, default, args.plan.is_given(), plan, &table)?;
    hold(wanted, &table, options, &args.hold, context)
}

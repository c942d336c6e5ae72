//! `metasched exec`: a command in a new cgroup on a lane.

use std::os::unix::process::CommandExt;
use std::path::Path;

use metasched_base::{Error, Kind, Result};
use metasched_control::BRIEF_CGROUPS;
use metasched_control::keeper::{Answer, Order};
use metasched_host::cgroup::{self, Cgroup};
use metasched_loader::{LaneSpec, Setting, settings};

use super::keeper::{START_ONE_WITH_LANES, ask_keeper, no_answer};
use super::lane::assign::describe;
use crate::context::Context;

/// Runs a command on a lane of its own, in a new cgroup, beside everything else.
///
/// 'metasched start' must have put a policy of ours in force. The command has our input,
/// output, signals and exit status; its lane and its cgroup go when it ends. A cgroup that is
/// there is given a lane by 'metasched lane assign'.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The lane's policy, one of ours as 'metasched list' names them
    #[arg(long, value_name = "POLICY")]
    policy: String,
    /// The lane's share among lanes that want a CPU, 1 to 10000
    #[arg(long, value_name = "N")]
    weight: Option<u32>,
    /// An option of the policy: slice=5ms
    #[arg(long = "set", value_name = "OPTION=VALUE")]
    settings: Vec<Setting>,
    /// The command, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Becomes the command; returns only if that fails. The keeper removes the cgroup when it is
/// empty.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let (program, policy) = (&args.command[0], &args.policy);
    let attempt = format!("run '{program}' on a lane of '{policy}'");
    let lane = LaneSpec {
        policy: policy.to_owned(),
        weight: args.weight,
        options: settings(policy, &args.settings)?,
    };
    lane.check()?;
    let pid = std::process::id();
    let word = Path::new(program).file_name().map_or_else(String::new, |name| {
        name.to_string_lossy().chars().filter(|c| c.is_ascii_alphanumeric()).collect()
    });
    let cgroup = Cgroup::create(&format!("{BRIEF_CGROUPS}/{word}-{pid}"))?;
    let back = own_cgroup()?;
    let entered = cgroup.add(pid.cast_signed()).and_then(|()| {
        let order = Order::Assign { cgroup: cgroup.name(), lane, brief: true };
        ask_keeper(context, &attempt, &order, START_ONE_WITH_LANES)
    });
    let failed = match entered {
        Ok(Answer::Assigned(assigned)) => {
            context.verbose(|| describe(&assigned));
            let error = std::process::Command::new(program).args(&args.command[1..]).exec();
            Error::new(Kind::of_command(&error), attempt, error)
                .remedy("is it installed, and on PATH?")
        }
        Ok(other) => no_answer(&other),
        Err(error) => error,
    };
    // Out of the cgroup again; one that is assigned the keeper removes.
    back.add(pid.cast_signed())?;
    let _ = cgroup.remove();
    Err(failed)
}

/// The cgroup that this process is in.
fn own_cgroup() -> Result<Cgroup> {
    let root = Path::new("/");
    let path = cgroup::of_process(root, "self").unwrap_or_default();
    // An absolute name: one that is a single word is not to be searched for.
    Cgroup::find(root, &format!("/{path}/"))
}

//! `metasched run --policy POLICY -- COMMAND`: a command in a new cgroup on a lane.

use std::os::unix::process::CommandExt;
use std::path::Path;

use metasched_base::{Error, Kind, Result};
use metasched_control::BRIEF_CGROUPS;
use metasched_control::keeper::{Answer, Order};
use metasched_host::cgroup::{self, Cgroup};
use metasched_loader::LaneSpec;

use crate::commands::assign::describe;
use crate::commands::keeper::{START_ONE_WITH_LANES, ask_keeper, no_answer};
use crate::commands::lane::{Setting, settings};
use crate::context::Context;

/// A command on a lane of its own.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run COMMAND in a new cgroup, on a lane of this policy, beside everything else;
    /// 'metasched start' must have put a policy of ours in force
    #[arg(long, value_name = "POLICY", requires = "command", conflicts_with_all = ["plan", "turns", "duration", "take_over"])]
    policy: Option<String>,
    /// With --policy: the lane's share among lanes that want a CPU, 1 to 10000
    #[arg(long, value_name = "N", requires = "policy")]
    weight: Option<u32>,
    /// With --policy: an option of it, slice=5ms
    #[arg(long = "set", value_name = "OPTION=VALUE", requires = "policy")]
    settings: Vec<Setting>,
    /// The command, with its arguments
    #[arg(last = true, requires = "policy")]
    command: Vec<String>,
}

impl Args {
    /// The policy of the lane, if a command is to be run on one.
    pub fn policy(&self) -> Option<&str> {
        self.policy.as_deref()
    }
}

/// Becomes the command, in its cgroup, so that its input, output, signals and exit status
/// are its own; returns only if that fails. The keeper removes the cgroup when it is
/// empty.
pub fn become_command(args: &Args, policy: &str, context: &Context) -> Result<u8> {
    let Some(program) = args.command.first() else {
        return Err(Error::new(Kind::Usage, "run a command on a lane", "there is none")
            .remedy("write it after '--': metasched run --policy fifo -- make -j8"));
    };
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
            Error::new(Kind::BadInput, attempt, error).remedy("is it installed, and on PATH?")
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

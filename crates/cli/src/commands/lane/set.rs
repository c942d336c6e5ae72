//! `metasched lane set`.

use std::collections::BTreeMap;
use std::path::Path;

use metasched_base::{Error, Kind, Result};
use metasched_control::keeper::{Answer, Order};
use metasched_host::process::Prompt;
use metasched_loader::{Setting, settings};

use super::assign::describe;
use crate::commands::keeper::{START_ONE_WITH_LANES, ask_keeper, kept_status, no_answer};
use crate::context::Context;

/// Changes the weight or options of a cgroup's lane, at once and in place.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The cgroup: its path below /sys/fs/cgroup, or the name of a systemd unit
    cgroup: String,
    /// Its share among lanes that want a CPU, 1 to 10000
    #[arg(long, value_name = "N", required_unless_present = "settings")]
    weight: Option<u32>,
    /// An option of its policy: slice=5ms
    #[arg(long = "set", value_name = "OPTION=VALUE")]
    settings: Vec<Setting>,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let _prompt = Prompt::new();
    let attempt = format!("change the lane of '{}'", args.cgroup);
    let options = match args.settings.as_slice() {
        [] => BTreeMap::new(),
        given => settings(&policy_of(context, &attempt, &args.cgroup)?, given)?,
    };
    let order = Order::Adjust { cgroup: args.cgroup.clone(), weight: args.weight, options };
    match ask_keeper(context, &attempt, &order, START_ONE_WITH_LANES)? {
        Answer::Assigned(assigned) => context.print(&assigned, describe)?,
        other => return Err(no_answer(&other)),
    }
    Ok(0)
}

/// The policy of the lane that a cgroup has, by which its options are read.
fn policy_of(context: &Context, attempt: &str, cgroup: &str) -> Result<String> {
    let status = kept_status(context, attempt)?;
    let wanted = metasched_host::cgroup::Cgroup::find(Path::new("/"), cgroup)?.name();
    let found = status.apps.into_iter().find(|app| app.cgroups.contains_key(&wanted));
    found.map(|app| app.lane.policy).ok_or_else(|| {
        Error::new(Kind::BadInput, attempt, "it is not assigned")
            .remedy(format!("assign it: metasched lane assign {cgroup} POLICY"))
    })
}

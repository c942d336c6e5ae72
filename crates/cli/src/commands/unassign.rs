//! `metasched unassign`.

use metasched_base::Result;
use metasched_control::App;
use metasched_control::keeper::{Answer, Order};
use metasched_host::process::Prompt;

use super::keeper::{START_ONE_WITH_LANES, ask_keeper, kept_status, no_answer};
use crate::context::Context;

/// Takes a cgroup off its lane; it goes to that of the nearest cgroup above it that is
/// assigned, or to the default lane.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The cgroup: its path below /sys/fs/cgroup, or the name of a systemd unit
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    cgroup: Option<String>,
    /// All cgroups that are assigned
    #[arg(long)]
    all: bool,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let _prompt = Prompt::new();
    let names = match &args.cgroup {
        Some(name) => vec![name.clone()],
        // An absolute name: one that is a single word is not to be searched for.
        None => kept_status(context, "unassign all cgroups")?
            .apps
            .iter()
            .flat_map(|app| app.cgroups.keys().map(|name| format!("/{name}/")))
            .collect(),
    };
    let mut done: Vec<App> = Vec::new();
    for cgroup in names {
        let attempt = format!("unassign '{cgroup}'");
        match ask_keeper(context, &attempt, &Order::Unassign { cgroup }, START_ONE_WITH_LANES)? {
            Answer::Unassigned(app) => done.push(app),
            other => return Err(no_answer(&other)),
        }
    }
    context.print(&done, |done| match done.as_slice() {
        [] => "no cgroup is assigned".to_owned(),
        done => done
            .iter()
            .flat_map(|app| app.cgroups.keys())
            .map(|name| format!("'{name}' is on no lane of its own any more"))
            .collect::<Vec<_>>()
            .join("\n"),
    })?;
    Ok(0)
}

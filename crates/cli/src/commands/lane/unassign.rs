//! `metasched lane unassign`.

use metasched_base::{Kind, Result};
use metasched_control::App;
use metasched_control::keeper::{Answer, Order};
use metasched_host::process::Prompt;

use crate::commands::keeper::{START_ONE_WITH_LANES, ask_keeper, kept_status, no_answer};
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
    let done = take_off(names, args.all, |cgroup| {
        let attempt = format!("unassign '{cgroup}'");
        match ask_keeper(context, &attempt, &Order::Unassign { cgroup }, START_ONE_WITH_LANES)? {
            Answer::Unassigned(app) => Ok(app),
            other => Err(no_answer(&other)),
        }
    })?;
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

/// Takes cgroups off their lanes, by `unassign`; gives what was assigned. With `all` one that is
/// not assigned any more was removed meanwhile, which is as good.
fn take_off(
    names: Vec<String>,
    all: bool,
    mut unassign: impl FnMut(String) -> Result<App>,
) -> Result<Vec<App>> {
    let mut done = Vec::new();
    for cgroup in names {
        match unassign(cgroup) {
            Err(error) if all && error.kind == Kind::BadInput => {}
            app => done.push(app?),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use metasched_base::Error;
    use metasched_control::Why;
    use metasched_loader::LaneSpec;

    /// What a keeper says where `gone` is not assigned any more.
    fn unassign(cgroup: String) -> Result<App> {
        if cgroup == "gone" {
            return Err(Error::new(Kind::BadInput, "change its lane", "it is not assigned"));
        }
        Ok(App {
            number: 1,
            name: cgroup,
            lane: LaneSpec::of("fifo"),
            why: Why::Hand,
            share: None,
            replaced: 0,
            quarantined: false,
            cgroups: [].into(),
        })
    }

    #[test]
    fn all_goes_on_after_a_cgroup_that_has_gone_meanwhile() {
        let names = || ["a", "gone", "b"].map(str::to_owned).to_vec();
        let done = take_off(names(), true, unassign).unwrap();
        assert_eq!(done.iter().map(|app| app.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        // A cgroup that was named must be there.
        assert_eq!(take_off(names(), false, unassign).unwrap_err().kind, Kind::BadInput);
    }
}

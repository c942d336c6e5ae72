//! `metasched lane assign`.

use metasched_base::Result;
use metasched_control::keeper::{Answer, Order};
use metasched_control::{Assigned, Change, LATENCY_AWARE_POLICY};
use metasched_host::process::Prompt;
use metasched_loader::{LaneSpec, Setting, settings};

use crate::commands::keeper::{START_ONE_WITH_LANES, ask_keeper, no_answer};
use crate::context::Context;

/// Puts a cgroup on a lane of its own: under its own policy, with its own weight, beside
/// all others, at once.
///
/// Cgroups below it go along unless they are assigned themselves. What is assigned to
/// nothing is on the default lane. A scheduler of ours must be in force: 'metasched
/// start vtime'. Assigning a cgroup again replaces its lane; no task waits twice for it.
///
/// With --latency-aware the cgroup is put on the one lane of 'lags' that all flagged cgroups
/// share, where those that used least CPU time lately come first.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The cgroup: its path below /sys/fs/cgroup, or the name of a systemd unit
    cgroup: String,
    /// The policy, one of ours as 'metasched list' names them
    #[arg(required_unless_present = "latency_aware")]
    policy: Option<String>,
    /// Flags it latency-aware, in place of a policy; what it weighs is cpu.weight
    #[arg(long, conflicts_with_all = ["policy", "weight"])]
    latency_aware: bool,
    /// Its share among its siblings that want a CPU, 1 to 10000, in place of cpu.weight;
    /// without it the cgroup's share stays what it is
    #[arg(long, value_name = "N")]
    weight: Option<u32>,
    /// An option of the policy: slice=5ms. Of flagged cgroups all have it from then on
    #[arg(long = "set", value_name = "OPTION=VALUE")]
    settings: Vec<Setting>,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let _prompt = Prompt::new();
    let attempt = format!("assign '{}'", args.cgroup);
    let answer = ask_keeper(context, &attempt, &order(args)?, START_ONE_WITH_LANES)?;
    match answer {
        Answer::Assigned(assigned) => context.print(&assigned, describe)?,
        other => return Err(no_answer(&other)),
    }
    Ok(0)
}

/// What the keeper is asked for. What cannot be is told here, where it costs no way to it.
fn order(args: &Args) -> Result<Order> {
    let cgroup = args.cgroup.clone();
    let policy = args.policy.as_deref().unwrap_or(LATENCY_AWARE_POLICY);
    let options = settings(policy, &args.settings)?;
    let lane = LaneSpec { policy: policy.to_owned(), weight: args.weight, options };
    lane.check()?;
    Ok(match args.latency_aware {
        true => Order::Flag { cgroup, options: lane.options },
        false => Order::Assign { cgroup, lane, brief: false },
    })
}

/// An assignment in a sentence.
pub fn describe(assigned: &Assigned) -> String {
    let Assigned { cgroup, lane, change, write_ns, .. } = assigned;
    let weight = lane.weight.map_or("cpu.weight".to_owned(), |weight| weight.to_string());
    let what = format!("'{cgroup}' is on a lane of '{}', weight {weight}", lane.policy);
    let took = write_ns.map_or(String::new(), |ns| format!(" ({} us)", ns / 1000));
    match change {
        Change::Assigned => format!("{what}{took}"),
        Change::Replaced => format!("{what}, in place of an earlier one{took}"),
        Change::Adjusted => format!("{what}: the same lane, adjusted"),
        Change::Unchanged => format!("{what} already"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_is_told() {
        let mut assigned = Assigned {
            cgroup: "a/b".into(),
            app: 1,
            lane: LaneSpec::of("fifo"),
            change: Change::Assigned,
            write_ns: Some(21_500),
        };
        let said = describe(&assigned);
        assert_eq!(said, "'a/b' is on a lane of 'fifo', weight cpu.weight (21 us)");
        (assigned.change, assigned.write_ns) = (Change::Unchanged, None);
        assert!(describe(&assigned).ends_with("already"));
    }
}

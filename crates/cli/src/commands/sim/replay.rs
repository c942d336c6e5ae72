//! `metasched sim replay`: a scenario with real threads, on this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use metasched_base::{Error, Kind, Result, format_duration, parse_duration};
use metasched_control::{CandidateEnv, SwitcherOptions, candidates, put_back_after, under};
use metasched_experiment::{SeededBed, Work, per_second};
use metasched_host::machine::{HostFacts, machine};
use metasched_loader::DEFAULT_POLICY;
use metasched_profile::measure::SwitcherExecutor;
use metasched_replay::{Replay, ReplayRuns, Replayable, Replayed, ReplayedGroup};
use metasched_scenario::file::ScenarioFile;
use metasched_simbed::{Entry, GroupEntry, Spread, name, rounded, version};
use metasched_stats::WaitHistogram;
use serde::Serialize;

use super::bed::{BedArgs, ns};
use super::show;
use crate::context::Context;

/// Replays a scenario with real threads on this machine, under the scheduler that runs here.
///
/// A thread computes until its CPU time has advanced by what a step says; pipes, locks,
/// barriers, forks, affinities, nice values and cgroups are the real things. The figures are
/// those of 'metasched sim', by the kernel's books. What cannot be replayed is refused.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The scenario
    #[arg(value_name = "SCENARIO.toml")]
    scenario: PathBuf,
    /// Put this scheduler in force for it, as 'metasched list' names it
    #[arg(long, value_name = "POLICY", conflicts_with = "lanes")]
    policy: Option<String>,
    /// Give the scenario's cgroups the lanes that it says
    #[arg(long = "scenario-lanes")]
    lanes: bool,
    /// With --scenario-lanes: the policy of everything that has none of its own
    #[arg(long, value_name = "POLICY", default_value = DEFAULT_POLICY)]
    default: String,
    /// Only the tasks of this cgroup
    #[arg(long, value_name = "CGROUP")]
    only: Option<String>,
    /// How long a run lasts, instead of what the scenario says
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// How much of that is not counted
    #[arg(long = "warmup", value_name = "TIME", value_parser = parse_duration)]
    warm_up: Option<Duration>,
    /// The seed of what is left to chance: how long spans are. The machine has chances of its own
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// Everything that is printed.
#[derive(Debug, Serialize)]
struct Report {
    version: String,
    scenario: String,
    about: String,
    machine: HostFacts,
    duration_ns: u64,
    warm_up_ns: u64,
    seed: u64,
    window_ns: u64,
    replayed: Entry,
    /// Why waits were not measured, if they were not.
    no_waits: Option<String>,
}

/// Has work done with a scenario as a bed of real threads on this machine; then what was in force
/// is so again. `by` is the command that does it.
pub fn on_this_machine<T>(
    args: &BedArgs,
    by: &str,
    context: &Context,
    work: impl FnOnce(&mut SeededBed<ReplayRuns>) -> Result<T>,
) -> Result<T> {
    args.refuse_a_machine()?;
    let setup = args.setup()?;
    let host = machine(Path::new("/"))?;
    let table = candidates(&CandidateEnv::system())?;
    put_back_after(SwitcherOptions::new(by), |switcher| {
        let mut executor = SwitcherExecutor::new(switcher, &table);
        let runs = ReplayRuns {
            file: &setup.file,
            host: &host,
            table: &table,
            executor: &mut executor,
            interrupt: &context.interrupt,
            again: format!("metasched sim replay {}", args.path().display()),
            progress: None,
        };
        work(&mut SeededBed::new(runs, setup.first_seed))
    })
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let mut file = ScenarioFile::load(&args.scenario)?;
    file.duration_ns = args.duration.map_or(file.duration_ns, ns);
    file.warm_up_ns = args.warm_up.map_or(file.warm_up_ns, ns);
    if file.warm_up_ns >= file.duration_ns {
        let attempt = format!("replay '{}'", file.name);
        return Err(Error::new(Kind::BadInput, attempt, "nothing is left after its warm-up")
            .remedy("give a longer --duration"));
    }
    if args.lanes && file.lanes.is_empty() {
        let attempt = format!("give the cgroups of '{}' lanes", file.name);
        return Err(Error::new(Kind::BadInput, attempt, "it says none")
            .remedy("leave --scenario-lanes out, or write lane = \"POLICY\" to [cgroups.NAME]"));
    }
    let root = Path::new("/");
    let machine = machine(root)?;
    let replayable = Replayable::of(&file, args.only.as_deref(), machine.cpus as usize)?;
    let replay = Replay::prepare(&replayable)?;
    let wanted = args.policy.as_deref().or(args.lanes.then_some(args.default.as_str()));
    let seed = args.seed.or(file.seed).unwrap_or(1);
    let replayed = under(wanted, "metasched sim replay", |in_force| {
        if let (true, Some(program)) = (args.lanes, in_force.program()) {
            replay.give_lanes(&file.lanes, program)?;
        }
        Ok((replay.run(seed, &context.interrupt)?, in_force.name.clone()))
    });
    let removed = replay.remove();
    let (replayed, scheduler) = replayed?;
    removed?;
    let report = Report {
        version: version(),
        scenario: file.name.clone(),
        about: file.about.clone(),
        duration_ns: file.duration_ns,
        warm_up_ns: file.warm_up_ns,
        seed,
        window_ns: replayed.window_ns,
        replayed: entry(
            if args.lanes { "lanes".to_owned() } else { scheduler },
            &replayed,
            &machine,
        ),
        no_waits: replayed.no_waits,
        machine,
    };
    context.print(&report, text)?;
    Ok(0)
}

fn text(report: &Report) -> String {
    let brief = |ns| format_duration(Duration::from_nanos(ns));
    let about = if report.about.is_empty() { String::new() } else { format!(": {}", report.about) };
    let HostFacts { cpus, kernel_release, .. } = &report.machine;
    let mut out = format!(
        "metasched {}, replayed on this machine\n{}{about}\n{cpus} CPUs, {kernel_release}; {}, of which {} of warm-up do not count; seed {}\n\n",
        report.version,
        report.scenario,
        brief(report.duration_ns),
        brief(report.warm_up_ns),
        report.seed,
    );
    out += &show::alone(&report.replayed);
    if let Some(why) = &report.no_waits {
        out += &format!("waits were not measured: {why}\n");
    }
    out
}

fn entry(scheduler: String, replayed: &Replayed, machine: &HostFacts) -> Entry {
    let used: u64 = replayed.groups.values().map(|group| group.cpu_ns).sum();
    let mut groups: Vec<GroupEntry> = replayed
        .groups
        .iter()
        .map(|(path, group)| group_entry(name(path), group, replayed.window_ns, used))
        .collect();
    let all = ReplayedGroup::all(replayed.groups.values());
    groups.push(group_entry("all", &all, replayed.window_ns, used));
    let capacity = (replayed.window_ns * u64::from(machine.cpus)).max(1);
    Entry {
        name: scheduler,
        groups,
        utilisation: rounded(used as f64 / capacity as f64),
        idle_beside_work: None,
        events: None,
    }
}

fn group_entry(name: &str, group: &ReplayedGroup, window_ns: u64, used_ns: u64) -> GroupEntry {
    let rate = |amount: f64| rounded(per_second(amount, window_ns));
    let counts = group.counts();
    let work = Work::of(std::iter::once(counts));
    GroupEntry {
        cgroup: name.to_owned(),
        shown: true,
        tasks: group.tasks,
        work,
        throughput_per_s: rate(work.amount(counts)),
        cpus: rate(group.cpu_ns as f64 / 1e9),
        share: rounded(group.cpu_ns as f64 / used_ns.max(1) as f64),
        wait: group.waits.as_ref().map(waits),
        throttled_ns: None,
        response: Some(Spread::of(&group.responses)).filter(|spread| spread.count > 0),
        voluntary_per_s: rate(group.voluntary as f64),
        involuntary_per_s: rate(group.involuntary as f64),
        migrations_per_s: group.migrations.map(|n| rate(n as f64)),
        across_llcs_per_s: None,
        across_nodes_per_s: None,
        ratios: BTreeMap::new(),
    }
}

/// Percentiles of traced waits: within an eighth.
fn waits(waits: &WaitHistogram) -> Spread {
    let at = |q| waits.percentile_ns(q).unwrap_or(0);
    Spread {
        count: waits.count(),
        p50_ns: at(0.5),
        p90_ns: at(0.9),
        p99_ns: at(0.99),
        max_ns: waits.max_ns,
    }
}

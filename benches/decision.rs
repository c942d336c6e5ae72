//! `bench-decision`: what a decision of each policy costs, by how many tasks want a CPU.
//!
//! A crowd of threads, in one cgroup: three of four always compute, the fourth computes and sleeps.
//! The kernel counts how long the callbacks run that choose: *select_cpu*, *enqueue* and *dispatch*.
//! What grows with the crowd is linear in it. In a guest whose clock counts instructions a figure is
//! one of these, at 2 ns each.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use metasched_base::{Error, Interrupt, Kind, Progress, Result};
use metasched_benches::beside::{CROWD_BEGINS, PATIENCE, Play, play_or};
use metasched_benches::{all_are_known, order, put_in_force, realtime, table};
use metasched_control::{Candidate, CandidateEnv, Switcher, SwitcherOptions, put_back_after};
use metasched_host::cgroup::Cgroup;
use metasched_host::process::Child;
use metasched_loader::{CallbackCost, CountCallbacks};
use nix::sys::signal::Signal;
use serde::Serialize;

/// Measures what a decision of each policy costs, by how many tasks want a CPU.
#[derive(Debug, Parser)]
#[command(name = "bench-decision")]
struct Args {
    /// How many tasks there are
    #[arg(long, value_delimiter = ',', default_values_t = [10, 100, 1_000, 10_000], value_name = "N")]
    tasks: Vec<usize>,
    /// Only these policies
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// How long callbacks are counted
    #[arg(long = "for", default_value = "3s", value_parser = metasched_base::parse_duration)]
    lasts: Duration,
    /// The seed of the order of runs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Play a part in the benchmark (internal)
    #[arg(long, hide = true)]
    part: Option<String>,
}

/// The callbacks in which a policy chooses.
const DECISIONS: [&str; 3] = ["select_cpu", "enqueue", "dispatch"];
/// The crowd runs for so long before it is looked at.
const LEAD: Duration = Duration::from_secs(1);

/// Nanoseconds for each call, by policy, number of tasks and callback.
type Costs = BTreeMap<String, BTreeMap<usize, BTreeMap<&'static str, f64>>>;

#[derive(Serialize)]
struct Figures {
    ns: Costs,
    cpus: usize,
    seed: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    play_or(args.part.as_deref(), || bench(&args))
}

fn bench(args: &Args) -> Result<Figures> {
    let interrupt = Interrupt::listen()?;
    let mut policies = metasched_control::candidates(&CandidateEnv::system())?;
    let ours = metasched_loader::policies();
    policies.retain(|candidate| ours.iter().any(|policy| policy.name == candidate.name));
    let names: Vec<&str> = policies.iter().map(|policy| policy.name.as_str()).collect();
    all_are_known(&args.only, &names)?;
    policies.retain(|policy| args.only.is_empty() || args.only.contains(&policy.name));
    realtime()?;
    let cgroup = Cgroup::create("metasched/bench-decision")?;
    let mut ns = Costs::new();
    let progress =
        Progress::new("bench-decision".to_owned(), (args.tasks.len() * policies.len()) as u64);
    put_back_after(SwitcherOptions::new("bench-decision"), |switcher| {
        for (round, tasks) in args.tasks.iter().enumerate() {
            for p in order(policies.len(), args.seed, round as u64) {
                interrupt.check("the benchmark")?;
                let policy = &policies[p];
                progress.message(format!("{}, {tasks} tasks", policy.name));
                let took = measure(args, switcher, policy, *tasks, &cgroup)?;
                ns.entry(policy.name.clone()).or_default().insert(*tasks, took);
                progress.step();
            }
        }
        Ok(())
    })?;
    drop(progress);
    cgroup.remove()?;
    print(args, &ns);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Figures { ns, cpus, seed: args.seed })
}

/// Nanoseconds for each call of a policy's decisions beside a crowd. One that is not called has none.
fn measure(
    args: &Args,
    switcher: &mut Switcher,
    policy: &Candidate,
    tasks: usize,
    cgroup: &Cgroup,
) -> Result<BTreeMap<&'static str, f64>> {
    put_in_force(switcher, policy)?;
    let mut crowd = Play::crowd(tasks).start(cgroup)?;
    wait_for(&mut crowd, tasks)?;
    std::thread::sleep(LEAD);
    // The callbacks begin with each load of the program, so this is all of them.
    let counting = CountCallbacks::start()?;
    std::thread::sleep(args.lasts);
    let costs = counting.read();
    drop(counting);
    switcher.check_alive()?;
    crowd.signal(Signal::SIGKILL);
    crowd.wait(PATIENCE)?;
    let per_call = |cost: &CallbackCost| {
        let decides = DECISIONS.contains(&cost.name) && cost.calls > 0;
        decides.then(|| (cost.name, cost.run_ns as f64 / cost.calls as f64))
    };
    Ok(costs.iter().filter_map(per_call).collect())
}

/// Until all threads of the crowd are there.
fn wait_for(crowd: &mut Child, tasks: usize) -> Result<()> {
    let attempt = || format!("start {tasks} threads");
    let began = Instant::now();
    while !crowd.stdout_tail().contains(CROWD_BEGINS) {
        if crowd.poll()?.is_some() {
            return Err(Error::new(Kind::Failed, attempt(), crowd.last_lines(3)));
        }
        if began.elapsed() > PATIENCE {
            return Err(Error::new(Kind::Timeout, attempt(), "they were not there in a minute"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn print(args: &Args, ns: &Costs) {
    let columns: Vec<String> = args.tasks.iter().map(|tasks| format!("{tasks} tasks")).collect();
    let mut titles = vec!["ns a call: select_cpu, enqueue, dispatch"];
    titles.extend(columns.iter().map(String::as_str));
    let mut shown = table(&titles);
    for (policy, by_tasks) in ns {
        let cell = |tasks: &usize| {
            let of = |name| by_tasks.get(tasks).and_then(|took| took.get(name));
            let said = |name| of(name).map_or("-".to_owned(), |ns| format!("{ns:.0}"));
            DECISIONS.map(said).join(", ")
        };
        let mut row = vec![policy.clone()];
        row.extend(args.tasks.iter().map(cell));
        shown.add_row(row);
    }
    println!("{shown}");
}

//! `bench-cost`: what the lane layer costs.
//!
//! Our `fifo` policy on one lane alone does what the kernel tools' `scx_simple -f` does
//! without lanes; what it takes longer is the cost of the layer. With lanes of
//! applications beside it tasks are looked up, measured and shared out; the load is on
//! one of those lanes, and the others are idle. `fair`, which whoever is not assigned lives
//! under, is to cost what EEVDF does. All stand beside EEVDF in the same boot, in rounds of
//! random order.
//!
//! After that the kernel counts what each callback takes, in runs of their own since
//! counting costs time itself. There a second lane has work too, once: the load's time is then
//! shared with that, and tells nothing, but a callback's is its own.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Parser;
use metasched_base::{Interrupt, Progress, Result};
use metasched_benches::{
    Hackbench, Timed, all_are_known, finish, order, put_in_force, show, table,
};
use metasched_control::{
    Candidate, CandidateEnv, CandidateKind, Switcher, SwitcherOptions, put_back_after,
};
use metasched_host::cgroup::Cgroup;
use metasched_loader::{CallbackCost, CountCallbacks, DEFAULT_WEIGHT, HOT_CALLBACKS, LaneSpec};
use metasched_stats::{Interval, geometric_mean, paired_ratio};
use serde::Serialize;

/// Measures the cost of the lane layer against `scx_simple -f` and EEVDF.
#[derive(Debug, Parser)]
#[command(name = "bench-cost")]
struct Args {
    /// The kernel tools' scx_simple, as scripts/kernel-peers.sh builds it
    #[arg(long, value_name = "PATH")]
    scx_simple: String,
    /// How many rounds; each runs every scheduler once
    #[arg(long, default_value_t = 12)]
    rounds: u64,
    /// How many rounds in which the kernel counts what callbacks take
    #[arg(long, default_value_t = 3)]
    count_rounds: u64,
    /// How many times as long the loads are; a guest whose clock counts instructions is slow,
    /// and needs no long ones
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Only these schedulers, by their names in the tables; can be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// The seed of the order of runs
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Sized for about two seconds each in an emulated guest.
const WORKLOADS: [Timed; 2] = [
    Timed {
        name: "hackbench",
        command: &["hackbench", "-g", "4", "-l", "{}"],
        loops: 200,
        marker: "Time:",
    },
    Timed {
        name: "pipe",
        command: &["perf", "bench", "sched", "pipe", "-l", "{}"],
        loops: 20_000,
        marker: "Total time:",
    },
];

/// A scheduler, and with how many lanes of applications.
struct Subject {
    name: String,
    candidate: Candidate,
    lanes: u32,
    /// The second lane has hackbench, which never ends, beside the load.
    two_at_work: bool,
}

/// How many lanes of applications there are beside the default one.
const LANES: [u32; 4] = [1, 2, 8, 32];

#[derive(Serialize)]
struct Figures {
    /// Geometric mean over the workloads, time ratio: lower is better.
    ratio_fifo_over_scx_simple: Option<f64>,
    ratio_fifo_over_eevdf: Option<f64>,
    /// One lane over scx_simple -f, by workload.
    ratio_lanes1: BTreeMap<&'static str, Option<f64>>,
    /// Eight lanes, of which the load has one, over one lane alone, by workload.
    ratio_lanes8: BTreeMap<&'static str, Option<f64>>,
    by_workload: BTreeMap<&'static str, BTreeMap<String, Option<Interval>>>,
    /// What callbacks take, by workload and scheduler: nanoseconds for each call, and how many
    /// calls there were for each time that a task started to run.
    callbacks: BTreeMap<&'static str, Callbacks>,
    rounds: u64,
    seed: u64,
}

/// A callback, summed over all runs that were counted.
#[derive(Clone, Copy, Debug, Serialize)]
struct Callback {
    ns: f64,
    calls_per_run: f64,
}

/// By scheduler and callback.
type Callbacks = BTreeMap<String, BTreeMap<&'static str, Callback>>;

fn main() -> ExitCode {
    finish(bench(&Args::parse()))
}

/// Leaves the schedulers that are asked for; all if none is.
fn keep_only(subjects: &mut Vec<Subject>, only: &[String]) -> Result<()> {
    let names: Vec<&str> = subjects.iter().map(|subject| subject.name.as_str()).collect();
    all_are_known(only, &names)?;
    subjects.retain(|subject| only.is_empty() || only.contains(&subject.name));
    Ok(())
}

fn bench(args: &Args) -> Result<Figures> {
    let interrupt = Interrupt::listen()?;
    let ours = metasched_control::candidates(&CandidateEnv::system())?;
    let ours = |name| metasched_control::find(&ours, name).cloned();
    let alone = |candidate: Candidate| Subject {
        name: candidate.name.clone(),
        candidate,
        lanes: 0,
        two_at_work: false,
    };
    let mut subjects = vec![
        alone(ours("eevdf")?),
        alone(Candidate::external("scx_simple -f", vec![args.scx_simple.clone(), "-f".into()])),
        alone(ours("fifo")?),
        alone(ours("vtime")?),
        alone(ours("fair")?),
    ];
    for lanes in LANES {
        subjects.push(Subject {
            name: lanes_name(lanes),
            candidate: ours("fifo")?,
            lanes,
            two_at_work: false,
        });
    }
    subjects.push(Subject {
        name: "fifo, two at work".into(),
        candidate: ours("fifo")?,
        lanes: 2,
        two_at_work: true,
    });
    keep_only(&mut subjects, &args.only)?;
    let timed: Vec<&Subject> = subjects.iter().filter(|s| !s.two_at_work).collect();
    // Every run is in it, so that all pay for a cgroup.
    let cgroup = Cgroup::create("metasched/bench-cost")?;
    let loads = WORKLOADS.map(|load| load.scaled(args.scale));
    // times[workload][subject][round], in seconds.
    let mut times = vec![vec![Vec::new(); timed.len()]; WORKLOADS.len()];
    let counted: Vec<&Subject> =
        subjects.iter().filter(|s| s.candidate.kind == CandidateKind::Policy).collect();
    let mut callbacks = BTreeMap::new();
    put_back_after(SwitcherOptions::new("bench-cost"), |switcher| {
        let progress = Progress::new("bench-cost", args.rounds * timed.len() as u64);
        for round in 0..args.rounds {
            for s in order(timed.len(), args.seed, round) {
                interrupt.check("the benchmark")?;
                progress.message(timed[s].name.clone());
                start(switcher, timed[s], &cgroup)?;
                for (w, workload) in loads.iter().enumerate() {
                    // The first run after a switch pays for cold caches and translations.
                    if round == 0 {
                        workload.run(Some(&cgroup))?;
                    }
                    times[w][s].push(workload.run(Some(&cgroup))?);
                    switcher.check_alive()?;
                }
                progress.step();
            }
        }
        drop(progress);
        for load in &loads {
            let took = count_callbacks(args, switcher, &counted, load, &cgroup, &interrupt)?;
            callbacks.insert(load.name, took);
        }
        Ok(())
    })?;
    cgroup.remove()?;
    Ok(Figures { callbacks, ..figures(args, &timed, &times) })
}

/// Has the kernel count what the callbacks of our subjects take under a load, in a few rounds.
fn count_callbacks(
    args: &Args,
    switcher: &mut Switcher,
    subjects: &[&Subject],
    load: &Timed,
    cgroup: &Cgroup,
    interrupt: &Interrupt,
) -> Result<Callbacks> {
    let mut sums: BTreeMap<&str, BTreeMap<&'static str, (u64, u64)>> = BTreeMap::new();
    let progress = Progress::new("callbacks", args.count_rounds * subjects.len() as u64);
    for round in 0..args.count_rounds {
        for s in order(subjects.len(), args.seed, round) {
            interrupt.check("the benchmark")?;
            progress.message(subjects[s].name.clone());
            start(switcher, subjects[s], cgroup)?;
            let beside = subjects[s].two_at_work.then(|| Beside::start(switcher)).transpose()?;
            // The callbacks begin with each load of the program, so this is all of them.
            let counting = CountCallbacks::start()?;
            load.run(Some(cgroup))?;
            for CallbackCost { name, calls, run_ns } in counting.read() {
                let sum = sums.entry(&subjects[s].name).or_default().entry(name).or_default();
                *sum = (sum.0 + calls, sum.1 + run_ns);
            }
            drop(counting);
            if let Some(beside) = beside {
                beside.stop()?;
            }
            progress.step();
        }
    }
    drop(progress);
    let title = format!("{}: ns a call (calls for each run of a task)", load.name);
    let mut titles = vec![title.as_str()];
    titles.extend(HOT_CALLBACKS);
    let mut shown = table(&titles);
    let mut all = BTreeMap::new();
    for subject in subjects {
        let Some(of) = sums.get(subject.name.as_str()) else { continue };
        let runs = of.get("running").map_or(0, |(calls, _)| *calls);
        let costs: BTreeMap<&'static str, Callback> = of
            .iter()
            .filter(|(_, (calls, _))| *calls > 0 && runs > 0)
            .map(|(name, (calls, run_ns))| {
                let ns = *run_ns as f64 / *calls as f64;
                (*name, Callback { ns, calls_per_run: *calls as f64 / runs as f64 })
            })
            .collect();
        let mut row = vec![subject.name.clone()];
        row.extend(HOT_CALLBACKS.map(|name| {
            costs.get(name).map_or("not measured".to_owned(), |c| {
                format!("{:.0} ({:.2})", c.ns, c.calls_per_run)
            })
        }));
        shown.add_row(row);
        all.insert(subject.name.clone(), costs);
    }
    println!("{shown}");
    Ok(all)
}

/// Work in the second lane, always.
struct Beside {
    cgroup: Cgroup,
    hackbench: Hackbench,
}

impl Beside {
    fn start(switcher: &mut Switcher) -> Result<Self> {
        let cgroup = Cgroup::create("metasched/bench-cost-beside")?;
        if let Some(program) = switcher.program() {
            program.assign(cgroup.id()?, 2)?;
        }
        Ok(Self { hackbench: Hackbench::start(Some(&cgroup))?, cgroup })
    }

    fn stop(self) -> Result<()> {
        self.cgroup.kill()?;
        drop(self.hackbench);
        self.cgroup.remove()
    }
}

/// Puts a subject in force; with lanes, the cgroup is on the first of them.
fn start(switcher: &mut Switcher, subject: &Subject, cgroup: &Cgroup) -> Result<()> {
    put_in_force(switcher, &subject.candidate)?;
    let Some(program) = switcher.program().filter(|_| subject.lanes > 0) else {
        return Ok(());
    };
    let lane =
        LaneSpec { policy: subject.candidate.name.clone(), weight: None, options: BTreeMap::new() };
    for app in 1..=subject.lanes {
        program.set_app(app, &lane, DEFAULT_WEIGHT)?;
    }
    program.assign(cgroup.id()?, 1)
}

fn lanes_name(lanes: u32) -> String {
    format!("fifo, {lanes} application lanes")
}

fn figures(args: &Args, subjects: &[&Subject], times: &[Vec<Vec<f64>>]) -> Figures {
    let one = "fifo";
    let mut compared: Vec<(String, String)> = [
        ("scx_simple -f", "eevdf"),
        ("fifo", "eevdf"),
        ("vtime", "eevdf"),
        ("fair", "eevdf"),
        ("fifo", "scx_simple -f"),
        ("vtime", "scx_simple -f"),
    ]
    .map(|(over, under)| (over.to_owned(), under.to_owned()))
    .into();
    for lanes in LANES {
        compared.push((lanes_name(lanes), one.to_owned()));
        compared.push((lanes_name(lanes), "eevdf".to_owned()));
    }
    let index = |name: &str| subjects.iter().position(|s| s.name == name);
    let ratio = |w: usize, over: &str, under: &str| -> Option<Interval> {
        let (a, b) = (index(over)?, index(under)?);
        let pairs: Vec<_> = times[w][a].iter().copied().zip(times[w][b].iter().copied()).collect();
        paired_ratio(&pairs, args.seed)
    };
    let mut titles = vec!["time ratio (lower is better)"];
    titles.extend(WORKLOADS.iter().map(|w| w.name));
    let mut shown = table(&titles);
    let mut by_workload: BTreeMap<&'static str, BTreeMap<String, Option<Interval>>> =
        BTreeMap::new();
    for (over, under) in &compared {
        let mut row = vec![format!("{over} / {under}")];
        for (w, workload) in WORKLOADS.iter().enumerate() {
            let interval = ratio(w, over, under);
            row.push(show(interval));
            by_workload
                .entry(workload.name)
                .or_default()
                .insert(format!("{over}/{under}"), interval);
        }
        shown.add_row(row);
    }
    println!("{shown}");
    let combined = |over: &str, under: &str| {
        let estimates: Option<Vec<f64>> =
            (0..WORKLOADS.len()).map(|w| ratio(w, over, under).map(|i| i.estimate)).collect();
        geometric_mean(&estimates?)
    };
    let each = |over: &str, under: &str| {
        let estimates = (0..WORKLOADS.len()).map(|w| ratio(w, over, under).map(|i| i.estimate));
        WORKLOADS.iter().map(|workload| workload.name).zip(estimates).collect()
    };
    Figures {
        ratio_lanes1: each(one, "scx_simple -f"),
        ratio_lanes8: each(&lanes_name(8), one),
        ratio_fifo_over_scx_simple: combined("fifo", "scx_simple -f"),
        ratio_fifo_over_eevdf: combined("fifo", "eevdf"),
        by_workload,
        callbacks: BTreeMap::new(),
        rounds: args.rounds,
        seed: args.seed,
    }
}

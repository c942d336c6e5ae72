//! `bench-switch`: what a change of scheduler takes, by process swap and by lane.
//!
//! Process swap is timed for every candidate that is here on an idle machine, and for our
//! own program under hackbench too.
//! Lanes are timed under hackbench: the write, the time until the first task runs under
//! the new policy, and the longest wait of any runnable task beside the same load
//! without a change. The published metaschedulers swapped processes: 102 ms to start,
//! 24 ms to stop, 133 ms in all, on a native machine.
//!
//! And `metasched start`, from the command to its end, with all policies in: alone and beside
//! two busy loops for each CPU.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Parser;
use metasched_base::{Error, Interrupt, Kind, Progress, Result};
use metasched_benches::{Hackbench, finish, order, realtime, show, table};
use metasched_control::{
    Candidate, CandidateEnv, CandidateKind, Mechanism, SwitcherOptions, put_back_after,
};
use metasched_host::cgroup::Cgroup;
use metasched_host::process::{Child, Output, Spawn, allowed_cpus};
use metasched_loader::{
    DEFAULT_WEIGHT, LaneSpec, LoadOptions, Program, Replacement, WaitTracer, Waiters,
};
use metasched_stats::{Interval, median, paired_ratio, percentile};
use serde::Serialize;

/// Times process swaps and lane replacements.
#[derive(Debug, Parser)]
#[command(name = "bench-switch")]
struct Args {
    /// How often every candidate is started and stopped, idle and under load
    #[arg(long, default_value_t = 6)]
    swaps: u64,
    /// How often `metasched start` is run, alone and beside busy loops
    #[arg(long, default_value_t = 10)]
    starts: u64,
    /// The program whose start is timed
    #[arg(long, value_name = "PATH", default_value = "metasched")]
    metasched: String,
    /// How many lane replacements
    #[arg(long, default_value_t = 1000)]
    replacements: u64,
    /// Time between two lane replacements
    #[arg(long, default_value = "10ms", value_parser = metasched_base::parse_duration)]
    gap: Duration,
    /// The seed of the order of runs
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A task that is not found under the new policy by then is counted as not having run.
const FIRST_RUN_TIMEOUT: Duration = Duration::from_secs(2);
/// In how many pieces the replacements are made, each beside a piece without any.
const PIECES: u64 = 10;
/// The policies between which the root lane is replaced.
const POLICIES: [&str; 2] = ["fifo", "vtime"];

/// Busy loops for each CPU, beside which `metasched start` is timed.
const LOOPS: usize = 2;
/// No start or stop may take longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The application whose lane is replaced, where it is not the root lane.
const APP: u32 = 1;

/// The distribution of some times, in microseconds.
#[derive(Clone, Debug, Serialize)]
struct Times {
    n: usize,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
}

impl Times {
    fn of(ns: &[f64]) -> Option<Self> {
        Some(Self {
            n: ns.len(),
            p50_us: median(ns)? / 1e3,
            p99_us: percentile(ns, 0.99)? / 1e3,
            max_us: ns.iter().copied().fold(0.0, f64::max) / 1e3,
        })
    }
}

/// What one series of swaps gave.
#[derive(Default)]
struct Swaps {
    by_candidate: BTreeMap<String, Swap>,
    /// Candidates that could not be put in force, and why.
    not_measured: BTreeMap<String, String>,
}

#[derive(Default)]
struct Swap {
    start_ns: Vec<f64>,
    stop_ns: Vec<f64>,
    whole_ns: Vec<f64>,
}

#[derive(Serialize)]
struct SwapFigures {
    start: Option<Times>,
    stop: Option<Times>,
    /// From one scheduler of this kind to another; for each candidate, to it.
    whole: Option<Times>,
}

#[derive(Serialize)]
struct LaneFigures {
    write: Option<Times>,
    first_run: Option<Times>,
    /// Replacements after which no task ran under the new policy in time.
    no_first_run: u64,
    longest_wait_us: f64,
    longest_wait_without_changes_us: f64,
}

/// What `metasched start` took.
#[derive(Serialize)]
struct Starts {
    alone: Option<Times>,
    beside_loops: Option<Times>,
    /// Beside them over alone, of the same round.
    ratio: Option<Interval>,
}

#[derive(Serialize)]
struct Figures {
    starts: Starts,
    /// Median whole process swap to an external scheduler, on an idle machine (which is
    /// kind to it), over the median time until the first task runs on a new lane, under
    /// hackbench.
    ratio_swap_over_lane: Option<f64>,
    /// The same with our own program unloaded and loaded anew under hackbench.
    ratio_loaded_swap_over_lane: Option<f64>,
    /// Candidates that could not be put in force, and why.
    not_measured: BTreeMap<String, String>,
    swap_idle: BTreeMap<String, SwapFigures>,
    swap_loaded: BTreeMap<String, SwapFigures>,
    swap_peers_whole: Option<Times>,
    swap_loaded_whole: Option<Times>,
    /// From the write that reassigns a cgroup until the first of its tasks runs under the
    /// new policy, under hackbench in that cgroup.
    in_force_us_p99: Option<f64>,
    /// The root lane replaced.
    lane: LaneFigures,
    /// A cgroup's lane replaced.
    reassigned: LaneFigures,
    seed: u64,
}

fn main() -> ExitCode {
    finish(bench(&Args::parse()))
}

fn bench(args: &Args) -> Result<Figures> {
    let interrupt = Interrupt::listen()?;
    realtime()?;
    let candidates: Vec<Candidate> = metasched_control::candidates(&CandidateEnv::system())?
        .into_iter()
        .filter(|c| c.kind != CandidateKind::Default)
        .collect();

    let starts = starts(args, &interrupt)?;
    let idle = swaps("process swap, idle", &candidates, args, &interrupt)?;
    let loaded = {
        // Only ours: in an emulated guest the processes of the others do not get through
        // their start-up beside 160 busy tasks in the time that a start is given.
        let ours: Vec<Candidate> =
            candidates.iter().filter(|c| c.kind == CandidateKind::Policy).cloned().collect();
        let _load = Hackbench::start(None)?;
        swaps("process swap, hackbench", &ours, args, &interrupt)?
    };
    let root = replacements(
        "root lane replacement, hackbench",
        args,
        &interrupt,
        None,
        &mut |program, policy| program.replace_root(policy),
    )?;
    let cgroup = Cgroup::create("metasched/bench-switch")?;
    let reassigned = replacements(
        "cgroup reassignment, hackbench",
        args,
        &interrupt,
        Some(&cgroup),
        &mut |program, policy| program.set_app(APP, &LaneSpec::of(policy), DEFAULT_WEIGHT),
    )?;
    cgroup.remove()?;

    let peer =
        |name: &str| candidates.iter().any(|c| c.name == name && c.kind == CandidateKind::External);
    let peers_whole = idle.whole(peer);
    let loaded_whole = loaded.whole(|_| true);
    print_starts(&starts);
    print_swaps("idle", &idle);
    print_swaps("under hackbench -g4", &loaded);
    print_lane("root lane replaced, under hackbench -g4", &root);
    print_lane("cgroup reassigned, hackbench -g4 in it", &reassigned);
    let not_measured = idle
        .not_measured
        .iter()
        .chain(&loaded.not_measured)
        .map(|(n, e)| (n.clone(), e.clone()))
        .collect();
    let first = root.first_run.as_ref().map(|t| t.p50_us);
    let over = |swap: &Option<Times>| Some(swap.as_ref()?.p50_us / first?);
    Ok(Figures {
        starts,
        ratio_swap_over_lane: over(&peers_whole),
        ratio_loaded_swap_over_lane: over(&loaded_whole),
        not_measured,
        swap_idle: idle.figures(),
        swap_loaded: loaded.figures(),
        swap_peers_whole: peers_whole,
        swap_loaded_whole: loaded_whole,
        in_force_us_p99: reassigned.first_run.as_ref().map(|t| t.p99_us),
        lane: root,
        reassigned,
        seed: args.seed,
    })
}

impl Swap {
    fn figures(&self) -> SwapFigures {
        SwapFigures {
            start: Times::of(&self.start_ns),
            stop: Times::of(&self.stop_ns),
            whole: Times::of(&self.whole_ns),
        }
    }
}

impl Swaps {
    /// All whole swaps to the candidates that `counts` picks, together.
    fn whole(&self, counts: impl Fn(&str) -> bool) -> Option<Times> {
        let counted = self.by_candidate.iter().filter(|(name, _)| counts(name));
        let all: Vec<f64> = counted.flat_map(|(_, s)| s.whole_ns.iter().copied()).collect();
        Times::of(&all)
    }

    fn figures(self) -> BTreeMap<String, SwapFigures> {
        self.by_candidate.into_iter().map(|(name, swap)| (name, swap.figures())).collect()
    }
}

/// Times `metasched start`, in turns alone and beside busy loops.
fn starts(args: &Args, interrupt: &Interrupt) -> Result<Starts> {
    let mut times = [Vec::new(), Vec::new()];
    let progress = Progress::new("metasched start", args.starts * 2);
    for round in 0..args.starts {
        for loaded in order(2, args.seed, round) {
            interrupt.check("the benchmark")?;
            let loops = if loaded == 1 { LOOPS * allowed_cpus()?.len() } else { 0 };
            let _loops: Vec<Child> = (0..loops)
                .map(|_| Spawn::new(["sh", "-c", "while :; do :; done"]).start())
                .collect::<Result<_>>()?;
            interrupt.sleep(Duration::from_millis(300));
            let start = Instant::now();
            command(&[&args.metasched, "start", POLICIES[0]])?;
            times[loaded].push(start.elapsed().as_nanos() as f64);
            command(&[&args.metasched, "stop"])?;
            progress.step();
        }
    }
    let [alone, beside] = times;
    let pairs: Vec<_> = beside.iter().copied().zip(alone.iter().copied()).collect();
    Ok(Starts {
        alone: Times::of(&alone),
        beside_loops: Times::of(&beside),
        ratio: paired_ratio(&pairs, args.seed),
    })
}

/// Runs a command to its end.
fn command(words: &[&str]) -> Result<()> {
    let mut child = Spawn::new(words.iter().copied())
        .stdout(Output::Tail(1 << 12))
        .stderr(Output::Tail(1 << 12))
        .start()?;
    let attempt = || format!("run '{}'", words.join(" "));
    match child.wait(PATIENCE)? {
        Some(status) if status.success() => Ok(()),
        Some(_) => Err(Error::new(Kind::Failed, attempt(), child.last_lines(3))),
        None => Err(Error::new(Kind::Timeout, attempt(), "it did not end in a minute")),
    }
}

/// Goes from candidate to candidate in a new order each round; every change stops one
/// process and starts the next, as the published metaschedulers did.
fn swaps(
    what: &'static str,
    candidates: &[Candidate],
    args: &Args,
    interrupt: &Interrupt,
) -> Result<Swaps> {
    let mut all = Swaps::default();
    let progress = Progress::new(what, args.swaps * candidates.len() as u64);
    put_back_after(SwitcherOptions::new("bench-switch"), |switcher| {
        for round in 0..args.swaps {
            for c in order(candidates.len(), args.seed, round) {
                interrupt.check("the benchmark")?;
                let to = &candidates[c];
                progress.message(to.name.clone());
                // The end of one round can be the start of the next: nothing to change.
                if switcher.current() == to.name || all.not_measured.contains_key(&to.name) {
                    progress.step();
                    continue;
                }
                let record = match switcher.switch_by(to, Mechanism::Swap) {
                    Ok(record) => record,
                    Err(error) if error.kind == Kind::Interrupted => return Err(error),
                    // One that does not start here takes no part; the others do.
                    Err(error) => {
                        progress.line(&error.to_string());
                        all.not_measured.insert(to.name.clone(), error.to_string());
                        continue;
                    }
                };
                if let Some(ns) = record.stop_ns {
                    all.by_candidate
                        .entry(record.from.clone())
                        .or_default()
                        .stop_ns
                        .push(ns as f64);
                }
                let swap = all.by_candidate.entry(record.to.clone()).or_default();
                if let Some(ns) = record.start_ns {
                    swap.start_ns.push(ns as f64);
                }
                if record.stop_ns.is_some() {
                    swap.whole_ns.push(record.total_ns as f64);
                }
                // Long enough for the new scheduler to have work to do.
                interrupt.sleep(Duration::from_millis(300));
                switcher.check_alive()?;
                progress.step();
            }
        }
        Ok(())
    })?;
    Ok(all)
}

/// Replaces a lane again and again, by `change`, under hackbench. With a cgroup, the load
/// is in it, and it is on the lane that is replaced.
fn replacements(
    what: &'static str,
    args: &Args,
    interrupt: &Interrupt,
    cgroup: Option<&Cgroup>,
    change: &mut dyn FnMut(&mut Program, &str) -> Result<Replacement>,
) -> Result<LaneFigures> {
    let mut program = Program::load(&LoadOptions::policy(POLICIES[0]))?;
    if let Some(cgroup) = cgroup {
        change(&mut program, POLICIES[0])?;
        program.assign(cgroup.id()?, APP)?;
    }
    let tracer = WaitTracer::attach(&[Waiters::System])?;
    let _load = Hackbench::start(cgroup)?;
    let (mut write_ns, mut first_ns) = (Vec::new(), Vec::new());
    let (mut no_first_run, mut longest, mut longest_without) = (0, 0, 0);
    let progress = Progress::new(what, PIECES);
    for piece in 0..PIECES {
        // The same load for as long without changes, half of it under each policy.
        let changing = Instant::now();
        tracer.reset()?;
        for i in 0..args.replacements / PIECES {
            interrupt.check("the benchmark")?;
            let policy = POLICIES[(i as usize + 1) % POLICIES.len()];
            let replacement = change(&mut program, policy)?;
            write_ns.push(replacement.write_ns as f64);
            match first_run(&program, replacement.generation) {
                Some(at_ns) => first_ns.push(at_ns.saturating_sub(replacement.at_ns) as f64),
                None => no_first_run += 1,
            }
            fail_if_exited(&program)?;
            sleep(args.gap);
        }
        longest = longest.max(longest_wait_ns(&tracer)?);
        let took = changing.elapsed();
        for policy in POLICIES {
            change(&mut program, policy)?;
            // What the change itself left behind must be gone.
            interrupt.sleep(Duration::from_secs(1));
            tracer.reset()?;
            interrupt.sleep(took / POLICIES.len() as u32);
            longest_without = longest_without.max(longest_wait_ns(&tracer)?);
        }
        // Every piece begins with the same policy in force.
        change(&mut program, POLICIES[0])?;
        progress.message(format!("{} of {PIECES}", piece + 1));
        progress.step();
    }
    Ok(LaneFigures {
        write: Times::of(&write_ns),
        first_run: Times::of(&first_ns),
        no_first_run,
        longest_wait_us: longest as f64 / 1e3,
        longest_wait_without_changes_us: longest_without as f64 / 1e3,
    })
}

/// When the first task ran on that lane. The kernel program stamps the time; how often
/// we look does not change it.
fn first_run(program: &Program, generation: u64) -> Option<u64> {
    let end = Instant::now() + FIRST_RUN_TIMEOUT;
    loop {
        match program.first_run_ns(generation) {
            // Seldom: looking takes CPU time from the load, before all of it.
            None if Instant::now() < end => sleep(Duration::from_millis(2)),
            found => return found,
        }
    }
}

fn fail_if_exited(program: &Program) -> Result<()> {
    match program.exited() {
        None => Ok(()),
        Some(record) => Err(Error::new(
            Kind::SchedulerExit,
            "replace lanes",
            format!("the kernel ended our program: {}: {}", record.reason, record.message),
        )),
    }
}

fn longest_wait_ns(tracer: &WaitTracer) -> Result<u64> {
    Ok(tracer.read()?.iter().map(|waits| waits.max_ns).max().unwrap_or(0))
}

fn cell(times: &Option<Times>) -> String {
    match times {
        Some(t) => format!("{:.1} / {:.1} (n={})", t.p50_us / 1e3, t.p99_us / 1e3, t.n),
        None => "not measured".into(),
    }
}

fn print_starts(starts: &Starts) {
    let mut shown = table(&["metasched start", "ms, p50 / p99"]);
    shown.add_row(["alone".into(), cell(&starts.alone)]);
    shown.add_row(["beside two busy loops for each CPU".into(), cell(&starts.beside_loops)]);
    shown.add_row(["that over alone".into(), show(starts.ratio)]);
    println!("{shown}\n");
}

fn print_swaps(load: &str, swaps: &Swaps) {
    let title = format!("process swap, {load} (ms, p50 / p99)");
    let mut shown = table(&[&title, "start", "stop", "whole switch to it"]);
    for (name, swap) in &swaps.by_candidate {
        let f = swap.figures();
        shown.add_row([name.clone(), cell(&f.start), cell(&f.stop), cell(&f.whole)]);
    }
    for name in swaps.not_measured.keys() {
        shown.add_row([name, "not measured", "", ""]);
    }
    println!("{shown}\n");
}

fn print_lane(what: &str, lane: &LaneFigures) {
    let mut shown = table(&[what, "ms, p50 / p99"]);
    shown.add_row(["the write".into(), cell(&lane.write)]);
    shown.add_row(["until the first task runs under the new policy".into(), cell(&lane.first_run)]);
    shown.add_row([
        "no task under the new policy in two seconds".into(),
        format!("{} times", lane.no_first_run),
    ]);
    shown.add_row([
        "longest wait of a runnable task".into(),
        format!("{:.1}", lane.longest_wait_us / 1e3),
    ]);
    shown.add_row([
        "the same load without changes".into(),
        format!("{:.1}", lane.longest_wait_without_changes_us / 1e3),
    ]);
    println!("{shown}\n");
}

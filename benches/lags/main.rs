//! `bench-lags`: functions of a serverless platform on one node of the simulator, by how many there are.
//!
//! The published study's questions: what becomes of the median, of the 95th percentile, of the calls that
//! are answered within a second, and of the CPU time that goes into scheduling, with 12 to 228
//! functions on 12 CPUs? Each scheduler is compared with EEVDF by pairs of runs with one seed.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use metasched_base::{Interrupt, Result, brief_time};
use metasched_benches::{finish, show};
use metasched_scenario::CpuMask;
use metasched_scenario::file::{MachineSpec, ScenarioFile};
use metasched_simbed::{Arrangement, Calls, Setup, Steps, each, failed};
use metasched_stats::{Interval, median, paired_ratio};
use serde::Serialize;

/// How many functions there were in the published study.
const DENSITIES: [u64; 9] = [12, 24, 48, 72, 96, 120, 144, 192, 228];
/// So much of the published means: 228 functions then have 307 calls under way in the mean.
const SCALE: f64 = 0.44;
/// A slice that the study's authors found to help.
const LONG_SLICE_NS: u64 = 100_000_000;
const EEVDF: &str = "eevdf";

/// Simulates functions on one node, by how many there are.
#[derive(Debug, Parser)]
#[command(name = "bench-lags")]
struct Args {
    /// How many functions
    #[arg(long, value_delimiter = ',', default_values_t = DENSITIES)]
    functions: Vec<u64>,
    /// How many seeds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(2..))]
    seeds: u64,
    /// How long each run lasts, in simulated seconds, two of which do not count
    #[arg(long, default_value_t = 12)]
    seconds: u64,
    /// The node, with what its kernel takes
    #[arg(long, default_value = "benches/lags/machine.toml")]
    machine: std::path::PathBuf,
    /// No tables, only the line of JSON
    #[arg(long)]
    json: bool,
}

/// What calls do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    /// Each hashes by itself.
    Plain,
    /// Each hashes with four threads.
    Parallel,
    /// Every second function does.
    Mixed,
}

const VARIANTS: [(Variant, &str); 3] =
    [(Variant::Plain, "plain"), (Variant::Parallel, "parallel"), (Variant::Mixed, "mixed")];

/// What is compared.
const CONTENDERS: [&str; 6] = [EEVDF, "eevdf-100ms", "pinned", "fair", "vtime", "lags"];

/// Of each twelve functions the first has most calls; the others are light.
const TWELVE: usize = 12;

/// What a run came to: all calls, and those of light functions.
struct Run {
    all: Calls,
    light: Calls,
}

/// One figure of a contender, in times of EEVDF's, with its 95 % interval.
type Ratios = BTreeMap<&'static str, Option<Interval>>;

/// All of them, by variant, density and contender.
type ByBed = BTreeMap<&'static str, BTreeMap<u64, BTreeMap<&'static str, Ratios>>>;

#[derive(Serialize)]
struct Figures {
    sim: ByBed,
    /// Percentiles in ns and shares, the medians over the seeds.
    medians: BTreeMap<&'static str, BTreeMap<u64, BTreeMap<&'static str, Medians>>>,
    seeds: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Medians {
    p50_ns: f64,
    p95_ns: f64,
    p99_ns: f64,
    light_p95_ns: f64,
    timely_per_s: f64,
    schedule_share: f64,
    busy_share: f64,
    switches_per_s: f64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    finish(bench(&args))
}

fn bench(args: &Args) -> Result<Figures> {
    let interrupt = Interrupt::listen()?;
    let spec = MachineSpec::load(&args.machine)?;
    let mut jobs = Vec::new();
    for (variant, _) in VARIANTS {
        for functions in &args.functions {
            for contender in CONTENDERS {
                jobs.extend((1..=args.seeds).map(|seed| (variant, *functions, contender, seed)));
            }
        }
    }
    let mut steps = Steps::new("simulating functions".to_owned(), jobs.len(), Instant::now());
    let work = |(variant, functions, contender, seed): &(Variant, u64, &str, u64)| {
        run(args, &spec, *variant, *functions, contender, *seed)
    };
    let results = each(&jobs, &interrupt, work, &mut || steps.step())?;
    let mut all: BTreeMap<_, Vec<Run>> = BTreeMap::new();
    for ((variant, functions, contender, _), calls) in jobs.iter().zip(results) {
        all.entry((name(*variant), *functions, *contender)).or_default().push(calls?);
    }
    let mut figures = Figures { sim: BTreeMap::new(), medians: BTreeMap::new(), seeds: args.seeds };
    let capacity_s = (args.seconds - 2) as f64 * spec.cpus as f64;
    for ((variant, functions, contender), calls) in &all {
        let eevdf = &all[&(*variant, *functions, EEVDF)];
        let ratios = ratios(calls, eevdf, capacity_s);
        let by_density = figures.sim.entry(variant).or_default().entry(*functions).or_default();
        by_density.insert(contender, ratios);
        let by_density = figures.medians.entry(variant).or_default().entry(*functions).or_default();
        by_density.insert(contender, medians(calls, capacity_s, spec.cpus as f64));
    }
    if !args.json {
        for (_, variant) in VARIANTS {
            println!("{}", table(variant, &figures));
        }
    }
    Ok(figures)
}

fn name(variant: Variant) -> &'static str {
    VARIANTS.iter().find(|(known, _)| *known == variant).map_or("", |(_, name)| name)
}

/// The scenario of so many functions.
fn text(variant: Variant, functions: u64, seconds: u64) -> String {
    let section = |name: &str, count: u64, threads: u64| {
        format!(
            "[[function]]\nname = \"{name}\"\ncount = {count}\nscale = {SCALE}\nthreads = {threads}\n\
             sleep = \"exp(20ms)\"\nrun = \"lognormal(1100us, 0.4)\"\n"
        )
    };
    let sections = match variant {
        Variant::Plain => section("f", functions, 1),
        Variant::Parallel => section("p", functions, 4),
        Variant::Mixed => {
            section("f", functions / 2, 1) + &section("p", functions - functions / 2, 4)
        }
    };
    format!("duration = \"{seconds}s\"\nwarm_up = \"2s\"\n{sections}")
}

fn run(
    args: &Args,
    spec: &MachineSpec,
    variant: Variant,
    functions: u64,
    contender: &str,
    seed: u64,
) -> Result<Run> {
    let named = format!("{functions}-{}.toml", name(variant));
    let mut file = ScenarioFile::parse(Path::new(&named), &text(variant, functions, args.seconds))?;
    let mut spec = spec.clone();
    let scheduler = match contender {
        "eevdf-100ms" => {
            spec.base_slice_ns = Some(LONG_SLICE_NS);
            EEVDF
        }
        "pinned" => {
            for (at, function) in file.functions.clone().iter().enumerate() {
                let mut only = CpuMask::EMPTY;
                only.set(at % spec.cpus);
                file.tasks[function.tasks.clone()]
                    .iter_mut()
                    .for_each(|task| task.allowed = Some(only));
            }
            EEVDF
        }
        policy => policy,
    };
    let setup = Setup::new(file, spec, Vec::new(), Some(seed))?;
    let arrangement = Arrangement::policy(scheduler, &[])?;
    let outcome = arrangement.scenario(&setup, seed).run();
    let again = format!("bench-lags --functions {functions}");
    // kubepods/burstable/NAME-NUMBER/container; each kind of functions is numbered from 0.
    let is_light = |cgroup: &str| {
        let number = cgroup.rsplit('/').nth(1).and_then(|name| name.rsplit('-').next());
        number
            .and_then(|number| number.parse().ok())
            .is_some_and(|n: usize| !n.is_multiple_of(TWELVE))
    };
    outcome
        .map(|outcome| Run {
            all: Calls::of(&outcome),
            light: Calls::of_cgroups(&outcome, is_light),
        })
        .map_err(|failure| failed(&setup.file.name, contender, seed, &failure, &again))
}

fn ratios(runs: &[Run], eevdf: &[Run], capacity_s: f64) -> Ratios {
    let over = |figure: &dyn Fn(&Run) -> f64| {
        let pairs = runs.iter().zip(eevdf).map(|(one, other)| (figure(one), figure(other)));
        paired_ratio(&pairs.collect::<Vec<_>>(), 1)
    };
    BTreeMap::from([
        ("p50_ratio", over(&|run| run.all.percentile_ns(0.5))),
        ("p95_ratio", over(&|run| run.all.percentile_ns(0.95))),
        ("light_p50_ratio", over(&|run| run.light.percentile_ns(0.5))),
        ("light_p95_ratio", over(&|run| run.light.percentile_ns(0.95))),
        ("p99_ratio", over(&|run| run.all.percentile_ns(0.99))),
        ("throughput_ratio", over(&|run| run.all.timely as f64)),
        ("schedule_share_ratio", over(&|run| run.all.lost_ns as f64 / capacity_s)),
        ("cpu_ratio", over(&|run| run.all.busy_ns() as f64 / capacity_s)),
    ])
}

fn medians(runs: &[Run], capacity_s: f64, cpus: f64) -> Medians {
    let middle = |figure: &dyn Fn(&Run) -> f64| {
        median(&runs.iter().map(figure).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    Medians {
        p50_ns: middle(&|run| run.all.percentile_ns(0.5)),
        p95_ns: middle(&|run| run.all.percentile_ns(0.95)),
        light_p95_ns: middle(&|run| run.light.percentile_ns(0.95)),
        p99_ns: middle(&|run| run.all.percentile_ns(0.99)),
        timely_per_s: middle(&|run| run.all.timely as f64 * cpus / capacity_s),
        schedule_share: middle(&|run| run.all.lost_ns as f64 / 1e9 / capacity_s),
        busy_share: middle(&|run| run.all.busy_ns() as f64 / 1e9 / capacity_s),
        switches_per_s: middle(&|run| run.all.switches as f64 * cpus / capacity_s),
    }
}

fn table(variant: &str, figures: &Figures) -> String {
    let mut rows = metasched_benches::table(&[
        "functions",
        "scheduler",
        "p50",
        "p95",
        "p99",
        "light p95",
        "in time/s",
        "scheduling",
        "switches/s",
        "p50 over EEVDF's",
        "p95",
        "light p95",
        "in time",
    ]);
    for (functions, contenders) in &figures.medians[variant] {
        for contender in CONTENDERS {
            let medians = &contenders[contender];
            let ratio = |name: &str| show(figures.sim[variant][functions][contender][name]);
            rows.add_row([
                functions.to_string(),
                contender.to_owned(),
                brief_time(medians.p50_ns),
                brief_time(medians.p95_ns),
                brief_time(medians.p99_ns),
                brief_time(medians.light_p95_ns),
                format!("{:.0}", medians.timely_per_s),
                format!("{:.1} %", 100.0 * medians.schedule_share),
                format!("{:.0}", medians.switches_per_s),
                ratio("p50_ratio"),
                ratio("p95_ratio"),
                ratio("light_p95_ratio"),
                ratio("throughput_ratio"),
            ]);
        }
    }
    format!("{variant}: simulated, 12 CPUs, {} seeds\n{rows}\n", figures.seeds)
}

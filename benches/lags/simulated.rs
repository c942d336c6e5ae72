//! Functions on a node of the simulator.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use metasched_base::{Interrupt, Result};
use metasched_scenario::CpuMask;
use metasched_scenario::file::{MachineSpec, ScenarioFile};
use metasched_simbed::{Arrangement, Calls, Setup, Steps, each, failed};

use crate::tables::{Bed, Cell};
use crate::{Args, EEVDF, LONG_SLICE, LONG_SLICE_NS, PINNED, Variant};

/// So much of the published means: 228 functions then have 307 calls under way in the mean.
const SCALE: f64 = 0.44;
const VARIANTS: [Variant; 3] = [Variant::Plain, Variant::Parallel, Variant::Mixed];
/// What is compared.
const CONTENDERS: [&str; 6] = [EEVDF, LONG_SLICE, PINNED, "fair", "vtime", "lags"];
/// Of each twelve functions the first has most calls; the others are light.
const TWELVE: usize = 12;
/// Does not count.
const WARM_UP_S: u64 = 2;

/// What a run came to, by [`crate::tables::FIGURES`].
type Run = BTreeMap<&'static str, f64>;

/// Simulates all of them.
pub fn simulate(args: &Args, interrupt: &Interrupt) -> Result<Bed> {
    let spec = MachineSpec::load(&args.machine)?;
    let mut jobs = Vec::new();
    for variant in VARIANTS {
        for functions in args.functions.iter().filter(|functions| **functions > 0) {
            for contender in CONTENDERS {
                jobs.extend((1..=args.seeds).map(|seed| (variant, *functions, contender, seed)));
            }
        }
    }
    let mut steps = Steps::new("simulating functions".to_owned(), jobs.len(), Instant::now());
    let work = |(variant, functions, contender, seed): &(Variant, u64, &str, u64)| {
        run(args, &spec, *variant, *functions, contender, *seed)
    };
    let results = each(&jobs, interrupt, work, &mut || steps.step())?;
    let mut all: BTreeMap<_, Vec<Run>> = BTreeMap::new();
    for ((variant, functions, contender, _), run) in jobs.iter().zip(results) {
        all.entry((*variant, *functions, *contender)).or_default().push(run?);
    }
    let mut bed = Bed::default();
    for variant in VARIANTS {
        for functions in args.functions.iter().filter(|functions| **functions > 0) {
            let of = |contender, name: &str| -> Vec<f64> {
                all[&(variant, *functions, contender)].iter().map(|run| run[name]).collect()
            };
            for contender in CONTENDERS {
                let runs = |name: &str| of(contender, name);
                let pairs =
                    |name: &str| runs(name).into_iter().zip(of(EEVDF, name)).collect::<Vec<_>>();
                bed.add(variant, *functions, contender, Cell::new(pairs, runs, None));
            }
        }
    }
    Ok(bed)
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
        Variant::Parallel => section("p", functions, 4),
        Variant::Mixed => {
            section("f", functions / 2, 1) + &section("p", functions - functions / 2, 4)
        }
        Variant::Plain | Variant::Crowded | Variant::Serving => section("f", functions, 1),
    };
    format!("duration = \"{seconds}s\"\nwarm_up = \"{WARM_UP_S}s\"\n{sections}")
}

fn run(
    args: &Args,
    spec: &MachineSpec,
    variant: Variant,
    functions: u64,
    contender: &str,
    seed: u64,
) -> Result<Run> {
    let named = format!("{functions}-{}.toml", variant.name());
    let mut file = ScenarioFile::parse(Path::new(&named), &text(variant, functions, args.seconds))?;
    let mut spec = spec.clone();
    let scheduler = match contender {
        LONG_SLICE => {
            spec.base_slice_ns = Some(LONG_SLICE_NS);
            EEVDF
        }
        PINNED => {
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
    let cpus = spec.cpus as f64;
    let setup = Setup::new(file, spec, Vec::new(), Some(seed))?;
    let arrangement = Arrangement::policy(scheduler, &[])?;
    let outcome = arrangement.scenario(&setup, seed).run();
    let again = format!("bench-lags --functions {functions}");
    let outcome =
        outcome.map_err(|failure| failed(&setup.file.name, contender, seed, &failure, &again))?;
    let all = Calls::of(&outcome);
    let light = Calls::of_cgroups(&outcome, is_light);
    let seconds = (args.seconds - WARM_UP_S) as f64;
    Ok(Run::from([
        ("p50_ns", all.percentile_ns(0.5)),
        ("p95_ns", all.percentile_ns(0.95)),
        ("p99_ns", all.percentile_ns(0.99)),
        ("light_p50_ns", light.percentile_ns(0.5)),
        ("light_p95_ns", light.percentile_ns(0.95)),
        ("timely_per_s", all.timely as f64 / seconds),
        ("schedule_share", all.lost_ns as f64 / 1e9 / seconds / cpus),
        ("busy_share", all.busy_ns() as f64 / 1e9 / seconds / cpus),
        ("switches_per_s", all.switches as f64 / seconds),
    ]))
}

/// kubepods/burstable/NAME-NUMBER/container; each kind of functions is numbered from 0.
fn is_light(cgroup: &str) -> bool {
    let number = cgroup.rsplit('/').nth(1).and_then(|name| name.rsplit('-').next());
    number
        .and_then(|number| number.parse().ok())
        .is_some_and(|number: usize| !number.is_multiple_of(TWELVE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_twelve_is_heavy() {
        let light = |name: &str| is_light(&format!("kubepods/burstable/{name}/container"));
        assert!(light("f-1") && light("p-11") && light("f-13"));
        assert!(!light("f-0") && !light("p-12") && !light("f-228"));
        assert!(!is_light("system.slice"));
    }
}

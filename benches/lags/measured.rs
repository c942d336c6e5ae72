//! Functions and model servers on this machine.
//!
//! Each round puts every scheduler in force once, in random order and in one boot, and runs every load.
//! What scheduling costs is measured in the same runs; what looking costs is told.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use metasched_base::{Error, Interrupt, Kind, Progress, Result, ResultExt};
use metasched_benches::rounds::{Kept, Measured, Plan, Rounds, Setting};
use metasched_benches::{all_are_known, put_in_force, realtime};
use metasched_control::{
    Candidate, CandidateEnv, Switcher, SwitcherOptions, candidates, find, put_back_after,
};
use metasched_profile::manifest::Workload;
use metasched_profile::runner::{Application, Cgroups, Observe, Site, prepare, stage};
use metasched_stats::LatencyHistogram;
use metasched_watch::{OVERHEAD_FIGURES, OverheadMeter};
use serde::Serialize;

use crate::tables::{Bed, Cell, FIGURES};
use crate::{Args, EEVDF, LONG_SLICE, LONG_SLICE_NS, PINNED, Variant};

/// What is compared, in the order of the tables; the last is somebody else's, which claims the same.
const CONTENDERS: [&str; 7] = [EEVDF, LONG_SLICE, PINNED, "fair", "vtime", "lags", "scx_lavd"];
/// Functions for each CPU, or servers in all.
const LOADS: [(Variant, u64); 10] = [
    (Variant::Plain, 1),
    (Variant::Plain, 4),
    (Variant::Plain, 8),
    (Variant::Plain, 12),
    (Variant::Plain, 19),
    (Variant::Parallel, 8),
    (Variant::Parallel, 19),
    (Variant::Mixed, 19),
    (Variant::Crowded, 19),
    (Variant::Serving, 100),
];
/// So many times as many calls are under way where CPUs are to be short. The published study aims at a
/// median of 100 ms, which takes about as many here.
const CROWDED: u64 = 4;
/// The first run after the boot pays for cold caches and translations.
const WARM_UP: Duration = Duration::from_secs(1);
/// What our own tracers took of all CPUs.
const LOOKING: &str = "looking_share";

/// A load, with and without a CPU for each function.
struct Load {
    name: String,
    any_cpu: Workload,
    pinned: Workload,
    form: &'static str,
}

impl Load {
    fn new(variant: Variant, how_many: u64, site: &Site) -> Result<Load> {
        let load = if variant == Variant::Crowded { CROWDED } else { 1 };
        let (workload, form, param) = match variant {
            Variant::Plain | Variant::Crowded => ("functions", "full", "density"),
            Variant::Parallel => ("functions", "parallel", "density"),
            Variant::Mixed => ("functions", "mixed", "density"),
            Variant::Serving => ("serving", "full", "containers"),
        };
        let with = |pin: &str| {
            let mut settings =
                vec![(param.to_owned(), how_many.to_string()), ("pin".to_owned(), pin.to_owned())];
            if load > 1 {
                settings.push(("load".to_owned(), load.to_string()));
            }
            Workload::find(workload, &settings, site.machine.emulated)
        };
        let name = load_name(variant, how_many);
        Ok(Load { name, any_cpu: with("no")?, pinned: with("yes")?, form })
    }

    fn workload(&self, contender: &str) -> &Workload {
        if contender == PINNED { &self.pinned } else { &self.any_cpu }
    }
}

fn load_name(variant: Variant, how_many: u64) -> String {
    format!("{}/{how_many}", variant.name())
}

/// What the rounds come to.
#[derive(Serialize)]
pub struct Done {
    rounds: u64,
    cpus: usize,
}

/// Measures until there are enough rounds, or the time is over.
pub fn measure(args: &Args) -> Result<Done> {
    let interrupt = Interrupt::listen()?;
    let names: Vec<String> = LOADS.iter().map(|(v, how_many)| load_name(*v, *how_many)).collect();
    all_are_known(&args.loads, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
    all_are_known(&args.only, &CONTENDERS)?;
    let options = format!("loads of {:?}", args.duration);
    let mut rounds = Rounds::open(&args.keep, &Setting::here(options)?, args.fresh)?;
    realtime()?;
    let mut site = Site::here(Box::new(Cgroups::new(None)), &interrupt)?;
    let wanted = LOADS.iter().zip(&names);
    let wanted = wanted.filter(|(_, name)| args.loads.is_empty() || args.loads.contains(name));
    let loads = wanted
        .map(|((variant, how_many), _)| Load::new(*variant, *how_many, &site))
        .collect::<Result<Vec<_>>>()?;
    let _prepared =
        loads.iter().map(|load| prepare(&load.any_cpu, &site)).collect::<Result<Vec<_>>>()?;
    let contenders = contenders(&args.only)?;
    put_back_after(SwitcherOptions::new("bench-lags"), |switcher| {
        site.groups = Box::new(Cgroups::new(Some(switcher.guard())));
        let mut bench = Bench { args, site: &site, loads: &loads, switcher };
        bench.warm_up()?;
        let subjects: Vec<&str> = contenders.iter().map(|(name, _)| *name).collect();
        let plan = Plan {
            bench: "bench-lags",
            baseline: EEVDF,
            rounds: args.rounds,
            budget: args.budget,
            seed: 1,
        };
        rounds.go_on(&plan, &subjects, |at, round| {
            let (name, candidate) = &contenders[at];
            bench.contender(name, candidate, round)
        })
    })?;
    Ok(Done { rounds: rounds.kept.next_round(), cpus: rounds.kept.setting.cpus })
}

/// Those that are here; who is not is told of.
fn contenders(only: &[String]) -> Result<Vec<(&'static str, Candidate)>> {
    let table = candidates(&CandidateEnv::system())?;
    let mut found = Vec::new();
    for name in CONTENDERS {
        if name != EEVDF && !only.is_empty() && !only.iter().any(|wanted| wanted == name) {
            continue;
        }
        let scheduler = if [LONG_SLICE, PINNED].contains(&name) { EEVDF } else { name };
        match find(&table, scheduler) {
            Ok(candidate) => found.push((name, candidate.clone())),
            Err(error) => eprintln!("bench-lags: {name} is left out: {error}"),
        }
    }
    Ok(found)
}

struct Bench<'a> {
    args: &'a Args,
    site: &'a Site,
    loads: &'a [Load],
    switcher: &'a mut Switcher,
}

impl Bench<'_> {
    fn warm_up(&mut self) -> Result<()> {
        let progress = Progress::new("warm-up".to_owned(), self.loads.len() as u64);
        for load in self.loads {
            progress.message(load.name.clone());
            stage(&load.any_cpu, self.site)?;
            let mut application = start(load, EEVDF, self.site)?;
            application.run(WARM_UP, Observe::Nothing, &[&self.site.interrupt])?;
            application.stop()?;
            progress.step();
        }
        Ok(())
    }

    /// All loads under one of them. What fails under it says so, and the others go on.
    fn contender(&mut self, name: &str, candidate: &Candidate, round: u64) -> Result<Measured> {
        let (mut values, mut failed) = (BTreeMap::new(), BTreeMap::new());
        let _slice = (name == LONG_SLICE).then(|| BaseSlice::set(LONG_SLICE_NS)).transpose()?;
        let mut in_force = false;
        for load in self.loads {
            self.site.interrupt.check("the benchmark")?;
            match self.load(load, name, candidate, &mut in_force) {
                Ok(found) => {
                    let named = found.into_iter();
                    values.extend(named.map(|(of, value)| (format!("{}/{of}", load.name), value)));
                }
                Err(error) if error.kind == Kind::Interrupted => return Err(error),
                Err(error) => {
                    in_force = false;
                    failed.insert(load.name.clone(), error.to_string());
                }
            }
        }
        Ok(Measured { round, subject: name.to_owned(), values, failed })
    }

    fn load(
        &mut self,
        load: &Load,
        name: &str,
        candidate: &Candidate,
        in_force: &mut bool,
    ) -> Result<BTreeMap<&'static str, f64>> {
        let mut application = None;
        // Servers start as fast under everybody.
        if load.any_cpu.manifest.form(load.form)?.processes.is_empty() {
            if !*in_force {
                put_in_force(self.switcher, candidate)?;
            }
        } else {
            self.switcher.switch_to(&Candidate::eevdf(""))?;
            application = Some(start(load, name, self.site)?);
            put_in_force(self.switcher, candidate)?;
        }
        *in_force = true;
        let mut application = match application {
            Some(application) => application,
            None => start(load, name, self.site)?,
        };
        let meter = OverheadMeter::begin(&self.site.interrupt)?;
        let run = application.run(self.args.duration, Observe::Usage, &[&self.site.interrupt]);
        let overhead = meter.finish()?;
        // Whoever is not in force any more is what explains a load that failed.
        self.switcher.check_alive()?;
        let figures = run?.figures;
        application.stop()?;
        let of_schedule = |wanted: &str| {
            let figure = OVERHEAD_FIGURES.iter().find(|figure| figure.name == wanted);
            figure.and_then(|figure| (figure.of)(&overhead.schedule))
        };
        let light =
            figures.subsets.get("light").map(|counts| LatencyHistogram::from_counts(counts));
        let light = light.as_ref().and_then(LatencyHistogram::percentiles);
        // The load takes a moment to start, and to tell what it saw.
        let length_s = overhead.length_ns as f64 / 1e9;
        let cpus = self.site.machine.cpus as f64;
        let found = [
            ("p50_ns", Some(figures.p50_us * 1e3)),
            ("p95_ns", Some(figures.p95_us * 1e3)),
            ("p99_ns", Some(figures.p99_us * 1e3)),
            ("light_p50_ns", light.as_ref().map(|of| of.p50 * 1e3)),
            ("light_p95_ns", light.as_ref().map(|of| of.p95 * 1e3)),
            ("timely_per_s", Some(figures.throughput_per_s)),
            ("schedule_share", of_schedule("share")),
            ("busy_share", figures.cpu_s.map(|cpu_s| cpu_s / length_s / cpus)),
            ("switches_per_s", of_schedule("switches_per_s")),
            (LOOKING, Some(overhead.looking_share())),
        ];
        Ok(found.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
    }
}

fn start<'a>(load: &'a Load, contender: &str, site: &'a Site) -> Result<Application<'a>> {
    let workload = load.workload(contender);
    Application::start(workload, workload.manifest.form(load.form)?, site)
}

/// A slice that EEVDF asks for, until this is dropped.
struct BaseSlice {
    path: PathBuf,
    before: String,
}

impl BaseSlice {
    fn set(ns: u64) -> Result<Self> {
        let path = Path::new("/sys/kernel/debug/sched/base_slice_ns").to_owned();
        let attempt = || format!("have EEVDF ask for {ns} ns in '{}'", path.display());
        let before = std::fs::read_to_string(&path).attempt(Kind::Failed, attempt)?;
        let slice = Self { path: path.clone(), before };
        std::fs::write(&path, ns.to_string()).attempt(Kind::Failed, attempt)?;
        let now = std::fs::read_to_string(&path).attempt(Kind::Failed, attempt)?;
        if now.trim() != ns.to_string() {
            return Err(Error::new(Kind::Failed, attempt(), format!("it is {}", now.trim())));
        }
        Ok(slice)
    }
}

impl Drop for BaseSlice {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(&self.path, self.before.trim()) {
            eprintln!("bench-lags: '{}' is not put back: {error}", self.path.display());
        }
    }
}

/// What was kept, as a bed: densities are functions or servers in all.
pub fn bed(kept: &Kept) -> Bed {
    let mut bed = Bed::default();
    for (variant, how_many) in LOADS {
        let load = load_name(variant, how_many);
        let of = |figure: &str| format!("{load}/{figure}");
        let in_all = if variant == Variant::Serving {
            how_many
        } else {
            how_many * kept.setting.cpus as u64
        };
        for contender in CONTENDERS {
            let failed = kept.why_not(&load, contender).map(str::to_owned);
            if kept.values(&of(FIGURES[0].0), contender).is_empty() && failed.is_none() {
                continue;
            }
            let pairs = |figure: &str| kept.pairs(&of(figure), contender, EEVDF);
            let runs = |figure: &str| kept.values(&of(figure), contender);
            bed.add(variant, in_all, contender, Cell::new(pairs, runs, failed));
        }
    }
    bed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(round: u64, subject: &str, values: &[(&str, f64)], failed: &[&str]) -> Measured {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let failed = failed.iter().map(|load| ((*load).to_owned(), "it ended".to_owned()));
        Measured { round, subject: subject.to_owned(), values, failed: failed.collect() }
    }

    #[test]
    fn rounds_become_ratios_by_variant_number_and_scheduler() {
        let (program, kernel, options) = (String::new(), String::new(), String::new());
        let setting = Setting { program, kernel, cpus: 2, options };
        let of = |p50: f64, parallel: f64| {
            [("plain/8/p50_ns", p50), ("parallel/8/p50_ns", p50), ("parallel/8/p95_ns", parallel)]
        };
        let rounds = vec![
            measured(0, EEVDF, &of(10.0, 40.0), &[]),
            measured(0, "lags", &of(5.0, 80.0), &["serving/100"]),
            measured(1, "lags", &of(6.0, 40.0), &[]),
            measured(1, EEVDF, &of(12.0, 20.0), &[]),
        ];
        let bed = bed(&Kept { setting, measured: rounds });
        let json = serde_json::to_value(&bed).unwrap();
        // Eight for each of two CPUs.
        let lags = &json["plain"]["16"]["lags"];
        let is = |ratio: &str, value: f64| {
            let found = lags[ratio]["estimate"].as_f64();
            assert!(found.is_some_and(|found| (found - value).abs() < 1e-9), "{ratio}: {found:?}");
        };
        is("p50_ratio", 0.5);
        is("p95_parallel_ratio", 2.0);
        assert_eq!((&lags["medians"]["p50_ns"], &lags["runs"]), (&5.5.into(), &2.into()));
        assert!(lags["p99_ratio"].is_null() && lags["medians"]["p99_ns"].is_null());
        assert_eq!(json["plain"]["16"][EEVDF]["p50_ratio"]["estimate"], 1.0);
        assert_eq!(json["serving"]["100"]["lags"]["failed"], "it ended");
        assert!(json["plain"]["16"]["vtime"].is_null() && json["crowded"].is_null());
    }
}

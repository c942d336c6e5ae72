//! Random workloads, as scenario files: some applications, each in a cgroup of its own, on a
//! machine of some CPUs.

use std::fmt::Write;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// What the kernel takes for itself, about as `metasched sim calibrate` measures it.
const COSTS: &str = "costs = { switch = \"1500ns\", migration_llc = \"2us\", \
                     migration_across = \"5us\", callback = \"150ns\", wake = \"600ns\" }";
/// Applications that answer requests need no more than this of the machine, all together:
/// a queue that grows for ever has no percentile.
const MOST_SERVED: f64 = 0.6;

/// What an application does.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Threads that take requests as they arrive.
    Service,
    /// The same, and requests come in bursts.
    BurstyService,
    /// Requests go through two stages.
    Pipeline,
    /// Each task wakes at its time, computes and sleeps.
    Periodic,
    /// Tasks that are always busy.
    Batch,
    /// Tasks that read from a disk between computing.
    DiskBatch,
    /// A program that forks short-lived jobs and waits for them.
    Build,
    /// A parallel program whose tasks wait for each other.
    Parallel,
}

const KINDS: [Kind; 8] = [
    Kind::Service,
    Kind::BurstyService,
    Kind::Pipeline,
    Kind::Periodic,
    Kind::Batch,
    Kind::DiskBatch,
    Kind::Build,
    Kind::Parallel,
];

/// A workload of `apps` applications (2 to 4, if absent), all from one seed. What answers requests
/// shares the same part of the machine however many applications there are.
pub fn random(seed: u64, apps: Option<usize>) -> String {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let apps = apps.unwrap_or_else(|| rng.random_range(2..=4));
    let cpus: u32 = *[2, 2, 4, 4].choose(&mut rng).expect("some");
    let llcs = if cpus > 2 && rng.random_bool(0.3) { 2 } else { 1 };
    let smt = cpus > 2 && rng.random_bool(0.3);
    let mut text = format!(
        "name = \"random {seed}\"\nduration = \"1000ms\"\nwarm_up = \"200ms\"\n\n\
         [machine]\ncpus = {cpus}\nllcs = {llcs}\nsmt = {smt}\n{COSTS}\n",
    );
    for app in 0..apps {
        let kind = *KINDS.choose(&mut rng).expect("some");
        let served = f64::from(cpus) * MOST_SERVED / apps as f64;
        let weight: u32 = *[50, 100, 100, 100, 200, 400].choose(&mut rng).expect("some");
        write!(text, "\n# {kind:?}\n[cgroups.a{app}]\nweight = {weight}\n").expect("a String");
        text += &application(kind, app, cpus, served, &mut rng);
    }
    text
}

/// The tables of an application; `served` is how many CPUs its requests may need.
fn application(kind: Kind, app: usize, cpus: u32, served: f64, rng: &mut ChaCha8Rng) -> String {
    let name = format!("a{app}");
    let task = |name: &str, count: u32, steps: &str| {
        format!(
            "[[task]]\nname = \"{name}\"\ncount = {count}\ncgroup = \"a{app}\"\nsteps = {steps}\n"
        )
    };
    // From 0.5 ms to 10 ms, each octave as often.
    let run_us = (10f64.powf(rng.random_range(2.7..4.0))) as u64;
    let load = served * rng.random_range(0.2..0.9);
    let rate = (load * 1e6 / run_us as f64).max(5.0).round();
    let span = match rng.random_range(0..3) {
        0 => format!("{run_us}us"),
        1 => format!("exp({run_us}us)"),
        _ => format!("lognormal({run_us}us, 0.5)"),
    };
    let threads = rng.random_range(1..=3) * cpus;
    match kind {
        Kind::Service => {
            format!("[[arrivals]]\nname = \"{name}\"\nrate = {rate}\n")
                + &task(&name, threads, &format!("[\"accept {name}\", \"run {span}\", \"end\"]"))
        }
        Kind::BurstyService => {
            let rate = rate * 2.0;
            format!(
                "[[arrivals]]\nname = \"{name}\"\nrate = {rate}\non = \"50ms\"\noff = \"50ms\"\n"
            ) + &task(&name, threads, &format!("[\"accept {name}\", \"run {span}\", \"end\"]"))
        }
        Kind::Pipeline => {
            let half = (run_us / 2).max(1);
            format!("[[arrivals]]\nname = \"{name}\"\nrate = {rate}\n[[pipe]]\nname = \"{name}\"\n")
                + &task(
                    &format!("{name}-in"),
                    threads,
                    &format!("[\"accept {name}\", \"run exp({half}us)\", \"write {name}\"]"),
                )
                + &task(
                    &format!("{name}-out"),
                    threads,
                    &format!("[\"read {name}\", \"run exp({half}us)\", \"end\"]"),
                )
        }
        Kind::Periodic => {
            let count = rng.random_range(1..=cpus);
            let every = (run_us as f64 * f64::from(count) / load).max(run_us as f64 * 2.0) as u64;
            let steps = format!("[\"every {every}us\", \"begin\", \"run {span}\", \"end\"]");
            task(&name, count, &steps)
        }
        Kind::Batch => {
            let count = rng.random_range(1..=2 * cpus);
            task(&name, count, &format!("[\"run {run_us}us\", \"done\"]"))
        }
        Kind::DiskBatch => {
            let time = rng.random_range(50..500);
            format!("[[device]]\nname = \"{name}\"\ndepth = 4\ntime = \"exp({time}us)\"\n")
                + &task(&name, threads, &format!("[\"io {name}\", \"run {span}\", \"done\"]"))
        }
        Kind::Build => {
            let jobs = rng.random_range(1..=2 * cpus);
            task(&name, 1, &format!("[\"fork {name}-job {jobs}\", \"join\", \"run 100us\"]"))
                + &task(&format!("{name}-job"), 0, &format!("[\"run {span}\", \"done\"]"))
        }
        Kind::Parallel => {
            let (parties, spin) = (rng.random_range(2..=cpus), rng.random_bool(0.5));
            format!("[[barrier]]\nname = \"{name}\"\nspin = {spin}\n")
                + &task(&name, parties, &format!("[\"run {span}\", \"barrier {name}\", \"done\"]"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use metasched_scenario::file::ScenarioFile;

    use super::*;

    #[test]
    fn each_seed_gives_a_scenario_of_its_own_and_always_the_same() {
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let text = random(seed, None);
            assert_eq!(text, random(seed, None));
            assert_ne!(text, random(seed + 1, None));
            let file = ScenarioFile::parse(Path::new("random.toml"), &text)
                .unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert!(!file.tasks.is_empty());
            kinds.extend(text.lines().filter(|l| l.starts_with("# ")).map(str::to_owned));
        }
        assert_eq!(kinds.len(), KINDS.len(), "{kinds:?}");
        for apps in [2, 16] {
            let file = ScenarioFile::parse(Path::new("r.toml"), &random(7, Some(apps))).unwrap();
            let groups: std::collections::BTreeSet<&str> =
                file.tasks.iter().map(|task| task.cgroup.as_str()).collect();
            assert_eq!(groups.len(), apps);
        }
    }
}

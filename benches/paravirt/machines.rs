//! Several machines that adapt at once, on a host that has no more CPUs than one of them would
//! like.

use std::cell::RefCell;
use std::rc::Rc;

use metasched_base::Result;
use metasched_scenario::file::MachineSpec;
use metasched_sim::observer::Observer;
use metasched_sim::task::TaskId;
use metasched_sim::trace::{Observed, What};
use metasched_stats::{mean, std_dev};

use crate::program::{Load, THREADS, Way, simulate, team};

/// How long all run.
const RUN_MS: u64 = 4_000;
/// From here on figures count, which is a second after the last one has come.
const COUNTS_FROM_MS: u64 = 2_000;
/// Over so long CPU time and threads are averaged.
const WINDOW_MS: u64 = 100;
const WINDOW_NS: u64 = WINDOW_MS * 1_000_000;
/// What the machines and their cgroups are called, in their order.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// A machine.
struct Machine {
    /// How many virtual CPUs it has.
    threads: u64,
    /// `cpu.weight` of its cgroup.
    weight: u64,
    /// When it comes, ms.
    arrives_ms: u64,
    /// How many CPUs are its fair share.
    fair: f64,
}

impl Machine {
    const fn new(threads: u64, fair: f64) -> Self {
        Machine { threads, weight: 100, arrives_ms: 0, fair }
    }

    const fn weighs(self, weight: u64) -> Self {
        Machine { weight, ..self }
    }

    const fn comes_at(self, arrives_ms: u64) -> Self {
        Machine { arrives_ms, ..self }
    }
}

/// Several machines.
pub struct Case {
    /// In tables and in JSON.
    pub name: &'static str,
    machines: &'static [Machine],
    way: Way,
    /// Whether they are told what is owed to them, and not only what the published policy is.
    owed: bool,
    /// What else the host runs.
    load: Load,
}

impl Case {
    const fn adapting(name: &'static str, machines: &'static [Machine]) -> Self {
        Case { name, machines, way: Way::Adapting, owed: true, load: Load::Idle }
    }

    const fn published(self) -> Self {
        Case { owed: false, ..self }
    }

    const fn beside(self, load: Load) -> Self {
        Case { load, ..self }
    }
}

const HALF: Machine = Machine::new(36, 18.0);
const THIRD: Machine = Machine::new(36, 12.0);
const LIGHT: Machine = THIRD;
const HEAVY: Machine = Machine::new(36, 24.0).weighs(200);
/// Beside so many tasks that never sleep.
const HOGS: u64 = 12;

/// What is simulated.
pub const CASES: [Case; 14] = [
    Case::adapting("36 and 36 vCPUs", &[HALF, HALF]),
    Case::adapting("36, 36 come later", &[HALF, HALF.comes_at(1_000)]),
    Case::adapting("18 and 18", &[Machine::new(18, 18.0), Machine::new(18, 18.0)]),
    Case::adapting("36 and 6", &[Machine::new(36, 30.0), Machine::new(6, 6.0)]),
    Case::adapting("36, 24 come later", &[HALF, Machine::new(24, 18.0).comes_at(1_000)]),
    Case::adapting("36 and 36 of twice the weight", &[LIGHT, HEAVY]),
    Case::adapting("36, 36 of twice the weight come later", &[LIGHT, HEAVY.comes_at(1_000)]),
    Case::adapting("36 of twice the weight, 36 come later", &[HEAVY, LIGHT.comes_at(1_000)]),
    Case::adapting("36, 36 and 36", &[THIRD, THIRD, THIRD]),
    Case::adapting(
        "36, 36 and 36, one after another",
        &[THIRD, THIRD.comes_at(500), THIRD.comes_at(1_000)],
    ),
    Case::adapting("36, 36 come later, 12 hogs", &[THIRD, THIRD.comes_at(1_000)])
        .beside(Load::Hogs(HOGS)),
    Case::adapting("36 and 36, as published", &[HALF, HALF]).published(),
    Case::adapting("36, 36 come later, as published", &[HALF, HALF.comes_at(1_000)]).published(),
    Case {
        way: Way::Spinning,
        ..Case::adapting("36 and 36, all threads, not adapting", &[HALF, HALF])
    },
];

/// What became of the machines of a case.
#[derive(Clone, Debug)]
pub struct Shared {
    /// CPUs that each had in the mean, over its fair share.
    pub of_fair: Vec<f64>,
    /// The same of the window in which it had least.
    pub least_of_fair: Vec<f64>,
    /// How many of its threads took part, in the mean.
    pub threads: Vec<f64>,
    /// By how much that goes up and down from one window to the next: the standard deviation of its
    /// means.
    pub sway: Vec<f64>,
    /// Regions that all did, in a second.
    pub regions_per_s: f64,
    /// CPUs that each had, window by window, from the start.
    pub cpus: Vec<Vec<f64>>,
}

/// Runs all machines of a case.
///
/// # Errors
/// When a checker finds something.
pub fn run(spec: &MachineSpec, scheduler: &str, case: &Case, seed: u64) -> Result<Shared> {
    let machines: Vec<(&str, &Machine)> = NAMES.into_iter().zip(case.machines).collect();
    let mut text = format!("duration = \"{RUN_MS}ms\"\n");
    for (name, Machine { weight, .. }) in &machines {
        text += &format!("[cgroups.{name}]\nweight = {weight}\n");
    }
    for (name, machine) in &machines {
        let owed = if case.owed { "" } else { "owed = false\n" };
        let more = format!("{owed}cgroup = \"{name}\"\narrives = \"{}ms\"", machine.arrives_ms);
        text += &team(name, (machine.threads, THREADS), case.way, None, &more);
    }
    text += &case.load.tasks();
    let held = Rc::new(RefCell::new(Held::default()));
    let outcome = simulate(spec, scheduler, (case.name, &text), seed, |run| run.read_by(&held))?;
    let cpus = held.borrow().cpus(machines.len());
    let first = (COUNTS_FROM_MS / WINDOW_MS) as usize;
    let sizes: Vec<Vec<f64>> = machines
        .iter()
        .map(|(name, _)| {
            let figures = outcome.team(name);
            let windows = COUNTS_FROM_MS / WINDOW_MS..RUN_MS / WINDOW_MS;
            let size = |n: u64| figures.mean_size(n * WINDOW_NS, (n + 1) * WINDOW_NS);
            windows.map(size).collect()
        })
        .collect();
    let regions: u64 = machines.iter().map(|(name, _)| outcome.team(name).regions).sum();
    let counted = || cpus.iter().zip(case.machines).map(|(cpus, m)| (&cpus[first..], m.fair));
    let least = |cpus: &[f64]| cpus.iter().copied().fold(f64::INFINITY, f64::min);
    Ok(Shared {
        of_fair: counted().map(|(cpus, fair)| mean(cpus).unwrap_or(0.0) / fair).collect(),
        least_of_fair: counted().map(|(cpus, fair)| least(cpus) / fair).collect(),
        threads: sizes.iter().map(|sizes| mean(sizes).unwrap_or(0.0)).collect(),
        sway: sizes.iter().map(|sizes| std_dev(sizes).unwrap_or(0.0)).collect(),
        regions_per_s: regions as f64 * 1e3 / RUN_MS as f64,
        cpus,
    })
}

/// CPU time that each of the machines had, window by window.
#[derive(Default)]
struct Held {
    /// Of which machine each task is, if of one, and since when it runs, ns.
    tasks: Vec<(Option<usize>, Option<u64>)>,
    windows_ns: [Vec<u64>; NAMES.len()],
}

impl Held {
    /// CPUs that each of the first machines had, window by window.
    fn cpus(&self, machines: usize) -> Vec<Vec<f64>> {
        let windows = (RUN_MS / WINDOW_MS) as usize;
        let held = self.windows_ns.iter().take(machines).map(|held| {
            let held = held.iter().copied().chain(std::iter::repeat(0));
            held.take(windows).map(|ns| ns as f64 / WINDOW_NS as f64).collect()
        });
        held.collect()
    }

    fn stops(&mut self, task: TaskId, now: u64) {
        let (Some(machine), Some(since)) = self.tasks[task.0] else { return };
        self.tasks[task.0].1 = None;
        let windows = &mut self.windows_ns[machine];
        let mut from = since;
        while from < now {
            let window = (from / WINDOW_NS) as usize;
            let until = now.min((window as u64 + 1) * WINDOW_NS);
            if windows.len() <= window {
                windows.resize(window + 1, 0);
            }
            windows[window] += until - from;
            from = until;
        }
    }
}

impl Observer for Held {
    fn born(&mut self, _task: TaskId, _name: &str, cgroup: &str) {
        self.tasks.push((NAMES.iter().position(|name| *name == cgroup), None));
    }

    fn observe(&mut self, event: &Observed) {
        let Some(task) = event.task else { return };
        match event.what {
            What::Start => self.tasks[task.0].1 = Some(event.at),
            What::Stop { .. } => self.stops(task, event.at),
            _ => {}
        }
    }

    fn finish(&mut self, now: u64) {
        (0..self.tasks.len()).for_each(|task| self.stops(TaskId(task), now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_counts_in_the_windows_that_it_lies_in() {
        let mut held = Held::default();
        held.born(TaskId(0), "x", "b");
        held.born(TaskId(1), "y", "elsewhere");
        let event = |at, task, what| Observed { at, cpu: 0, task: Some(TaskId(task)), what };
        held.observe(&event(WINDOW_NS / 2, 0, What::Start));
        held.observe(&event(0, 1, What::Start));
        held.observe(&event(2 * WINDOW_NS + WINDOW_NS / 4, 0, What::Stop { runnable: true }));
        held.observe(&event(3 * WINDOW_NS, 0, What::Start));
        held.finish(3 * WINDOW_NS + WINDOW_NS / 4);
        let cpus = held.cpus(2);
        assert!(cpus.len() == 2 && cpus[0].iter().all(|cpus| *cpus == 0.0));
        assert_eq!(cpus[1][..5], [0.5, 1.0, 0.25, 0.25, 0.0]);
    }
}

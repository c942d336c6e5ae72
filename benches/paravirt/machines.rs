//! Two machines that adapt at once, on a host that has no more CPUs than one of them would like.

use std::cell::RefCell;
use std::rc::Rc;

use metasched_base::Result;
use metasched_scenario::file::MachineSpec;
use metasched_sim::observer::Observer;
use metasched_sim::task::TaskId;
use metasched_sim::trace::{Observed, What};
use metasched_stats::{mean, std_dev};

use crate::program::{Way, simulate, team};

/// How long both run.
const RUN_MS: u64 = 4_000;
/// From here on figures count, which is a second after the later one has come.
const COUNTS_FROM_MS: u64 = 2_000;
/// Over so long CPU time and threads are averaged.
const WINDOW_MS: u64 = 100;
const WINDOW_NS: u64 = WINDOW_MS * 1_000_000;
/// What the machines and their cgroups are called.
const NAMES: [&str; 2] = ["a", "b"];

/// Two machines.
pub struct Case {
    /// In tables and in JSON.
    pub name: &'static str,
    /// How many virtual CPUs each has.
    threads: u64,
    way: Way,
    /// When the second one comes, ms.
    second_ms: u64,
}

/// What is simulated. Each of the two has half of the host as its fair share.
pub const CASES: [Case; 4] = [
    Case { name: "36 and 36 vCPUs", threads: 36, way: Way::Adapting, second_ms: 0 },
    Case { name: "36, 36 come later", threads: 36, way: Way::Adapting, second_ms: 1_000 },
    Case { name: "18 and 18", threads: 18, way: Way::Adapting, second_ms: 0 },
    Case { name: "36 and 36, all threads", threads: 36, way: Way::Spinning, second_ms: 0 },
];

/// What became of the two.
#[derive(Clone, Debug)]
pub struct Shared {
    /// CPUs that each had in the mean, over its fair share.
    pub of_fair: [f64; 2],
    /// The same of the window in which it had least.
    pub least_of_fair: [f64; 2],
    /// How many of its threads took part, in the mean.
    pub threads: [f64; 2],
    /// By how much that goes up and down from one window to the next: the standard deviation of its
    /// means.
    pub sway: [f64; 2],
    /// Regions that both did, in a second.
    pub regions_per_s: f64,
    /// CPUs that each had, window by window, from the start.
    pub cpus: [Vec<f64>; 2],
}

/// Runs both.
///
/// # Errors
/// When a checker finds something.
pub fn run(spec: &MachineSpec, scheduler: &str, case: &Case, seed: u64) -> Result<Shared> {
    let machine = |name: &str, arrives_ms| {
        let more = format!("cgroup = \"{name}\"\narrives = \"{arrives_ms}ms\"");
        team(name, case.threads, case.way, None, &more)
    };
    let text = format!("duration = \"{RUN_MS}ms\"\n")
        + &machine(NAMES[0], 0)
        + &machine(NAMES[1], case.second_ms);
    let held = Rc::new(RefCell::new(Held::default()));
    let outcome = simulate(spec, scheduler, (case.name, &text), seed, |run| run.read_by(&held))?;
    let cpus = held.borrow().cpus();
    let first = (COUNTS_FROM_MS / WINDOW_MS) as usize;
    let fair = spec.cpus as f64 / NAMES.len() as f64;
    let sizes = NAMES.map(|name| {
        let figures = outcome.team(name);
        let windows = COUNTS_FROM_MS / WINDOW_MS..RUN_MS / WINDOW_MS;
        let size = |n: u64| figures.mean_size(n * WINDOW_NS, (n + 1) * WINDOW_NS);
        windows.map(size).collect::<Vec<f64>>()
    });
    let regions: u64 = NAMES.iter().map(|name| outcome.team(name).regions).sum();
    let counted = |of: usize| &cpus[of][first..];
    let least = |of: usize| counted(of).iter().copied().fold(f64::INFINITY, f64::min) / fair;
    Ok(Shared {
        of_fair: [0, 1].map(|of| mean(counted(of)).unwrap_or(0.0) / fair),
        least_of_fair: [0, 1].map(least),
        threads: [0, 1].map(|of| mean(&sizes[of]).unwrap_or(0.0)),
        sway: [0, 1].map(|of| std_dev(&sizes[of]).unwrap_or(0.0)),
        regions_per_s: regions as f64 * 1e3 / RUN_MS as f64,
        cpus,
    })
}

/// CPU time that each of the machines had, window by window.
#[derive(Default)]
struct Held {
    /// Of which machine each task is, if of one, and since when it runs, ns.
    tasks: Vec<(Option<usize>, Option<u64>)>,
    windows_ns: [Vec<u64>; 2],
}

impl Held {
    fn cpus(&self) -> [Vec<f64>; 2] {
        let windows = (RUN_MS / WINDOW_MS) as usize;
        [0, 1].map(|of| {
            let held = self.windows_ns[of].iter().copied().chain(std::iter::repeat(0));
            held.take(windows).map(|ns| ns as f64 / WINDOW_NS as f64).collect()
        })
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
        let [a, b] = held.cpus();
        assert!(a.iter().all(|cpus| *cpus == 0.0));
        assert_eq!(b[..5], [0.5, 1.0, 0.25, 0.25, 0.0]);
    }
}

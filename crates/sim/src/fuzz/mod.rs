//! Random runs of level 1 with faults, as values: made from a seed, run, made smaller.
//!
//! First everything changes, and only safety is demanded. From [`Case::calm_ns`] on nothing
//! changes any more but what level 1 does itself, and progress is demanded: all that wants to
//! run runs within a bound, shares follow weights, and lanes that were replaced are freed.

mod acts;
mod everywhere;
mod generate;
mod hierarchy;
mod run;
mod shrink;
mod theme;

pub use acts::{Act, Timed, When};
pub use everywhere::{events_before_calm, everywhere, reassignments};
pub use generate::{generate, generate_about};
pub use run::{replay_seed, scenario, scenario_on};
pub use shrink::{Shrunk, shrink};
pub use theme::Theme;

use crate::machine::HZ;
use crate::span::Span;
use crate::step::Step;
use crate::task::TaskSpec;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One run, whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// What broke once, in a line; empty in one that was just made.
    #[serde(default)]
    pub broke: String,
    /// From which follows what the engine leaves to chance.
    pub seed: u64,
    /// The machine.
    pub machine: Machine,
    /// The policy of the first lane.
    pub root: String,
    /// The tasks. Acts name them by their place here.
    pub tasks: Vec<Task>,
    /// What is done to it.
    pub acts: Vec<Timed>,
    /// When faults stop, ns.
    pub calm_ns: u64,
    /// Whether user space looks after lanes from then on; else it is dead.
    pub reaps: bool,
    /// In the calm no task may wait longer, ns; estimated from the rest where this is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_ns: Option<u64>,
}

/// The machine of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// How many CPUs it has.
    pub cpus: usize,
    /// Last-level caches, over which they are spread evenly.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub llcs: usize,
    /// NUMA nodes, over which the caches are spread evenly.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub nodes: usize,
    /// Whether two CPUs share each core.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub smt: bool,
    /// Its ticks per second.
    #[serde(default = "usual_hz", skip_serializing_if = "is_usual_hz")]
    pub hz: u32,
}

fn usual_hz() -> u32 {
    HZ
}

fn is_usual_hz(hz: &u32) -> bool {
    *hz == HZ
}

fn one() -> usize {
    1
}

fn is_one(n: &usize) -> bool {
    *n == 1
}

impl Machine {
    /// CPUs that are all alike, with the usual tick.
    pub fn cpus(cpus: usize) -> Machine {
        Machine { cpus, llcs: 1, nodes: 1, smt: false, hz: HZ }
    }

    fn modelled(&self) -> crate::Machine {
        let Machine { cpus, llcs, nodes, smt, hz } = *self;
        let machine = crate::Machine::new(cpus, llcs, nodes, smt);
        machine.and_then(|machine| machine.hz(hz)).unwrap_or_else(|e| panic!("{e}"))
    }
}

/// A task of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The path of its cgroup; the root's is empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cgroup: String,
    /// Its weight.
    pub weight: u32,
    /// The CPUs that it may use; all of them where none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<usize>,
    /// When it wakes for the first time, ns.
    #[serde(default)]
    pub arrives_ns: u64,
    /// Whether it is a thread of the kernel's own.
    #[serde(default)]
    pub kthread: bool,
    /// How often it does its steps; for ever where this is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    /// What it does.
    pub does: Vec<Does>,
}

/// One thing that a task does; times in ns, drawn anew each time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Does {
    /// Uses a CPU.
    Run(u64, u64),
    /// Blocks.
    Sleep(u64, u64),
    /// Yields.
    Yield,
    /// Does that in a system call.
    Call(Vec<Does>),
    /// Within a system call: comes to where it holds nothing, as a virtual CPU before its guest.
    Guest,
    /// Bears a task, whose time of arrival does not count.
    Fork(Box<Task>),
}

impl Does {
    /// As a scenario's task of that name has it.
    fn steps(&self, name: &str) -> Vec<Step> {
        match self {
            Does::Run(low, high) => vec![Step::Run(Span::Between(*low, *high))],
            Does::Sleep(low, high) => vec![Step::Sleep(Span::Between(*low, *high))],
            Does::Yield => vec![Step::Yield],
            Does::Guest => vec![Step::Guest],
            Does::Fork(child) => {
                vec![Step::Fork(Arc::new(child.spec(format!("child of {name}"))))]
            }
            Does::Call(within) => {
                let within = within.iter().flat_map(|does| does.steps(name));
                [Step::Syscall].into_iter().chain(within).chain([Step::Return]).collect()
            }
        }
    }
}

impl Task {
    fn spec(&self, name: String) -> TaskSpec {
        let mut spec = TaskSpec::named(name.clone())
            .weight(self.weight)
            .arrives(self.arrives_ns)
            .in_cgroup(self.cgroup.clone());
        if !self.cpus.is_empty() {
            spec = spec.only_on(self.cpus.iter().copied());
        }
        if self.kthread {
            spec = spec.kthread();
        }
        for step in self.does.iter().flat_map(|does| does.steps(&name)) {
            spec = spec.step(step);
        }
        match self.rounds {
            Some(rounds) => spec.rounds(rounds),
            None => spec.for_ever(),
        }
    }

    /// How many tasks it is with all that it bears.
    fn count(&self) -> u64 {
        let children = self.does.iter().map(|does| match does {
            Does::Fork(child) => child.count(),
            _ => 0,
        });
        1 + children.sum::<u64>() * self.rounds.unwrap_or(1)
    }
}

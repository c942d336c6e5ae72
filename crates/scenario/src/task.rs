//! A task, as a scenario describes it.

use crate::cpu_mask::CpuMask;
use crate::span::Span;
use crate::step::Step;

/// What a task is and does.
#[derive(Clone, Debug)]
pub struct TaskSpec {
    /// Its name.
    pub name: String,
    /// What results are told by: tasks that do the same belong together. Empty: no result tells of
    /// it, since the modelled kernel has made it for itself.
    pub group: String,
    /// Its weight.
    pub weight: u32,
    /// The CPUs that it may use; all where there is none.
    pub allowed: Option<CpuMask>,
    /// When it wakes for the first time, ns.
    pub arrives_ns: u64,
    /// Whether it is a thread of the kernel's own.
    pub kthread: bool,
    /// Its cgroup; the root's is empty.
    pub cgroup: String,
    /// What it does.
    pub steps: Vec<Step>,
    /// How often the steps are gone through; for ever where there is none.
    pub rounds: Option<u64>,
}

impl TaskSpec {
    /// A task of weight 100 that may run anywhere, arrives at 0 and exits at once.
    pub fn named(name: impl Into<String>) -> Self {
        let name = name.into();
        TaskSpec {
            group: name.clone(),
            name,
            weight: 100,
            allowed: None,
            arrives_ns: 0,
            kthread: false,
            cgroup: String::new(),
            steps: Vec::new(),
            rounds: Some(1),
        }
    }

    /// The task under another name, in the same group.
    pub fn called(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// A task that never stops running.
    pub fn hog(name: impl Into<String>) -> Self {
        Self::named(name).run(Span::Exactly(1_000_000_000)).for_ever()
    }

    /// Uses a CPU for so long.
    pub fn run(self, span: Span) -> Self {
        self.step(Step::Run(span))
    }

    /// Blocks for so long.
    pub fn sleep(self, span: Span) -> Self {
        self.step(Step::Sleep(span))
    }

    /// Appends a step.
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Goes through what `steps` appends so often in all, within a round.
    pub fn repeat(self, times: u64, steps: impl FnOnce(Self) -> Self) -> Self {
        let before = self.steps.len();
        let task = steps(self);
        let back = task.steps.len() - before;
        if back == 0 { task } else { task.step(Step::Again { back, times }) }
    }

    /// Goes through the steps so often, then exits.
    pub fn rounds(mut self, rounds: u64) -> Self {
        self.rounds = Some(rounds);
        self
    }

    /// Goes through the steps until the run ends.
    pub fn for_ever(mut self) -> Self {
        self.rounds = None;
        self
    }

    /// Its weight, 1 to 10000.
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// The CPUs that it may use.
    pub fn only_on(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.allowed = Some(cpus.into_iter().collect());
        self
    }

    /// When it wakes for the first time, ns.
    pub fn arrives(mut self, ns: u64) -> Self {
        self.arrives_ns = ns;
        self
    }

    /// Its cgroup, `a/b`; the root of the hierarchy unless set. A child that it forks
    /// has its own.
    pub fn in_cgroup(mut self, path: impl Into<String>) -> Self {
        self.cgroup = path.into();
        self
    }

    /// The group of tasks that it belongs to; its own name unless set.
    pub fn in_group(mut self, group: impl Into<String>) -> Self {
        self.group = group.into();
        self
    }

    /// A thread of the kernel's own.
    pub fn kthread(mut self) -> Self {
        self.kthread = true;
        self
    }
}

//! The figures of a run, by cgroup and in all, read from the stream of events.
//!
//! What a warm-up does is left out. Memory grows with tasks and cgroups, and not with the
//! length of a run.

mod beside;
#[cfg(test)]
mod tests;

pub use beside::IdleBesideWork;

use crate::machine::Machine;
use crate::observer::Observer;
use crate::task::TaskId;
use crate::trace::{Observed, What};
use metasched_stats::DurationHistogram;
use std::collections::BTreeMap;

/// What the tasks of a cgroup did, or all.
#[derive(Clone, Debug, Default)]
pub struct GroupFigures {
    /// The tasks that were in it at some time.
    pub tasks: u64,
    /// Time on CPUs, ns.
    pub cpu_ns: u64,
    /// How often a task had done what it woke for, and slept or ended.
    pub bursts: u64,
    /// From runnable to running. What still waits at the end counts with what it has waited
    /// until then, or a task that never runs would not be seen. Without the time for which
    /// `cpu.max` kept it off the CPUs.
    pub waits: DurationHistogram,
    /// For how long `cpu.max` kept tasks off the CPUs that wanted to run, ns; those of several
    /// tasks together.
    pub throttled_ns: u64,
    /// Context switches from a task that wanted the CPU no more.
    pub voluntary: u64,
    /// Context switches from a task that wanted to go on.
    pub involuntary: u64,
    /// How often a task that had run already was given another CPU.
    pub migrations: u64,
    /// Those to another last-level cache.
    pub across_llcs: u64,
    /// Those to another NUMA node.
    pub across_nodes: u64,
}

impl GroupFigures {
    /// Context switches of both kinds.
    pub fn switches(&self) -> u64 {
        self.voluntary + self.involuntary
    }

    fn merge(&mut self, other: &GroupFigures) {
        self.cpu_ns += other.cpu_ns;
        self.bursts += other.bursts;
        self.waits.merge(&other.waits);
        self.throttled_ns += other.throttled_ns;
        self.voluntary += other.voluntary;
        self.involuntary += other.involuntary;
        self.migrations += other.migrations;
        self.across_llcs += other.across_llcs;
        self.across_nodes += other.across_nodes;
    }
}

/// Reads a run and keeps its figures.
pub struct RunFigures {
    warm_up_ns: u64,
    machine: Machine,
    groups: Vec<GroupFigures>,
    by_path: BTreeMap<String, usize>,
    tasks: Vec<Task>,
    beside: IdleBesideWork,
    /// Idle CPUs beside work since `looked_at`, how many.
    usable: u64,
    looked_at: u64,
    idle_beside_work_ns: u64,
    /// Since when CPUs are off line, and for how long others were.
    offline_since: BTreeMap<usize, u64>,
    offline_ns: u64,
    end_ns: u64,
    /// Waits that the run's end cuts short count.
    cut_waits: bool,
}

#[derive(Clone, Copy)]
struct Task {
    group: usize,
    /// The CPU whose run queue it belongs to.
    home: usize,
    has_run: bool,
    state: State,
    /// Since when it is in that state.
    since: u64,
    /// Of its present wait: when it began, and what of it was before it was throttled, ns.
    wait_began: u64,
    waited: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Asleep,
    Waiting,
    /// It wants to run, and `cpu.max` does not let it.
    Throttled,
    Running,
}

impl RunFigures {
    /// Figures of what happens after the warm-up, on a machine.
    pub fn new(machine: Machine, warm_up_ns: u64) -> Self {
        RunFigures {
            warm_up_ns,
            machine,
            groups: Vec::new(),
            by_path: BTreeMap::new(),
            tasks: Vec::new(),
            beside: IdleBesideWork::default(),
            usable: 0,
            looked_at: 0,
            idle_beside_work_ns: 0,
            offline_since: BTreeMap::new(),
            offline_ns: 0,
            end_ns: 0,
            cut_waits: true,
        }
    }

    /// Without the waits that are not over at the end of the run: as who traces waits has it.
    pub fn waits_that_ended(self) -> Self {
        RunFigures { cut_waits: false, ..self }
    }

    /// Each cgroup that had a task, by its path; the root's is empty.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &GroupFigures)> {
        self.by_path.iter().map(|(path, at)| (path.as_str(), &self.groups[*at]))
    }

    /// All tasks together.
    pub fn all(&self) -> GroupFigures {
        let mut all = GroupFigures { tasks: self.tasks.len() as u64, ..Default::default() };
        self.groups.iter().for_each(|group| all.merge(group));
        all
    }

    /// How long was counted, ns.
    pub fn window_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.warm_up_ns)
    }

    /// The CPU time that there was, ns: of CPUs that were on line.
    pub fn capacity_ns(&self) -> u64 {
        self.window_ns() * self.machine.nr_cpus() as u64 - self.offline_ns
    }

    /// CPU time that was idle while a task waited that could have used it, ns. See
    /// [`IdleBesideWork`] for what counts.
    pub fn idle_beside_work_ns(&self) -> u64 {
        self.idle_beside_work_ns
    }

    /// What of the span from `since` to `until` lies after the warm-up, ns.
    fn counted(&self, since: u64, until: u64) -> u64 {
        until.saturating_sub(since.max(self.warm_up_ns))
    }

    fn group_at(&mut self, path: &str) -> usize {
        if let Some(at) = self.by_path.get(path) {
            return *at;
        }
        self.groups.push(GroupFigures::default());
        self.by_path.insert(path.to_owned(), self.groups.len() - 1);
        self.groups.len() - 1
    }

    /// Closes the state that a task is in, and begins another one.
    fn enter(&mut self, id: TaskId, state: State, now: u64) {
        let mut task = self.tasks[id.0];
        let span = self.counted(task.since, now);
        let group = &mut self.groups[task.group];
        match task.state {
            State::Running => group.cpu_ns += span,
            State::Throttled => group.throttled_ns += span,
            State::Waiting => task.waited += span,
            State::Asleep => {}
        }
        let waits = |state| matches!(state, State::Waiting | State::Throttled);
        if waits(task.state) && !waits(state) {
            // One that began in the warm-up is its doing.
            let cut = self.end_ns > 0 && !self.cut_waits;
            if task.wait_began >= self.warm_up_ns && !cut {
                group.waits.record(task.waited);
            }
        } else if !waits(task.state) {
            (task.wait_began, task.waited) = (now, 0);
        }
        self.tasks[id.0] = Task { state, since: now, ..task };
    }

    fn online(&mut self, cpu: usize, now: u64) {
        if let Some(since) = self.offline_since.remove(&cpu) {
            self.offline_ns += self.counted(since, now);
        }
    }

    fn migrated(&mut self, id: TaskId, cpu: usize, counts: bool) {
        let task = &mut self.tasks[id.0];
        let from = std::mem::replace(&mut task.home, cpu);
        if counts && task.has_run && from != cpu {
            let group = &mut self.groups[task.group];
            let machine = &self.machine;
            group.migrations += 1;
            group.across_llcs += u64::from(machine.llc_of(from) != machine.llc_of(cpu));
            group.across_nodes += u64::from(machine.node_of(from) != machine.node_of(cpu));
        }
    }

    fn account_idle(&mut self, now: u64) {
        self.idle_beside_work_ns += self.usable * self.counted(self.looked_at, now);
        self.looked_at = now;
    }
}

impl Observer for RunFigures {
    fn born(&mut self, task: TaskId, _name: &str, cgroup: &str) {
        let group = self.group_at(cgroup);
        self.groups[group].tasks += 1;
        assert_eq!(task.0, self.tasks.len(), "tasks are born in the order of their numbers");
        self.tasks.push(Task {
            group,
            home: 0,
            has_run: false,
            state: State::Asleep,
            since: 0,
            wait_began: 0,
            waited: 0,
        });
    }

    fn moved(&mut self, at: u64, task: TaskId, cgroup: &str) {
        let group = self.group_at(cgroup);
        let Task { group: from, state, .. } = self.tasks[task.0];
        if from == group {
            return;
        }
        // A wait is one wait, and counts where it ends.
        if matches!(state, State::Running | State::Throttled) {
            self.enter(task, state, at);
        }
        self.groups[group].tasks += 1;
        self.tasks[task.0].group = group;
    }

    fn observe(&mut self, event: &Observed) {
        let now = event.at;
        if self.beside.observe(event) {
            self.account_idle(now);
            self.usable = self.beside.cpus().count() as u64;
        }
        match event.what {
            What::Offline => {
                self.offline_since.insert(event.cpu, now);
            }
            What::Online => self.online(event.cpu, now),
            _ => {}
        }
        let Some(id) = event.task else { return };
        let counts = now >= self.warm_up_ns;
        match event.what {
            What::Arrive { .. } => self.tasks[id.0].home = event.cpu,
            What::Wake => self.enter(id, State::Waiting, now),
            What::Start => {
                self.enter(id, State::Running, now);
                self.tasks[id.0].has_run = true;
            }
            What::Insert(queue) if queue.throttles() => self.enter(id, State::Throttled, now),
            What::Remove(queue) if queue.throttles() => self.enter(id, State::Waiting, now),
            What::Migrate => self.migrated(id, event.cpu, counts),
            What::Stop { runnable } => {
                let next = if runnable { State::Waiting } else { State::Asleep };
                self.enter(id, next, now);
                if counts {
                    let group = &mut self.groups[self.tasks[id.0].group];
                    group.voluntary += u64::from(!runnable);
                    group.involuntary += u64::from(runnable);
                }
            }
            What::Sleep if counts => self.groups[self.tasks[id.0].group].bursts += 1,
            _ => {}
        }
    }

    fn finish(&mut self, now: u64) {
        self.end_ns = now;
        self.account_idle(now);
        for id in (0..self.tasks.len()).map(TaskId) {
            // What is not over counts as far as it has come.
            let state = self.tasks[id.0].state;
            self.enter(id, State::Asleep, now);
            self.tasks[id.0].state = state;
        }
        for cpu in 0..self.machine.nr_cpus() {
            self.online(cpu, now);
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use crate::abi::CpuMask;
    use std::rc::Rc;

    /// An event of a hand-made stream: (time, CPU, task, what).
    pub fn event((at, cpu, task, what): (u64, usize, usize, What)) -> Observed {
        let of_cpu = matches!(
            what,
            What::Idle
                | What::Busy
                | What::Offline
                | What::Online
                | What::Kick { .. }
                | What::Note(_)
        );
        Observed { at, cpu, task: (!of_cpu).then_some(TaskId(task)), what }
    }

    pub fn allowed(cpus: &[usize]) -> What {
        let allowed = Rc::new(cpus.iter().copied().collect::<CpuMask>());
        What::Arrive { weight: 100, allowed, kthread: false }
    }
}

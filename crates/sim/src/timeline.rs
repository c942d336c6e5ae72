//! The tasks on each CPU over time, for a picture of a window of a run.

use crate::abi::CpuMask;
use crate::figures::IdleBesideWork;
use crate::observer::Observer;
use crate::task::TaskId;
use crate::trace::{Observed, What};

/// A task on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    /// When it began, ns since the start.
    pub from_ns: u64,
    /// When it ended.
    pub to_ns: u64,
    /// The task that ran.
    pub task: TaskId,
}

/// What became of a CPU in the window.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The tasks that it ran, one after the other; one that went on is one stay.
    pub stays: Vec<Stay>,
    /// When it was idle beside work, from and to, ns since the start.
    pub idle_beside_work: Vec<(u64, u64)>,
    on: Option<(TaskId, u64)>,
    idle_since: Option<u64>,
}

/// Reads a run and keeps what its CPUs did in a window.
pub struct Timeline {
    from_ns: u64,
    to_ns: u64,
    /// No row may have more stays.
    most: usize,
    rows: Vec<Row>,
    tasks: Vec<(String, String)>,
    beside: IdleBesideWork,
    usable: CpuMask,
    full_ns: Option<u64>,
}

impl Timeline {
    /// What `cpus` CPUs do from `from_ns` up to `to_ns`, as long as none of them has more
    /// than `most` stays: memory is bounded, and so is what a picture can show.
    pub fn new(cpus: usize, from_ns: u64, to_ns: u64, most: usize) -> Self {
        Timeline {
            from_ns,
            to_ns,
            most,
            rows: vec![Row::default(); cpus],
            tasks: Vec::new(),
            beside: IdleBesideWork::default(),
            usable: CpuMask::EMPTY,
            full_ns: None,
        }
    }

    /// The CPUs, in their order.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The name of a task and the cgroup that it was born in.
    pub fn task(&self, task: TaskId) -> (&str, &str) {
        let (name, cgroup) = &self.tasks[task.0];
        (name, cgroup)
    }

    /// The window, ns since the start; the run may have ended in it.
    pub fn window_ns(&self) -> (u64, u64) {
        (self.from_ns, self.to_ns)
    }

    /// When a CPU had more stays than was allowed, if one had, ns since the start: nothing
    /// is known of what came after.
    pub fn full_ns(&self) -> Option<u64> {
        self.full_ns
    }

    fn leave(&mut self, cpu: usize, now: u64) {
        let row = &mut self.rows[cpu];
        let Some((task, since)) = row.on.take() else { return };
        let (from_ns, to_ns) = (since.max(self.from_ns), now.min(self.to_ns));
        if from_ns >= to_ns {
            return;
        }
        let full = row.stays.len() == self.most;
        match row.stays.last_mut() {
            Some(last) if last.task == task && last.to_ns == from_ns => last.to_ns = to_ns,
            _ if full => self.full_ns = Some(from_ns),
            _ => row.stays.push(Stay { from_ns, to_ns, task }),
        }
    }

    fn use_up(&mut self, cpu: usize, now: u64) {
        let row = &mut self.rows[cpu];
        let Some(since) = row.idle_since.take() else { return };
        let (from_ns, to_ns) = (since.max(self.from_ns), now.min(self.to_ns));
        if from_ns < to_ns {
            row.idle_beside_work.push((from_ns, to_ns));
        }
    }
}

impl Observer for Timeline {
    fn born(&mut self, _task: TaskId, name: &str, cgroup: &str) {
        self.tasks.push((name.to_owned(), cgroup.to_owned()));
    }

    fn observe(&mut self, event: &Observed) {
        if self.full_ns.is_some() || event.at > self.to_ns {
            return;
        }
        match (&event.what, event.task) {
            (What::Start, Some(task)) => self.rows[event.cpu].on = Some((task, event.at)),
            (What::Stop { .. }, Some(_)) => self.leave(event.cpu, event.at),
            _ => {}
        }
        if self.beside.observe(event) {
            let before = std::mem::replace(&mut self.usable, *self.beside.cpus());
            for cpu in before.iter().filter(|cpu| !self.usable.has(*cpu)).collect::<Vec<_>>() {
                self.use_up(cpu, event.at);
            }
            for cpu in self.usable.iter().filter(|cpu| !before.has(*cpu)) {
                self.rows[cpu].idle_since = Some(event.at);
            }
        }
    }

    fn finish(&mut self, now: u64) {
        self.to_ns = self.to_ns.min(now);
        if self.full_ns.is_none() {
            for cpu in 0..self.rows.len() {
                self.leave(cpu, now);
                self.use_up(cpu, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::testing::{allowed, event};

    const STOP: What = What::Stop { runnable: true };

    fn timeline(most: usize, events: &[(u64, usize, usize, What)]) -> Timeline {
        let mut timeline = Timeline::new(2, 100, 200, most);
        timeline.born(TaskId(0), "a", "x");
        timeline.born(TaskId(1), "b", "");
        for task in 0..2 {
            timeline.observe(&event((0, 0, task, allowed(&[0, 1]))));
        }
        events.iter().for_each(|e| timeline.observe(&event(e.clone())));
        timeline.finish(500);
        timeline
    }

    #[test]
    fn stays_are_cut_to_the_window_and_one_that_goes_on_is_one() {
        let timeline = timeline(
            10,
            &[
                (50, 0, 0, What::Start),
                (150, 0, 0, STOP),
                (150, 0, 0, What::Start),
                (160, 0, 0, STOP),
                (160, 0, 1, What::Start),
            ],
        );
        let stay = |from_ns, to_ns, task| Stay { from_ns, to_ns, task: TaskId(task) };
        assert_eq!(timeline.rows()[0].stays, [stay(100, 160, 0), stay(160, 200, 1)]);
        assert_eq!(timeline.rows()[1].stays, []);
        assert_eq!(timeline.task(TaskId(0)), ("a", "x"));
    }

    #[test]
    fn idle_cpus_beside_work_are_marked_and_others_are_not() {
        let timeline = timeline(
            10,
            &[
                (0, 0, 0, What::Idle),
                (0, 1, 0, What::Idle),
                (120, 0, 0, What::Wake),
                (130, 0, 0, What::Busy),
                (130, 0, 0, What::Start),
                (190, 1, 1, What::Wake),
            ],
        );
        assert_eq!(timeline.rows()[0].idle_beside_work, [(120, 130)]);
        assert_eq!(timeline.rows()[1].idle_beside_work, [(190, 200)]);
    }

    #[test]
    fn more_than_can_be_shown_is_told_with_its_time() {
        let timeline = timeline(
            1,
            &[
                (110, 0, 0, What::Start),
                (120, 0, 0, STOP),
                (130, 0, 1, What::Start),
                (140, 0, 1, STOP),
                (150, 0, 0, What::Start),
            ],
        );
        assert_eq!((timeline.full_ns(), timeline.rows()[0].stays.len()), (Some(130), 1));
    }
}

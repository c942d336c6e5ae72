use super::{Checker, ms};
use crate::abi::CpuMask;
use crate::dsq::DsqRef;
use crate::task::TaskId;
use crate::trace::{Observed, What};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// No runnable task waits longer than a bound.
pub struct WaitingBounded {
    bound_ns: u64,
    waiting: BTreeSet<(u64, TaskId)>,
    since: BTreeMap<TaskId, u64>,
}

impl WaitingBounded {
    /// The bound is the scenario's: it depends on the load.
    pub fn new(bound_ns: u64) -> Self {
        WaitingBounded { bound_ns, waiting: BTreeSet::new(), since: BTreeMap::new() }
    }

    fn overdue(&self, now: u64) -> Result<(), String> {
        match self.waiting.first() {
            Some((since, task)) if now - since > self.bound_ns => Err(format!(
                "task {} waits for {}; the bound is {}",
                task.0,
                ms(now - since),
                ms(self.bound_ns)
            )),
            _ => Ok(()),
        }
    }
}

impl Checker for WaitingBounded {
    fn name(&self) -> &'static str {
        "waiting_bounded"
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        let overdue = self.overdue(event.at);
        if let Some(task) = event.task {
            match event.what {
                What::Wake | What::Stop { runnable: true } => {
                    self.since.insert(task, event.at);
                    self.waiting.insert((event.at, task));
                }
                What::Start => {
                    if let Some(since) = self.since.remove(&task) {
                        self.waiting.remove(&(since, task));
                    }
                }
                _ => {}
            }
        }
        if matches!(event.what, What::Calm) {
            // What faults kept waiting waits from now on.
            self.since.values_mut().for_each(|since| *since = event.at);
            self.waiting = self.since.keys().map(|task| (event.at, *task)).collect();
            return Ok(());
        }
        overdue
    }

    fn finish(&mut self, now: u64) -> Result<(), String> {
        self.overdue(now)
    }
}

/// No CPU stays idle, beyond a window, while a task that may run there waits.
pub struct WorkConserved {
    window_ns: u64,
    idle: BTreeMap<usize, u64>,
    offline: BTreeSet<usize>,
    waiting: BTreeMap<TaskId, u64>,
    allowed: BTreeMap<TaskId, Rc<CpuMask>>,
    looked_at: u64,
    /// Tasks in this queue wait for something else.
    parked: Option<DsqRef>,
    bypass: bool,
}

impl WorkConserved {
    /// The window is the scenario's: it depends on what the policy promises.
    pub fn new(window_ns: u64) -> Self {
        WorkConserved {
            window_ns,
            idle: BTreeMap::new(),
            offline: BTreeSet::new(),
            waiting: BTreeMap::new(),
            allowed: BTreeMap::new(),
            looked_at: 0,
            parked: None,
            bypass: false,
        }
    }

    /// Tasks in that queue wait for something else than a CPU.
    pub fn except_in(mut self, queue: u64) -> Self {
        self.parked = Some(DsqRef::User(queue));
        self
    }

    fn sets_aside(&self, queue: DsqRef) -> bool {
        queue == DsqRef::Throttled || Some(queue) == self.parked
    }

    fn idle_beside_work(&self, now: u64) -> Result<(), String> {
        // The kernel's queues are of one CPU each meanwhile.
        if self.bypass {
            return Ok(());
        }
        for (task, since) in &self.waiting {
            for (cpu, idle_since) in &self.idle {
                let both = now - (*since).max(*idle_since);
                if both > self.window_ns && self.allowed[task].has(*cpu) {
                    return Err(format!(
                        "CPU {cpu} is idle for {} while task {} waits and may run there",
                        ms(both),
                        task.0
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Checker for WorkConserved {
    fn name(&self) -> &'static str {
        "work_conserved"
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        let mut said = Ok(());
        // Looking costs tasks times CPUs; a window is passed in four looks.
        if event.at - self.looked_at > self.window_ns / 4 {
            self.looked_at = event.at;
            said = self.idle_beside_work(event.at);
        }
        match (&event.what, event.task) {
            (What::Idle, _) if !self.offline.contains(&event.cpu) => {
                self.idle.insert(event.cpu, event.at);
            }
            (What::Busy, _) => {
                self.idle.remove(&event.cpu);
            }
            (What::Offline, _) => {
                self.idle.remove(&event.cpu);
                self.offline.insert(event.cpu);
            }
            (What::Online, _) => {
                self.offline.remove(&event.cpu);
            }
            (What::Arrive { allowed, .. }, Some(task)) => {
                self.allowed.insert(task, allowed.clone());
            }
            (What::Allowed(allowed), Some(task)) => {
                self.allowed.insert(task, allowed.clone());
                self.waiting.entry(task).and_modify(|since| *since = event.at);
            }
            (What::Wake | What::Stop { runnable: true }, Some(task)) => {
                self.waiting.insert(task, event.at);
            }
            (What::Start, Some(task)) => {
                self.waiting.remove(&task);
                self.idle.remove(&event.cpu);
            }
            (What::Insert(queue), Some(task)) if self.sets_aside(*queue) => {
                self.waiting.remove(&task);
            }
            (What::Remove(queue), Some(task)) if self.sets_aside(*queue) => {
                self.waiting.insert(task, event.at);
            }
            (What::Sleep, Some(task)) => {
                self.waiting.remove(&task);
            }
            (What::Bypass(on), _) => {
                self.bypass = *on;
                self.waiting.values_mut().for_each(|since| *since = event.at);
            }
            _ => {}
        }
        said
    }

    fn finish(&mut self, now: u64) -> Result<(), String> {
        self.idle_beside_work(now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{arrive, feed};
    use super::*;

    #[test]
    fn a_task_that_waits_too_long_is_caught_while_others_run() {
        let mut checker = WaitingBounded::new(100);
        let said = feed(
            &mut checker,
            [(0, 0, 1, What::Wake), (50, 0, 2, What::Wake), (101, 0, 2, What::Start)],
        );
        assert!(said.unwrap_err().starts_with("task 1 waits"));
    }

    #[test]
    fn a_task_that_runs_in_time_is_not_caught() {
        let mut checker = WaitingBounded::new(100);
        feed(&mut checker, [(0, 0, 1, What::Wake), (99, 0, 1, What::Start)]).unwrap();
        checker.finish(1_000).unwrap();
    }

    #[test]
    fn an_idle_cpu_beside_work_is_caught() {
        let mut checker = WorkConserved::new(100);
        feed(
            &mut checker,
            [(0, 3, 0, What::Idle), (1, 0, 1, arrive(&[0, 3])), (2, 0, 1, What::Wake)],
        )
        .unwrap();
        assert!(checker.finish(103).unwrap_err().contains("CPU 3 is idle"));
    }

    #[test]
    fn a_cpu_that_is_off_line_is_no_matter_until_it_is_back() {
        let mut checker = WorkConserved::new(100);
        let gone = [
            (0, 3, 0, What::Offline),
            (0, 3, 0, What::Idle),
            (1, 0, 1, arrive(&[0, 3])),
            (2, 0, 1, What::Wake),
        ];
        feed(&mut checker, gone).unwrap();
        checker.finish(200).unwrap();
        feed(&mut checker, [(200, 3, 0, What::Online), (200, 3, 0, What::Idle)]).unwrap();
        assert!(checker.finish(301).unwrap_err().contains("CPU 3 is idle"));
    }

    #[test]
    fn an_idle_cpu_that_the_task_may_not_use_is_no_matter() {
        let mut checker = WorkConserved::new(100);
        feed(&mut checker, [(0, 3, 0, What::Idle), (1, 0, 1, arrive(&[0])), (2, 0, 1, What::Wake)])
            .unwrap();
        checker.finish(103).unwrap();
    }
}

use super::cpus::Cpus;
use super::picture::generation_of;
use super::{Checker, ms};
use crate::abi::CpuMask;
use crate::dense::Dense;
use crate::dsq::{DsqRef, PARKED};
use crate::kinds::Kinds;
use crate::task::TaskId;
use crate::trace::{Observed, What};
use std::collections::BTreeSet;

/// No runnable task waits longer than a bound.
pub struct WaitingBounded {
    bound_ns: u64,
    since: Dense<Option<u64>>,
    /// Waits in the fair class count.
    fair: bool,
    /// Up to then nobody can have waited for too long.
    look_at: u64,
}

impl WaitingBounded {
    /// The bound is the scenario's: it depends on the load.
    pub fn new(bound_ns: u64) -> Self {
        WaitingBounded { bound_ns, since: Dense::default(), fair: true, look_at: 0 }
    }

    /// Waits in the fair class do not count: a group of little weight, deep among others, has a
    /// tick in many seconds there, and none of our programs runs then.
    pub fn but_in_the_fair_class(mut self) -> Self {
        self.fair = false;
        self
    }

    fn overdue(&mut self, now: u64) -> Result<(), String> {
        if now <= self.look_at {
            return Ok(());
        }
        let waiting = self.since.iter().filter_map(|(task, since)| Some(((*since)?, task)));
        let Some((since, task)) = waiting.min() else {
            self.look_at = now.saturating_add(self.bound_ns);
            return Ok(());
        };
        self.look_at = since.saturating_add(self.bound_ns);
        if now > self.look_at {
            return Err(format!(
                "task {task} waits for {}; the bound is {}",
                ms(now - since),
                ms(self.bound_ns)
            ));
        }
        Ok(())
    }
}

impl Checker for WaitingBounded {
    fn name(&self) -> &'static str {
        "waiting_bounded"
    }

    fn wants(&self) -> Kinds {
        let runs = Kinds::WAKE.and(Kinds::STOP).and(Kinds::START).and(Kinds::CALM);
        if self.fair { runs } else { runs.and(Kinds::INSERT) }
    }

    fn look_at(&self) -> u64 {
        self.look_at
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        let overdue = self.overdue(event.at);
        if let Some(TaskId(task)) = event.task {
            match event.what {
                What::Wake | What::Stop { runnable: true } => {
                    *self.since.at(task) = Some(event.at);
                }
                What::Start => *self.since.at(task) = None,
                What::Insert(DsqRef::Fair(_)) if !self.fair => *self.since.at(task) = None,
                // A program has come, and has it from now on.
                What::Insert(_) if !self.fair => {
                    self.since.at(task).get_or_insert(event.at);
                }
                _ => {}
            }
        }
        if matches!(event.what, What::Calm) {
            // What faults kept waiting waits from now on.
            self.since.values_mut().flatten().for_each(|since| *since = event.at);
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
    /// What it is while there are faults; in the calm, and how long after it began, or after a CPU came
    /// back in it; then the moment from which that counts.
    wide_ns: u64,
    calm: Option<(u64, u64)>,
    is_calm: bool,
    narrows_at: Option<u64>,
    /// CPUs on their way off line. The kernel holds them for idle, so that it puts who wakes to one that may
    /// be busy in place of one that is idle; and it tells nobody yet.
    leaving: CpuMask,
    /// Since when each CPU is idle, and each task waits.
    idle: Dense<Option<u64>>,
    waiting: Dense<Option<u64>>,
    /// Waits in the fair class count.
    fair: bool,
    cpus: Cpus,
    looked_at: u64,
    /// Level 1 is there: tasks in its queues [`PARKED`] wait for something else.
    level1: bool,
    /// The generations of lanes that leave CPUs idle beside their tasks, on purpose.
    resting: BTreeSet<u64>,
    bypass: bool,
}

impl WorkConserved {
    /// The window is the scenario's: it depends on what the policy promises.
    pub fn new(window_ns: u64) -> Self {
        WorkConserved {
            window_ns,
            wide_ns: window_ns,
            calm: None,
            is_calm: false,
            narrows_at: None,
            leaving: CpuMask::EMPTY,
            idle: Dense::default(),
            waiting: Dense::default(),
            fair: true,
            cpus: Cpus::default(),
            looked_at: 0,
            level1: false,
            resting: BTreeSet::new(),
            bypass: false,
        }
    }

    /// Another window from some time after the moment when faults stop, and the last CPU is back: one
    /// that was on its way off line is so only after that.
    pub fn in_the_calm(mut self, window_ns: u64, after_ns: u64) -> Self {
        self.calm = Some((window_ns, after_ns));
        self
    }

    /// Waits in the fair class do not count: it takes tasks to idle CPUs at ticks and by its own rules,
    /// and none of our programs runs then.
    pub fn but_in_the_fair_class(mut self) -> Self {
        self.fair = false;
        self
    }

    fn narrows_later(&mut self, now: u64) {
        if let Some((_, after_ns)) = self.calm.filter(|_| self.is_calm) {
            (self.window_ns, self.narrows_at) = (self.wide_ns, Some(now + after_ns));
        }
    }

    fn narrow(&mut self, now: u64) {
        if self.narrows_at.is_some_and(|at| now >= at)
            && self.leaving.is_empty()
            && let Some((window_ns, _)) = self.calm
        {
            (self.window_ns, self.narrows_at) = (window_ns, None);
            self.waiting.values_mut().flatten().for_each(|since| *since = now);
        }
    }

    fn sets_aside(&self, queue: DsqRef) -> bool {
        match queue {
            DsqRef::Throttled => true,
            DsqRef::User(id) if self.level1 => {
                queue.throttles() || generation_of(id).is_some_and(|of| self.resting.contains(&of))
            }
            _ => false,
        }
    }

    fn idle_beside_work(&self, now: u64) -> Result<(), String> {
        // The kernel's queues are of one CPU each meanwhile.
        if self.bypass {
            return Ok(());
        }
        // Both for longer than the window: those that are, each for itself.
        let too_long = |since: Option<u64>| since.filter(|since| now - since > self.window_ns);
        let idle: CpuMask =
            self.idle.iter().filter_map(|(cpu, since)| too_long(*since).map(|_| cpu)).collect();
        if idle.is_empty() {
            return Ok(());
        }
        for (task, since) in self.waiting.iter() {
            let Some(waits_since) = too_long(*since) else { continue };
            let allowed = self.cpus.allowed(TaskId(task));
            let usable = allowed.and_then(|allowed| allowed.and(&idle).iter().next());
            if let Some(cpu) = usable {
                let idle_since = self.idle.get(cpu).unwrap_or(now);
                return Err(format!(
                    "CPU {cpu} is idle for {} while task {task} waits and may run there",
                    ms(now - waits_since.max(idle_since)),
                ));
            }
        }
        Ok(())
    }
}

impl Checker for WorkConserved {
    fn name(&self) -> &'static str {
        "work_conserved"
    }

    fn wants(&self) -> Kinds {
        let cpus = Cpus::ON_LINE.and(Kinds::LEFT).and(Kinds::IDLE).and(Kinds::BUSY);
        let tasks = Cpus::OF_TASKS.and(Kinds::WAKE).and(Kinds::STOP);
        let queues = Kinds::INSERT.and(Kinds::REMOVE);
        let phases = Kinds::BYPASS.and(Kinds::CALM).and(Kinds::LANES).and(Kinds::DESTROY_QUEUE);
        cpus.and(tasks).and(queues).and(phases).and(Kinds::START).and(Kinds::SLEEP)
    }

    fn look_at(&self) -> u64 {
        // Looking costs tasks times CPUs; a window is passed in four looks.
        let next = self.looked_at.saturating_add(self.window_ns / 4);
        self.narrows_at.map_or(next, |at| at.min(next))
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        let mut said = Ok(());
        self.narrow(event.at);
        if event.at > self.look_at() {
            self.looked_at = event.at;
            said = self.idle_beside_work(event.at);
        }
        self.cpus.take(event);
        match (&event.what, event.task.map(|task| task.0)) {
            (What::Idle, _) if !self.cpus.is_offline(event.cpu) => {
                *self.idle.at(event.cpu) = Some(event.at);
            }
            (What::Busy, _) => *self.idle.at(event.cpu) = None,
            (What::Offline, _) => {
                *self.idle.at(event.cpu) = None;
                self.leaving.set(event.cpu);
                self.narrows_later(event.at);
            }
            (What::Left | What::Online, _) => {
                self.leaving.clear(event.cpu);
                self.narrows_later(event.at);
            }
            (What::Allowed(_), Some(task)) => {
                if let Some(since) = self.waiting.at(task) {
                    *since = event.at;
                }
            }
            (What::Wake | What::Stop { runnable: true }, Some(task)) => {
                *self.waiting.at(task) = Some(event.at);
            }
            (What::Start, Some(task)) => {
                *self.waiting.at(task) = None;
                *self.idle.at(event.cpu) = None;
            }
            (What::Insert(queue), Some(task)) if self.sets_aside(*queue) => {
                *self.waiting.at(task) = None;
            }
            (What::Remove(queue), Some(task)) if self.sets_aside(*queue) => {
                *self.waiting.at(task) = Some(event.at);
            }
            (What::Insert(DsqRef::Fair(_)), Some(task)) if !self.fair => {
                *self.waiting.at(task) = None;
            }
            // A program has come, and has it from now on.
            (What::Insert(_), Some(task)) if !self.fair => {
                self.waiting.at(task).get_or_insert(event.at);
            }
            (What::Sleep, Some(task)) => *self.waiting.at(task) = None,
            (What::Bypass(on), _) => {
                self.bypass = *on;
                self.waiting.values_mut().flatten().for_each(|since| *since = event.at);
            }
            (What::Calm, _) => {
                self.is_calm = true;
                self.narrows_later(event.at);
            }
            (What::Lanes(lanes), _) => {
                self.level1 = !lanes.is_empty();
                let resting = lanes.iter().filter(|lane| !lane.conserves);
                self.resting = resting.map(|lane| lane.generation).collect();
            }
            // Nobody parks any more; what is parked is queued anew after this.
            (What::DestroyQueue(id), _) if PARKED.contains(id) => self.level1 = false,
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
    use super::super::testing::{arrive, feed, lane};
    use super::*;
    use crate::metasched::{LaneSeen, LaneState};
    use metasched_abi::LANE_DSQ_BITS;

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
    fn who_waits_in_the_fair_class_waits_from_when_a_program_has_it() {
        let mut checker = WaitingBounded::new(100).but_in_the_fair_class();
        let fair = [(0, 0, 1, What::Wake), (0, 0, 1, What::Insert(DsqRef::Fair(0)))];
        feed(&mut checker, fair).unwrap();
        feed(&mut checker, [(1_000, 0, 1, What::Insert(DsqRef::Local(0)))]).unwrap();
        checker.finish(1_100).unwrap();
        assert!(checker.finish(1_101).unwrap_err().starts_with("task 1 waits"));
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
    fn an_idle_cpu_beside_who_waits_in_the_fair_class_counts_from_when_a_program_has_it() {
        let mut checker = WorkConserved::new(100).but_in_the_fair_class();
        let waits = [(0, 3, 0, What::Idle), (1, 0, 1, arrive(&[0, 3])), (2, 0, 1, What::Wake)];
        feed(&mut checker, waits).unwrap();
        feed(&mut checker, [(3, 0, 1, What::Insert(DsqRef::Fair(0)))]).unwrap();
        feed(&mut checker, [(1_000, 0, 1, What::Insert(DsqRef::Local(0)))]).unwrap();
        checker.finish(1_100).unwrap();
        assert!(checker.finish(1_101).unwrap_err().contains("CPU 3 is idle"));
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
    fn a_window_that_faults_need_gets_narrower_when_they_have_stopped() {
        let mut checker = WorkConserved::new(1_000).in_the_calm(100, 500);
        let beside = [(0, 3, 0, What::Idle), (1, 0, 1, arrive(&[0, 3])), (2, 0, 1, What::Wake)];
        feed(&mut checker, beside).unwrap();
        let nothing = || What::Kick { preempt: false };
        feed(&mut checker, [(300, 0, 0, What::Calm), (700, 0, 0, nothing())]).unwrap();
        feed(&mut checker, [(800, 0, 0, nothing()), (900, 0, 0, nothing())]).unwrap();
        assert!(checker.finish(901).unwrap_err().contains("CPU 3 is idle"));
        // The window is wide again for a while after a CPU came back.
        feed(&mut checker, [(901, 1, 0, What::Online)]).unwrap();
        checker.finish(905).unwrap();
    }

    #[test]
    fn the_window_stays_wide_while_a_cpu_is_on_its_way_off_line() {
        let mut checker = WorkConserved::new(1_000).in_the_calm(100, 500);
        let leaves = [(0, 2, 0, What::Offline), (0, 3, 0, What::Idle), (1, 0, 1, arrive(&[0, 3]))];
        feed(&mut checker, leaves).unwrap();
        let nothing = || What::Kick { preempt: false };
        feed(&mut checker, [(10, 0, 0, What::Calm), (600, 0, 1, What::Wake)]).unwrap();
        feed(&mut checker, [(750, 0, 0, nothing()), (800, 2, 0, What::Left)]).unwrap();
        feed(&mut checker, [(1_290, 0, 0, nothing()), (1_300, 0, 0, nothing())]).unwrap();
        checker.finish(1_400).unwrap();
        assert!(checker.finish(1_401).unwrap_err().contains("CPU 3 is idle"));
    }

    #[test]
    fn a_lane_that_does_not_conserve_work_may_leave_cpus_idle_and_no_other_may() {
        let queue = |generation: u64| DsqRef::User(generation << LANE_DSQ_BITS);
        let lanes = [
            lane(2, LaneState::InForce, 0),
            LaneSeen { conserves: false, ..lane(3, LaneState::InForce, 1) },
        ];
        let waits_in = |generation| {
            let mut checker = WorkConserved::new(100);
            let events = [
                (0, 3, 0, What::Lanes(lanes.into())),
                (0, 3, 0, What::Idle),
                (1, 0, 1, arrive(&[0, 3])),
                (2, 0, 1, What::Wake),
                (3, 0, 1, What::Insert(queue(generation))),
            ];
            feed(&mut checker, events).unwrap();
            checker.finish(200)
        };
        waits_in(3).unwrap();
        assert!(waits_in(2).unwrap_err().contains("CPU 3 is idle"));
    }

    #[test]
    fn an_idle_cpu_that_the_task_may_not_use_is_no_matter() {
        let mut checker = WorkConserved::new(100);
        feed(&mut checker, [(0, 3, 0, What::Idle), (1, 0, 1, arrive(&[0])), (2, 0, 1, What::Wake)])
            .unwrap();
        checker.finish(103).unwrap();
    }
}

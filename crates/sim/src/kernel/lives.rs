//! The lives of tasks: they are born, go from step to step, and end.

use super::{Event, Kernel};
use crate::abi::scx;
use crate::cgroups::{cgroup_of, id_and_above};
use crate::operate::FOR_EVER_NS;
use crate::step::{Stage, Step};
use crate::task::{Next, Task, TaskId, TaskSpec};
use crate::trace::What;
use std::rc::Rc;
use std::sync::Arc;

impl Kernel {
    /// Makes a task and tells the policy: init_task, enable, set_weight. What it does is drawn from a stream
    /// that its parent's begins, or that of all that have none.
    pub(crate) fn bear(
        &mut self,
        spec: Arc<TaskSpec>,
        cpu: usize,
        parent: Option<TaskId>,
    ) -> TaskId {
        let id = self.tasks.next_id();
        let anywhere = self.tasks.anywhere.clone();
        let allowed = spec.allowed.map_or(anywhere, |mask| Rc::new(mask.and(&self.tasks.anywhere)));
        if allowed.is_empty() {
            self.fail("scenario", format!("'{}' may run on no CPU of this machine", spec.name));
        }
        let (weight, now) = (spec.weight, self.clock.now);
        let css_set = self.css_set(&spec.cgroup);
        let random = match parent {
            Some(parent) => self.tasks[parent].random().branch(),
            None => self.origins.branch(),
        };
        self.tasks.push(Task::new(id, spec, *allowed, now, css_set, random));
        self.tasks[id].cpu = cpu;
        let task = &self.tasks[id];
        self.audience.readers(|reader| reader.born(id, &task.name, &task.spec.cgroup));
        if let Some(Step::Team { team, .. }) = task.spec.steps.first() {
            self.paravirt.born(team, id, &task.spec.cgroup);
            let team = self.world.teams.get_mut(team);
            if let Some((first, threads)) = team.map(|team| team.process(id)) {
                self.tasks[id].raw.is_thread_of(first, threads);
            }
        }
        self.init_task(id, parent.is_some());
        let (cgroup, _) = id_and_above(cgroup_of(css_set));
        let kthread = self.tasks[id].spec.kthread;
        self.observe(cpu, Some(id), What::Arrive { weight, allowed, kthread });
        self.observe(cpu, Some(id), What::Member(cgroup));
        self.enable_task(id);
        id
    }

    /// What the task that runs on `cpu` does next: its step is over.
    pub(super) fn next_step(&mut self, cpu: usize) {
        let Some(id) = self.cpus[cpu].curr else { return };
        self.update_curr(cpu);
        if self.tasks[id].remaining > 0 {
            // The kernel took some of the time meanwhile.
            return self.plan_run_end(cpu);
        }
        match self.tasks[id].next() {
            Next::Run(ns) => {
                self.tasks[id].remaining = ns;
                self.plan_run_end(cpu);
            }
            Next::Sleep(ns) => match self.machine.what_it_costs().sleep_ns {
                0 => self.sleep_until(cpu, id, self.clock.now + ns),
                takes_ns => {
                    self.tasks[id].doing.stage = Stage::FallsAsleep(self.clock.now + ns);
                    self.tasks[id].remaining = takes_ns;
                    self.plan_run_end(cpu);
                }
            },
            // Late: it does not sleep at all.
            Next::SleepUntil(due) if due <= self.clock.now => {
                self.tasks[id].doing.wakes(due);
                self.plan_run_end(cpu);
            }
            Next::SleepUntil(due) => self.sleep_until(cpu, id, due),
            Next::Yield => self.yield_now(cpu),
            Next::Fork(spec) => {
                let child = self.bear(spec, cpu, Some(id));
                self.tasks[child].doing.parent = Some(id);
                self.tasks[id].doing.children += 1;
                self.wake_up(child, cpu, scx::WAKE_FORK);
                self.plan_run_end(cpu);
            }
            Next::Operate(step) => self.operate(cpu, &step),
            Next::Exit => {
                self.exit_notify(cpu, id);
                self.block(cpu, true);
            }
        }
    }

    fn sleep_until(&mut self, cpu: usize, id: TaskId, due: u64) {
        self.wake_at(id, due);
        self.block(cpu, false);
    }

    /// Sets a timer that wakes a task, and goes off as late as timers do.
    pub(crate) fn wake_at(&mut self, id: TaskId, due: u64) {
        let late_ns = self.machine.what_it_costs().timer_ns;
        self.schedule_at(due + late_ns, Event::Wake(id));
    }

    /// Schedules the end of the present step, at once where none is left.
    pub(crate) fn plan_run_end(&mut self, cpu: usize) {
        let Some(id) = self.cpus[cpu].curr else { return };
        self.cpus[cpu].epoch += 1;
        let (epoch, remaining) = (self.cpus[cpu].epoch, self.tasks[id].remaining);
        // Another task lets one that spins go.
        if remaining < FOR_EVER_NS / 2 {
            let end = self.clock.now + self.cpus[cpu].costs.due_ns + remaining;
            self.schedule_at(end, Event::RunEnd { cpu: cpu as u32, epoch });
        }
    }
}

//! How a task gets into a dispatch queue and out of it again: what enqueue and
//! dispatch decide, and the queue that has the task meanwhile.

use crate::abi::scx;
use crate::callbacks::Callback;
use crate::dsq::{Dsq, DsqRef, Order, Queues};
use crate::dsq_iter::DsqIter;
use crate::kernel::{Kernel, May};
use crate::load::Class;
use crate::task::{OpsState, TaskId};
use crate::trace::What;

/// Inserts by vtime are told apart by this flag, as in the kernel.
pub(crate) const ENQ_BY_VTIME: u64 = 1 << 57;

/// Dispatch queues that belong to no CPU, and what is under way between queues.
#[derive(Default)]
pub(crate) struct Dispatch {
    pub global: Dsq,
    /// Those that the program made.
    pub user: Queues,
    /// What the present call of ops.dispatch has inserted: empty whenever none is under way.
    pub buffered: Vec<Buffered>,
    /// How many tasks the present round of ops.dispatch has moved to where they can run.
    pub moved: usize,
    /// The tasks that go to another CPU's local queue as soon as no run queue is locked.
    pub deferred: Vec<TaskId>,
    /// Queues whose tasks are to be enqueued anew.
    pub reenqueued: Vec<u64>,
    /// The walks through queues that were begun.
    pub iters: Vec<DsqIter>,
}

/// One insert made in ops.dispatch, in force when it returns.
pub(crate) struct Buffered {
    pub task: TaskId,
    pub hand_over: Option<u64>,
    pub dsq_id: u64,
    pub flags: u64,
}

impl Kernel {
    /// `sticky`: the task moves inside the kernel, or goes on running, and goes to
    /// the local queue of that CPU without asking the policy.
    pub(crate) fn enqueue_task(&mut self, id: TaskId, flags: u64, sticky: Option<usize>) {
        if self.tasks[id].queued() {
            return;
        }
        self.tasks[id].c_mut().scx.flags |= scx::TASK_QUEUED;
        let (cpu, p) = (self.tasks[id].cpu, self.pointer(id));
        if sticky.is_none() {
            self.call(self.program.ops.runnable, Callback::Runnable, cpu, May::Look, [p, flags, 0]);
        }
        self.do_enqueue_task(id, flags, sticky);
        self.sched_info_enqueue(id);
    }

    pub(crate) fn do_enqueue_task(&mut self, id: TaskId, flags: u64, sticky: Option<usize>) {
        let cpu = self.tasks[id].cpu;
        if self.load.class == Class::Fair {
            return self.fair_enqueue(id);
        }
        if sticky == Some(cpu) {
            return self.dispatch_enqueue(cpu, DsqRef::Local(cpu), id, flags);
        }
        // The policy was told that this CPU is gone, and is not asked about it any more.
        if !self.cpus.active.has(cpu) {
            return self.kernel_enqueue(cpu, DsqRef::Local(cpu), id, flags);
        }
        if self.load.bypass {
            return self.kernel_enqueue(cpu, DsqRef::Local(cpu), id, flags);
        }
        if self.tasks[id].direct.is_some() {
            return self.direct_dispatch(id, flags);
        }
        let exiting = self.tasks[id].c().flags & scx::PF_EXITING != 0;
        if exiting && self.program.ops.flags & scx::OPS_ENQ_EXITING == 0 {
            return self.kernel_enqueue(cpu, DsqRef::Local(cpu), id, flags);
        }
        if self.program.ops.enqueue.is_null() {
            return self.kernel_enqueue(cpu, DsqRef::Global, id, flags);
        }
        self.tasks[id].hand_overs += 1;
        let hand_over = self.tasks[id].hand_overs;
        self.observe(cpu, Some(id), What::Enqueue);
        let may = May::InsertOne { task: id, spent: false, selecting: false };
        let args = [self.pointer(id), flags, 0];
        self.call(self.program.ops.enqueue, Callback::Enqueue, cpu, may, args);
        self.gap(cpu);
        if self.tasks[id].direct.is_some() {
            return self.direct_dispatch(id, flags);
        }
        self.tasks[id].in_custody = true;
        self.tasks[id].ops_state = OpsState::Queued(hand_over);
    }

    /// The kernel itself queues a task, with a fresh slice.
    pub(crate) fn kernel_enqueue(&mut self, cpu: usize, dsq: DsqRef, id: TaskId, flags: u64) {
        self.tasks[id].c_mut().scx.slice = self.default_slice_ns();
        self.dispatch_enqueue(cpu, dsq, id, flags);
    }

    /// Carries out an insert made in select_cpu or enqueue. One into another CPU's
    /// local queue waits until this run queue is unlocked.
    pub(crate) fn direct_dispatch(&mut self, id: TaskId, flags: u64) {
        let cpu = self.tasks[id].cpu;
        let (dsq_id, verdict_flags) = self.tasks[id].direct.take().expect("the caller looked");
        let dsq = self.find_dsq_for_dispatch(cpu, dsq_id, id);
        if matches!(dsq, DsqRef::Local(there) if there != cpu) {
            self.tasks[id].direct = Some((dsq_id, verdict_flags | flags));
            self.dispatch.deferred.push(id);
            return;
        }
        self.dispatch_enqueue(cpu, dsq, id, verdict_flags | flags);
    }

    /// Carries out what had to wait: queues that are enqueued anew, and inserts.
    pub(crate) fn run_deferred(&mut self) {
        // Most events leave nothing.
        if self.dispatch.reenqueued.is_empty() && self.dispatch.deferred.is_empty() {
            return;
        }
        for dsq_id in std::mem::take(&mut self.dispatch.reenqueued) {
            let Some(dsq) = self.dispatch.user.get(dsq_id) else { continue };
            for id in dsq.tasks().collect::<Vec<_>>() {
                self.dispatch_dequeue(id);
                self.do_enqueue_task(id, scx::ENQ_REENQ, None);
            }
        }
        while !self.dispatch.deferred.is_empty() {
            let id = self.dispatch.deferred.remove(0);
            // A dequeue in between has withdrawn it.
            let Some((dsq_id, flags)) = self.tasks[id].direct.take() else { continue };
            let cpu = self.tasks[id].cpu;
            if let DsqRef::Local(there) = self.find_dsq_for_dispatch(cpu, dsq_id, id) {
                self.dispatch_to_local_dsq(cpu, there, id, flags);
            }
        }
    }

    pub(crate) fn find_dsq_for_dispatch(&mut self, cpu: usize, dsq_id: u64, id: TaskId) -> DsqRef {
        if dsq_id == scx::DSQ_LOCAL {
            return DsqRef::Local(cpu);
        }
        if dsq_id & scx::DSQ_LOCAL_ON == scx::DSQ_LOCAL_ON {
            let there = (dsq_id & scx::DSQ_LOCAL_CPU_MASK) as usize;
            if there < self.cpus.len() {
                return DsqRef::Local(there);
            }
            self.scx_error(format!("invalid CPU {there} in SCX_DSQ_LOCAL_ON dispatch verdict"));
            return DsqRef::Global;
        }
        if dsq_id == scx::DSQ_GLOBAL {
            return DsqRef::Global;
        }
        if !self.dispatch.user.has(dsq_id) {
            let name = self.tasks[id].name.clone();
            self.scx_error(format!("non-existent DSQ {dsq_id:#x} for {name}[{}]", id.0 + 1));
            return DsqRef::Global;
        }
        DsqRef::User(dsq_id)
    }

    /// Puts a task into a queue. `cpu` is the CPU whose run queue is locked.
    pub(crate) fn dispatch_enqueue(&mut self, cpu: usize, dsq: DsqRef, id: TaskId, flags: u64) {
        let order = match flags & ENQ_BY_VTIME != 0 {
            true => Order::Vtime,
            false => Order::Fifo,
        };
        let user = matches!(dsq, DsqRef::User(_));
        if order == Order::Vtime && !user {
            self.scx_error("cannot use vtime ordering for built-in DSQs");
            return;
        }
        if self.dsq(dsq).order().is_some_and(|there| there != order) {
            let (had, id) = match order {
                Order::Vtime => ("FIFO", dsq),
                Order::Fifo => ("PRIQ", dsq),
            };
            self.scx_error(format!("DSQ {id:x?} already had {had}-enqueued tasks"));
            return;
        }
        let vtime = self.tasks[id].c().scx.dsq_vtime;
        let queue = self.dsq_mut(dsq);
        let key = match order {
            Order::Vtime => {
                queue.insert(id, vtime);
                vtime
            }
            Order::Fifo => queue.push(id, flags & (scx::ENQ_HEAD | scx::ENQ_PREEMPT) != 0),
        };
        self.tasks[id].dsq = Some(dsq);
        self.tasks[id].dsq_key = key;
        self.tasks[id].inserts += 1;
        self.tasks[id].direct = None;
        self.observe(cpu, Some(id), What::Insert(dsq));
        match dsq {
            DsqRef::Local(there) => self.local_dsq_post_enq(there, id, flags),
            DsqRef::User(_) => self.tasks[id].in_custody = true,
            _ => self.leave_custody(cpu, id, 0),
        }
        self.tasks[id].ops_state = OpsState::None;
    }

    pub(crate) fn local_dsq_post_enq(&mut self, cpu: usize, id: TaskId, flags: u64) {
        self.leave_custody(cpu, id, 0);
        let current = self.cpus[cpu].curr;
        if current.is_none() {
            self.resched(cpu);
        }
        if self.cpus[cpu].in_balance {
            return;
        }
        if let Some(current) = current
            && flags & scx::ENQ_PREEMPT != 0
            && current != id
        {
            self.tasks[current].c_mut().scx.slice = 0;
            self.resched(cpu);
        }
    }

    pub(crate) fn leave_custody(&mut self, cpu: usize, id: TaskId, flags: u64) {
        if std::mem::take(&mut self.tasks[id].in_custody) {
            self.observe(cpu, Some(id), What::Dequeue);
            let p = self.pointer(id);
            self.call(self.program.ops.dequeue, Callback::Dequeue, cpu, May::Look, [p, flags, 0]);
        }
    }

    pub(crate) fn dsq(&self, dsq: DsqRef) -> &Dsq {
        match dsq {
            DsqRef::Local(cpu) => &self.cpus[cpu].local,
            DsqRef::Global => &self.dispatch.global,
            DsqRef::User(id) => self.dispatch.user.get(id).expect("destroyed only when empty"),
            DsqRef::Fair(_) | DsqRef::Throttled => {
                unreachable!("the fair class has queues of its own kind")
            }
        }
    }

    pub(crate) fn dsq_mut(&mut self, dsq: DsqRef) -> &mut Dsq {
        match dsq {
            DsqRef::Local(cpu) => &mut self.cpus[cpu].local,
            DsqRef::Global => &mut self.dispatch.global,
            DsqRef::User(id) => self.dispatch.user.get_mut(id).expect("destroyed only when empty"),
            DsqRef::Fair(_) | DsqRef::Throttled => {
                unreachable!("the fair class has queues of its own kind")
            }
        }
    }

    /// Takes a task out of the queue in which it stands, if any.
    pub(crate) fn dispatch_dequeue(&mut self, id: TaskId) {
        if let Some(dsq) = self.tasks[id].dsq.take() {
            let found = match dsq {
                DsqRef::Fair(cpu) => self.fair_dequeue(id, cpu),
                DsqRef::Throttled => self.fair_unpark(id),
                dsq => {
                    let key = self.tasks[id].dsq_key;
                    self.dsq_mut(dsq).remove(id, key)
                }
            };
            assert!(found, "engine: task {} is not in {dsq:?}", id.0);
            let cpu = self.tasks[id].cpu;
            self.observe(cpu, Some(id), What::Remove(dsq));
        }
    }

    /// `migrating`: it goes to another run queue, and stays runnable.
    pub(crate) fn dequeue_task(&mut self, id: TaskId, flags: u64, migrating: bool) {
        if !self.tasks[id].queued() {
            return;
        }
        let (cpu, p) = (self.tasks[id].cpu, self.pointer(id));
        self.tasks[id].ops_state = OpsState::None;
        self.leave_custody(cpu, id, flags);
        if self.cpus[cpu].curr == Some(id) {
            self.update_curr(cpu);
            self.call(self.program.ops.stopping, Callback::Stopping, cpu, May::Look, [p, 0, 0]);
        }
        if !migrating {
            self.call(
                self.program.ops.quiescent,
                Callback::Quiescent,
                cpu,
                May::Look,
                [p, flags, 0],
            );
        }
        let c = &mut self.tasks[id].c_mut().scx;
        c.flags &= !(scx::TASK_QUEUED | scx::TASK_DEQD_FOR_SLEEP);
        if flags & scx::DEQ_SLEEP != 0 {
            c.flags |= scx::TASK_DEQD_FOR_SLEEP;
        }
        match self.load.class {
            Class::Fair => self.fair_leave(id, flags & scx::DEQ_SLEEP != 0),
            Class::Ext => self.dispatch_dequeue(id),
        }
        self.tasks[id].direct = None;
        self.dispatch.deferred.retain(|t| *t != id);
    }

    /// Puts a task into the local queue of `there`, wherever it belonged.
    pub(crate) fn dispatch_to_local_dsq(
        &mut self,
        cpu: usize,
        there: usize,
        id: TaskId,
        flags: u64,
    ) {
        let from = self.tasks[id].cpu;
        if from == there {
            self.dispatch_enqueue(there, DsqRef::Local(there), id, flags);
        } else if self.may_run_on(id, there) {
            self.move_remote_task(id, there, flags);
        } else {
            if !self.tasks[id].may_use(there) {
                let name = self.tasks[id].name.clone();
                self.scx_error(format!(
                    "SCX_DSQ_LOCAL[_ON] target CPU {there} not allowed for {name}[{}]",
                    id.0 + 1
                ));
            }
            // That the CPU has gone off line meanwhile is nobody's fault.
            self.dispatch_enqueue(cpu, DsqRef::Global, id, flags);
            return;
        }
        if self.cpus[there].curr.is_none() {
            self.resched(there);
        }
    }

    /// Takes a task that does not run to the local queue of another CPU. The
    /// policy is not asked; it hears of it only by the end of its custody.
    pub(crate) fn move_remote_task(&mut self, id: TaskId, there: usize, flags: u64) {
        self.dispatch_dequeue(id);
        self.sched_info_dequeue(id);
        self.set_task_cpu(id, there);
        self.dispatch_enqueue(there, DsqRef::Local(there), id, flags);
        self.sched_info_enqueue(id);
    }

    /// Moves the first task of a queue that may run on `cpu` to its local queue.
    pub(crate) fn consume(&mut self, cpu: usize, dsq: DsqRef) -> bool {
        let first = self
            .dsq(dsq)
            .tasks()
            .find(|id| self.tasks[*id].cpu == cpu || self.may_run_on(*id, cpu));
        let Some(id) = first else { return false };
        self.move_remote_task(id, cpu, 0);
        true
    }

    /// Puts the inserts of ops.dispatch in force.
    pub(crate) fn flush_dispatch_buf(&mut self, cpu: usize) {
        for entry in std::mem::take(&mut self.dispatch.buffered) {
            self.dispatch.moved += 1;
            self.finish_dispatch(cpu, entry);
        }
    }

    pub(crate) fn finish_dispatch(&mut self, cpu: usize, entry: Buffered) {
        let Buffered { task, hand_over, dsq_id, flags } = entry;
        // A task that somebody else got to, or that came back meanwhile, is not
        // this insert's to dispatch: the kernel passes over it in silence.
        match (self.tasks[task].ops_state, hand_over) {
            (OpsState::Queued(now), Some(then)) if now == then => {}
            _ => return,
        }
        self.tasks[task].ops_state = OpsState::None;
        match self.find_dsq_for_dispatch(cpu, dsq_id, task) {
            DsqRef::Local(there) => self.dispatch_to_local_dsq(cpu, there, task, flags),
            dsq => self.dispatch_enqueue(cpu, dsq, task, flags),
        }
    }
}

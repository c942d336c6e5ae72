//! What happens in a run, as one stream: the checkers read it, a trace is its text.

use crate::abi::CpuMask;
use crate::callbacks::Callback;
use crate::dsq::DsqRef;
use crate::metasched::LaneSeen;
use crate::task::TaskId;
use std::fmt;
use std::rc::Rc;

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Observed {
    /// When, ns since the start.
    pub at: u64,
    /// On which CPU.
    pub cpu: usize,
    /// To which task; `None` where it concerns a CPU or the whole machine.
    pub task: Option<TaskId>,
    /// What.
    pub what: What,
}

// Every event is written and read several times: each is a line of the cache.
const _: () = assert!(size_of::<Observed>() <= 64);

/// Kinds of things that happen.
#[derive(Clone, Debug)]
pub enum What {
    /// The policy knows the task from now on.
    Arrive {
        /// Its weight.
        weight: u32,
        /// The CPUs that it may use.
        allowed: Rc<CpuMask>,
        /// Whether it is a thread of the kernel's own.
        kthread: bool,
    },
    /// It became runnable.
    Wake,
    /// It was handed to the policy: ops.enqueue is called.
    Enqueue,
    /// The policy lost its say over it: ops.dequeue is called.
    Dequeue,
    /// It entered a dispatch queue.
    Insert(DsqRef),
    /// It was taken out of its dispatch queue.
    Remove(DsqRef),
    /// It runs from now on.
    Start,
    /// It runs no more; whether it still wants to.
    Stop {
        /// Whether it still wants to run.
        runnable: bool,
    },
    /// It wants no CPU any more.
    Sleep,
    /// It will never run again.
    Exit,
    /// It belongs to another CPU's run queue from now on.
    Migrate,
    /// The CPUs that it may use changed.
    Allowed(Rc<CpuMask>),
    /// Its weight changed.
    Weight(u32),
    /// Whether it is in a system call from now on.
    Syscall(bool),
    /// It is in a system call and holds nothing: it enters the guest whose virtual CPU it is.
    Guest,
    /// The CPU is asked to choose anew.
    Kick {
        /// Whether what runs there has to give way.
        preempt: bool,
    },
    /// The CPU has nothing to run.
    Idle,
    /// The CPU has something to run again.
    Busy,
    /// The CPU goes off line, and takes no tasks any more.
    Offline,
    /// The policy is told of that, a grace period later.
    Left,
    /// It is back.
    Online,
    /// The scenario did something.
    Note(Rc<str>),
    /// A callback is called, whether the policy has it or not.
    Call {
        /// Which.
        callback: Callback,
        /// The callback within which it is called; nothing for most.
        within: Callback,
    },
    /// A policy made a dispatch queue of that id.
    MakeQueue(u64),
    /// It destroyed one.
    DestroyQueue(u64),
    /// There is a cgroup of that id below another one; the root is below none.
    Cgroup {
        /// Its id.
        id: u64,
        /// The one above it.
        above: Option<u64>,
    },
    /// `cpu.weight` of a cgroup is this from now on; with `cpu.idle` the least.
    CgroupWeight {
        /// The cgroup's id.
        cgroup: u64,
        /// Its weight.
        weight: u32,
    },
    /// The task is in the cgroup of that id from now on.
    Member(u64),
    /// `cpu.max` of a cgroup was written.
    Limit {
        /// The cgroup's id.
        cgroup: u64,
        /// The quota of each period; none means "max".
        quota: Option<Box<Quota>>,
    },
    /// Level 1's lanes, as user space reads them, after something about them changed.
    Lanes(Rc<[LaneSeen]>),
    /// A cgroup was assigned to an application; 0: to none any more.
    Assign {
        /// The cgroup's id.
        cgroup: u64,
        /// The application's number.
        app: u32,
    },
    /// Faults stop: from now on progress is demanded.
    Calm,
    /// The program is told to leave: from now on it is asked nothing.
    Detached,
    /// The kernel bypasses a program that comes or goes, and queues tasks where they are;
    /// or does so no more.
    Bypass(bool),
}

/// What `cpu.max` and `cpu.max.burst` grant, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Run time granted each period.
    pub quota_ns: u64,
    /// The period.
    pub period_ns: u64,
    /// What may be saved up beyond a quota.
    pub burst_ns: u64,
}

impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>14} cpu{:<3}", self.at, self.cpu)?;
        match self.task {
            Some(task) => write!(f, " task{:<4} ", task.0)?,
            None => write!(f, " {:<8} ", "")?,
        }
        match &self.what {
            What::Arrive { weight, allowed, .. } => {
                write!(f, "arrive weight {weight} on {allowed:?}")
            }
            What::Insert(DsqRef::User(id)) => write!(f, "insert into {id:#x}"),
            What::Insert(dsq) => write!(f, "insert into {dsq:?}"),
            What::Remove(DsqRef::User(id)) => write!(f, "remove from {id:#x}"),
            What::Remove(dsq) => write!(f, "remove from {dsq:?}"),
            What::Stop { runnable: true } => write!(f, "stop, runnable"),
            What::Stop { runnable: false } => write!(f, "stop"),
            What::Allowed(mask) => write!(f, "allowed on {mask:?}"),
            What::Weight(weight) => write!(f, "weight {weight}"),
            What::Syscall(true) => write!(f, "system call"),
            What::Syscall(false) => write!(f, "return to user space"),
            What::Guest => write!(f, "enter the guest"),
            What::Kick { preempt: true } => write!(f, "kick, preempt"),
            What::Kick { preempt: false } => write!(f, "kick"),
            What::Note(text) => write!(f, "{text}"),
            What::Call { callback, within: Callback::Nothing } => write!(f, "ops.{callback}"),
            What::Call { callback, within } => write!(f, "ops.{callback} within {within}"),
            What::MakeQueue(id) => write!(f, "queue {id:#x} is made"),
            What::DestroyQueue(id) => write!(f, "queue {id:#x} is destroyed"),
            What::Lanes(lanes) => write!(f, "lanes {lanes:?}"),
            other => write!(f, "{}", format!("{other:?}").to_lowercase()),
        }
    }
}

/// How many events a failure shows.
const RECENT: usize = 24;

/// Out of the way of runs whose text nobody wants.
#[cold]
fn write_line(text: &mut String, event: &Observed) {
    use fmt::Write;
    writeln!(text, "{event}").expect("a String takes everything");
}

/// Keeps the last events for a failure's message and, where asked, all as text.
pub struct Trace {
    /// The last events, round and round; the oldest is at `next`.
    recent: Vec<Observed>,
    next: usize,
    text: Option<String>,
}

impl Trace {
    /// Keeps the whole text where `whole`.
    pub fn new(whole: bool) -> Self {
        Trace { recent: Vec::with_capacity(RECENT), next: 0, text: whole.then(String::new) }
    }

    /// Records one event.
    pub fn record(&mut self, event: Observed) {
        if let Some(text) = &mut self.text {
            write_line(text, &event);
        }
        // Calls come with each of the others and say little beside them.
        if matches!(event.what, What::Call { .. }) {
            return;
        }
        if self.recent.len() < RECENT {
            self.recent.push(event);
            return;
        }
        self.recent[self.next] = event;
        self.next = if self.next + 1 == RECENT { 0 } else { self.next + 1 };
    }

    /// The last events, oldest first.
    pub fn recent(&self) -> Vec<String> {
        let (newer, older) = self.recent.split_at(self.next);
        older.iter().chain(newer).map(Observed::to_string).collect()
    }

    /// The whole text; empty unless it was asked for.
    pub fn into_text(self) -> String {
        self.text.unwrap_or_default()
    }
}

//! What a task can do.

use crate::span::Span;
use crate::task::TaskSpec;
use std::sync::Arc;

/// The name of what tasks share: a pipe, a lock, a device. Each kind has names of its own.
pub type Name = Arc<str>;

/// One thing that a task does.
#[derive(Clone, Debug)]
pub enum Step {
    /// Uses a CPU for so long.
    Run(Span),
    /// Uses a CPU until so long after it woke, ns, however little of the CPU it gets.
    Busy(u64),
    /// Blocks, and is woken by a timer.
    Sleep(Span),
    /// Blocks until the next time of its own timer, of which it has as many as it uses.
    Timer {
        /// Which one.
        timer: usize,
        /// From one time to the next, ns.
        period_ns: u64,
        /// What becomes of times that the task missed: they are made up for at once, or
        /// counting starts anew.
        keeps_schedule: bool,
    },
    /// `sched_yield()`.
    Yield,
    /// Bears a task that goes its own way.
    Fork(Arc<TaskSpec>),
    /// Blocks until all tasks that it bore have exited.
    Join,
    /// Blocks on one operation of a device.
    Io(Name),
    /// Writes so many messages to a pipe, and blocks while it is full.
    Write(Name, u64),
    /// Reads so many messages from a pipe, and blocks while it is empty.
    Read(Name, u64),
    /// Takes a mutex, and blocks while another task has it.
    Lock(Name),
    /// Gives it back.
    Unlock(Name),
    /// Enters a system call: the task is in the kernel until it returns.
    Syscall,
    /// Returns from it to user space.
    Return,
    /// A virtual CPU's thread enters its guest, within its system call.
    Guest,
    /// Waits until all parties have come.
    Barrier(Name),
    /// Takes part in a parallel program, until that ends.
    Team {
        /// The program.
        team: Name,
        /// The number of its thread, from 0.
        thread: usize,
    },
    /// Posts a semaphore so often.
    Wake(Name, u64),
    /// Takes one off a semaphore, and blocks while there is none.
    Wait(Name),
    /// Wakes a task that waits for a condition now, or all of them. Later ones miss it.
    Signal {
        /// The condition.
        condition: Name,
        /// Whether all are woken.
        all: bool,
    },
    /// Waits for a condition, without a mutex that it has, which it takes again after.
    Await {
        /// The condition.
        condition: Name,
        /// The mutex.
        lock: Option<Name>,
    },
    /// Takes a request that arrived, and blocks while there is none.
    Accept(Name),
    /// A request of its own arrives: when the task last woke, unless it has run since.
    Begin,
    /// The requests that it has are answered.
    End,
    /// So many units of work are done.
    Done(u64),
    /// The steps before, as many as `back`, are gone through so often in all. See
    /// [`TaskSpec::repeat`].
    Again {
        /// How many steps belong to it.
        back: usize,
        /// How often.
        times: u64,
    },
}

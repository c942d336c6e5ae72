//! What tasks wait for: pipes, mutexes, barriers, semaphores, conditions, devices. They
//! keep the tasks that wait, and return those to wake; the engine wakes them (`operate.rs`).
//!
//! A woken task tries again when it runs, as after a futex or in a pipe: what it was woken
//! for may be gone by then, and it waits anew, behind the others.

use crate::requests::Request;
use crate::task::TaskId;
use metasched_scenario::shared::{BarrierSpec, DeviceSpec};
use std::collections::VecDeque;

/// Those that wait, first come first.
type Waiters = VecDeque<TaskId>;

/// A bounded pipe. A request travels with the message that it was written with.
#[derive(Clone, Default)]
pub(crate) struct Pipe {
    capacity: usize,
    held: VecDeque<Option<Request>>,
    readers: Waiters,
    writers: Waiters,
}

/// What became of reading or writing.
pub(crate) struct Passed {
    /// How many messages are still to pass; the task waits until then.
    pub left: u64,
    /// The tasks that can go on now.
    pub wakes: Vec<TaskId>,
}

impl Pipe {
    pub fn of(capacity: usize) -> Self {
        Pipe { capacity, ..Pipe::default() }
    }

    /// Writes up to `left` messages, with as many of the requests.
    pub fn write(&mut self, id: TaskId, left: u64, from: &mut VecDeque<Request>) -> Passed {
        let room = (self.capacity - self.held.len()) as u64;
        let moves = left.min(room);
        for _ in 0..moves {
            self.held.push_back(from.pop_front());
        }
        let left = left - moves;
        if left > 0 {
            self.writers.push_back(id);
        }
        Passed { left, wakes: self.wakes(moves, left) }
    }

    /// Reads up to `left` messages, and gets the requests that came with them.
    pub fn read(&mut self, id: TaskId, left: u64, into: &mut VecDeque<Request>) -> Passed {
        let moves = left.min(self.held.len() as u64);
        into.extend(self.held.drain(..moves as usize).flatten());
        let left = left - moves;
        if left > 0 {
            self.readers.push_back(id);
        }
        Passed { left, wakes: self.wakes(moves, left) }
    }

    /// One of the other side, if anything has moved; and one of its own side if there is
    /// more for it: a task that was woken wakes the next, as in the kernel's pipes.
    fn wakes(&mut self, moved: u64, left: u64) -> Vec<TaskId> {
        if moved == 0 && left > 0 {
            return Vec::new();
        }
        let full = self.held.len() == self.capacity;
        let reader = if self.held.is_empty() { None } else { self.readers.pop_front() };
        let writer = if full { None } else { self.writers.pop_front() };
        reader.into_iter().chain(writer).collect()
    }
}

/// A mutex. It is not handed over: the first task that comes after its release has it.
#[derive(Clone, Default)]
pub(crate) struct Lock {
    owner: Option<TaskId>,
    waiters: Waiters,
}

impl Lock {
    /// Whether the task has it from now on; otherwise it waits.
    ///
    /// # Errors
    /// When it has it already, and would wait for itself.
    pub fn take(&mut self, id: TaskId) -> Result<bool, String> {
        match self.owner {
            None => self.owner = Some(id),
            Some(owner) if owner == id => return Err("has it already".into()),
            Some(_) => self.waiters.push_back(id),
        }
        Ok(self.owner == Some(id))
    }

    /// The task releases it. Returns the tasks to wake.
    ///
    /// # Errors
    /// When it does not have it.
    pub fn give_back(&mut self, id: TaskId) -> Result<Option<TaskId>, String> {
        if self.owner != Some(id) {
            return Err("does not have it".into());
        }
        self.owner = None;
        Ok(self.waiters.pop_front())
    }
}

/// A barrier.
#[derive(Clone)]
pub(crate) struct Barrier {
    pub spec: BarrierSpec,
    arrived: Vec<TaskId>,
}

impl Barrier {
    pub fn of(spec: BarrierSpec) -> Self {
        Barrier { spec, arrived: Vec::new() }
    }

    /// A task comes. The last one lets all others go, and they are returned; the others wait.
    pub fn arrive(&mut self, id: TaskId) -> Option<Vec<TaskId>> {
        if self.arrived.len() + 1 >= self.spec.parties {
            return Some(std::mem::take(&mut self.arrived));
        }
        self.arrived.push(id);
        None
    }
}

/// A semaphore, or a condition, which nobody posts.
#[derive(Clone, Default)]
pub(crate) struct Signal {
    posted: u64,
    waiters: Waiters,
}

impl Signal {
    /// Posts it `n` times. Returns the tasks to wake.
    pub fn post(&mut self, n: u64) -> Vec<TaskId> {
        self.posted += n;
        self.first(n)
    }

    /// Whether the task got one; otherwise it waits.
    pub fn take(&mut self, id: TaskId) -> bool {
        let some = self.posted > 0;
        if some {
            self.posted -= 1;
        } else {
            self.waiters.push_back(id);
        }
        some
    }

    /// Takes the first `n` that wait out.
    pub fn first(&mut self, n: u64) -> Vec<TaskId> {
        let n = n.min(self.waiters.len() as u64) as usize;
        self.waiters.drain(..n).collect()
    }

    pub fn wait(&mut self, id: TaskId) {
        self.waiters.push_back(id);
    }
}

/// A device that works on so many operations at a time.
#[derive(Clone)]
pub(crate) struct Device {
    pub spec: DeviceSpec,
    busy: usize,
    queue: VecDeque<(TaskId, u64)>,
}

impl Device {
    pub fn of(spec: DeviceSpec) -> Self {
        Device { spec, busy: 0, queue: VecDeque::new() }
    }

    /// An operation comes, which takes so long; whether it begins at once.
    pub fn submit(&mut self, id: TaskId, service_ns: u64) -> bool {
        let begins = self.busy < self.spec.depth;
        if begins {
            self.busy += 1;
        } else {
            self.queue.push_back((id, service_ns));
        }
        begins
    }

    /// One is done; the one that begins instead.
    pub fn complete(&mut self) -> Option<(TaskId, u64)> {
        let next = self.queue.pop_front();
        if next.is_none() {
            self.busy -= 1;
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::span::Span;

    const A: TaskId = TaskId(0);
    const B: TaskId = TaskId(1);
    const C: TaskId = TaskId(2);

    #[test]
    fn a_full_pipe_takes_what_fits_and_the_reader_wakes_the_writer() {
        let (mut pipe, mut none) = (Pipe::of(3), VecDeque::new());
        let wrote = pipe.write(A, 5, &mut none);
        assert_eq!((wrote.left, wrote.wakes), (2, vec![]));
        let read = pipe.read(B, 1, &mut none);
        assert_eq!((read.left, read.wakes), (0, vec![A]));
    }

    #[test]
    fn a_reader_that_leaves_something_wakes_the_next_reader() {
        let (mut pipe, mut none) = (Pipe::of(8), VecDeque::new());
        for reader in [A, B] {
            assert_eq!(pipe.read(reader, 1, &mut none).left, 1);
        }
        assert_eq!(pipe.write(C, 2, &mut none).wakes, [A]);
        assert_eq!(pipe.read(A, 1, &mut none).wakes, [B]);
        assert_eq!(pipe.read(B, 1, &mut none).wakes, []);
    }

    #[test]
    fn a_request_travels_with_its_message() {
        let mut pipe = Pipe::of(2);
        let random = Box::new(Random::new(1));
        let mut mine = VecDeque::from([Request { at: 77, client: None, random }]);
        pipe.write(A, 2, &mut mine);
        assert!(mine.is_empty());
        let mut theirs = VecDeque::new();
        pipe.read(B, 2, &mut theirs);
        assert_eq!(theirs.iter().map(|r| r.at).collect::<Vec<_>>(), [77]);
    }

    #[test]
    fn a_lock_excludes_and_refuses_those_who_do_not_have_it() {
        let mut lock = Lock::default();
        assert_eq!(lock.take(A), Ok(true));
        assert_eq!(lock.take(B), Ok(false));
        assert!(lock.take(A).is_err());
        assert!(lock.give_back(B).is_err());
        assert_eq!(lock.give_back(A), Ok(Some(B)));
        // Somebody was quicker than the one that was woken.
        assert_eq!(lock.take(C), Ok(true));
        assert_eq!(lock.take(B), Ok(false));
    }

    #[test]
    fn a_barrier_lets_nobody_go_before_all_have_come_and_then_all() {
        let mut barrier = Barrier::of(BarrierSpec { parties: 3, spin_ns: 0 });
        for _ in 0..2 {
            assert_eq!(barrier.arrive(A), None);
            assert_eq!(barrier.arrive(B), None);
            assert_eq!(barrier.arrive(C), Some(vec![A, B]));
        }
    }

    #[test]
    fn a_semaphore_remembers_and_wakes_as_many_as_were_posted() {
        let mut signal = Signal::default();
        assert_eq!(signal.post(1), []);
        assert!(signal.take(A));
        assert!(!signal.take(A) && !signal.take(B) && !signal.take(C));
        assert_eq!(signal.post(2), [A, B]);
    }

    #[test]
    fn a_device_works_on_as_many_at_a_time_as_its_queue_is_deep() {
        let mut device = Device::of(DeviceSpec { depth: 2, service: Span::Exactly(10) });
        assert!(device.submit(A, 10) && device.submit(B, 10));
        assert!(!device.submit(C, 30));
        assert_eq!(device.complete(), Some((C, 30)));
        assert_eq!(device.complete(), None);
        assert_eq!(device.complete(), None);
        assert!(device.submit(A, 10));
    }
}

//! A run as a trace that Perfetto's viewer opens: what each CPU runs, what each task does
//! and waits for, how long queues are, wake-ups, kicks, and what the scenario does.

mod messages;
#[cfg(test)]
mod tests;
mod tracks;

use crate::dsq::DsqRef;
use crate::figures::IdleBesideWork;
use crate::observer::Observer;
use crate::task::TaskId;
use crate::trace::{Observed, What};
use std::collections::BTreeMap;
use std::io::{self, Write};
use tracks::{Names, Track, Tracks};

/// Writes a run, or a window of it. What it writes follows from the events alone.
pub struct Perfetto<W> {
    tracks: Tracks<W>,
    state: State,
    beside: IdleBesideWork,
    window: Window,
    from_ns: u64,
    to_ns: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Window {
    Ahead,
    Open,
    Over,
}

/// What has to be known of the run when the window opens.
#[derive(Default)]
struct State {
    tasks: Vec<Task>,
    groups: Vec<String>,
    by_path: BTreeMap<String, usize>,
    queues: Vec<Queue>,
    by_kind: BTreeMap<(u8, u64), usize>,
    waiting: usize,
    usable: usize,
}

struct Task {
    name: String,
    group: usize,
    place: TaskState,
}

#[derive(Clone, Copy, PartialEq)]
enum TaskState {
    Asleep,
    Waiting,
    On(usize),
}

struct Queue {
    name: String,
    len: usize,
}

impl Names for State {
    fn task(&self, task: usize) -> String {
        self.tasks[task].name.clone()
    }

    fn group(&self, group: usize) -> String {
        match self.groups[group].as_str() {
            "" => "(root cgroup)".to_owned(),
            path => path.to_owned(),
        }
    }

    fn queue(&self, queue: usize) -> String {
        self.queues[queue].name.clone()
    }
}

impl State {
    fn track(&self, task: usize) -> Track {
        Track::Task(task, self.tasks[task].group)
    }

    fn queue_of(&mut self, dsq: DsqRef) -> usize {
        let (kind, name) = match dsq {
            DsqRef::Local(cpu) => ((0, cpu as u64), format!("local to CPU {cpu}")),
            DsqRef::Global => ((1, 0), "global".to_owned()),
            DsqRef::Fair(cpu) => ((3, cpu as u64), format!("fair class of CPU {cpu}")),
            DsqRef::Throttled => ((4, 0), "throttled in the fair class".to_owned()),
            DsqRef::User(id) => ((2, id), format!("made by the policy: {id:#x}")),
        };
        let next = self.queues.len();
        let queue = *self.by_kind.entry(kind).or_insert(next);
        if queue == next {
            self.queues.push(Queue { name, len: 0 });
        }
        queue
    }
}

impl<W: Write> Perfetto<W> {
    /// A trace of what happens from `from_ns` up to `to_ns`.
    pub fn new(out: W, from_ns: u64, to_ns: u64) -> Self {
        Perfetto {
            tracks: Tracks::new(out),
            state: State::default(),
            beside: IdleBesideWork::default(),
            window: Window::Ahead,
            from_ns,
            to_ns,
        }
    }

    /// Whether everything could be written; asked when the run is over.
    ///
    /// # Errors
    /// The first that the writer gave.
    pub fn written(&mut self) -> io::Result<()> {
        self.tracks.end()
    }

    /// The window opens: what goes on already begins with it.
    fn open(&mut self) {
        self.window = Window::Open;
        for task in 0..self.state.tasks.len() {
            self.begin(self.from_ns, task);
        }
        for queue in 0..self.state.queues.len() {
            self.count_queue(self.from_ns, queue);
        }
        self.tracks.count(self.from_ns, Track::Waiting, self.state.waiting, &self.state);
        self.tracks.count(self.from_ns, Track::IdleBesideWork, self.state.usable, &self.state);
    }

    fn close(&mut self, at: u64) {
        if self.window == Window::Ahead {
            self.open();
        }
        for task in 0..self.state.tasks.len() {
            self.end(at, task);
        }
        // So that the last value has an end, too.
        self.tracks.count(at, Track::Waiting, self.state.waiting, &self.state);
        self.tracks.count(at, Track::IdleBesideWork, self.state.usable, &self.state);
        self.window = Window::Over;
    }

    /// Begins the slices of what a task is at.
    fn begin(&mut self, at: u64, task: usize) {
        let (track, name) = (self.state.track(task), self.state.tasks[task].name.as_str());
        match self.state.tasks[task].place {
            TaskState::Asleep => {}
            TaskState::Waiting => self.tracks.begin(at, track, "waits", &self.state),
            TaskState::On(cpu) => {
                self.tracks.begin(at, Track::Cpu(cpu), name, &self.state);
                self.tracks.begin(at, track, &format!("on CPU {cpu}"), &self.state);
            }
        }
    }

    /// Ends them.
    fn end(&mut self, at: u64, task: usize) {
        let track = self.state.track(task);
        match self.state.tasks[task].place {
            TaskState::Asleep => {}
            TaskState::Waiting => self.tracks.end_slice(at, track, &self.state),
            TaskState::On(cpu) => {
                self.tracks.end_slice(at, Track::Cpu(cpu), &self.state);
                self.tracks.end_slice(at, track, &self.state);
            }
        }
    }

    fn put(&mut self, at: u64, task: usize, place: TaskState) {
        let shown = self.window == Window::Open;
        if shown {
            self.end(at, task);
        }
        let before = std::mem::replace(&mut self.state.tasks[task].place, place);
        if shown {
            self.begin(at, task);
        }
        let waits = |place| usize::from(place == TaskState::Waiting);
        if waits(before) != waits(place) {
            self.state.waiting = self.state.waiting + waits(place) - waits(before);
            if shown {
                self.tracks.count(at, Track::Waiting, self.state.waiting, &self.state);
            }
        }
    }

    fn queued(&mut self, at: u64, dsq: DsqRef, change: isize) {
        let queue = self.state.queue_of(dsq);
        let len = &mut self.state.queues[queue].len;
        *len = len.saturating_add_signed(change);
        if self.window == Window::Open {
            self.count_queue(at, queue);
        }
    }

    fn count_queue(&mut self, at: u64, queue: usize) {
        self.tracks.count(at, Track::Queue(queue), self.state.queues[queue].len, &self.state);
    }

    fn instant(&mut self, at: u64, track: Track, name: &str) {
        if self.window == Window::Open {
            self.tracks.instant(at, track, name, &self.state);
        }
    }
}

impl<W: Write> Observer for Perfetto<W> {
    fn born(&mut self, _task: TaskId, name: &str, cgroup: &str) {
        let next = self.state.groups.len();
        let group = *self.state.by_path.entry(cgroup.to_owned()).or_insert(next);
        if group == next {
            self.state.groups.push(cgroup.to_owned());
        }
        self.state.tasks.push(Task { name: name.to_owned(), group, place: TaskState::Asleep });
    }

    fn moved(&mut self, at: u64, task: TaskId, cgroup: &str) {
        // Its track stays where it is: a thread does not change its process.
        let track = self.state.track(task.0);
        self.instant(at, track, &format!("moves to cgroup '{cgroup}'"));
    }

    fn observe(&mut self, event: &Observed) {
        let at = event.at;
        if self.window == Window::Ahead && at >= self.from_ns {
            self.open();
        }
        if self.window == Window::Open && at > self.to_ns {
            self.close(self.to_ns);
        }
        if self.window == Window::Over {
            return;
        }
        match (&event.what, event.task) {
            (What::Wake, Some(task)) => {
                let track = self.state.track(task.0);
                self.instant(at, track, "wakes");
                self.put(at, task.0, TaskState::Waiting);
            }
            (What::Start, Some(task)) => self.put(at, task.0, TaskState::On(event.cpu)),
            (What::Stop { runnable: true }, Some(task)) => self.put(at, task.0, TaskState::Waiting),
            (What::Stop { runnable: false }, Some(task)) => self.put(at, task.0, TaskState::Asleep),
            (What::Insert(dsq), _) => self.queued(at, *dsq, 1),
            (What::Remove(dsq), _) => self.queued(at, *dsq, -1),
            (What::Kick { preempt }, _) => {
                let name = if *preempt { "kick, preempt" } else { "kick" };
                self.instant(at, Track::Cpu(event.cpu), name);
            }
            (What::Note(text), _) => self.instant(at, Track::Scenario, text),
            _ => {}
        }
        if self.beside.observe(event) {
            let usable = self.beside.cpus().count();
            if std::mem::replace(&mut self.state.usable, usable) != usable
                && self.window == Window::Open
            {
                self.tracks.count(at, Track::IdleBesideWork, usable, &self.state);
            }
        }
    }

    fn finish(&mut self, now: u64) {
        if self.window != Window::Over {
            self.close(now.min(self.to_ns));
        }
    }
}

//! One replay after another: threads are started, what changes from outside is carried out at its
//! time, and counters are read when figures begin to count and when they end.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::vec::IntoIter;

#[cfg(test)]
use metasched_base::Error;
use metasched_base::{Interrupt, Kind, Result, ResultExt};
use metasched_host::cgroup::Cgroup;
use metasched_host::process::run_first;
use metasched_loader::{WaitTracer, Waiters};
use metasched_scenario::file::Change;
use metasched_stats::WaitHistogram;
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, sigaction};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::unistd::gettid;

use crate::cgroups::Cgroups;
use crate::clock::now_ns;
use crate::events::carry_out;
use crate::figures::{Replayed, ReplayedGroup, own_waits};
use crate::replayable::Replayable;
use crate::shared::Shared;
use crate::threads::{SIGNAL, Threads};

/// From when all threads are ready until they begin, ns: they have gone to sleep by then,
/// on an emulated machine too.
const LEAD_NS: u64 = 50_000_000;
/// As much more for each thread whose counters are looked at before the start, ns.
const LOOK_AT_ONE_NS: u64 = 5_000_000;

/// A scenario and its cgroups on this machine, where it can be replayed several times.
pub struct Replay<'a> {
    what: &'a Replayable<'a>,
    cgroups: Result<Cgroups>,
}

impl<'a> Replay<'a> {
    /// Makes the scenario's cgroups, below one of our own. This process is moved there, too. Where
    /// that is not to be had, and the scenario says nothing of its cgroups but who is in them, it
    /// is replayed without, and waits are not traced.
    ///
    /// # Errors
    /// When cgroups are needed and cannot be made.
    pub fn prepare(what: &'a Replayable<'a>) -> Result<Self> {
        match Cgroups::make(what) {
            Err(error) if what.needs_cgroups() => Err(error),
            cgroups => Ok(Replay { what, cgroups }),
        }
    }

    #[cfg(test)]
    fn without_cgroups(what: &'a Replayable<'a>) -> Self {
        let no = Error::new(Kind::Unsupported, "make cgroups", "nobody asked for them");
        Replay { what, cgroups: Err(no) }
    }

    /// A cgroup by its path in the scenario.
    pub fn cgroup(&self, path: &str) -> Option<&Cgroup> {
        self.cgroups.as_ref().ok()?.by_path.get(path)
    }

    /// Replays it once, and waits until it is over.
    ///
    /// # Errors
    /// When a thread cannot be started or does what it must not, or a change cannot be made.
    pub fn run(&self, seed: u64, interrupt: &Interrupt) -> Result<Replayed> {
        // In a thread of its own, which goes before all others from now on.
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| self.watch(seed, interrupt));
            watcher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn watch(&self, seed: u64, interrupt: &Interrupt) -> Result<Replayed> {
        hear_signals()?;
        // Without privileges it is replayed all the same, and looked at a little late.
        let _ = run_first(1);
        let running = self.start_threads(seed)?;
        let threads = running.0.clone();
        let (tracer, no_waits) = match self.tracer() {
            Ok(tracer) => (Some(tracer), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let mut clock = Clock::start(self, &threads, interrupt);
        clock.run_warm_up()?;
        let before_ns = now_ns();
        threads.look_before();
        tracer.as_ref().map_or(Ok(()), WaitTracer::reset)?;
        // The look itself takes time, in which others do not run.
        let from_ns = ((before_ns + now_ns()) / 2).max(clock.starts_ns);
        clock.run_until(self.what.duration_ns)?;
        let traced = tracer.as_ref().map(WaitTracer::read).transpose()?;
        let window_ns = now_ns() - from_ns;
        threads.look_after();
        drop((tracer, running));
        threads.fault()?;
        Ok(Replayed { groups: self.groups(&threads, traced), window_ns, no_waits })
    }

    /// Starts a thread for each task, in its cgroup. They wait for the clock.
    fn start_threads(&self, seed: u64) -> Result<Running> {
        let shared = Shared::of(self.what.file, self.what.steps().iter(), seed)?;
        let running = Running(Arc::new(Threads::new(shared, seed, gettid())));
        let threads = &running.0;
        for task in &self.what.tasks {
            threads.spawn(task.clone(), None)?;
        }
        threads.wait_until_ready(self.what.tasks.len())?;
        for (tid, path) in threads.each(|thread| (thread.tid, thread.spec.cgroup.clone())) {
            if let Some(cgroup) = self.cgroup(&path) {
                cgroup.add_thread(tid.as_raw())?;
            }
        }
        Ok(running)
    }

    /// Traces the waits of each of the scenario's cgroups, in their order.
    fn tracer(&self) -> Result<WaitTracer> {
        let cgroups = self.cgroups.as_ref().map_err(Clone::clone)?;
        let ids = cgroups.ids(&self.what.cgroups)?;
        WaitTracer::attach(&ids.into_iter().map(Waiters::Cgroup).collect::<Vec<_>>())
    }

    /// The figures of each cgroup, with the waits that were traced.
    fn groups(
        &self,
        threads: &Threads,
        traced: Option<Vec<WaitHistogram>>,
    ) -> BTreeMap<String, ReplayedGroup> {
        let mut groups = BTreeMap::new();
        for (path, one) in threads.each(|t| (t.spec.cgroup.clone(), ReplayedGroup::of(t))) {
            groups.entry(path).or_insert_with(ReplayedGroup::empty).merge(&one);
        }
        if let Some(traced) = traced {
            let all = self.what.cgroups.iter().cloned().zip(traced).collect();
            for (path, group) in &mut groups {
                group.waits = Some(own_waits(path, &all));
            }
        }
        groups
    }

    /// Removes the cgroups.
    ///
    /// # Errors
    /// When one cannot be removed.
    pub fn remove(self) -> Result<()> {
        self.cgroups.map_or(Ok(()), Cgroups::remove)
    }
}

/// Threads that end when this is dropped, on whatever way.
struct Running(Arc<Threads>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The time of a replay, and what changes from outside when.
struct Clock<'a> {
    replay: &'a Replay<'a>,
    threads: &'a Threads,
    interrupt: &'a Interrupt,
    /// When threads begin, ns.
    starts_ns: u64,
    events: Peekable<IntoIter<(u64, Vec<Change>)>>,
}

impl<'a> Clock<'a> {
    /// Has all threads begin, a moment from now.
    fn start(replay: &'a Replay, threads: &'a Threads, interrupt: &'a Interrupt) -> Self {
        let what = replay.what;
        let starts_ns = now_ns() + LEAD_NS + look_ns(what);
        threads.start(starts_ns, what.warm_up_ns);
        let mut events = what.file.events.clone();
        events.sort_by_key(|(at, _)| *at);
        Clock { replay, threads, interrupt, starts_ns, events: events.into_iter().peekable() }
    }

    /// Waits until it is time to look at the counters.
    fn run_warm_up(&mut self) -> Result<()> {
        match self.replay.what.warm_up_ns {
            // All threads sleep until the start: who looks takes no CPU from them.
            0 => self.sleep_until(self.starts_ns - look_ns(self.replay.what)),
            warm_up_ns => self.run_until(warm_up_ns),
        }
    }

    /// Carries out what changes before that time of the scenario, ns, and waits for it.
    fn run_until(&mut self, until_ns: u64) -> Result<()> {
        while let Some((at, changes)) = self.events.next_if(|(at, _)| *at < until_ns) {
            self.sleep_until(self.starts_ns + at)?;
            for change in &changes {
                let cgroup = |path: &str| self.replay.cgroup(path);
                carry_out(change, cgroup, |group| self.threads.living(group))?;
            }
        }
        self.sleep_until(self.starts_ns + until_ns)
    }

    /// Sleeps until that time, ns, unless something goes wrong. It does not wake before: each time
    /// it would take a CPU from a task.
    fn sleep_until(&self, until_ns: u64) -> Result<()> {
        loop {
            self.threads.fault()?;
            self.interrupt.check("the replay")?;
            let left_ns = until_ns.saturating_sub(now_ns());
            if left_ns == 0 {
                return Ok(());
            }
            let mut raised = [PollFd::new(self.interrupt.as_fd(), PollFlags::POLLIN)];
            // A fault of a thread's comes as a signal, and is seen above.
            let _ = ppoll(&mut raised, Some(TimeSpec::nanoseconds(left_ns as i64)), None);
        }
    }
}

/// How long it takes to look at all counters, at most, ns.
fn look_ns(what: &Replayable) -> u64 {
    what.tasks.len() as u64 * LOOK_AT_ONE_NS
}

/// A signal that does nothing but end a sleep.
fn hear_signals() -> Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler touches nothing.
    let done: std::result::Result<SigAction, Errno> = unsafe { sigaction(SIGNAL, &action) };
    done.map(drop).attempt(Kind::Failed, || "listen for the end of the replay".to_owned())
}

#[cfg(test)]
mod tests;

//! Where a scenario is played: its cgroups, its threads, and who looks at the clock meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use metasched_base::{Error, Interrupt, Kind, Result, ResultExt};
use metasched_host::cgroup::{Cgroup, MOUNT, of_process};
use metasched_host::process::run_first;
use metasched_loader::WaitTracer;
use metasched_stats::{DurationHistogram, WaitHistogram};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, sigaction};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::unistd::{getpid, gettid};
use serde::Serialize;

use crate::clock::{now_ns, sleep_until};
use crate::counters::Counters;
use crate::crew::{Crew, Member, SIGNAL, rouse};
use crate::events::{carry_out, cgroup_of};
use crate::plan::Plan;
use crate::shared::Props;

/// The tasks of no cgroup have one too, so that what looks at the clock is in another.
const ROOT: &str = "_root";
/// From when all threads stand ready until they begin, ns: they have gone to sleep by then,
/// on an emulated machine too.
const LEAD_NS: u64 = 50_000_000;
/// As much more for each thread whose counters are looked at before the start, ns.
const LOOK_AT_ONE_NS: u64 = 5_000_000;
/// How long threads may take to come to the start, or to go home, ns.
const PATIENCE_NS: u64 = 60_000_000_000;
/// Between looks at that, ns.
const LOOK_NS: u64 = 1_000_000;

/// What a play came to.
#[derive(Debug, Serialize)]
pub struct Played {
    /// By cgroup; the root's is empty.
    pub groups: BTreeMap<String, PlayedGroup>,
    /// How long was counted, ns.
    pub window_ns: u64,
    /// Why there are no waits, where there are none.
    pub no_waits: Option<String>,
}

/// What the tasks of a cgroup did, in the time that counts.
#[derive(Debug, Default, Serialize)]
pub struct PlayedGroup {
    /// The tasks that were in it at some time.
    pub tasks: u64,
    /// Time on CPUs, by the kernel's books, ns.
    pub cpu_ns: u64,
    /// From runnable to running, traced; none where that was not to be had.
    pub waits: Option<WaitHistogram>,
    /// All waits together, by the kernel's books, ns.
    pub waited_ns: u64,
    /// Context switches from a task that wanted the CPU no more.
    pub voluntary: u64,
    /// Context switches from a task that wanted to go on.
    pub involuntary: u64,
    /// How often a task was given another CPU; none where the kernel does not tell.
    pub migrations: Option<u64>,
    /// From a request's arrival to its answer.
    #[serde(skip)]
    pub responses: DurationHistogram,
    /// Units of work; a request is one.
    pub done: u64,
}

impl PlayedGroup {
    /// Context switches of both kinds.
    pub fn switches(&self) -> u64 {
        self.voluntary + self.involuntary
    }

    /// Of no task.
    fn empty() -> Self {
        PlayedGroup { migrations: Some(0), ..PlayedGroup::default() }
    }

    /// What one task did; waits are not known by task.
    fn of(member: &Member, counters: &Counters) -> Self {
        PlayedGroup {
            tasks: 1,
            cpu_ns: counters.sched.run_ns,
            waits: None,
            waited_ns: counters.sched.wait_ns,
            voluntary: counters.sched.nvcsw,
            involuntary: counters.sched.nivcsw,
            migrations: counters.migrations,
            responses: member.work.responses.clone(),
            done: member.work.done,
        }
    }

    /// All of these as one.
    pub fn all<'a>(groups: impl IntoIterator<Item = &'a PlayedGroup>) -> Self {
        let mut all = PlayedGroup { waits: Some(WaitHistogram::default()), ..Self::empty() };
        groups.into_iter().for_each(|group| all.merge(group));
        all
    }

    fn merge(&mut self, other: &PlayedGroup) {
        self.tasks += other.tasks;
        self.cpu_ns += other.cpu_ns;
        self.waits = self.waits.take().zip(other.waits.as_ref()).map(|(mut all, waits)| {
            all.merge(waits);
            all
        });
        self.waited_ns += other.waited_ns;
        self.voluntary += other.voluntary;
        self.involuntary += other.involuntary;
        self.migrations = self.migrations.zip(other.migrations).map(|(a, b)| a + b);
        self.responses.merge(&other.responses);
        self.done += other.done;
    }
}

/// The cgroups of a stage.
struct Built {
    base: Cgroup,
    /// Where this process was before.
    home: Option<String>,
    /// By their paths in the scenario; the root's is empty.
    cgroups: BTreeMap<String, Cgroup>,
}

/// A stage, on which a plan can be played several times.
pub struct Stage<'a> {
    plan: &'a Plan<'a>,
    built: Result<Built>,
}

impl<'a> Stage<'a> {
    /// Builds it: makes the scenario's cgroups, below one of our own. This process is moved
    /// there, too. Where that is not to be had, and the scenario says nothing of its cgroups
    /// but who is in them, it is played without, and waits are not traced.
    ///
    /// # Errors
    /// When cgroups are needed and cannot be made.
    pub fn build(plan: &'a Plan<'a>) -> Result<Self> {
        let built = Built::new(plan);
        match built {
            Err(error) if plan.needs_cgroups() => Err(error),
            built => Ok(Stage { plan, built }),
        }
    }

    /// A stage without cgroups.
    #[cfg(test)]
    fn bare(plan: &'a Plan<'a>) -> Self {
        let no = Error::new(Kind::Unsupported, "make cgroups", "nobody asked for them");
        Stage { plan, built: Err(no) }
    }

    /// A cgroup by its path in the scenario.
    pub fn cgroup(&self, path: &str) -> Option<&Cgroup> {
        self.built.as_ref().ok()?.cgroups.get(path)
    }

    /// Plays the plan once, and waits until it is over.
    ///
    /// # Errors
    /// When a thread cannot be started or does what it must not, or a change cannot be made.
    pub fn play(&self, seed: u64, interrupt: &Interrupt) -> Result<Played> {
        // In a thread of its own, which goes before all others from now on.
        std::thread::scope(|scope| {
            let director = scope.spawn(|| self.direct(seed, interrupt));
            director.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn direct(&self, seed: u64, interrupt: &Interrupt) -> Result<Played> {
        let plan = self.plan;
        hear_signals()?;
        // Without privileges it is played all the same, and looked at a little late.
        let _ = run_first(1);
        let empty = BTreeMap::new();
        let cgroups = self.built.as_ref().map_or(&empty, |built| &built.cgroups);
        let props = Props::of(plan.file, plan.steps().iter(), seed)?;
        let crew = Arc::new(Crew::new(props, seed, gettid()));
        let ended = Ending(&crew);
        for task in &plan.tasks {
            crew.hire(task.clone(), None)?;
        }
        wait_until("the threads of the play stand ready", || {
            crew.ready() == plan.tasks.len() || crew.has_failed()
        })?;
        crew.fault()?;
        for (tid, path) in members(&crew, |m| (m.tid, m.spec.cgroup.clone())) {
            if let Some(cgroup) = cgroups.get(&path) {
                cgroup.add_thread(tid.as_raw())?;
            }
        }
        let (tracer, no_waits) = match self.tracer() {
            Ok(tracer) => (Some(tracer), None),
            Err(error) => (None, Some(error.to_string())),
        };

        let each_ns = plan.tasks.len() as u64 * LOOK_AT_ONE_NS;
        let starts_ns = now_ns() + LEAD_NS + each_ns;
        crew.start(starts_ns, plan.warm_up_ns);
        let mut events = plan.file.events().to_vec();
        events.sort_by_key(|(at, _)| *at);
        let mut events = events.into_iter().peekable();
        let mut pass = |until_ns: u64| -> Result<()> {
            while let Some((at, changes)) = events.next_if(|(at, _)| *at < until_ns) {
                watch(starts_ns + at, &crew, interrupt)?;
                for change in &changes {
                    carry_out(change, cgroups, |group| crew.living(group))?;
                }
            }
            watch(starts_ns + until_ns, &crew, interrupt)
        };
        match plan.warm_up_ns {
            // All threads sleep until the start: who looks takes no CPU from them.
            0 => watch(starts_ns - each_ns, &crew, interrupt)?,
            warm_up_ns => pass(warm_up_ns)?,
        }
        let before_ns = now_ns();
        for (at, tid) in members(&crew, |m| m.tid).into_iter().enumerate() {
            let counters = Counters::of(tid);
            let mut all = crew.members.lock().expect("nobody panics with it");
            // One that has ended did all of it in the warm-up.
            all[at].before = counters.or(all[at].after).unwrap_or_default();
        }
        tracer.as_ref().map_or(Ok(()), WaitTracer::reset)?;
        // Who looks takes time, in which others do not run.
        let from_ns = ((before_ns + now_ns()) / 2).max(starts_ns);
        pass(plan.duration_ns)?;
        let traced = tracer.as_ref().map(WaitTracer::read).transpose()?;
        let window_ns = now_ns() - from_ns;
        for (at, tid) in members(&crew, |m| m.tid).into_iter().enumerate() {
            let counters = Counters::of(tid);
            let mut all = crew.members.lock().expect("nobody panics with it");
            all[at].after = all[at].after.or(counters);
        }
        drop(tracer);
        drop(ended);
        crew.fault()?;
        let mut groups = BTreeMap::new();
        for member in crew.members.lock().expect("nobody panics with it").iter() {
            let counters = member.after.unwrap_or(member.before).since(&member.before);
            let group = groups.entry(member.spec.cgroup.clone());
            group.or_insert_with(PlayedGroup::empty).merge(&PlayedGroup::of(member, &counters));
        }
        if let Some(traced) = traced {
            let all: BTreeMap<String, WaitHistogram> = plan
                .cgroups
                .iter()
                .cloned()
                .zip(traced.into_iter().map(|found| found.waits))
                .collect();
            for (path, group) in &mut groups {
                group.waits = Some(own_waits(path, &all));
            }
        }
        Ok(Played { groups, window_ns, no_waits })
    }

    /// Traces the waits of each of the plan's cgroups, in their order.
    fn tracer(&self) -> Result<WaitTracer> {
        let built = self.built.as_ref().map_err(Clone::clone)?;
        let ids: Result<Vec<u64>> =
            self.plan.cgroups.iter().map(|path| built.cgroups[path].id()).collect();
        WaitTracer::attach(&ids?)
    }

    /// Takes it down again: removes the cgroups.
    ///
    /// # Errors
    /// When one cannot be removed.
    pub fn strike(self) -> Result<()> {
        match self.built {
            Ok(built) => built.remove(),
            Err(_) => Ok(()),
        }
    }
}

impl Built {
    fn new(plan: &Plan) -> Result<Built> {
        let home = of_process(Path::new("/"), "self");
        let name = format!("metasched/play-{}", getpid());
        let base = Cgroup::create(&name)?;
        let mut built = Built { base, home, cgroups: BTreeMap::new() };
        match built.fill(plan, &name) {
            Ok(()) => Ok(built),
            Err(error) => {
                // What went wrong first is what is told.
                let _ = built.remove();
                Err(error)
            }
        }
    }

    fn fill(&mut self, plan: &Plan, name: &str) -> Result<()> {
        let lanes = plan.file.lanes.iter().map(|lane| lane.cgroup.as_str());
        let changes = plan.file.events().iter().flat_map(|(_, changes)| changes);
        let told = plan.file.cgroups().iter().chain(changes).filter_map(cgroup_of);
        let used = plan.cgroups.iter().map(String::as_str).chain(told).chain(lanes);
        let used: BTreeSet<String> = used.map(str::to_owned).collect();
        // Those above them too; parents come first in this order.
        let mut paths = BTreeSet::new();
        for path in &used {
            let above = Path::new(path).ancestors().skip(1).filter_map(Path::to_str);
            paths.extend(above.filter(|above| !above.is_empty()).map(str::to_owned));
            paths.insert(path.clone());
        }
        for path in paths {
            let folder = if path.is_empty() { ROOT } else { &path };
            let cgroup = Cgroup::create(&format!("{name}/{folder}"))?;
            cgroup.make_threaded()?;
            self.cgroups.insert(path, cgroup);
        }
        for change in plan.file.cgroups() {
            carry_out(change, &self.cgroups, |_| Vec::new())?;
        }
        self.base.add(getpid().as_raw())
    }

    fn remove(self) -> Result<()> {
        let home = Path::new("/").join(MOUNT).join(self.home.as_deref().unwrap_or_default());
        Cgroup::open(&home)?.add(getpid().as_raw())?;
        self.base.remove()
    }
}

/// The waits of a cgroup without those of the cgroups below it.
fn own_waits(path: &str, all: &BTreeMap<String, WaitHistogram>) -> WaitHistogram {
    let mut below = WaitHistogram::default();
    let inside = |a: &str, b: &str| {
        !b.is_empty() && a.strip_prefix(b).is_some_and(|rest| rest.starts_with('/'))
    };
    for (other, waits) in all {
        let between = |middle: &String| inside(other, middle) && inside(middle, path);
        if inside(other, path) && !all.keys().any(between) {
            below.merge(waits);
        }
    }
    if below.count() == 0 { all[path].clone() } else { all[path].since(&below) }
}

fn members<T>(crew: &Crew, of: impl Fn(&Member) -> T) -> Vec<T> {
    crew.members.lock().expect("nobody panics with it").iter().map(of).collect()
}

/// Ends the play when it is dropped, on whatever way.
struct Ending<'a>(&'a Arc<Crew>);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.curtain.fall();
        // Those who wait for the start see it too.
        self.0.start(now_ns(), 0);
        let end = now_ns() + PATIENCE_NS;
        while self.0.alive() > 0 && now_ns() < end {
            send_home(self.0);
            sleep_until(now_ns() + LOOK_NS);
        }
    }
}

/// Sleeps until that time, ns, unless something goes wrong. It does not wake before: each time
/// it would take a CPU from a task.
fn watch(until_ns: u64, crew: &Crew, interrupt: &Interrupt) -> Result<()> {
    loop {
        crew.fault()?;
        interrupt.check("the play")?;
        let left_ns = until_ns.saturating_sub(now_ns());
        if left_ns == 0 {
            return Ok(());
        }
        let mut raised = [PollFd::new(interrupt.as_fd(), PollFlags::POLLIN)];
        // A fault of a thread's comes as a signal, and is seen above.
        let _ = ppoll(&mut raised, Some(TimeSpec::nanoseconds(left_ns as i64)), None);
    }
}

fn wait_until(what: &str, so: impl Fn() -> bool) -> Result<()> {
    let end = now_ns() + PATIENCE_NS;
    while !so() {
        if now_ns() >= end {
            let cause = "it did not come to that in a minute";
            return Err(Error::new(Kind::Timeout, format!("wait until {what}"), cause)
                .remedy("play fewer tasks, or on a machine that does less besides"));
        }
        sleep_until(now_ns() + LOOK_NS);
    }
    Ok(())
}

/// Has every thread that sleeps look up.
fn send_home(crew: &Crew) {
    members(crew, |member| member.tid).into_iter().for_each(rouse);
}

/// A signal that does nothing but end a sleep.
fn hear_signals() -> Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler touches nothing.
    let done: std::result::Result<SigAction, Errno> = unsafe { sigaction(SIGNAL, &action) };
    done.map(drop).attempt(Kind::Failed, || "listen for the end of the play".to_owned())
}

#[cfg(test)]
mod tests;

//! The kernel program with its lanes: load, replace the root lane, read.

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{AsRawLibbpf, Link, MapCore, MapFlags, MapHandle, OpenObject, libbpf_sys};
use metasched_abi::{
    IntoBytes, LANE_DSQ_BITS, LANES_MAX, LIMITS_MAX, LaneState, ROOT_ACCOUNT, ReplaceArgs, UserLane,
};
use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_host::machine::{self, Place};
use metasched_host::process::Prompt;

use crate::apps::AppPrograms;
use crate::capture::Capture;
use crate::cpu_masks::CpuMasks;
use crate::exit::{ExitRecord, c_text, kind_name};
use crate::held::Held;
use crate::lanes::LaneInfo;
use crate::places;
use crate::policy;
use crate::reaper::{Lanes, Reaper};
use crate::refusal::{self, Stage};
use crate::skel::metasched::{
    MetaschedMaps, MetaschedProgs, MetaschedSkel, MetaschedSkelBuilder, types,
};
use crate::syscalls::{run_program, verified_instructions};
use crate::turns::TurnPrograms;
use crate::wait::read_waits;

/// Below this the kernel's watchdog would mistake a busy machine for a stall.
const LEAST_TIMEOUT_MS: u32 = 10_000;
/// Above this the kernel refuses.
const MOST_TIMEOUT_MS: u32 = 30_000;

/// How to load the program.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The policy of the first lane.
    pub policy: String,
    /// How long a runnable task may wait before the kernel ejects the program;
    /// 10,000 to 30,000 ms.
    pub timeout_ms: u32,
    /// The policies that lanes may have, beside that of the first lane; all if none is given.
    /// Others are not there for the verifier either.
    pub policies: Vec<String>,
}

impl LoadOptions {
    /// That policy, with the longest time that the kernel's watchdog grants.
    pub fn policy(name: &str) -> Self {
        Self { policy: name.to_string(), timeout_ms: MOST_TIMEOUT_MS, policies: Vec::new() }
    }
}

/// A change of the root lane.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Replacement {
    /// The slot of the new lane.
    pub lane: u32,
    /// Its generation.
    pub generation: u64,
    /// Just before the write that put it in force, nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// How long the whole call took that made its queues and put it in force.
    pub write_ns: u64,
}

/// How long a change waits for a free slot while lanes change faster than the old
/// ones get empty. A lane gets empty in a few times what a task waits for its turn.
const PATIENCE_FOR_A_SLOT: Duration = Duration::from_secs(5);

/// What is kept of lanes that are gone.
#[derive(Default)]
struct Freed {
    /// What they counted, by policy and counter.
    counters: BTreeMap<String, u64>,
    /// When a task first ran that came through them, by generation.
    first_runs: BTreeMap<u64, u64>,
}

/// First runs of so many freed lanes are kept, the latest ones.
const FIRST_RUNS_MAX: usize = 4096;

/// Our program, attached. Dropping it detaches it, and so does the end of the
/// process, however it comes.
pub struct Program {
    // In the order in which they must go: the reaper uses the maps, the link the
    // object, the skeleton the storage.
    pub(crate) reaper: Reaper,
    link: Option<Link>,
    skel: Loaded,
    /// Held by whoever changes lanes.
    pub(crate) lock: Arc<Mutex<()>>,
    freed: Arc<Mutex<Freed>>,
    replace_root: OwnedFd,
    count_queued: OwnedFd,
    pub(crate) apps: AppPrograms,
    pub(crate) turns: TurnPrograms,
    pub(crate) held: Held,
    /// How many quarantines were told of.
    pub(crate) quarantines_told: u64,
}

// SAFETY: the raw pointers inside are to the mapped variables and to libbpf's
// object, neither of which is tied to a thread; methods that change anything
// take &mut self or the lock.
unsafe impl Send for Program {}

/// The skeleton with the storage that it borrows from.
struct Loaded {
    skel: Option<MetaschedSkel<'static>>,
    storage: *mut MaybeUninit<OpenObject>,
}

impl Loaded {
    fn get(&self) -> &MetaschedSkel<'static> {
        self.skel.as_ref().expect("only drop() takes it")
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.skel = None;
        // SAFETY: it came from Box::into_raw, and its only borrower is gone.
        drop(unsafe { Box::from_raw(self.storage) });
    }
}

/// The program's variables, mapped; shared with the kernel, so read one at a time.
#[derive(Clone, Copy)]
pub(crate) struct Variables(*const types::bss);

// SAFETY: it is read through volatile reads only, and the mapping lives as long as
// the Program, which ends the reaper's thread before it goes.
unsafe impl Send for Variables {}

macro_rules! variable {
    ($vars:expr, $($field:tt)+) => {
        // SAFETY: the mapping is there as long as the program; the kernel may write
        // at any time, hence the volatile read of a plain number.
        unsafe { ptr::read_volatile(ptr::addr_of!((*$vars.0).$($field)+)) }
    };
}

impl Variables {
    /// How many lanes wait for a grace period, as the last reap() left them.
    fn reap_waits(self) -> u32 {
        variable!(self, reap_waits)
    }

    /// Where the lane in a slot is in its life.
    fn lane_state(self, slot: usize) -> LaneState {
        LaneState::try_from(variable!(self, lanes[slot].state)).unwrap_or(LaneState::Free)
    }

    /// An entry of the list of lanes in quarantine.
    pub(crate) fn quarantine(self, at: usize) -> types::quarantine {
        variable!(self, quarantines[at])
    }

    /// The limits, with places that are free, and how many had none.
    pub(crate) fn limits(self) -> (Vec<types::limit>, u64) {
        let used = (variable!(self, limits_used) as usize).min(LIMITS_MAX);
        let limits = (0..used).map(|at| variable!(self, limits[at])).collect();
        (limits, variable!(self, limits_refused))
    }

    /// The turns that are taken, as they stand at this moment.
    pub(crate) fn cycle(self) -> types::cycle {
        variable!(self, cycle)
    }

    /// What is counted of the half in user space of a slot's lane.
    pub(crate) fn user_lane(self, slot: usize) -> UserLane {
        let types::user_lane { told, untold, taken, late, stale, wrong, .. } =
            variable!(self, user_lanes[slot % LANES_MAX]);
        UserLane { told, untold, taken, late, stale, wrong, ..Default::default() }
    }

    /// How many lanes were put in quarantine.
    pub(crate) fn quarantined(self) -> u64 {
        variable!(self, quarantined)
    }

    /// The slot of the root lane.
    fn root(self) -> usize {
        variable!(self, root_word) as usize % LANES_MAX
    }
}

impl Program {
    /// Loads the program, with one lane of the wanted policy in force, and makes
    /// it the scheduler of the machine.
    ///
    /// # Errors
    /// `BadInput` for an unknown policy or a wrong timeout; `Unsupported` where the
    /// kernel lacks something (which is named), or isolates CPUs; `Denied`;
    /// `Busy` where another scheduler is attached; `Failed` where the verifier
    /// rejects the program, with the relevant lines of its log.
    pub fn load(options: &LoadOptions) -> Result<Program> {
        // Beside forty hogs the verifier alone took half a minute of waiting for its turns.
        let _prompt = Prompt::new();
        let capture = Capture::start();
        let (mut loaded, held) = Self::read(options, &machine::places(Path::new("/")), &capture)?;
        let skel = loaded.skel.as_mut().expect("just loaded");
        let link = attach(&skel.maps.metasched_ops).map_err(|e| {
            let record = exit_record(loaded.get());
            let (attempt, text) = (attempt_of(options), e.to_string());
            let log = capture.text();
            refusal::explain_kind(attempt, Stage::Attach, e.kind(), &text, &log, record)
        })?;
        drop(capture);
        Self::start(loaded, link, held).map_err(|e| Error { attempt: attempt_of(options), ..e })
    }

    /// Has the kernel's verifier read the program as it would be on another machine: its constants
    /// say which CPUs there are, and by them the verifier leaves out code. Nothing comes in force.
    /// Returns how many instructions the verifier went through, of each program by its name.
    ///
    /// # Errors
    /// As of [`Program::load`].
    pub fn verify(
        options: &LoadOptions,
        machine: &BTreeMap<u32, Place>,
    ) -> Result<Vec<(String, u32)>> {
        let (loaded, _) = Self::read(options, machine, &Capture::start())?;
        verified(loaded.get()).map_err(|e| Error { attempt: attempt_of(options), ..e })
    }

    /// The program as the kernel has taken it, and the policies that it holds; it is not in force.
    fn read(
        options: &LoadOptions,
        machine: &BTreeMap<u32, Place>,
        capture: &Capture,
    ) -> Result<(Loaded, Held)> {
        let attempt = || attempt_of(options);
        let variant = policy::number_of(&options.policy)?;
        let held = Held::of(&options.policy, &options.policies)?;
        if !(LEAST_TIMEOUT_MS..=MOST_TIMEOUT_MS).contains(&options.timeout_ms) {
            return Err(Error::new(
                Kind::BadInput,
                attempt(),
                format!("a watchdog timeout of {} ms", options.timeout_ms),
            )
            .remedy(format!("choose {LEAST_TIMEOUT_MS} to {MOST_TIMEOUT_MS} ms")));
        }
        let refused = |stage: Stage, error: &libbpf_rs::Error| {
            refusal::explain(attempt(), stage, error, &capture.text(), None)
        };
        refusal::check_host(&attempt())?;
        let masks = CpuMasks::find().map_err(|e| Error::new(Kind::Failed, attempt(), e))?;

        let storage: *mut MaybeUninit<OpenObject> = Box::into_raw(Box::new(MaybeUninit::uninit()));
        let mut loaded = Loaded { skel: None, storage };
        // SAFETY: the storage outlives the skeleton, which Loaded drops first.
        let place: &'static mut MaybeUninit<OpenObject> = unsafe { &mut *storage };
        let mut open =
            MetaschedSkelBuilder::default().open(place).map_err(|e| refused(Stage::Open, &e))?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.initial_variant = variant;
            rodata.enabled_policies = held.bits();
        }
        places::prepare(&mut open, machine)?;
        // SAFETY: the skeleton points it at the map's initial value, which is ours
        // to change until the object is loaded.
        unsafe { (*open.struct_ops.metasched_ops).timeout_ms = options.timeout_ms };
        loaded.skel = Some(open.load().map_err(|e| refused(Stage::Load, &e))?);

        let skel = loaded.skel.as_mut().expect("just loaded");
        masks.tell(&skel.maps.cpu_masks).map_err(|e| refused(Stage::Load, &e))?;
        Ok((loaded, held))
    }

    fn start(loaded: Loaded, link: Link, held: Held) -> Result<Program> {
        let failed = |e: std::io::Error| Error::new(Kind::Failed, "start", e);
        let own = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().map_err(failed);
        let progs = &loaded.get().progs;
        let replace_root = own(progs.replace_root.as_fd())?;
        let count_queued = own(progs.count_queued.as_fd())?;
        let apps = AppPrograms {
            set_app: own(progs.set_app.as_fd())?,
            drop_app: own(progs.drop_app.as_fd())?,
            assign: own(progs.assign.as_fd())?,
            unassign: own(progs.unassign.as_fd())?,
            set_lane: own(progs.set_lane.as_fd())?,
        };
        let turns = TurnPrograms {
            start: own(progs.start_turns.as_fd())?,
            stop: own(progs.stop_turns.as_fd())?,
        };
        let reap = own(progs.reap.as_fd())?;
        let counters = MapHandle::try_from(&loaded.get().maps.lane_counters)
            .attempt(Kind::Failed, || "share the counters".into())?;
        let waits = MapHandle::try_from(&loaded.get().maps.lane_waits)
            .attempt(Kind::Failed, || "share the run-queue waits".into())?;
        let lock = Arc::new(Mutex::new(()));
        let freed: Arc<Mutex<Freed>> = Arc::default();
        let variables = variables(loaded.get());
        let gone = Arc::clone(&freed);
        let reaper = Reaper::start(Lanes {
            reap,
            lock: Arc::clone(&lock),
            waits: Box::new(move || {
                // Named whole, so that the closure takes the Send type and no field of it.
                let variables: Variables = variables;
                variables.reap_waits()
            }),
            state: Box::new(move |slot| {
                let variables: Variables = variables;
                variables.lane_state(slot)
            }),
            freed: Box::new(move |slot| {
                let variables: Variables = variables;
                let variant = variable!(variables, lanes[slot as usize].lane.variant);
                // The generation is cleared by now; the queue's id still holds it.
                let generation =
                    variable!(variables, lanes[slot as usize].lane.dsq) >> LANE_DSQ_BITS;
                let first_run = variable!(variables, lanes[slot as usize].first_run_ns);
                let mut gone = gone.lock().unwrap_or_else(|e| e.into_inner());
                for (name, count) in take_counters(&counters, slot, variant) {
                    *gone.counters.entry(name).or_default() += count;
                }
                begin_anew(&waits, slot);
                gone.first_runs.insert(generation, first_run);
                if gone.first_runs.len() > FIRST_RUNS_MAX {
                    gone.first_runs.pop_first();
                }
            }),
        })
        .map_err(failed)?;
        // The first lane's first run is awaited; then its fast path begins.
        reaper.wake();
        Ok(Program {
            reaper,
            link: Some(link),
            skel: loaded,
            lock,
            freed,
            replace_root,
            count_queued,
            apps,
            turns,
            held,
            quarantines_told: 0,
        })
    }

    /// Puts a new lane of that policy in force for the whole machine. The lane
    /// that was in force is served by its weight until it is empty, then freed.
    ///
    /// # Errors
    /// `BadInput` for an unknown policy; `Busy` while all slots are taken by lanes
    /// that drain; `SchedulerExit` if the program has left the kernel.
    pub fn replace_root(&mut self, policy: &str) -> Result<Replacement> {
        let attempt = || format!("replace the lane in force by one of '{policy}'");
        let number = self.held.number_of(policy, attempt)?;
        let args = ReplaceArgs { variant: number };
        self.put_in_force(self.replace_root.as_fd(), args.as_bytes(), attempt)
    }

    /// Calls a program that puts a new lane in force, and waits for a free slot if it
    /// must.
    pub(crate) fn put_in_force(
        &self,
        program: BorrowedFd<'_>,
        args: &[u8],
        attempt: impl Fn() -> String,
    ) -> Result<Replacement> {
        let variables = self.variables();
        let asked = Instant::now();
        let (status, replacement) = loop {
            let one_caller = self.lock.lock().unwrap_or_else(|e| e.into_inner());
            let start = Instant::now();
            let status = run_program(program, args);
            let write_ns = start.elapsed().as_nanos() as u64;
            let replacement = Replacement {
                lane: variable!(variables, replaced.slot),
                generation: variable!(variables, replaced.generation),
                at_ns: variable!(variables, replaced.at_ns),
                write_ns,
            };
            drop(one_caller);
            let full = matches!(status, Ok(status) if -status == nix::libc::ENOSPC);
            if !full || asked.elapsed() > PATIENCE_FOR_A_SLOT {
                break (status, replacement);
            }
            // Lanes change faster than they get empty: wait for one that does.
            std::thread::sleep(Duration::from_millis(1));
        };
        let status = status.attempt(Kind::Failed, &attempt)?;
        if status == 0 {
            self.reaper.wake();
            return Ok(replacement);
        }
        if let Some(record) = self.exited() {
            return Err(record.error(attempt()));
        }
        Err(match -status {
            nix::libc::ENOSPC => Error::new(
                Kind::Busy,
                attempt(),
                format!(
                    "all {LANES_MAX} slots are taken by lanes, or by some that are not empty yet"
                ),
            )
            .remedy("have fewer lanes, or change them less often"),
            errno => Error::new(Kind::Failed, attempt(), std::io::Error::from_raw_os_error(errno)),
        })
    }

    /// When the first task ran that came through the lane of that generation, in
    /// nanoseconds of `CLOCK_MONOTONIC`; None if none has.
    pub fn first_run_ns(&self, generation: u64) -> Option<u64> {
        let variables = variables(self.skel.get());
        (0..LANES_MAX)
            .find(|slot| variable!(variables, lanes[*slot].lane.generation) == generation)
            .map(|slot| variable!(variables, lanes[slot].first_run_ns))
            .or_else(|| {
                let gone = self.freed.lock().unwrap_or_else(|e| e.into_inner());
                gone.first_runs.get(&generation).copied()
            })
            .filter(|ns| *ns != 0)
    }

    /// Every lane that is not free.
    pub fn lanes(&self) -> Result<Vec<LaneInfo>> {
        let variables = variables(self.skel.get());
        let _one_caller = self.lock.lock().unwrap_or_else(|e| e.into_inner());
        if self.exited().is_none() {
            run_program(self.count_queued.as_fd(), &[])
                .attempt(Kind::Failed, || "count what the lanes have queued".into())?;
        }
        let mut lanes = Vec::new();
        let maps = &self.skel.get().maps;
        let measured = variable!(variables, waits_measured) != 0;
        let waits = |slot| read_waits(&maps.lane_waits, slot);
        // A turn may begin while the lanes are read: which of them is the root's is read once.
        let root = variables.root();
        for slot in 0..LANES_MAX {
            let account = variable!(variables, lanes[slot].account);
            let of_cycle = account == ROOT_ACCOUNT;
            let state = match variables.lane_state(slot) {
                LaneState::Free => continue,
                LaneState::InForce if of_cycle && slot != root => LaneState::Resting,
                LaneState::Resting if slot == root => LaneState::InForce,
                state => state,
            };
            let account = account as usize;
            let number = variable!(variables, lanes[slot].lane.variant);
            let policy = policy::by_number(number).map_or("unknown", |p| p.name).to_owned();
            lanes.push(LaneInfo {
                index: slot as u32,
                policy,
                generation: variable!(variables, lanes[slot].lane.generation),
                state,
                app: account as u32,
                weight: variable!(variables, accounts[account].weight),
                weight_now: variable!(variables, accounts[account].weight_now),
                nr_queued: variable!(variables, lanes[slot].nr_queued),
                runtime_ns: variable!(variables, lanes[slot].runtime_ns),
                kicks: variable!(variables, accounts[account].kicks),
                longest_unserved_ns: variable!(variables, accounts[account].longest_unserved_ns),
                waits: measured.then(|| waits(slot as u32)).transpose()?,
                quarantined: variable!(variables, lanes[slot].quarantined) != 0,
                in_force_ns: variable!(variables, lanes[slot].in_force_ns),
                first_run_ns: Some(variable!(variables, lanes[slot].first_run_ns))
                    .filter(|ns| *ns != 0),
                counters: read_counters(&maps.lane_counters, slot as u32, number)
                    .into_iter()
                    .collect(),
            });
        }
        Ok(lanes)
    }

    pub(crate) fn maps_and_programs(&self) -> (&MetaschedMaps<'static>, &MetaschedProgs<'static>) {
        let skel = self.skel.get();
        (&skel.maps, &skel.progs)
    }

    pub(crate) fn variables(&self) -> Variables {
        variables(self.skel.get())
    }

    /// The policy of the lane in force.
    pub fn root_policy(&self) -> String {
        let variables = variables(self.skel.get());
        let number = variable!(variables, lanes[variables.root()].lane.variant);
        policy::by_number(number).map_or("unknown", |p| p.name).to_string()
    }

    /// The policies that lanes may have.
    pub fn policies(&self) -> Vec<String> {
        self.held.names().map(str::to_owned).collect()
    }

    /// Why the kernel ended the program, if it has.
    pub fn exited(&self) -> Option<ExitRecord> {
        exit_record(self.skel.get())
    }

    /// What all lanes counted since the program was loaded, freed ones included:
    /// `POLICY.COUNTER`, summed over CPUs.
    pub fn counters(&self) -> Result<BTreeMap<String, u64>> {
        let mut all = self.freed.lock().unwrap_or_else(|e| e.into_inner()).counters.clone();
        for lane in self.lanes()? {
            for (name, count) in lane.counters {
                *all.entry(format!("{}.{name}", lane.policy)).or_default() += count;
            }
        }
        Ok(all)
    }

    /// Detaches, and waits until the kernel has called the program's exit.
    pub fn unload(mut self) -> Result<()> {
        drop(self.link.take());
        const PATIENCE: Duration = Duration::from_secs(10);
        let start = Instant::now();
        while self.exited().is_none() {
            if start.elapsed() > PATIENCE {
                return Err(Error::new(
                    Kind::Timeout,
                    "unload the kernel program",
                    format!("the kernel has not let go of it in {} s", PATIENCE.as_secs()),
                ));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

fn variables(skel: &MetaschedSkel<'static>) -> Variables {
    Variables(ptr::from_ref(skel.maps.bss_data.as_deref().expect("the program has variables")))
}

/// Puts the scheduler in force. libbpf_rs would do it too, and lose which error the kernel gave.
fn attach(ops: &libbpf_rs::Map<'_>) -> io::Result<Link> {
    // SAFETY: the map is that of a program that is loaded; where there is no link the error is set.
    let link = unsafe { libbpf_sys::bpf_map__attach_struct_ops(ops.as_libbpf_object().as_ptr()) };
    let link = NonNull::new(link).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: libbpf has just made it, and nobody else has it.
    Ok(unsafe { Link::from_ptr(link) })
}

fn attempt_of(options: &LoadOptions) -> String {
    format!("load '{}'", options.policy)
}

/// How many instructions the verifier went through, of each program that was loaded.
fn verified(skel: &MetaschedSkel<'static>) -> Result<Vec<(String, u32)>> {
    let of = |program: libbpf_rs::Program<'_>| {
        let instructions = verified_instructions(program.as_fd())
            .attempt(Kind::Failed, || "ask the kernel for its programs".into())?;
        Ok((program.name().to_string_lossy().into_owned(), instructions))
    };
    skel.object().progs().map(of).collect()
}

fn exit_record(skel: &MetaschedSkel<'static>) -> Option<ExitRecord> {
    let bss = variables(skel);
    // SAFETY: an aligned u32 that the kernel writes atomically, last of the record.
    let kind = unsafe {
        AtomicU32::from_ptr(ptr::addr_of!((*bss.0).exit_record.kind).cast_mut())
            .load(Ordering::Acquire)
    };
    if kind == 0 {
        return None;
    }
    let record = skel.maps.bss_data.as_deref().map(|b| &b.exit_record)?;
    let bytes = |chars: &[i8]| c_text(&chars.iter().map(|c| *c as u8).collect::<Vec<_>>());
    let dump = skel.maps.bss_dump_data.as_deref().map(|d| bytes(&d.exit_dump)).unwrap_or_default();
    Some(ExitRecord {
        kind,
        kind_name: kind_name(kind),
        reason: bytes(&record.reason),
        message: bytes(&record.msg),
        dump,
    })
}

/// The counters of a slot by name, summed over CPUs.
fn read_counters(map: &impl MapCore, slot: u32, variant: u32) -> Vec<(String, u64)> {
    let Some(policy) = policy::by_number(variant) else { return Vec::new() };
    let per_cpu = map.lookup_percpu(&slot.to_ne_bytes(), MapFlags::ANY).ok().flatten();
    let per_cpu = per_cpu.unwrap_or_default();
    let sum = |index: usize| -> u64 {
        per_cpu
            .iter()
            .filter_map(|cpu| cpu.get(index * 8..index * 8 + 8))
            .map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")))
            .sum()
    };
    policy.counters.iter().enumerate().map(|(i, c)| (c.name.to_string(), sum(i))).collect()
}

/// The same under their full names, and the slot's counters begin anew.
fn take_counters(map: &MapHandle, slot: u32, variant: u32) -> Vec<(String, u64)> {
    let Some(info) = policy::by_number(variant) else { return Vec::new() };
    let taken = read_counters(map, slot, variant)
        .into_iter()
        .map(|(name, count)| (format!("{}.{name}", info.name), count))
        .collect();
    begin_anew(map, slot);
    taken
}

/// Clears what the CPUs counted for a slot that is free, so that nobody counts there now. A
/// failure leaves old counts, which the next lane there would show as its own, and nothing
/// worse.
fn begin_anew(map: &MapHandle, slot: u32) {
    let cpus = libbpf_rs::num_possible_cpus().unwrap_or(1);
    let zeros = vec![vec![0u8; map.value_size() as usize]; cpus];
    let _ = map.update_percpu(&slot.to_ne_bytes(), &zeros, MapFlags::ANY);
}

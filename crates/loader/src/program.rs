//! The kernel program with its lanes: load, replace the root lane, read.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{AsRawLibbpf, Link, libbpf_sys};
use memchr::memmem;
use metasched_abi::{IntoBytes, LANES_MAX, LaneState, ROOT_ACCOUNT, ReplaceArgs};
use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_host::machine::{self, CpuPlace};
use metasched_host::process::Prompt;
use nix::errno::Errno;

use crate::capture::Capture;
use crate::cpu_masks::CpuMasks;
use crate::exit::{ExitRecord, c_text, kind_name};
use crate::freed::{Freed, read_counters};
use crate::held::Held;
use crate::lanes::LaneInfo;
use crate::places;
use crate::policy;
use crate::reaper::{Lanes, Reaper};
use crate::refusal::{self, Stage};
use crate::skel::metasched::{MetaschedMaps, MetaschedProgs, MetaschedSkel, MetaschedSkelBuilder};
use crate::stored::Stored;
use crate::syscalls::{run_program, verified_instructions};
use crate::variables::{Variables, variable};
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

/// Our program, attached. Dropping it detaches it, and so does the end of the
/// process, however it comes.
pub struct Program {
    // In the order in which they must go: the reaper uses the maps, the link the
    // object, the skeleton the storage.
    pub(crate) reaper: Reaper,
    /// Of CPUs that change their state, where the kernel has it.
    _tracepoint: Option<Link>,
    link: Option<Link>,
    skel: Loaded,
    /// Held while lanes are changed.
    pub(crate) lock: Arc<Mutex<()>>,
    freed: Arc<Freed>,
    pub(crate) held: Held,
    /// How many quarantines were told of.
    pub(crate) quarantines_told: u64,
}

// SAFETY: the raw pointers inside are to the mapped variables and to libbpf's
// object, neither of which is tied to a thread; methods that change anything
// take &mut self or the lock.
unsafe impl Send for Program {}

type Loaded = Stored<MetaschedSkel<'static>>;

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
        let (loaded, held) = Self::read(options, &machine::places(Path::new("/")), &capture)?;
        let link = attach(&loaded.get().maps.metasched_ops).map_err(|e| {
            let record = exit_record(loaded.get());
            let (attempt, text) = (attempt_of(options), e.to_string());
            let log = capture.text();
            refusal::explain_kind(attempt, Stage::Attach, e.kind(), &text, &log, record)
        })?;
        let program = &loaded.get().progs.cpu_changes;
        let tracepoint =
            program.autoload().then(|| program.attach_trace()).transpose().map_err(|e| {
                refusal::explain(attempt_of(options), Stage::Attach, &e, &capture.text(), None)
            })?;
        drop(capture);
        Self::start(loaded, (link, tracepoint), held)
            .map_err(|e| Error { attempt: attempt_of(options), ..e })
    }

    /// Has the kernel's verifier read the program as it would be on another machine: its constants
    /// say which CPUs there are, and by them the verifier leaves out code. Nothing comes in force.
    /// Returns how many instructions the verifier went through, of each program by its name.
    ///
    /// # Errors
    /// As of [`Program::load`].
    pub fn verify(
        options: &LoadOptions,
        machine: &BTreeMap<u32, CpuPlace>,
    ) -> Result<Vec<(String, u32)>> {
        let (loaded, _) = Self::read(options, machine, &Capture::start())?;
        verified(loaded.get()).map_err(|e| Error { attempt: attempt_of(options), ..e })
    }

    /// The program as the kernel has taken it, and the policies that it holds; it is not in force.
    fn read(
        options: &LoadOptions,
        machine: &BTreeMap<u32, CpuPlace>,
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

        let loaded = Loaded::new(|storage| {
            let builder = MetaschedSkelBuilder::default();
            let mut open = builder.open(storage).map_err(|e| refused(Stage::Open, &e))?;
            if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
                rodata.initial_variant = variant;
                rodata.enabled_policies = held.bits();
            }
            places::prepare(&mut open, machine)?;
            open.progs.cpu_changes.set_autoload(has_tracepoint());
            // SAFETY: the skeleton points it at the map's initial value, which is ours
            // to change until the object is loaded.
            unsafe { (*open.struct_ops.metasched_ops).timeout_ms = options.timeout_ms };
            open.load().map_err(|e| refused(Stage::Load, &e))
        })?;
        masks.tell(&loaded.get().maps.cpu_masks).map_err(|e| refused(Stage::Load, &e))?;
        Ok((loaded, held))
    }

    /// Begins to look after a program that is in force.
    fn start(
        loaded: Loaded,
        (link, tracepoint): (Link, Option<Link>),
        held: Held,
    ) -> Result<Program> {
        let attempt = || "start the thread that frees lanes".to_owned();
        let skel = loaded.get();
        let lock = Arc::default();
        let freed = Arc::new(Freed::new(&skel.maps)?);
        let reaper = Reaper::start(Lanes {
            reap: skel.progs.reap.as_fd().try_clone_to_owned().attempt(Kind::Failed, attempt)?,
            lock: Arc::clone(&lock),
            variables: Variables::of(skel),
            freed: Arc::clone(&freed),
        })
        .attempt(Kind::Failed, attempt)?;
        // The first lane's first run is awaited; then its fast path begins.
        reaper.wake();
        Ok(Program {
            reaper,
            _tracepoint: tracepoint,
            link: Some(link),
            skel: loaded,
            lock,
            freed,
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
        self.put_in_force(self.programs().replace_root.as_fd(), args.as_bytes(), attempt)
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
        self.accept(status, &attempt, |errno| {
            let cause = format!(
                "all {LANES_MAX} slots are taken by lanes, or by some that are not empty yet"
            );
            (errno == Errno::ENOSPC).then(|| {
                Error::new(Kind::Busy, attempt(), cause)
                    .remedy("have fewer lanes, or change them less often")
            })
        })?;
        self.reaper.wake();
        Ok(replacement)
    }

    /// Makes an error of what a program returned that was called, unless it is 0. `refusal` knows
    /// the numbers that mean something of their own in that program.
    pub(crate) fn accept(
        &self,
        status: io::Result<i32>,
        attempt: &impl Fn() -> String,
        refusal: impl FnOnce(Errno) -> Option<Error>,
    ) -> Result<()> {
        let status = status.attempt(Kind::Failed, attempt)?;
        if status == 0 {
            return Ok(());
        }
        if let Some(record) = self.exited() {
            return Err(record.error(attempt()));
        }
        let errno = Errno::from_raw(-status);
        refusal(errno)
            .map_or_else(|| Err(io::Error::from(errno)).attempt(Kind::Failed, attempt), Err)
    }

    /// When the first task ran that came through the lane of that generation, in
    /// nanoseconds of `CLOCK_MONOTONIC`; None if none has.
    pub fn first_run_ns(&self, generation: u64) -> Option<u64> {
        let variables = self.variables();
        (0..LANES_MAX)
            .find(|slot| variable!(variables, lanes[*slot].lane.generation) == generation)
            .map(|slot| variable!(variables, lanes[slot].first_run_ns))
            .or_else(|| self.freed.first_run_ns(generation))
            .filter(|ns| *ns != 0)
    }

    /// Every lane that is not free.
    pub fn lanes(&self) -> Result<Vec<LaneInfo>> {
        let variables = self.variables();
        let _one_caller = self.lock.lock().unwrap_or_else(|e| e.into_inner());
        if self.exited().is_none() {
            run_program(self.programs().count_queued.as_fd(), &[])
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
            let state = match variables.lane_state(slot)? {
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

    pub(crate) fn maps(&self) -> &MetaschedMaps<'static> {
        &self.skel.get().maps
    }

    pub(crate) fn programs(&self) -> &MetaschedProgs<'static> {
        &self.skel.get().progs
    }

    pub(crate) fn variables(&self) -> Variables {
        Variables::of(self.skel.get())
    }

    /// The policy of the lane in force.
    pub fn root_policy(&self) -> String {
        let variables = self.variables();
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
        let mut all = self.freed.counters();
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

/// Puts the scheduler in force. libbpf_rs would do it too, and lose which error the kernel gave.
fn attach(ops: &libbpf_rs::Map<'_>) -> io::Result<Link> {
    // SAFETY: the map is that of a program that is loaded; where there is no link the error is set.
    let link = unsafe { libbpf_sys::bpf_map__attach_struct_ops(ops.as_libbpf_object().as_ptr()) };
    let link = NonNull::new(link).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: libbpf has just made it, and nobody else has it.
    Ok(unsafe { Link::from_ptr(link) })
}

/// Whether the kernel has the tracepoint of CPUs that change their state. libbpf refuses the whole program
/// where it has not; and its own search goes through all types.
fn has_tracepoint() -> bool {
    const TYPE: &[u8] = b"\0btf_trace_cpuhp_enter\0";
    std::fs::read("/sys/kernel/btf/vmlinux").is_ok_and(|btf| memmem::find(&btf, TYPE).is_some())
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
    // Callbacks that no policy of these asks for are left out.
    skel.object().progs().filter(libbpf_rs::Program::autoload).map(of).collect()
}

fn exit_record(skel: &MetaschedSkel<'static>) -> Option<ExitRecord> {
    let bss = Variables::of(skel);
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

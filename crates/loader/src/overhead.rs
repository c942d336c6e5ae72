//! What scheduling costs, under whatever scheduler is in force.

use std::path::Path;
use std::time::{Duration, Instant};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Func, Typedef};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, ProgramInput, ProgramMut};
use metasched_abi::{
    FromBytes, OVERHEAD_DEPTHS_MAX, OVERHEAD_PARTS, OVERHEAD_STAYED, OVERHEAD_TRIES_MAX,
    OverheadCpu, OverheadPart,
};
use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_stats::WaitHistogram;

use crate::capture::Capture;
use crate::refusal::{self, Host, Stage};
use crate::skel::overhead::{OverheadSkel, OverheadSkelBuilder};
use crate::stored::Stored;
use crate::wait::read_waits;

/// So many depths of groups are told apart; what is deeper counts as the last.
pub const OVERHEAD_DEPTHS: usize = OVERHEAD_DEPTHS_MAX;

/// Measures schedule() and what the scheduler does elsewhere. Its cost falls on every call of these
/// functions. Dropping it detaches it.
pub struct OverheadTracer {
    /// They hold the programs in the kernel.
    _links: Vec<Link>,
    skel: Stored<OverheadSkel<'static>>,
    /// Parts, and whether all of their functions can be traced here.
    parts: Vec<(OverheadPart, bool)>,
    probes: Probes,
}

/// What our own programs take, nanoseconds, as it was tried before anything was measured; 0 where
/// nobody came by to try it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probes {
    /// In each call of schedule() that is measured.
    pub in_schedule_ns: u64,
    /// Beside each such call.
    pub beside_schedule_ns: u64,
    /// In each call of another function that is measured.
    pub in_part_ns: u64,
}

/// Calls of schedule() by which the CPUs came to tasks of one sort.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleCalls {
    /// Those that ended in another task, of that sort.
    pub switched: WaitHistogram,
    /// Those after which such a task went on.
    pub stayed: WaitHistogram,
}

/// What was counted since the tracer was attached, our own programs in it.
#[derive(Clone, Debug, Default)]
pub struct OverheadCounts {
    /// By how many run queues of groups are above the task, from 0 on; the last has all deeper ones.
    pub depths: Vec<ScheduleCalls>,
    /// By which CPUs came to have nothing to do.
    pub idle: ScheduleCalls,
    /// What is done outside schedule(); none where it cannot be traced here.
    pub parts: Vec<(OverheadPart, Option<WaitHistogram>)>,
    /// Calls of schedule() whose end was not seen.
    pub dropped: u64,
}

fn attempt() -> String {
    "measure what scheduling costs".to_owned()
}

/// What is measured outside schedule(), each part with the functions that do it.
const PARTS: &[(OverheadPart, &[&str])] = &[
    (OverheadPart::WakeUp, &["try_to_wake_up", "wake_up_new_task"]),
    (OverheadPart::RemoteWakeUp, &["sched_ttwu_pending"]),
    (OverheadPart::Tick, &["sched_tick"]),
    (OverheadPart::Balance, &["sched_balance_softirq"]),
    (OverheadPart::Tried, &["bpf_fentry_test1"]),
];

/// The function of a program at its beginning or end.
fn function_of(program: &str) -> Option<&str> {
    program.strip_suffix("_begins").or_else(|| program.strip_suffix("_ends"))
}

/// Refuses where it is plain that nothing can be measured; gives the kernel's types.
fn check_host() -> Result<Btf<'static>> {
    let host = Host::read(Path::new("/"));
    refusal::check_may_trace(&attempt())?;
    let unsupported = |cause: String| {
        Error::new(Kind::Unsupported, attempt(), cause).remedy(
            "boot a kernel of 7.0 or later with CONFIG_DEBUG_INFO_BTF=y, or run the command in the testbed: metasched vm -- ...",
        )
    };
    let release = &host.release;
    let btf = Btf::from_vmlinux()
        .map_err(|error| unsupported(format!("kernel {release} describes no types: {error}")))?;
    for name in ["sched_entry_tp", "sched_exit_tp"] {
        let known: Option<Typedef<'_>> = btf.type_by_name(&format!("btf_trace_{name}"));
        if known.is_none() {
            return Err(unsupported(format!("kernel {release} has no tracepoint '{name}'")));
        }
    }
    Ok(btf)
}

impl OverheadTracer {
    /// Tries what its own programs take, for some milliseconds, and starts to measure.
    ///
    /// # Errors
    /// `Unsupported` where the kernel has no tracepoints in schedule(); else as for loading any
    /// BPF program.
    pub fn attach() -> Result<Self> {
        let btf = check_host()?;
        let capture = Capture::start();
        let refused = |stage: Stage, error: &libbpf_rs::Error| {
            refusal::explain(attempt(), stage, error, &capture.text(), None)
        };
        let skel = Stored::new(|storage| {
            let builder = OverheadSkelBuilder::default();
            let mut open = builder.open(storage).map_err(|e| refused(Stage::Open, &e))?;
            for mut program in open.open_object_mut().progs_mut() {
                let name = program.name().to_string_lossy().into_owned();
                let function = function_of(&name).filter(|function| {
                    PARTS.iter().any(|(_, functions)| functions.contains(function))
                });
                let missing = |name: &str| btf.type_by_name::<Func<'_>>(name).is_none();
                if function.is_some_and(missing) {
                    program.set_autoload(false);
                }
            }
            open.load().map_err(|e| refused(Stage::Load, &e))
        })?;
        let mut links = Vec::new();
        let programs = &skel.get().progs;
        let attach = |program: &ProgramMut<'_>| {
            program.attach().map_err(|error| refused(Stage::Attach, &error))
        };
        // What is around something is attached at its end first: a beginning would wait for one.
        links.push(attach(&programs.schedule_ends)?);
        links.push(attach(&programs.schedule_begins)?);
        // These come behind those two, which they try.
        try_until(attach(&programs.try_schedule_begins)?, || skel.get().tries().0);
        try_until(attach(&programs.try_schedule_ends)?, || skel.get().tries().1);
        let mut parts = Vec::new();
        for (part, functions) in PARTS {
            // A function that is there may have been left out of what can be traced.
            let traced: Vec<Link> = skel
                .get()
                .around()
                .into_iter()
                .filter(|(function, _)| functions.contains(function))
                .flat_map(|(_, around)| around)
                .filter_map(|program| program.attach().ok())
                .collect();
            let all = traced.len() == 2 * functions.len();
            // Half of a pair would count what never ends.
            if all {
                links.extend(traced);
            }
            parts.push((*part, all));
        }
        for _ in 0..OVERHEAD_TRIES_MAX {
            // Where it cannot be tried nothing is known of it.
            let _ = programs.bpf_fentry_test1_begins.test_run(ProgramInput::default());
        }
        let (begins, ends) = skel.get().tries();
        let tried = read_waits(&skel.get().maps.times, place(OverheadPart::Tried))?;
        let probes = Probes {
            in_schedule_ns: median(begins),
            beside_schedule_ns: median(ends),
            in_part_ns: tried.percentile_ns(0.5).unwrap_or(0),
        };
        parts.retain(|(part, _)| *part != OverheadPart::Tried);
        Ok(Self { _links: links, skel, parts, probes })
    }

    /// What its own programs take.
    pub fn probes(&self) -> Probes {
        self.probes
    }

    /// What was counted since it was attached.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self) -> Result<OverheadCounts> {
        let maps = &self.skel.get().maps;
        let calls = |row: u32| {
            Ok(ScheduleCalls {
                switched: read_waits(&maps.times, row)?,
                stayed: read_waits(&maps.times, OVERHEAD_STAYED + row)?,
            })
        };
        let part = |(part, traced): &(OverheadPart, bool)| {
            let times = traced.then(|| read_waits(&maps.times, place(*part))).transpose()?;
            Ok((*part, times))
        };
        let idle = OVERHEAD_DEPTHS_MAX as u32;
        Ok(OverheadCounts {
            depths: (0..idle).map(calls).collect::<Result<_>>()?,
            idle: calls(idle)?,
            parts: self.parts.iter().map(part).collect::<Result<_>>()?,
            dropped: dropped(&maps.cpus)?,
        })
    }
}

/// Where a part is counted.
fn place(part: OverheadPart) -> u32 {
    OVERHEAD_PARTS + part as u32
}

fn dropped(cpus: &impl MapCore) -> Result<u64> {
    let attempt = || "read what scheduling costs".to_owned();
    let zero = 0u32.to_ne_bytes();
    let all = cpus.lookup_percpu(&zero, MapFlags::ANY).attempt(Kind::Failed, attempt)?;
    all.unwrap_or_default()
        .iter()
        .map(|cpu| match OverheadCpu::read_from_bytes(cpu) {
            Ok(cpu) => Ok(cpu.nr_dropped),
            Err(_) => Err(Error::new(Kind::Failed, attempt(), "it has another size")),
        })
        .sum()
}

impl OverheadSkel<'_> {
    /// What the programs at the beginning and the end of schedule() took as they were tried.
    fn tries(&self) -> (&[u64], &[u64]) {
        let variables = self.maps.bss_data.as_deref();
        variables.map_or((&[], &[]), |variables| {
            let of = |nr: u64| (nr as usize).min(OVERHEAD_TRIES_MAX);
            let (entries, exits) = (&variables.entries, &variables.exits);
            (&entries.ns[..of(entries.nr)], &exits.ns[..of(exits.nr)])
        })
    }

    /// The programs around each function, the one at its end first, as above.
    fn around(&self) -> [(&'static str, [&ProgramMut<'_>; 2]); 6] {
        let programs = &self.progs;
        [
            ("try_to_wake_up", [&programs.try_to_wake_up_ends, &programs.try_to_wake_up_begins]),
            (
                "wake_up_new_task",
                [&programs.wake_up_new_task_ends, &programs.wake_up_new_task_begins],
            ),
            (
                "sched_ttwu_pending",
                [&programs.sched_ttwu_pending_ends, &programs.sched_ttwu_pending_begins],
            ),
            ("sched_tick", [&programs.sched_tick_ends, &programs.sched_tick_begins]),
            (
                "sched_balance_softirq",
                [&programs.sched_balance_softirq_ends, &programs.sched_balance_softirq_begins],
            ),
            (
                "bpf_fentry_test1",
                [&programs.bpf_fentry_test1_ends, &programs.bpf_fentry_test1_begins],
            ),
        ]
    }
}

/// Sleeps for a moment, which is two calls of schedule() at least, until one was tried often enough;
/// `trying` holds the program that tries it.
fn try_until<'a>(trying: Link, tries: impl Fn() -> &'a [u64]) {
    const MOMENT: Duration = Duration::from_micros(100);
    // On a CPU that others keep busy a moment may last.
    const PATIENCE: Duration = Duration::from_millis(500);
    let end = Instant::now() + PATIENCE;
    while tries().len() < OVERHEAD_TRIES_MAX && Instant::now() < end {
        std::thread::sleep(MOMENT);
    }
    drop(trying);
}

fn median(tries: &[u64]) -> u64 {
    let mut sorted = tries.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

impl ScheduleCalls {
    /// What was counted after `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            switched: self.switched.since(&earlier.switched),
            stayed: self.stayed.since(&earlier.stayed),
        }
    }

    /// Adds what another one has counted.
    pub fn merge(&mut self, other: &Self) {
        self.switched.merge(&other.switched);
        self.stayed.merge(&other.stayed);
    }
}

impl OverheadCounts {
    /// What was counted after `earlier`, of the same tracer.
    pub fn since(&self, earlier: &Self) -> Self {
        let depths = self.depths.iter().zip(&earlier.depths);
        let parts = self.parts.iter().zip(&earlier.parts).map(|((part, now), (_, then))| {
            let since = now.as_ref().zip(then.as_ref()).map(|(now, then)| now.since(then));
            (*part, since)
        });
        Self {
            depths: depths.map(|(now, then)| now.since(then)).collect(),
            idle: self.idle.since(&earlier.idle),
            parts: parts.collect(),
            dropped: self.dropped - earlier.dropped,
        }
    }
}

// SAFETY: the raw pointers inside are to mapped variables and to libbpf's objects, none of which
// is tied to a thread.
unsafe impl Send for OverheadTracer {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_named_after_the_function_that_it_is_around() {
        assert_eq!(function_of("sched_tick_begins"), Some("sched_tick"));
        assert_eq!(function_of("sched_tick_ends"), Some("sched_tick"));
        assert_eq!(function_of("sched_tick"), None);
    }

    #[test]
    fn the_median_of_tries_is_one_of_them() {
        assert_eq!((median(&[]), median(&[7]), median(&[9, 1, 5])), (0, 7, 5));
    }
}

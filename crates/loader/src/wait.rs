//! How long tasks wait for a CPU, and how long they run each time that they get one, under whatever
//! scheduler is in force.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags};
use metasched_abi::{FromBytes, WAIT_CGROUPS_MAX, WAIT_PLACES, WAIT_TASKS_MAX, WaitTasks};
use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_stats::{RunLengths, WaitHistogram};

use crate::capture::Capture;
use crate::refusal::{self, Stage};
use crate::run_stats::Runs;
use crate::skel::wait::{WaitSkel, WaitSkelBuilder};
use crate::stored::Stored;

/// Of the whole system, and of each that can be told apart.
const PLACES: u32 = WAIT_PLACES;
const NAME_BYTES: usize = metasched_abi::WAIT_NAME_BYTES as usize;

/// Traces run-queue waits: from runnable (awake, new or preempted) to running.
///
/// Its cost falls on every wake-up and every switch, so it is for traced runs,
/// whose figures are kept apart. Dropping it detaches it.
pub struct WaitTracer {
    /// In the program's variables: what is counted in another epoch is forgotten.
    epoch: &'static AtomicU64,
    skel: Stored<WaitSkel<'static>>,
    /// Where in the map are those of each who was asked for.
    places: Vec<u32>,
    counts_runs: bool,
}

// SAFETY: the raw pointers inside are to mapped variables and to libbpf's object,
// neither of which is tied to a thread.
unsafe impl Send for WaitTracer {}

/// Whose waits are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiters {
    /// Everybody's.
    System,
    /// The tasks in the cgroup with this number or below it.
    Cgroup(u64),
    /// The threads of the process with this number.
    Process(u32),
    /// Threads that are called so, and those of processes that are called so. The kernel keeps
    /// 15 bytes of a name, and so many are compared.
    Name(String),
}

/// Adds up what the CPUs recorded under an index of a map of `struct wait_histogram`.
pub(crate) fn read_waits(map: &impl MapCore, index: u32) -> Result<WaitHistogram> {
    let attempt = || "read the run-queue waits".to_string();
    let mut waits = WaitHistogram::default();
    let per_cpu =
        map.lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY).attempt(Kind::Failed, attempt)?;
    for cpu in per_cpu.unwrap_or_default() {
        let cpu = metasched_abi::WaitHistogram::read_from_bytes(&cpu)
            .map_err(|_| Error::new(Kind::Failed, attempt(), "they have another size"))?;
        waits.merge(&(&cpu).into());
    }
    Ok(waits)
}

/// What the program is told before it loads.
#[derive(Default)]
struct Asked {
    cgroups: Vec<u64>,
    tasks: Vec<WaitTasks>,
    places: Vec<u32>,
}

impl Asked {
    fn new(waiters: &[Waiters]) -> Result<Self> {
        const FIRST_TASKS: u32 = WAIT_CGROUPS_MAX as u32 + 1;
        let mut asked = Self::default();
        for one in waiters {
            asked.places.push(match one {
                Waiters::System => 0,
                Waiters::Cgroup(id) => {
                    asked.cgroups.push(*id);
                    asked.cgroups.len() as u32
                }
                Waiters::Process(_) | Waiters::Name(_) => {
                    asked.tasks.push(tasks(one));
                    FIRST_TASKS + asked.tasks.len() as u32 - 1
                }
            });
        }
        for (count, most, what) in [
            (asked.cgroups.len(), WAIT_CGROUPS_MAX, "cgroups"),
            (asked.tasks.len(), WAIT_TASKS_MAX, "processes and names"),
        ] {
            if count > most {
                let cause = format!("{count} {what} are asked for");
                return Err(Error::new(Kind::BadInput, attempt(), cause)
                    .remedy(format!("ask for {most} at most")));
            }
        }
        Ok(asked)
    }
}

/// An entry of the program's list of tasks.
fn tasks(waiters: &Waiters) -> WaitTasks {
    let mut name = [0; NAME_BYTES];
    let mut tgid = 0;
    match waiters {
        Waiters::Process(process) => tgid = *process,
        Waiters::Name(text) => {
            // The last byte stays NUL.
            let bytes = text.as_bytes();
            let length = bytes.len().min(NAME_BYTES - 1);
            name[..length].copy_from_slice(&bytes[..length]);
        }
        Waiters::System | Waiters::Cgroup(_) => {}
    }
    WaitTasks { tgid, unused: 0, name: halves(name) }
}

/// The bytes as the program compares them.
fn halves(name: [u8; NAME_BYTES]) -> [u64; 2] {
    let half = |from: usize| {
        let bytes = name[from..from + 8].try_into().expect("8 of 16 bytes");
        u64::from_ne_bytes(bytes)
    };
    [half(0), half(8)]
}

fn attempt() -> String {
    "trace run-queue waits".to_owned()
}

impl WaitTracer {
    /// How many cgroups can be told apart.
    pub const CGROUPS_MAX: usize = WAIT_CGROUPS_MAX;
    /// How many processes and names.
    pub const TASKS_MAX: usize = WAIT_TASKS_MAX;

    /// Starts to trace the waits of each of these; a cgroup may be in another one.
    ///
    /// # Errors
    /// `BadInput` for more cgroups than [`WaitTracer::CGROUPS_MAX`], or more processes and names
    /// than [`WaitTracer::TASKS_MAX`]; else as for loading any BPF program.
    pub fn attach(waiters: &[Waiters]) -> Result<WaitTracer> {
        Self::attached(waiters, false)
    }

    /// The same, and counts how long they run, which costs a little more at each switch.
    ///
    /// # Errors
    /// As [`WaitTracer::attach`].
    pub fn attach_with_runs(waiters: &[Waiters]) -> Result<WaitTracer> {
        Self::attached(waiters, true)
    }

    fn attached(waiters: &[Waiters], counts_runs: bool) -> Result<WaitTracer> {
        let asked = Asked::new(waiters)?;
        let capture = Capture::start();
        let refused = |stage: Stage, error: &libbpf_rs::Error| {
            refusal::explain(attempt(), stage, error, &capture.text(), None)
        };
        let mut skel = Stored::new(|storage| {
            let builder = WaitSkelBuilder::default();
            let mut open = builder.open(storage).map_err(|e| refused(Stage::Open, &e))?;
            if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
                rodata.nr_cgroups = asked.cgroups.len() as u32;
                rodata.cgroup_ids[..asked.cgroups.len()].copy_from_slice(&asked.cgroups);
                rodata.nr_tasks = asked.tasks.len() as u32;
                rodata.counts_runs = counts_runs.into();
                for (place, tasks) in rodata.tasks.iter_mut().zip(&asked.tasks) {
                    (place.tgid, place.name) = (tasks.tgid, tasks.name);
                }
            }
            if !counts_runs {
                let histograms = &mut open.maps.histograms;
                histograms.set_max_entries(PLACES).map_err(|e| refused(Stage::Load, &e))?;
            }
            let mut skel = open.load().map_err(|e| refused(Stage::Load, &e))?;
            skel.attach().map_err(|e| refused(Stage::Attach, &e))?;
            Ok(skel)
        })?;
        let variables = skel.get_mut().maps.bss_data.take().expect("the tracer has variables");
        // SAFETY: an aligned u64 that the kernel's side only reads. It is mapped for as long as the
        // skeleton lives, which the tracer has beside it, and nobody else has a reference any more.
        let epoch = unsafe { AtomicU64::from_ptr(&raw mut variables.epoch) };
        Ok(WaitTracer { epoch, skel, places: asked.places, counts_runs })
    }

    /// Begins anew: what was recorded is forgotten, and so are the waits under way.
    pub fn reset(&self) -> Result<()> {
        let map = &self.skel.get().maps.histograms;
        let cpus = libbpf_rs::num_possible_cpus()
            .attempt(Kind::Failed, || "count the CPUs".to_string())?;
        let zeros = vec![vec![0u8; map.value_size() as usize]; cpus];
        self.epoch.fetch_add(1, Ordering::SeqCst);
        let kinds = if self.counts_runs { 3 } else { 1 };
        let all = |place: u32| (0..kinds).map(move |kind| kind * PLACES + place);
        for index in self.places.iter().copied().flat_map(all) {
            map.update_percpu(&index.to_ne_bytes(), &zeros, MapFlags::ANY)
                .attempt(Kind::Failed, || "reset the run-queue waits".to_string())?;
        }
        Ok(())
    }

    /// What was recorded since the start or the last reset, in the order in which it was
    /// asked for.
    pub fn read(&self) -> Result<Vec<WaitHistogram>> {
        let map = &self.skel.get().maps.histograms;
        self.places.iter().map(|index| read_waits(map, *index)).collect()
    }

    /// Likewise how long they ran; nothing where that is not counted.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read_runs(&self) -> Result<Vec<RunLengths>> {
        let map = &self.skel.get().maps.histograms;
        let read = |place: &u32| {
            Ok(RunLengths {
                slept: read_waits(map, PLACES + place)?,
                stopped: read_waits(map, 2 * PLACES + place)?,
            })
        };
        self.places.iter().filter(|_| self.counts_runs).map(read).collect()
    }

    /// How often the tracer ran and for how long, since counting began: see
    /// [`CountRuns`](crate::CountRuns).
    pub fn runs(&self) -> Result<Runs> {
        let [wakeups, switches] = self.runs_by_event()?;
        Ok(Runs { count: wakeups.count + switches.count, ns: wakeups.ns + switches.ns })
    }

    /// The same for wake-ups, new tasks among them, and for switches: it runs once for each.
    pub fn runs_by_event(&self) -> Result<[Runs; 2]> {
        let programs = &self.skel.get().progs;
        let woken = [programs.wait_wakeup.as_fd(), programs.wait_wakeup_new.as_fd()];
        Ok([Runs::of(woken)?, Runs::of([programs.wait_switch.as_fd()])?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_can_be_told_apart_are_refused() {
        let cgroups: Vec<Waiters> = (1..=17).map(Waiters::Cgroup).collect();
        let names: Vec<Waiters> = (1..=17).map(|i| Waiters::Name(i.to_string())).collect();
        for (asked, words) in [
            (&cgroups, "17 cgroups are asked for; ask for 16"),
            (&names, "17 processes and names are asked for; ask for 16"),
        ] {
            let error = WaitTracer::attach(asked).err().expect("the list has 16 places");
            assert_eq!(error.kind, Kind::BadInput);
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn each_has_a_place_by_its_kind_and_a_name_is_cut_where_the_kernel_cuts_it() {
        let asked = Asked::new(&[
            Waiters::Name("a-name-of-17-byte".into()),
            Waiters::System,
            Waiters::Cgroup(7),
            Waiters::Process(9),
        ])
        .unwrap();
        assert_eq!(asked.places, [17, 0, 1, 18]);
        assert_eq!(asked.tasks[1].tgid, 9);
        let bytes: Vec<u8> =
            asked.tasks[0].name.iter().flat_map(|part| part.to_ne_bytes()).collect();
        assert_eq!(bytes, b"a-name-of-17-by\0");
    }
}

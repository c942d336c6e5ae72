//! How long threads wait for a CPU while they could run, how long they run, and how long CPUs are
//! idle.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::ptr;

use libbpf_rs::MapCore;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use metasched_abi::{
    FromBytes, IntoBytes, PARAVIRT_BORN_MAX, PARAVIRT_STATE_BITS, PARAVIRT_THREADS_MAX,
    ParavirtArgs, ParavirtBorn, ParavirtSlot, ParavirtState,
};
use metasched_base::{Error, Kind, Result, ResultExt};
use nix::errno::Errno;
use nix::time::{ClockId, clock_gettime};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::capture::Capture;
use crate::refusal::{self, Stage};
use crate::run_stats::Runs;
use crate::skel::paravirt::{ParavirtSkel, ParavirtSkelBuilder};
use crate::stored::Stored;
use crate::syscalls::{run_program, visit_cpus};

/// Watches threads and CPUs under any scheduler. Its cost falls on every wake-up and every switch of
/// the machine, and is small where the thread is not watched. Dropping it detaches it.
pub struct ParavirtTracer {
    threads: Slots,
    cpus: Slots,
    /// Slots that nobody has, the one that was given back last at the end: an event that was under way then
    /// has long been written when it is used again.
    free: VecDeque<u32>,
    /// How many had been born at the last look at who it was.
    nr_born: u64,
    skel: Stored<ParavirtSkel<'static>>,
}

/// A thread that is watched, until it is given back by [`ParavirtTracer::unwatch`].
#[derive(Debug)]
pub struct WatchedThread {
    tid: u32,
    slot: u32,
}

/// What threads and CPUs had done at a moment. Times are sums that only differences of mean
/// something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParavirtReading {
    /// The moment, ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The threads, in the order in which they were asked for.
    pub threads: Vec<ThreadReading>,
    /// How long each CPU had been idle, ns, by its number; also one that is off line.
    pub idle_ns: Vec<i64>,
}

/// What a thread had done at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadReading {
    /// What it did at that moment.
    pub state: ParavirtState,
    /// How long it had waited in all, ns.
    pub waited_ns: i64,
    /// How long it had run in all, ns.
    pub ran_ns: i64,
}

impl ThreadReading {
    fn of(slot: ParavirtSlot, at_ns: u64) -> Self {
        let (state, waited_ns) = counted(slot.word, at_ns);
        Self { state, waited_ns, ran_ns: counted(slot.ran, at_ns).1 }
    }
}

fn attempt() -> String {
    "watch virtual CPUs".to_owned()
}

impl WatchedThread {
    /// Its number.
    pub fn tid(&self) -> u32 {
        self.tid
    }
}

impl ParavirtTracer {
    /// How many threads can be watched at a time.
    pub const THREADS_MAX: usize = PARAVIRT_THREADS_MAX;
    /// How many births are told at a time.
    pub const BORN_MAX: usize = PARAVIRT_BORN_MAX;

    /// Begins to watch the CPUs, and no thread yet.
    ///
    /// # Errors
    /// As for loading any BPF program.
    pub fn attach() -> Result<Self> {
        refusal::check_may_trace(&attempt())?;
        let capture = Capture::start();
        let refused = |stage: Stage, error: &libbpf_rs::Error| {
            refusal::explain(attempt(), stage, error, &capture.text(), None)
        };
        let possible = libbpf_rs::num_possible_cpus().attempt(Kind::Failed, attempt)?;
        let skel = Stored::new(|storage| {
            let builder = ParavirtSkelBuilder::default();
            let mut open = builder.open(storage).map_err(|e| refused(Stage::Open, &e))?;
            let cpus = &mut open.maps.cpus;
            cpus.set_max_entries(possible as u32).map_err(|e| refused(Stage::Load, &e))?;
            let mut skel = open.load().map_err(|e| refused(Stage::Load, &e))?;
            skel.attach().map_err(|e| refused(Stage::Attach, &e))?;
            Ok::<_, Error>(skel)
        })?;
        let maps = &skel.get().maps;
        let threads = Slots::of(&maps.threads, Self::THREADS_MAX).attempt(Kind::Failed, attempt)?;
        let cpus = Slots::of(&maps.cpus, possible).attempt(Kind::Failed, attempt)?;
        // Which wakes the CPUs that are idle. As one goes idle again it is seen.
        visit_cpus().attempt(Kind::Failed, attempt)?;
        let free = (0..Self::THREADS_MAX as u32).collect();
        Ok(Self { threads, cpus, free, nr_born: 0, skel })
    }

    /// How many threads more can be watched now.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Watches a thread from now on, whatever it does at this moment; none if it has ended, or if the kernel
    /// has no room for its number just now: before 7.0 it has none while this CPU is at some task's storage.
    ///
    /// # Errors
    /// `BadInput` for more threads than [`ParavirtTracer::THREADS_MAX`]; `Failed` where the kernel refuses.
    pub fn watch(&mut self, tid: u32) -> Result<Option<WatchedThread>> {
        let Some(slot) = self.free.pop_front() else {
            let cause = format!("{} threads are watched already", Self::THREADS_MAX);
            return Err(Error::new(Kind::BadInput, attempt(), cause)
                .remedy("serve fewer machines or cgroups at a time"));
        };
        let args = ParavirtArgs { tid: tid.cast_signed(), slot };
        let program = self.skel.get().progs.paravirt_watch.as_fd();
        let status = run_program(program, args.as_bytes()).attempt(Kind::Failed, attempt);
        match status {
            Ok(0) => return Ok(Some(WatchedThread { tid, slot })),
            _ => self.free.push_back(slot),
        }
        match Errno::from_raw(-status?) {
            Errno::ESRCH | Errno::ENOMEM => Ok(None),
            errno => Err(errno).attempt(Kind::Failed, attempt),
        }
    }

    /// Who was born of watched threads since the last call: threads and processes, each after the
    /// thread that made it. Those beyond [`ParavirtTracer::BORN_MAX`] are left out.
    ///
    /// # Errors
    /// `Failed` where the kernel refuses.
    pub fn born(&mut self) -> Result<Vec<(u32, u32)>> {
        let maps = &self.skel.get().maps;
        let nr_born = maps.bss_data.as_ref().map_or(0, |variables| variables.nr_born);
        let mut born = Vec::new();
        if std::mem::replace(&mut self.nr_born, nr_born) == nr_born {
            return Ok(born);
        }
        // No more than there is room for, so that it ends whatever is born meanwhile.
        while born.len() < Self::BORN_MAX {
            let next = maps.born.lookup_and_delete(&[]).attempt(Kind::Failed, attempt)?;
            let Some(next) = next.and_then(|it| ParavirtBorn::read_from_bytes(&it).ok()) else {
                break;
            };
            born.push((next.parent.cast_unsigned(), next.tid.cast_unsigned()));
        }
        Ok(born)
    }

    /// Watches it no more.
    ///
    /// # Errors
    /// `Failed` where the kernel refuses.
    pub fn unwatch(&mut self, thread: WatchedThread) -> Result<()> {
        let args = ParavirtArgs { tid: thread.tid.cast_signed(), slot: 0 };
        let program = self.skel.get().progs.paravirt_unwatch.as_fd();
        // One that has ended is not there any more, and is not watched either.
        run_program(program, args.as_bytes()).attempt(Kind::Failed, attempt)?;
        self.free.push_back(thread.slot);
        Ok(())
    }

    /// What these threads and all CPUs have done until now.
    pub fn read<'a>(
        &self,
        threads: impl Iterator<Item = &'a WatchedThread> + Clone,
    ) -> ParavirtReading {
        // What is read must be of one moment. Where the reader was held up meanwhile, which seldom happens
        // to a thread that runs first, it reads again; the last time whatever comes.
        const AT_ONCE_NS: u64 = 50_000;
        // Thousands of slots take longer by themselves: so much for each, which may be in no cache.
        const SLOT_NS: u64 = 50;
        const TRIES: u32 = 4;
        let mut tries = 0;
        loop {
            let began_ns = now_ns();
            let thread_slots: Vec<ParavirtSlot> =
                threads.clone().map(|thread| self.threads.slot(thread.slot)).collect();
            let cpu_slots: Vec<ParavirtSlot> =
                (0..self.cpus.length as u32).map(|at| self.cpus.slot(at)).collect();
            let took_ns = now_ns() - began_ns;
            tries += 1;
            let slots = thread_slots.len() + cpu_slots.len();
            if took_ns > AT_ONCE_NS + SLOT_NS * slots as u64 && tries < TRIES {
                continue;
            }
            let at_ns = began_ns + took_ns / 2;
            return ParavirtReading {
                at_ns,
                threads: thread_slots
                    .into_iter()
                    .map(|slot| ThreadReading::of(slot, at_ns))
                    .collect(),
                idle_ns: cpu_slots.into_iter().map(|slot| counted(slot.word, at_ns).1).collect(),
            };
        }
    }

    /// How often the programs at wake-ups and switches ran and for how long, since counting began: see
    /// [`CountRuns`](crate::CountRuns).
    pub fn runs(&self) -> Result<Runs> {
        let programs = &self.skel.get().progs;
        Runs::of([
            programs.paravirt_switch.as_fd(),
            programs.paravirt_wakeup.as_fd(),
            programs.paravirt_wakeup_new.as_fd(),
        ])
    }
}

/// The clock that the programs go by.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every kernel has this clock");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// The state in a word, and what is counted in it until a moment: see `bpf/paravirt.h`.
fn counted(word: u64, at_ns: u64) -> (ParavirtState, i64) {
    let state = (word & ((1 << PARAVIRT_STATE_BITS) - 1)) as u32;
    let state = ParavirtState::try_from(state).unwrap_or(ParavirtState::Unknown);
    let ns = word.cast_signed() >> PARAVIRT_STATE_BITS;
    match state {
        ParavirtState::Counted => (state, ns + at_ns.cast_signed()),
        _ => (state, ns),
    }
}

/// Slots in the kernel's memory, mapped.
struct Slots {
    at: *mut ParavirtSlot,
    length: usize,
}

impl Slots {
    fn of(map: &impl AsFd, length: usize) -> io::Result<Self> {
        let bytes = length * size_of::<ParavirtSlot>();
        // SAFETY: a new mapping, of a map that holds as much.
        let at =
            unsafe { mmap(ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, map, 0)? };
        Ok(Self { at: at.cast(), length })
    }

    /// What stands in a slot: each word as it was at a moment, which may be another one for each.
    fn slot(&self, slot: u32) -> ParavirtSlot {
        assert!((slot as usize) < self.length);
        // SAFETY: so many are mapped. The kernel may write at any time, hence the volatile reads of
        // aligned numbers.
        let read = |word: *const u64| unsafe { ptr::read_volatile(word) };
        // SAFETY: as above; nothing is read here.
        let (word, ran) = unsafe {
            let at = self.at.add(slot as usize);
            (&raw const (*at).word, &raw const (*at).ran)
        };
        ParavirtSlot { word: read(word), ran: read(ran), ..ParavirtSlot::default() }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: it was mapped so, and nobody else has the address.
        let _ = unsafe { munmap(self.at.cast(), self.length * size_of::<ParavirtSlot>()) };
    }
}

// SAFETY: the raw pointers inside are to mapped memory and to libbpf's objects, none of which is tied
// to a thread.
unsafe impl Send for ParavirtTracer {}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(state: ParavirtState, ns: i64) -> u64 {
        (ns << PARAVIRT_STATE_BITS).cast_unsigned() | state as u64
    }

    #[test]
    fn what_goes_on_counts_until_the_moment_and_what_ended_stays() {
        // It had waited for 300 ns when it began to wait at 1000.
        let waits = word(ParavirtState::Counted, 300 - 1000);
        assert_eq!(counted(waits, 1000), (ParavirtState::Counted, 300));
        assert_eq!(counted(waits, 1250), (ParavirtState::Counted, 550));
        let runs = word(ParavirtState::Running, 550);
        assert_eq!(counted(runs, 9999), (ParavirtState::Running, 550));
        assert_eq!(counted(0, 5), (ParavirtState::Unknown, 0));
        assert_eq!(counted(7, 5), (ParavirtState::Unknown, 0));
    }
}

//! How long tasks wait for a CPU, under whatever scheduler is in force.

use std::mem::MaybeUninit;
use std::ptr;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, OpenObject};
use metasched_base::{Error, Kind, Result, ResultExt};

use crate::capture::Capture;
use crate::refusal::{self, Stage};
use crate::skel::wait::{WaitSkel, WaitSkelBuilder};

/// WAIT_BUCKETS of bpf/wait.h.
const BUCKETS: usize = 64;

/// Traces run-queue waits: from runnable (awake, new or preempted) to running.
///
/// Its cost falls on every wake-up and every switch, so it is for traced runs,
/// whose figures are kept apart. Dropping it detaches it.
pub struct WaitTracer {
    skel: Option<WaitSkel<'static>>,
    storage: *mut MaybeUninit<OpenObject>,
    cgroup_ids: Vec<u64>,
}

// SAFETY: the raw pointers inside are to mapped variables and to libbpf's object,
// neither of which is tied to a thread.
unsafe impl Send for WaitTracer {}

/// The waits of one cgroup, or of the whole system.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct WaitHistogram {
    /// The cgroup; 0 for the whole system.
    pub cgroup_id: u64,
    /// Element i counts waits of 2^i up to 2^(i+1) nanoseconds (the first one also
    /// those of 0 ns).
    pub buckets: Vec<u64>,
    /// How many waits there were.
    pub count: u64,
    /// Their sum, nanoseconds.
    pub sum_ns: u64,
    /// The longest, nanoseconds.
    pub max_ns: u64,
}

impl WaitHistogram {
    fn empty(cgroup_id: u64) -> Self {
        Self { cgroup_id, buckets: vec![0; BUCKETS], count: 0, sum_ns: 0, max_ns: 0 }
    }

    /// Adds what one CPU recorded: `struct wait_histogram`, word by word.
    fn add(&mut self, bytes: &[u8]) {
        let mut words = bytes
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")));
        for bucket in &mut self.buckets {
            *bucket += words.next().unwrap_or(0);
        }
        self.count += words.next().unwrap_or(0);
        self.sum_ns += words.next().unwrap_or(0);
        self.max_ns = self.max_ns.max(words.next().unwrap_or(0));
    }
}

impl WaitTracer {
    /// How many cgroups can be told apart: WAIT_CGROUPS_MAX of bpf/wait.h.
    pub const CGROUPS_MAX: usize = 16;

    /// Starts to trace: the whole system, and each of the cgroups with all that is
    /// below it. An id of 0 asks for the whole system by name.
    ///
    /// # Errors
    /// `BadInput` for more cgroups than [`WaitTracer::CGROUPS_MAX`]; else as for loading
    /// any BPF program.
    pub fn attach(cgroup_ids: &[u64]) -> Result<WaitTracer> {
        let attempt = || "trace run-queue waits".to_string();
        let named: Vec<u64> = cgroup_ids.iter().copied().filter(|id| *id != 0).collect();
        if named.len() > Self::CGROUPS_MAX {
            return Err(Error::new(
                Kind::BadInput,
                attempt(),
                format!("{} cgroups are asked for", named.len()),
            )
            .remedy(format!("ask for {} at most", Self::CGROUPS_MAX)));
        }
        let capture = Capture::start();
        let refused = |stage: Stage, error: &libbpf_rs::Error| {
            refusal::explain(attempt(), stage, error, &capture.text(), None)
        };
        let storage: *mut MaybeUninit<OpenObject> = Box::into_raw(Box::new(MaybeUninit::uninit()));
        let mut tracer = WaitTracer { skel: None, storage, cgroup_ids: cgroup_ids.to_vec() };
        // SAFETY: the storage outlives the skeleton, which drop() drops first.
        let place: &'static mut MaybeUninit<OpenObject> = unsafe { &mut *storage };
        let mut open =
            WaitSkelBuilder::default().open(place).map_err(|e| refused(Stage::Open, &e))?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.nr_cgroups = named.len() as u32;
            rodata.cgroup_ids[..named.len()].copy_from_slice(&named);
        }
        let skel = open.load().map_err(|e| refused(Stage::Load, &e))?;
        let skel = tracer.skel.insert(skel);
        skel.attach().map_err(|e| refused(Stage::Attach, &e))?;
        Ok(tracer)
    }

    fn skel(&self) -> &WaitSkel<'static> {
        self.skel.as_ref().expect("only drop() takes it")
    }

    /// Begins anew: what was recorded is forgotten, and so are the waits under way.
    pub fn reset(&self) -> Result<()> {
        let map = &self.skel().maps.histograms;
        let cpus = libbpf_rs::num_possible_cpus()
            .attempt(Kind::Failed, || "count the CPUs".to_string())?;
        let zeros = vec![vec![0u8; map.value_size() as usize]; cpus];
        let bss = self.skel().maps.bss_data.as_deref().expect("the tracer has variables");
        // SAFETY: an aligned u64 in the program's mapped variables; the kernel side
        // only reads it, and `&self` being shared, two resets at once merely both count.
        unsafe {
            let epoch = ptr::addr_of!(bss.epoch).cast_mut();
            ptr::write_volatile(epoch, ptr::read_volatile(epoch) + 1);
        }
        for index in 0..=Self::CGROUPS_MAX as u32 {
            map.update_percpu(&index.to_ne_bytes(), &zeros, MapFlags::ANY)
                .attempt(Kind::Failed, || "reset the run-queue waits".to_string())?;
        }
        Ok(())
    }

    /// What was recorded since the start or the last reset, in the order in which
    /// the cgroups were given; the whole system last, unless it was asked for by name.
    pub fn read(&self) -> Result<Vec<WaitHistogram>> {
        let mut all = Vec::new();
        let mut index = 0;
        for id in &self.cgroup_ids {
            all.push(match id {
                0 => self.read_one(0, 0)?,
                id => {
                    index += 1;
                    self.read_one(index, *id)?
                }
            });
        }
        if !self.cgroup_ids.contains(&0) {
            all.push(self.read_one(0, 0)?);
        }
        Ok(all)
    }

    fn read_one(&self, index: u32, cgroup_id: u64) -> Result<WaitHistogram> {
        let mut histogram = WaitHistogram::empty(cgroup_id);
        let per_cpu = self
            .skel()
            .maps
            .histograms
            .lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY)
            .attempt(Kind::Failed, || "read the run-queue waits".to_string())?;
        for cpu in per_cpu.unwrap_or_default() {
            histogram.add(&cpu);
        }
        Ok(histogram)
    }
}

impl Drop for WaitTracer {
    fn drop(&mut self) {
        self.skel = None;
        // SAFETY: it came from Box::into_raw, and its only borrower is gone.
        drop(unsafe { Box::from_raw(self.storage) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_cgroups_than_can_be_told_apart_are_refused() {
        let ids: Vec<u64> = (0..=WaitTracer::CGROUPS_MAX as u64 + 1).collect();
        let error = WaitTracer::attach(&ids).err().expect("the whole system is no cgroup");
        assert_eq!(error.kind, Kind::BadInput);
        assert!(error.to_string().contains("17 cgroups are asked for; ask for 16"), "{error}");
    }

    #[test]
    fn cpus_add_up_and_the_longest_wait_is_the_longest_of_any() {
        let mut words = vec![0u64; BUCKETS + 3];
        words[10] = 4;
        words[BUCKETS] = 4;
        words[BUCKETS + 1] = 5000;
        words[BUCKETS + 2] = 1900;
        let first: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        words[BUCKETS + 2] = 1200;
        let second: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        let mut histogram = WaitHistogram::empty(7);
        histogram.add(&first);
        histogram.add(&second);
        assert_eq!(histogram.buckets[10], 8);
        assert_eq!((histogram.count, histogram.sum_ns, histogram.max_ns), (8, 10_000, 1900));
    }
}

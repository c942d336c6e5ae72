//! How long tasks wait for a CPU, under whatever scheduler is in force.

use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags};
use metasched_abi::{FromBytes, WAIT_CGROUPS_MAX};
use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_stats::WaitHistogram;

use crate::capture::Capture;
use crate::refusal::{self, Stage};
use crate::skel::wait::{WaitSkel, WaitSkelBuilder};
use crate::stored::Stored;

/// Traces run-queue waits: from runnable (awake, new or preempted) to running.
///
/// Its cost falls on every wake-up and every switch, so it is for traced runs,
/// whose figures are kept apart. Dropping it detaches it.
pub struct WaitTracer {
    /// In the program's variables: what is counted in another epoch is forgotten.
    epoch: &'static AtomicU64,
    skel: Stored<WaitSkel<'static>>,
    cgroup_ids: Vec<u64>,
}

// SAFETY: the raw pointers inside are to mapped variables and to libbpf's object,
// neither of which is tied to a thread.
unsafe impl Send for WaitTracer {}

/// The waits of one cgroup, or of the whole system.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CgroupWaits {
    /// The cgroup; 0 for the whole system.
    pub cgroup_id: u64,
    /// Its waits.
    pub waits: WaitHistogram,
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

impl WaitTracer {
    /// How many cgroups can be told apart.
    pub const CGROUPS_MAX: usize = WAIT_CGROUPS_MAX;

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
        let mut skel = Stored::new(|storage| {
            let builder = WaitSkelBuilder::default();
            let mut open = builder.open(storage).map_err(|e| refused(Stage::Open, &e))?;
            if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
                rodata.nr_cgroups = named.len() as u32;
                rodata.cgroup_ids[..named.len()].copy_from_slice(&named);
            }
            let mut skel = open.load().map_err(|e| refused(Stage::Load, &e))?;
            skel.attach().map_err(|e| refused(Stage::Attach, &e))?;
            Ok(skel)
        })?;
        let variables = skel.get_mut().maps.bss_data.take().expect("the tracer has variables");
        // SAFETY: an aligned u64 that the kernel's side only reads. It is mapped for as long as the
        // skeleton lives, which the tracer has beside it, and nobody else has a reference any more.
        let epoch = unsafe { AtomicU64::from_ptr(&raw mut variables.epoch) };
        Ok(WaitTracer { epoch, skel, cgroup_ids: cgroup_ids.to_vec() })
    }

    /// Begins anew: what was recorded is forgotten, and so are the waits under way.
    pub fn reset(&self) -> Result<()> {
        let map = &self.skel.get().maps.histograms;
        let cpus = libbpf_rs::num_possible_cpus()
            .attempt(Kind::Failed, || "count the CPUs".to_string())?;
        let zeros = vec![vec![0u8; map.value_size() as usize]; cpus];
        self.epoch.fetch_add(1, Ordering::SeqCst);
        for index in 0..=Self::CGROUPS_MAX as u32 {
            map.update_percpu(&index.to_ne_bytes(), &zeros, MapFlags::ANY)
                .attempt(Kind::Failed, || "reset the run-queue waits".to_string())?;
        }
        Ok(())
    }

    /// What was recorded since the start or the last reset, in the order in which
    /// the cgroups were given; the whole system last, unless it was asked for by name.
    pub fn read(&self) -> Result<Vec<CgroupWaits>> {
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

    fn read_one(&self, index: u32, cgroup_id: u64) -> Result<CgroupWaits> {
        Ok(CgroupWaits { cgroup_id, waits: read_waits(&self.skel.get().maps.histograms, index)? })
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
}

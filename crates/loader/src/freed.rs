//! What lanes count, and what is kept of it when they are gone.

use std::collections::BTreeMap;
use std::sync::Mutex;

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use metasched_abi::LANE_DSQ_BITS;
use metasched_base::{Kind, Result, ResultExt};

use crate::policy;
use crate::skel::metasched::MetaschedMaps;
use crate::variables::{Variables, variable};

/// First runs of so many freed lanes are kept, the latest ones.
const FIRST_RUNS_MAX: usize = 4096;

/// What is kept of lanes that are gone.
pub(crate) struct Freed {
    kept: Mutex<Kept>,
    counters: MapHandle,
    waits: MapHandle,
}

#[derive(Default)]
struct Kept {
    /// What they counted, by policy and counter.
    counters: BTreeMap<String, u64>,
    /// When a task first ran that came through them, by generation.
    first_runs: BTreeMap<u64, u64>,
}

impl Freed {
    /// Nothing yet, of the program with these maps.
    pub(crate) fn new(maps: &MetaschedMaps<'static>) -> Result<Self> {
        let share = |map: &libbpf_rs::Map<'_>| {
            MapHandle::try_from(map).attempt(Kind::Failed, || "share the counters".into())
        };
        let (counters, waits) = (share(&maps.lane_counters)?, share(&maps.lane_waits)?);
        Ok(Self { kept: Mutex::default(), counters, waits })
    }

    /// Keeps what the lane came to that a slot had which is free now; the slot's counts begin anew.
    pub(crate) fn keep(&self, variables: Variables, slot: u32) {
        let at = slot as usize;
        let variant = variable!(variables, lanes[at].lane.variant);
        // The generation is cleared by now; the queue's id still holds it.
        let generation = variable!(variables, lanes[at].lane.dsq) >> LANE_DSQ_BITS;
        let first_run = variable!(variables, lanes[at].first_run_ns);
        let mut kept = self.kept.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(policy) = policy::by_number(variant) {
            for (name, count) in read_counters(&self.counters, slot, variant) {
                *kept.counters.entry(format!("{}.{name}", policy.name)).or_default() += count;
            }
        }
        begin_anew(&self.counters, slot);
        begin_anew(&self.waits, slot);
        kept.first_runs.insert(generation, first_run);
        if kept.first_runs.len() > FIRST_RUNS_MAX {
            kept.first_runs.pop_first();
        }
    }

    /// What they counted: `POLICY.COUNTER`.
    pub(crate) fn counters(&self) -> BTreeMap<String, u64> {
        self.kept.lock().unwrap_or_else(|e| e.into_inner()).counters.clone()
    }

    /// When a task first ran that came through the lane of that generation.
    pub(crate) fn first_run_ns(&self, generation: u64) -> Option<u64> {
        self.kept.lock().unwrap_or_else(|e| e.into_inner()).first_runs.get(&generation).copied()
    }
}

/// The counters of a slot by name, summed over CPUs.
pub(crate) fn read_counters(map: &impl MapCore, slot: u32, variant: u32) -> Vec<(String, u64)> {
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

/// Clears what the CPUs counted for a slot that is free, so that nobody counts there now. A
/// failure leaves old counts, which the next lane there would show as its own, and nothing
/// worse.
fn begin_anew(map: &MapHandle, slot: u32) {
    let cpus = libbpf_rs::num_possible_cpus().unwrap_or(1);
    let zeros = vec![vec![0u8; map.value_size() as usize]; cpus];
    let _ = map.update_percpu(&slot.to_ne_bytes(), &zeros, MapFlags::ANY);
}

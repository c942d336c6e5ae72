//! The metascheduler in the simulator: its constants and its system-call programs,
//! as the loader uses them in the kernel.

use crate::image;
use crate::kernel::Kernel;
use crate::scenario::Scenario;
use metasched_base::{Error, Kind, Result};
use std::sync::Arc;

/// Every policy of `policies.def`, in its order: a policy's number is its index.
pub const POLICIES: &[&str] = include!(concat!(env!("OUT_DIR"), "/policies.rs"));

/// `enum lane_state` of `meta/types.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LaneState {
    Root,
    Draining,
    Retired,
}

/// One lane that is not free.
#[derive(Clone, Copy, Debug)]
pub struct LaneInfo {
    /// Its index.
    pub slot: u32,
    /// Its policy's number.
    pub policy: u32,
    /// Never used twice.
    pub generation: u64,
    /// Where it is in its life.
    pub state: LaneState,
    /// When a task first ran that came through it; 0 if none has.
    pub first_run_ns: u64,
}

/// `struct sim_lane` of `seam/metasched.c`.
#[repr(C)]
#[derive(Default)]
struct RawLane {
    generation: u64,
    first_run_ns: u64,
    slot: u32,
    policy: u32,
    state: u32,
    pad: u32,
}

/// Weight of a lane whose weight nobody has touched.
const WEIGHT: u64 = 100;

/// A run of the metascheduler whose first lane has this policy.
///
/// # Panics
/// When there is no such policy.
pub fn scenario(name: impl Into<String>, policy: &str) -> Scenario {
    let number = number_of(policy).unwrap_or_else(|e| panic!("{e}"));
    Scenario::of(name, image::metasched(), "metasched_ops")
        .setup(Arc::new(move |image| unsafe { image.set("initial_policy", number) }))
}

fn number_of(policy: &str) -> Result<u32> {
    POLICIES.iter().position(|p| *p == policy).map(|i| i as u32).ok_or_else(|| {
        Error::new(Kind::BadInput, format!("simulate '{policy}'"), "there is no such policy")
            .remedy(format!("known are {}", POLICIES.join(", ")))
    })
}

/// Puts a new root lane in force; fails the run if the program refuses.
pub fn replace_root(kernel: &mut Kernel, policy: &str) {
    kernel.note(&format!("replace the root lane: {policy}"));
    let said = number_of(policy)
        .and_then(|number| kernel.program("sim_replace_root", [number.into(), WEIGHT]));
    match said {
        Ok(0) => {}
        Ok(error) => kernel.fail("replace_root", format!("the program returned {error}")),
        Err(error) => kernel.fail("replace_root", error.to_string()),
    }
}

/// Moves lanes on in their life, as the loader does from time to time; gives how
/// many are not done with.
pub fn reap(kernel: &mut Kernel) -> i32 {
    kernel.program("sim_reap", [0, 0]).unwrap_or_else(|error| {
        kernel.fail("reap", error.to_string());
        -1
    })
}

/// Every lane that is not free.
pub fn lanes(kernel: &mut Kernel) -> Vec<LaneInfo> {
    read_lanes(kernel).unwrap_or_else(|error| {
        kernel.fail("lanes", error.to_string());
        Vec::new()
    })
}

fn read_lanes(kernel: &mut Kernel) -> Result<Vec<LaneInfo>> {
    let max = unsafe { *kernel.image().required("sim_lanes_max")?.cast::<u32>() };
    let mut lanes = Vec::new();
    for slot in 0..max {
        let mut lane = RawLane::default();
        let at = std::ptr::from_mut(&mut lane) as u64;
        kernel.program("sim_read_lane", [slot.into(), at])?;
        let state = match lane.state {
            0 => continue,
            1 => LaneState::Root,
            2 => LaneState::Draining,
            _ => LaneState::Retired,
        };
        let RawLane { generation, first_run_ns, slot, policy, .. } = lane;
        lanes.push(LaneInfo { slot, policy, generation, state, first_run_ns });
    }
    Ok(lanes)
}

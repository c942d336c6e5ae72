//! The metascheduler in the simulator: its constants and its system-call programs,
//! as the loader uses them in the kernel.

mod turns;

use crate::image;
use crate::kernel::Kernel;
use crate::load::Program;
use crate::scenario::Scenario;
use metasched_base::{Error, Kind, Result};
use metasched_stats::WaitHistogram;
use std::sync::Arc;

pub use turns::{Cycle, cycle, start_turns, stop_turns};

/// Every policy of `policies.def`, in its order: a policy's number is its index.
pub const POLICIES: &[&str] = include!(concat!(env!("OUT_DIR"), "/policies.rs"));

/// `enum lane_state` of `meta/types.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LaneState {
    Root,
    Draining,
    Retired,
    App,
    Resting,
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
    /// What its tasks ran while several lanes were served.
    pub runtime_ns: u64,
    /// Its application; 0 for the root lane.
    pub app: u32,
    /// Its weight.
    pub weight: u32,
    /// Whether its policy is not asked any more.
    pub quarantined: bool,
}

/// `struct sim_lane` of `seam/metasched.c`.
#[repr(C)]
#[derive(Default)]
struct RawLane {
    generation: u64,
    first_run_ns: u64,
    runtime_ns: u64,
    slot: u32,
    policy: u32,
    state: u32,
    app: u32,
    weight: u32,
    quarantined: u32,
}

/// Weight of a lane whose weight nobody has touched.
const WEIGHT: u64 = 100;

/// A run of the metascheduler whose first lane has this policy.
///
/// # Panics
/// When there is no such policy.
pub fn scenario(name: impl Into<String>, policy: &str) -> Scenario {
    of_image(image::metasched(), name, policy)
}

fn of_image(image: &'static [u8], name: impl Into<String>, policy: &str) -> Scenario {
    Scenario::under(name, Some(program_of_image(image, policy)))
}

fn program_of_image(image: &'static [u8], policy: &str) -> Program {
    let number = number_of(policy).unwrap_or_else(|e| panic!("{e}"));
    Program {
        setup: Arc::new(move |image| unsafe { image.set("initial_policy", number) }),
        started: Arc::new(sweep_later),
        ..Program::of(image, "metasched_ops")
    }
}

/// The metascheduler with a first lane of this policy, for [`Kernel::load`].
///
/// # Panics
/// When there is no such policy.
pub fn program(policy: &str) -> Program {
    program_of_image(image::metasched(), policy)
}

/// The policy of [`faulty_scenario`] that never gives a CPU a task.
pub const LAZY: &str = "lazy";

/// The same with one policy more, [`LAZY`].
///
/// # Panics
/// When there is no such policy.
pub fn faulty_scenario(name: impl Into<String>, policy: &str) -> Scenario {
    of_image(image::faulty(), name, policy)
}

fn number_of(policy: &str) -> Result<u32> {
    POLICIES.iter().chain([&LAZY]).position(|p| *p == policy).map(|i| i as u32).ok_or_else(|| {
        Error::new(Kind::BadInput, format!("simulate '{policy}'"), "there is no such policy")
            .remedy(format!("known are {}", POLICIES.join(", ")))
    })
}

/// Puts a new root lane in force; fails the run if the program refuses.
pub fn replace_root(kernel: &mut Kernel, policy: &str) {
    kernel.note(&format!("replace the root lane: {policy}"));
    let number = number_of(policy).unwrap_or_else(|e| panic!("{e}"));
    must(kernel, "sim_replace_root", [number.into(), WEIGHT]);
}

/// Puts a lane in force for an application, its first or another one; fails the run
/// if the program refuses.
pub fn set_app(kernel: &mut Kernel, app: u32, policy: &str, weight: u32) {
    kernel.note(&format!("application {app} on {policy}, weight {weight}"));
    let number = number_of(policy).unwrap_or_else(|e| panic!("{e}"));
    must(kernel, "sim_set_app", [app.into(), u64::from(number) << 32 | u64::from(weight)]);
}

/// `LANE_OPTIONS_MAX` of `bpf/lane.h`.
const OPTIONS_MAX: usize = 5;

/// `struct app_args` of `meta/types.h`.
#[repr(C)]
struct AppArgs {
    app: u32,
    policy: u32,
    weight: u32,
    weight_fixed: u32,
    options: [u64; OPTIONS_MAX],
}

/// The same as [`set_app`] with options, by their numbers; and with a weight that stays
/// whatever `cpu.weight` says, if `weight_fixed`.
pub fn set_app_with(
    kernel: &mut Kernel,
    app: u32,
    policy: &str,
    (weight, weight_fixed): (u32, bool),
    options: &[(usize, u64)],
) {
    kernel.note(&format!("application {app} on {policy}, weight {weight}, options {options:?}"));
    let policy = number_of(policy).unwrap_or_else(|e| panic!("{e}"));
    let mut args = AppArgs {
        app,
        policy,
        weight,
        weight_fixed: weight_fixed.into(),
        options: [u64::MAX; OPTIONS_MAX],
    };
    for (number, value) in options {
        args.options[*number] = *value;
    }
    must(kernel, "set_app", [std::ptr::from_mut(&mut args) as u64, 0]);
}

/// Takes an application's lane away; its tasks go to the root lane.
pub fn drop_app(kernel: &mut Kernel, app: u32) {
    kernel.note(&format!("application {app} has no lane any more"));
    must(kernel, "sim_drop_app", [app.into(), 0]);
}

/// Assigns a cgroup to an application that has a lane.
pub fn assign(kernel: &mut Kernel, path: &str, app: u32) {
    kernel.note(&format!("'{path}' is assigned to application {app}"));
    let cgroup = kernel.cgroup_id(path);
    must(kernel, "sim_assign", [cgroup, app.into()]);
}

/// Undoes an assignment.
pub fn unassign(kernel: &mut Kernel, path: &str) {
    kernel.note(&format!("'{path}' is not assigned any more"));
    let cgroup = kernel.cgroup_id(path);
    must(kernel, "sim_unassign", [cgroup, 0]);
}

/// Changes the weight of an application's lane in force.
pub fn set_weight(kernel: &mut Kernel, app: u32, weight: u32) {
    must(kernel, "sim_set_weight", [app.into(), weight.into()]);
}

/// Changes an option of an application's lane in force, by its place among its policy's
/// options; 0 is the root lane's application.
pub fn set_option(kernel: &mut Kernel, app: u32, option: u32, value: u64) {
    kernel.note(&format!("application {app}: option {option} is {value}"));
    must(kernel, "sim_set_option", [u64::from(app) << 32 | u64::from(option), value]);
}

/// How many lanes were put in quarantine.
pub fn quarantined(kernel: &mut Kernel) -> i32 {
    kernel.program("sim_quarantined", [0, 0]).unwrap_or_else(|error| {
        kernel.fail("quarantined", error.to_string());
        -1
    })
}

fn must(kernel: &mut Kernel, program: &str, args: [u64; 2]) {
    let result = kernel.program(program, args);
    succeeded(kernel, program, result);
}

fn succeeded(kernel: &mut Kernel, program: &str, result: Result<i32>) {
    match result {
        Ok(0) => {}
        Ok(error) => kernel.fail(program, format!("the program returned {error}")),
        Err(error) => kernel.fail(program, error.to_string()),
    }
}

/// The timer of the sweep expires, and is set again.
fn sweep(kernel: &mut Kernel) {
    let result = kernel.timer("sim_sweep");
    succeeded(kernel, "sim_sweep", result);
    sweep_later(kernel);
}

fn sweep_later(kernel: &mut Kernel) {
    match kernel.image().required("sim_sweep_ns") {
        Ok(at) => {
            let (ns, load) = (unsafe { *at.cast::<u64>() }, kernel.loaded());
            let act = move |kernel: &mut Kernel| {
                // A timer goes with its program.
                if kernel.loaded() == load {
                    sweep(kernel);
                }
            };
            kernel.act_at(kernel.now() + ns, Arc::new(act));
        }
        Err(error) => kernel.fail("sweep", error.to_string()),
    }
}

/// Moves lanes on in their life, as the loader does from time to time; gives how
/// many are not done with.
pub fn reap(kernel: &mut Kernel) -> i32 {
    let before = lanes(kernel);
    let left = kernel.program("sim_reap", [0, 0]).unwrap_or_else(|error| {
        kernel.fail("reap", error.to_string());
        -1
    });
    let after = lanes(kernel);
    for freed in before.iter().filter(|b| after.iter().all(|a| a.slot != b.slot)) {
        if let Some(words) = kernel.map_words("lane_waits", freed.slot) {
            words.fill(0);
        }
    }
    left
}

/// How long the tasks of the lane in that slot waited for a CPU.
pub fn waits(kernel: &mut Kernel, slot: u32) -> WaitHistogram {
    let cpus = kernel.cpus.len();
    let mut all = WaitHistogram::default();
    if let Some(words) = kernel.map_words("lane_waits", slot) {
        for of_cpu in words.chunks_exact(words.len() / cpus) {
            all.merge(&WaitHistogram::from_words(of_cpu.iter().copied()));
        }
    }
    all
}

/// Where level 1 counts a wait of that length.
pub fn wait_bucket(kernel: &mut Kernel, wait_ns: u64) -> usize {
    kernel.program("sim_wait_bucket", [wait_ns, 0]).unwrap_or(-1) as usize
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
            3 => LaneState::Retired,
            4 => LaneState::App,
            _ => LaneState::Resting,
        };
        lanes.push(LaneInfo {
            slot: lane.slot,
            policy: lane.policy,
            generation: lane.generation,
            state,
            first_run_ns: lane.first_run_ns,
            runtime_ns: lane.runtime_ns,
            app: lane.app,
            weight: lane.weight,
            quarantined: lane.quarantined != 0,
        });
    }
    Ok(lanes)
}

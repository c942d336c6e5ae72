//! The metascheduler in the simulator: its constants and its system-call programs,
//! as the loader uses them in the kernel.

mod turns;

use crate::image;
use crate::kernel::Kernel;
use crate::load::Program;
use crate::scenario::Scenario;
use crate::trace::What;
use metasched_base::{Error, Kind, Result};
use metasched_stats::WaitHistogram;
use std::sync::Arc;

pub use turns::{Cycle, cycle, start_turns, stop_turns, try_start_turns, try_stop_turns};

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
    /// Whether CPUs ask it for tasks.
    pub served: bool,
}

impl LaneInfo {
    fn seen(&self) -> LaneSeen {
        let LaneInfo { slot, policy, generation, state, app, weight, quarantined, served, .. } =
            *self;
        LaneSeen { slot, generation, policy, state, app, weight, quarantined, served }
    }
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
    served: u32,
    pad: u32,
}

/// `LANE_OPTIONS_MAX` of `bpf/lane.h`.
const OPTIONS_MAX: usize = 12;
/// In place of an option's value: the policy's default.
const DEFAULT_OPTION: u64 = u64::MAX;

/// `struct app_args` of `meta/types.h`.
#[repr(C)]
struct AppArgs {
    app: u32,
    policy: u32,
    weight: u32,
    weight_fixed: u32,
    options: [u64; OPTIONS_MAX],
}

const _: () = assert!(size_of::<AppArgs>() == 112, "as meta/types.h asserts");

/// What stays the same of a lane from one change to the next: what checkers look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSeen {
    /// Its index.
    pub slot: u32,
    /// Never used twice.
    pub generation: u64,
    /// Its policy's number.
    pub policy: u32,
    /// Where it is in its life.
    pub state: LaneState,
    /// Its application; 0 for the root lane.
    pub app: u32,
    /// Its weight.
    pub weight: u32,
    /// Whether its policy is not asked any more.
    pub quarantined: bool,
    /// Whether CPUs ask it for tasks.
    pub served: bool,
}

impl LaneSeen {
    /// Whether its policy is not [`LAZY`], which never dispatches.
    pub fn has_a_real_policy(&self) -> bool {
        (self.policy as usize) != POLICIES.len()
    }
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

/// Level 1 of any image; panics when there is no such policy.
pub(crate) fn program_of_image(image: &'static [u8], policy: &str) -> Program {
    let number = number_of(policy).unwrap_or_else(|e| panic!("{e}"));
    Program {
        setup: Arc::new(move |image| unsafe { image.set("initial_policy", number) }),
        started: Arc::new(|kernel| {
            tell_lanes(kernel);
            sweep_later(kernel);
        }),
        level1: true,
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

/// The policy of [`faulty_scenario`] that tries what level 1 does for policies.
pub const CENTRAL: &str = "central";

/// The policy of [`faulty_scenario`] that fails the run when it is told what cannot be.
pub const WITNESS: &str = "witness";

/// The same with three policies more: [`LAZY`], [`CENTRAL`] and [`WITNESS`].
///
/// # Panics
/// When there is no such policy.
pub fn faulty_scenario(name: impl Into<String>, policy: &str) -> Scenario {
    of_image(image::faulty(), name, policy)
}

/// The same of any image of level 1: one with a planted fault, for tests.
///
/// # Panics
/// When there is no such policy.
pub fn scenario_of(image: &'static [u8], name: impl Into<String>, policy: &str) -> Scenario {
    of_image(image, name, policy)
}

fn number_of(policy: &str) -> Result<u32> {
    POLICIES
        .iter()
        .chain([&LAZY, &CENTRAL, &WITNESS])
        .position(|p| *p == policy)
        .map(|i| i as u32)
        .ok_or_else(|| {
            Error::new(Kind::BadInput, format!("simulate '{policy}'"), "there is no such policy")
                .remedy(format!("known are {}", POLICIES.join(", ")))
        })
}

/// Puts a new root lane in force; fails the run if the program refuses.
pub fn replace_root(kernel: &mut Kernel, policy: &str) {
    let said = try_replace_root(kernel, policy);
    succeeded(kernel, "sim_replace_root", Ok(said));
}

/// The same; gives what the program returns.
///
/// # Panics
/// When there is no such policy.
pub fn try_replace_root(kernel: &mut Kernel, policy: &str) -> i32 {
    kernel.note(&format!("replace the root lane: {policy}"));
    let number = number_of(policy).unwrap_or_else(|e| panic!("{e}"));
    attempt(kernel, "sim_replace_root", [number.into(), WEIGHT])
}

/// Puts a lane in force for an application, its first or another one; fails the run
/// if the program refuses.
pub fn set_app(kernel: &mut Kernel, app: u32, policy: &str, weight: u32) {
    set_app_with(kernel, app, policy, (weight, false), &[]);
}

/// The same with options, by their numbers; and with a weight that stays whatever
/// `cpu.weight` says, if the second of the pair says so.
pub fn set_app_with(
    kernel: &mut Kernel,
    app: u32,
    policy: &str,
    weight: (u32, bool),
    options: &[(usize, u64)],
) {
    let said = try_set_app(kernel, app, policy, weight, options);
    succeeded(kernel, "set_app", Ok(said));
}

/// The same; gives what the program returns: 0, or a negative error number.
///
/// # Panics
/// When there is no such policy.
pub fn try_set_app(
    kernel: &mut Kernel,
    app: u32,
    policy: &str,
    (weight, weight_fixed): (u32, bool),
    options: &[(usize, u64)],
) -> i32 {
    kernel.note(&format!("application {app} on {policy}, weight {weight}, options {options:?}"));
    let policy = number_of(policy).unwrap_or_else(|e| panic!("{e}"));
    let mut args = AppArgs {
        app,
        policy,
        weight,
        weight_fixed: weight_fixed.into(),
        options: [DEFAULT_OPTION; OPTIONS_MAX],
    };
    for (number, value) in options {
        args.options[*number] = *value;
    }
    attempt(kernel, "set_app", [std::ptr::from_mut(&mut args) as u64, 0])
}

/// Changes an option of an application's lane in force, by its number; 0 is the root lane's
/// application.
pub fn set_option(kernel: &mut Kernel, app: u32, option: usize, value: u64) {
    let said = try_set_option(kernel, app, option, value);
    succeeded(kernel, "sim_set_option", Ok(said));
}

/// The same; gives what the program returns.
pub fn try_set_option(kernel: &mut Kernel, app: u32, option: usize, value: u64) -> i32 {
    kernel.note(&format!("application {app}: option {option} is {value}"));
    attempt(kernel, "sim_set_option", [u64::from(app) << 32 | option as u64, value])
}

/// Takes an application's lane away; its tasks go to the root lane.
pub fn drop_app(kernel: &mut Kernel, app: u32) {
    let said = try_drop_app(kernel, app);
    succeeded(kernel, "sim_drop_app", Ok(said));
}

/// The same; gives what the program returns.
pub fn try_drop_app(kernel: &mut Kernel, app: u32) -> i32 {
    kernel.note(&format!("application {app} has no lane any more"));
    attempt(kernel, "sim_drop_app", [app.into(), 0])
}

/// Assigns a cgroup to an application that has a lane.
pub fn assign(kernel: &mut Kernel, path: &str, app: u32) {
    let said = try_assign(kernel, path, app);
    succeeded(kernel, "sim_assign", Ok(said));
}

/// The same; gives what the program returns.
pub fn try_assign(kernel: &mut Kernel, path: &str, app: u32) -> i32 {
    kernel.note(&format!("'{path}' is assigned to application {app}"));
    let cgroup = kernel.cgroup_id(path);
    let said = attempt(kernel, "sim_assign", [cgroup, app.into()]);
    tell_assigned(kernel, said, cgroup, app);
    said
}

/// Undoes an assignment.
pub fn unassign(kernel: &mut Kernel, path: &str) {
    let said = try_unassign(kernel, path);
    succeeded(kernel, "sim_unassign", Ok(said));
}

/// The same; gives what the program returns.
pub fn try_unassign(kernel: &mut Kernel, path: &str) -> i32 {
    kernel.note(&format!("'{path}' is not assigned any more"));
    let cgroup = kernel.cgroup_id(path);
    let said = attempt(kernel, "sim_unassign", [cgroup, 0]);
    tell_assigned(kernel, said, cgroup, 0);
    said
}

/// Changes the weight of an application's lane in force.
pub fn set_weight(kernel: &mut Kernel, app: u32, weight: u32) {
    let said = try_set_weight(kernel, app, weight);
    succeeded(kernel, "sim_set_weight", Ok(said));
}

/// The same; gives what the program returns.
pub fn try_set_weight(kernel: &mut Kernel, app: u32, weight: u32) -> i32 {
    attempt(kernel, "sim_set_weight", [app.into(), weight.into()])
}

/// How many lanes were put in quarantine.
pub fn quarantined(kernel: &mut Kernel) -> u64 {
    match kernel.image().required("quarantined") {
        Ok(at) => unsafe { *at.cast() },
        Err(error) => {
            kernel.fail("quarantined", error.to_string());
            0
        }
    }
}

/// What a program returns that is not there any more.
const ENODEV: i32 = -19;

/// Calls a program that may change lanes, and tells the checkers of them.
fn attempt(kernel: &mut Kernel, program: &str, args: [u64; 2]) -> i32 {
    if kernel.loaded().is_none() {
        return ENODEV;
    }
    let said = kernel.program(program, args).unwrap_or_else(|error| {
        kernel.fail(program, error.to_string());
        0
    });
    tell_lanes(kernel);
    said
}

/// Tells the checkers whose a cgroup is now. What a program says yes to while it is being
/// unloaded goes with it: the next one knows nothing of it.
fn tell_assigned(kernel: &mut Kernel, said: i32, cgroup: u64, app: u32) {
    if said == 0 && kernel.stays() {
        kernel.observe(0, None, What::Assign { cgroup, app });
    }
}

/// Tells the checkers how lanes stand.
pub fn tell_lanes(kernel: &mut Kernel) {
    if kernel.stays() {
        let seen = lanes(kernel).iter().map(LaneInfo::seen).collect();
        kernel.observe(0, None, What::Lanes(seen));
    }
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
    let before = quarantined(kernel);
    let result = kernel.timer("sim_sweep");
    succeeded(kernel, "sim_sweep", result);
    if quarantined(kernel) != before {
        tell_lanes(kernel);
    }
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
    if kernel.loaded().is_none() {
        return 0;
    }
    let before = lanes(kernel);
    let left = kernel.program("sim_reap", [0, 0]).unwrap_or_else(|error| {
        kernel.fail("reap", error.to_string());
        -1
    });
    tell_lanes(kernel);
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
    let mut raw: Vec<RawLane> = (0..max).map(|_| RawLane::default()).collect();
    let read = kernel.image().required("sim_read_lanes")?;
    // No program of the model: looking takes no time of its CPUs.
    let read: extern "C" fn(*mut RawLane) = unsafe { std::mem::transmute(read) };
    read(raw.as_mut_ptr());
    let mut lanes = Vec::new();
    for lane in raw {
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
            served: lane.served != 0,
        });
    }
    Ok(lanes)
}

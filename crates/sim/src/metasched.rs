//! The metascheduler in the simulator: its constants and its system-call programs,
//! as the loader uses them in the kernel.

mod turns;
mod user;

use crate::image;
use crate::kernel::Kernel;
use crate::load::Program;
use crate::scenario::Scenario;
use crate::trace::What;
use metasched_abi::{
    ACCOUNTS_MAX, Account, AppArgs, AssignArgs, FAULTY_POLICIES, FromBytes, IntoBytes,
    LANE_OPTIONS_MAX, LANE_QUEUES_MAX, LANES_MAX, LaneArgs, MetaLane, OPTION_DEFAULT, ReapArgs,
    ReplaceArgs,
};
use metasched_base::{Error, Kind, Result};
use metasched_stats::WaitHistogram;
use std::cell::Cell;
use std::panic::catch_unwind;
use std::rc::Rc;
use std::sync::Arc;

pub use metasched_abi::{BACK_TO_ROOT, LaneState, POLICY_NAMES as POLICIES};
pub use turns::{cycle, start_turns, stop_turns, try_start_turns, try_stop_turns};
pub use user::{
    delay_user_half, start_user_half, stop_user_half, user_decide, user_lane, user_messages,
};

/// One lane that is not free.
#[derive(Clone, Copy, Debug)]
pub struct LaneInfo {
    /// What stays the same.
    pub seen: LaneSeen,
    /// When a task first ran that came through it; 0 if none has.
    pub first_run_ns: u64,
    /// What its tasks ran while several lanes were served.
    pub runtime_ns: u64,
    /// Its account's weight, as the user or `cpu.weight` said it last.
    pub weight: u32,
    /// How often another account's task was preempted for its account.
    pub kicks: u64,
    /// Tasks that level 1 gave a CPU past its policy since that last gave one.
    pub rescues: u64,
}

impl std::ops::Deref for LaneInfo {
    type Target = LaneSeen;

    fn deref(&self) -> &LaneSeen {
        &self.seen
    }
}

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
    /// The weight that the user gave, in place of `cpu.weight` of its cgroups.
    pub given: Option<u32>,
    /// Whether its policy is not asked any more.
    pub quarantined: bool,
    /// Whether CPUs ask it for tasks.
    pub served: bool,
    /// Whether no CPU is idle beside its tasks that may run there.
    pub conserves: bool,
}

impl LaneSeen {
    /// Whether every task comes to it that has no application with a lane.
    pub fn is_root(&self) -> bool {
        self.state == LaneState::InForce && self.app == 0
    }

    /// Whether the tasks of an application's cgroups come to it.
    pub fn is_apps(&self) -> bool {
        self.state == LaneState::InForce && self.app != 0
    }

    /// Whether its policy is not [`LAZY`], which never dispatches.
    pub fn has_a_real_policy(&self) -> bool {
        FAULTY_POLICIES[self.policy as usize].name != LAZY
    }
}

/// A run of the metascheduler whose first lane has this policy; with the policies that are for
/// tests, if it is one of them. A policy's half in user space starts with the first lane that has
/// one, as it does under the command.
///
/// # Panics
/// When there is no such policy.
pub fn scenario(name: impl Into<String>, policy: &str) -> Scenario {
    let is_one = metasched_abi::variant(metasched_abi::POLICIES, policy).is_some();
    let image = if is_one { image::metasched() } else { image::faulty() };
    Scenario::under(name, Some(user::with_user_half(program_of_image(instead_of(image), policy))))
}

thread_local! {
    /// Of what image runs are that this thread makes, whatever they ask for.
    static INSTEAD: Cell<Option<&'static [u8]>> = const { Cell::new(None) };
}

/// Has all runs of a test be of that image of level 1: one with a fault planted in it, which the
/// test is to find. What it panics with, if it does.
///
/// # Errors
/// The test has failed.
pub fn under_image(image: &'static [u8], test: fn()) -> std::thread::Result<()> {
    INSTEAD.set(Some(image));
    let result = catch_unwind(test);
    INSTEAD.set(None);
    result
}

fn instead_of(image: &'static [u8]) -> &'static [u8] {
    INSTEAD.get().unwrap_or(image)
}

fn of_image(image: &'static [u8], name: impl Into<String>, policy: &str) -> Scenario {
    Scenario::under(name, Some(program_of_image(instead_of(image), policy)))
}

/// Level 1 of any image, and nobody in user space who decides; panics when there is no such policy.
pub(crate) fn program_of_image(image: &'static [u8], policy: &str) -> Program {
    let number = number_of(policy).unwrap_or_else(|e| panic!("{e}"));
    Program {
        setup: Arc::new(move |image| {
            // SAFETY: meta/metasched.bpf.c declares it as a u32.
            unsafe { image.set("initial_variant", number) }
        }),
        started: Arc::new(tell_lanes),
        timed: Arc::new(tell_lanes_if_changed),
        level1: true,
        ..Program::of(image, "metasched_ops")
    }
}

/// The metascheduler with a first lane of this policy, for [`Kernel::load`]; with policies' halves
/// in user space, as in [`scenario`].
///
/// # Panics
/// When there is no such policy.
pub fn program(policy: &str) -> Program {
    user::with_user_half(program_of_image(instead_of(image::metasched()), policy))
}

/// The policy of [`faulty_scenario`] that never gives a CPU a task.
pub const LAZY: &str = "lazy";

/// The policy of [`faulty_scenario`] that gives a CPU a task at every second look only.
pub const LATE: &str = "late";

/// The policy under which one CPU decides for all.
pub const CENTRAL: &str = "central";

/// The policy that runs tasks of one cgroup at a time on each two CPUs.
pub const PAIR: &str = "pair";

/// The policy with a domain for each cache.
pub const RUSTY: &str = "rusty";

/// The policy that gives cgroups their parts, as the kernel's own does.
pub const FAIR: &str = "fair";

/// The policy of [`faulty_scenario`] that fails when it is told what cannot be.
pub const WITNESS: &str = "witness";

/// The policy that serves cgroups by their load credit.
pub const LAGS: &str = "lags";

/// The policy that has a half in user space.
pub const RUSTLAND: &str = "rustland";

/// The policy of [`faulty_scenario`] that has a queue for each CPU and each cache.
pub const PLACES: &str = "places";

/// A scenario under a policy, also one of those that are for tests. Nobody decides in user space
/// before [`start_user_half`].
///
/// # Panics
/// When there is no such policy.
pub fn faulty_scenario(name: impl Into<String>, policy: &str) -> Scenario {
    of_image(image::faulty(), name, policy)
}

/// A scenario as [`faulty_scenario`] of any image of level 1: one with a planted fault, for tests.
///
/// # Panics
/// When there is no such policy.
pub fn scenario_of(image: &'static [u8], name: impl Into<String>, policy: &str) -> Scenario {
    of_image(image, name, policy)
}

fn number_of(policy: &str) -> Result<u32> {
    metasched_abi::variant(FAULTY_POLICIES, policy).map(|(number, _)| number).ok_or_else(|| {
        Error::new(Kind::BadInput, format!("simulate '{policy}'"), "there is no such policy")
            .remedy(format!("known are {}", POLICIES.join(", ")))
    })
}

/// Puts a new root lane in force; fails the run if the program refuses.
pub fn replace_root(kernel: &mut Kernel, policy: &str) {
    succeeded(try_replace_root(kernel, policy), kernel, "replace_root");
}

/// Puts a new root lane in force as [`replace_root`] does; gives what the program returns.
///
/// # Panics
/// When there is no such policy.
pub fn try_replace_root(kernel: &mut Kernel, policy: &str) -> i32 {
    kernel.note(&format!("replace the root lane: {policy}"));
    let number = number_of(policy).unwrap_or_else(|e| panic!("{e}"));
    attempt(kernel, "replace_root", ReplaceArgs { variant: number })
}

/// Puts a lane in force for an application, its first or another one, with a weight that the
/// user gave; fails the run if the program refuses.
pub fn set_app(kernel: &mut Kernel, app: u32, policy: &str, weight: u32) {
    set_app_with(kernel, app, policy, (weight, true), &[]);
}

/// Puts a lane in force for an application as [`set_app`] does, with options by their numbers,
/// and with a weight that stays whatever `cpu.weight` says, if the second of the pair says so.
pub fn set_app_with(
    kernel: &mut Kernel,
    app: u32,
    policy: &str,
    weight: (u32, bool),
    options: &[(usize, u64)],
) {
    succeeded(try_set_app(kernel, app, policy, weight, options), kernel, "set_app");
}

/// Puts a lane in force as [`set_app_with`] does; gives what the program returns: 0, or a negative
/// error number.
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
    let variant = number_of(policy).unwrap_or_else(|e| panic!("{e}"));
    let mut args = AppArgs {
        app,
        variant,
        weight,
        weight_fixed: weight_fixed.into(),
        options: [OPTION_DEFAULT; LANE_OPTIONS_MAX],
    };
    for (number, value) in options {
        args.options[*number] = *value;
    }
    attempt(kernel, "set_app", args)
}

/// Changes an option of an application's lane in force, by its number; 0 is the root lane's
/// application.
pub fn set_option(kernel: &mut Kernel, app: u32, option: usize, value: u64) {
    succeeded(try_set_option(kernel, app, option, value), kernel, "set_lane");
}

/// Changes an option as [`set_option`] does; gives what the program returns.
pub fn try_set_option(kernel: &mut Kernel, app: u32, option: usize, value: u64) -> i32 {
    kernel.note(&format!("application {app}: option {option} is {value}"));
    attempt(
        kernel,
        "set_lane",
        LaneArgs { app, option: option as u32, value, ..Default::default() },
    )
}

/// Takes an application's lane away; its tasks go to the root lane.
pub fn drop_app(kernel: &mut Kernel, app: u32) {
    succeeded(try_drop_app(kernel, app), kernel, "drop_app");
}

/// Takes a lane away as [`drop_app`] does; gives what the program returns.
pub fn try_drop_app(kernel: &mut Kernel, app: u32) -> i32 {
    kernel.note(&format!("application {app} has no lane any more"));
    attempt(kernel, "drop_app", AssignArgs { app, ..Default::default() })
}

/// Assigns a cgroup to an application that has a lane.
pub fn assign(kernel: &mut Kernel, path: &str, app: u32) {
    succeeded(try_assign(kernel, path, app), kernel, "assign");
}

/// Assigns a cgroup as [`assign`] does; gives what the program returns.
pub fn try_assign(kernel: &mut Kernel, path: &str, app: u32) -> i32 {
    kernel.note(&format!("'{path}' is assigned to application {app}"));
    let cgroup = kernel.cgroup_id(path);
    let said = attempt(kernel, "assign", AssignArgs { cgroup, app, ..Default::default() });
    tell_assigned(kernel, said, cgroup, app);
    said
}

/// Undoes an assignment.
pub fn unassign(kernel: &mut Kernel, path: &str) {
    succeeded(try_unassign(kernel, path), kernel, "unassign");
}

/// Undoes an assignment as [`unassign`] does; gives what the program returns.
pub fn try_unassign(kernel: &mut Kernel, path: &str) -> i32 {
    kernel.note(&format!("'{path}' is not assigned any more"));
    let cgroup = kernel.cgroup_id(path);
    let said = attempt(kernel, "unassign", AssignArgs { cgroup, ..Default::default() });
    tell_assigned(kernel, said, cgroup, 0);
    said
}

/// Changes the weight of an application's lane in force.
pub fn set_weight(kernel: &mut Kernel, app: u32, weight: u32) {
    succeeded(try_set_weight(kernel, app, weight), kernel, "set_lane");
}

/// Changes a weight as [`set_weight`] does; gives what the program returns.
pub fn try_set_weight(kernel: &mut Kernel, app: u32, weight: u32) -> i32 {
    let option = LANE_OPTIONS_MAX as u32;
    attempt(kernel, "set_lane", LaneArgs { app, weight, weight_fixed: 1, option, value: 0 })
}

/// What weight a cgroup has left beside its siblings in its account, as policies read it.
pub fn weight_left(kernel: &mut Kernel, path: &str) -> u64 {
    let id = kernel.cgroup_id(path);
    let place = kernel.program("cgroup_number", [id, 0]).unwrap_or(0);
    kernel.program("cgroup_weight_left", [place as u64, 0]).unwrap_or(-1) as u64
}

/// What tasks directly in a cgroup have run, ns, as policies read it.
pub fn group_ran(kernel: &mut Kernel, path: &str) -> u64 {
    let id = kernel.cgroup_id(path);
    let place = kernel.program("cgroup_number", [id, 0]).unwrap_or(0);
    // struct group of meta/groups.bpf.h: whose the first state is, and what was measured.
    kernel.map_words("groups", place as u32).map_or(0, |words| words[1])
}

/// Takes back the marks of all queues: what a CPU leaves that stops for longer than a sweep between
/// an enqueue and its insert.
pub fn lose_marks(kernel: &mut Kernel) {
    let places = LANE_QUEUES_MAX * (kernel.machine.nr_llcs() + kernel.nr_cpus());
    for key in 0..LANES_MAX * (places / 32 + 1) {
        if let Some(word) = kernel.map_words("marks", key as u32) {
            word[0] = 0;
        }
    }
}

/// Level 1 takes it that it had to give a CPU a task of the application's lane, past its policy.
pub fn rescued(kernel: &mut Kernel, app: u32) {
    let lane = lanes(kernel).into_iter().find(|l| l.is_apps() && l.app == app);
    match (kernel.image().required("lanes"), lane) {
        // SAFETY: the program has LANES_MAX of them, and the slot is one that was found there. The
        // program does not run while the kernel is borrowed.
        (Ok(all), Some(l)) => unsafe {
            (*all.cast::<MetaLane>().add(l.slot as usize)).rescues += 1;
        },
        (Err(error), _) => kernel.fail("lanes", error.to_string()),
        (_, None) => kernel.fail("lanes", format!("application {app} has none")),
    }
}

/// How many lanes were put in quarantine.
pub fn quarantined(kernel: &mut Kernel) -> u64 {
    global(kernel, "quarantined")
}

/// What a global of the program holds, where it stands.
fn global_ref<'a, T: FromBytes>(kernel: &'a Kernel, name: &str) -> Result<&'a T> {
    let at = kernel.image().required(name)?;
    // SAFETY: whoever asks takes name and type from the same header of the program, and whatever
    // bytes there are, they are a T. The program does not run while the kernel is borrowed.
    Ok(unsafe { &*at.cast::<T>() })
}

/// What a global of the program holds; fails the run where it has none of that name.
fn global<T: FromBytes + Copy>(kernel: &mut Kernel, name: &str) -> T {
    match global_ref(kernel, name).copied() {
        Ok(value) => value,
        Err(error) => {
            kernel.fail(name, error.to_string());
            T::new_zeroed()
        }
    }
}

/// What a program returns that is not there any more.
const ENODEV: i32 = -19;

/// Calls a program that may change lanes, and tells the checkers of them.
fn attempt<A>(kernel: &mut Kernel, program: &str, mut args: A) -> i32 {
    if kernel.loaded().is_none() {
        return ENODEV;
    }
    let at = std::ptr::from_mut(&mut args) as u64;
    let said = kernel.program(program, [at, 0]).unwrap_or_else(|error| {
        kernel.fail(program, error.to_string());
        0
    });
    tell_lanes(kernel);
    user::start_with_a_lane(kernel);
    said
}

/// Tells the checkers to which application a cgroup belongs now. What a program says yes to while it is being
/// unloaded goes with it: the next one knows nothing of it.
fn tell_assigned(kernel: &mut Kernel, said: i32, cgroup: u64, app: u32) {
    if said == 0 && kernel.stays() {
        kernel.observe(0, None, What::Assign { cgroup, app });
    }
}

/// Tells the checkers how lanes stand.
pub fn tell_lanes(kernel: &mut Kernel) {
    if kernel.stays() {
        let seen: Rc<[LaneSeen]> = lanes(kernel).iter().map(|lane| lane.seen).collect();
        kernel.audience.lanes_told = seen.clone();
        kernel.observe(0, None, What::Lanes(seen));
    }
}

/// Tells of the lanes where they stand otherwise than they did: after a timer, which may have begun
/// a turn or put a lane in quarantine. That is after each sweep, so nothing is copied to see it.
fn tell_lanes_if_changed(kernel: &mut Kernel) {
    let told = kernel.audience.lanes_told.clone();
    let told = told.iter().map(|l| (l.slot, l.generation, l.state as u32, l.quarantined, l.served));
    let as_told = |all: &[MetaLane; LANES_MAX]| {
        let live = (0..).zip(all).filter(|(_, l)| l.state != LaneState::Free as u32);
        live.map(|(slot, l)| (slot, l.lane.generation, l.state, l.quarantined != 0, l.served != 0))
            .eq(told)
    };
    // Where lanes cannot be read, that is said by whoever reads all of them.
    if !global_ref(kernel, "lanes").is_ok_and(as_told) {
        tell_lanes(kernel);
    }
}

/// Fails the run where a program said anything but 0.
fn succeeded(said: i32, kernel: &mut Kernel, program: &str) {
    if said != 0 {
        kernel.fail(program, format!("the program returned {said}"));
    }
}

/// Moves lanes on in their life, as the loader does from time to time; gives how
/// many are not done with.
pub fn reap(kernel: &mut Kernel) -> i32 {
    if kernel.loaded().is_none() {
        return 0;
    }
    let before = lanes(kernel);
    // A callback takes no time in the model, so that every grace period is over at once, and
    // the reaper goes on while there is something to gain. One is over with each ns.
    let mut graces = kernel.now();
    let left = loop {
        let left = attempt(kernel, "reap", ReapArgs { graces });
        if left <= 0 || global::<u32>(kernel, "reap_waits") == 0 {
            break left;
        }
        graces += 1;
    };
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
            let kept = metasched_abi::WaitHistogram::read_from_bytes(of_cpu.as_bytes());
            all.merge(&(&kept.expect("the map holds such")).into());
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
    let found = live_lanes(kernel);
    found.unwrap_or_else(|error| {
        kernel.fail("lanes", error.to_string());
        Vec::new()
    })
}

fn live_lanes(kernel: &Kernel) -> Result<Vec<LaneInfo>> {
    let one_node = kernel.machine.nr_nodes() == 1;
    let all: &[MetaLane; LANES_MAX] = global_ref(kernel, "lanes")?;
    let accounts: &[Account; ACCOUNTS_MAX] = global_ref(kernel, "accounts")?;
    let info = |(slot, l): (usize, &MetaLane)| {
        let state = LaneState::try_from(l.state).expect("one that meta/types.h declares");
        let account = &accounts[l.account as usize];
        let seen = LaneSeen {
            slot: slot as u32,
            generation: l.lane.generation,
            policy: l.lane.policy,
            state,
            app: l.account,
            given: (account.weight_fixed != 0).then_some(account.weight),
            quarantined: l.quarantined != 0,
            served: l.served != 0,
            conserves: conserves(l, one_node),
        };
        let (first_run_ns, runtime_ns, rescues) = (l.first_run_ns, l.runtime_ns, l.rescues);
        let (weight, kicks) = (account.weight, account.kicks);
        let info = LaneInfo { seen, first_run_ns, runtime_ns, weight, kicks, rescues };
        (state != LaneState::Free).then_some(info)
    };
    Ok(all.iter().enumerate().filter_map(info).collect())
}

/// Whether a lane's policy leaves no CPU idle beside tasks that may run there: [`PAIR`] does, and
/// [`RUSTY`] where a domain's tasks are not taken from the first on.
fn conserves(l: &MetaLane, one_node: bool) -> bool {
    let policy = &FAULTY_POLICIES[l.lane.policy as usize];
    let is_one = |name: &str| {
        let place = policy.options.iter().position(|option| option.name == name);
        place.is_some_and(|place| l.lane.options[place] == 1)
    };
    match policy.name {
        PAIR => false,
        RUSTY => is_one("greedy_threshold") && (one_node || is_one("greedy_threshold_x_numa")),
        _ => true,
    }
}

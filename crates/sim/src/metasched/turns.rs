//! Turns in the simulator.

use super::{attempt, global, number_of, succeeded};
use crate::kernel::Kernel;
use metasched_abi::{Cycle, CycleArgs, TurnArgs};

/// Has the root's share go through those policies, each for so many ns at a time; fails
/// the run if the program refuses.
///
/// # Panics
/// When there is no such policy.
pub fn start_turns(kernel: &mut Kernel, turns: &[(&str, u64)]) {
    succeeded(try_start_turns(kernel, turns), kernel, "start_turns");
}

/// Starts turns as [`start_turns`] does; gives what the program returns.
///
/// # Panics
/// When there is no such policy.
pub fn try_start_turns(kernel: &mut Kernel, turns: &[(&str, u64)]) -> i32 {
    kernel.note(&format!("turns: {turns:?}"));
    let mut args = CycleArgs { turns: turns.len() as u32, ..Default::default() };
    for (arg, (policy, length_ns)) in args.turn.iter_mut().zip(turns) {
        let variant = number_of(policy).unwrap_or_else(|e| panic!("{e}"));
        *arg = TurnArgs { variant, length_ns: *length_ns, ..Default::default() };
    }
    attempt(kernel, "start_turns", args)
}

/// No turns any more; the lane in force stays.
pub fn stop_turns(kernel: &mut Kernel) {
    succeeded(try_stop_turns(kernel), kernel, "stop_turns");
}

/// Stops turns as [`stop_turns`] does; gives what the program returns.
pub fn try_stop_turns(kernel: &mut Kernel) -> i32 {
    kernel.note("no turns any more");
    attempt(kernel, "stop_turns", ())
}

/// What has become of the turns.
pub fn cycle(kernel: &mut Kernel) -> Cycle {
    global(kernel, "cycle")
}

//! Turns in the simulator: the timer that ends them, late by chance as a real one.

use super::{attempt, number_of, succeeded, tell_lanes};
use crate::kernel::{Kernel, TIMER_LATEST_NS};
use std::sync::Arc;

/// `TURNS_MAX` of `meta/types.h`.
const TURNS_MAX: usize = 16;

/// `struct sim_cycle` of `seam/metasched.c`: the books of a cycle.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Cycle {
    /// Turns of the cycle; 0 if none are taken.
    pub turns: u64,
    /// Turns that have begun.
    pub begun: u64,
    /// Changes of lanes.
    pub changes: u64,
    /// The latest that a turn began, ns.
    pub late_max_ns: u64,
    /// For how long each turn of the cycle has been in force, ns; the last round's part of
    /// the present turn comes when it ends.
    pub in_force_ns: [u64; TURNS_MAX],
}

/// Has the root's share go through those policies, each for so many ns at a time; fails
/// the run if the program refuses.
///
/// # Panics
/// When there is no such policy.
pub fn start_turns(kernel: &mut Kernel, turns: &[(&str, u64)]) {
    let said = try_start_turns(kernel, turns);
    succeeded(kernel, "sim_start_turns", Ok(said));
}

/// The same; gives what the program returns.
///
/// # Panics
/// When there is no such policy.
pub fn try_start_turns(kernel: &mut Kernel, turns: &[(&str, u64)]) -> i32 {
    kernel.note(&format!("turns: {turns:?}"));
    let words: Vec<u64> = turns
        .iter()
        .flat_map(|(policy, ns)| [number_of(policy).unwrap_or_else(|e| panic!("{e}")).into(), *ns])
        .collect();
    let said = attempt(kernel, "sim_start_turns", [words.as_ptr() as u64, turns.len() as u64]);
    if said == 0 {
        turn_later(kernel);
    }
    said
}

/// No turns any more; the lane in force stays.
pub fn stop_turns(kernel: &mut Kernel) {
    let said = try_stop_turns(kernel);
    succeeded(kernel, "sim_stop_turns", Ok(said));
}

/// The same; gives what the program returns.
pub fn try_stop_turns(kernel: &mut Kernel) -> i32 {
    kernel.note("no turns any more");
    attempt(kernel, "sim_stop_turns", [0, 0])
}

/// What has become of the turns.
pub fn cycle(kernel: &mut Kernel) -> Cycle {
    let mut cycle = Cycle::default();
    let at = std::ptr::from_mut(&mut cycle) as u64;
    if let Err(error) = kernel.program("sim_read_cycle", [at, 0]) {
        kernel.fail("cycle", error.to_string());
    }
    cycle
}

/// When the program's timer expires next.
fn due(kernel: &mut Kernel) -> Option<u64> {
    match kernel.image().required("sim_turn_due_ns") {
        Ok(at) => Some(unsafe { *at.cast::<u64>() }),
        Err(error) => {
            kernel.fail("turns", error.to_string());
            None
        }
    }
}

/// The timer expires, unless it was set anew meanwhile.
fn turn_later(kernel: &mut Kernel) {
    let Some(set) = due(kernel) else { return };
    let late = kernel.random().within(0, TIMER_LATEST_NS);
    let load = kernel.loaded();
    kernel.act_at(
        set + late,
        Arc::new(move |kernel| {
            if kernel.loaded() != load || due(kernel) != Some(set) {
                return;
            }
            let result = kernel.timer("sim_turn");
            succeeded(kernel, "sim_turn", result);
            tell_lanes(kernel);
            if due(kernel) != Some(set) {
                turn_later(kernel);
            }
        }),
    );
}

//! Turns that the kernel takes by a timer: started, stopped, and their books read.

use std::os::fd::AsFd;
use std::time::Duration;

use metasched_abi::{IntoBytes, LaneTurn, TURN_SETTLES_NS, TURNS_KEPT, cycle_args};
use metasched_base::{Error, Kind, Result};
use nix::errno::Errno;

use crate::policy::policies;
use crate::program::Program;
use crate::skel::metasched::types;
use crate::syscalls::run_program;

/// Where turns are as long as this in the mean, lanes are put aside between their turns.
pub const LONG_TURN: Duration = Duration::from_nanos(TURN_SETTLES_NS);

/// What has become of a cycle of turns. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnFigures {
    /// Turns that were begun.
    pub begun: u64,
    /// Changes of lanes: fewer than turns where neighbours have the same policy.
    pub changes: u64,
    /// What those took in the kernel, in all.
    pub changing_ns: u64,
    /// How late turns began, in all.
    pub late_sum_ns: u64,
    /// How late the latest one began.
    pub late_max_ns: u64,
    /// The turn of the cycle that is in force.
    pub current: usize,
    /// For how long each turn of the cycle was in force, over all rounds. The present
    /// turn's part comes when it ends.
    pub in_force_ns: Vec<u64>,
    /// When the turn in force ends, `CLOCK_MONOTONIC`.
    pub due_ns: u64,
    /// The latest turns, oldest first, at most 32.
    pub latest: Vec<BegunTurn>,
}

/// A turn that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BegunTurn {
    /// How many came before it.
    pub number: u64,
    /// When, `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// How late.
    pub late_ns: u64,
    /// What the change of lanes took; 0 if there was none to make.
    pub changing_ns: u64,
}

/// Refuses what cannot be a cycle: no turn, too many, too short or too long ones, unknown
/// policies.
///
/// # Errors
/// `BadInput`, with what can be.
pub fn check_turns(turns: &[LaneTurn]) -> Result<()> {
    cycle_args(policies(), turns).map(drop)
}

impl Program {
    /// Has the root lane's share go through those policies, round and round, until turns
    /// are stopped or the root lane is replaced. The first one begins at once.
    ///
    /// # Errors
    /// `BadInput` for an unknown policy, no turn, too many, too short or too long
    /// ones; `Busy` while there are not slots enough for their lanes; `SchedulerExit` if the
    /// program has left the kernel.
    pub fn start_turns(&mut self, turns: &[LaneTurn]) -> Result<()> {
        let args = cycle_args(policies(), turns)?;
        let attempt = || "take turns".to_owned();
        for turn in turns {
            self.held.number_of(&turn.policy, attempt)?;
        }
        self.turn_call(&self.programs().start_turns, args.as_bytes(), attempt)
    }

    /// Ends the turns: the lane whose turn it is stays in force, the others are served
    /// until they are empty and then freed. What became of the turns, to their end.
    ///
    /// # Errors
    /// `SchedulerExit` if the program has left the kernel.
    pub fn stop_turns(&mut self) -> Result<TurnFigures> {
        self.turn_call(&self.programs().stop_turns, &[], || "end the turns".to_owned())?;
        Ok(figures(&self.variables().cycle()))
    }

    /// What has become of the turns so far. To be called once a turn where these are
    /// long: it has lanes put aside that are empty until their next turn, so that the
    /// lane in force runs as if it were alone.
    pub fn look_at_turns(&self) -> TurnFigures {
        let cycle = self.variables().cycle();
        if cycle.settles != 0 {
            self.reaper.wake();
        }
        figures(&cycle)
    }

    fn turn_call(
        &self,
        program: &impl AsFd,
        args: &[u8],
        attempt: impl Fn() -> String,
    ) -> Result<()> {
        let one_caller = self.lock.lock().unwrap_or_else(|e| e.into_inner());
        let status = run_program(program.as_fd(), args);
        drop(one_caller);
        // Also when it failed: it may have made some lanes by then.
        self.reaper.wake();
        self.accept(status, &attempt, |errno| {
            let cause = "there is no slot left for a lane of each policy";
            let full = || Error::new(Kind::Busy, attempt(), cause);
            (errno == Errno::ENOSPC).then(|| full().remedy("have fewer lanes of applications"))
        })
    }
}

/// The books of a cycle. It is read while it may be written: what was written over
/// meanwhile bears another number.
fn figures(cycle: &types::cycle) -> TurnFigures {
    const KEPT: u64 = TURNS_KEPT as u64;
    let numbers = cycle.begun.saturating_sub(KEPT)..cycle.begun;
    let latest = numbers.filter_map(|number| {
        let begun = cycle.latest[(number % KEPT) as usize];
        let types::begun_turn { at_ns, late_ns, changing_ns, .. } = begun;
        (begun.number == number).then_some(BegunTurn { number, at_ns, late_ns, changing_ns })
    });
    let turns = cycle.turn.iter().take_while(|turn| turn.length_ns != 0);
    TurnFigures {
        begun: cycle.begun,
        changes: cycle.changes,
        changing_ns: cycle.changing_ns,
        current: cycle.current as usize,
        late_sum_ns: cycle.late_sum_ns,
        late_max_ns: cycle.late_max_ns,
        in_force_ns: turns.map(|turn| turn.in_force_ns).collect(),
        due_ns: cycle.due_ns,
        latest: latest.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_that_were_written_over_are_not_told_of() {
        let mut cycle = types::cycle { begun: 40, ..Default::default() };
        for number in 8..40 {
            cycle.latest[number as usize % 32].number = number;
        }
        cycle.latest[9].number = 41;
        let told: Vec<u64> = figures(&cycle).latest.iter().map(|t| t.number).collect();
        assert_eq!(told, (8..40).filter(|n| *n != 9).collect::<Vec<_>>());
        cycle.turn[..2].iter_mut().for_each(|turn| turn.length_ns = 1);
        assert_eq!(figures(&cycle).in_force_ns.len(), 2);
    }
}

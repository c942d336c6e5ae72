//! The program's variables.

use std::ptr;

use metasched_abi::{LANES_MAX, LIMITS_MAX, LaneState, UserLane};
use metasched_base::{Error, Kind, Result};

use crate::skel::metasched::{MetaschedSkel, types};

/// The variables, mapped; shared with the kernel, so read one at a time.
#[derive(Clone, Copy)]
pub(crate) struct Variables(pub(crate) *const types::bss);

// SAFETY: it is read through volatile reads only, and the mapping lives as long as
// the Program, which ends the reaper's thread before it goes.
unsafe impl Send for Variables {}

macro_rules! variable {
    ($vars:expr, $($field:tt)+) => {
        // SAFETY: the mapping is there as long as the program; the kernel may write
        // at any time, hence the volatile read of a plain number.
        unsafe { std::ptr::read_volatile(std::ptr::addr_of!((*$vars.0).$($field)+)) }
    };
}
pub(crate) use variable;

impl Variables {
    /// Those of a program that is loaded.
    pub(crate) fn of(skel: &MetaschedSkel<'static>) -> Self {
        Self(ptr::from_ref(skel.maps.bss_data.as_deref().expect("the program has variables")))
    }

    /// How many lanes wait for a grace period, as the last reap() left them.
    pub(crate) fn reap_waits(self) -> u32 {
        variable!(self, reap_waits)
    }

    /// Where the lane in a slot is in its life.
    ///
    /// # Errors
    /// `Failed` for a number that `enum lane_state` does not have.
    pub(crate) fn lane_state(self, slot: usize) -> Result<LaneState> {
        known_state(slot, variable!(self, lanes[slot].state))
    }

    /// An entry of the list of lanes in quarantine.
    pub(crate) fn quarantine(self, at: usize) -> types::quarantine {
        variable!(self, quarantines[at])
    }

    /// The limits, with places that are free, and how many had none.
    pub(crate) fn limits(self) -> (Vec<types::limit>, u64) {
        let used = (variable!(self, limits_used) as usize).min(LIMITS_MAX);
        let limits = (0..used).map(|at| variable!(self, limits[at])).collect();
        (limits, variable!(self, limits_refused))
    }

    /// The turns that are taken, as they stand at this moment.
    pub(crate) fn cycle(self) -> types::cycle {
        variable!(self, cycle)
    }

    /// What is counted of the half in user space of a slot's lane.
    pub(crate) fn user_lane(self, slot: usize) -> UserLane {
        let types::user_lane { told, untold, taken, late, stale, wrong, .. } =
            variable!(self, user_lanes[slot % LANES_MAX]);
        UserLane { told, untold, taken, late, stale, wrong, ..Default::default() }
    }

    /// How many lanes were put in quarantine.
    pub(crate) fn quarantined(self) -> u64 {
        variable!(self, quarantined)
    }

    /// The slot of the root lane.
    pub(crate) fn root(self) -> usize {
        variable!(self, root_word) as usize % LANES_MAX
    }
}

fn known_state(slot: usize, number: u32) -> Result<LaneState> {
    LaneState::try_from(number).map_err(|number| {
        let cause = format!("it is {number}, and meta/types.h has no such state");
        Error::new(Kind::Failed, format!("read the state of lane {slot}"), cause)
            .remedy("the program and this command are of different builds: report how that came")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_is_not_known_is_no_free_lane() {
        assert_eq!(known_state(3, LaneState::Draining as u32).unwrap(), LaneState::Draining);
        let e = known_state(3, 99).unwrap_err();
        assert_eq!(e.kind, Kind::Failed);
        assert!(e.to_string().contains("lane 3") && e.to_string().contains("99"), "{e}");
    }
}

//! Timers of lanes, which level 1 sets for its policies.

use super::{K, kernel};
use std::sync::Arc;

/// The timer of the lane in that slot expires in so many ns, unless it is set anew meanwhile:
/// the program knows by how often it has been set. It goes with its program.
pub(super) extern "C" fn lane_timer(k: K, slot: u64, time: u64, ns: u64) {
    let kernel = kernel(k);
    let load = kernel.loaded();
    kernel.act_at(
        kernel.now() + ns,
        Arc::new(move |kernel| {
            if kernel.loaded() != load {
                return;
            }
            if let Err(error) = kernel.timer_of("sim_lane_timer", [slot, time]) {
                kernel.fail("sim_lane_timer", error.to_string());
            }
        }),
    );
}

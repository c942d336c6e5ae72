//! A bed for scenarios: they are replayed with real threads on the machine that this runs on; and
//! what the simulator's model of a machine needs to know of it.
//!
//! [`Replayable`] says what of a scenario can be replayed; a [`Replay`] has its cgroups and runs it;
//! [`Replayed`] are the figures, the same as the simulator's; [`ReplayRuns`] is what an experiment runs. [`calibrate()`] measures costs.

mod bed;
mod calibrate;
mod cgroups;
mod clock;
mod counters;
mod events;
mod figures;
mod futex;
mod lanes;
mod replay;
mod replayable;
mod shared;
mod threads;
mod worker;

pub use bed::ReplayRuns;
pub use calibrate::{Calibration, Lateness, Measured, calibrate};
pub use figures::{Replayed, ReplayedGroup};
pub use replay::Replay;
pub use replayable::Replayable;

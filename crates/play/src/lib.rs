//! Scenarios of the simulator, played with real threads on the machine that this runs on, and
//! what the simulator's model of a machine needs to know of it.
//!
//! [`Plan`] says what of a scenario can be played; a [`Stage`] has its cgroups and plays it;
//! [`Played`] are the figures, the same as the simulator's. [`calibrate()`] measures costs.

mod calibrate;
mod clock;
mod counters;
mod crew;
mod events;
mod futex;
mod lanes;
mod plan;
mod player;
mod shared;
mod stage;

pub use calibrate::{Calibration, Lateness, Measured, calibrate};
pub use plan::Plan;
pub use stage::{Played, PlayedGroup, Stage};

//! What a scheduler does while it does it, under any scheduler.
//!
//! A [`Recorder`] records how long tasks wait for a CPU, and makes a [`Recording`] of it, two of
//! which are held against each other by a [`Difference`]. [`Following`] follows a process and
//! all that it forks. An [`OverheadMeter`] measures what scheduling itself costs. [`Looks`] looks at
//! lanes or cgroups again and again. [`vms`] tells virtual machines of their CPUs. What is in force is asked of the kernel and of the keeper by
//! [`in_force`].

mod bars;
mod difference;
mod following;
mod force;
mod lanes;
mod looking_cost;
mod looks;
mod overhead;
mod recorder;
mod recording;
mod tasks;
pub mod vms;
mod whom;

pub use bars::{Bar, bars};
pub use difference::{Compared, Difference, Ratio};
pub use following::{Following, PROCESS_FIGURES};
pub use force::{Force, in_force};
pub use lanes::{LANE_FIGURES, LaneRow, lane_rows};
pub use looking_cost::LookingCost;
pub use looks::{Look, Looks, ROW_FIGURES, Row};
pub use overhead::{OVERHEAD_FIGURES, Overhead, OverheadMeter, OverheadRow};
pub use recorder::Recorder;
pub use recording::{Piece, Recording, Subject};
pub use tasks::{TASK_FIGURES, Task, Tasks};
pub use whom::{DEFAULT_LANE, Whom};

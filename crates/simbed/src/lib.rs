//! The simulator as a bed: scenarios under policies, lanes and turns, with as many seeds as it
//! takes, on as many CPUs as this machine has.
//!
//! [`ScenarioBed`] is what an experiment measures on, and [`Tuning`] one that ends
//! with a recommendation; [`Comparison`] has more figures of a
//! scenario than those that decide.

mod arrangement;
mod bed;
mod calls;
mod comparison;
mod fleet;
mod parallel;
mod report;
mod runs;
mod setup;
mod tuning;

pub use arrangement::{Arrangement, CgroupLane, Form, LANES, distinct};
pub use bed::{AgainAlone, ScenarioBed, Simulated};
pub use calls::Calls;
pub use comparison::{Comparison, Metric, Ratio, name, rounded, version};
pub use fleet::{Fleet, FleetEntry, FleetReport, Placed, Verdict};
pub use parallel::each;
pub use report::{Entry, GroupEntry, Report, Spread};
pub use runs::{Again, Group, Run, Runner, Seeds, Steps, failed, one};
pub use setup::Setup;
pub use tuning::{Tuning, Ways};

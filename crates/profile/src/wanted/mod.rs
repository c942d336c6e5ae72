//! Who is to have which scheduler, or which lane: by a plan, a file of rules, or what a user says.

mod file;
mod lanes;
mod shares;

pub use lanes::{AppCgroup, Wanted};
pub use shares::{PlannedShare, PlannedShares, TurnSpec};

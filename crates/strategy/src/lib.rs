//! The published weights, the choice of a scheduler, the search for a base
//! timeslice: pure functions.
//!
//! "The paper" is always B. Doney, "Improving Performance with Metaschedulers".
//! A *part* is an application, or a part of one, that is measured alone; a *turn*
//! is the time for which a part's preferred scheduler is in force.

mod choose;
mod error;
pub mod tune;
mod turns;
mod weights;

pub use choose::{
    Assessment, CandidateRounds, Choice, ChooseOptions, Objective, Outcome, Round, Sample, Verdict,
    WORTHWHILE_GAIN, assess, choose,
};
pub use error::StrategyError;
pub use turns::{expected_ratio, lane_weights, rounded, switching_share, timeslices};
pub use weights::{AppFigures, BenefitForm, Strategy, all_weights, weights};

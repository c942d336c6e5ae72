//! One experiment, whatever it is made on: contenders over subjects in interleaved rounds give
//! paired ratios; these give what each part prefers, the published weights, the search for the
//! best way to run the preferred schedulers together, and one recommendation.
//!
//! It touches no kernel, no file and no application: a [`Bed`] does, and [`SeededBed`] is that of
//! whatever runs a scenario.
//!
//! "The paper" is always B. Doney, "Improving Performance with Metaschedulers".
//! A *part* is an application, or a part of one, that is measured alone; a *turn*
//! is the time for which a part's preferred scheduler is in force.

mod bed;
mod choose;
mod contender;
mod cycle;
mod descent;
mod error;
mod objective;
mod part_weights;
mod plan;
mod race;
mod ratio;
mod recommend;
mod rounds;
mod search;
mod seeded;
mod settle;
pub mod timeslice;
mod turns;
mod weights;

pub use bed::{Bed, Effort};
pub use choose::{
    Assessment, CandidateRounds, Choice, ChooseOptions, Outcome, Verdict, WORTHWHILE_GAIN, assess,
    choose,
};
pub use contender::{Contender, Share, in_hundredths};
pub use cycle::{Cycle, PartTurn, cycle, side_by_side};
pub use descent::{Coordinate, Descent, FormPoint, FormRounds, Point, Step};
pub use error::StrategyError;
pub use objective::{Objective, Round, Sample};
pub use part_weights::PartWeights;
pub use plan::{
    AppPlan, Confidence, Estimate, ExpectedRatio, Measured, PUBLISHED_BASE_SLICE, Part, Plan,
    PlanOptions, TableRow, Whole, WholePlan, plan,
};
pub use race::{Dropped, losers};
pub use ratio::{Ratio, change, ratios};
pub use recommend::Recommendation;
pub use rounds::{Need, Rules, need};
pub use search::{BestSlices, Lanes, Mechanism, Over, Row, SearchOptions, Searches, Tuned, over};
pub use seeded::{About, Counts, GroupRun, Runs, SeededBed, SeededRun, WHOLE, Work, per_second};
pub use settle::{affordable, settle, suffices};
pub use turns::{expected_ratio, lane_weights, rounded, switching_share, timeslices};
pub use weights::{AppFigures, BenefitForm, Strategy, weights};

/// The seed of all resampling. A constant, so that the same rounds give the same intervals to
/// the last digit; another would move bounds by a thousandth or so.
pub const SEED: u64 = 1;

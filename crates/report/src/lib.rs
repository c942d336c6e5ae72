//! What the store says, and the page that shows it.
//!
//! [`Analysis`] reads one workload's measurements out of the store and turns them
//! into ratios with intervals; [`Plan`] is what follows from them: preferred
//! schedulers, weights, time slices. [`page`] writes all of it as one
//! self-contained HTML file.

mod analysis;
#[cfg(test)]
mod fixture;
mod page;
mod plan;
mod turns;

pub use analysis::{
    Analysis, Baseline, CandidateFigures, Composition, FormFigures, Mode, Over, Ratio,
    StrategyFigures, analyse, composition,
};
pub use page::{Bar, Bench, Curve, CurveLine, Figure, Gantt, Lane, curve, gantt, page};
pub use plan::{AppPlan, Confidence, Estimate, ExpectedRatio, Plan, PlanOptions, TableRow, plan};
pub use turns::{Cycle, PartTurn, cycle, side_by_side};

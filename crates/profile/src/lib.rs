//! Real applications as a bed: runs workloads under candidates, keeps what was measured in a
//! store, and says what the store holds.

mod analysis;
mod bed;
mod figures;
pub mod manifest;
pub mod measure;
mod measurement;
mod plan;
mod profile;
pub mod runner;
mod runs;
mod store;
mod subject;
pub mod wanted;

pub(crate) use metasched_base::{Error, Kind, ResultExt};

pub use analysis::{
    ACTIVITY_FIGURES, Activity, Analysis, Baseline, CandidateFigures, Composition, Declared,
    FormFigures, SideFigures, StrategyFigures, analyse, candidate_rounds,
};
pub use bed::{WorkloadBed, cgroups_of, subject};
pub use figures::{LoadFigures, PartFigures, Parts};
pub use measurement::{
    Environment, Failure, Measurement, PairedFigures, RunKind, Series, SeriesKey, Session,
};
pub use plan::{planned, read_plan};
pub use profile::{Profile, profile, random_seed};
pub use runs::{Runs, Tried, Warning, warnings};
pub use store::{NewMeasurement, Query, Store, default_path};
pub use subject::{BASELINE, Subject, TurnShare};

//! Paired ratios, bootstrap intervals, percentiles: pure functions.
//!
//! Everything here is a function of its arguments alone: the resampling takes
//! its seed from the caller, so that a report can be written again to the byte.

mod blocks;
mod durations;
mod histogram;
mod interval;
mod log2;
mod ratio;
mod recordings;
mod sample;
mod shares;
mod waits;

pub use blocks::BlockNoise;
pub use durations::DurationHistogram;
pub use histogram::{LatencyHistogram, Percentiles, weighted_percentile};
pub use interval::{CONFIDENCE, Interval};
pub use log2::Log2Histogram;
pub use ratio::{
    PairedRatio, Tails, holm, paired_estimate, paired_p_value, paired_ratio, paired_ratio_at,
    paired_tails,
};
pub use recordings::{PIECES_LEAST, compare_waits, whole};
pub use sample::{
    coefficient_of_variation, geometric_mean, mean, median, median_interval, percentile, std_dev,
};
pub use shares::{Claim, Debt, FairShares, Had, parts_by_cgroup};
pub use waits::{RunLengths, WaitHistogram};

//! What every crate shares: one error type that always says what was attempted,
//! why it failed and what to do; interruption by signals; progress of long steps.

mod error;
mod interrupt;
mod nearest;
mod place;
mod progress;
mod units;

pub use error::{Error, Kind, Result, ResultExt};
pub use interrupt::Interrupt;
pub use nearest::{did_you_mean, nearest};
pub use place::Place;
pub use progress::Progress;
pub use units::{brief_time, format_duration, parse_duration};

//! What every crate shares: one error type that always says what was attempted,
//! why it failed and what to do; interruption by signals; progress of long steps; and how what users
//! write is read.

mod cache;
mod cpus;
mod error;
mod figure;
mod interrupt;
mod nearest;
mod pair;
mod place;
mod progress;
mod units;

pub use cache::cache_root;
pub use cpus::{format_cpu_list, parse_cpu_list};
pub use error::{Error, Kind, OURS_BESIDE_A_COMMAND, Result, ResultExt, passed_on};
pub use figure::{Figure, Unit, document};
pub use interrupt::Interrupt;
pub use nearest::{meant, nearest};
pub use pair::parse_pair;
pub use place::Place;
pub use progress::Progress;
pub use units::{brief_time, change, format_duration, parse_duration, percent, timestamp};

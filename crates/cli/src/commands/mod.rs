//! One file per command; `keeper.rs`, `percent.rs` and `strategies.rs` are what several share.

pub mod assign;
pub mod completions;
pub mod doctor;
pub mod explain;
pub mod guard;
pub mod keep;
pub mod keeper;
pub mod lane;
pub mod lanes;
pub mod list;
pub mod man;
pub mod percent;
pub mod plan;
pub mod profile;
pub mod record;
pub mod report;
pub mod run;
pub mod sim;
pub mod start;
pub mod status;
pub mod stop;
pub mod strategies;
pub mod switch;
pub mod tune;
pub mod unassign;
pub mod vm;

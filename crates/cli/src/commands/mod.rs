//! One file per command; `keeper.rs`, `percent.rs` and `strategies.rs` are what several share.

pub mod completions;
pub mod decide;
pub mod doctor;
pub mod exec;
pub mod guard;
pub mod keep;
pub mod keeper;
pub mod lane;
pub mod list;
pub mod load;
pub mod man;
pub mod percent;
pub mod plan;
pub mod profile;
pub mod record;
pub mod report;
pub mod rules;
pub mod run;
pub mod sim;
pub mod start;
pub mod status;
pub mod stop;
pub mod strategies;
pub mod switch;
pub mod tune;
pub mod vm;

//! One file per command.

pub mod completions;
pub mod doctor;
pub mod guard;
pub mod keep;
pub mod list;
pub mod man;
pub mod plan;
pub mod profile;
pub mod report;
pub mod run;
pub mod start;
pub mod status;
pub mod stop;
pub mod switch;
pub mod tune;
pub mod vm;

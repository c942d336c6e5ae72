//! Runs a workload: prepares it, starts its processes, loads it, and leaves none behind.

mod application;
mod both;
mod groups;
mod http;
mod load;
mod prepare;
mod readers;
mod site;
mod step;
mod tracer;

pub use application::Application;
pub use both::Started;
pub(crate) use groups::top;
pub use groups::{Cgroups, Group, Groups, Usage, cgroup_name};
pub use load::{Observe, RunResult};
pub use prepare::{Prepared, prepare, stage};
pub use site::Site;
pub(crate) use step::interrupted;

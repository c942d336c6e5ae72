//! `metasched sim calibrate`: what the model has to know of this machine.

use std::path::PathBuf;

use metasched_base::{Kind, Result, ResultExt};
use metasched_control::under;

use crate::context::Context;

/// Measures what the simulator has to know of this machine: its CPUs and what its kernel takes.
///
/// Takes some seconds, in which the machine should do nothing else. The file that it writes is
/// a machine for 'metasched sim SCENARIO.toml --machine FILE.toml'; its lines can stand in a
/// scenario as well. Costs hold those of the scheduler under which they are measured.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Measure under this scheduler, which is stopped again; else under that which is in force
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,
    /// Write the machine to this file
    #[arg(long, value_name = "FILE.toml")]
    out: Option<PathBuf>,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let calibration = under(args.policy.as_deref(), "metasched sim calibrate", |in_force| {
        metasched_replay::calibrate(&in_force.name, &context.interrupt)
    })?;
    let text = calibration.to_toml();
    if let Some(path) = &args.out {
        std::fs::write(path, &text)
            .attempt(Kind::Failed, || format!("write '{}'", path.display()))?;
    }
    context.print(&calibration, |_| text)?;
    Ok(0)
}

//! `metasched decide`: started by metasched itself, never by hand.

use metasched_base::Result;

use crate::context::Context;

/// Decides for policies that have a half in user space (internal).
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Carries the command out; the value is the process's exit status.
pub fn run(_args: &Args, context: &Context) -> Result<u8> {
    metasched_control::decider_main(&context.interrupt)?;
    Ok(0)
}

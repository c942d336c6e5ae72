//! `metasched guard`: started by metasched itself, never by hand.

use metasched_base::Result;

use crate::context::Context;

/// Stands guard over another metasched (internal).
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Carries the command out; the value is the process's exit status.
pub fn run(_args: &Args, _context: &Context) -> Result<u8> {
    metasched_control::guard_main()?;
    Ok(0)
}

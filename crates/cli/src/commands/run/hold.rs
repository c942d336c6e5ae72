//! What every command shares that holds a choice of schedulers: `metasched run` and `metasched rules`.

use std::time::Duration;

use metasched_base::{Kind, Result, parse_duration};
use metasched_control::SwitcherOptions;

use crate::commands::load::Load;

/// How long it is in force, and over what; shared with `rules`.
#[derive(Debug, clap::Args)]
pub struct HoldArgs {
    /// Stop after this time, which begins when it is in force
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Stop a scheduler that is in force already, and put it back at the end
    #[arg(long)]
    take_over: bool,
    #[command(flatten)]
    load: Load,
}

impl HoldArgs {
    /// Options for the command that is called so.
    pub fn options(&self, command: &str) -> Result<SwitcherOptions> {
        Ok(self.load.options(command)?.take_over(self.take_over))
    }

    /// The exit status at the end: without --for a signal is how it is meant to end.
    pub fn exit_code(&self, interrupted: bool) -> u8 {
        let cut_short = interrupted && self.duration.is_some();
        if cut_short { Kind::Interrupted.exit_code() } else { 0 }
    }
}

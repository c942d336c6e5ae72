//! `metasched keep`: the background part of `metasched start`.

use metasched_base::{Kind, Result, ResultExt};
use metasched_control::{CandidateEnv, resolve_in};

use super::start::{FirstWord, hold};
use crate::context::Context;

/// Holds a scheduler for 'metasched start' (internal).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The scheduler
    scheduler: String,
    /// Stop a scheduler that is in force already, and put it back at the end
    #[arg(long)]
    take_over: bool,
    #[command(flatten)]
    load: super::load::Load,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let mut said = false;
    let held = resolve_and_hold(args, context, &mut said);
    // The starter waits for one word; later failures go to the log alone.
    if let (Err(error), false) = (&held, said) {
        say(&FirstWord::Failed(error.clone().into()))?;
    }
    held.map(|()| 0)
}

fn resolve_and_hold(args: &Args, context: &Context, said: &mut bool) -> Result<()> {
    let candidate = resolve_in(&CandidateEnv::system(), &args.scheduler)?;
    hold(&candidate, args.take_over, &args.load, context, || {
        *said = true;
        say(&FirstWord::InForce(candidate.clone()))
    })
}

fn say(word: &FirstWord) -> Result<()> {
    use std::io::Write;
    let line = serde_json::to_string(word)
        .attempt(Kind::Failed, || "write the first word as JSON".to_owned())?;
    // A starter that was interrupted is not there to hear it; the scheduler is.
    let _ = writeln!(std::io::stdout(), "{line}");
    Ok(())
}

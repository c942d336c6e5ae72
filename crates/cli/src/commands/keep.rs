//! `metasched keep`: the background part of `metasched start`.

use metasched_base::{Kind, Result, ResultExt};

use super::start::{FirstWord, Kept, hold};
use crate::context::Context;

/// Holds a scheduler for 'metasched start' (internal).
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    kept: Kept,
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
    let (candidate, lane) = args.kept.read()?;
    hold(&args.kept, &candidate, &lane, context, || {
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

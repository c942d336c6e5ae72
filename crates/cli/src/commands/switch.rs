//! `metasched switch`.

use std::time::Duration;

use metasched_base::Result;
use metasched_control::keeper::{Answer, Order};
use metasched_control::{CandidateEnv, Mechanism, SwitchRecord, resolve_in};
use metasched_host::process::Prompt;

use super::keeper::{ask_keeper, no_answer};
use crate::context::Context;

/// Changes the running scheduler to another.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The scheduler, as 'metasched list' names it; 'eevdf' for the default one
    scheduler: String,
    /// How to change: 'lane' (our policies) or 'swap' (any); the better one if not given
    #[arg(long, value_name = "NAME")]
    mechanism: Option<Mechanism>,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let _prompt = Prompt::new();
    let candidate = resolve_in(&CandidateEnv::system(), &args.scheduler)?;
    let name = candidate.name.clone();
    let order = Order::Switch { candidate, mechanism: args.mechanism };
    let start = format!("start one: metasched start {}", args.scheduler);
    match ask_keeper(context, &format!("switch to '{name}'"), &order, &start)? {
        Answer::Switched(record) => context.print(&record, describe)?,
        other => return Err(no_answer(&other)),
    }
    Ok(0)
}

/// What a change took, in a sentence.
pub(super) fn describe(record: &SwitchRecord) -> String {
    if !record.is_change() {
        return format!("'{}' is in force already", record.to);
    }
    let took = |ns: u64| match Duration::from_nanos(ns) {
        d if d < Duration::from_millis(1) => format!("{:.1} us", d.as_secs_f64() * 1e6),
        d => format!("{:.1} ms", d.as_secs_f64() * 1e3),
    };
    let mut parts = Vec::new();
    if let Some(ns) = record.stop_ns {
        parts.push(format!("stop {}", took(ns)));
    }
    if let Some(ns) = record.start_ns {
        parts.push(format!("start {}", took(ns)));
    }
    if let Some(ns) = record.write_ns {
        parts.push(format!("lane write {}", took(ns)));
    }
    format!(
        "'{}' is in force, after '{}': {} ({})",
        record.to,
        record.from,
        took(record.total_ns),
        parts.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_with_the_times_that_it_has() {
        let mut record = SwitchRecord::unchanged("fifo", Mechanism::Lane);
        assert_eq!(describe(&record), "'fifo' is in force already");
        record.to = "vtime".to_owned();
        record.write_ns = Some(7_300);
        record.total_ns = 15_000;
        assert_eq!(
            describe(&record),
            "'vtime' is in force, after 'fifo': 15.0 us (lane write 7.3 us)"
        );
    }
}

//! `metasched switch`.

use std::path::Path;
use std::time::Duration;

use metasched_base::{Error, Kind, Result};
use metasched_control::keeper::{Answer, Order, ask};
use metasched_control::{
    CandidateEnv, Mechanism, RUN_DIR, SwitchRecord, candidates, lock_holder, resolve,
};

use crate::context::Context;

/// Changes the running scheduler to another.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The scheduler, as 'metasched list' names it; 'eevdf' for the default one
    scheduler: String,
    /// How to change: 'lane' (our policies) or 'swap' (any); the better one if not given
    #[arg(long)]
    mechanism: Option<Mechanism>,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let candidate = resolve(&candidates(&CandidateEnv::system())?, &args.scheduler)?;
    let name = candidate.name.clone();
    let order = Order::Switch { candidate, mechanism: args.mechanism };
    match ask(Path::new(RUN_DIR), &order)? {
        Some(Answer::Switched(record)) => {
            context.print(&record, describe)?;
            Ok(0)
        }
        _ => Err(no_keeper(&format!("switch to '{name}'"), &args.scheduler)),
    }
}

/// The failure that there is no keeper to take the order.
fn no_keeper(attempt: &str, spec: &str) -> Error {
    match lock_holder(Path::new(RUN_DIR)) {
        Some(owner) => Error::new(
            Kind::Busy,
            attempt,
            format!("'{}' (process {}) is in charge", owner.command, owner.id.pid),
        )
        .remedy("wait for it to end, or stop it"),
        None => Error::new(Kind::Failed, attempt, "metasched keeps no scheduler")
            .remedy(format!("start one: metasched start {spec}")),
    }
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

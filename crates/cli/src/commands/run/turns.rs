//! `metasched run` with turns: one scheduler after the other, for the whole machine.

use std::path::Path;
use std::time::Duration;

use metasched_base::{Error, Kind, Result, format_duration};
use metasched_control::{
    Candidate, Mechanism, SwitcherOptions, Turn, TurnsSummary, name_in_force, put_back_after,
    take_turns,
};
use metasched_experiment::{Strategy, timeslices};
use metasched_host::process::OwnUse;
use metasched_host::sched_ext::SchedExt;
use metasched_profile::wanted::PlannedShares;
use serde::Serialize;

use super::hold::HoldArgs;
use super::live::Live;
use crate::context::{Context, json_line};

/// The shortest base timeslice by lane. Turns of a millisecond are about what slices come
/// to themselves; below that applications would mostly see changes.
const LEAST_BASE_SLICE: Duration = Duration::from_millis(1);

/// The last line of the JSON output.
#[derive(Debug, Serialize)]
struct Summary<'a> {
    strategy: Strategy,
    mechanism: Mechanism,
    base_slice_ms: f64,
    turns: &'a [Turn],
    summary: &'a TurnsSummary,
    switching_share: f64,
    own_use: &'a OwnUse,
    /// What is in force again, by its name in the kernel.
    in_force: &'a str,
}

/// The turns that are taken, again and again.
pub(super) struct Cycle {
    /// Whose they are, and the weights.
    pub plan: PlannedShares,
    /// By which the weights were found.
    pub strategy: Strategy,
    /// How schedulers are changed; absent where the fastest that can is taken.
    pub mechanism: Option<Mechanism>,
    /// The length of a turn of weight 1.
    pub base_slice: Duration,
}

/// Takes turns until stopped; then what was in force is so again.
pub(super) fn take(
    cycle: &Cycle,
    table: &[Candidate],
    options: SwitcherOptions,
    hold: &HoldArgs,
    context: &Context,
) -> Result<u8> {
    let base_slice = cycle.base_slice;
    let until = hold.duration;
    let turns = cycle.plan.turns(table, |weights| timeslices(base_slice, weights))?;
    let mechanism = cycle.mechanism.unwrap_or_else(|| Mechanism::of_turns(&turns));
    if mechanism == Mechanism::Lane && base_slice < LEAST_BASE_SLICE {
        return Err(Error::new(
            Kind::Usage,
            format!("take turns by lane with a base timeslice of {base_slice:?}"),
            "the shortest is 1 ms",
        )
        .remedy("write one such as --base-slice 1ms"));
    }

    let mut own = OwnUse::default();
    let taken = put_back_after(options, |switcher| {
        let mut live = Live::new(context, until);
        live.begin(&turns, mechanism);
        let taken = take_turns(switcher, &turns, mechanism, until, &context.interrupt, &mut |e| {
            own.begin();
            live.turn(e);
        });
        own.end();
        live.end();
        taken
    });
    let status = SchedExt::at(Path::new("/")).status();
    let (summary, back) = match (taken, status.map(|status| name_in_force(&status))) {
        (Ok(summary), Ok(back)) => (summary, back),
        (Ok(_), Err(error)) => return Err(error),
        (Err(error), Ok(back)) => {
            let cause = format!("{}; '{back}' is in force now", error.cause);
            return Err(Error { cause, ..error });
        }
        (Err(error), Err(second)) => return Err(error.and(&second)),
    };
    if context.json {
        json_line(&Summary {
            strategy: cycle.strategy,
            mechanism,
            base_slice_ms: base_slice.as_secs_f64() * 1e3,
            turns: &turns,
            summary: &summary,
            switching_share: summary.switching_share(),
            own_use: &own,
            in_force: &back,
        })?;
    } else {
        println!("{}", text(&summary, &back, &own));
    }
    Ok(hold.exit_code(summary.interrupted))
}

fn text(summary: &TurnsSummary, back: &str, own: &OwnUse) -> String {
    let span = |ns: u64| format_duration(Duration::from_millis(ns / 1_000_000));
    let mut out = format!(
        "{} turns in {}: the start took {}, {} switches after it {:.3} % of the time\n",
        summary.turns,
        span(summary.elapsed_ns),
        span(summary.start_ns),
        summary.switches,
        summary.switching_share() * 100.0
    );
    if let Some(late) = summary.lateness {
        let ms = |ns: u64| ns as f64 / 1e6;
        let (mean, most) = (ms(late.mean_ns), ms(late.max_ns));
        out.push_str(&format!(
            "  turns began {mean:.3} ms late in the mean, {most:.3} ms at most\n"
        ));
    }
    for (scheduler, ns) in &summary.in_force_ns {
        let share = *ns as f64 / summary.elapsed_ns.max(1) as f64 * 100.0;
        out.push_str(&format!("  {scheduler}: {} ({share:.1} %)\n", span(*ns)));
    }
    let memory = own
        .max_rss_kib
        .map_or("memory: not measured".to_owned(), |kib| format!("{:.0} MiB", kib as f64 / 1024.0));
    out.push_str(&format!(
        "metasched itself took {:.2} % of a CPU and {memory}\n",
        own.cpu_share * 100.0
    ));
    out.push_str(&format!("'{back}' is in force again"));
    out
}

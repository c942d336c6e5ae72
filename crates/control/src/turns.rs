//! The metascheduler: schedulers that take turns.

mod lanes;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use metasched_base::{Error, Interrupt, Kind, Result};
use metasched_loader::check_turns;
use serde::Serialize;

use crate::candidate::Candidate;
use crate::switch::{Mechanism, SwitchRecord};
use crate::switcher::Switcher;

/// How often a turn looks whether its scheduler is still there. One that has left harms
/// nobody (the default one is in force), so this is only how soon the user hears of it;
/// each look takes a wake-up from the load.
const LOOK: Duration = Duration::from_secs(1);

/// One application's turn in the cycle.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Turn {
    /// The scheduler that the application prefers.
    pub candidate: Candidate,
    /// For how long it runs: `t_i = n * t_b * w_i`.
    pub slice: Duration,
    /// The application.
    pub app: String,
}

impl Mechanism {
    /// The one for these turns: lanes where every scheduler is a policy of ours.
    pub fn of_turns(turns: &[Turn]) -> Self {
        if turns.iter().all(|turn| turn.candidate.turns_by_lane()) {
            Mechanism::Lane
        } else {
            Mechanism::Swap
        }
    }
}

/// A turn that has just begun.
#[derive(Clone, Debug, Serialize)]
pub struct TurnEvent {
    /// How many turns came before it.
    pub number: u64,
    /// The application whose turn it is.
    pub app: String,
    /// The scheduler that is in force for it.
    pub scheduler: String,
    /// For how long, in nanoseconds.
    pub slice_ns: u64,
    /// When it began, in nanoseconds since the first one was asked for.
    pub at_ns: u64,
    /// What the change took; a change that was not needed has no times.
    pub switch: SwitchRecord,
}

/// What a metascheduler did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TurnsSummary {
    /// Turns that were begun.
    pub turns: u64,
    /// Time that it took to put the first scheduler in force, in nanoseconds.
    pub start_ns: u64,
    /// Changes of the scheduler after that: fewer than turns where neighbours agree.
    pub switches: u64,
    /// Time spent on them, in nanoseconds.
    pub switching_ns: u64,
    /// From beginning to end, in nanoseconds.
    pub elapsed_ns: u64,
    /// Time that each scheduler was in force, in nanoseconds. By swap changes are not
    /// counted; by lane there is always one in force.
    pub in_force_ns: BTreeMap<String, u64>,
    /// How late turns began by the kernel's own timer; by lane only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Lateness>,
    /// Whether it ended because it was asked to.
    pub interrupted: bool,
}

/// How long after they were due turns began, in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Lateness {
    /// In the mean.
    pub mean_ns: u64,
    /// The latest one.
    pub max_ns: u64,
}

impl TurnsSummary {
    /// The part of the time since the first scheduler was in force that went into changing, 0
    /// to 1.
    pub fn switching_share(&self) -> f64 {
        match self.elapsed_ns.saturating_sub(self.start_ns) {
            0 => 0.0,
            since_start_ns => self.switching_ns as f64 / since_start_ns as f64,
        }
    }
}

/// Runs the cycle of turns until `until` has passed since the first scheduler was in force, or a
/// stop is asked for.
///
/// By swap, as published, an application's scheduler is in force for its whole slice, and
/// the change to the next comes on top of that. By lane the kernel takes the turns by a
/// timer, in time even under load, and turns follow one another by their lengths alone.
///
/// `on_turn` hears of every turn; by lane, of one a second at most where they are shorter
/// than a tenth of a second in the mean: their numbers tell how many there were.
///
/// A turn whose scheduler is in force already makes no change. The first failure ends it;
/// what is in force then is what the error says, and [`Switcher::restore`] puts things back.
pub fn take_turns(
    switcher: &mut Switcher,
    turns: &[Turn],
    mechanism: Mechanism,
    until: Option<Duration>,
    interrupt: &Interrupt,
    on_turn: &mut dyn FnMut(&TurnEvent),
) -> Result<TurnsSummary> {
    let turns: Vec<&Turn> = turns.iter().filter(|turn| !turn.slice.is_zero()).collect();
    check(&turns, mechanism)?;
    match mechanism {
        Mechanism::Lane => lanes::take_turns(switcher, &turns, until, interrupt, on_turn),
        Mechanism::Swap => swap(switcher, &turns, until, interrupt, on_turn),
    }
}

/// Stops one scheduler and starts the next, turn by turn.
fn swap(
    switcher: &mut Switcher,
    turns: &[&Turn],
    until: Option<Duration>,
    interrupt: &Interrupt,
    on_turn: &mut dyn FnMut(&TurnEvent),
) -> Result<TurnsSummary> {
    let began = Instant::now();
    let mut end = None;
    let mut summary = TurnsSummary::default();
    'cycle: for turn in turns.iter().cycle() {
        if end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
        if interrupt.is_raised() {
            summary.interrupted = true;
            break;
        }
        let record = switcher.switch_by(&turn.candidate, Mechanism::Swap)?;
        let start = Instant::now();
        end = end.or(until.map(|duration| start + duration));
        let turn_ends = start + turn.slice;
        let deadline = end.map_or(turn_ends, |end| turn_ends.min(end));
        if summary.turns == 0 {
            summary.start_ns = record.total_ns;
        } else {
            summary.switches += u64::from(record.is_change());
            summary.switching_ns += record.total_ns;
        }
        on_turn(&TurnEvent {
            number: summary.turns,
            app: turn.app.clone(),
            scheduler: turn.candidate.name.clone(),
            slice_ns: nanoseconds(turn.slice),
            at_ns: nanoseconds(start - began),
            switch: record,
        });
        summary.turns += 1;
        let stay = summary.in_force_ns.entry(turn.candidate.name.clone()).or_default();
        loop {
            let now = Instant::now();
            if now >= deadline {
                break;
            }
            if !interrupt.sleep((deadline - now).min(LOOK)) {
                summary.interrupted = true;
                *stay += nanoseconds(start.elapsed());
                break 'cycle;
            }
            switcher.check_alive()?;
        }
        *stay += nanoseconds(start.elapsed());
    }
    summary.elapsed_ns = nanoseconds(began.elapsed());
    Ok(summary)
}

/// Whether the turns make a cycle that the mechanism can carry out.
fn check(turns: &[&Turn], mechanism: Mechanism) -> Result<()> {
    if turns.is_empty() {
        return Err(Error::new(Kind::BadInput, "take turns", "no application has a turn")
            .remedy("give at least one application a weight above 0"));
    }
    if mechanism == Mechanism::Swap {
        return Ok(());
    }
    if let Some(turn) = turns.iter().find(|turn| !turn.candidate.turns_by_lane()) {
        return Err(Error::new(
            Kind::BadInput,
            "take turns by lanes",
            format!(
                "'{}' prefers '{}', which is not one of our policies, or has options",
                turn.app, turn.candidate.name
            ),
        )
        .remedy("use --mechanism swap, or choose among our policies for every application"));
    }
    check_turns(&lanes::of(turns))
}

/// `CLOCK_MONOTONIC`, by which the kernel tells when a turn began.
pub(crate) fn monotonic_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    now.map_or(0, |now| nanoseconds(Duration::from(now)))
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

//! Turns that the kernel takes: started here, told of, and stopped.

use std::time::{Duration, Instant};

use metasched_base::{Error, Interrupt, Kind, Result};
use metasched_host::process::Prompt;
use metasched_loader::{LONG_TURN, LaneTurn, TurnFigures};

use super::{LOOK, Lateness, Turn, TurnEvent, TurnsSummary, monotonic_ns, nanoseconds};
use crate::program::LaneProgram;
use crate::switch::{Mechanism, SwitchRecord};
use crate::switcher::Switcher;

/// How long after a turn is due we look for it: by then the kernel has begun it, and its
/// tasks run.
const AFTER: Duration = Duration::from_millis(2);

/// The turns as our program takes them.
pub(super) fn of(turns: &[&Turn]) -> Vec<LaneTurn> {
    let turn = |turn: &&Turn| LaneTurn { policy: turn.candidate.name.clone(), length: turn.slice };
    turns.iter().map(turn).collect()
}

pub(super) fn take_turns(
    switcher: &mut Switcher,
    turns: &[&Turn],
    until: Option<Duration>,
    interrupt: &Interrupt,
    on_turn: &mut dyn FnMut(&TurnEvent),
) -> Result<TurnsSummary> {
    let (began, began_ns) = (Instant::now(), monotonic_ns());
    let first = switcher.switch_by(&turns[0].candidate, Mechanism::Lane)?;
    // Turns are in time without us, but what tells of them and ends them would wait for the
    // load in its own queue.
    let _prompt = Prompt::new();
    program(switcher)?.start_turns(&of(turns))?;
    let end = until.map(|duration| Instant::now() + duration);
    let mut told = Told { turns, first: first.clone(), began_ns, next: 0 };
    let mut interrupted = false;
    loop {
        let figures = program(switcher)?.look_at_turns();
        switcher.turn_of(&turns[figures.current % turns.len()].candidate);
        told.tell(&figures, on_turn);
        let now = Instant::now();
        if end.is_some_and(|end| now >= end) {
            break;
        }
        let left = end.map_or(LOOK, |end| end - now);
        if !interrupt.sleep(told.pause(&figures).min(left)) {
            interrupted = true;
            break;
        }
        switcher.check_alive()?;
    }
    let figures = program(switcher)?.stop_turns()?;
    switcher.turn_of(&turns[figures.current % turns.len()].candidate);
    let mut summary = TurnsSummary {
        turns: figures.begun,
        start_ns: first.total_ns,
        switches: figures.changes,
        switching_ns: figures.changing_ns,
        elapsed_ns: nanoseconds(began.elapsed()),
        lateness: Some(Lateness {
            mean_ns: figures.late_sum_ns / figures.begun.max(1),
            max_ns: figures.late_max_ns,
        }),
        interrupted,
        ..Default::default()
    };
    for (turn, ns) in turns.iter().zip(figures.in_force_ns) {
        *summary.in_force_ns.entry(turn.candidate.name.clone()).or_default() += ns;
    }
    Ok(summary)
}

fn program(switcher: &mut Switcher) -> Result<&mut dyn LaneProgram> {
    switcher.program().ok_or_else(|| {
        Error::new(Kind::SchedulerExit, "take turns by lanes", "our program is not in force")
    })
}

/// What has been told of the turns so far.
struct Told<'a> {
    turns: &'a [&'a Turn],
    /// What it took to put the first one's policy in force.
    first: SwitchRecord,
    began_ns: u64,
    /// The number of the first turn that was not told of.
    next: u64,
}

impl Told<'_> {
    /// Whether every turn is told of, and looked at to have the other lanes put aside.
    fn each(&self) -> bool {
        let cycle: Duration = self.turns.iter().map(|turn| turn.slice).sum();
        cycle >= LONG_TURN * self.turns.len() as u32
    }

    /// How long to wait until there is something new to tell.
    fn pause(&self, figures: &TurnFigures) -> Duration {
        if !self.each() {
            return LOOK;
        }
        let left_ns = figures.due_ns.saturating_sub(monotonic_ns());
        (Duration::from_nanos(left_ns) + AFTER).min(LOOK)
    }

    /// Tells of the turns that are new; where that would be too many, of one of them.
    fn tell(&mut self, figures: &TurnFigures, on_turn: &mut dyn FnMut(&TurnEvent)) {
        let seen = figures.latest.partition_point(|begun| begun.number < self.next);
        let new = match &figures.latest[seen..] {
            new if self.each() => new,
            // The first one tells what it took to bring the program into the kernel.
            [first, ..] if self.next == 0 => std::slice::from_ref(first),
            [.., last] => std::slice::from_ref(last),
            none => none,
        };
        for begun in new {
            let at = (begun.number % self.turns.len() as u64) as usize;
            let before = (at + self.turns.len() - 1) % self.turns.len();
            let to = &self.turns[at];
            let switch = match (begun.number, begun.changing_ns) {
                (0, _) => self.first.clone(),
                (_, 0) => SwitchRecord::unchanged(&to.candidate.name, Mechanism::Lane),
                (_, took_ns) => SwitchRecord {
                    to: to.candidate.name.clone(),
                    write_ns: Some(took_ns),
                    total_ns: took_ns,
                    ..SwitchRecord::unchanged(&self.turns[before].candidate.name, Mechanism::Lane)
                },
            };
            on_turn(&TurnEvent {
                number: begun.number,
                app: to.app.clone(),
                scheduler: to.candidate.name.clone(),
                slice_ns: nanoseconds(to.slice),
                at_ns: begun.at_ns.saturating_sub(self.began_ns),
                switch,
            });
            self.next = begun.number + 1;
        }
    }
}

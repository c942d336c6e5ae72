//! What the user sees while turns are taken.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use metasched_base::format_duration;
use metasched_control::{Mechanism, Turn, TurnEvent};

use crate::commands::switch::describe;
use crate::context::{Context, json_line};

/// How turns are shown.
enum Style {
    /// JSON lines on standard output.
    Json,
    /// One line on the terminal that is written over.
    Line,
    /// A line for each turn.
    Lines,
    /// Nothing: no terminal, and not asked for.
    Silent,
}

/// The live line of `metasched run`, on standard error.
pub(super) struct Live {
    style: Style,
    end: Option<Duration>,
}

impl Live {
    pub(super) fn new(context: &Context, end: Option<Duration>) -> Self {
        let style = match (context.json, context.verbose, std::io::stderr().is_terminal()) {
            (true, _, _) => Style::Json,
            (_, true, _) => Style::Lines,
            (_, _, true) => Style::Line,
            _ => Style::Silent,
        };
        Self { style, end }
    }

    /// Says what is going to happen.
    pub(super) fn begin(&self, turns: &[Turn], mechanism: Mechanism) {
        if matches!(self.style, Style::Json) {
            return;
        }
        let cycle: Vec<String> = turns
            .iter()
            .map(|turn| format!("{} {} for {}", turn.app, turn.candidate.name, round(turn.slice)))
            .collect();
        let end = match self.end {
            Some(duration) => format!("for {}", format_duration(duration)),
            None => "until Ctrl-C".to_owned(),
        };
        eprintln!("turns by {mechanism}, {end}: {}", cycle.join("; "));
    }

    /// A turn has begun.
    pub(super) fn turn(&mut self, event: &TurnEvent) {
        let at = Duration::from_nanos(event.at_ns);
        let slice = round(Duration::from_nanos(event.slice_ns));
        // A terminal or reader that went away is no reason to stop scheduling.
        let _ = match self.style {
            Style::Json => json_line(event).is_ok(),
            Style::Line => write!(
                std::io::stderr(),
                "\r\x1b[K{:>6} s  turn {}: {} for {} ({slice})",
                at.as_secs(),
                event.number + 1,
                event.scheduler,
                event.app,
            )
            .and_then(|()| std::io::stderr().flush())
            .is_ok(),
            Style::Lines => writeln!(
                std::io::stderr(),
                "{:>8.3} s  {} ({slice}): {}",
                at.as_secs_f64(),
                event.app,
                describe(&event.switch)
            )
            .is_ok(),
            Style::Silent => true,
        };
    }

    /// Leaves the line that was written over.
    pub(super) fn end(&self) {
        if matches!(self.style, Style::Line) {
            eprintln!();
        }
    }
}

/// A time as people read it: to the millisecond.
fn round(duration: Duration) -> String {
    match duration {
        d if d < Duration::from_millis(1) => format_duration(d),
        d => format_duration(Duration::from_millis(d.as_millis() as u64)),
    }
}

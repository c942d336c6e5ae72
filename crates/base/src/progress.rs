use std::borrow::Cow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

const TEMPLATE: &str = "{prefix} [{bar:24}] {pos}/{len} {msg} ({elapsed}{left})";

/// Progress of a long step, on standard error: a bar with the time left on a
/// terminal; otherwise a plain line for each step, so that a log tells how far it came.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    plain: bool,
}

impl Progress {
    /// Begins a step of `total` units.
    pub fn new(what: impl Into<Cow<'static, str>>, total: u64) -> Self {
        let what = what.into();
        let bar = ProgressBar::new(total);
        let plain = bar.is_hidden();
        // The template is a constant; that it parses is what a test shows.
        let style = ProgressStyle::with_template(TEMPLATE)
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .with_key("left", |state: &ProgressState, text: &mut dyn std::fmt::Write| {
                let left = time_left(state.elapsed(), state.pos(), state.len().unwrap_or(0));
                // A line that has no room for it goes without.
                let _ =
                    text.write_str(&left.map_or(String::new(), |left| format!(", {left} left")));
            })
            .progress_chars("=> ");
        bar.set_style(style);
        // Where the number is not known yet, the first message is the first line.
        if plain && total > 0 {
            eprintln!("{what}: {total} {}", if total == 1 { "step" } else { "steps" });
        }
        bar.set_prefix(what);
        bar.enable_steady_tick(Duration::from_millis(250));
        Self { bar, plain }
    }

    /// Says what is being done now.
    pub fn message(&self, message: impl Into<Cow<'static, str>>) {
        let message = message.into();
        if self.plain {
            let (position, total) = (self.bar.position(), self.bar.length().unwrap_or(0));
            let left = time_left(self.bar.elapsed(), position, total);
            eprintln!("{}", plain_line(&self.bar.prefix(), position, total, &message, left));
        }
        self.bar.set_message(message);
    }

    /// One unit is done.
    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// So many units are done.
    pub fn set_position(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// The number of units became known or changed.
    pub fn set_total(&self, total: u64) {
        self.bar.set_length(total);
    }

    /// Prints a line above the bar.
    pub fn line(&self, line: &str) {
        if self.plain { eprintln!("{line}") } else { self.bar.println(line) }
    }
}

/// A line of a log: without a count where it is not known how many there are.
fn plain_line(
    what: &str,
    position: u64,
    total: u64,
    message: &str,
    left: Option<String>,
) -> String {
    let count = if total == 0 { String::new() } else { format!("{position}/{total} ") };
    let left = left.map_or(String::new(), |left| format!(" ({left} left)"));
    format!("{what}: {count}{message}{left}")
}

/// How long the rest takes if it goes on as it did from the start; unknown before the
/// first step. What the library offers weighs the last seconds most, and a step of ours
/// takes longer than those: it told of hours where there were minutes.
fn time_left(elapsed: Duration, position: u64, total: u64) -> Option<String> {
    let rest = total.checked_sub(position).filter(|rest| *rest > 0)?;
    let seconds = elapsed.as_secs().checked_mul(rest)?.checked_div(position)?;
    Some(crate::format_duration(Duration::from_secs(seconds.max(1))))
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_parses() {
        ProgressStyle::with_template(TEMPLATE).unwrap();
    }

    #[test]
    fn a_log_has_no_count_of_steps_that_are_not_known() {
        // Regression: it said "0/0".
        assert_eq!(plain_line("qa", 0, 0, "preparing", None), "qa: preparing");
        let left = Some("3m".to_owned());
        assert_eq!(plain_line("qa", 2, 8, "fifo", left), "qa: 2/8 fifo (3m left)");
    }

    #[test]
    fn the_time_left_is_that_of_the_steps_so_far() {
        let after =
            |seconds, position, total| time_left(Duration::from_secs(seconds), position, total);
        assert_eq!(after(60, 2, 8).as_deref(), Some("3m"));
        assert_eq!(after(0, 1, 2).as_deref(), Some("1s"));
        assert_eq!((after(60, 0, 8), after(60, 8, 8), after(60, 9, 8)), (None, None, None));
    }
}

use std::borrow::Cow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

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
        // The template is a constant; that it parses is what the test below shows.
        let style = ProgressStyle::with_template(
            "{prefix} [{bar:24}] {pos}/{len} {msg} ({elapsed}, {eta} left)",
        )
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ");
        bar.set_style(style);
        if plain {
            eprintln!("{what}: {total} steps");
        }
        bar.set_prefix(what);
        bar.enable_steady_tick(Duration::from_millis(250));
        Self { bar, plain }
    }

    /// Says what is being done now.
    pub fn message(&self, message: impl Into<Cow<'static, str>>) {
        let message = message.into();
        if self.plain {
            let eta = self.bar.eta();
            let left = if self.bar.position() > 0 && !eta.is_zero() {
                format!(" ({} left)", crate::format_duration(Duration::from_secs(eta.as_secs())))
            } else {
                String::new()
            };
            eprintln!(
                "{}: {}/{} {message}{left}",
                self.bar.prefix(),
                self.bar.position(),
                self.bar.length().unwrap_or(0)
            );
        }
        self.bar.set_message(message);
    }

    /// One unit is done.
    pub fn step(&self) {
        self.bar.inc(1);
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

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

//! What `metasched tune` says while it works and at the end.

use comfy_table::{Table, presets};
use metasched_base::Progress;
use metasched_profile::measure::Event;
use metasched_report::{Mode, StrategyFigures};
use metasched_strategy::Verdict;

use super::search::{DEFAULT, Tuned};
use crate::commands::percent::change;
use crate::commands::run::DEFAULT_POLICY;
use crate::context::Context;

/// Progress on standard error.
pub(super) struct Show<'a> {
    context: &'a Context,
    workload: String,
    progress: Option<Progress>,
    finished: u64,
}

impl<'a> Show<'a> {
    pub fn new(context: &'a Context, workload: &str) -> Self {
        Self { context, workload: workload.to_owned(), progress: None, finished: 0 }
    }

    pub fn note(&self, note: &str) {
        match &self.progress {
            Some(progress) => progress.line(note),
            None => eprintln!("{note}"),
        }
    }

    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Preparing => {}
            Event::Settled { kept, .. } => {
                self.note(&format!("{kept} pairs in the store are enough"));
            }
            Event::Starting { form, .. } => self.bar().message(format!("starting {form}")),
            Event::Running { subject, round, runs_left, .. } => {
                let total = self.finished + u64::from(*runs_left);
                let bar = self.bar();
                bar.set_total(total);
                bar.message(format!("{subject}, round {round}"));
            }
            Event::Finished { subject, figures } => {
                self.finished += 1;
                self.bar().step();
                self.context
                    .verbose(|| format!("{subject}: {:.1} a second", figures.throughput_per_s));
            }
            Event::Failed { subject, error, dropped } => {
                let more = if *dropped { "; it is not measured any more" } else { "" };
                self.note(&format!("{subject}: {error}{more}"));
            }
        }
    }

    /// Takes the progress bar away.
    pub fn end(&mut self) {
        self.progress = None;
    }

    fn bar(&mut self) -> &Progress {
        let workload = &self.workload;
        self.progress.get_or_insert_with(|| Progress::new(workload.clone(), 0))
    }
}

/// The result as text.
pub(super) fn text(tuned: &Tuned) -> String {
    let mut out =
        format!("{}, {}, against {DEFAULT}, with 95 % intervals:\n\n", tuned.workload, tuned.form);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["strategy", "by", "base slice", "throughput", "p99 latency", ""]);
    for row in &tuned.table {
        let best = tuned.best_of_each.iter().any(|b| {
            row.mode.mechanism().is_some() && (&b.strategy, b.mode) == (&row.strategy, row.mode)
        });
        table.add_row([
            row.strategy.clone(),
            row.mode.mechanism().map_or("side by side".to_owned(), |m| m.to_string()),
            row.mode.base_slice_ms().map_or(String::new(), |ms| format!("{ms} ms")),
            row.throughput.text(),
            row.p99.text(),
            if best { "its best" } else { "" }.to_owned(),
        ]);
    }
    out += &table.trim_fmt();
    out += "\nbetter, worse: beyond the noise, corrected for the number of rows\n\n";
    if let Some(best) = &tuned.best {
        out += &best_text(best, tuned.single.as_deref());
    }
    out
}

fn best_text(best: &StrategyFigures, single: Option<&str>) -> String {
    let turns: Vec<String> =
        best.turns.iter().map(|t| format!("{}={}", t.app, t.scheduler)).collect();
    let how = match best.mode {
        Mode::Turns { mechanism, base_slice_ms } => format!("by {mechanism} at {base_slice_ms} ms"),
        Mode::Lanes => "side by side".to_owned(),
    };
    let mut out = format!(
        "most throughput: {} {how} ({}): {}\n",
        best.strategy,
        turns.join(", "),
        best.throughput.text()
    );
    if best.throughput.verdict != Verdict::Better {
        out += &format!("no metascheduler is better than {DEFAULT} beyond the noise\n");
    }
    for (other, over) in &best.over {
        let alone = if Some(other.as_str()) == single { " alone" } else { "" };
        out += &format!("against {other}{alone}, in the same rounds: {}", change(over.throughput));
        out += &over.p99.map_or(String::new(), |p99| format!(", p99 latency {}", change(p99)));
        out.push('\n');
    }
    out + &format!("to run it: {}\n", run_command(best))
}

/// The command that runs exactly these turns or lanes: the plan's may be others, where a
/// mechanism cannot carry them or other ones were asked for.
fn run_command(best: &StrategyFigures) -> String {
    let mut command = match best.mode {
        Mode::Turns { mechanism, base_slice_ms } => {
            format!("metasched run --mechanism {mechanism} --base-slice {base_slice_ms}ms")
        }
        Mode::Lanes => {
            let default = best.default.as_deref().unwrap_or(DEFAULT_POLICY);
            format!("metasched run --mode lanes --default {default}")
        }
    };
    for turn in &best.turns {
        command += &format!(" --turn {}={}:{:.3}", turn.app, turn.scheduler, turn.weight);
        for cgroup in &turn.cgroups {
            command += &format!(" --cgroup {}={cgroup}", turn.app);
        }
    }
    command
}

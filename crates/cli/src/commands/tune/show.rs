//! What `metasched tune` says while it works and at the end.

use comfy_table::{Table, presets};
use metasched_base::Progress;
use metasched_experiment::{BestSlices, Tuned, change};
use metasched_profile::measure::Event;

use crate::commands::plan::recommended;
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

/// The result as text, of a machine's and of the simulator's.
pub fn text(tuned: &Tuned) -> String {
    let mut out = format!(
        "{}, {}, against {}, with 95 % intervals:\n\n",
        tuned.workload, tuned.form, tuned.default
    );
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["strategy", "by", "base slice", "rounds", "throughput", "p99 latency", ""]);
    for row in &tuned.table {
        let contender = &row.contender;
        table.add_row([
            contender.by(),
            contender.mechanism().unwrap_or("side by side").to_owned(),
            contender.base_slice_ms().map_or(String::new(), |ms| format!("{ms} ms")),
            row.rounds.to_string(),
            row.throughput.text(),
            row.p99.text(),
            if row.its_best { "its best" } else { "" }.to_owned(),
        ]);
    }
    out += &table.trim_fmt();
    out += "\nbetter, worse: beyond the noise, corrected for the number of rows\n\n";
    for slices in &tuned.base_slices {
        out += &format!("{}\n", coincidence(slices));
    }
    tuned.notes.iter().for_each(|note| out += &format!("{note}\n"));
    if let Some(best) = tuned.best.map(|at| &tuned.table[at]) {
        let by = tuned.objective;
        out += &format!("highest estimate by {by}: {} ", best.contender);
        out += &format!("({})\n", best.contender.assignments());
        if let (Some(over), Some(single)) = (best.over_single, &tuned.single) {
            out += &format!("against {single} alone, in the same rounds: ");
            out += &format!("throughput {}", change(over.throughput));
            out += &over.p99.map_or(String::new(), |p99| format!(", p99 {}", change(p99)));
            out.push('\n');
        }
    }
    out += &format!("\n{}", recommended(&tuned.recommendation));
    if let Some(again) = &tuned.again {
        out += &format!("again: {again}\n");
    }
    out
}

/// Whether throughput and latency want the same base timeslice.
fn coincidence(slices: &BestSlices) -> String {
    let strategy = slices.strategy.map(|strategy| strategy.to_string()).unwrap_or_default();
    let by = slices.mechanism.as_deref().unwrap_or_default();
    let most = slices.throughput_ms;
    match slices.p99_ms {
        None => format!("{strategy} by {by}: most throughput at {most} ms"),
        Some(p99) if p99 == most => {
            format!("{strategy} by {by}: most throughput and least p99, both at {most} ms")
        }
        Some(p99) => {
            format!("{strategy} by {by}: most throughput at {most} ms, least p99 at {p99} ms")
        }
    }
}

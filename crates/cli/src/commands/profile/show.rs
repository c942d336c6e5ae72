//! What `metasched profile` says while it works and at the end.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use comfy_table::{CellAlignment, Table, presets};
use metasched_base::{Progress, Result};
use metasched_profile::RunKind;
use metasched_profile::manifest::{Manifest, Workload};
use metasched_profile::measure::{Event, FormSummary, Outcome, Summary};
use metasched_stats::Interval;
use serde::Serialize;

use crate::commands::percent::change;
use crate::commands::plan::sides_text;
use crate::context::Context;

/// Progress on standard error.
pub(super) struct Show<'a> {
    context: &'a Context,
    workload: String,
    progress: Option<Progress>,
    finished: u64,
}

impl<'a> Show<'a> {
    pub(super) fn new(context: &'a Context, workload: &Workload) -> Self {
        context.verbose(|| {
            let params: Vec<String> =
                workload.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("{} with {}", workload.manifest.name, params.join(", "))
        });
        let workload = workload.manifest.name.clone();
        Self { context, workload, progress: None, finished: 0 }
    }

    pub(super) fn preparing(&self) {
        self.context.verbose(|| format!("preparing {}", self.workload));
    }

    pub(super) fn prepared(&self, now: bool, caches: Vec<PathBuf>) -> Result<()> {
        #[derive(Serialize)]
        struct Prepared<'a> {
            workload: &'a str,
            prepared_now: bool,
            caches: Vec<PathBuf>,
        }
        let prepared = Prepared { workload: &self.workload, prepared_now: now, caches };
        self.context.print(&prepared, |p| {
            let how = if p.prepared_now { "is prepared" } else { "was prepared already" };
            let caches: Vec<String> = p.caches.iter().map(|c| c.display().to_string()).collect();
            format!("{} {how}: {}", p.workload, caches.join(", "))
        })
    }

    pub(super) fn event(&mut self, event: &Event) {
        match event {
            Event::Preparing => {}
            Event::Settled { form, kept } => {
                self.line(&format!("{form}: {kept} pairs in the store are enough"));
            }
            Event::Starting { form, kept } => {
                self.bar().message(format!("starting {form}"));
                if *kept > 0 {
                    self.line(&format!(
                        "{form}: goes on from {kept} pairs in the store; only what is missing is measured"
                    ));
                }
            }
            Event::Running { form, subject, kind, round, runs_left, .. } => {
                let total = self.finished + u64::from(*runs_left);
                let what = match kind {
                    RunKind::Measured => format!("round {round}"),
                    RunKind::Traced => "tracing waits".to_owned(),
                    RunKind::Control => format!("round {round}, unobserved"),
                };
                let bar = self.bar();
                bar.set_total(total);
                bar.message(format!("{form} under {subject}, {what}"));
            }
            Event::Finished { subject, figures } => {
                self.finished += 1;
                self.bar().step();
                self.context.verbose(|| {
                    format!(
                        "{subject}: {:.1} a second, p99 {:.1} ms",
                        figures.throughput_per_s,
                        figures.p99_us / 1e3
                    )
                });
            }
            Event::Failed { subject, error, dropped } => {
                let more = if *dropped { "; it is not measured any more" } else { "" };
                self.line(&format!("under {subject}: {error}{more}"));
            }
        }
    }

    /// Takes the progress bar away.
    pub(super) fn end(&mut self) {
        self.progress = None;
    }

    fn bar(&mut self) -> &Progress {
        let workload = &self.workload;
        self.progress.get_or_insert_with(|| Progress::new(workload.clone(), 0))
    }

    fn line(&self, line: &str) {
        match &self.progress {
            Some(progress) => progress.line(line),
            None => eprintln!("{line}"),
        }
    }
}

/// A ratio with its interval, where there is one.
fn ratio(interval: Option<Interval>) -> String {
    interval.map_or("-".to_owned(), change)
}

/// The summary as text: a table for each form.
pub(super) fn text(summary: &Summary, store: &Path) -> String {
    let mut out = String::new();
    for form in &summary.forms {
        out += &form_text(&summary.workload, form);
        out.push('\n');
    }
    let dropped: Vec<&str> =
        summary.failures.iter().filter(|f| f.dropped).map(|f| f.subject.as_str()).collect();
    for (place, failure) in summary.failures.iter().filter(|f| f.dropped).enumerate() {
        if !dropped[..place].contains(&failure.subject.as_str()) {
            out += &format!("left out: {}: {}\n", failure.subject, failure.error);
        }
    }
    if summary.session.is_some() {
        out += &format!("seed {}; ", summary.seed);
    }
    out + &format!("everything is in {}", store.display())
}

fn form_text(workload: &str, form: &FormSummary) -> String {
    let mut out = format!(
        "{workload}, {}: {} a second and 99th percentile of the latency, against eevdf, with 95 % intervals\n",
        form.form, form.unit
    );
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["scheduler", "throughput", "p99", "n", ""]);
    for subject in &form.subjects {
        let note = match subject.outcome {
            Outcome::Precise => "",
            other => other.describe(),
        };
        table.add_row([
            subject.name.clone(),
            ratio(subject.throughput),
            ratio(subject.p99),
            subject.pairs.to_string(),
            note.to_owned(),
        ]);
    }
    for column in 1..=3 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    out += &table.trim_fmt();
    out.push('\n');
    if !form.sides.is_empty() {
        out += &sides_text(&form.sides);
    }
    if let Some(observation) = form.observation {
        out += &format!("metasched's own observation: {}\n", ratio(Some(observation)));
    }
    if let Some(error) = &form.error {
        out += &format!("ended early: {error}\n");
    }
    out
}

/// The workloads that there are.
#[derive(Serialize)]
pub(super) struct Listing(Vec<Listed>);

#[derive(Serialize)]
struct Listed {
    name: String,
    #[serde(flatten)]
    what: What,
}

#[derive(Serialize)]
#[serde(untagged)]
enum What {
    Good {
        summary: String,
        folder: std::path::PathBuf,
        forms: BTreeMap<String, String>,
        params: BTreeMap<String, metasched_profile::manifest::Param>,
    },
    Bad {
        error: String,
    },
}

pub(super) fn listing(found: BTreeMap<String, Result<Manifest>>) -> Listing {
    let list = found.into_iter().map(|(name, manifest)| Listed {
        name,
        what: match manifest {
            Ok(m) => What::Good {
                summary: m.summary,
                folder: m.folder,
                forms: m.forms.into_iter().map(|form| (form.name, form.summary)).collect(),
                params: m.params,
            },
            Err(e) => What::Bad { error: e.to_string() },
        },
    });
    Listing(list.collect())
}

impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return writeln!(f, "no workload was found; give the path of a workload's folder");
        }
        for listed in &self.0 {
            match &listed.what {
                What::Bad { error } => writeln!(f, "{}: {error}", listed.name)?,
                What::Good { summary, forms, params, .. } => {
                    writeln!(f, "{}: {summary}", listed.name)?;
                    for (form, summary) in forms {
                        writeln!(f, "  {form:12} {summary}")?;
                    }
                    for (name, param) in params {
                        let choices = match param.choices.as_slice() {
                            [] => String::new(),
                            choices => format!(" ({})", choices.join(", ")),
                        };
                        writeln!(f, "  --set {name}={}{choices}  {}", param.default, param.help)?;
                    }
                }
            }
        }
        Ok(())
    }
}

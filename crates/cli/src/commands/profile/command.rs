//! A command that the user gave, measured under each scheduler.

use std::path::{Path, PathBuf};

use comfy_table::{CellAlignment, Table, presets};
use metasched_base::{Kind, Result, ResultExt, brief_time};
use metasched_control::{CandidateEnv, candidates};
use metasched_experiment::{Plan, Ratio, Recommendation, TableRow, Verdict};
use metasched_profile::manifest::{Given, Workload, check_program};
use metasched_profile::measure::{FailureSummary, FormSummary, Options, Outcome, Summary};
use metasched_profile::runner::{Cgroups, Site};
use metasched_profile::{
    BASELINE, Declared, Profile, Runs, Store, Tried, Warning, analyse, warnings,
};
use serde::Serialize;

use super::show::Show;
use super::{Args, export, measure, options, schedulers};
use crate::commands::plan::{ChoiceArgs, Source, recommended};
use crate::context::Context;

/// What only a command has.
#[derive(Debug, clap::Args)]
pub(super) struct CommandArgs {
    /// A command to measure instead of a workload, after --; its run time is the figure
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = [
        "workload", "forms", "set", "duration", "strategy", "base_slice", "mechanism", "plan",
        "prepare_only", "emulated", "list", "trace_runs", "control_runs",
    ])]
    pub(super) words: Vec<String>,
    /// What a shell runs before each run of the command, uncounted, such as what empties a cache
    #[arg(long, value_name = "COMMAND", requires = "words", conflicts_with = "workload")]
    prepare: Option<String>,
    /// Shows the command's output, which is discarded otherwise
    #[arg(long, requires = "words", conflicts_with = "workload")]
    show_output: bool,
    /// Counts runs that fail too; otherwise the first ends everything with its exit status
    #[arg(long, requires = "words", conflicts_with = "workload")]
    ignore_failure: bool,
    /// Writes the command's run times as JSON, in hyperfine's format
    #[arg(long, value_name = "FILE", requires = "words", conflicts_with = "workload")]
    export_json: Option<PathBuf>,
    /// Writes the command's run times as CSV, in hyperfine's format
    #[arg(long, value_name = "FILE", requires = "words", conflicts_with = "workload")]
    export_csv: Option<PathBuf>,
    /// Writes the command's run times as a table in Markdown
    #[arg(long, value_name = "FILE", requires = "words", conflicts_with = "workload")]
    export_markdown: Option<PathBuf>,
}

impl CommandArgs {
    fn given(&self) -> Given {
        Given {
            prepare: self.prepare.clone(),
            show_output: self.show_output,
            ignore_failure: self.ignore_failure,
        }
    }

    fn exports(&self) -> impl Iterator<Item = (&Path, export::Format)> {
        [
            (&self.export_json, export::Format::Json),
            (&self.export_csv, export::Format::Csv),
            (&self.export_markdown, export::Format::Markdown),
        ]
        .into_iter()
        .filter_map(|(path, format)| Some((path.as_deref()?, format)))
    }
}

/// What came of it.
#[derive(Serialize)]
struct Measured {
    command: String,
    folder: PathBuf,
    /// Its name in the store.
    workload: String,
    session: Option<i64>,
    seed: u64,
    /// Pairs that the store held before this call.
    pairs_before: usize,
    schedulers: Vec<Scheduler>,
    warnings: Vec<Warning>,
    recommendation: Option<Recommendation>,
    failures: Vec<FailureSummary>,
    store: PathBuf,
}

/// The command under one scheduler.
#[derive(Serialize)]
struct Scheduler {
    #[serde(flatten)]
    runs: Runs,
    /// Runs a second against the default scheduler's; absent for that one.
    speed: Option<Ratio>,
    /// Whether it was measured enough; likewise.
    outcome: Option<Outcome>,
}

/// Carries the command out; the value is the process's exit status.
pub(super) fn run(args: &Args, context: &Context) -> Result<u8> {
    let command = &args.command;
    check_program(&command.words[0], &std::env::var_os("PATH").unwrap_or_default())?;
    let folder = std::env::current_dir()
        .attempt(Kind::Failed, || "find out the working directory".to_owned())?;
    // Also before anything is measured: what cannot be written would be lost.
    command.exports().try_for_each(|(path, _)| export::check(path))?;
    let site = Site::here(Box::new(Cgroups::new(None)), &context.interrupt)?;
    let emulated = site.machine.emulated;
    let workload = Workload::of_command(&command.words, &folder, command.given(), emulated);
    let scratch = site.scratch(&workload);
    let table = candidates(&CandidateEnv::system())?;
    let (subjects, pool) = schedulers(args, table)?;
    // A command does not know for how long it is to run.
    let duration = std::time::Duration::ZERO;
    let options = Options { duration, trace_runs: 0, control_runs: 0, ..options(args)? };
    let mut show = Show::new(context, &workload);
    let what = Profile { workload, forms: Vec::new(), candidates: pool, subjects, options };
    let (summary, store) = measure(args, &what, site, &mut show)?;
    let [form] = summary.forms.as_slice() else { unreachable!("a command has one form") };
    let runs = Runs::of_series(&store, form.series)?;
    let measured = measured(args, &what.workload, &summary, form, &store, &runs)?;
    for (path, format) in command.exports() {
        let of = measured.schedulers.iter().map(|scheduler| &scheduler.runs);
        export::write(path, format, &measured.command, &of.collect::<Vec<_>>())?;
    }
    context.print(&measured, text)?;
    if let Some(error) = &form.error {
        return Err(error.clone());
    }
    // Nobody was told to look into its logs.
    let _ = std::fs::remove_dir_all(scratch.parent().unwrap_or(&scratch));
    Ok(summary.error().map_or(0, |error| error.kind.exit_code_beside_a_command()))
}

/// Puts together what the store holds of the command.
fn measured(
    args: &Args,
    workload: &Workload,
    summary: &Summary,
    form: &FormSummary,
    store: &Store,
    runs: &[Runs],
) -> Result<Measured> {
    let name = &workload.manifest.name;
    let plan = match form.subjects.iter().any(|subject| subject.pairs > 0) {
        true => Some(plan(args, workload, store)?),
        false => None,
    };
    let rows: &[TableRow] = plan.as_ref().map_or(&[], |plan| &plan.table);
    let mut schedulers: Vec<Scheduler> = runs
        .iter()
        .map(|runs| {
            let is_it =
                |row: &&TableRow| row.candidate == runs.scheduler && row.version == runs.version;
            let subject = form.subjects.iter().find(|subject| subject.name == runs.scheduler);
            Scheduler {
                runs: runs.clone(),
                speed: rows.iter().find(is_it).map(|row| row.throughput),
                outcome: subject.map(|subject| subject.outcome),
            }
        })
        .collect();
    // What all are compared with comes first, then the fastest.
    schedulers.sort_by(|a, b| {
        let key = |s: &Scheduler| s.runs.scheduler != BASELINE;
        key(a).cmp(&key(b)).then(a.runs.mean.total_cmp(&b.runs.mean))
    });
    let prepare = args.command.prepare.is_some();
    Ok(Measured {
        command: workload.manifest.summary.clone(),
        folder: workload.manifest.folder.clone(),
        workload: name.clone(),
        session: summary.session,
        seed: summary.seed,
        pairs_before: form.pairs_before,
        schedulers,
        warnings: warnings(runs, Tried { warmup: !args.warmup.is_zero(), prepare }),
        recommendation: plan.and_then(|plan| plan.recommendation),
        failures: summary.failures.clone(),
        store: store.path().to_owned(),
    })
}

/// What follows from the figures, with the command that carries it out.
fn plan(args: &Args, workload: &Workload, store: &Store) -> Result<Plan> {
    let name = &workload.manifest.name;
    let analysis = analyse(store, Some(name), |_| Declared::of(&workload.manifest))?;
    let source = Source { store: args.store.clone(), workload: None };
    ChoiceArgs::default().planned(&analysis, &source)
}

/// What came of it as text.
fn text(measured: &Measured) -> String {
    let mut out = format!(
        "{}, in {}: the time of a run, and runs a second against {BASELINE}, with 95 % intervals\n",
        measured.command,
        measured.folder.display()
    );
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["scheduler", "mean ± deviation", "speed", "runs", ""]);
    for Scheduler { runs, speed, outcome } in &measured.schedulers {
        let note = outcome.filter(|outcome| *outcome != Outcome::Precise);
        table.add_row([
            runs.scheduler.clone(),
            time(runs),
            speed.map_or("-".to_owned(), compared),
            runs.times.len().to_string(),
            note.map_or("", Outcome::describe).to_owned(),
        ]);
    }
    if let Some(column) = table.column_mut(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    out += &table.trim_fmt();
    out.push('\n');
    let mut said: Vec<&str> = Vec::new();
    for failure in measured.failures.iter().filter(|failure| failure.dropped) {
        if !said.contains(&failure.subject.as_str()) {
            out += &format!("left out: {}: {}\n", failure.subject, failure.error);
            said.push(&failure.subject);
        }
    }
    for Warning { what, remedy } in &measured.warnings {
        out += &format!("warning: {what}; {remedy}\n");
    }
    if measured.pairs_before > 0 {
        let pairs = measured.pairs_before;
        out += &format!("{pairs} pairs are of earlier calls; --fresh measures all anew\n");
    }
    if let Some(recommendation) = &measured.recommendation {
        out += &format!("\n{}", recommended(recommendation));
    }
    if measured.session.is_some() {
        out += &format!("seed {}; ", measured.seed);
    }
    out + &format!("everything is in {}, as '{}'", measured.store.display(), measured.workload)
}

fn time(runs: &Runs) -> String {
    let mean = brief_time(runs.mean * 1e9);
    match runs.stddev {
        Some(deviation) => format!("{mean} ± {}", brief_time(deviation * 1e9)),
        None => mean,
    }
}

/// A ratio that also says where it says nothing.
fn compared(speed: Ratio) -> String {
    let noise = match speed.verdict {
        Verdict::WithinNoise => " within the noise",
        Verdict::TooFewRounds => " too few rounds",
        Verdict::Better | Verdict::Worse => "",
    };
    format!("{}{noise}", speed.text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use metasched_stats::Interval;

    fn parse(line: &str) -> std::result::Result<Args, clap::Error> {
        #[derive(Parser)]
        struct Only {
            #[command(flatten)]
            args: Args,
        }
        let words = std::iter::once("profile").chain(line.split_whitespace());
        Only::try_parse_from(words).map(|only| only.args)
    }

    #[test]
    fn what_follows_two_dashes_is_the_command_with_all_of_its_options() {
        let args =
            parse("--schedulers vtime,eevdf --prepare sync --export-csv a -- make -j4 --json");
        let args = args.unwrap();
        assert_eq!(args.command.words, ["make", "-j4", "--json"]);
        assert_eq!(args.schedulers, ["vtime", "eevdf"]);
        let prepare = Some("sync".to_owned());
        assert_eq!(args.command.given(), Given { prepare, ..Given::default() });
        let exports: Vec<_> = args.command.exports().collect();
        assert_eq!(exports, [(Path::new("a"), export::Format::Csv)]);
        let both = parse("--show-output --ignore-failure -- true").unwrap().command.given();
        assert!(both.show_output && both.ignore_failure);
    }

    #[test]
    fn a_workload_is_as_before_and_not_beside_a_command() {
        let args = parse("qa front --set a=b --duration 4s").unwrap();
        assert_eq!(
            (args.workload.as_deref(), args.forms.as_slice()),
            (Some("qa"), &["front".into()][..])
        );
        assert!(args.command.words.is_empty());
        for wrong in
            ["qa -- true", "--duration 4s -- true", "--prepare sync qa", "--list -- true", ""]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_table_says_for_each_scheduler_what_is_known() {
        let of = |name: &str, times: &[f64], verdict, outcome| Scheduler {
            runs: Runs::timed(name.to_owned(), times.to_vec()),
            speed: (name != BASELINE).then_some(Ratio {
                estimate: Some(1.5),
                interval: Some(Interval { estimate: 1.5, low: 1.4, high: 1.6, n: 4 }),
                verdict,
            }),
            outcome,
        };
        let measured = Measured {
            command: "make -j4".to_owned(),
            folder: "/src".into(),
            workload: "make-1".to_owned(),
            session: Some(1),
            seed: 7,
            pairs_before: 3,
            schedulers: vec![
                of(BASELINE, &[0.30, 0.32], Verdict::WithinNoise, None),
                of("vtime", &[0.20], Verdict::Better, Some(Outcome::Precise)),
                of("fifo", &[0.31], Verdict::WithinNoise, Some(Outcome::Behind)),
            ],
            warnings: vec![Warning { what: "it is late".into(), remedy: "go home".into() }],
            recommendation: None,
            failures: Vec::new(),
            store: "/store".into(),
        };
        let text = text(&measured);
        let line = |name: &str| text.lines().find(|line| line.trim().starts_with(name)).unwrap();
        assert!(line(BASELINE).contains("310 ms ± 14.1 ms"), "{text}");
        assert!(line("vtime").contains("better") && !line("vtime").contains("not the best"));
        assert!(line("fifo").contains("within the noise") && line("fifo").contains("not the best"));
        assert!(
            text.contains("warning: it is late; go home") && text.contains("--fresh"),
            "{text}"
        );
    }
}

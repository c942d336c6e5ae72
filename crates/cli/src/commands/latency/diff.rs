//! `metasched latency diff`.

use std::path::{Path, PathBuf};

use metasched_base::Result;
use metasched_watch::{Bar, Compared, Difference, Ratio, Recording, bars};
use serde::Serialize;

use super::show::histogram;
use crate::commands::table::{Column, Fit, fitted, terminal_width};
use crate::context::Context;

/// Compares two recordings: what the second one's waits are of the first one's, with 95 % intervals
///
/// Intervals come of how the pieces of each recording differ among themselves. One that has 1 in it is no
/// difference that these recordings show.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What is compared with
    #[arg(value_name = "FIRST")]
    first: PathBuf,
    /// What is compared
    #[arg(value_name = "SECOND")]
    second: PathBuf,
}

#[derive(Debug, Serialize)]
struct View {
    first: About,
    second: About,
    #[serde(flatten)]
    difference: Difference,
}

/// Where a recording is from.
#[derive(Debug, Serialize)]
struct About {
    file: PathBuf,
    scheduler: String,
    kernel: String,
    began: String,
    length_ns: u64,
}

impl About {
    fn new(file: &Path, recording: &Recording) -> Self {
        let Recording { scheduler, kernel, began, length_ns, .. } = recording.clone();
        Self { file: file.to_owned(), scheduler, kernel, began, length_ns }
    }

    fn text(&self) -> String {
        let time = self.began.get(..16).unwrap_or_default().replace('T', " ");
        let length = metasched_base::brief_time(self.length_ns as f64);
        format!("{} ({length}, {time} UTC, '{}')", self.scheduler, self.file.display())
    }
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let (first, second) = (Recording::read(&args.first)?, Recording::read(&args.second)?);
    let view = View {
        difference: Difference::new(&first, &second)?,
        first: About::new(&args.first, &first),
        second: About::new(&args.second, &second),
    };
    context.print(&view, text)?;
    Ok(0)
}

fn text(view: &View) -> String {
    let mut out = format!("first   {}\nsecond  {}\n", view.first.text(), view.second.text());
    for subject in &view.difference.subjects {
        out += &format!("\n{}\n{}", who(subject), figures(&subject.figures));
        let [a, b]: [Vec<Bar>; 2] = [0, 1].map(|at| bars(&subject.waits[at]));
        out += &format!("\nusecs, of 1,024 ns\n{}", histogram(&[&a, &b]));
    }
    for warning in &view.difference.warnings {
        out += &format!("\nwarning: {warning}");
    }
    out
}

fn who(subject: &Compared) -> String {
    let [first, second] = &subject.whom;
    match first == second {
        true => first.to_string(),
        false => format!("{first} in the first, {second} in the second"),
    }
}

fn figures(ratios: &[Ratio]) -> String {
    const COLUMNS: &[Column] = &[
        ("", Fit::Whole),
        ("FIRST", Fit::Whole),
        ("SECOND", Fit::Whole),
        ("RATIO", Fit::Whole),
        ("95 %", Fit::Whole),
        ("", Fit::Whole),
    ];
    let row = |figure: &Ratio| {
        let value = |at: usize| figure.values[at].map_or("-".into(), |v| figure.unit.text(v));
        let interval = figure.interval;
        let verdict = match interval {
            Some(interval) if interval.low > 1.0 => "more",
            Some(interval) if interval.high < 1.0 => "less",
            Some(_) => "no difference is shown",
            None => "",
        };
        vec![
            figure.title.to_lowercase(),
            value(0),
            value(1),
            figure.ratio.map_or("-".into(), |ratio| format!("{ratio:.2}")),
            interval.map_or("-".into(), |i| format!("{:.2} to {:.2}", i.low, i.high)),
            verdict.to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = ratios.iter().map(row).collect();
    fitted(COLUMNS, &rows, terminal_width()).join("\n") + "\n"
}

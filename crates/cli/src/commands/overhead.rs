//! `metasched overhead`.

use std::time::Duration;

use metasched_base::{Progress, Result, brief_time, document, percent};
use metasched_host::process::Prompt;
use metasched_loader::OverheadPart;
use metasched_watch::{OVERHEAD_FIGURES, Overhead, OverheadMeter, OverheadRow};
use serde_json::{Value, json};

use super::latency::parse_time;
use crate::commands::table::{Column, Fit, fitted, terminal_width};
use crate::context::Context;

/// Progress is told so often.
const STEP: Duration = Duration::from_secs(1);

/// Shows what scheduling itself costs, under whatever scheduler is in force
///
/// The part of all CPU time that goes into the kernel's schedule(), how long a call takes and how often
/// CPUs switch, by how deep the cgroup of the task is nested that a CPU came to; and what the
/// scheduler does outside schedule(): wake-ups, ticks, balancing. Needs root. What looking costs
/// is measured before, taken off each call, and told. Ctrl-C ends it early.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// For how long
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    length: Duration,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let _prompt = Prompt::new();
    let meter = OverheadMeter::begin(&context.interrupt)?;
    wait(args.length, context);
    context.print(&DocumentOf(&meter.finish()?), |shown| text(shown.0))?;
    Ok(0)
}

/// Until the time is over or somebody has had enough.
fn wait(length: Duration, context: &Context) {
    let steps = length.div_duration_f64(STEP).ceil() as u64;
    let progress = (steps > 2).then(|| Progress::new("overhead", steps));
    let mut left = length;
    while !left.is_zero() && context.interrupt.sleep(left.min(STEP)) {
        left = left.saturating_sub(STEP);
        progress.iter().for_each(Progress::step);
    }
}

/// It as JSON.
struct DocumentOf<'a>(&'a Overhead);

impl serde::Serialize for DocumentOf<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json(self.0).serialize(serializer)
    }
}

fn json(overhead: &Overhead) -> Value {
    let row = |row: &OverheadRow| document(OVERHEAD_FIGURES, row);
    let with = |key: &str, value: Value, of: &OverheadRow| {
        let mut figures = row(of);
        figures.insert(key.to_owned(), value);
        Value::Object(figures)
    };
    let depths = overhead.depths.iter().map(|(depth, of)| with("depth", json!(depth), of));
    let parts = overhead.parts.iter().map(|(part, of)| with("part", json!(part), of));
    json!({
        "kernel": overhead.kernel,
        "cpus": overhead.cpus,
        "emulated": overhead.emulated,
        "scheduler": overhead.scheduler,
        "scheduler_later": overhead.scheduler_later,
        "length_ns": overhead.length_ns,
        "schedule": row(&overhead.schedule),
        "idle": row(&overhead.idle),
        "depths": depths.collect::<Vec<Value>>(),
        "outside": parts.collect::<Vec<Value>>(),
        "dropped": overhead.dropped,
        "taken_off": {
            "schedule_ns": overhead.probes.in_schedule_ns,
            "outside_ns": overhead.probes.in_part_ns,
        },
        "overhead": { "ns": overhead.looking_ns(), "share": overhead.looking_share() },
    })
}

/// A part as people read it, with the functions that are measured.
fn part_name(part: OverheadPart) -> (&'static str, &'static str) {
    match part {
        OverheadPart::WakeUp => ("wake-ups", "try_to_wake_up() and wake_up_new_task()"),
        OverheadPart::RemoteWakeUp => ("wake-ups, there", "sched_ttwu_pending()"),
        OverheadPart::Tick => ("ticks", "sched_tick()"),
        OverheadPart::Balance => ("balancing", "sched_balance_softirq()"),
        OverheadPart::Tried => ("nothing", "bpf_fentry_test1()"),
    }
}

/// These are for programs.
const NOT_SHOWN: &[&str] = &["calls", "switches", "sum_ns"];

fn text(overhead: &Overhead) -> String {
    let shown = || OVERHEAD_FIGURES.iter().filter(|figure| !NOT_SHOWN.contains(&figure.name));
    let mut columns: Vec<Column> = vec![("WHERE", Fit::Whole)];
    // Percentiles are left out first where there is no room.
    columns.extend(shown().map(|figure| match figure.name {
        "p50_ns" | "p99_ns" => (figure.title, Fit::Out(1)),
        _ => (figure.title, Fit::Whole),
    }));
    let cells = |name: String, row: &OverheadRow| -> Vec<String> {
        std::iter::once(name).chain(shown().map(|figure| figure.text(row))).collect()
    };
    let mut rows = vec![cells("schedule()".to_owned(), &overhead.schedule)];
    rows.push(cells("  to idle".to_owned(), &overhead.idle));
    let deepest = OverheadRow::DEPTHS - 1;
    rows.extend(overhead.depths.iter().map(|(depth, row)| {
        let more = if *depth == deepest { "+" } else { "" };
        cells(format!("  depth {depth}{more}"), row)
    }));
    let parts = overhead.parts.iter();
    rows.extend(parts.map(|(part, row)| cells(part_name(*part).0.to_owned(), row)));
    let mut out = format!(
        "what scheduling costs under {}, {}, {} CPUs\n\n{}\n\n",
        overhead.scheduler,
        brief_time(overhead.length_ns as f64),
        overhead.cpus,
        fitted(&columns, &rows, terminal_width()).join("\n"),
    );
    for (part, row) in &overhead.parts {
        if !row.is_measured() {
            let (name, functions) = part_name(*part);
            out +=
                &format!("{name} were not measured: this kernel lets {functions} not be traced\n");
        }
    }
    if let Some(later) = &overhead.scheduler_later {
        out += &format!(
            "The scheduler changed meanwhile, from {} to {later}: this is what both cost.\n",
            overhead.scheduler
        );
    }
    if overhead.dropped > 0 {
        out += &format!("{} calls are not in it: their end was not seen\n", overhead.dropped);
    }
    out += &format!(
        "looking took about {} of the CPUs' time beside that; {} are taken off each call of schedule(), \
         {} of the others\n",
        percent(overhead.looking_share()),
        brief_time(overhead.probes.in_schedule_ns as f64),
        brief_time(overhead.probes.in_part_ns as f64),
    );
    out
}

//! `metasched record`.

mod capture;
mod facts;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use metasched_base::{
    Error, Kind, Place, Result, ResultExt, brief_time, parse_duration, passed_on,
};
use metasched_host::cgroup::Cgroup;
use metasched_scenario::file::ScenarioFile;
use metasched_scenario::record::{self, Made, Recording};
use metasched_simbed::version;
use metasched_testbed::parse_memory;
use serde::Serialize;

use super::sim::table;
use crate::context::Context;

/// How long is recorded where neither a time nor a command says so.
const LENGTH: Duration = Duration::from_secs(10);
/// With this begins what we write, and only that is written over.
const MARK: &str = "# Recorded by metasched";

/// Records what this machine schedules, as a scenario for `metasched sim`
///
/// Needs root and a kernel with tracefs, no sched_ext and no perf. Ctrl-C ends the recording
/// early, and what was recorded until then is kept. A command's exit status is passed on. docs/simulator.md says what becomes of
/// threads, cgroups and wake-ups, and what a trace cannot tell.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// For how long at most [default: 10s, or until the command ends]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    length: Option<Duration>,
    /// Where the scenario goes
    #[arg(long, value_name = "FILE.toml", default_value = "recorded.toml")]
    out: PathBuf,
    /// Only what runs in this cgroup or below it
    #[arg(long, value_name = "CGROUP")]
    only: Option<String>,
    /// Memory for the buffer of each CPU [default: 8M, less on machines with little memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    buffer: Option<u64>,
    /// Records nothing, but reads what 'perf script' prints of 'perf sched record'
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["length", "only", "buffer", "command"]
    )]
    perf: Option<PathBuf>,
    /// A command to record, after --; one that still runs when the time is up is stopped
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// What is printed.
#[derive(Debug, Serialize)]
struct Report {
    file: PathBuf,
    /// Why the recording ended.
    ended: String,
    length_ns: u64,
    events: usize,
    events_lost: u64,
    groups: usize,
    threads: usize,
    threads_left_out: usize,
    cpu_time_left_out_ns: u64,
    /// CPU time that was recorded.
    cgroups: Vec<CgroupTime>,
    next: String,
}

#[derive(Debug, Serialize)]
struct CgroupTime {
    cgroup: String,
    cpu_ns: u64,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    may_write(&args.out)?;
    let (mut recording, ended, status) = match &args.perf {
        Some(path) => (from_text(path)?, "it was read to its end".to_owned(), None),
        None => live(args, context)?,
    };
    let stem = args.out.file_stem().unwrap_or(args.out.as_os_str());
    recording.name = stem.to_string_lossy().into_owned();
    recording.file = args.out.display().to_string();
    let made = recording.scenario()?;
    // What we write we must be able to read.
    ScenarioFile::parse(&args.out, &made.text)?;
    fs::write(&args.out, &made.text)
        .attempt(Kind::Failed, || format!("write '{}'", args.out.display()))?;
    context.print(&report(args, &recording, &made, ended), text)?;
    Ok(status.map_or(0, passed_on))
}

/// Refuses to write over what is not ours, before anything is recorded.
fn may_write(path: &Path) -> Result<()> {
    match fs::read_to_string(path) {
        Ok(text) if !text.starts_with(MARK) => {
            let attempt = format!("write '{}'", path.display());
            Err(Error::new(Kind::BadInput, attempt, "it is there, and was not recorded")
                .remedy("choose another file with --out"))
        }
        _ => Ok(()),
    }
}

fn head(of: &str) -> String {
    let now = metasched_base::timestamp();
    format!("{} {} {of}, {} {} UTC.", &MARK[2..], version(), &now[..10], &now[11..16])
}

fn from_text(path: &Path) -> Result<Recording> {
    let shown = path.display().to_string();
    // Names of threads may be any bytes.
    let bytes = fs::read(path).attempt(Kind::BadInput, || format!("read '{shown}'"))?;
    let text = String::from_utf8_lossy(&bytes);
    let events = record::read(Place { path: &shown, text: &text })?;
    let about = vec![
        head(&format!("from '{shown}'")),
        "Cgroups, affinities, caches and nodes are not in such a trace: add them by hand.".into(),
    ];
    Ok(Recording { events, about, ..Recording::default() })
}

fn live(args: &Args, context: &Context) -> Result<(Recording, String, Option<ExitStatus>)> {
    let root = Path::new("/");
    let only = args.only.as_ref().map(|name| Cgroup::find(root, name)).transpose()?;
    let length = match (args.length, args.command.is_empty()) {
        (None, true) => Some(LENGTH),
        (length, _) => length,
    };
    let plan = capture::Plan { length, buffer: args.buffer, command: &args.command };
    let before = facts::Threads::look(root);
    let captured = capture::capture(&plan, context)?;
    let threads = before.and(facts::Threads::look(root));
    let machine = metasched_host::machine::machine(root)?;
    let mut about = vec![head(&format!("on Linux {}", machine.kernel_release))];
    if !args.command.is_empty() {
        about.push(format!("Meanwhile ran: {}", args.command.join(" ").escape_debug()));
    }
    let (machine, said) = facts::machine(root, &machine)?;
    about.extend(said);
    if let Some(only) = &only {
        about.push(format!("Only what ran in the cgroup '{}'.", only.name()));
    }
    let threads = threads.facts(root);
    let cgroups = facts::cgroups(root, threads.values().map(|thread| thread.cgroup.as_str()));
    let recording = Recording {
        about,
        events: captured.events,
        lost: captured.lost,
        machine: Some(machine),
        threads,
        cgroups,
        without: captured.own,
        only: only.map(|cgroup| cgroup.name()),
        ..Recording::default()
    };
    Ok((recording, captured.ended, captured.status))
}

fn report(args: &Args, recording: &Recording, made: &Made, ended: String) -> Report {
    let mut cgroups: Vec<CgroupTime> = made
        .ran_ns
        .iter()
        .map(|(path, cpu_ns)| CgroupTime {
            cgroup: if path.is_empty() { "(root)".into() } else { path.clone() },
            cpu_ns: *cpu_ns,
        })
        .collect();
    cgroups.sort_by(|a, b| b.cpu_ns.cmp(&a.cpu_ns).then(a.cgroup.cmp(&b.cgroup)));
    Report {
        file: args.out.clone(),
        ended,
        length_ns: made.length_ns,
        events: recording.events.len(),
        events_lost: recording.lost,
        groups: made.groups,
        threads: made.threads,
        threads_left_out: made.too_short.0,
        cpu_time_left_out_ns: made.too_short.1,
        cgroups,
        next: format!("metasched sim {} --compare", args.out.display()),
    }
}

fn text(report: &Report) -> String {
    let mut table = table(["cgroup", "CPU time", "CPUs"].map(str::to_owned).to_vec(), 1);
    for CgroupTime { cgroup, cpu_ns } in &report.cgroups {
        let cpus = *cpu_ns as f64 / report.length_ns as f64;
        table.add_row([cgroup.clone(), brief_time(*cpu_ns as f64), format!("{cpus:.2}")]);
    }
    let mut out = format!(
        "{}: {} groups of {} threads, from {} events in {}; {}\n\n{}\n\n",
        report.file.display(),
        report.groups,
        report.threads,
        report.events,
        brief_time(report.length_ns as f64),
        report.ended,
        table.trim_fmt(),
    );
    if report.threads_left_out > 0 {
        out += &format!(
            "left out: {} threads that ran for {} in all\n",
            report.threads_left_out,
            brief_time(report.cpu_time_left_out_ns as f64)
        );
    }
    if report.events_lost > 0 {
        out += &format!(
            "{} events were LOST, so that times and wake-ups are missing: record again with a \
             larger --buffer\n",
            report.events_lost
        );
    }
    out += &format!("next: {}\n", report.next);
    out
}

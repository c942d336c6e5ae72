//! `metasched latency`.

mod diff;
mod follow;
mod show;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use metasched_base::{Kind, Progress, Result, parse_duration};
use metasched_host::process::Prompt;
use metasched_watch::{Recorder, Recording, Whom};

use crate::commands::table::clear_screen;
use crate::context::{self, Context};

/// Where neither a time nor --watch is given.
const LENGTH: Duration = Duration::from_secs(10);

/// Shows how long tasks wait for a CPU, under whatever scheduler is in force
///
/// Run-queue latency: from when a task could run (it woke, is new, or was preempted) until it
/// runs, as histograms and percentiles, of the whole system or of what is named. Two
/// recordings are compared by 'metasched latency diff'. Needs root. What looking costs is measured
/// and told; a lane's own books cost nothing more.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// What is in this cgroup or below it; may be given again, as all of these
    #[arg(long, value_name = "CGROUP")]
    cgroup: Vec<String>,
    /// The threads of this process
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Vec<u32>,
    /// Threads of this name, and those of processes of this name
    #[arg(long, value_name = "NAME")]
    comm: Vec<String>,
    /// The tasks of an application's lane; 'default' is that of everything else
    #[arg(long, value_name = "APPLICATION")]
    lane: Vec<String>,
    /// Follows one process and all below it: waits, CPUs, preemptions, and who ran instead
    #[arg(long, requires = "pid", conflicts_with_all = ["cgroup", "comm", "lane", "out"])]
    children: bool,
    /// Also shows how long they ran each time that they got a CPU, and whether they slept then
    #[arg(long, conflicts_with_all = ["lane", "children", "watch"])]
    run_lengths: bool,
    /// For how long [default: 10s; with --watch until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    length: Option<Duration>,
    /// Shows each piece as it ends; with --json as JSON lines
    #[arg(long)]
    watch: bool,
    /// How long a piece is; their differences say how far percentiles can be trusted
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_time)]
    interval: Duration,
    /// Keeps the recording in a file, for 'metasched latency diff'
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Diff(diff::Args),
}

/// A time in which some waits end: a shorter piece would be looking more than anything else.
pub fn parse_time(text: &str) -> Result<Duration> {
    const LEAST: Duration = Duration::from_millis(100);
    let piece = parse_duration(text)?;
    if piece >= LEAST {
        return Ok(piece);
    }
    Err(metasched_base::Error::new(Kind::Usage, format!("look for {text}"), "that is too short")
        .remedy("give 100ms or more"))
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    if let Some(Command::Diff(args)) = &args.command {
        return diff::run(args, context);
    }
    let _prompt = Prompt::new();
    if args.children {
        return follow::run(args, context);
    }
    // Known before anything is recorded.
    args.out.as_deref().map_or(Ok(()), Recording::may_write)?;
    let whom = args.whom();
    let mut recorder = Recorder::begin(&whom, args.run_lengths, &context.interrupt)?;
    let mut pieces = Pieces::new(args, context);
    while let Some(()) = pieces.next() {
        let ended = recorder.piece()?;
        if args.watch && context.json {
            for (whom, piece) in whom.iter().zip(ended) {
                context::json_line(&show::piece_document(whom, piece))?;
            }
        } else if args.watch {
            let shown = whom.iter().zip(ended).map(|(whom, piece)| show::piece(whom, piece));
            let text = format!("{}{}", clear_screen(), shown.collect::<Vec<_>>().join("\n"));
            context.print(&(), |()| text)?;
        }
    }
    drop(pieces);
    let recording = recorder.finish()?;
    // What could not be kept is shown all the same.
    let written = args.out.as_deref().map_or(Ok(()), |path| recording.write(path));
    let kept = args.out.as_deref().filter(|_| written.is_ok());
    if !args.watch || !context.json {
        context.print(&recording, |recording| show::text(recording, kept))?;
    }
    written.map(|()| 0)
}

impl Args {
    /// Whose waits; everybody's if none is named.
    fn whom(&self) -> Vec<Whom> {
        let cgroups = self.cgroup.iter().cloned().map(Whom::Cgroup);
        let processes = self.pid.iter().copied().map(Whom::Process);
        let names = self.comm.iter().cloned().map(Whom::Comm);
        let lanes = self.lane.iter().cloned().map(Whom::Lane);
        let named: Vec<Whom> = cgroups.chain(processes).chain(names).chain(lanes).collect();
        if named.is_empty() { vec![Whom::System] } else { named }
    }
}

/// Waits for the end of each piece, until the time is over or somebody has had enough: what was
/// recorded until then is kept.
struct Pieces<'a> {
    context: &'a Context,
    interval: Duration,
    end: Option<Instant>,
    next: Instant,
    progress: Option<Progress>,
    over: bool,
}

impl<'a> Pieces<'a> {
    fn new(args: &Args, context: &'a Context) -> Self {
        let now = Instant::now();
        let length = args.length.or((!args.watch).then_some(LENGTH));
        // In one piece, if there is no time for two.
        let interval = length.map_or(args.interval, |length| length.min(args.interval));
        let count = length.map(|length| length.div_duration_f64(interval).ceil() as u64);
        let progress = count.filter(|count| *count > 2 && !args.watch);
        Self {
            context,
            interval,
            end: length.map(|length| now + length),
            next: now,
            progress: progress.map(|count| Progress::new("latency", count)),
            over: false,
        }
    }

    /// Some at the end of a piece, the last one too.
    fn next(&mut self) -> Option<()> {
        if self.over {
            return None;
        }
        self.next += self.interval;
        let until = self.end.map_or(self.next, |end| end.min(self.next));
        self.over = !self.context.interrupt.sleep(until.saturating_duration_since(Instant::now()))
            || self.end.is_some_and(|end| until >= end);
        self.progress.iter().for_each(Progress::step);
        Some(())
    }
}

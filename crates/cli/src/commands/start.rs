//! `metasched start`.

use std::path::Path;
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_control::keeper::{Answer, Failure, Keeper, Order, ask};
use metasched_control::{
    Candidate, CandidateEnv, CandidateKind, RUN_DIR, Switcher, make_run_dir, own_program,
    resolve_in, spawn_own,
};
use metasched_host::process::{Output, Prompt};
use metasched_loader::{DEFAULT_POLICY, LaneSpec, Setting, settings};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::load::Load;
use crate::context::Context;

/// How long the keeper may take: the longest start of a scheduler and then some.
const PATIENCE: Duration = Duration::from_secs(200);

/// Starts a scheduler and keeps it running in the background.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    kept: Kept,
    /// Stay in the foreground until stopped, as systemd wants it
    #[arg(long)]
    foreground: bool,
}

/// What is kept; shared with `keep`.
#[derive(Debug, clap::Args)]
pub(super) struct Kept {
    /// The scheduler, as 'metasched list' names it; options of an external one after
    /// a colon or a blank: scx_simple:-f
    #[arg(default_value = DEFAULT_POLICY)]
    scheduler: String,
    /// An option of a policy of ours: slice=5ms
    #[arg(long = "set", value_name = "OPTION=VALUE")]
    settings: Vec<Setting>,
    /// Stop a scheduler that is in force already, and put it back at the end
    #[arg(long)]
    take_over: bool,
    #[command(flatten)]
    load: Load,
}

impl Kept {
    /// The candidate, and the options that it is to have.
    pub(super) fn read(&self) -> Result<(Candidate, LaneSpec)> {
        let candidate = wanted(&self.scheduler)?;
        self.load.check()?;
        let mut lane = candidate.lane();
        if let [first, ..] = self.settings.as_slice() {
            if candidate.kind != CandidateKind::Policy {
                let attempt = format!("set {first} of '{}'", candidate.name);
                return Err(Error::new(Kind::BadInput, attempt, "it is no policy of ours")
                    .remedy("give it its own options after a colon: scx_simple:-f"));
            }
            lane.options.extend(settings(candidate.bare_name(), &self.settings)?);
        }
        Ok((candidate, lane))
    }

    /// The same for another process.
    fn words(&self) -> Vec<String> {
        let mut words = vec![self.scheduler.clone()];
        let set = |setting: &Setting| ["--set".to_owned(), setting.to_string()];
        words.extend(self.settings.iter().flat_map(set));
        if self.take_over {
            words.push("--take-over".to_owned());
        }
        words.extend(self.load.words());
        words
    }
}

/// What the keeper says on its standard output, once, when it has begun or failed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FirstWord {
    /// The scheduler is in force.
    InForce(Candidate),
    /// It is not.
    Failed(Failure),
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let _prompt = Prompt::new();
    let (candidate, lane) = args.kept.read()?;
    if args.foreground {
        let text = format!("'{}' is in force; Ctrl-C ends it", candidate.name);
        hold(&args.kept, &candidate, &lane, context, || context.print(&candidate, |_| text))?;
        return Ok(0);
    }
    // Told here, where the remedy is at hand, rather than by the lock.
    if let Some(Answer::Status(status)) =
        ask(Path::new(RUN_DIR), &Order::Status, &context.interrupt)?
    {
        return Err(Error::new(
            Kind::Busy,
            format!("start '{}'", candidate.name),
            format!("metasched keeps '{}' already", status.scheduler.name),
        )
        .remedy(format!("change it with: metasched switch {}", args.kept.scheduler)));
    }
    start_keeper(&args.kept, context)?;
    context.print(&candidate, |c| format!("'{}' is in force; 'metasched stop' ends it", c.name))?;
    Ok(0)
}

/// The candidate that the user names, if it is one that can be started.
fn wanted(spec: &str) -> Result<Candidate> {
    let candidate = resolve_in(&CandidateEnv::system(), spec)?;
    if candidate.kind == CandidateKind::Default {
        return Err(Error::new(
            Kind::BadInput,
            format!("start '{spec}'"),
            "the kernel's own scheduler is in force whenever nothing is started",
        )
        .remedy("use 'metasched stop'"));
    }
    Ok(candidate)
}

/// Puts the candidate in force and holds it until told to stop.
pub(super) fn hold(
    kept: &Kept,
    candidate: &Candidate,
    lane: &LaneSpec,
    context: &Context,
    in_force: impl FnOnce() -> Result<()>,
) -> Result<()> {
    // From here on: beside hogs each of the many short waits of a start would be one for a turn.
    let _prompt = Prompt::new();
    let options = kept.load.options("metasched start")?.take_over(kept.take_over);
    let run_dir = options.run_dir.clone();
    let mut keeper = Keeper::start(Switcher::new(options)?, candidate, &run_dir)?;
    if !lane.options.is_empty() {
        keeper.set_default(lane)?;
    }
    in_force()?;
    keeper.run(&context.interrupt, None)
}

/// Starts the keeper's process and waits for its first word.
fn start_keeper(kept: &Kept, context: &Context) -> Result<()> {
    let attempt = || "start the keeper in the background".to_owned();
    let run_dir = Path::new(RUN_DIR);
    make_run_dir(run_dir).map_err(|e| {
        Error::new(Kind::Denied, attempt(), format!("make '{RUN_DIR}': {e}"))
            .remedy("changing the scheduler takes root: run it with sudo")
    })?;
    let log = run_dir.join("keeper.log");
    let own = own_program()?.display().to_string();
    let mut command = vec![own, "keep".to_owned()];
    command.extend(kept.words());
    let mut child = spawn_own(&command)
        .first()
        .stdout(Output::Tail(64 * 1024))
        .stderr(Output::Append(log.clone()))
        .detached()
        .start()?;
    let end = Instant::now() + PATIENCE;
    loop {
        let ended = child.poll()?;
        if let Some((line, _)) = child.stdout_tail().split_once('\n') {
            let word = serde_json::from_str(line)
                .attempt(Kind::Failed, || format!("read the keeper's first word '{line}'"))?;
            return match word {
                FirstWord::InForce(_) => Ok(()),
                FirstWord::Failed(failure) => Err(failure.into()),
            };
        }
        if ended.is_some() || Instant::now() >= end {
            let cause = match ended {
                Some(status) => format!("it ended without a word ({status})"),
                None => {
                    // Else it might be in force later, when nobody expects it any more.
                    child.id().signal(Signal::SIGTERM);
                    format!("it said no word in {} s, and was told to end", PATIENCE.as_secs())
                }
            };
            return Err(
                Error::new(Kind::Failed, attempt(), cause).remedy(format!("see {}", log.display()))
            );
        }
        if !context.interrupt.sleep(Duration::from_millis(10)) {
            // It undoes what it has done by then.
            child.id().signal(Signal::SIGTERM);
            return Err(Error::new(Kind::Interrupted, attempt(), "interrupted")
                .remedy("the keeper ends as well, as soon as the kernel has done with it"));
        }
    }
}

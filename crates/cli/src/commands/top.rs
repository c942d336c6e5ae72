//! `metasched top`.

mod act;
mod batch;
mod draw;
mod keys;
mod state;

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Result, ResultExt, parse_duration};
use metasched_host::process::Prompt;
use metasched_watch::{Looks, Tasks};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::context::Context;
use state::{Asked, State};

/// Keys are heard so often while nothing else happens, and so is a signal to stop.
const HEARD: Duration = Duration::from_millis(100);

/// Shows what the scheduler does now: lanes, or cgroups under any other scheduler
///
/// Who has what part of the CPUs and should have, who waits how long, who is throttled, each second; the
/// tasks of a lane and what its policy counts; '?' shows the keys. A lane's policy and weight
/// can be changed, and that taken back. Without a terminal, or with --count, it prints tables; with
/// --json JSON lines. Needs root.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How long a look is
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,
    /// Prints so many looks as text, without a screen
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Traces nothing: that costs nothing, and waits are known of lanes only
    #[arg(long)]
    no_trace: bool,
}

fn parse_interval(text: &str) -> Result<Duration> {
    const LEAST: Duration = Duration::from_millis(100);
    let interval = parse_duration(text)?;
    if interval >= LEAST {
        return Ok(interval);
    }
    Err(Error::new(Kind::Usage, format!("look each {text}"), "that is too often")
        .remedy("give 100ms or more"))
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let _prompt = Prompt::new();
    let mut looks = Looks::begin(!args.no_trace, &context.interrupt)?;
    let screen = args.count.is_none()
        && !context.json
        && std::io::stdout().is_terminal()
        && std::io::stdin().is_terminal();
    if !screen {
        return batch::run(args, &mut looks, context).map(|()| 0);
    }
    let mut terminal =
        ratatui::try_init().attempt(Kind::Failed, || "use the terminal".to_owned())?;
    let shown = show(args, &mut looks, &mut terminal, context);
    // On a panic its hook does that.
    ratatui::restore();
    shown.map(|()| 0)
}

/// Looks and draws until somebody has had enough.
fn show(
    args: &Args,
    looks: &mut Looks,
    terminal: &mut DefaultTerminal,
    context: &Context,
) -> Result<()> {
    let mut state = State::default();
    let mut tasks: Option<(String, Tasks)> = None;
    let mut next = Instant::now() + args.interval;
    // Drawing takes time too: nothing is drawn twice.
    let mut drawn = false;
    loop {
        if !drawn {
            terminal
                .draw(|frame| draw::draw(frame, &mut state))
                .attempt(Kind::Failed, || "draw on the terminal".to_owned())?;
            drawn = true;
        }
        if let Some(event) = hear(next)? {
            // Also one that only says that the terminal has another size.
            drawn = false;
            match press(&mut state, &event) {
                Some(Asked::Quit) => return Ok(()),
                Some(Asked::Order(change)) => state.done(act::carry_out(&change, context)),
                Some(Asked::TakeBack(change)) => {
                    state.taken_back(act::carry_out(&change, context));
                }
                None => {}
            }
        }
        if context.interrupt.is_raised() {
            return Ok(());
        }
        if Instant::now() < next {
            continue;
        }
        next = Instant::now() + args.interval;
        let look = looks.look()?;
        if !state.paused {
            state.take(look);
            look_at_tasks(&mut state, &mut tasks);
            drawn = false;
        }
    }
}

/// Waits for the terminal to say something, until `next`.
fn hear(next: Instant) -> Result<Option<Event>> {
    let heard = || "read the terminal".to_owned();
    let left = next.saturating_duration_since(Instant::now()).min(HEARD);
    if !event::poll(left).attempt(Kind::Failed, heard)? {
        return Ok(None);
    }
    event::read().map(Some).attempt(Kind::Failed, heard)
}

/// What a key asks for.
fn press(state: &mut State, event: &Event) -> Option<Asked> {
    match event {
        Event::Key(key) if key.kind == KeyEventKind::Press => state.key(*key),
        _ => None,
    }
}

/// The tasks of the row that is looked into.
fn look_at_tasks(state: &mut State, tasks: &mut Option<(String, Tasks)>) {
    let Some((key, cgroups, without)) = state.looked_into() else {
        *tasks = None;
        return;
    };
    let looked = match tasks {
        Some((of, tasks)) if *of == key => tasks.look(&cgroups, &without),
        _ => {
            *tasks = Some((key, Tasks::begin(Path::new("/"), &cgroups, &without)));
            Vec::new()
        }
    };
    state.tasks = looked;
}

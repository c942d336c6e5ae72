//! The kernel's scheduling events for a while, and how that ends.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Progress, Result, format_duration};
use metasched_host::machine::machine;
use metasched_host::process::{Child, Output, Spawn, StopPlan, own_threads, run_first};
use metasched_host::tracefs::Tracefs;
use metasched_scenario::record::{Event, Formats, NAMES, Pages};

use crate::context::Context;

/// How often buffers are emptied. A CPU writes some MB/s at most.
const POLL: Duration = Duration::from_millis(50);
/// What each CPU's buffer has, where the user does not say: more than a second's worth.
const BUFFER_BYTES: u64 = 8 << 20;
/// All buffers together have at most this part of the memory, unless the user wants it.
const BUFFERS_PART: u64 = 32;
/// What was recorded has at most this part of the memory, or the machine that is looked at would
/// begin to swap. An event takes several times as much when it is read.
const DATA_PART: u64 = 64;

/// What is recorded.
pub struct Plan<'a> {
    pub length: Option<Duration>,
    /// Bytes of each CPU's buffer.
    pub buffer: Option<u64>,
    /// Empty, if none is to be started.
    pub command: &'a [String],
}

/// What was recorded.
pub struct Captured {
    /// In the order of time.
    pub events: Vec<Event>,
    pub lost: u64,
    /// The threads that recorded.
    pub own: BTreeSet<u32>,
    /// Why it ended.
    pub ended: String,
    /// How the command ended, if it did by itself.
    pub status: Option<ExitStatus>,
}

/// Records until the time is up, the command ends, or a signal asks to stop. The kernel's buffers
/// are removed on any way out.
///
/// # Errors
/// When this kernel cannot be traced, or the command cannot be started.
pub fn capture(plan: &Plan, context: &Context) -> Result<Captured> {
    let tracefs = Tracefs::open()?;
    let texts: Result<Vec<(&str, String)>> =
        NAMES.iter().map(|name| Ok((*name, tracefs.format(name)?))).collect();
    let formats = Formats::parse(&tracefs.read("events/header_page")?, &texts?)?;
    let machine = machine(Path::new("/"))?;
    let each = machine.memory_bytes / BUFFERS_PART / u64::from(machine.cpus.max(1));
    let buffer = plan.buffer.unwrap_or(BUFFER_BYTES.min(each));
    let mut instance = tracefs.instance((buffer >> 10).max(64))?;
    // It must get its turn on the busiest machine, under whatever scheduler. Without that it
    // works too, and what is lost is told.
    if let Err(e) = run_first(1) {
        context.verbose(|| format!("recording without real-time priority: {e}"));
    }

    let mut pages: BTreeMap<usize, Vec<Box<[u8]>>> = BTreeMap::new();
    let mut bytes = 0;
    instance.start(&NAMES)?;
    let began = Instant::now();
    let mut child = start(plan.command)?;
    let show = Show::new(plan);
    let mut status = None;
    let ended = loop {
        instance.pages(formats.page_bytes(), |cpu, page| {
            let used = &page[..formats.used_bytes(page)];
            bytes += used.len() as u64;
            pages.entry(cpu).or_default().push(used.into());
        })?;
        show.tell(began.elapsed());
        if context.interrupt.is_raised() {
            break "a signal ended it".to_owned();
        }
        if bytes > machine.memory_bytes / DATA_PART {
            break format!("it was ended when it filled {} MiB", bytes >> 20);
        }
        status = child.as_mut().map(Child::poll).transpose()?.flatten();
        if let Some(status) = status {
            break format!("the command ended with {status}");
        }
        let left = plan.length.map(|length| length.saturating_sub(began.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            break "the time was up".to_owned();
        }
        context.interrupt.sleep(left.unwrap_or(POLL).min(POLL));
    };
    instance.stop()?;
    drop(show);
    instance.pages(formats.page_bytes(), |cpu, page| {
        pages.entry(cpu).or_default().push(page[..formats.used_bytes(page)].into());
    })?;
    let lost = instance.lost()?;
    drop(instance);
    let own = own_threads();
    if let Some(child) = &mut child {
        child.stop(&StopPlan::default())?;
    }

    let mut read = Pages::new(formats);
    let mut events = Vec::new();
    for (cpu, pages) in pages {
        for page in pages {
            read.read(cpu, &page, &mut events)?;
        }
    }
    events.sort_by_key(|event| event.at_ns);
    Ok(Captured { events, lost, own, ended, status })
}

fn start(command: &[String]) -> Result<Option<Child>> {
    if command.is_empty() {
        return Ok(None);
    }
    let spawn = Spawn::new(command).stdout(Output::Inherit).stderr(Output::Inherit);
    let child = spawn.start().map_err(|e| match e.kind {
        Kind::Failed => e.remedy("try it without 'metasched record --'"),
        Kind::BadInput => Error { kind: Kind::NoSuchCommand, ..e },
        Kind::Denied => Error { kind: Kind::NotExecutable, ..e },
        _ => e,
    })?;
    Ok(Some(child))
}

/// How far it is, on standard error.
struct Show(Option<Progress>);

impl Show {
    fn new(plan: &Plan) -> Self {
        let until = match plan.length {
            Some(length) => format!("for {}", format_duration(length)),
            None => "until the command ends".to_owned(),
        };
        eprintln!("recording {until}; Ctrl-C ends it earlier");
        let bar = plan.length.filter(|_| std::io::stderr().is_terminal());
        Show(bar.map(|length| Progress::new("recording", length.as_secs().max(1))))
    }

    fn tell(&self, since: Duration) {
        if let Some(bar) = &self.0 {
            bar.set_position(since.as_secs());
        }
    }
}

//! `metasched vms serve`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use metasched_base::{Error, Kind, Result, parse_duration};
use metasched_watch::vms::{Scanner, ServeOptions, Served, Whose, machine_of, on_memory, serve};
use serde_json::json;

use crate::context::{self, Context};

/// Tells machines and cgroups of their phantoms and of idle CPUs, each in a page of its own
///
/// The page is a file in memory that the guest reads through a device of QEMU's, see 'metasched vms
/// attach', and what is in a container reads as it is. It has the averages over the last window. It stays in the
/// foreground until Ctrl-C, or until all of them are gone; then the pages are emptied. With --json it prints JSON
/// lines. docs/paravirt.md says what is measured, and what it costs.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Machines, by their names or the numbers of their processes
    #[arg(value_name = "MACHINE", required_unless_present_any = ["cgroup", "all"])]
    machines: Vec<String>,
    /// All threads in this cgroup and below it; may be given again
    #[arg(long, value_name = "CGROUP")]
    cgroup: Vec<String>,
    /// All machines that there are, and those that come
    #[arg(long, conflicts_with_all = ["machines", "cgroup", "page"])]
    all: bool,
    /// Over how long a time each average is
    #[arg(long, value_name = "TIME", default_value = "4ms", value_parser = parse_window)]
    window: Duration,
    /// The page, if there is one machine or cgroup [default: in /dev/shm, by its name]
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Tells nobody what others hold beyond their fair shares: machines that adapt then rest at any division
    #[arg(long)]
    no_owed: bool,
    /// Rounds what is told of others, which is idle and owed CPUs, down to a multiple of so many [default: a thousandth]
    #[arg(long, value_name = "CPUS", value_parser = parse_step)]
    step: Option<f64>,
}

fn parse_step(text: &str) -> Result<f64> {
    let step = text.parse::<f64>().ok().filter(|step| (0.001..=4096.0).contains(step));
    step.ok_or_else(|| {
        Error::new(Kind::Usage, format!("round to '{text}' CPUs"), "that is no number of CPUs")
            .remedy("give 0.001 to 4096; 1 tells of whole CPUs")
    })
}

fn parse_window(text: &str) -> Result<Duration> {
    const LEAST: Duration = Duration::from_millis(1);
    const MOST: Duration = Duration::from_secs(10);
    let window = parse_duration(text)?;
    let refused = |cause: &str, remedy: &str| {
        Err(Error::new(Kind::Usage, format!("average over {text}"), cause).remedy(remedy))
    };
    match window {
        w if w < LEAST => refused("that is too often", "give 1ms or more"),
        w if w > MOST => refused("nobody could go by what is that old", "give 10s or less"),
        w => Ok(w),
    }
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let root = Path::new("/");
    let machines = Scanner::new(root).scan();
    let mut whose: Vec<Whose> = Vec::new();
    for said in &args.machines {
        whose.push(Whose::Machine(machine_of(&machines, said)?));
    }
    for path in &args.cgroup {
        whose.push(Whose::cgroup(root, path)?);
    }
    if let Some(page) = &args.page {
        if whose.len() > 1 {
            let cause = format!("{} are to be served, and each needs its own", whose.len());
            return Err(Error::new(Kind::Usage, format!("use '{}'", page.display()), cause)
                .remedy("leave out --page, or serve one at a time"));
        }
        on_memory(page)?;
    }
    let options = ServeOptions {
        whose,
        window: args.window,
        page: args.page.clone(),
        owed: !args.no_owed,
        step: args.step,
    };
    let mut printed = Ok(());
    let mut tell = |served: &Served| {
        let done = print(served, context);
        if printed.is_ok() {
            printed = done;
        }
    };
    serve(&options, &context.interrupt, &mut tell)?;
    printed.map(|()| 0)
}

fn print(served: &Served, context: &Context) -> Result<()> {
    if context.json {
        return context::json_line(&match served {
            Served::Began { name, page } => json!({ "event": "began", "name": name, "page": page }),
            Served::Ended { name, why } => json!({ "event": "ended", "name": name, "why": why }),
        });
    }
    context.print(&(), |()| match served {
        Served::Began { name, page } => format!("'{name}' is told in '{}'", page.display()),
        Served::Ended { name, why } => format!("'{name}' is told no more: {why}"),
    })
}

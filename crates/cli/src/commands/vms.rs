//! `metasched vms`: a verb a file, and the list of machines.

mod attach;
mod detach;
mod serve;

use std::time::{Duration, Instant};

use metasched_base::{Result, brief_time, document};
use metasched_host::process::Prompt;
use metasched_watch::vms::{MACHINE_FIGURES, MachineLook, MachineLooks, MachineRow};
use serde_json::{Value, json};

use super::latency::parse_time;
use crate::commands::table::{Column, Fit, clear_screen, fitted, terminal_width};
use crate::context::{self, Context};

/// Shows virtual machines and how many of their CPUs wait for one of the host's, and tells them
///
/// Machines are all of KVM's, and those of QEMU without KVM that were started with '-name
/// NAME,debug-threads=on'. A phantom is a virtual CPU that could run and waits for a CPU: its
/// guest believes that it runs. Idle CPUs are those of the host that the machine may use. CPUs are owed to a machine
/// that has less than its fair share, by those that hold more than theirs. By 'metasched vms
/// serve' a machine learns of all that. Works under any scheduler. Needs root.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// For how long [default: 1s; with --watch until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    length: Option<Duration>,
    /// Shows them again and again; with --json as JSON lines
    #[arg(long)]
    watch: bool,
    /// How long a look is with --watch
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_time)]
    interval: Duration,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Serve(serve::Args),
    Attach(attach::Args),
    Detach(detach::Args),
}

/// Where no time is given.
const LENGTH: Duration = Duration::from_secs(1);

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    match &args.command {
        Some(Command::Serve(args)) => serve::run(args, context),
        Some(Command::Attach(args)) => attach::run(args, context),
        Some(Command::Detach(args)) => detach::run(args, context),
        None => list(args, context),
    }
}

fn list(args: &Args, context: &Context) -> Result<u8> {
    let _prompt = Prompt::new();
    let mut looks = MachineLooks::begin()?;
    let end = args.length.map(|length| Instant::now() + length);
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let each = if args.watch { args.interval } else { args.length.unwrap_or(LENGTH) };
        let whole = context.interrupt.sleep(left.map_or(each, |left| left.min(each)));
        let look = looks.look()?;
        match (args.watch, context.json) {
            (true, true) => context::json_line(&of(&look))?,
            (true, false) => {
                context.print(&(), |()| format!("{}{}", clear_screen(), text(&look)))?;
            }
            (false, _) => context.print(&of(&look), |_| text(&look))?,
        }
        let over = end.is_some_and(|end| Instant::now() >= end);
        if !args.watch || !whole || over {
            return Ok(0);
        }
    }
}

/// A look as a document.
fn of(look: &MachineLook) -> Value {
    let thread = |(vcpu_id, tid): (&u32, &u32)| json!({ "vcpu_id": vcpu_id, "tid": tid });
    let row = |row: &MachineRow| {
        let mut document = document(MACHINE_FIGURES, row);
        for (name, value) in [
            ("name", json!(row.machine.name)),
            ("pid", json!(row.machine.id.pid)),
            ("recognised_by", json!(row.machine.recognised_by.to_string())),
            ("vcpu_threads", row.machine.vcpus.iter().map(thread).collect()),
            ("cgroup", json!(row.machine.cgroup)),
            ("page", json!(row.page)),
            ("served", json!(row.served)),
            ("has_page", json!(row.has_page)),
        ] {
            document.insert(name.to_owned(), value);
        }
        Value::Object(document)
    };
    json!({
        "length_ns": look.length_ns,
        "cpus": look.cpus,
        "idle_cpus": look.idle_cpus,
        "overhead": look.overhead,
        "machines": look.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn text(look: &MachineLook) -> String {
    let mut out = format!(
        "{} machines on {} CPUs, of which {:.2} were idle, {}\n",
        look.rows.len(),
        look.cpus,
        look.idle_cpus,
        brief_time(look.length_ns as f64),
    );
    if !look.rows.is_empty() {
        let mut columns: Vec<Column> = vec![("NAME", Fit::Names), ("PID", Fit::Out(2))];
        columns.extend(MACHINE_FIGURES.iter().map(|figure| (figure.title, Fit::Whole)));
        columns.extend([("FOUND BY", Fit::Out(3)), ("CGROUP", Fit::Out(1)), ("PAGE", Fit::Out(0))]);
        let rows: Vec<Vec<String>> = look.rows.iter().map(cells).collect();
        out += &format!("\n{}\n\n", fitted(&columns, &rows, terminal_width()).join("\n"));
    }
    if let Some(overhead) = &look.overhead {
        out += &format!("{}\n", overhead.text());
    }
    out
}

fn cells(row: &MachineRow) -> Vec<String> {
    let mut cells = vec![row.machine.name.clone(), row.machine.id.pid.to_string()];
    cells.extend(MACHINE_FIGURES.iter().map(|figure| figure.text(row)));
    cells.push(row.machine.recognised_by.to_string());
    // Whoever makes a cgroup names it, and terminals obey what is no letter.
    cells.push(format!("/{}", row.machine.cgroup.replace(char::is_control, "\u{fffd}")));
    cells.push(row.page.as_ref().map_or("-".to_owned(), |page| {
        let but = match (row.served, row.has_page) {
            (true, true) => "",
            (false, true) => " (not written)",
            (true, false) => " (not in the machine)",
            (false, false) => " (neither written nor in the machine)",
        };
        format!("{}{but}", page.display())
    }));
    cells
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use metasched_host::process::ProcessId;
    use metasched_watch::vms::{Machine, RecognisedBy, Window};

    use super::*;

    #[test]
    fn a_look_is_a_table_and_a_document_of_the_same_figures() {
        let machine = Machine {
            name: "web".into(),
            id: ProcessId { pid: 4711, start_ticks: 9 },
            owner: (0, 0),
            vcpus: [(0, 4712), (1, 4713)].into(),
            recognised_by: RecognisedBy::Kvm,
            cgroup: "machine.slice/web.scope".into(),
            cpus: [0, 1].into(),
        };
        let window = Window { phantoms: 1.25, idle_cpus: 0.5, cpus: 2, ..Window::default() };
        let page = Path::new("/dev/shm/metasched-paravirt-web").to_owned();
        let row = MachineRow {
            machine,
            window: Some(window),
            page: Some(page),
            served: false,
            has_page: true,
        };
        let machine = Machine { cgroup: "a\x1b[2J".into(), ..row.machine.clone() };
        let new = MachineRow { machine, window: None, page: None, has_page: false, ..row.clone() };
        let without = MachineRow { served: true, has_page: false, ..row.clone() };
        let look = MachineLook {
            length_ns: 1_000_000_000,
            cpus: 2,
            idle_cpus: 0.5,
            rows: vec![row, new, without],
            overhead: None,
        };
        let text = text(&look);
        assert!(text.starts_with("3 machines on 2 CPUs, of which 0.50 were idle, 1 s\n"), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[3].contains("web   4711  2      1.25      0.50       0.00  0.00"), "{text}");
        assert!(lines[3].contains("  kvm       /machine.slice"), "{text}");
        assert!(lines[3].ends_with("-web (not written)") && lines[4].ends_with("  -"), "{text}");
        assert!(lines[5].ends_with("-web (not in the machine)"), "{text}");
        assert!(lines[4].contains("  /a\u{fffd}[2J"), "{text}");
        let document = of(&look);
        assert_eq!(document["machines"][0]["phantoms"], 1.25);
        assert_eq!(document["machines"][1]["phantoms"], Value::Null);
        assert_eq!(document["machines"][0]["pid"], 4711);
        assert_eq!(document["machines"][0]["recognised_by"], "kvm");
        let thread = json!({ "vcpu_id": 1, "tid": 4713 });
        assert_eq!(document["machines"][0]["vcpu_threads"][1], thread);
        for figure in MACHINE_FIGURES {
            assert!(document["machines"][0].get(figure.name).is_some(), "{}", figure.name);
        }
    }
}

//! `metasched vm`.

use std::path::PathBuf;
use std::time::Duration;

use metasched_base::{Error, Kind, Result};
use metasched_testbed::kernels::{self, Candidate};
use metasched_testbed::{Accel, Llc, Thread, Topology, VmOptions};

use crate::context::Context;

/// Runs a command, or a shell, on a kernel with sched_ext, in a guest
///
/// The guest's root is a copy-on-write view of this machine's files; what the
/// command writes is lost with the guest, except below the folders given with
/// --rw. The exit status is the command's; 128 and the signal's number where a
/// signal killed it. Without a command it is a shell ($SHELL) on this terminal.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// CPUs of the guest [default: 2, or what the topology makes]
    #[arg(long, value_name = "N")]
    cpus: Option<u32>,
    /// Memory of the guest
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = metasched_testbed::parse_memory)]
    memory: u64,
    /// How the CPUs are grouped: sockets=2,dies=1,cores=2,threads=2,nodes=2
    #[arg(long, value_name = "LIST")]
    topology: Option<Topology>,
    /// Which CPUs share a last-level cache: per-socket, per-die or per-core
    #[arg(long, value_name = "HOW")]
    llc: Option<Llc>,
    /// The kernel: a version, or a path [default: the newest sound one]
    #[arg(long, value_name = "VERSION|PATH")]
    kernel: Option<String>,
    /// For a kernel of which there is the image alone, which --kernel names: the guest has no files
    /// of this machine but the command's program and those of --with, and no standard input
    #[arg(long, requires = "kernel")]
    no_modules: bool,
    /// A program that such a guest has too, with its libraries (repeatable)
    #[arg(long, value_name = "PROGRAM", requires = "no_modules")]
    with: Vec<PathBuf>,
    /// Emulated CPUs in parallel (multi) or in turn (single, for loading and unloading
    /// schedulers very often); counted: in turn, by a clock that counts instructions, so that
    /// figures do not depend on what else this machine does; auto: multi where each can have a
    /// CPU of this machine
    #[arg(long, value_name = "HOW", default_value = "auto")]
    thread: Thread,
    /// Keep each of the guest's CPUs on a CPU of this machine of its own, for figures
    #[arg(long)]
    pin: bool,
    /// KVM, emulation (tcg), or auto: KVM where a trial shows that it works
    #[arg(long, value_name = "WHICH", default_value = "auto")]
    accel: Accel,
    /// QEMU's CPU model, such as max or SapphireRapids,-avx2
    #[arg(long, value_name = "MODEL")]
    cpu_model: Option<String>,
    /// The guest can run virtual machines with KVM itself, however it is run
    #[arg(long, conflicts_with = "no_modules")]
    kvm_host: bool,
    /// A parameter of the guest's kernel, such as isolcpus=1 (repeatable)
    #[arg(long, value_name = "PARAMETER")]
    append: Vec<String>,
    /// Share this folder for reading and writing; made if it is not there (repeatable)
    #[arg(long, value_name = "DIR")]
    rw: Vec<PathBuf>,
    /// Set a variable of the command's environment (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    env: Vec<(String, String)>,
    /// Time for everything, booting included [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = metasched_base::parse_duration)]
    timeout: Option<Duration>,
    /// Write the guest's console to this file; -v shows it
    #[arg(long, value_name = "FILE")]
    console: Option<PathBuf>,
    /// List the kernels that a guest could boot, and what is wrong with each
    #[arg(long, conflicts_with = "command")]
    list_kernels: bool,
    /// Be the guest's first process
    #[arg(long, hide = true)]
    guest_init: bool,
    /// The command to run, after --
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn parse_variable(text: &str) -> Result<(String, String)> {
    metasched_base::parse_pair(text, "a variable", "--env LANG=C")
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    if args.guest_init {
        metasched_testbed::guest::main();
    }
    if args.list_kernels {
        return context.print(&kernels::list()?, |list| table(list)).map(|()| 0);
    }
    let command = if args.command.is_empty() { shell()? } else { args.command.clone() };
    let options = VmOptions {
        cpus: args.cpus,
        memory_bytes: args.memory,
        topology: args.topology,
        llc: args.llc,
        kernel: args.kernel.clone(),
        no_modules: args.no_modules.then(|| args.with.clone()),
        thread: args.thread,
        pin: args.pin,
        accel: args.accel,
        cpu_model: args.cpu_model.clone(),
        kvm_host: args.kvm_host,
        append: args.append.clone(),
        shares: args.rw.clone(),
        timeout: args.timeout,
        terminal: args.command.is_empty(),
        env: args.env.iter().cloned().collect(),
        console: args.console.clone(),
        show_console: context.verbose,
        ..VmOptions::default()
    };
    let outcome = metasched_testbed::run(&options, &command, &context.interrupt)?;
    if let Some(why) = &outcome.not_started {
        eprintln!("metasched: {why}");
    }
    context.verbose(|| {
        format!("metasched: the guest took {:.1} s to boot", outcome.boot.as_secs_f64())
    });
    Ok(u8::try_from(outcome.status).unwrap_or(1))
}

/// The user's shell, where there is somebody to use it.
fn shell() -> Result<Vec<String>> {
    if !metasched_testbed::terminal::is_there() {
        let cause = "standard input and output are no terminal";
        return Err(Error::new(Kind::Usage, "run a shell in a guest", cause)
            .remedy("write a command after --, as in 'metasched vm -- uname -r'"));
    }
    eprintln!("booting a guest with a shell in it; the guest ends with the shell");
    Ok(vec![std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned())])
}

/// The kernels with what is known about each.
fn table(list: &[Candidate]) -> String {
    if list.is_empty() {
        return "there is none; `make deps` adds the package sources that offer some".into();
    }
    let mut table = comfy_table::Table::new();
    table
        .load_style(comfy_table::presets::NOTHING)
        .set_content_arrangement(comfy_table::ContentArrangement::Dynamic)
        .set_header(["kernel", "where", "sound", ""]);
    for candidate in list {
        let (sound, remark) = match &candidate.verdict {
            None => {
                let megabytes = candidate.size_bytes.unwrap_or(0).div_ceil(1_000_000);
                ("?", format!("not fetched yet ({megabytes} MB)"))
            }
            Some(verdict) if verdict.is_sound() => ("yes", String::new()),
            Some(verdict) => ("no", verdict.summary()),
        };
        let place = candidate.place.to_string();
        table.add_row([candidate.version.as_str(), &place, sound, &remark]);
    }
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

//! `metasched`: measures which scheduler each application prefers, and gives it that one.

mod commands;
mod context;
#[cfg(test)]
mod flags;
mod given;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use metasched_base::{OURS_BESIDE_A_COMMAND, Result};

use crate::context::{Context, GlobalArgs};
use crate::given::Given;

/// Finds out which Linux scheduler each application prefers, and gives it that one.
#[derive(Debug, Parser)]
#[command(name = "metasched", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Doctor(commands::doctor::Args),
    List(commands::list::Args),
    Status(commands::status::Args),
    Start(commands::start::Args),
    Switch(commands::switch::Args),
    Stop(commands::stop::Args),
    Lane(commands::lane::Args),
    Latency(commands::latency::Args),
    Overhead(commands::overhead::Args),
    Top(commands::top::Args),
    Profile(commands::profile::Args),
    Plan(commands::plan::Args),
    Tune(commands::tune::Args),
    Run(commands::run::Args),
    Rules(commands::rules::Args),
    Exec(commands::exec::Args),
    Sim(Box<commands::sim::Args>),
    Record(commands::record::Args),
    Report(commands::report::Args),
    Vm(commands::vm::Args),
    Vms(commands::vms::Args),
    Completions(commands::completions::Args),
    Man(commands::man::Args),
    #[command(hide = true)]
    Decide(commands::decide::Args),
    #[command(hide = true)]
    Guard(commands::guard::Args),
    #[command(hide = true)]
    Keep(commands::keep::Args),
}

fn main() -> ExitCode {
    // The kernel would call the keeper and the guard by the link that they are started through.
    let _ = nix::sys::prctl::set_name(c"metasched");
    let words: Vec<OsString> = std::env::args_os().collect();
    let beside = runs_a_command(&words);
    let (cli, given) = parse(&words).unwrap_or_else(|error| {
        if beside && error.use_stderr() {
            let _ = error.print();
            std::process::exit(i32::from(OURS_BESIDE_A_COMMAND));
        }
        error.exit()
    });
    let done =
        Context::new(&cli.global, given).and_then(|context| dispatch(&cli.command, &context));
    done.map_or_else(|error| context::fail(&error, cli.global.json, beside), ExitCode::from)
}

/// Reads the command line.
fn parse(words: &[OsString]) -> Result<(Cli, Given), clap::Error> {
    let mut command = Cli::command();
    let matches = command.try_get_matches_from_mut(words)?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    Ok((cli, Given::of(&command, &matches)))
}

/// Whether the exit status is to be that of a command after `--`, which ours would be taken for.
fn runs_a_command(words: &[OsString]) -> bool {
    let is_word = |word: &&OsString| !word.as_encoded_bytes().starts_with(b"-");
    let ours = words.iter().skip(1).find(is_word).and_then(|word| word.to_str());
    let all = Cli::command();
    let takes_one = ours
        .and_then(|name| all.find_subcommand(name))
        .is_some_and(|sub| sub.get_arguments().any(clap::Arg::is_last_set));
    takes_one && words.iter().skip_while(|word| *word != "--").nth(1).is_some()
}

fn dispatch(command: &Command, context: &Context) -> Result<u8> {
    match command {
        Command::Doctor(args) => commands::doctor::run(args, context),
        Command::List(args) => commands::list::run(args, context),
        Command::Status(args) => commands::status::run(args, context),
        Command::Start(args) => commands::start::run(args, context),
        Command::Switch(args) => commands::switch::run(args, context),
        Command::Stop(args) => commands::stop::run(args, context),
        Command::Lane(args) => commands::lane::run(args, context),
        Command::Latency(args) => commands::latency::run(args, context),
        Command::Overhead(args) => commands::overhead::run(args, context),
        Command::Top(args) => commands::top::run(args, context),
        Command::Profile(args) => commands::profile::run(args, context),
        Command::Plan(args) => commands::plan::run(args, context),
        Command::Tune(args) => commands::tune::run(args, context),
        Command::Run(args) => commands::run::run(args, context),
        Command::Rules(args) => commands::rules::run(args, context),
        Command::Exec(args) => commands::exec::run(args, context),
        Command::Sim(args) => commands::sim::run(args, context),
        Command::Record(args) => commands::record::run(args, context),
        Command::Report(args) => commands::report::run(args, context),
        Command::Vm(args) => commands::vm::run(args, context),
        Command::Vms(args) => commands::vms::run(args, context),
        Command::Completions(args) => commands::completions::run(args, context),
        Command::Man(args) => commands::man::run(args, context),
        Command::Decide(args) => commands::decide::run(args, context),
        Command::Guard(args) => commands::guard::run(args, context),
        Command::Keep(args) => commands::keep::run(args, context),
    }
}

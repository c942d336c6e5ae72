//! `metasched`: measures which scheduler each application prefers, and gives it that one.

mod commands;
mod context;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use metasched_base::Result;

use crate::context::{Context, GlobalArgs};

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
    Assign(commands::assign::Args),
    Unassign(commands::unassign::Args),
    Lanes(commands::lanes::Args),
    Lane(commands::lane::Args),
    Explain(commands::explain::Args),
    Profile(commands::profile::Args),
    Plan(commands::plan::Args),
    Tune(commands::tune::Args),
    Run(commands::run::Args),
    Sim(Box<commands::sim::Args>),
    Record(commands::record::Args),
    Report(commands::report::Args),
    Vm(commands::vm::Args),
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
    let cli = Cli::parse();
    let context = match Context::new(&cli.global) {
        Ok(context) => context,
        Err(error) => return context::fail(&error, cli.global.json),
    };
    match dispatch(&cli.command, &context) {
        Ok(code) => ExitCode::from(code),
        Err(error) => context::fail(&error, cli.global.json),
    }
}

fn dispatch(command: &Command, context: &Context) -> Result<u8> {
    match command {
        Command::Doctor(args) => commands::doctor::run(args, context),
        Command::List(args) => commands::list::run(args, context),
        Command::Status(args) => commands::status::run(args, context),
        Command::Start(args) => commands::start::run(args, context),
        Command::Switch(args) => commands::switch::run(args, context),
        Command::Stop(args) => commands::stop::run(args, context),
        Command::Assign(args) => commands::assign::run(args, context),
        Command::Unassign(args) => commands::unassign::run(args, context),
        Command::Lanes(args) => commands::lanes::run(args, context),
        Command::Lane(args) => commands::lane::run(args, context),
        Command::Explain(args) => commands::explain::run(args, context),
        Command::Profile(args) => commands::profile::run(args, context),
        Command::Plan(args) => commands::plan::run(args, context),
        Command::Tune(args) => commands::tune::run(args, context),
        Command::Run(args) => commands::run::run(args, context),
        Command::Sim(args) => commands::sim::run(args, context),
        Command::Record(args) => commands::record::run(args, context),
        Command::Report(args) => commands::report::run(args, context),
        Command::Vm(args) => commands::vm::run(args, context),
        Command::Completions(args) => commands::completions::run(args, context),
        Command::Man(args) => commands::man::run(args, context),
        Command::Decide(args) => commands::decide::run(args, context),
        Command::Guard(args) => commands::guard::run(args, context),
        Command::Keep(args) => commands::keep::run(args, context),
    }
}

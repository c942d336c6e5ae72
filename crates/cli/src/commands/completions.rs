//! `metasched completions`.

use clap::CommandFactory;
use clap_complete::Shell;
use metasched_base::{Kind, Result, ResultExt};

use crate::Cli;
use crate::context::Context;

/// Writes a shell's completions to standard output
///
/// For bash: metasched completions bash > /etc/bash_completion.d/metasched
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, _context: &Context) -> Result<u8> {
    use std::io::Write;
    let all = Cli::command();
    // Hidden commands are not for people; clap_complete would offer them all the same.
    let mut visible = clap::Command::new("metasched")
        .args(all.get_arguments().cloned())
        .subcommands(all.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned());
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut visible, "metasched", &mut script);
    std::io::stdout()
        .write_all(&script)
        .attempt(Kind::Failed, || "write to standard output".to_string())?;
    Ok(0)
}

//! What every command is given: the global options, and how to print.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use metasched_base::{Error, Interrupt, Kind, Result, ResultExt, passed_on};
use metasched_profile::manifest::CommandFailed;

use crate::given::Given;

/// Options that every command takes.
#[derive(Clone, Debug, clap::Args)]
pub struct GlobalArgs {
    /// Print JSON on standard output instead of text: one document, but where the command says
    /// JSON lines, one a line
    #[arg(long, global = true)]
    pub json: bool,
    /// Say more of what is being done
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

/// The global options as facts, and the signals.
#[derive(Debug)]
pub struct Context {
    /// Whether standard output carries JSON.
    pub json: bool,
    /// Whether more is said on standard error.
    pub verbose: bool,
    /// Whether a signal has asked us to stop.
    pub interrupt: Interrupt,
    /// The command line, to be said again.
    pub given: Given,
}

impl Context {
    /// Reads the options and starts to listen for signals.
    pub fn new(global: &GlobalArgs, given: Given) -> Result<Self> {
        let GlobalArgs { json, verbose } = *global;
        Ok(Self { json, verbose, interrupt: Interrupt::listen()?, given })
    }

    /// Prints the result of a command: `value` as JSON, or what `text` writes.
    pub fn print<T: serde::Serialize>(
        &self,
        value: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<()> {
        if self.json {
            write_out(&serde_json::to_string_pretty(value).attempt(Kind::Failed, as_json)?)
        } else {
            write_out(text(value).trim_end())
        }
    }

    /// Says something on standard error when `-v` was given.
    pub fn verbose(&self, text: impl FnOnce() -> String) {
        if self.verbose {
            eprintln!("{}", text());
        }
    }
}

/// Prints a value as one line of JSON, of many.
pub fn json_line(value: &impl serde::Serialize) -> Result<()> {
    write_out(&serde_json::to_string(value).attempt(Kind::Failed, as_json)?)
}

fn as_json() -> String {
    "write the result as JSON".to_owned()
}

fn write_out(text: &str) -> Result<()> {
    match writeln!(std::io::stdout(), "{text}") {
        // A reader that went away (`| head`) is not a failure.
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Error::new(Kind::Failed, "write to standard output", e))
        }
        _ => Ok(()),
    }
}

/// Reports a failure, and gives the exit status that goes with it; `beside` a command it is one
/// that is not taken for the command's, but for a command that failed itself: that is passed on.
pub fn fail(error: &Error, json: bool, beside: bool) -> ExitCode {
    let failed = error.source.as_deref().and_then(|source| source.downcast_ref::<CommandFailed>());
    let code = match (failed, beside) {
        (Some(failed), _) => passed_on(failed.0),
        (None, true) => error.kind.exit_code_beside_a_command(),
        (None, false) => error.kind.exit_code(),
    };
    if json {
        println!("{}", serde_json::json!({ "error": error, "exit_code": code }));
    }
    eprintln!("metasched: {error}");
    ExitCode::from(code)
}

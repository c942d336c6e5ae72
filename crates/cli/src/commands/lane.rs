//! `metasched lane`: a verb a file, and what the commands about lanes share.

pub mod assign;
pub mod explain;
mod list;
mod set;
mod unassign;

use std::collections::BTreeMap;
use std::str::FromStr;

use metasched_base::Result;
use metasched_loader::variant;

use crate::context::Context;

/// Gives cgroups lanes of their own, changes lanes, and shows them
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Assign(assign::Args),
    Unassign(unassign::Args),
    Set(set::Args),
    List(list::Args),
    Explain(explain::Args),
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    match &args.command {
        Command::Assign(args) => assign::run(args, context),
        Command::Unassign(args) => unassign::run(args, context),
        Command::Set(args) => set::run(args, context),
        Command::List(args) => list::run(args, context),
        Command::Explain(args) => explain::run(args, context),
    }
}

/// `name=value`, not yet checked against a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    name: String,
    value: String,
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (name, value) = pair(text, "OPTION=VALUE, such as slice=5ms")?;
        Ok(Self { name, value })
    }
}

/// The two sides of a '=', neither of which may be empty; `form` is how to write it.
pub fn pair(text: &str, form: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(format!("write it as {form}")),
    }
}

/// Reads settings as options of a policy. A unit at the end of an option's name may be
/// left out, and one of time may be given as 5ms.
pub fn settings(policy: &str, given: &[Setting]) -> Result<BTreeMap<String, u64>> {
    let info = variant(policy)?;
    let option = |setting: &Setting| {
        let (number, value) = info.read_option(&setting.name, &setting.value)?;
        Ok((info.options[number].name.to_owned(), value))
    };
    given.iter().map(option).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<BTreeMap<String, u64>> {
        settings("fifo", &[text.parse().unwrap()])
    }

    #[test]
    fn a_time_is_read_with_its_unit_and_without() {
        for text in ["slice=5ms", "slice_ns=5000000", "slice=5000000"] {
            assert_eq!(read(text).unwrap(), [("slice_ns".to_owned(), 5_000_000)].into(), "{text}");
        }
    }

    #[test]
    fn what_is_no_setting_is_refused_with_what_there_is() {
        assert!("slice".parse::<Setting>().is_err());
        assert!(read("quantum=1").unwrap_err().to_string().contains("slice_ns"));
        assert!(read("slice=soon").unwrap_err().to_string().contains("no number"));
    }
}

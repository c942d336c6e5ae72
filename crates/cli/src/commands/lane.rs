//! `metasched lane set`, and what the commands about lanes share.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use metasched_base::{Error, Kind, Result};
use metasched_control::keeper::{Answer, Order};
use metasched_host::process::Prompt;
use metasched_loader::variant;

use super::assign::describe;
use super::keeper::{START_ONE_WITH_LANES, ask_keeper, kept_status, no_answer};
use crate::context::Context;

/// Changes a lane in force.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Set(Set),
}

/// Changes the weight or options of a cgroup's lane, at once and in place.
#[derive(Debug, clap::Args)]
struct Set {
    /// The cgroup: its path below /sys/fs/cgroup, or the name of a systemd unit
    cgroup: String,
    /// Its share among lanes that want a CPU, 1 to 10000
    #[arg(long, value_name = "N", required_unless_present = "settings")]
    weight: Option<u32>,
    /// An option of its policy: slice=5ms
    #[arg(long = "set", value_name = "OPTION=VALUE")]
    settings: Vec<Setting>,
}

/// `name=value`, not yet checked against a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
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
pub(super) fn pair(text: &str, form: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(format!("write it as {form}")),
    }
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let _prompt = Prompt::new();
    let Command::Set(set) = &args.command;
    let attempt = format!("change the lane of '{}'", set.cgroup);
    let options = match set.settings.as_slice() {
        [] => BTreeMap::new(),
        given => settings(&policy_of(context, &attempt, &set.cgroup)?, given)?,
    };
    let order = Order::Adjust { cgroup: set.cgroup.clone(), weight: set.weight, options };
    match ask_keeper(context, &attempt, &order, START_ONE_WITH_LANES)? {
        Answer::Assigned(assigned) => context.print(&assigned, describe)?,
        other => return Err(no_answer(&other)),
    }
    Ok(0)
}

/// The policy of the lane that a cgroup has, by which its options are read.
fn policy_of(context: &Context, attempt: &str, cgroup: &str) -> Result<String> {
    let status = kept_status(context, attempt)?;
    let wanted = metasched_host::cgroup::Cgroup::find(Path::new("/"), cgroup)?.name();
    let found = status.apps.into_iter().find(|app| app.cgroups.contains_key(&wanted));
    found.map(|app| app.lane.policy).ok_or_else(|| {
        Error::new(Kind::BadInput, attempt, "it is not assigned")
            .remedy(format!("assign it: metasched assign {cgroup} POLICY"))
    })
}

/// Reads settings as options of a policy. A unit at the end of an option's name may be
/// left out, and one of time may be given as 5ms.
pub(super) fn settings(policy: &str, given: &[Setting]) -> Result<BTreeMap<String, u64>> {
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

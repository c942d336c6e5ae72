//! Commands of a workload that run to their end, and what they said when they failed.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use metasched_base::{Error, Interrupt, Kind, Result};
use metasched_host::process::{Child, Output, Spawn, Watched, Woken, wait};

use crate::manifest::Step;

/// How many of its last lines an error quotes.
const LAST_LINES: usize = 8;

/// A log can be large; what an error quotes is at its end.
const TAIL_BYTES: u64 = 8192;

/// A command of the workload: in its folder, with its variables.
pub(super) fn command(
    command: &[String],
    folder: &Path,
    variables: &BTreeMap<String, String>,
) -> Spawn {
    let spawn = Spawn::new(command.iter().cloned()).folder(folder);
    variables.iter().fold(spawn, |spawn, (name, value)| spawn.env(name, value))
}

/// Runs a step to its end, its output in `log`.
pub(super) fn run(
    what: &str,
    step: &Step,
    spawn: &Spawn,
    log: &Path,
    interrupt: &Interrupt,
) -> Result<()> {
    let spawn =
        spawn.clone().stdout(Output::File(log.to_owned())).stderr(Output::Append(log.to_owned()));
    let mut child = spawn.start()?;
    let watched = Watched::new(child.pid())?;
    let woken = wait(&[&watched], step.timeout, &[interrupt])?;
    match woken {
        Woken::Interrupted => {
            drop(child);
            Err(interrupted(what))
        }
        Woken::Timeout => {
            drop(child);
            Err(Error::new(
                Kind::Timeout,
                what,
                format!(
                    "'{}' took longer than {} s{}",
                    step.command.join(" "),
                    step.timeout.as_secs_f64(),
                    quoted(&last_lines(log))
                ),
            )
            .remedy(format!("see '{}', or raise timeout_s in the manifest", log.display())))
        }
        Woken::Ended(_) => match ended(&mut child)? {
            status if status.success() => Ok(()),
            status => Err(Error::new(
                Kind::Failed,
                what,
                format!(
                    "'{}' ended with {}{}",
                    step.command.join(" "),
                    outcome(status),
                    quoted(&last_lines(log))
                ),
            )
            .remedy(format!("see '{}'", log.display()))),
        },
    }
}

/// The error that says that a stop was asked for, of what goes on where it stopped: measurements
/// are stored one by one, and a preparation by its steps.
pub(crate) fn interrupted(what: &str) -> Error {
    Error::new(Kind::Interrupted, what, "interrupted")
        .remedy("what was finished is kept; the same command goes on from there")
}

/// The exit status of a child that has ended.
pub(super) fn ended(child: &mut Child) -> Result<ExitStatus> {
    // It was seen to end, so this only reaps it.
    child.wait(Duration::from_secs(5))?.ok_or_else(|| {
        Error::new(Kind::Failed, format!("wait for process {}", child.pid()), "it did not end")
    })
}

/// The last lines of a log; nothing if it cannot be read.
pub(super) fn last_lines(log: &Path) -> String {
    use std::io::{Read, Seek, SeekFrom};
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

/// What was said last, as the end of an error's cause.
pub(super) fn quoted(lines: &str) -> String {
    if lines.is_empty() {
        return "; it wrote nothing".to_owned();
    }
    format!(", and its last words were:\n{lines}\n")
}

/// How a process ended, in words.
pub(super) fn outcome(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => match nix::sys::signal::Signal::try_from(signal) {
            Ok(signal) => format!("{signal}"),
            Err(_) => format!("signal {signal}"),
        },
        (None, None) => "no exit status".to_owned(),
    }
}

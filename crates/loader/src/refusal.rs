//! Why the kernel refused the program, and what to do about it.
//!
//! Facts are gathered first; a pure function then decides, so that every way of
//! failing is tested without privileges and without the kernel that fails so.

use std::io::ErrorKind;
use std::path::Path;

use metasched_base::{Error, Kind, Result};
use metasched_host::privileges::{TO_LOAD_SCHEDULERS, may_load_schedulers};

use crate::exit::ExitRecord;

/// How far loading had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Open,
    Load,
    Attach,
}

/// What is known about a refusal.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub stage: Stage,
    /// What sort of error the kernel gave.
    pub error: ErrorKind,
    /// All that libbpf said, the verifier's log included.
    pub log: String,
    /// What the program itself was told as it was turned out, if it was.
    pub record: Option<ExitRecord>,
    pub host: Host,
}

/// What the machine says about itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Host {
    pub release: String,
    /// `/sys/kernel/sched_ext` is there.
    pub sched_ext: bool,
    /// `/sys/kernel/btf/vmlinux` is there.
    pub btf: bool,
    /// The scheduler that is attached now.
    pub attached: Option<String>,
    /// `/sys/devices/system/cpu/isolated`.
    pub isolated: String,
    /// Whether we have the capabilities that it takes.
    pub privileged: bool,
    /// `/proc/sys/net/core/bpf_jit_enable` is "0".
    pub jit_off: bool,
}

impl Host {
    /// Reads the facts below `root`, which is "/" except in tests.
    pub(crate) fn read(root: &Path) -> Self {
        let text = |path: &str| {
            let text = std::fs::read_to_string(root.join(path)).unwrap_or_default();
            text.trim().to_string()
        };
        let attached = text("sys/kernel/sched_ext/root/ops");
        Self {
            release: text("proc/sys/kernel/osrelease"),
            sched_ext: root.join("sys/kernel/sched_ext/state").exists(),
            btf: root.join("sys/kernel/btf/vmlinux").exists(),
            attached: Some(attached).filter(|name| !name.is_empty()),
            isolated: text("sys/devices/system/cpu/isolated"),
            privileged: may_load_schedulers(root),
            jit_off: text("proc/sys/net/core/bpf_jit_enable") == "0",
        }
    }
}

/// Refuses at once where it is plain that nothing can be loaded.
pub(crate) fn check_host(attempt: &str) -> Result<()> {
    match unfit(&Host::read(Path::new("/"))) {
        Some(verdict) => Err(verdict.error(attempt)),
        None => Ok(()),
    }
}

/// Refuses where we may not trace the kernel.
pub(crate) fn check_may_trace(attempt: &str) -> Result<()> {
    if may_load_schedulers(Path::new("/")) {
        return Ok(());
    }
    let cause = format!("to trace the kernel takes {TO_LOAD_SCHEDULERS}");
    Err(Error::new(Kind::Denied, attempt, cause).remedy("run it as root, for example with sudo"))
}

/// The error for a refusal that libbpf reported.
pub(crate) fn explain(
    attempt: String,
    stage: Stage,
    error: &libbpf_rs::Error,
    log: &str,
    record: Option<ExitRecord>,
) -> Error {
    let kind = match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
        libbpf_rs::ErrorKind::InvalidInput => ErrorKind::InvalidInput,
        _ => ErrorKind::Other,
    };
    explain_kind(attempt, stage, kind, &format!("{error:#}"), log, record)
}

/// The same where the kernel's own error is known; libbpf's has no kind for one that is busy.
pub(crate) fn explain_kind(
    attempt: String,
    stage: Stage,
    error: ErrorKind,
    text: &str,
    log: &str,
    record: Option<ExitRecord>,
) -> Error {
    let log = if log.is_empty() { text } else { log }.to_owned();
    decide(&Facts { stage, error, log, record, host: Host::read(Path::new("/")) }).error(&attempt)
}

/// What [`decide`] makes of the facts.
#[derive(Debug)]
pub(crate) struct Verdict {
    kind: Kind,
    cause: String,
    remedy: String,
}

impl Verdict {
    fn new(kind: Kind, cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { kind, cause: cause.into(), remedy: remedy.into() }
    }

    fn error(self, attempt: &str) -> Error {
        Error::new(self.kind, attempt, self.cause).remedy(self.remedy)
    }
}

/// What makes a machine unfit whatever is loaded there.
fn unfit(host: &Host) -> Option<Verdict> {
    if !host.sched_ext {
        return Some(Verdict::new(
            Kind::Unsupported,
            format!("kernel {} has no sched_ext", host.release),
            "boot a kernel of 7.0 or later with CONFIG_SCHED_CLASS_EXT=y, or run the command in the testbed: metasched vm -- ...",
        ));
    }
    if !host.btf {
        return Some(Verdict::new(
            Kind::Unsupported,
            format!(
                "kernel {} describes no types: there is no /sys/kernel/btf/vmlinux",
                host.release
            ),
            "boot a kernel with CONFIG_DEBUG_INFO_BTF=y",
        ));
    }
    if !host.privileged {
        return Some(Verdict::new(
            Kind::Denied,
            format!("loading a scheduler takes {TO_LOAD_SCHEDULERS}"),
            "run it as root, for example with sudo",
        ));
    }
    None
}

/// Decides from the facts alone.
pub(crate) fn decide(facts: &Facts) -> Verdict {
    let host = &facts.host;

    let missing = missing_from_btf(&facts.log);
    if !missing.is_empty() {
        return Verdict::new(
            Kind::Unsupported,
            format!(
                "the BTF of kernel {} lacks what a scheduler calls, or has it with other arguments: {}",
                host.release,
                missing.join(", ")
            ),
            "boot another kernel; 'metasched doctor' says which ones are sound",
        );
    }
    if facts.log.contains("is not found in kernel BTF") {
        return Verdict::new(
            Kind::Unsupported,
            format!("kernel {} was built without CONFIG_SCHED_CLASS_EXT", host.release),
            "boot a kernel that has it",
        );
    }
    if facts.log.contains("System Kconfig") || facts.log.contains("system Kconfig") {
        return Verdict::new(
            Kind::Unsupported,
            format!("the configuration of kernel {} cannot be read", host.release),
            format!("put it at /boot/config-{}", host.release),
        );
    }
    if let Some(rejection) = verifier_rejection(&facts.log) {
        return Verdict::new(
            Kind::Failed,
            rejection,
            "this is a fault of metasched: report it with these lines and the kernel's version",
        );
    }
    if facts.stage == Stage::Attach && facts.error == ErrorKind::ResourceBusy {
        let name = host.attached.as_deref().unwrap_or("another scheduler");
        return Verdict::new(Kind::Busy, format!("'{name}' is already attached"), "stop it first");
    }
    if facts.stage == Stage::Attach
        && facts.error == ErrorKind::InvalidInput
        && !host.isolated.is_empty()
    {
        return Verdict::new(
            Kind::Unsupported,
            format!("CPUs {} are isolated (isolcpus=), which sched_ext refuses", host.isolated),
            "boot without isolcpus=; a cpuset partition can isolate them instead",
        );
    }
    if host.jit_off {
        return Verdict::new(
            Kind::Unsupported,
            "the BPF compiler of the kernel is off, and schedulers need it",
            "sysctl net.core.bpf_jit_enable=1",
        );
    }
    if facts.error == ErrorKind::PermissionDenied {
        return Verdict::new(
            Kind::Denied,
            "the kernel does not permit it, although we have the capabilities: a container or a lockdown may be in the way",
            "run it outside the container, or without the lockdown",
        );
    }
    if let Some(record) = &facts.record {
        return Verdict::new(
            Kind::SchedulerExit,
            format!(
                "the kernel turned the program out as it started: {} {}",
                record.reason, record.message
            )
            .trim_end()
            .to_string(),
            "the kernel's log (dmesg) may say more",
        );
    }
    // What went wrong comes first; each caller then adds that it failed too.
    const LINES: usize = 4;
    let said: Vec<&str> = facts.log.lines().filter(|line| !line.is_empty()).take(LINES).collect();
    let said = if said.is_empty() { "no reason was given".into() } else { said.join("; ") };
    Verdict::new(Kind::Failed, said, "the kernel's log (dmesg) may say more")
}

/// The kernel functions that libbpf could not match, in the order it named them.
fn missing_from_btf(log: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for line in log.lines() {
        let about_kfunc = line.contains("(func ksym)")
            && (line.contains("incompatible with") || line.contains("not found in"))
            || line.contains("is referenced but wasn't resolved");
        if let Some(name) = line.split('\'').nth(1).filter(|_| about_kfunc) {
            let name = name.to_string();
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// The end of the verifier's log, where it says what it did not like.
fn verifier_rejection(log: &str) -> Option<String> {
    /// Lines before the verdict that show how the verifier got there.
    const LINES: usize = 12;
    let (before, rest) = log.split_once("-- BEGIN PROG LOAD LOG --")?;
    let program = before.rsplit("prog '").next()?.split('\'').next()?;
    let body = rest.split("-- END PROG LOAD LOG --").next()?;
    let lines: Vec<&str> = body
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty() && !line.starts_with("processed "))
        .collect();
    let from = lines.len().saturating_sub(LINES);
    let verdict = lines.last().copied().unwrap_or("without a reason");
    Some(format!(
        "the verifier rejected '{program}': {verdict}\n{}",
        lines[from..].iter().map(|line| format!("    {line}\n")).collect::<String>().trim_end()
    ))
}

#[cfg(test)]
mod tests;

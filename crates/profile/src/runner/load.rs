//! One run of the load, and what the application did meanwhile.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use metasched_base::{Error, Interrupt, Kind, Result, ResultExt, passed_on};
use metasched_host::process::{Output, Watched, Woken, wait};
use metasched_host::schedstat;

use super::application::Application;
use super::step::{self, command, ended, interrupted, last_lines, outcome, quoted};
use super::tracer::Tracer;
use super::{Group, Usage, readers};
use crate::manifest::{CommandFailed, Given, Step};
use crate::{LoadFigures, PartFigures, Parts};

/// A load may take this many times its duration, and [`TIMEOUT_MORE`] besides, before
/// it is taken to hang: tools start up, and drain their last requests.
const TIMEOUT_TIMES: u32 = 3;
const TIMEOUT_MORE: Duration = Duration::from_secs(30);

/// More output than this is not figures.
const MAX_OUTPUT_BYTES: u64 = 64 << 20;

/// What metasched itself looks at while a load runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observe {
    /// Nothing: the load tool's own figures are all.
    Nothing,
    /// What the cgroups used, read once before and once after.
    Usage,
    /// That, and every run-queue wait, by a tracer in the kernel.
    Waits,
}

/// A load that ran to its end.
struct Ran {
    /// What it printed, where that holds figures.
    output: String,
    /// From its start to its end.
    elapsed_s: f64,
    exit_code: u8,
}

/// What one run gave.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// The figures of the whole.
    pub figures: LoadFigures,
    /// The figures of each cgroup.
    pub parts: Parts,
}

impl Application<'_> {
    /// Runs the load once, for `duration` where the tool can be told.
    ///
    /// Errors: a load that fails, hangs or prints nonsense, and a process of the
    /// application that ends meanwhile, each with what was said last. When one of
    /// `interrupts` is raised, the load is killed, and the kind is
    /// [`Kind::Interrupted`].
    pub fn run(
        &mut self,
        duration: Duration,
        observe: Observe,
        interrupts: &[&Interrupt],
    ) -> Result<RunResult> {
        self.check()?;
        let given = self.form.load.given.as_ref();
        if let Some(line) = given.and_then(|given| given.prepare.as_ref()) {
            self.prepare_run(line)?;
        }
        let tracer = match observe {
            Observe::Waits => Some(Tracer::attach(self.all_groups())?),
            _ => None,
        };
        let before = self.usage(observe)?;
        let waited_before = self.waited_ns(observe);
        let ran = self.run_load(duration, interrupts)?;
        let waited_after = self.waited_ns(observe);
        let after = self.usage(observe)?;
        let reads = self.form.load.reads;
        let mut figures = readers::read(reads, &ran.output, ran.elapsed_s).map_err(|cause| {
            Error::new(Kind::Failed, self.load_attempt(), cause).remedy(format!(
                "its whole output is in '{}' and '{}'",
                self.log("load.out").display(),
                self.log("load.err").display()
            ))
        })?;
        figures.exit_code = given.map(|_| ran.exit_code);
        let waited =
            waited_after.zip(waited_before).map(|(after, before)| after.saturating_sub(before));
        figures.waited_s = waited.map(|ns| ns as f64 / 1e9);
        let mut parts: Parts = after
            .iter()
            .filter_map(|(name, after)| {
                Some((name.clone(), part(before.get(name)?, after, figures.duration_s)))
            })
            .collect();
        if let Some(tracer) = tracer {
            for (name, traced) in tracer.read()? {
                let part = parts.entry(name).or_default();
                part.wait_histogram = Some(traced.waits);
                part.runs = Some(traced.runs);
            }
        }
        let own: Vec<&PartFigures> = self.own_groups().filter_map(|name| parts.get(name)).collect();
        sum(&mut figures, &own);
        let load = &self.form.load.cgroup;
        if self.own_groups().all(|name| name != load) {
            figures.load_wait_histogram = parts.get(load).and_then(|p| p.wait_histogram.clone());
        }
        Ok(RunResult { figures, parts })
    }

    /// The groups of the application, without the load's; that one too if there is no
    /// other, as a command without an application beside it is the application.
    fn own_groups(&self) -> impl Iterator<Item = &str> {
        let own = |name: &str| self.running.iter().any(|process| process.cgroup == name);
        let none = self.running.is_empty();
        self.groups.keys().map(String::as_str).filter(move |name| none || own(name))
    }

    fn all_groups(&self) -> impl Iterator<Item = (&str, &dyn Group)> {
        self.groups.iter().map(|(name, group)| (name.as_str(), group.as_ref()))
    }

    fn load_attempt(&self) -> String {
        let name = &self.workload.manifest.name;
        format!("measure the workload '{name}' (form '{}')", self.form.name)
    }

    fn usage(&self, observe: Observe) -> Result<BTreeMap<String, Usage>> {
        let mut usage = BTreeMap::new();
        if observe != Observe::Nothing {
            for (name, group) in &self.groups {
                if let Some(reading) = group.usage()? {
                    usage.insert(name.clone(), reading);
                }
            }
        }
        Ok(usage)
    }

    fn waited_ns(&self, observe: Observe) -> Option<u64> {
        (observe != Observe::Nothing).then(|| schedstat::waited_ns(Path::new("/")))?
    }

    /// Has a shell do what comes before a run of the command, where and as that runs.
    fn prepare_run(&mut self, line: &str) -> Result<()> {
        let load = &self.form.load;
        let step = Step {
            command: ["sh", "-c", line].map(str::to_owned).to_vec(),
            timeout: load.timeout.unwrap_or(Duration::MAX),
        };
        let folder = &self.workload.manifest.folder;
        let spawn = command(&step.command, folder, &BTreeMap::new());
        let spawn = self.group(&load.cgroup)?.place(spawn);
        let what = format!("prepare a run of '{}'", load.command.join(" "));
        step::run(&what, &step, &spawn, &self.log("prepare.log"), &self.site.interrupt)
    }

    /// Runs the load to its end.
    fn run_load(&mut self, duration: Duration, interrupts: &[&Interrupt]) -> Result<Ran> {
        let load = &self.form.load;
        let (out, err) = (self.log("load.out"), self.log("load.err"));
        let to_files = (Output::File(out.clone()), Output::File(err.clone()));
        // A command that the user gave has the environment that he has.
        let (variables, (stdout, stderr)) = match &load.given {
            None => (self.variables(&load.env, duration)?, to_files),
            Some(Given { show_output: true, .. }) => {
                (BTreeMap::new(), (Output::Inherit, Output::Inherit))
            }
            // What it said last is told where it fails.
            Some(_) => (BTreeMap::new(), (Output::Null, to_files.1)),
        };
        let shown = matches!(stderr, Output::Inherit);
        let spawn = command(&load.command, &self.workload.manifest.folder, &variables)
            .stdout(stdout)
            .stderr(stderr);
        let timeout = load.timeout.unwrap_or(duration * TIMEOUT_TIMES + TIMEOUT_MORE);
        let began = Instant::now();
        let started = self.group(&load.cgroup)?.place(spawn).start();
        let mut child = started.map_err(|error| match (load.given.is_some(), error.kind) {
            (true, Kind::BadInput) => Error { kind: Kind::NoSuchCommand, ..error },
            (true, Kind::Denied) => Error { kind: Kind::NotExecutable, ..error },
            _ => error,
        })?;
        let watched = Watched::new(child.pid())?;
        let woken = {
            let all: Vec<&Watched> =
                [&watched].into_iter().chain(self.running.iter().map(|r| &r.watched)).collect();
            wait(&all, timeout, interrupts)?
        };
        let elapsed_s = began.elapsed().as_secs_f64();
        let tool = format!("the load '{}'", load.command.join(" "));
        let words = || {
            if shown {
                return String::new();
            }
            let words = last_lines(&err);
            quoted(&if words.is_empty() { last_lines(&out) } else { words })
        };
        match woken {
            Woken::Ended(0) => {
                let status = ended(&mut child)?;
                self.clear_load()?;
                if let Some(given) = &load.given {
                    if !status.success() && !given.ignore_failure {
                        return Err(command_failed(&load.command, status, &words()));
                    }
                    let output = String::new();
                    return Ok(Ran { output, elapsed_s, exit_code: passed_on(status) });
                }
                if !status.success() {
                    let cause = format!("{tool} ended with {}{}", outcome(status), words());
                    return Err(Error::new(Kind::Failed, self.load_attempt(), cause)
                        .remedy(format!("see '{}'", err.display())));
                }
                Ok(Ran { output: read_output(&out)?, elapsed_s, exit_code: 0 })
            }
            Woken::Ended(place) => {
                drop(child);
                self.clear_load()?;
                Err(self.died(place - 1))
            }
            Woken::Timeout => {
                let cause =
                    format!("{tool} did not end within {} s{}", timeout.as_secs_f64(), words());
                drop(child);
                self.clear_load()?;
                Err(Error::new(Kind::Timeout, self.load_attempt(), cause)
                    .remedy("see whether it keeps to METASCHED_DURATION_S, or set timeout_s in the manifest's load"))
            }
            Woken::Interrupted => {
                drop(child);
                self.clear_load()?;
                Err(interrupted(&self.load_attempt()))
            }
        }
    }

    /// Kills what the load left running, unless it shares its cgroup with the application.
    fn clear_load(&mut self) -> Result<()> {
        let name = &self.form.load.cgroup;
        if self.running.iter().any(|process| process.cgroup == *name) {
            return Ok(());
        }
        self.groups.get(name).map_or(Ok(()), |group| group.kill())
    }
}

/// The error for a command of the user's, whose exit status it carries on.
fn command_failed(command: &[String], status: std::process::ExitStatus, words: &str) -> Error {
    let source: Option<Arc<dyn std::error::Error + Send + Sync>> =
        Some(Arc::new(CommandFailed(status)));
    let cause = format!("it ended with {}{words}", outcome(status));
    let error = Error::new(Kind::Failed, format!("measure '{}'", command.join(" ")), cause)
        .remedy("see its output with --show-output; --ignore-failure counts such runs too");
    Error { source, ..error }
}

fn read_output(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes))
        .attempt(Kind::Failed, || format!("read '{}'", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What a cgroup did between two readings, for a load of `duration_s`.
fn part(before: &Usage, after: &Usage, duration_s: f64) -> PartFigures {
    let cpu_us = after.cpu_us.saturating_sub(before.cpu_us);
    let user_us = after.user_us.saturating_sub(before.user_us);
    let mut part = PartFigures {
        cpu_s: Some(cpu_us as f64 / 1e6),
        user_s: Some(user_us as f64 / 1e6),
        ..PartFigures::default()
    };
    let did = after.threads.since(&before.threads);
    // All threads of a load tool are gone at the second reading: nothing is known.
    if did.timeslices > 0 {
        part.wait_mean_us = Some(did.wait_ns as f64 / 1e3 / did.timeslices as f64);
        part.timeslices = Some(did.timeslices);
        part.nvcsw_per_s = Some(did.nvcsw as f64 / duration_s);
        part.nivcsw_per_s = Some(did.nivcsw as f64 / duration_s);
    }
    part
}

/// Adds the parts up.
fn sum(figures: &mut LoadFigures, parts: &[&PartFigures]) {
    let total = |of: fn(&PartFigures) -> Option<f64>| -> Option<f64> {
        let known: Vec<f64> = parts.iter().filter_map(|part| of(part)).collect();
        (!known.is_empty()).then(|| known.iter().sum())
    };
    figures.cpu_s = total(|part| part.cpu_s);
    figures.user_s = total(|part| part.user_s);
    figures.nvcsw_per_s = total(|part| part.nvcsw_per_s);
    figures.nivcsw_per_s = total(|part| part.nivcsw_per_s);
    let timeslices = total(|part| part.timeslices.map(|n| n as f64));
    let waits = total(|part| Some(part.wait_mean_us? * part.timeslices? as f64));
    figures.wait_mean_us = waits.zip(timeslices).map(|(waits, n)| waits / n);
    for part in parts {
        if let Some(histogram) = &part.wait_histogram {
            let mut all = metasched_stats::Log2Histogram::new(
                figures.wait_histogram.take().unwrap_or_default(),
            );
            all.merge(&metasched_stats::Log2Histogram::new(histogram.clone()));
            figures.wait_histogram = Some(all.buckets);
        }
        if let Some(runs) = &part.runs {
            figures.runs.get_or_insert_default().merge(runs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_weighs_each_part_by_how_often_it_ran() {
        let part = |wait, timeslices, histogram: Option<Vec<u64>>| PartFigures {
            cpu_s: Some(1.0),
            wait_mean_us: Some(wait),
            timeslices: Some(timeslices),
            nvcsw_per_s: Some(10.0),
            nivcsw_per_s: None,
            wait_histogram: histogram,
            ..PartFigures::default()
        };
        let mut figures = LoadFigures::default();
        let (a, b) = (part(10.0, 30, Some(vec![1, 2])), part(50.0, 10, Some(vec![0, 0, 5])));
        sum(&mut figures, &[&a, &b]);
        assert_eq!(figures.wait_mean_us, Some(20.0));
        assert_eq!((figures.cpu_s, figures.nvcsw_per_s), (Some(2.0), Some(20.0)));
        assert_eq!(figures.nivcsw_per_s, None);
        assert_eq!(figures.wait_histogram, Some(vec![1, 2, 5]));
    }

    #[test]
    fn threads_that_are_gone_give_no_waits() {
        let before = Usage { cpu_us: 5, ..Usage::default() };
        let after = Usage { cpu_us: 1_000_005, ..Usage::default() };
        let part = part(&before, &after, 2.0);
        assert_eq!(part.cpu_s, Some(1.0));
        assert_eq!((part.wait_mean_us, part.nvcsw_per_s), (None, None));
    }
}

//! Functions of a serverless platform: cgroups that each do a little now and then.

use super::read::{MANY, Reader};
use super::steps::Kind;
use super::values::{self, wrong};
use super::{ATTEMPT, raw};
use crate::requests::{Arrivals, Process};
use crate::samples::{self, SAMPLE_NS};
use crate::shared::SharedSpec;
use crate::span::Span;
use crate::step::{Name, Step};
use crate::task::TaskSpec;
use metasched_base::{Place, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;

/// The samples that need no file.
const AZURE: &str = "azure2021";
/// Where the pods of Kubernetes are that say what they want, and may have more.
const PODS: &str = "kubepods/burstable";
/// What a function asks for, of a CPU.
const REQUEST: f64 = 0.1;
/// Threads that share a call.
const THREADS_MOST: u64 = 64;

/// A function: what a placer has to know of it, and which tasks it has.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name; that of its requests.
    pub name: Name,
    /// What it asks for, in thousandths of a CPU.
    pub request: u64,
    /// What it uses of CPUs in the mean, in thousandths, by its samples and if no call waits.
    pub uses: u64,
    /// Its tasks, by their places among those of the file.
    pub tasks: Range<usize>,
}

impl Reader<'_> {
    /// All of them, with their tasks and requests added to the others.
    pub fn functions(
        &self,
        file: &raw::File,
        duration_ns: u64,
        declared: &BTreeMap<Kind, Vec<(usize, String)>>,
        tasks: &mut Vec<TaskSpec>,
        shared: &mut SharedSpec,
    ) -> Result<Vec<Function>> {
        let mut functions = Vec::new();
        let mut names = declared.get(&Kind::Arrivals).cloned().unwrap_or_default();
        for function in &file.function {
            let raw = function.get_ref();
            names.push(self.name(&raw.name, &names)?);
            let cgroup = match &raw.cgroup {
                Some(path) => self.cgroup(path)?,
                None => PODS.to_owned(),
            };
            let scale = self.thousandths(&raw.scale, 1.0, 0.0..=1_000.0)?;
            let trace = self.trace(raw, scale)?;
            let count = self.number(&raw.count, trace.len() as u64, MANY)?;
            let work = Work {
                sleep: raw
                    .sleep
                    .as_ref()
                    .map_or(Ok(Span::Exactly(0)), |t| self.text(t, values::span))?,
                run: self.text(&raw.run, values::span)?,
                threads: self.number(&raw.threads, 1, 1..=THREADS_MOST)?,
            };
            let request = self.thousandths(&raw.request, REQUEST, 0.0..=1_024.0)?;
            for number in 0..count {
                let name: Name = format!("{}-{number}", raw.name.get_ref()).into();
                if shared.arrivals.contains_key(&name) {
                    let cause = format!("requests are called '{name}' already");
                    let wrong = wrong(cause, "give them, or the function, another name");
                    return Err(self.wrong(raw.name.span().start, wrong));
                }
                let clients = trace.samples(number, scale);
                let from = tasks.len();
                let path = format!("{cgroup}/{name}/container");
                let group = raw.name.get_ref();
                work.add(tasks, group, &name, &path, calls_at_once(&clients, duration_ns));
                functions.push(Function {
                    name: name.clone(),
                    request,
                    uses: work.uses(&clients),
                    tasks: from..tasks.len(),
                });
                let (sample_ns, think) = (SAMPLE_NS, Span::Exactly(0));
                let process = Process::Sampled { clients: clients.into(), sample_ns, think };
                shared.arrivals.insert(name, Arrivals::of(process));
            }
        }
        Ok(functions)
    }

    fn trace(&self, raw: &raw::Function, scale: u64) -> Result<Trace> {
        let Some(path) = raw.samples.as_ref().filter(|path| path.get_ref() != AZURE) else {
            return Ok(Trace::MadeUp);
        };
        let beside = Path::new(self.place.path).parent().unwrap_or(Path::new(""));
        let beside = beside.join(path.get_ref()).to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&beside).map_err(|e| {
            let remedy = format!("write '{AZURE}', or a file's path from where the scenario is");
            self.wrong(path.span().start, wrong(format!("'{beside}': {e}"), remedy))
        })?;
        let place = Place { path: &beside, text: &text };
        let read = samples::read(&text);
        let known = read.map_err(|e| place.error(ATTEMPT, e.at, e.cause).remedy(e.remedy))?;
        if scale != 1_000 {
            let at = raw.scale.as_ref().map_or(0, |scale| scale.span().start);
            return Err(
                self.wrong(at, wrong("samples of a file are as they are", "remove the scale"))
            );
        }
        Ok(Trace::Read(known))
    }

    /// A number that has up to three decimals, in thousandths.
    pub(super) fn thousandths(
        &self,
        number: &Option<Spanned<f64>>,
        default: f64,
        range: std::ops::RangeInclusive<f64>,
    ) -> Result<u64> {
        let value = number.as_ref().map_or(default, |number| *number.get_ref());
        if !range.contains(&value) {
            let at = number.as_ref().map_or(0, |number| number.span().start);
            let remedy = format!("write {} to {}", range.start(), range.end());
            return Err(self.wrong(at, wrong(format!("{value} is out of range"), remedy)));
        }
        Ok((value * 1_000.0).round() as u64)
    }
}

enum Trace {
    MadeUp,
    Read(Vec<Vec<u32>>),
}

impl Trace {
    /// How many functions there are if nobody says.
    fn len(&self) -> usize {
        match self {
            Trace::MadeUp => 1,
            Trace::Read(known) => known.len(),
        }
    }

    fn samples(&self, number: u64, scale: u64) -> Vec<u32> {
        match self {
            Trace::MadeUp => samples::made_up(number, scale),
            Trace::Read(known) => known[number as usize % known.len()].clone(),
        }
    }
}

/// How many calls are under way at most before the end.
fn calls_at_once(clients: &[u32], duration_ns: u64) -> u32 {
    let samples = usize::try_from(duration_ns / SAMPLE_NS + 1).unwrap_or(usize::MAX);
    clients.iter().take(samples).copied().max().unwrap_or(0)
}

/// What a call does.
struct Work {
    sleep: Span,
    run: Span,
    threads: u64,
}

impl Work {
    /// Threads for so many calls at a time.
    fn add(&self, tasks: &mut Vec<TaskSpec>, group: &str, name: &Name, cgroup: &str, calls: u32) {
        let share = self.run.divided_by(self.threads);
        for call in 0..calls {
            let task = |what: &str| {
                TaskSpec::named(format!("{name} {call}{what}")).in_group(group).in_cgroup(cgroup)
            };
            let (go, done): (Name, Name) =
                (format!("{name} {call} go").into(), format!("{name} {call} done").into());
            let mut caller = task("").step(Step::Accept(name.clone())).sleep(self.sleep);
            if self.threads > 1 {
                caller = caller.step(Step::Wake(go.clone(), self.threads - 1));
            }
            caller = caller.run(share);
            for _ in 1..self.threads {
                caller = caller.step(Step::Wait(done.clone()));
            }
            tasks.push(caller.step(Step::End).for_ever());
            tasks.extend((1..self.threads).map(|helper| {
                let helps = task(&format!(" {helper}")).step(Step::Wait(go.clone())).run(share);
                helps.step(Step::Wake(done.clone(), 1)).for_ever()
            }));
        }
    }

    /// What it takes of CPUs in the mean, in thousandths: of each call that is under way, the part of
    /// its time in which it runs.
    fn uses(&self, clients: &[u32]) -> u64 {
        let calls: u64 = clients.iter().copied().map(u64::from).sum();
        let (run, sleep) = (self.run.mean_ns(), self.sleep.mean_ns());
        let part = u128::from(calls) * 1_000 * u128::from(run) / u128::from((run + sleep).max(1));
        (part / clients.len().max(1) as u128) as u64
    }
}

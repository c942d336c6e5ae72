//! From TOML to a scenario: everything that can be wrong is told with its line.

use super::groups::{Group, Groups, Rounds};
use super::steps::{Kind, Written};
use super::values::{self, Wrong, duration_ns, wrong};
use super::{ATTEMPT, KernelThread, MachineSpec, ScenarioFile, raw};
use crate::cpu_mask::MAX_CPUS;
use crate::machine::{Costs, HZ, HZ_RANGE};
use crate::span::Span;
use metasched_base::{Error, Place, Result, nearest};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use toml::Spanned;

/// CPUs of a machine of which the file does not say how many it has.
pub(super) const CPUS: usize = 4;
/// Duration of a run of which the file does not say how long it is.
pub(super) const DURATION_NS: u64 = 10_000_000_000;

/// What the kernel's own class may ask for at once.
const BASE_SLICE_NS: RangeInclusive<u64> = 100_000..=1_000_000_000;

/// Any number of things: keeps typing errors out.
pub(super) const MANY: RangeInclusive<u64> = 1..=1_000_000;

pub(super) struct Reader<'a> {
    pub place: Place<'a>,
    /// The cgroups that have lanes at some time, by their applications' numbers.
    pub apps: Vec<String>,
    /// `cpu.weight` of those that have one, as far as the file is read.
    pub weights: BTreeMap<String, u32>,
}

/// Reads a scenario from TOML.
pub(super) fn read(place: Place, stem: String) -> Result<ScenarioFile> {
    let file: raw::File = toml_of(place)?;
    Reader { place, apps: Vec::new(), weights: BTreeMap::new() }.file(file, stem)
}

/// Reads a machine alone.
pub(super) fn read_machine(place: Place) -> Result<MachineSpec> {
    let file: raw::MachineFile = toml_of(place)?;
    Reader { place, apps: Vec::new(), weights: BTreeMap::new() }.machine(&file.machine)
}

/// The names of all tasks and teams, as they stand in the file.
pub(super) fn task_names(file: &raw::File) -> impl Iterator<Item = &raw::Text> {
    let tasks = file.task.iter().map(|task| &task.get_ref().name);
    tasks.chain(file.team.iter().map(|team| &team.name))
}

fn toml_of<T: DeserializeOwned>(place: Place) -> Result<T> {
    place.toml(ATTEMPT, "correct that line; see docs/simulator.md")
}

impl Reader<'_> {
    /// The error of something that is wrong at a byte of the file.
    pub fn wrong(&self, at: usize, Wrong { cause, remedy }: Wrong) -> Error {
        self.place.error(ATTEMPT, at, cause).remedy(remedy)
    }

    pub fn text<T>(
        &self,
        text: &raw::Text,
        read: impl FnOnce(&str) -> std::result::Result<T, Wrong>,
    ) -> Result<T> {
        read(text.get_ref()).map_err(|e| self.wrong(text.span().start, e))
    }

    pub fn duration(&self, text: &Option<raw::Text>, default_ns: u64) -> Result<u64> {
        text.as_ref().map_or(Ok(default_ns), |text| self.text(text, duration_ns))
    }

    pub fn number(
        &self,
        number: &Option<Spanned<i64>>,
        default: u64,
        range: RangeInclusive<u64>,
    ) -> Result<u64> {
        let Some(number) = number else { return Ok(default) };
        let value = u64::try_from(*number.get_ref()).ok().filter(|value| range.contains(value));
        value.ok_or_else(|| {
            let cause = format!("{} is out of range", number.get_ref());
            let remedy = format!("write {} to {}", range.start(), range.end());
            self.wrong(number.span().start, wrong(cause, remedy))
        })
    }

    pub fn weight(
        &self,
        weight: &Option<Spanned<i64>>,
        nice: &Option<Spanned<i64>>,
    ) -> Result<Option<u32>> {
        let read = |number: &Spanned<i64>, read: fn(i64) -> std::result::Result<u32, Wrong>| {
            read(*number.get_ref()).map_err(|e| self.wrong(number.span().start, e))
        };
        match (weight, nice) {
            (Some(_), Some(nice)) => Err(self.wrong(
                nice.span().start,
                wrong("a task has a weight or a nice value, not both", "remove one of them"),
            )),
            (Some(weight), None) => Ok(Some(read(weight, values::weight)?)),
            (None, Some(nice)) => Ok(Some(read(nice, values::weight_of_nice)?)),
            (None, None) => Ok(None),
        }
    }

    /// A name that steps can tell, and that nothing else of its kind has.
    pub fn name(&self, name: &raw::Text, others: &[(usize, String)]) -> Result<(usize, String)> {
        let (at, text) = (name.span().start, name.get_ref());
        if text.is_empty() || text.contains(char::is_whitespace) {
            let cause = format!("'{text}' is no name");
            return Err(self.wrong(at, wrong(cause, "write a word without spaces")));
        }
        if let Some((before, _)) = others.iter().find(|(_, other)| other == text) {
            let cause = format!("'{text}' is told of at {} already", self.place.line(*before));
            return Err(self.wrong(at, wrong(cause, "give it another name")));
        }
        Ok((at, text.clone()))
    }

    pub fn cgroup(&self, path: &raw::Text) -> Result<String> {
        self.text(path, |text| {
            let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
            if text.is_empty() || (text.split('/').all(plain) && text.split('/').count() < 15) {
                return Ok(text.to_owned());
            }
            let cause = format!("'{text}' is no path of a cgroup");
            Err(wrong(cause, "write it from the root of the hierarchy, without a '/' first: a/b"))
        })
    }

    fn file(mut self, file: raw::File, stem: String) -> Result<ScenarioFile> {
        let machine = self.machine(&file.machine)?;
        let duration_ns = self.duration(&file.duration, DURATION_NS)?;
        let warm_up_ns = self.duration(&file.warm_up, 0)?;
        if let Some(warm_up) = file.warm_up.as_ref().filter(|_| warm_up_ns >= duration_ns) {
            let cause = "nothing is left of the run after its warm-up";
            let remedy = "write a longer duration; the warm-up is its first part";
            return Err(self.wrong(warm_up.span().start, wrong(cause, remedy)));
        }
        let seed = match &file.seed {
            None => None,
            seed => Some(self.number(seed, 0, 0..=i64::MAX as u64)?),
        };

        let groups = Groups::of(self.groups(&file.task)?).map_err(|(at, e)| self.wrong(at, e))?;
        let mut declared: BTreeMap<Kind, Vec<(usize, String)>> = BTreeMap::new();
        let mut shared = self.shared(&file, &groups, &mut declared)?;
        groups.check(&declared).map_err(|(at, e)| self.wrong(at, e))?;
        let mut tasks = groups.tasks().map_err(|(at, e)| self.wrong(at, e))?;
        self.teams(&file, &mut tasks, &mut shared)?;
        let functions = self.functions(&file, duration_ns, &declared, &mut tasks, &mut shared)?;
        if tasks.is_empty() && functions.is_empty() {
            let nothing = wrong("it has no task", "add a [[task]], a [[team]] or a [[function]]");
            return Err(self.wrong(self.place.text.len(), nothing));
        }

        let (cgroups, lanes) = self.cgroups(&file.cgroups)?;
        let objectives = self.objectives(&file.cgroups)?;
        let known: Vec<String> = task_names(&file).map(|name| name.get_ref().clone()).collect();
        let mut events = Vec::new();
        for event in &file.event {
            events.push(self.event(event, &known, &machine)?);
        }
        let fleet = file.fleet.as_ref().map(|fleet| self.fleet(fleet)).transpose()?;
        let name = file.name.unwrap_or(stem);
        Ok(ScenarioFile {
            name,
            about: file.about,
            duration_ns,
            warm_up_ns,
            seed,
            machine,
            lanes,
            objectives,
            shared,
            tasks,
            functions,
            fleet,
            cgroups,
            events,
        })
    }

    fn machine(&self, machine: &raw::MachineTable) -> Result<MachineSpec> {
        let cpus = self.number(&machine.cpus, CPUS as u64, 1..=MAX_CPUS as u64)?;
        let llcs = self.number(&machine.llcs, 1, 1..=cpus)?;
        let nodes = self.number(&machine.nodes, 1, 1..=llcs)?;
        let [cpus, llcs, nodes] = [cpus, llcs, nodes].map(|n| n as usize);
        let range = u64::from(*HZ_RANGE.start())..=u64::from(*HZ_RANGE.end());
        let hz = self.number(&machine.hz, HZ.into(), range)? as u32;
        let costs = self.costs(&machine.costs)?;
        let threads = machine.kernel_thread.iter().map(|thread| self.kernel_thread(thread, cpus));
        let kernel_threads = threads.collect::<Result<_>>()?;
        let smt = machine.smt.unwrap_or(false);
        let base_slice = |text: &raw::Text| match self.text(text, values::duration_ns)? {
            ns if BASE_SLICE_NS.contains(&ns) => Ok(ns),
            _ => {
                let remedy = "write \"100us\" to \"1s\", as the kernel takes it";
                Err(self.wrong(text.span().start, wrong("no kernel asks for such a slice", remedy)))
            }
        };
        let base_slice_ns = machine.base_slice.as_ref().map(base_slice).transpose()?;
        Ok(MachineSpec { cpus, llcs, nodes, smt, hz, base_slice_ns, costs, kernel_threads })
    }

    fn kernel_thread(&self, thread: &raw::KernelThread, cpus: usize) -> Result<KernelThread> {
        let cpu = match &thread.cpu {
            None => None,
            some => Some(self.number(some, 0, 0..=cpus as u64 - 1)? as usize),
        };
        let every_ns = self.text(&thread.every, duration_ns)?;
        let run_ns = self.text(&thread.run, duration_ns)?;
        Ok(KernelThread { name: thread.name.clone(), cpu, every_ns, run_ns })
    }

    fn costs(&self, raw: &raw::Costs) -> Result<Costs> {
        let usual = Costs::default();
        let (ipi_least_ns, ipi_most_ns) =
            self.between(&raw.ipi, (usual.ipi_least_ns, usual.ipi_most_ns))?;
        let (own_least_ns, own_most_ns) =
            self.between(&raw.own, (usual.own_least_ns, usual.own_most_ns))?;
        Ok(Costs {
            switch_ns: self.duration(&raw.switch, usual.switch_ns)?,
            group_level_ns: self.duration(&raw.group_level, usual.group_level_ns)?,
            group_queued_ns: self.duration(&raw.group_queued, usual.group_queued_ns)?,
            migration_core_ns: self.duration(&raw.migration_core, usual.migration_core_ns)?,
            migration_llc_ns: self.duration(&raw.migration_llc, usual.migration_llc_ns)?,
            migration_node_ns: self.duration(&raw.migration_node, usual.migration_node_ns)?,
            migration_across_ns: self.duration(&raw.migration_across, usual.migration_across_ns)?,
            cold_ns: self.duration(&raw.cold, usual.cold_ns)?,
            cold_after_ns: self.duration(&raw.cold_after, usual.cold_after_ns)?,
            callback_ns: self.duration(&raw.callback, usual.callback_ns)?,
            kfunc_ns: self.duration(&raw.kfunc, usual.kfunc_ns)?,
            call_ns: self.duration(&raw.call, usual.call_ns)?,
            wake_ns: self.duration(&raw.wake, usual.wake_ns)?,
            tell_ns: self.duration(&raw.tell, usual.tell_ns)?,
            sleep_ns: self.duration(&raw.sleep, usual.sleep_ns)?,
            timer_ns: self.duration(&raw.timer, usual.timer_ns)?,
            tick_late_ns: self.duration(&raw.tick_late, usual.tick_late_ns)?,
            tick_jitter_ns: self.duration(&raw.tick_jitter, usual.tick_jitter_ns)?,
            tick_strays: self.number(&raw.tick_strays, usual.tick_strays, 0..=1 << 32)?,
            tick_stray_ns: self.duration(&raw.tick_stray, usual.tick_stray_ns)?,
            ipi_least_ns,
            ipi_most_ns,
            own_least_ns,
            own_most_ns,
        })
    }

    /// The least and the longest time of something that is drawn between both.
    fn between(&self, text: &Option<raw::Text>, usual: (u64, u64)) -> Result<(u64, u64)> {
        let Some(text) = text else { return Ok(usual) };
        match self.text(text, values::span)? {
            Span::Exactly(ns) => Ok((ns, ns)),
            Span::Between(least_ns, most_ns) => Ok((least_ns, most_ns)),
            _ => {
                let cause = "an interrupt has a least time and a longest";
                let remedy = "write it like \"2us..10us\"";
                Err(self.wrong(text.span().start, wrong(cause, remedy)))
            }
        }
    }

    fn groups(&self, tasks: &[Spanned<raw::Task>]) -> Result<Vec<Group>> {
        let mut names: Vec<(usize, String)> = Vec::new();
        let mut groups = Vec::new();
        for task in tasks {
            let raw = task.get_ref();
            names.push(self.name(&raw.name, &names)?);
            let arrives_ns = match &raw.arrives {
                None => (0, 0),
                Some(text) => match self.text(text, values::span)? {
                    Span::Exactly(ns) => (ns, ns),
                    Span::Between(first, last) => (first, last),
                    _ => {
                        let cause = "tasks arrive at a time, or spread over a range";
                        let remedy = "write it like \"10ms\" or \"0ms..100ms\"";
                        return Err(self.wrong(text.span().start, wrong(cause, remedy)));
                    }
                },
            };
            let rounds = match &raw.rounds {
                None => Rounds::Unsaid,
                rounds => Rounds::Times(self.number(rounds, 1, 1..=u64::MAX)?),
            };
            let mut steps = Vec::new();
            for step in raw.steps.get_ref() {
                let at = step.span().start;
                steps.push((at, self.step(at, step.get_ref())?));
            }
            if steps.is_empty() {
                let nothing = wrong("it does nothing", "write steps = [\"run 10ms\"], or so");
                return Err(self.wrong(raw.steps.span().start, nothing));
            }
            groups.push(Group {
                name: raw.name.get_ref().clone(),
                at: raw.name.span().start,
                count: match &raw.count {
                    None => None,
                    count => Some(self.number(count, 1, 0..=*MANY.end())?),
                },
                cgroup: raw.cgroup.as_ref().map_or(Ok(String::new()), |path| self.cgroup(path))?,
                weight: self.weight(&raw.weight, &raw.nice)?.unwrap_or(100),
                affinity: raw
                    .affinity
                    .as_ref()
                    .map(|text| self.text(text, values::cpus))
                    .transpose()?,
                kthread: raw.kthread,
                arrives_ns,
                rounds,
                steps,
            });
        }
        Ok(groups)
    }

    fn step(&self, at: usize, value: &toml::Value) -> Result<Written> {
        let usage = "write a step as \"run 2ms\", or { repeat = 3, steps = [...] }";
        let table = match value {
            toml::Value::String(text) => {
                return Written::parse(text).map_err(|e| self.wrong(at, e));
            }
            toml::Value::Table(table) => table,
            other => {
                let cause = format!("a step is a string or a table, not a {}", other.type_str());
                return Err(self.wrong(at, wrong(cause, usage)));
            }
        };
        if let Some(key) = table.keys().find(|key| !["repeat", "steps"].contains(&key.as_str())) {
            let remedy = match nearest(key, ["repeat", "steps"]) {
                Some(near) => format!("did you mean '{near}'?"),
                None => usage.to_owned(),
            };
            return Err(self.wrong(at, wrong(format!("a loop has no '{key}'"), remedy)));
        }
        let times = table.get("repeat").and_then(toml::Value::as_integer);
        let times = times.and_then(|times| u64::try_from(times).ok()).filter(|t| MANY.contains(t));
        let steps = table.get("steps").and_then(toml::Value::as_array).filter(|s| !s.is_empty());
        let (Some(times), Some(steps)) = (times, steps) else {
            return Err(self.wrong(at, wrong("it is no loop", usage)));
        };
        let steps: Result<Vec<Written>> = steps.iter().map(|step| self.step(at, step)).collect();
        Ok(Written::Repeat { times, steps: steps? })
    }
}

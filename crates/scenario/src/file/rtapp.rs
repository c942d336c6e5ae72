//! rt-app's JSON. What this simulator does not model is refused by its name, as the rest is
//! worth nothing if a part of it is left out in silence.

use super::groups::{Group, Groups, Rounds};
use super::read::{CPUS, DURATION_NS};
use super::steps::Written;
use super::values::{self, Wrong, wrong};
use super::{ATTEMPT, MachineSpec, ScenarioFile};
use crate::shared::{BarrierSpec, SharedSpec};
use crate::span::Span;
use crate::step::{Name, Step};
use jsonc_parser::ast::{Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;
use metasched_base::{Error, Place, Result, nearest};

/// Keys of "global" that count.
const GLOBAL: &[&str] = &["duration", "default_policy", "pi_enabled"];
/// Those of "global" that are about logs and calibration, and are passed over.
const IGNORED: &[&str] = &[
    "calibration",
    "cumulative_slack",
    "frag",
    "ftrace",
    "gnuplot",
    "io_device",
    "lock_pages",
    "log_basename",
    "log_size",
    "logdir",
    "mem_buffer_size",
];
/// Keys of a task beside its events.
const TASK: &[&str] =
    &["cpus", "delay", "instance", "loop", "phases", "policy", "priority", "taskgroup"];
/// Events, of tasks and of phases.
const EVENTS: &[&str] = &[
    "barrier", "broad", "fork", "iorun", "lock", "mem", "resume", "run", "runtime", "signal",
    "sleep", "suspend", "sync", "timer", "unlock", "wait", "yield",
];
/// All that is read.
#[cfg(test)]
pub(super) const KEYS: [&[&str]; 4] = [GLOBAL, IGNORED, TASK, EVENTS];

/// Bytes that "mem" writes in a nanosecond, and ns that "iorun" takes for a byte.
const MEM_BYTES_PER_NS: u64 = 10;
const IO_NS_PER_BYTE: u64 = 1;

/// The nice value that tasks have by default.
const NICE_DEFAULT: i64 = 0;

struct Reader<'a> {
    place: Place<'a>,
    shared: SharedSpec,
    barriers: Vec<Name>,
    /// Timers that have names, by the task that uses them.
    timers: Vec<(String, String)>,
}

/// Reads a scenario from rt-app's JSON.
pub(super) fn read(place: Place, stem: String) -> Result<ScenarioFile> {
    let options = jsonc_parser::ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        ..Default::default()
    };
    let parsed = jsonc_parser::parse_to_ast(place.text, &Default::default(), &options)
        .map_err(|e| place.error(ATTEMPT, e.range().start, e.kind()).remedy("correct that line"))?;
    let reader =
        Reader { place, shared: SharedSpec::default(), barriers: Vec::new(), timers: Vec::new() };
    let top = reader.object(parsed.value.as_ref(), 0, "a file of rt-app's")?;
    reader.file(top, stem)
}

impl Reader<'_> {
    fn wrong(&self, at: usize, Wrong { cause, remedy }: Wrong) -> Error {
        self.place.error(ATTEMPT, at, cause).remedy(remedy)
    }

    fn refused(&self, property: &ObjectProp, known: &[&str]) -> Error {
        let name = property.name.as_str();
        let remedy = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("what is read is {}", known.join(", ")),
        };
        self.wrong(property.start(), wrong(format!("'{name}' is not modelled"), remedy))
    }

    fn object<'v>(
        &self,
        value: Option<&'v Value<'v>>,
        at: usize,
        what: &str,
    ) -> Result<&'v Object<'v>> {
        value.and_then(Value::as_object).ok_or_else(|| {
            let cause = format!("{what} is an object");
            self.wrong(value.map_or(at, |value| value.start()), wrong(cause, "write { ... }"))
        })
    }

    fn number(&self, property: &ObjectProp) -> Result<i64> {
        let number = property.value.as_number_lit().and_then(|number| number.value.parse().ok());
        number.ok_or_else(|| {
            let cause = format!("'{}' is a whole number", property.name.as_str());
            self.wrong(property.start(), wrong(cause, "write digits, without quotes"))
        })
    }

    /// A number that is not negative, times `unit`.
    fn amount(&self, property: &ObjectProp, unit: u64) -> Result<u64> {
        let number = self.number(property)?;
        u64::try_from(number).ok().and_then(|n| n.checked_mul(unit)).ok_or_else(|| {
            let cause = format!("'{}' cannot be {number}", property.name.as_str());
            self.wrong(property.start(), wrong(cause, "write a number from 0 on"))
        })
    }

    fn name(&self, property: &ObjectProp) -> Result<String> {
        let text = property.value.as_string_lit().map(|text| text.value.to_string());
        text.ok_or_else(|| {
            let cause = format!("'{}' is a name", property.name.as_str());
            self.wrong(property.start(), wrong(cause, "write it in quotes"))
        })
    }

    /// SCHED_OTHER, and nothing else.
    fn policy(&self, property: &ObjectProp) -> Result<()> {
        let policy = self.name(property)?;
        if policy == "SCHED_OTHER" {
            return Ok(());
        }
        let cause = format!("tasks of {policy} are not modelled");
        Err(self.wrong(property.start(), wrong(cause, "write SCHED_OTHER, or leave it out")))
    }

    fn file(mut self, top: &Object, name: String) -> Result<ScenarioFile> {
        let mut duration_ns = DURATION_NS;
        let mut groups = Vec::new();
        for property in &top.properties {
            let at = property.start();
            match property.name.as_str() {
                "global" => {
                    let global = self.object(Some(&property.value), at, "\"global\"")?;
                    duration_ns = self.global(global)?;
                }
                "tasks" => {
                    for task in &self.object(Some(&property.value), at, "\"tasks\"")?.properties {
                        groups.push(self.task(task)?);
                    }
                }
                // Only older files tell of them; they are made as they are named.
                "resources" => {
                    self.object(Some(&property.value), at, "\"resources\"")?;
                }
                _ => return Err(self.refused(property, &["global", "tasks", "resources"])),
            }
        }
        let groups = Groups::of(groups).map_err(|(at, e)| self.wrong(at, e))?;
        for barrier in &self.barriers {
            let parties = groups.parties(barrier).unwrap_or(0);
            if parties == 0 {
                let cause = format!("it is not known how many come to the barrier '{barrier}'");
                let remedy = "use it in tasks that are not forked";
                return Err(self.wrong(0, wrong(cause, remedy)));
            }
            let spec = BarrierSpec { parties: parties as usize, spin_ns: 0 };
            self.shared.barriers.insert(barrier.clone(), spec);
        }
        let tasks = groups.tasks().map_err(|(at, e)| self.wrong(at, e))?;
        if tasks.is_empty() {
            return Err(self.wrong(0, wrong("it has no task", "add one to \"tasks\"")));
        }
        Ok(ScenarioFile {
            name,
            about: String::new(),
            duration_ns,
            warm_up_ns: 0,
            seed: None,
            machine: MachineSpec { cpus: CPUS, ..MachineSpec::default() },
            lanes: Vec::new(),
            objectives: std::collections::BTreeMap::new(),
            shared: self.shared,
            tasks,
            functions: Vec::new(),
            fleet: None,
            cgroups: Vec::new(),
            events: Vec::new(),
        })
    }

    /// How long the run is.
    fn global(&self, global: &Object) -> Result<u64> {
        let mut duration_ns = DURATION_NS;
        for property in &global.properties {
            match property.name.as_str() {
                "duration" if self.number(property)? == -1 => {}
                "duration" => duration_ns = self.amount(property, 1_000_000_000)?,
                "default_policy" => self.policy(property)?,
                "pi_enabled" => {
                    if property.value.as_boolean_lit().is_some_and(|lit| lit.value) {
                        let cause = "priority inheritance is not modelled";
                        let remedy = "write false, or leave it out";
                        return Err(self.wrong(property.start(), wrong(cause, remedy)));
                    }
                }
                name if IGNORED.contains(&name) => {}
                _ => return Err(self.refused(property, &[GLOBAL, IGNORED].concat())),
            }
        }
        Ok(duration_ns)
    }

    fn task(&mut self, task: &ObjectProp) -> Result<Group> {
        let (name, at) = (task.name.as_str().to_owned(), task.start());
        let body = self.object(Some(&task.value), at, "a task")?;
        let mut group = Group {
            name,
            at,
            count: match body.properties.iter().find(|p| p.name.as_str() == "instance") {
                Some(instances) => Some(self.amount(instances, 1)?),
                None => Some(1),
            },
            cgroup: String::new(),
            weight: 100,
            affinity: None,
            kthread: false,
            arrives_ns: (0, 0),
            rounds: Rounds::Forever,
            steps: Vec::new(),
        };
        for property in &body.properties {
            let at = property.start();
            match property.name.as_str() {
                // Known before: what else is said depends on it.
                "instance" => {}
                "loop" => group.rounds = self.rounds(property)?,
                "delay" => {
                    let ns = self.amount(property, 1_000)?;
                    group.arrives_ns = (ns, ns);
                }
                "policy" => self.policy(property)?,
                "priority" => {
                    let nice = self.number(property)?;
                    let weight = values::weight_of_nice(NICE_DEFAULT + nice);
                    group.weight = weight.map_err(|e| self.wrong(at, e))?;
                }
                "cpus" => group.affinity = Some(self.cpus(property)?),
                "taskgroup" => {
                    group.cgroup = self.name(property)?.trim_matches('/').to_owned();
                }
                "phases" => {
                    let phases = self.object(Some(&property.value), at, "\"phases\"")?;
                    for phase in &phases.properties {
                        let step = self.phase(&group, phase)?;
                        group.steps.push((phase.start(), step));
                    }
                }
                _ => {
                    let known = [TASK, EVENTS].concat();
                    let steps = self.event(&group, property, &known)?;
                    group.steps.extend(steps.into_iter().map(|step| (at, step)));
                }
            }
        }
        if group.steps.is_empty() {
            let cause = format!("'{}' does nothing", group.name);
            return Err(self.wrong(at, wrong(cause, "add a \"run\"")));
        }
        Ok(group)
    }

    fn rounds(&self, property: &ObjectProp) -> Result<Rounds> {
        Ok(match self.number(property)? {
            -1 => Rounds::Forever,
            0 => {
                let cause = "a loop that is gone through 0 times does nothing";
                return Err(self.wrong(property.start(), wrong(cause, "write -1 for no end")));
            }
            _ => Rounds::Times(self.amount(property, 1)?),
        })
    }

    fn cpus(&self, property: &ObjectProp) -> Result<crate::cpu_mask::CpuMask> {
        let list = property.value.as_array();
        let cpu = |value: &Value| value.as_number_lit().map(|number| number.value.to_string());
        let cpus: Option<Vec<String>> =
            list.and_then(|list| list.elements.iter().map(cpu).collect());
        let cpus = cpus.filter(|cpus| !cpus.is_empty()).ok_or_else(|| {
            let wrong = wrong("'cpus' is a list of CPUs", "write it like [0, 1]");
            self.wrong(property.start(), wrong)
        })?;
        values::cpus(&cpus.join(",")).map_err(|e| self.wrong(property.start(), e))
    }

    fn phase(&mut self, group: &Group, phase: &ObjectProp) -> Result<Written> {
        let body = self.object(Some(&phase.value), phase.start(), "a phase")?;
        let (mut times, mut steps) = (1, Vec::new());
        for property in &body.properties {
            if property.name.as_str() == "loop" {
                times = match self.rounds(property)? {
                    Rounds::Times(times) => times,
                    Rounds::Forever | Rounds::Unsaid => u64::MAX,
                };
            } else {
                let known = [&["loop"], EVENTS].concat();
                steps.extend(self.event(group, property, &known)?);
            }
        }
        if steps.is_empty() {
            let cause = format!("the phase '{}' does nothing", phase.name.as_str());
            return Err(self.wrong(phase.start(), wrong(cause, "add a \"run\"")));
        }
        Ok(Written::Repeat { times, steps })
    }

    /// An event; `run1` and `run2` are `run`, since JSON has a key but once.
    fn event(
        &mut self,
        group: &Group,
        property: &ObjectProp,
        known: &[&str],
    ) -> Result<Vec<Written>> {
        let key = property.name.as_str();
        let is = |event: &&&str| {
            let rest = key.strip_prefix(**event);
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphabetic()))
        };
        let Some(event) = EVENTS.iter().find(is) else {
            return Err(self.refused(property, known));
        };
        let exactly = |ns: u64| Step::Run(Span::Exactly(ns));
        let step = match *event {
            "run" | "runtime" => exactly(self.amount(property, 1_000)?),
            "mem" => exactly(self.amount(property, 1)? / MEM_BYTES_PER_NS),
            "iorun" => exactly(self.amount(property, IO_NS_PER_BYTE)?),
            "sleep" => Step::Sleep(Span::Exactly(self.amount(property, 1_000)?)),
            "yield" => Step::Yield,
            "lock" => Step::Lock(self.lock(property)?),
            "unlock" => Step::Unlock(self.lock(property)?),
            "barrier" => {
                let name = Name::from(self.name(property)?);
                if !self.barriers.contains(&name) {
                    self.barriers.push(name.clone());
                }
                Step::Barrier(name)
            }
            "signal" => Step::Signal { condition: self.condition(property)?.0, all: false },
            "broad" => Step::Signal { condition: self.condition(property)?.0, all: true },
            "wait" | "sync" => {
                let (condition, lock) = self.condition(property)?;
                if lock.is_none() {
                    let cause = format!("'{key}' has no mutex");
                    let remedy = "write { \"ref\": \"condition\", \"mutex\": \"name\" }";
                    return Err(self.wrong(property.start(), wrong(cause, remedy)));
                }
                let wait = Step::Await { condition: condition.clone(), lock };
                if *event == "sync" {
                    let signal = Step::Signal { condition, all: false };
                    return Ok([signal, wait].map(Written::Plain).into());
                }
                wait
            }
            // Each task has a condition of its own, by its name.
            "suspend" => Step::Await { condition: own_condition(&group.name), lock: None },
            "resume" => Step::Signal { condition: own_condition(&self.name(property)?), all: true },
            "timer" => self.timer(group, property)?,
            _ => return Ok(vec![Written::Fork { group: self.name(property)?, count: 1 }]),
        };
        Ok(vec![Written::Plain(step)])
    }

    fn lock(&mut self, property: &ObjectProp) -> Result<Name> {
        let name = Name::from(self.name(property)?);
        self.shared.locks.insert(name.clone());
        Ok(name)
    }

    /// A condition, and the mutex that goes with it, if one is told.
    fn condition(&mut self, property: &ObjectProp) -> Result<(Name, Option<Name>)> {
        if property.value.as_string_lit().is_some() {
            return Ok((self.name(property)?.into(), None));
        }
        let body = self.object(Some(&property.value), property.start(), "a condition")?;
        let (mut condition, mut lock) = (None, None);
        for part in &body.properties {
            match part.name.as_str() {
                "ref" => condition = Some(self.name(part)?.into()),
                "mutex" => lock = Some(self.lock(part)?),
                _ => return Err(self.refused(part, &["ref", "mutex"])),
            }
        }
        let condition = condition.ok_or_else(|| {
            let cause = format!("'{}' has no condition", property.name.as_str());
            self.wrong(property.start(), wrong(cause, "add \"ref\": \"name\""))
        })?;
        Ok((condition, lock))
    }

    fn timer(&mut self, group: &Group, property: &ObjectProp) -> Result<Step> {
        let at = property.start();
        let body = self.object(Some(&property.value), at, "a timer")?;
        let (mut name, mut period_ns, mut keeps_schedule) = (None, 0, false);
        for part in &body.properties {
            match (part.name.as_str(), part.value.as_string_lit().map(|text| &*text.value)) {
                ("ref", _) => name = Some(self.name(part)?),
                ("period", _) => period_ns = self.amount(part, 1_000)?,
                ("mode", Some("absolute")) => keeps_schedule = true,
                ("mode", Some("relative")) => keeps_schedule = false,
                ("mode", _) => {
                    let cause = "there is no such mode of a timer";
                    return Err(
                        self.wrong(part.start(), wrong(cause, "write absolute or relative"))
                    );
                }
                _ => return Err(self.refused(part, &["ref", "period", "mode"])),
            }
        }
        let Some(name) = name.filter(|_| period_ns > 0) else {
            let cause = "a timer has a name and a period";
            let remedy = "write { \"ref\": \"unique\", \"period\": 10000 }";
            return Err(self.wrong(at, wrong(cause, remedy)));
        };
        let unique = name.starts_with("unique");
        let shared = group.count != Some(1)
            || self.timers.iter().any(|(task, timer)| *timer == name && *task != group.name);
        if shared && !unique {
            let cause = format!("the timer '{name}' is shared by tasks, which is not modelled");
            let remedy = "give each its own: \"ref\": \"unique\"";
            return Err(self.wrong(at, wrong(cause, remedy)));
        }
        let own = (group.name.clone(), name);
        if !self.timers.contains(&own) {
            self.timers.push(own.clone());
        }
        let of_task = self.timers.iter().filter(|(task, _)| *task == own.0);
        let timer = of_task.map(|(_, timer)| timer).position(|timer| *timer == own.1);
        Ok(Step::Timer { timer: timer.expect("just put there"), period_ns, keeps_schedule })
    }
}

fn own_condition(task: &str) -> Name {
    format!("resume {task}").into()
}

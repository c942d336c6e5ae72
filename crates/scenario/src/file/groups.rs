//! From groups of tasks, as a file has them, to tasks; and whether what they do fits together.

use super::steps::{Kind, Side, Written};
use super::values::{Wrong, wrong};
use crate::cpu_mask::CpuMask;
use crate::step::{Name, Step};
use crate::task::TaskSpec;
use metasched_base::nearest;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is wrong, and at which byte of the file.
pub(super) type At = (usize, Wrong);

/// Tasks that do the same.
pub(super) struct Group {
    pub name: String,
    /// Where the file tells of it.
    pub at: usize,
    /// How many there are at the beginning; as many as make sense, if it does not say.
    pub count: Option<u64>,
    pub cgroup: String,
    pub weight: u32,
    pub affinity: Option<CpuMask>,
    pub kthread: bool,
    /// The first one arrives then, the last one shortly before that, ns.
    pub arrives_ns: (u64, u64),
    /// How often the steps are gone through.
    pub rounds: Rounds,
    /// Each with where it stands in the file.
    pub steps: Vec<(usize, Written)>,
}

/// How often the steps are gone through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounds {
    Unsaid,
    Forever,
    Times(u64),
}

impl Group {
    fn all_steps(&self) -> impl Iterator<Item = (usize, &Written)> {
        self.steps.iter().flat_map(|(at, step)| {
            Written::all(std::slice::from_ref(step)).into_iter().map(move |step| (*at, step))
        })
    }
}

/// The groups of a file.
pub(super) struct Groups {
    groups: Vec<Group>,
    forked: BTreeSet<String>,
}

impl Groups {
    /// Finds which groups fork tasks of which.
    ///
    /// # Errors
    /// When a step forks tasks that the file does not tell of.
    pub fn of(groups: Vec<Group>) -> Result<Groups, At> {
        let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        let mut forked = BTreeSet::new();
        for (at, step) in groups.iter().flat_map(Group::all_steps) {
            let Written::Fork { group, .. } = step else { continue };
            if !names.contains(&group.as_str()) {
                return Err((at, unknown("task", group, names.iter().copied())));
            }
            forked.insert(group.clone());
        }
        Ok(Groups { groups, forked })
    }

    fn count(&self, group: &Group) -> u64 {
        group.count.unwrap_or(if self.forked.contains(&group.name) { 0 } else { 1 })
    }

    fn rounds(&self, group: &Group) -> Option<u64> {
        match group.rounds {
            Rounds::Times(times) => Some(times),
            Rounds::Unsaid if self.forked.contains(&group.name) => Some(1),
            Rounds::Unsaid | Rounds::Forever => None,
        }
    }

    /// How many tasks use a barrier, if that is known beforehand.
    pub fn parties(&self, barrier: &str) -> Option<u64> {
        let mut parties = 0;
        for group in &self.groups {
            let uses = group.all_steps().flat_map(|(_, step)| step.uses());
            if !uses.into_iter().any(|(kind, name, _)| kind == Kind::Barrier && **name == *barrier)
            {
                continue;
            }
            if self.forked.contains(&group.name) {
                return None;
            }
            parties += self.count(group);
        }
        Some(parties)
    }

    /// Whether all that steps are done with is there, and nobody waits for what never comes.
    ///
    /// # Errors
    /// What is not.
    pub fn check(&self, declared: &BTreeMap<Kind, Vec<(usize, String)>>) -> Result<(), At> {
        let mut sides: BTreeMap<(Kind, Name), (usize, [bool; 2])> = BTreeMap::new();
        for (at, step) in self.groups.iter().flat_map(Group::all_steps) {
            for (kind, name, side) in step.uses() {
                if let Some(known) = declared.get(&kind) {
                    let mut names = known.iter().map(|(_, name)| name.as_str());
                    if !names.any(|known| known == &**name) {
                        let names = known.iter().map(|(_, name)| name.as_str());
                        return Err((at, unknown(kind.word(), name, names)));
                    }
                }
                let (_, used) = sides.entry((kind, name.clone())).or_insert((at, [false; 2]));
                used[0] |= side != Side::Takes;
                used[1] |= side != Side::Gives;
            }
        }
        for (kind, name) in
            declared.iter().flat_map(|(kind, all)| all.iter().map(move |n| (kind, n)))
        {
            let (at, name) = name;
            if *kind == Kind::Arrivals && !sides.contains_key(&(*kind, name.as_str().into())) {
                let remedy = format!("add the step \"accept {name}\" to a task");
                return Err((*at, wrong(format!("nobody accepts '{name}'"), remedy)));
            }
        }
        for ((kind, name), (at, used)) in sides {
            let (gives, takes) = match kind {
                Kind::Pipe => ("write", "read"),
                Kind::Semaphore => ("wake", "wait"),
                Kind::Condition => ("signal", "await"),
                Kind::Lock => ("unlock", "lock"),
                _ => continue,
            };
            let lacks = match used {
                [false, _] => gives,
                [_, false] => takes,
                _ => continue,
            };
            let cause = format!("no task has a step \"{lacks} {name}\"");
            return Err((at, wrong(cause, "add one, or correct the name")));
        }
        Ok(())
    }

    /// The tasks that are there at the beginning.
    ///
    /// # Errors
    /// When a task would bear itself, or never lets time pass.
    pub fn tasks(&self) -> Result<Vec<TaskSpec>, At> {
        let mut made = BTreeMap::new();
        let mut tasks = Vec::new();
        for group in &self.groups {
            let spec = self.spec(group, &mut made, &mut Vec::new())?;
            let count = self.count(group);
            let (first, last) = group.arrives_ns;
            for i in 0..count {
                let apart = u128::from(last - first) * u128::from(i) / u128::from(count);
                let task = TaskSpec::clone(&spec).arrives(first + apart as u64);
                tasks.push(if count == 1 {
                    task
                } else {
                    task.called(format!("{} {i}", group.name))
                });
            }
        }
        Ok(tasks)
    }

    fn spec<'a>(
        &'a self,
        group: &'a Group,
        made: &mut BTreeMap<&'a str, Arc<TaskSpec>>,
        above: &mut Vec<&'a str>,
    ) -> Result<Arc<TaskSpec>, At> {
        if let Some(made) = made.get(group.name.as_str()) {
            return Ok(made.clone());
        }
        if above.contains(&group.name.as_str()) {
            let cause = format!("'{}' would fork itself without end", group.name);
            return Err((group.at, wrong(cause, "fork a task of another group")));
        }
        let rounds = self.rounds(group);
        if rounds.is_none() && !group.all_steps().any(|(_, step)| step.takes_time()) {
            let cause = format!("'{}' goes on for ever and takes no time", group.name);
            return Err((group.at, wrong(cause, "add a run or a sleep, or say rounds = 1")));
        }
        above.push(&group.name);
        let mut spec = TaskSpec::named(&group.name).in_cgroup(&group.cgroup).weight(group.weight);
        spec = match group.affinity {
            Some(mask) => spec.only_on(mask.iter()),
            None => spec,
        };
        spec = if group.kthread { spec.kthread() } else { spec };
        spec = match rounds {
            Some(rounds) => spec.rounds(rounds),
            None => spec.for_ever(),
        };
        for (_, step) in &group.steps {
            spec = self.append(spec, step, made, above)?;
        }
        above.pop();
        let spec = Arc::new(spec);
        made.insert(&group.name, spec.clone());
        Ok(spec)
    }

    fn append<'a>(
        &'a self,
        mut spec: TaskSpec,
        step: &'a Written,
        made: &mut BTreeMap<&'a str, Arc<TaskSpec>>,
        above: &mut Vec<&'a str>,
    ) -> Result<TaskSpec, At> {
        Ok(match step {
            Written::Plain(step) => spec.step(step.clone()),
            Written::Fork { group, count } => {
                let group =
                    self.groups.iter().find(|g| g.name == *group).expect("looked at in of()");
                let child = self.spec(group, made, above)?;
                spec.repeat(*count, |spec| spec.step(Step::Fork(child)))
            }
            Written::Repeat { times, steps } => {
                let before = spec.steps.len();
                for step in steps {
                    spec = self.append(spec, step, made, above)?;
                }
                let back = spec.steps.len() - before;
                spec.step(Step::Again { back, times: *times })
            }
        })
    }
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Wrong {
    let known: Vec<&str> = known.collect();
    let remedy = match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean '{near}'?"),
        None if known.is_empty() => format!("there is none yet; add a [[{what}]]"),
        None => format!("there are {}", known.join(", ")),
    };
    wrong(format!("there is no {what} '{name}'"), remedy)
}

//! What of a scenario can be replayed. The rest is refused by name, before anything begins.

use std::collections::BTreeSet;
use std::sync::Arc;

use metasched_base::{Error, Kind, Result};
use metasched_scenario::TaskSpec;
use metasched_scenario::file::{Change, ScenarioFile, nice_of_weight};
use metasched_scenario::step::Step;

use crate::events::cgroup_of;

/// A scenario that can be replayed on this machine.
pub struct Replayable<'a> {
    pub(crate) file: &'a ScenarioFile,
    /// The tasks that are there at the beginning.
    pub(crate) tasks: Vec<Arc<TaskSpec>>,
    /// Every cgroup that a task is in.
    pub(crate) cgroups: BTreeSet<String>,
    /// How long it lasts, and how much of that does not count, ns.
    pub(crate) duration_ns: u64,
    pub(crate) warm_up_ns: u64,
}

impl<'a> Replayable<'a> {
    /// Looks at a scenario, or at what of it is in one cgroup; `cpus` is how many CPUs this
    /// machine has.
    ///
    /// # Errors
    /// `Unsupported`, with what cannot be replayed.
    pub fn of(file: &'a ScenarioFile, only: Option<&str>, cpus: usize) -> Result<Replayable<'a>> {
        let refused = |cause: String, remedy: &str| {
            let attempt = format!("replay '{}' on this machine", file.name);
            Err(Error::new(Kind::Unsupported, attempt, cause).remedy(remedy))
        };
        let tasks: Vec<Arc<TaskSpec>> = file
            .tasks
            .iter()
            .filter(|task| only.is_none_or(|only| task.cgroup == only))
            .cloned()
            .map(Arc::new)
            .collect();
        if tasks.is_empty() {
            let cause = format!("no task is in the cgroup '{}'", only.unwrap_or_default());
            return refused(cause, "name one of the scenario's cgroups");
        }
        let mut specs = Vec::new();
        tasks.iter().for_each(|task| all_specs(task, &mut specs));
        for task in &specs {
            let name = &task.group;
            if task.kthread {
                let cause = format!("'{name}' is a kernel thread");
                return refused(cause, "leave kthread out: any thread can be a user's");
            }
            if nice_of_weight(task.weight).is_none() {
                let cause = format!("'{name}' has weight {}, as no nice value has", task.weight);
                return refused(cause, "write nice = N instead of a weight");
            }
            if let Some(allowed) = &task.allowed
                && let Some(cpu) = allowed.iter().find(|cpu| *cpu >= cpus)
            {
                let cause = format!("'{name}' may use CPU {cpu}, and there are {cpus} CPUs");
                return refused(cause, "give it an affinity that this machine has");
            }
            for step in &task.steps {
                if let Step::Fork(child) = step
                    && child.cgroup != task.cgroup
                {
                    let cause = format!("'{name}' forks '{}' into another cgroup", child.group);
                    return refused(cause, "have both in one");
                }
            }
        }
        if let Some(name) = file.shared.teams.keys().next() {
            let cause = format!("the team '{name}' has virtual CPUs, which are modelled only");
            return refused(cause, "write its threads as tasks that meet at a barrier");
        }
        for (name, holds) in &file.shared.pipes {
            if !holds.is_power_of_two() {
                let cause =
                    format!("pipe '{name}' holds {holds} messages, a real one 1, 2, 4, ...");
                return refused(cause, "let it hold a power of two");
            }
        }
        for (name, arrivals) in &file.shared.arrivals {
            if arrivals.times(0).is_none() {
                let cause = format!("the clients of '{name}' would need CPU time here");
                return refused(cause, "write how often requests arrive: rate, every or at");
            }
        }
        for change in file.events.iter().flat_map(|(_, changes)| changes) {
            if let Some(what) = not_replayable(change) {
                return refused(format!("an event {what}"), "leave that event out");
            }
        }
        let cgroups = specs.iter().map(|task| task.cgroup.clone()).collect();
        let (duration_ns, warm_up_ns) = (file.duration_ns, file.warm_up_ns);
        Ok(Replayable { file, tasks, cgroups, duration_ns, warm_up_ns })
    }

    /// Whether anything is said of its cgroups but who is in them.
    pub(crate) fn needs_cgroups(&self) -> bool {
        self.file.changes().any(|change| cgroup_of(change).is_some()) || !self.file.lanes.is_empty()
    }

    /// The steps of all tasks, those that are forked too.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut specs = Vec::new();
        self.tasks.iter().for_each(|task| all_specs(task, &mut specs));
        specs.iter().flat_map(|task| task.steps.iter().cloned()).collect()
    }
}

/// What an event does that no test should do to the machine that it runs on, or that would
/// leave nobody to say which cgroup's a figure is.
fn not_replayable(change: &Change) -> Option<&'static str> {
    match change {
        Change::Online(..) => Some("takes a CPU off line or brings it back"),
        Change::TaskMove(..) => Some("moves tasks to another cgroup"),
        Change::Lane(_) | Change::NoLane { .. } | Change::RootLane(_) => Some("changes a lane"),
        Change::TaskWeight(_, weight) if nice_of_weight(*weight).is_none() => {
            Some("gives a weight that no nice value has")
        }
        Change::TaskWeight(..)
        | Change::TaskAffinity(..)
        | Change::CgroupWeight(..)
        | Change::CgroupQuota(..)
        | Change::CgroupIdle(..) => None,
    }
}

/// A task, and those that it forks; each kind once.
fn all_specs(task: &Arc<TaskSpec>, found: &mut Vec<Arc<TaskSpec>>) {
    if found.iter().any(|known| Arc::ptr_eq(known, task)) {
        return;
    }
    found.push(task.clone());
    for step in &task.steps {
        if let Step::Fork(child) = step {
            all_specs(child, found);
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use std::path::Path;

    pub fn file(text: &str) -> ScenarioFile {
        ScenarioFile::parse(Path::new("s.toml"), text).unwrap_or_else(|e| panic!("{e}"))
    }
}

#[cfg(test)]
mod tests {
    use super::testing::file;
    use super::*;

    #[test]
    fn what_cannot_be_replayed_is_refused_by_its_name() {
        for (text, cause) in [
            (
                "[[task]]\nname = \"k\"\nkthread = true\nsteps = [\"run 1ms\"]",
                "'k' is a kernel thread",
            ),
            ("[[task]]\nname = \"w\"\nweight = 99\nsteps = [\"run 1ms\"]", "'w' has weight 99"),
            (
                "[[task]]\nname = \"a\"\naffinity = \"0-2\"\nsteps = [\"run 1ms\"]",
                "'a' may use CPU 2",
            ),
            (
                "[[pipe]]\nname = \"p\"\nholds = 3\n[[task]]\nname = \"t\"\nsteps = [\"write p\", \"read p\"]",
                "pipe 'p' holds 3 messages",
            ),
            (
                "[[team]]\nname = \"ua\"\nthreads = 2\nwork = \"1ms\"",
                "the team 'ua' has virtual CPUs",
            ),
            (
                "[[arrivals]]\nname = \"http\"\nclients = 2\n[[task]]\nname = \"t\"\nsteps = [\"accept http\", \"run 1ms\", \"end\"]",
                "the clients of 'http'",
            ),
            (
                "[[task]]\nname = \"t\"\nsteps = [\"run 1ms\"]\n[[event]]\nat = \"1s\"\ncpu = 1\nonline = false",
                "an event takes a CPU off line",
            ),
            (
                "[[task]]\nname = \"t\"\nsteps = [\"run 1ms\"]\n[[event]]\nat = \"1s\"\nlane = \"fifo\"",
                "an event changes a lane",
            ),
            (
                "[[task]]\nname = \"p\"\ncgroup = \"a\"\nrounds = 1\nsteps = [\"fork c\", \"join\"]\n[[task]]\nname = \"c\"\ncgroup = \"b\"\nsteps = [\"run 1ms\"]",
                "'p' forks 'c' into another cgroup",
            ),
        ] {
            let file = file(text);
            let error =
                Replayable::of(&file, None, 2).err().unwrap_or_else(|| panic!("{text}: replayed"));
            assert_eq!(error.kind, Kind::Unsupported);
            let said = error.to_string();
            assert!(said.contains(cause) && !error.remedy.is_empty(), "{said}");
        }
    }

    #[test]
    fn one_cgroups_part_of_a_scenario_can_be_replayed_alone() {
        let file = file(
            "[[task]]\nname = \"a\"\ncount = 2\ncgroup = \"x\"\nsteps = [\"run 1ms\"]\n\
             [[task]]\nname = \"b\"\ncgroup = \"y\"\nsteps = [\"run 1ms\"]",
        );
        assert_eq!(Replayable::of(&file, None, 1).unwrap().tasks.len(), 3);
        let replayable = Replayable::of(&file, Some("x"), 1).unwrap();
        assert_eq!((replayable.tasks.len(), replayable.cgroups.len()), (2, 1));
        assert!(!replayable.needs_cgroups());
        assert!(Replayable::of(&file, Some("z"), 1).is_err());
    }

    #[test]
    fn what_is_said_of_a_cgroup_needs_it() {
        let task = "[[task]]\nname = \"t\"\ncgroup = \"x\"\nsteps = [\"run 1ms\"]\n";
        for said in [
            "[cgroups.x]\nweight = 300",
            "[cgroups.x]\nlane = \"vtime\"",
            "[[event]]\nat = \"1s\"\ncgroup = \"x\"\nquota = \"10ms/100ms\"",
        ] {
            let file = file(&format!("{task}{said}"));
            assert!(Replayable::of(&file, None, 1).unwrap().needs_cgroups(), "{said}");
        }
    }
}

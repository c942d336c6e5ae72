//! From a trace of a live system to a scenario file, so that "what if" starts from the user's own
//! machine. Threads of one kind become a group, which runs and sleeps as they did, with the same
//! means; who nearly always is woken by others waits for them; tasks that were born and died soon
//! are forked by those who bore them. What the trace does not tell (locks, devices, why a task
//! slept) is sleep.

mod chains;
mod events;
mod fit;
mod groups;
mod pages;
mod recording;
mod threads;
mod write;

pub use events::{Context, Event, NAMES, Thread, What, read};
pub use pages::{Formats, Pages};
pub use recording::{CgroupFacts, Facts, MachineFacts, Recording};

use chains::Chains;
use events::ATTEMPT;
use fit::duration;
use groups::Groups;
use metasched_base::{Error, Kind, Result, brief_time};
use std::collections::BTreeMap;
use threads::threads;

/// A scenario that was made, and what it is made of.
#[derive(Clone, Debug)]
pub struct Made {
    /// The text of its file.
    pub text: String,
    /// From the first event to the last one, ns.
    pub length_ns: u64,
    /// How many groups of tasks there are.
    pub groups: usize,
    /// How many threads they stand for.
    pub threads: usize,
    /// How many threads hardly ran and were left out, and their CPU time, ns.
    pub too_short: (usize, u64),
    /// CPU time in the trace, ns, by the cgroups of what was kept.
    pub ran_ns: BTreeMap<String, u64>,
}

impl Recording {
    /// A scenario file that behaves like the machine that was recorded.
    ///
    /// # Errors
    /// `BadInput`, when nothing ran in the trace.
    pub fn scenario(&self) -> Result<Made> {
        let threads = threads(&self.events);
        let length_ns = match (self.events.first(), self.events.last()) {
            (Some(first), Some(last)) => (last.at_ns - first.at_ns).max(1_000_000),
            _ => 1_000_000,
        };
        let Groups { mut groups, too_short } = Groups::of(self, &threads, length_ns);
        if groups.is_empty() {
            return Err(self.nothing());
        }
        let of_pid: BTreeMap<u32, usize> = groups
            .iter()
            .enumerate()
            .flat_map(|(at, group)| group.members.iter().map(move |pid| (*pid, at)))
            .collect();
        let recorded = groups.len();
        let chains = Chains::of(&groups, &threads, &of_pid);
        let forkers = chains::forkers(&mut groups, &threads, &of_pid, length_ns);
        groups::name_apart(&mut groups);
        let mut ran_ns: BTreeMap<String, u64> = BTreeMap::new();
        for group in &groups {
            *ran_ns.entry(group.kin.cgroup.clone()).or_default() += group.ran_ns;
        }
        let mut text = self.head(length_ns, too_short);
        text += &write::machine(self);
        text += &write::cgroups(self, &groups);
        text += &write::groups(&groups, &chains, &forkers, length_ns);
        Ok(Made {
            text,
            length_ns,
            groups: groups.len(),
            threads: groups[..recorded].iter().map(|group| group.members.len()).sum(),
            too_short,
            ran_ns,
        })
    }

    fn nothing(&self) -> Error {
        match &self.only {
            Some(only) => {
                let cause = format!("no thread of the cgroup '{only}' ran in it");
                Error::new(Kind::BadInput, ATTEMPT, cause)
                    .remedy("leave out --cgroup, or record while it has work")
            }
            None => Error::new(Kind::BadInput, ATTEMPT, "no thread runs in it")
                .remedy("record sched_switch and sched_wakeup while something runs"),
        }
    }

    fn head(&self, length_ns: u64, (short, ran_ns): (usize, u64)) -> String {
        let mut lines = self.about.clone();
        lines.push(format!(
            "It tells {} events in {}.",
            self.events.len(),
            brief_time(length_ns as f64)
        ));
        if short > 0 {
            let ran = brief_time(ran_ns as f64);
            lines.push(format!("Left out: {short} threads that ran for {ran} in all."));
        }
        if self.lost > 0 {
            let lost = self.lost;
            lines.push(format!("LOST: {lost} events, so that times and wake-ups are missing."));
        }
        lines.push(format!("Next: metasched sim {} --compare", self.file));
        let head: String = lines.iter().map(|line| format!("# {line}\n")).collect();
        let name = toml::Value::String(groups::plain(&self.name)).to_string();
        format!("{head}\nname = {name}\nduration = \"{}\"\n", duration(length_ns))
    }
}

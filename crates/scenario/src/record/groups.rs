//! Threads of one kind become a group of tasks.

use super::fit::duration;
use super::recording::{Facts, Recording};
use super::threads::Seen;
use std::collections::{BTreeMap, BTreeSet};

/// Groups with the least CPU time beyond so many are one of each cgroup: nobody reads more.
const GROUPS_MAX: usize = 40;
/// A group that used less than this part of one CPU is left out: it says nothing.
const LEAST_PART: u64 = 20_000;
/// A thread that was born and ended is one of those that come and go all the time if it lived for
/// less than this part of the trace.
const SHORT_PART: u64 = 8;
/// A task that slept for less than this part of its life never slept.
const SLEEP_PART: u64 = 1_000;
/// Threads of one name with more different affinities are one group without any.
const AFFINITIES_MAX: usize = 8;

/// What becomes of a thread's life in a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Life {
    /// It is there for long, and sleeps now and then.
    Long,
    /// It is there for long, and never sleeps.
    Busy,
    /// It was born and ended soon.
    Short,
}

impl Life {
    /// What a group of tasks of that name is called.
    fn name(self, name: &str) -> String {
        match self {
            Life::Long => name.to_owned(),
            Life::Busy => format!("{name}.busy"),
            Life::Short => format!("{name}.child"),
        }
    }
}

/// What threads of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kin {
    name: String,
    pub life: Life,
    pub cgroup: String,
    pub priority: Option<u32>,
    pub kthread: bool,
    /// As the model numbers the CPUs; none means all.
    pub affinity: Option<BTreeSet<u32>>,
    /// They came in the course of the trace; they went.
    pub came: bool,
    pub went: bool,
}

/// Threads that become one group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub name: String,
    pub kin: Kin,
    pub members: Vec<u32>,
    pub ran_ns: u64,
    pub bursts: Vec<u64>,
    pub sleeps: Vec<u64>,
    pub waits: Vec<u64>,
    pub wakeups: u64,
    /// When the first and the last came, ns since the trace began.
    pub came_ns: (u64, u64),
    /// What of it could not be told.
    pub notes: Vec<String>,
}

impl Group {
    fn new(kin: Kin) -> Self {
        Group {
            name: kin.life.name(&kin.name),
            kin,
            members: Vec::new(),
            ran_ns: 0,
            bursts: Vec::new(),
            sleeps: Vec::new(),
            waits: Vec::new(),
            wakeups: 0,
            came_ns: (u64::MAX, 0),
            notes: Vec::new(),
        }
    }

    /// One that forks others whose parents are not known, evenly over the trace.
    pub fn spawner(births: u64, length_ns: u64) -> Self {
        let kin = Kin {
            name: "spawner".into(),
            life: Life::Long,
            cgroup: String::new(),
            priority: None,
            kthread: false,
            affinity: None,
            came: false,
            went: false,
        };
        Group {
            members: vec![0],
            bursts: vec![10_000; births as usize],
            sleeps: vec![length_ns / births; births as usize],
            ..Group::new(kin)
        }
    }

    /// How often its tasks went through their steps in the trace.
    pub fn rounds(&self) -> u64 {
        self.bursts.len() as u64
    }

    fn absorb(&mut self, pid: u32, seen: &Seen, begin_ns: u64) {
        self.members.push(pid);
        self.ran_ns += seen.ran_ns;
        self.bursts.extend(&seen.bursts);
        self.sleeps.extend(&seen.sleeps);
        self.waits.extend(&seen.waits);
        self.wakeups += seen.woken_by.values().sum::<u64>();
        let came = seen.from_ns - begin_ns;
        self.came_ns = (self.came_ns.0.min(came), self.came_ns.1.max(came));
    }

    fn merge(&mut self, other: Group) {
        self.members.extend(other.members);
        self.ran_ns += other.ran_ns;
        self.bursts.extend(other.bursts);
        self.sleeps.extend(other.sleeps);
        self.waits.extend(other.waits);
        self.wakeups += other.wakeups;
        let (first, last) = other.came_ns;
        self.came_ns = (self.came_ns.0.min(first), self.came_ns.1.max(last));
    }
}

/// The groups of a recording, and what is not in them.
pub(super) struct Groups {
    pub groups: Vec<Group>,
    /// How many threads were left out because they hardly ran, and their CPU time, ns.
    pub too_short: (usize, u64),
}

impl Groups {
    pub fn of(recording: &Recording, threads: &BTreeMap<u32, Seen>, length_ns: u64) -> Groups {
        let begin_ns = recording.events.first().map_or(0, |event| event.at_ns);
        let mut by_kin: BTreeMap<Kin, Group> = BTreeMap::new();
        for (pid, seen) in threads.iter().filter(|(_, seen)| seen.ran_ns > 0) {
            let Some(facts) = recording.facts(*pid, threads) else { continue };
            let kin = kin(seen, &facts, begin_ns, length_ns);
            let group = by_kin.entry(kin.clone()).or_insert_with(|| Group::new(kin));
            group.absorb(*pid, seen, begin_ns);
        }
        let mut groups = with_fewer_affinities(by_kin.into_values().collect());
        groups.sort_by(|a, b| b.ran_ns.cmp(&a.ran_ns).then(a.kin.cmp(&b.kin)));
        let (kept, short): (Vec<Group>, Vec<Group>) =
            groups.into_iter().partition(|group| group.ran_ns >= length_ns / LEAST_PART);
        // Where nothing runs much, that is what there is to tell.
        let (mut groups, short) = if kept.is_empty() { (short, kept) } else { (kept, short) };
        gather_others(&mut groups);
        name_apart(&mut groups);
        let too_short = (
            short.iter().map(|group| group.members.len()).sum(),
            short.iter().map(|group| group.ran_ns).sum(),
        );
        Groups { groups, too_short }
    }
}

fn kin(seen: &Seen, facts: &Facts, begin_ns: u64, length_ns: u64) -> Kin {
    let born = seen.parent.is_some();
    let lived = seen.to_ns.saturating_sub(seen.from_ns);
    let life = match seen {
        _ if born && seen.exited && lived < length_ns / SHORT_PART => Life::Short,
        Seen { sleeps, .. } if sleeps.iter().sum::<u64>() <= lived / SLEEP_PART => Life::Busy,
        _ => Life::Long,
    };
    // What came right at the beginning might as well have been there.
    let late = seen.from_ns - begin_ns > length_ns / 50;
    let comm = if seen.comm.is_empty() { &facts.comm } else { &*seen.comm };
    Kin {
        name: plain(comm),
        life,
        cgroup: facts.cgroup.clone(),
        priority: seen.priority.filter(|priority| *priority != 120),
        kthread: facts.kthread,
        affinity: facts.affinity.clone(),
        came: life != Life::Short && born && late,
        went: life != Life::Short && seen.exited,
    }
}

/// Where threads of a kind have many affinities, as the kernel's own do of which there is one for
/// each CPU, they are one group.
fn with_fewer_affinities(groups: Vec<Group>) -> Vec<Group> {
    let mut by_rest: BTreeMap<Kin, Vec<Group>> = BTreeMap::new();
    for group in groups {
        let rest = Kin { affinity: None, ..group.kin.clone() };
        by_rest.entry(rest).or_default().push(group);
    }
    let mut fewer = Vec::new();
    for (rest, alike) in by_rest {
        let most = if rest.kthread { 1 } else { AFFINITIES_MAX };
        if alike.len() <= most {
            fewer.extend(alike);
            continue;
        }
        let mut all = Group::new(rest);
        if !all.kin.kthread {
            let sets = alike.len();
            all.notes.push(format!("its threads may use {sets} different sets of CPUs: left out"));
        }
        alike.into_iter().for_each(|group| all.merge(group));
        fewer.push(all);
    }
    fewer
}

/// Beyond so many groups the rest of each cgroup is one.
fn gather_others(groups: &mut Vec<Group>) {
    let rest: Vec<Group> = groups.drain(GROUPS_MAX.min(groups.len())..).collect();
    let mut others: BTreeMap<Kin, Group> = BTreeMap::new();
    for group in rest {
        let kin = Kin {
            name: "others".into(),
            priority: None,
            kthread: false,
            affinity: None,
            came: false,
            went: false,
            ..group.kin.clone()
        };
        others.entry(kin.clone()).or_insert_with(|| Group::new(kin)).merge(group);
    }
    groups.extend(others.into_values());
}

/// A name for each group that no other one has.
pub(super) fn name_apart(groups: &mut [Group]) {
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    for group in groups {
        let times = taken.entry(group.name.clone()).or_default();
        *times += 1;
        if *times > 1 {
            group.name = format!("{}.{times}", group.name);
        }
    }
}

/// Without what tells threads of one kind apart, and without what a name may not hold.
pub(super) fn plain(comm: &str) -> String {
    let stem = comm.split(['/', ':', '#']).next().unwrap_or(comm);
    let stem = stem.trim_end_matches(|c: char| c.is_ascii_digit() || "-_. ".contains(c));
    let stem = match (stem, comm) {
        ("", "") => "nameless",
        ("", comm) => comm,
        (stem, _) => stem,
    };
    let good = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    stem.chars().map(good).collect()
}

impl Group {
    /// When its tasks come, as a scenario has it; those that were there come spread over their
    /// first sleep.
    pub fn arrives(&self, sleep_ns: u64) -> Option<String> {
        match (self.kin.came, self.came_ns) {
            (true, (first, last)) if first == last => Some(duration(first)),
            (true, (first, last)) => Some(format!("{}..{}", duration(first), duration(last))),
            (false, _) if sleep_ns == 0 => None,
            (false, _) => Some(format!("0ns..{}", duration(sleep_ns))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_one_kind_have_one_name() {
        for (comm, name) in [
            ("kworker/0:1", "kworker"),
            ("Web Content", "Web-Content"),
            ("worker-12", "worker"),
            ("7", "7"),
            ("a\"b", "a-b"),
            ("", "nameless"),
        ] {
            assert_eq!(plain(comm), name);
        }
    }
}

//! From a trace of a live system to a scenario file, so that "what if" starts from the user's own
//! machine. Tasks of one name become a group, which runs and sleeps as they did, with the same
//! means; who nearly always is woken by the same other group waits for it; tasks that were born
//! and died are forked by those who bore them. What the trace does not tell (locks, devices, why
//! a task slept) is sleep.

mod events;
mod fit;
mod threads;

pub use events::{Event, Thread, What, read};

use fit::{duration, span};
use metasched_base::{Error, Kind, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use threads::{Seen, threads};

const ATTEMPT: &str = "turn the trace into a scenario";

/// A group waits for another one if so many of a hundred of its wake-ups come from there: fewer,
/// and interrupts that came while the other ran would count as its own.
const WAKER_PERCENT: u64 = 80;
/// Groups with the least CPU time beyond so many are one: nobody reads more.
const GROUPS_MAX: usize = 40;
/// A loop that is longer says nothing any more.
const LOOP_MAX: u64 = 10_000;

/// What becomes of a thread's life in a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Life {
    /// It is there all the time, and sleeps now and then.
    Long,
    /// It is there all the time, and never sleeps.
    Busy,
    /// It was born and died in the trace.
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

/// Tasks that become one group.
struct Group {
    name: String,
    life: Life,
    members: Vec<u32>,
    ran_ns: u64,
    bursts: Vec<u64>,
    sleeps: Vec<u64>,
    priority: Option<u32>,
}

impl Group {
    /// How often its tasks went through their steps in the trace.
    fn rounds(&self) -> u64 {
        self.bursts.len() as u64
    }
}

/// A scenario file that behaves like the machine that the trace was taken on.
///
/// # Errors
/// `BadInput`, when nothing ran in it.
pub fn scenario(events: &[Event], name: &str) -> Result<String> {
    let threads = threads(events);
    let mut groups = groups(&threads);
    if groups.is_empty() {
        return Err(Error::new(Kind::BadInput, ATTEMPT, "no thread runs in it")
            .remedy("record sched_switch and sched_wakeup while something runs"));
    }
    let (first, last) = (events[0].at_ns, events[events.len() - 1].at_ns);
    let length_ns = (last - first).max(1_000_000);
    let of_pid: BTreeMap<u32, usize> = groups
        .iter()
        .enumerate()
        .flat_map(|(at, group)| group.members.iter().map(move |pid| (*pid, at)))
        .collect();
    let wakers = wakers(&groups, &threads, &of_pid);
    let forkers = forkers(&mut groups, &threads, &of_pid, length_ns);

    let cpus = events.iter().map(|event| event.cpu + 1).max().unwrap_or(1);
    let mut text = format!(
        "# Made from a trace of {} with {} events.\nname = \"{}\"\nduration = \"{}\"\n\n\
         [machine]\ncpus = {cpus}\n",
        duration(length_ns),
        events.len(),
        plain(name),
        duration(length_ns),
    );
    for (at, group) in groups.iter().enumerate() {
        let mut extra = Vec::new();
        for (woken, waker) in &wakers {
            if *waker == at {
                let wakes = groups[*woken].sleeps.len() as u64;
                extra.push((format!("wake {}", groups[*woken].name), wakes));
            }
        }
        for ((child, parent), births) in &forkers {
            if *parent == at {
                extra.push((format!("fork {}", groups[*child].name), *births));
            }
        }
        write_group(&mut text, group, wakers.contains_key(&at), extra, length_ns);
    }
    Ok(text)
}

/// Without what tells threads of one kind apart, and without what a name may not hold.
fn plain(comm: &str) -> String {
    let stem = comm.split(['/', ':', '#']).next().unwrap_or(comm);
    let stem = stem.trim_end_matches(|c: char| c.is_ascii_digit() || "-_. ".contains(c));
    let stem = if stem.is_empty() { comm } else { stem };
    let good = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    stem.chars().map(good).collect()
}

fn groups(threads: &BTreeMap<u32, Seen>) -> Vec<Group> {
    let mut groups: BTreeMap<(String, Life), Group> = BTreeMap::new();
    for (pid, seen) in threads.iter().filter(|(_, seen)| seen.ran_ns > 0) {
        let life = match seen {
            Seen { parent: Some(_), exited: true, .. } => Life::Short,
            Seen { bursts, sleeps, .. } if bursts.is_empty() && sleeps.is_empty() => Life::Busy,
            _ => Life::Long,
        };
        let name = plain(&seen.comm);
        let group = groups.entry((name.clone(), life)).or_insert_with(|| Group {
            name: life.name(&name),
            life,
            members: Vec::new(),
            ran_ns: 0,
            bursts: Vec::new(),
            sleeps: Vec::new(),
            priority: seen.priority,
        });
        group.absorb(*pid, seen);
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by(|a, b| b.ran_ns.cmp(&a.ran_ns).then(a.name.cmp(&b.name)));
    let rest: Vec<Group> = groups.drain(GROUPS_MAX.min(groups.len())..).collect();
    for group in rest {
        let name = group.life.name("others");
        match groups.iter_mut().find(|other| other.name == name) {
            Some(others) => others.merge(group),
            None => groups.push(Group { name, priority: None, ..group }),
        }
    }
    groups
}

impl Group {
    fn absorb(&mut self, pid: u32, seen: &Seen) {
        self.members.push(pid);
        self.ran_ns += seen.ran_ns;
        self.bursts.extend(&seen.bursts);
        self.sleeps.extend(&seen.sleeps);
    }

    fn merge(&mut self, other: Group) {
        self.members.extend(other.members);
        self.ran_ns += other.ran_ns;
        self.bursts.extend(other.bursts);
        self.sleeps.extend(other.sleeps);
    }
}

/// Which group waits for which other one. Never in a circle: in one, a wake-up that was lost
/// would end all of it.
fn wakers(
    groups: &[Group],
    threads: &BTreeMap<u32, Seen>,
    of_pid: &BTreeMap<u32, usize>,
) -> BTreeMap<usize, usize> {
    let mut waits: BTreeMap<usize, usize> = BTreeMap::new();
    for (woken, group) in groups.iter().enumerate().filter(|(_, group)| group.life == Life::Long) {
        let mut by: BTreeMap<usize, u64> = BTreeMap::new();
        let mut all = 0;
        for (pid, times) in group.members.iter().flat_map(|pid| &threads[pid].woken_by) {
            all += times;
            if let Some(waker) = of_pid.get(pid) {
                *by.entry(*waker).or_default() += times;
            }
        }
        let Some((waker, times)) = by.into_iter().max_by_key(|(_, times)| *times) else { continue };
        let able = groups[waker].life == Life::Long && groups[waker].rounds() > 0;
        let mut above = Some(waker);
        while let Some(next) = above.filter(|next| *next != woken) {
            above = waits.get(&next).copied();
        }
        if able && above.is_none() && times * 100 >= all * WAKER_PERCENT {
            waits.insert(woken, waker);
        }
    }
    waits
}

/// Which group of tasks that came and went was borne by which group that was there, and how
/// often. Those whose ancestors the trace does not tell are borne by a group of its own.
fn forkers(
    groups: &mut Vec<Group>,
    threads: &BTreeMap<u32, Seen>,
    of_pid: &BTreeMap<u32, usize>,
    length_ns: u64,
) -> BTreeMap<(usize, usize), u64> {
    let mut births: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    let spawner = groups.len();
    for (child, group) in groups.iter().enumerate().filter(|(_, group)| group.life == Life::Short) {
        for pid in &group.members {
            let mut seen = BTreeSet::from([*pid]);
            let mut parent = threads[pid].parent;
            // Up to somebody who was there all the time; a number may be used twice.
            while let Some(above) = parent.filter(|above| seen.insert(*above))
                && of_pid.get(&above).is_some_and(|at| groups[*at].life == Life::Short)
            {
                parent = threads[&above].parent;
            }
            let parent = parent.and_then(|pid| of_pid.get(&pid).copied());
            let able = |at: &usize| groups[*at].life == Life::Long && groups[*at].rounds() > 0;
            *births.entry((child, parent.filter(able).unwrap_or(spawner))).or_default() += 1;
        }
    }
    let of_spawner: u64 =
        births.iter().filter(|((_, by), _)| *by == spawner).map(|(_, births)| *births).sum();
    if of_spawner > 0 {
        groups.push(Group {
            name: "spawner".into(),
            life: Life::Long,
            members: vec![0],
            ran_ns: 0,
            bursts: vec![10_000; of_spawner as usize],
            sleeps: vec![length_ns / of_spawner; of_spawner as usize],
            priority: None,
        });
    }
    births
}

/// Writes a group. `extra` are steps that it takes so often in all its rounds together.
fn write_group(
    text: &mut String,
    group: &Group,
    waits: bool,
    extra: Vec<(String, u64)>,
    length_ns: u64,
) {
    let tasks = group.members.len() as u64;
    let share = group.ran_ns / (length_ns / 1_000).max(1);
    write!(
        text,
        "\n[[task]] # {}.{} % of a CPU in the trace\nname = \"{}\"\n",
        share / 10,
        share % 10,
        group.name
    )
    .expect("a String takes everything");
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    match group.priority {
        Some(real_time @ 0..100) => line(format!("# its priority is {real_time}: real time")),
        Some(priority @ 100..140) if priority != 120 => {
            line(format!("nice = {}", i64::from(priority) - 120));
        }
        _ => {}
    }
    if group.life == Life::Short {
        let rounds = (group.rounds() / tasks).max(1);
        let steps = match rounds {
            1 => format!("steps = [\"run {}\"]", span(&group.bursts)),
            _ => format!(
                "steps = [\"run {}\", \"sleep {}\"]",
                span(&group.bursts),
                span(&group.sleeps)
            ),
        };
        line(format!("rounds = {rounds}"));
        return line(steps);
    }
    line(format!("count = {tasks}"));
    if group.life == Life::Busy {
        return line("steps = [\"run 1s\"]".into());
    }
    let sleep_ns = match group.sleeps.len() as u64 {
        // It went to sleep and did not wake again.
        0 => length_ns,
        n => group.sleeps.iter().sum::<u64>() / n,
    };
    let sleep = match (waits, group.sleeps.is_empty()) {
        (true, _) => format!("\"wait {}\"", group.name),
        (false, true) => format!("\"sleep {}\"", duration(length_ns)),
        (false, false) => format!("\"sleep {}\"", span(&group.sleeps)),
    };
    if !waits {
        line(format!("arrives = \"0ns..{}\"", duration(sleep_ns)));
    }
    let run = format!("\"run {}\"", span(&group.bursts));
    line(format!("steps = [{}]", rounds_of(&run, &sleep, extra, group.rounds().max(1))));
}

/// The rounds of a group until they repeat. What it does beside running and sleeping comes
/// before it sleeps, in as many of ten rounds as it is due; what is rarer, after as many.
fn rounds_of(run: &str, sleep: &str, mut extra: Vec<(String, u64)>, rounds: u64) -> String {
    extra.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    let often = extra.iter().take_while(|(_, times)| *times * 10 >= rounds * 3).count();
    let in_ten: Vec<u64> =
        extra[..often].iter().map(|(_, times)| (times * 10 + rounds / 2) / rounds).collect();
    let common = in_ten.iter().fold(10, |common, n| greatest_common_divisor(common, *n));
    let period = 10 / common;
    let mut steps = Vec::new();
    for round in 0..period {
        steps.push(run.to_owned());
        for ((step, _), n) in extra.iter().zip(&in_ten) {
            let n = n / common;
            match (round + 1) * n / period - round * n / period {
                0 => {}
                now => steps.push(format!("\"{step} {now}\"")),
            }
        }
        steps.push(sleep.to_owned());
    }
    let (mut steps, mut each) = (steps.join(", "), period);
    for (step, times) in &extra[often..] {
        let times = (times * each).max(1);
        let due = ((rounds + times / 2) / times).clamp(1, LOOP_MAX);
        steps = format!("{{ repeat = {due}, steps = [{steps}] }}, \"{step}\"");
        each *= due;
    }
    steps
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(extra: &[(&str, u64)]) -> String {
        let extra = extra.iter().map(|(step, times)| ((*step).to_owned(), *times)).collect();
        rounds_of("R", "S", extra, 100)
    }

    #[test]
    fn a_step_is_taken_as_often_as_it_is_due() {
        assert_eq!(steps(&[]), "R, S");
        assert_eq!(steps(&[("wake a", 100)]), "R, \"wake a 1\", S");
        assert_eq!(steps(&[("fork a", 301)]), "R, \"fork a 3\", S");
        assert_eq!(steps(&[("wake a", 50)]), "R, S, R, \"wake a 1\", S");
        assert_eq!(steps(&[("wake a", 70)]).matches("wake").count(), 7);
        assert_eq!(steps(&[("wake a", 10)]), "{ repeat = 10, steps = [R, S] }, \"wake a\"");
        assert_eq!(
            steps(&[("wake a", 2), ("wake b", 150), ("wake c", 20)]),
            "{ repeat = 8, steps = [{ repeat = 3, steps = [R, \"wake b 1\", S, R, \"wake b 2\", S] }, \
             \"wake c\"] }, \"wake a\""
        );
    }

    #[test]
    fn threads_of_one_kind_have_one_name() {
        for (comm, name) in [
            ("kworker/0:1", "kworker"),
            ("Web Content", "Web-Content"),
            ("worker-12", "worker"),
            ("7", "7"),
            ("a\"b", "a-b"),
        ] {
            assert_eq!(plain(comm), name);
        }
    }
}

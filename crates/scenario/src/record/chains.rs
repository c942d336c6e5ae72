//! Which tasks wake which: a sleep that another task ends is no sleep, since it gets longer or
//! shorter with that task.

use super::groups::{Group, Life};
use super::threads::Seen;
use std::collections::{BTreeMap, BTreeSet};

/// A group waits for others if so many of a hundred of its wake-ups come from them: fewer, and
/// interrupts that came while the others ran would count as theirs.
const WAKERS_PERCENT: u64 = 80;
/// A waker of fewer wake-ups than that, in a hundred, is none of its wakers.
const WAKER_PERCENT: u64 = 5;
/// Two groups are a closed loop if each wakes the other this often in a hundred rounds.
const LOOP_PERCENT: std::ops::RangeInclusive<u64> = 90..=111;
/// And if what the one does is this much of the other's sleep, in a hundred: else something else
/// takes the time, which would be lost in a loop.
const LOOP_EXPLAINS_PERCENT: u64 = 80;

/// Which groups wake which, by their places among the groups.
#[derive(Default)]
pub(super) struct Chains {
    /// The groups that wait to be woken, and how often each other group wakes them in the trace.
    pub wakers: BTreeMap<usize, BTreeMap<usize, u64>>,
    /// Closed loops: the group that answers, and the one that begins.
    pub loops: BTreeMap<usize, usize>,
}

impl Chains {
    /// Whether the group waits for another one, instead of sleeping.
    pub fn waits(&self, group: usize) -> bool {
        self.wakers.contains_key(&group) || self.in_loop(group)
    }

    /// Whether the group wakes, and is woken by, exactly one other.
    pub fn in_loop(&self, group: usize) -> bool {
        self.loops.iter().any(|(answers, asks)| [*answers, *asks].contains(&group))
    }

    /// What of the groups the trace tells.
    pub fn of(
        groups: &[Group],
        threads: &BTreeMap<u32, Seen>,
        of_pid: &BTreeMap<u32, usize>,
    ) -> Chains {
        let woken: Vec<Woken> =
            groups.iter().map(|group| Woken::of(group, threads, of_pid)).collect();
        let mut chains = Chains::default();
        chains.find_loops(groups, &woken);
        let mut by_certainty: Vec<usize> = (0..groups.len()).collect();
        by_certainty
            .sort_by_key(|at| std::cmp::Reverse((woken[*at].certainty(*at), groups.len() - at)));
        for at in by_certainty {
            if groups[at].kin.life == Life::Long && !chains.in_loop(at) {
                chains.find_wakers(groups, at, &woken[at]);
            }
        }
        chains
    }

    fn find_loops(&mut self, groups: &[Group], woken: &[Woken]) {
        for asks in 0..groups.len() {
            let Some((answers, times)) = woken[asks].main(asks) else { continue };
            if self.in_loop(asks) || self.in_loop(answers) {
                continue;
            }
            let (first, second) = (&groups[asks], &groups[answers]);
            let both_live = [first, second].iter().all(|group| group.kin.life == Life::Long);
            let mutual = woken[answers].main(answers).is_some_and(|(other, _)| other == asks);
            // The group with more tasks begins: each of them is in the loop once.
            let begins = first.members.len() >= second.members.len();
            let of_rounds = |times: u64, group: &Group| times * 100 / group.rounds().max(1);
            let even = LOOP_PERCENT.contains(&of_rounds(times, second))
                && LOOP_PERCENT.contains(&of_rounds(first.rounds(), second));
            let answer = mean(&second.bursts) + mean(&second.waits);
            let explained = answer * 100 >= mean(&first.sleeps) * LOOP_EXPLAINS_PERCENT;
            if both_live && mutual && begins && even && explained {
                self.loops.insert(answers, asks);
            }
        }
    }

    /// Never in a circle: in one, a wake-up that is lost would end all of it.
    fn find_wakers(&mut self, groups: &[Group], at: usize, woken: &Woken) {
        let able = |waker: usize| groups[waker].kin.life != Life::Short && waker != at;
        let wakers: BTreeMap<usize, u64> = woken
            .by
            .iter()
            .filter(|(waker, times)| able(**waker) && *times * 100 >= woken.all * WAKER_PERCENT)
            .map(|(waker, times)| (*waker, *times))
            .collect();
        let sum: u64 = wakers.values().sum();
        let circle = wakers.keys().any(|waker| self.reaches(*waker, at));
        if sum > 0 && sum * 100 >= woken.all * WAKERS_PERCENT && !circle {
            // Each of its rounds needs a wake-up, also those whose wakers are not known.
            let rounds = groups[at].rounds();
            let scaled = |times: u64| (times * rounds / sum).max(1);
            let wakers = wakers.into_iter().map(|(waker, times)| (waker, scaled(times)));
            self.wakers.insert(at, wakers.collect());
        }
    }

    /// Whether `from` waits for `to`, directly or not.
    fn reaches(&self, from: usize, to: usize) -> bool {
        let (mut open, mut seen) = (vec![from], BTreeSet::new());
        while let Some(next) = open.pop() {
            if next == to {
                return true;
            }
            if seen.insert(next) {
                open.extend(self.wakers.get(&next).into_iter().flat_map(BTreeMap::keys));
                open.extend(self.loops.iter().filter_map(|(a, b)| match next {
                    next if next == *a => Some(*b),
                    next if next == *b => Some(*a),
                    _ => None,
                }));
            }
        }
        false
    }
}

fn mean(times: &[u64]) -> u64 {
    times.iter().sum::<u64>() / (times.len() as u64).max(1)
}

/// The groups that woke a group.
struct Woken {
    all: u64,
    by: BTreeMap<usize, u64>,
}

impl Woken {
    fn of(group: &Group, threads: &BTreeMap<u32, Seen>, of_pid: &BTreeMap<u32, usize>) -> Self {
        let mut woken = Woken { all: 0, by: BTreeMap::new() };
        let seen = group.members.iter().filter_map(|pid| threads.get(pid));
        for (pid, times) in seen.flat_map(|seen| &seen.woken_by) {
            woken.all += times;
            if let Some(waker) = of_pid.get(pid) {
                *woken.by.entry(*waker).or_default() += times;
            }
        }
        woken
    }

    /// How many of a thousand of its wake-ups come from other groups.
    fn certainty(&self, own: usize) -> u64 {
        let others: u64 = self.by.iter().filter(|(at, _)| **at != own).map(|(_, n)| *n).sum();
        others * 1_000 / self.all.max(1)
    }

    /// The one group that it is nearly always woken by, and how often.
    fn main(&self, own: usize) -> Option<(usize, u64)> {
        let (waker, times) = self.by.iter().max_by_key(|(_, times)| **times)?;
        let often = *times * 100 >= self.all * WAKERS_PERCENT;
        (*waker != own && often).then_some((*waker, *times))
    }
}

/// Which group of tasks that came and went was borne by which group that was there, and how
/// often. Those whose ancestors the trace does not tell are borne by a group of its own.
pub(super) fn forkers(
    groups: &mut Vec<Group>,
    threads: &BTreeMap<u32, Seen>,
    of_pid: &BTreeMap<u32, usize>,
    length_ns: u64,
) -> BTreeMap<(usize, usize), u64> {
    let mut births: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    let spawner = groups.len();
    let short = |at: &usize| groups[*at].kin.life == Life::Short;
    for (child, group) in groups.iter().enumerate().filter(|(at, _)| short(at)) {
        for pid in &group.members {
            let mut seen = BTreeSet::from([*pid]);
            let mut parent = threads[pid].parent;
            // Up to somebody who was there for long; a number may be used twice.
            while let Some(above) = parent.filter(|above| seen.insert(*above))
                && of_pid.get(&above).is_some_and(short)
            {
                parent = threads[&above].parent;
            }
            let parent = parent.and_then(|pid| of_pid.get(&pid).copied());
            let able = |at: &usize| groups[*at].kin.life == Life::Long && groups[*at].rounds() > 0;
            *births.entry((child, parent.filter(able).unwrap_or(spawner))).or_default() += 1;
        }
    }
    let of_spawner: u64 =
        births.iter().filter(|((_, by), _)| *by == spawner).map(|(_, births)| *births).sum();
    if of_spawner > 0 {
        groups.push(Group::spawner(of_spawner, length_ns));
    }
    births
}

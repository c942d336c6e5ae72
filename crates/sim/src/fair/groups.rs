//! What cgroups make of weights on each CPU, and their accounts by `cpu.max`.
//!
//! A cgroup has an entity on each CPU, which weighs what `cpu.weight` says for each of its tasks that
//! want to run, on as many CPUs as there are at most (since Linux 7.3), divided among CPUs by its load on each. A task
//! competes with the product of the parts that it and the entities above it have of their queues:
//! since 7.3 all tasks of a CPU compete in one queue.

use super::average::Average;
use super::timeline::{LEAST, USUAL};
use crate::abi::Cgroup;
use crate::trace::Quota;

/// What a cgroup with `cpu.idle` weighs (`WEIGHT_IDLEPRIO`).
const IDLE_WEIGHT: u64 = 3 << 10;
/// The place of the root, by its id.
pub(super) const ROOT: usize = 1;
/// Averages count loads in this many bits less.
const LOAD_BITS: u32 = 10;
/// What one task that always wants to run comes to in the average of these.
const ONE: u64 = 1 << 10;
/// How often a CPU with work tells of its averages.
const TELL_NS: u64 = 1_000_000;
/// How often those without are asked for what is left of theirs.
const SUM_NS: u64 = 32_000_000;
/// What a CPU takes off an account at once (`sched_cfs_bandwidth_slice_us`).
const PORTION_NS: i64 = 5_000_000;
/// What it keeps of that when it has no more use for it.
const KEPT_NS: i64 = 1_000_000;

/// What `weight`, of a task or of a cgroup, is here: 100 is usual.
pub(super) fn weight_of(weight: u32) -> u64 {
    u64::from(weight) * USUAL / 100
}

/// All cgroups that tasks of this class were in, by their ids.
#[derive(Default)]
pub(super) struct Groups {
    groups: Vec<Group>,
    /// How many have a quota.
    limited: usize,
}

#[derive(Clone)]
pub(super) struct Group {
    /// The one above; 0 until it is known, and above the root.
    above: usize,
    pub weight: u32,
    pub idle: bool,
    /// By CPU, up to the last that a task of it was on.
    queues: Vec<Queue>,
    /// CPUs with a load, or what is left of one.
    loaded: Vec<usize>,
    /// The averages of all CPUs, when they were last added up.
    load: u64,
    runnable: u64,
    summed_at: Option<u64>,
    pub limit: Option<Limit>,
    /// Tells this limit from earlier ones.
    pub limits: u64,
    /// CPUs on which the quota is used up, the one that has waited longest first.
    throttled: Vec<usize>,
}

/// A cgroup on one CPU.
#[derive(Clone, Copy, Default)]
struct Queue {
    /// What its members there that want to run weigh; what sleeps in debt is among them.
    load: u64,
    members: usize,
    /// Tasks in it and below that want to run.
    runnable: u64,
    load_average: Average,
    runnable_average: Average,
    /// What of both is in the sums of all CPUs, and since when.
    told_load: u64,
    told_runnable: u64,
    told_at: u64,
    loaded: bool,
    /// What its entity weighs in the queue above.
    weight: u64,
    /// Run time that it may use, ns; less than 0 where it used more.
    left_ns: i64,
}

#[derive(Clone)]
pub(super) struct Limit {
    pub quota: Quota,
    /// What no CPU has taken yet, ns.
    pub left_ns: i64,
}

impl Default for Group {
    fn default() -> Self {
        Group {
            above: 0,
            weight: 100,
            idle: false,
            queues: Vec::new(),
            loaded: Vec::new(),
            load: 0,
            runnable: 0,
            summed_at: None,
            limit: None,
            limits: 0,
            throttled: Vec::new(),
        }
    }
}

impl Group {
    fn own_weight(&self) -> u64 {
        if self.idle { IDLE_WEIGHT } else { weight_of(self.weight) }
    }
}

impl Queue {
    /// Counts what was so up to now.
    fn count(&mut self, now: u64) {
        self.load_average.count(self.load >> LOAD_BITS, now);
        self.runnable_average.count(self.runnable * ONE, now);
    }

    /// Brings what all CPUs come to up to date.
    fn tell(&mut self, load: &mut u64, runnable: &mut u64, now: u64) {
        let is = match self.loaded {
            true => (self.load_average.value(), self.runnable_average.value()),
            false => (0, 0),
        };
        *load = *load - self.told_load + is.0;
        *runnable = *runnable - self.told_runnable + is.1;
        (self.told_load, self.told_runnable, self.told_at) = (is.0, is.1, now);
    }

    fn is_over(&self) -> bool {
        self.members == 0 && self.load_average.is_nothing() && self.runnable_average.is_nothing()
    }
}

/// How the tasks of a cgroup on a CPU change.
#[derive(Clone, Copy, Default)]
pub(super) struct Change {
    pub load: i64,
    pub members: i64,
    pub runnable: i64,
}

impl Groups {
    /// The place of a cgroup, with all those above it.
    pub fn at(&mut self, cgroup: *mut Cgroup) -> usize {
        // SAFETY: cgroups stay in memory until the run is over, and nothing writes to them here.
        let cgroup = unsafe { &*cgroup };
        let (id, above) = cgroup.id_and_above();
        let at = id as usize;
        if self.groups.len() <= at {
            self.groups.resize(at + 1, Group::default());
        }
        if at != ROOT && self.groups[at].above == 0 {
            self.groups[at].above = above.map_or(0, |above| above as usize);
            self.at(cgroup.ancestors[cgroup.level as usize - 1]);
        }
        at
    }

    pub fn get(&self, at: usize) -> Option<&Group> {
        self.groups.get(at)
    }

    pub fn get_mut(&mut self, at: usize) -> &mut Group {
        &mut self.groups[at]
    }

    /// A cgroup and those above it, without the root.
    pub fn line(&self, at: usize) -> impl Iterator<Item = usize> {
        let below = |at: &usize| *at > ROOT;
        std::iter::successors(Some(at).filter(below), move |at| {
            Some(self.groups[*at].above).filter(below)
        })
    }

    /// Nobody wants to run, and nobody has.
    pub fn forget(&mut self) {
        for group in &mut self.groups {
            group.queues.clear();
            group.loaded.clear();
            group.throttled.clear();
            (group.load, group.runnable, group.summed_at) = (0, 0, None);
        }
    }

    fn queue(&mut self, at: usize, cpu: usize) -> &mut Queue {
        let group = &mut self.groups[at];
        if group.queues.len() <= cpu {
            // A CPU begins with next to nothing of a limit, and takes its portion.
            group.queues.resize(cpu + 1, Queue { left_ns: 1, ..Queue::default() });
        }
        let queue = &mut group.queues[cpu];
        if !std::mem::replace(&mut queue.loaded, true) {
            group.loaded.push(cpu);
        }
        queue
    }

    /// Something changes in a cgroup on a CPU: brings the weights of the entities above up to date.
    /// Returns how many cgroups more than before have members there, the root left out.
    pub fn change(
        &mut self,
        at: usize,
        cpu: usize,
        change: Change,
        online: usize,
        now: u64,
    ) -> isize {
        let Change { mut load, mut members, runnable } = change;
        let (mut at, mut more) = (at, 0);
        loop {
            let queue = self.queue(at, cpu);
            queue.count(now);
            let had = queue.members > 0;
            queue.load = queue.load.strict_add_signed(load);
            queue.members = queue.members.strict_add_signed(members as isize);
            queue.runnable = queue.runnable.strict_add_signed(runnable);
            let (has, before) = (queue.members > 0, queue.weight);
            if at == ROOT {
                return more;
            }
            // What has become empty keeps its weight until somebody comes.
            let weight = if has { self.share(at, cpu, online, now) } else { before };
            self.groups[at].queues[cpu].weight = weight;
            let counted = |is: bool, weight: u64| if is { weight as i64 } else { 0 };
            load = counted(has, weight) - counted(had, before);
            members = i64::from(has) - i64::from(had);
            more += members as isize;
            if had && !has {
                self.give_back(at, cpu);
            }
            at = self.groups[at].above;
        }
    }

    /// What the entity of a cgroup weighs on a CPU: as much as there are tasks, at most one for each CPU, by
    /// the CPU's part of the load.
    fn share(&mut self, at: usize, cpu: usize, online: usize, now: u64) -> u64 {
        let group = &mut self.groups[at];
        let Group { queues, loaded, load, runnable, .. } = group;
        if group.summed_at.is_none_or(|at| now - at >= SUM_NS) {
            group.summed_at = Some(now);
            loaded.retain(|cpu| {
                let queue = &mut queues[*cpu];
                queue.count(now);
                queue.loaded = !queue.is_over();
                queue.tell(load, runnable, now);
                queue.loaded
            });
        } else if now - queues[cpu].told_at >= TELL_NS {
            queues[cpu].tell(load, runnable, now);
        }
        let queue = &group.queues[cpu];
        let here = (queue.load >> LOAD_BITS).max(queue.load_average.value());
        let all = group.load - queue.told_load + here;
        let tasks = (group.runnable / ONE).clamp(1, online as u64);
        let whole = group.own_weight() * tasks;
        let share = u128::from(whole) * u128::from(here) / u128::from(all.max(1));
        (share as u64).clamp(LEAST, whole.max(LEAST))
    }

    /// On which CPUs somebody in a cgroup wants to run.
    pub fn at_work(&self, at: usize) -> Vec<usize> {
        let group = &self.groups[at];
        group.loaded.iter().copied().filter(|cpu| group.queues[*cpu].members > 0).collect()
    }

    /// What the hierarchy leaves of a task's weight on a CPU.
    pub fn flat(&self, at: usize, cpu: usize, own: u64) -> u64 {
        let (mut at, mut own, mut weight) = (at, own, USUAL);
        loop {
            let of = if at == ROOT { USUAL } else { self.groups[at].queues[cpu].load };
            let part = u128::from(weight) * u128::from(own) / u128::from(of.max(1));
            weight = (part as u64).max(LEAST);
            if at == ROOT {
                return weight;
            }
            own = self.groups[at].queues[cpu].weight;
            at = self.groups[at].above;
        }
    }

    /// Whether what is in a cgroup gives way to all that is in none of `cpu.idle`.
    pub fn is_idle(&self, at: usize) -> bool {
        self.line(at).any(|at| self.groups[at].idle)
    }

    /// How many have a quota has changed.
    pub fn count_limits(&mut self) {
        self.limited = self.groups.iter().filter(|group| group.limit.is_some()).count();
    }

    /// A cgroup has another limit, or none: each CPU begins anew.
    pub fn begin_limit(&mut self, at: usize, quota: Option<Quota>) {
        let group = &mut self.groups[at];
        group.limits += 1;
        group.limit = quota.map(|quota| Limit { quota, left_ns: quota.quota_ns as i64 });
        group.throttled.clear();
        group.queues.iter_mut().for_each(|queue| queue.left_ns = 1);
        self.count_limits();
    }

    /// Takes run time off all accounts above, and a portion where a CPU has nothing left.
    pub fn charge(&mut self, at: usize, cpu: usize, ran_ns: u64) {
        if self.limited == 0 {
            return;
        }
        let mut at = at;
        while at > ROOT {
            let group = &mut self.groups[at];
            if let (Some(limit), Some(queue)) = (&mut group.limit, group.queues.get_mut(cpu)) {
                queue.left_ns -= ran_ns as i64;
                if queue.left_ns <= 0 {
                    let taken = (PORTION_NS - queue.left_ns).min(limit.left_ns.max(0));
                    queue.left_ns += taken;
                    limit.left_ns -= taken;
                    if queue.left_ns <= 0 && !group.throttled.contains(&cpu) {
                        group.throttled.push(cpu);
                    }
                }
            }
            at = group.above;
        }
    }

    /// Whether a quota above is used up on a CPU.
    pub fn throttled(&self, at: usize, cpu: usize) -> bool {
        self.limited > 0 && self.line(at).any(|at| self.groups[at].throttled.contains(&cpu))
    }

    /// A CPU has no more use for what it took.
    fn give_back(&mut self, at: usize, cpu: usize) {
        let Group { limit: Some(limit), queues, .. } = &mut self.groups[at] else { return };
        let more = (queues[cpu].left_ns - KEPT_NS).max(0);
        queues[cpu].left_ns -= more;
        limit.left_ns += more;
    }

    /// Lets CPUs go on as far as the account goes, in the order in which they used up what they
    /// had: whether any may.
    pub fn distribute(&mut self, at: usize) -> bool {
        let Group { limit: Some(limit), queues, throttled, .. } = &mut self.groups[at] else {
            return false;
        };
        let before = throttled.len();
        throttled.retain(|cpu| {
            let queue = &mut queues[*cpu];
            let taken = (1 - queue.left_ns).min(limit.left_ns.max(0));
            queue.left_ns += taken;
            limit.left_ns -= taken;
            queue.left_ns <= 0
        });
        throttled.len() < before
    }

    /// Whether a CPU waits for what is left on the account.
    pub fn is_awaited(&self, at: usize) -> bool {
        let group = &self.groups[at];
        let left = group.limit.as_ref().is_some_and(|limit| limit.left_ns > 0);
        left && !group.throttled.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: usize = 2;
    const B: usize = 3;
    const CPUS: usize = 4;
    const MS: u64 = 1_000_000;

    /// `a`, and `a/b` below it.
    fn nested() -> Groups {
        let mut groups = Groups { groups: vec![Group::default(); 4], ..Groups::default() };
        (groups.groups[A].above, groups.groups[B].above) = (ROOT, A);
        groups
    }

    fn add(groups: &mut Groups, at: usize, cpu: usize, weight: u64, now: u64) {
        let change = Change { load: weight as i64, members: 1, runnable: 1 };
        groups.change(at, cpu, change, CPUS, now);
    }

    fn remove(groups: &mut Groups, at: usize, cpu: usize, weight: u64, now: u64) {
        let change = Change { load: -(weight as i64), members: -1, runnable: -1 };
        groups.change(at, cpu, change, CPUS, now);
    }

    #[test]
    fn a_task_has_its_part_of_its_cgroup_and_that_of_the_one_above() {
        let mut groups = nested();
        add(&mut groups, B, 0, USUAL, 0);
        add(&mut groups, B, 0, 3 * USUAL, 0);
        assert_eq!(groups.flat(B, 0, USUAL), USUAL / 4);
        add(&mut groups, A, 0, USUAL, 0);
        assert_eq!(groups.flat(B, 0, 3 * USUAL), 3 * USUAL / 8);
        assert_eq!(groups.flat(A, 0, USUAL), USUAL / 2);
        remove(&mut groups, B, 0, USUAL, 0);
        remove(&mut groups, B, 0, 3 * USUAL, 0);
        assert_eq!(groups.flat(A, 0, USUAL), USUAL);
    }

    #[test]
    fn a_cgroup_weighs_more_where_its_load_is_and_as_much_as_it_has_tasks() {
        let mut groups = nested();
        for cpu in [0, 0, 0, 1] {
            add(&mut groups, A, cpu, USUAL, 0);
        }
        for at in 1..1_000 {
            for cpu in [0, 1] {
                groups.change(A, cpu, Change::default(), CPUS, at * MS);
            }
        }
        let weight = |cpu: usize| groups.groups[A].queues[cpu].weight as f64 / USUAL as f64;
        assert!((weight(0) - 3.0).abs() < 0.02 && (weight(1) - 1.0).abs() < 0.02);
        groups.get_mut(A).idle = true;
        for at in 1_000..1_010 {
            groups.change(A, 0, Change::default(), CPUS, at * MS);
        }
        assert!(groups.groups[A].queues[0].weight <= 4 * IDLE_WEIGHT);
        assert!(groups.is_idle(A) && groups.is_idle(B) && !groups.is_idle(ROOT));
    }

    #[test]
    fn cpus_take_portions_of_an_account_and_give_the_rest_back() {
        let mut groups = nested();
        for cpu in [0, 1] {
            add(&mut groups, B, cpu, USUAL, 0);
        }
        let quota = Quota { quota_ns: 8 * MS, period_ns: 100 * MS, burst_ns: 0 };
        groups.begin_limit(A, Some(quota));
        groups.charge(B, 0, MS);
        let left = |groups: &Groups| groups.groups[A].limit.as_ref().unwrap().left_ns;
        assert_eq!(left(&groups), 8 * MS as i64 - PORTION_NS - MS as i64 + 1);
        groups.charge(B, 1, 4 * MS);
        assert_eq!(left(&groups), 0);
        assert!(groups.throttled(B, 1) && !groups.throttled(B, 0));
        remove(&mut groups, B, 0, USUAL, 0);
        assert_eq!(left(&groups), PORTION_NS - KEPT_NS);
        assert!(groups.is_awaited(A) && groups.distribute(A));
        assert!(!groups.throttled(B, 1));
    }

    #[test]
    fn who_has_waited_longest_for_an_account_goes_on_first() {
        let mut groups = nested();
        for cpu in [0, 1] {
            add(&mut groups, A, cpu, USUAL, 0);
        }
        let quota = Quota { quota_ns: MS, period_ns: 100 * MS, burst_ns: 0 };
        groups.begin_limit(A, Some(quota));
        let refill = |groups: &mut Groups| {
            groups.groups[A].limit.as_mut().unwrap().left_ns = MS as i64;
            groups.distribute(A)
        };
        groups.charge(A, 1, 2 * MS);
        groups.charge(A, 0, 2 * MS);
        assert!(refill(&mut groups) && !groups.throttled(A, 1) && groups.throttled(A, 0));
        groups.charge(A, 1, 2 * MS);
        while groups.throttled(A, 0) {
            refill(&mut groups);
            assert!(groups.throttled(A, 1));
        }
    }
}

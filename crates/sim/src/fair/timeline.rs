//! The tasks that compete for one CPU, and the next of them: earliest eligible virtual deadline
//! first, with the rules of Linux 7.3.
//!
//! A task's virtual run time is what it ran by its weight. The average of these, by weight, is
//! the CPU's virtual time; a task's lag is how far it is behind that, the time that it is owed. A
//! task that owes nothing is eligible. The eligible one whose request is due first is served.
//!
//! Nothing here knows of machines or cgroups: tasks come with the weight that these leave them.

use crate::task::TaskId;

/// What a task of usual weight (100 in `cpu.weight`, nice 0) weighs.
pub(super) const USUAL: u64 = 1 << 20;
/// The least that anybody weighs (`MIN_SHARES`).
pub(super) const LEAST: u64 = 2;

/// One that competes, or has competed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entity {
    pub id: TaskId,
    /// ns at the usual weight.
    pub vruntime: i64,
    /// When its request is due; while it competes nowhere and `relative`, counted from `vruntime`.
    pub deadline: i64,
    pub relative: bool,
    /// Up to this virtual run time it is not to be interrupted.
    pub protected: i64,
    /// While it competes nowhere: what it is owed.
    pub lag: i64,
    /// What the hierarchy leaves of its weight; see [`USUAL`].
    pub weight: u64,
    /// It sleeps, and competes on until it owes nothing more.
    pub delayed: bool,
}

impl Entity {
    pub fn new(id: TaskId) -> Entity {
        Entity {
            id,
            vruntime: 0,
            deadline: 0,
            relative: false,
            protected: 0,
            lag: 0,
            weight: USUAL,
            delayed: false,
        }
    }

    /// How much virtual time it takes this one to run so long.
    pub fn virtual_ns(&self, ns: u64) -> i64 {
        if self.weight == USUAL {
            return ns as i64;
        }
        (u128::from(ns) * u128::from(USUAL) / u128::from(self.weight)) as i64
    }

    /// It weighs something else, while it competes nowhere: it is owed, and asks for, the same time.
    pub fn reweigh(&mut self, weight: u64) {
        let before = std::mem::replace(&mut self.weight, weight);
        if before != weight {
            self.lag = scale(self.lag, before, weight);
            if self.relative {
                self.deadline = scale(self.deadline, before, weight);
            }
        }
    }

    fn order(&self) -> (i64, TaskId) {
        (self.deadline, self.id)
    }
}

fn scale(value: i64, by: u64, of: u64) -> i64 {
    (i128::from(value) * i128::from(by) / i128::from(of)) as i64
}

/// Rounded down, so that a task at the average is eligible.
fn divided(sum: i128, by: u64) -> i64 {
    match i64::try_from(sum) {
        Ok(sum) => sum.div_euclid(by as i64),
        Err(_) => sum.div_euclid(i128::from(by)) as i64,
    }
}

/// The task that the CPU is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Nobody,
    /// The one that has it.
    Current,
    Waiting(TaskId, i64),
}

/// The tasks that compete for one CPU.
#[derive(Default)]
pub(crate) struct Timeline {
    /// By deadlines.
    waiting: Vec<Entity>,
    /// The one that has the CPU.
    pub current: Option<Entity>,
    /// Where virtual run times are counted from in the sum: it stays near them.
    zero: i64,
    /// Of all that wait, virtual run times from `zero` on times weights.
    sum: i128,
    weight: u64,
}

impl Timeline {
    /// How many compete.
    pub fn count(&self) -> usize {
        self.waiting.len() + usize::from(self.current.is_some())
    }

    /// Those that wait, by their deadlines; tasks that sleep in debt are among them.
    pub fn waiting(&self) -> &[Entity] {
        &self.waiting
    }

    /// The weights of all.
    pub fn weight(&self) -> u64 {
        self.weight + self.current.map_or(0, |current| current.weight)
    }

    fn sum(&self) -> i128 {
        self.sum + self.current.map_or(0, |current| self.part(&current))
    }

    fn part(&self, entity: &Entity) -> i128 {
        i128::from(entity.vruntime - self.zero) * i128::from(entity.weight)
    }

    /// The virtual time: the average of virtual run times by weight.
    pub fn average(&mut self) -> i64 {
        let moved = match (self.weight, self.current) {
            (0, None) => 0,
            (0, Some(current)) => current.vruntime - self.zero,
            _ => divided(self.sum(), self.weight()),
        };
        self.zero += moved;
        self.sum -= i128::from(moved) * i128::from(self.weight);
        self.zero
    }

    /// Whether somebody with that virtual run time owes nothing.
    pub fn eligible(&self, vruntime: i64) -> bool {
        self.sum() >= i128::from(vruntime - self.zero) * i128::from(self.weight())
    }

    /// What one of those is owed, and no more than can come about by one request and a tick.
    fn lag(&mut self, entity: &Entity, slice_ns: u64, tick_ns: u64) -> i64 {
        let bound = entity.virtual_ns(slice_ns + tick_ns);
        (self.average() - entity.vruntime).clamp(-bound, bound)
    }

    /// Brings what one of those is owed up to date. Who only competes until it owes nothing comes
    /// to owe no more by that, and is never owed something.
    pub fn update_lag(&mut self, entity: &mut Entity, slice_ns: u64, tick_ns: u64) {
        let lag = self.lag(entity, slice_ns, tick_ns);
        entity.lag = if entity.delayed { lag.max(entity.lag).min(0) } else { lag };
    }

    /// Somebody is about to join, with the lag that it left with. Its own weight moves the
    /// average towards it: it has that lag only from farther away. A newcomer's request is half
    /// as long, since others are on average half through theirs.
    pub fn place(&mut self, entity: &mut Entity, slice_ns: u64, newcomer: bool) {
        let (now, others) = (self.average(), self.weight());
        let mut lag = 0;
        if others > 0 && entity.lag != 0 {
            lag = entity.lag + scale(entity.lag, entity.weight, others);
        }
        entity.vruntime = now - lag;
        if std::mem::take(&mut entity.relative) {
            entity.deadline += entity.vruntime;
            return;
        }
        let asked = entity.virtual_ns(slice_ns);
        entity.deadline = entity.vruntime + if newcomer { asked / 2 } else { asked };
    }

    /// It waits from now on.
    pub fn insert(&mut self, entity: Entity) {
        self.sum += self.part(&entity);
        self.weight += entity.weight;
        let at = self.waiting.partition_point(|other| other.order() < entity.order());
        self.waiting.insert(at, entity);
    }

    /// One that waits, by its deadline.
    fn place_of(&self, id: TaskId, deadline: i64) -> usize {
        let at = self.waiting.binary_search_by_key(&(deadline, id), Entity::order);
        at.expect("the deadline of one that waits is kept")
    }

    pub fn get(&self, id: TaskId, deadline: i64) -> &Entity {
        &self.waiting[self.place_of(id, deadline)]
    }

    /// It waits no more.
    pub fn remove(&mut self, id: TaskId, deadline: i64) -> Entity {
        let entity = self.waiting.remove(self.place_of(id, deadline));
        self.sum -= self.part(&entity);
        self.weight -= entity.weight;
        entity
    }

    /// The one that has the CPU weighs something else; so that the others notice nothing, it is
    /// owed the same time.
    pub fn reweigh_current(&mut self, weight: u64, slice_ns: u64, tick_ns: u64) {
        let Some(mut current) = self.current.filter(|current| current.weight != weight) else {
            return;
        };
        let now = self.average();
        current.lag = self.lag(&current, slice_ns, tick_ns);
        let before = std::mem::replace(&mut current.weight, weight);
        let again = |time: i64| now + scale(time - now, before, weight);
        if current.vruntime < current.protected {
            current.protected = again(current.protected);
        }
        current.deadline = again(current.deadline);
        current.lag = scale(current.lag, before, weight);
        current.vruntime = now - current.lag;
        self.current = Some(current);
    }

    /// The one that has the CPU ran so long. Who has run out its request asks for another one;
    /// whether it has.
    pub fn charge(&mut self, ran_ns: u64, slice_ns: u64) -> bool {
        let Some(current) = &mut self.current else { return false };
        current.vruntime += current.virtual_ns(ran_ns);
        self.request(slice_ns)
    }

    fn request(&mut self, slice_ns: u64) -> bool {
        let Some(current) = &mut self.current else { return false };
        if current.vruntime < current.deadline {
            return false;
        }
        current.deadline = current.vruntime + current.virtual_ns(slice_ns);
        self.average();
        true
    }

    /// It gets the CPU: nobody is to take that before its request is served.
    pub fn begin(&mut self, mut entity: Entity) {
        entity.protected = entity.deadline;
        self.current = Some(entity);
    }

    /// Whether the one that has the CPU is not to be interrupted.
    pub fn is_protected(&self) -> bool {
        self.current.is_some_and(|current| current.vruntime < current.protected)
    }

    /// Somebody woke who does not take the CPU now: whoever has it gives it up when it has had a
    /// slice from here on.
    pub fn shorten(&mut self, slice_ns: u64) {
        let now = self.average();
        if let Some(current) = &mut self.current {
            let end = current.vruntime.min(now) + current.virtual_ns(slice_ns);
            current.protected = current.protected.min(end);
        }
    }

    /// Gives the rest of the request up, where it has a right to it.
    pub fn forfeit(&mut self, slice_ns: u64) {
        let Some(current) = self.current else { return };
        if self.count() > 1 && self.eligible(current.vruntime) {
            self.current = Some(Entity { vruntime: current.deadline, ..current });
            self.request(slice_ns);
        }
    }

    /// How long the one that has the CPU may run until its request is served, ns.
    pub fn left_ns(&self) -> Option<u64> {
        let current = self.current?;
        let left = u128::try_from(current.deadline - current.vruntime).unwrap_or(0);
        Some((left * u128::from(current.weight) / u128::from(USUAL)) as u64)
    }

    /// The task that the CPU is to run.
    pub fn pick(&self) -> Next {
        let mut current = self.current;
        if self.count() == 1 {
            let only = self.waiting.first().map(|only| Next::Waiting(only.id, only.deadline));
            return only.unwrap_or(Next::Current);
        }
        current = current.filter(|current| self.eligible(current.vruntime));
        if current.is_some() && self.is_protected() {
            return Next::Current;
        }
        let first = self.waiting.iter().find(|waits| self.eligible(waits.vruntime));
        match (current, first) {
            (Some(current), Some(first)) if current.deadline < first.deadline => Next::Current,
            (_, Some(first)) => Next::Waiting(first.id, first.deadline),
            (Some(_), None) => Next::Current,
            (None, None) => Next::Nobody,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: u64 = 2_800_000;
    const TICK: u64 = 4_000_000;

    fn entity(id: usize, vruntime: i64, deadline: i64, weight: u64) -> Entity {
        Entity { vruntime, deadline, weight, ..Entity::new(TaskId(id)) }
    }

    fn of(waiting: &[Entity]) -> Timeline {
        let mut timeline = Timeline::default();
        waiting.iter().for_each(|entity| timeline.insert(*entity));
        timeline
    }

    #[test]
    fn the_virtual_time_is_the_average_by_weight() {
        let mut timeline = of(&[entity(1, 0, 9, USUAL), entity(2, 400, 9, 3 * USUAL)]);
        assert_eq!(timeline.average(), 300);
        timeline.remove(TaskId(1), 9);
        assert_eq!(timeline.average(), 400);
        timeline.begin(entity(3, 100, 200, USUAL));
        assert_eq!(timeline.average(), 325);
    }

    /// The earliest deadline is ahead of the average, and has to wait.
    #[test]
    fn the_earliest_deadline_of_those_that_are_eligible_is_next() {
        let timeline = of(&[entity(1, 900, 1_000, USUAL), entity(2, 100, 2_000, USUAL)]);
        assert!(!timeline.eligible(900) && timeline.eligible(100) && timeline.eligible(500));
        assert_eq!(timeline.pick(), Next::Waiting(TaskId(2), 2_000));
        let timeline = of(&[entity(1, 500, 1_000, USUAL), entity(2, 500, 900, USUAL)]);
        assert_eq!(timeline.pick(), Next::Waiting(TaskId(2), 900));
    }

    #[test]
    fn a_request_of_a_heavier_one_is_due_earlier() {
        let mut timeline = of(&[entity(1, 0, 5, USUAL)]);
        let (mut light, mut heavy) = (entity(2, 0, 0, USUAL), entity(3, 0, 0, 4 * USUAL));
        timeline.place(&mut light, SLICE, false);
        timeline.place(&mut heavy, SLICE, false);
        assert_eq!((light.deadline, heavy.deadline), (2_800_000, 700_000));
        timeline.place(&mut light, SLICE, true);
        assert_eq!(light.deadline, 1_400_000, "a newcomer asks for half a slice");
    }

    #[test]
    fn the_lag_is_the_same_after_it_has_joined_and_others_are_not_moved() {
        for lag in [-1_000_000, 600_000] {
            let mut timeline = of(&[entity(1, 0, 9, USUAL), entity(2, 1_000, 9, USUAL)]);
            let mut back = Entity { lag, ..entity(3, 0, 0, 3 * USUAL) };
            timeline.place(&mut back, SLICE, false);
            timeline.insert(back);
            let now = timeline.average();
            assert!((now - back.vruntime - lag).abs() <= 1, "{} and {lag}", now - back.vruntime);
        }
    }

    #[test]
    fn who_has_the_cpu_keeps_it_until_its_request_is_served_and_while_it_is_eligible() {
        let mut timeline = of(&[entity(1, 0, 1_000, USUAL)]);
        timeline.begin(entity(2, 0, SLICE as i64, USUAL));
        assert_eq!(timeline.pick(), Next::Current, "its deadline is later, but it is protected");
        timeline.charge(10, SLICE);
        assert_eq!(timeline.pick(), Next::Waiting(TaskId(1), 1_000), "it has had too much");
        let mut alone = Timeline::default();
        alone.begin(entity(2, 0, SLICE as i64, USUAL));
        assert!(!alone.charge(SLICE - 1, SLICE) && alone.is_protected());
        assert!(alone.charge(1, SLICE) && !alone.is_protected());
    }

    #[test]
    fn what_somebody_is_owed_is_bounded() {
        let mut timeline = of(&[entity(1, 0, 9, USUAL), entity(2, 1 << 40, 9, USUAL)]);
        let mut behind = *timeline.get(TaskId(1), 9);
        timeline.update_lag(&mut behind, SLICE, TICK);
        assert_eq!(behind.lag, (SLICE + TICK) as i64);
    }

    #[test]
    fn who_sleeps_on_in_debt_comes_to_be_owed_nothing() {
        let mut timeline = of(&[entity(1, 10_000, 9, USUAL), entity(2, 0, 9, USUAL)]);
        let mut sleeper = Entity { delayed: true, lag: -3_000, ..entity(2, 0, 9, USUAL) };
        timeline.update_lag(&mut sleeper, SLICE, TICK);
        assert_eq!(sleeper.lag, 0);
        let mut sleeper = Entity { delayed: true, lag: -3_000, ..entity(1, 10_000, 9, USUAL) };
        timeline.update_lag(&mut sleeper, SLICE, TICK);
        assert_eq!(sleeper.lag, -3_000, "and owes no more than when it went to sleep");
    }

    #[test]
    fn who_weighs_something_else_is_owed_the_same_time() {
        let mut timeline = of(&[entity(1, 0, 9, USUAL)]);
        timeline.begin(entity(2, 2_000, 10_000, USUAL));
        timeline.reweigh_current(2 * USUAL, SLICE, TICK);
        let current = timeline.current.unwrap();
        assert_eq!((current.vruntime, current.deadline), (1_500, 5_500));
        assert_eq!(timeline.average(), 1_000);
        let mut left = Entity { lag: 100, relative: true, ..entity(3, 0, 60, USUAL) };
        left.reweigh(USUAL / 2);
        assert_eq!((left.lag, left.deadline), (200, 120));
    }

    #[test]
    fn who_gives_way_has_as_much_behind_it_as_after_a_whole_request() {
        let mut timeline = of(&[entity(1, 0, SLICE as i64 + 1, USUAL)]);
        timeline.begin(entity(2, 0, SLICE as i64, USUAL));
        timeline.forfeit(SLICE);
        assert_eq!(timeline.current.unwrap().vruntime, SLICE as i64);
        assert_eq!(timeline.pick(), Next::Waiting(TaskId(1), SLICE as i64 + 1));
        let mut alone = Timeline::default();
        alone.begin(entity(2, 0, SLICE as i64, USUAL));
        alone.forfeit(SLICE);
        assert_eq!(alone.current.unwrap().vruntime, 0);
    }
}

//! Parallel programs in virtual machines. A team of threads computes from barrier to barrier, each
//! on a virtual CPU of its own, which is a task of the host; some barriers end a parallel region. A
//! thread that waits burns its virtual CPU's time or has it sleep. The virtual CPUs of a machine are threads of
//! one process.
//!
//! At the beginning of a region a program may change how many of its threads take part, by what the
//! host tells its machine (`paravirt.rs`). The virtual CPUs of the others sleep meanwhile.

use crate::abi::scx;
use crate::kernel::Kernel;
use crate::operate::{Call, Refused, missing};
use crate::paravirt::Window;
use crate::random::Random;
use crate::span::Span;
use crate::step::{Name, Stage};
use crate::task::TaskId;
use metasched_scenario::shared::TeamSpec;
use std::collections::VecDeque;

/// The median of the weights by which work is divided: any will do that is large beside 1.
const WEIGHT: u64 = 1 << 20;

/// What became of a parallel program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TeamFigures {
    /// When its first region began, ns since the start; all of its threads had come by then.
    pub began_ns: Option<u64>,
    /// When its last region ended, if it did.
    pub ended_ns: Option<u64>,
    /// How many regions are over.
    pub regions: u64,
    /// CPU time of the work that was done, ns.
    pub work_ns: u64,
    /// How many threads took part, from when on, ns; only where that changed.
    pub sizes: Vec<(u64, usize)>,
}

impl TeamFigures {
    /// How long it ran, ns; none where it did not end.
    pub fn ran_ns(&self) -> Option<u64> {
        Some(self.ended_ns? - self.began_ns?)
    }

    /// How many threads took part in the mean by time from `from_ns` to `to_ns`, and none before it
    /// began.
    pub fn mean_size(&self, from_ns: u64, to_ns: u64) -> f64 {
        let ends = self.sizes.iter().skip(1).map(|(at, _)| *at).chain([u64::MAX]);
        let stretches = self.sizes.iter().zip(ends).map(|((begins, size), ends)| {
            let within = ends.min(to_ns).saturating_sub(*begins.max(&from_ns));
            *size as f64 * within as f64
        });
        stretches.sum::<f64>() / (to_ns - from_ns).max(1) as f64
    }
}

/// What follows when all threads have come to a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passed {
    /// A region begins, which is the first one if `first`.
    Region { first: bool },
    /// The region goes on.
    Within,
    /// The program is over.
    Over,
}

/// A parallel program as it goes on.
pub(crate) struct Team {
    spec: TeamSpec,
    /// From which the work between two barriers follows, whatever was drawn for the work before.
    random: Random,
    /// The first of its threads that was born: all are of the process that this one began.
    first: Option<TaskId>,
    /// Its threads' tasks, as far as they have come.
    tasks: Vec<Option<TaskId>>,
    /// How many threads take part: those with the lowest numbers.
    size: usize,
    /// How many of them have come to the barrier.
    arrived: usize,
    /// How many barriers of the region are passed.
    barriers: u64,
    /// What each of those that take part has to do until the next barrier, ns.
    parts: Vec<u64>,
    /// Threads that sleep and are to be woken, by the one that came last to the barrier before.
    waking: VecDeque<usize>,
    /// The last window of what the host tells that was used.
    window: u64,
    pub figures: TeamFigures,
}

impl Team {
    /// Nobody has come yet.
    pub fn of(spec: TeamSpec, random: &mut Random) -> Self {
        Team {
            random: random.branch(),
            first: None,
            tasks: vec![None; spec.threads],
            size: spec.threads,
            arrived: 0,
            barriers: 0,
            parts: Vec::new(),
            waking: VecDeque::new(),
            window: 0,
            figures: TeamFigures::default(),
            spec,
        }
    }

    /// A thread is born: the first one of its process, and how many that has.
    pub fn process(&mut self, thread: TaskId) -> (TaskId, usize) {
        (*self.first.get_or_insert(thread), self.spec.threads)
    }

    /// What a thread has to do until the next barrier, ns, if it takes part.
    fn part(&self, thread: usize) -> Option<u64> {
        self.parts.get(thread).copied()
    }

    fn task(&self, thread: usize) -> TaskId {
        self.tasks[thread].expect("the first region begins when all have come")
    }

    /// A thread comes to the barrier; whether it is the last one.
    fn arrive(&mut self) -> bool {
        self.arrived += 1;
        self.arrived == self.size
    }

    /// All have come.
    fn pass(&mut self, now: u64) -> Passed {
        self.arrived = 0;
        if self.figures.began_ns.is_none() {
            self.figures.began_ns = Some(now);
            return Passed::Region { first: true };
        }
        self.barriers += 1;
        if self.barriers < self.spec.barriers {
            return Passed::Within;
        }
        self.barriers = 0;
        self.figures.regions += 1;
        if self.spec.regions == Some(self.figures.regions) {
            self.figures.ended_ns = Some(now);
            return Passed::Over;
        }
        Passed::Region { first: false }
    }

    /// A region begins; as many threads take part as a window says that was not used yet.
    fn resize(&mut self, now: u64, window: Option<Window>) {
        if let Some(window) = window.filter(|window| window.number > self.window) {
            self.window = window.number;
            let most = self.spec.threads as i64;
            self.size = window.threads(self.size).clamp(1, most) as usize;
        }
        if self.figures.sizes.last().is_none_or(|(_, size)| *size != self.size) {
            self.figures.sizes.push((now, self.size));
        }
    }

    /// Divides the work until the next barrier among those that take part. Not a nanosecond of it
    /// is lost.
    fn share_out(&mut self) {
        let TeamSpec { work, imbalance_thousandths, .. } = self.spec;
        let mut random = self.random.branch();
        let work_ns = work.draw(&mut random);
        let weight =
            Span::LogNormal { median_ns: WEIGHT, sigma_thousandths: imbalance_thousandths };
        let weights: Vec<u64> = match imbalance_thousandths {
            0 => vec![WEIGHT; self.size],
            _ => (0..self.size).map(|_| weight.draw(&mut random).max(1)).collect(),
        };
        let all: u128 = weights.iter().copied().map(u128::from).sum();
        let (mut weighed, mut given) = (0, 0);
        self.parts.clear();
        for weight in weights {
            weighed += u128::from(weight);
            let until = (u128::from(work_ns) * weighed / all) as u64;
            self.parts.push(until - given);
            given = until;
        }
    }
}

impl Kernel {
    /// The task that runs on `cpu` is a thread of a team, and goes on with what that does.
    pub(crate) fn take_part(
        &mut self,
        cpu: usize,
        id: TaskId,
        name: &Name,
        thread: usize,
    ) -> Result<Call, Refused> {
        let team = self.world.teams.get_mut(name).ok_or_else(|| missing("is of team", name))?;
        match self.tasks[id].doing.stage {
            // Nobody needed it meanwhile.
            Stage::Halts => return Ok(Call::Blocks(Stage::Waits)),
            Stage::Wakes => return Ok(self.wake_next(cpu, name, thread)),
            Stage::Works => team.figures.work_ns += team.part(thread).unwrap_or(0),
            _ => team.tasks[thread] = Some(id),
        }
        if team.arrive() {
            return Ok(self.pass_barrier(cpu, id, name, thread));
        }
        Ok(match team.spec.spins {
            true => Call::Spins(u64::MAX),
            false => Call::GoesOn(Stage::Halts, team.spec.halt_ns),
        })
    }

    /// The last thread has come to a barrier: it lets the others go on.
    fn pass_barrier(&mut self, cpu: usize, id: TaskId, name: &Name, me: usize) -> Call {
        let now = self.clock.now;
        let team = self.world.teams.get_mut(name).expect("its thread runs");
        let passed = team.pass(now);
        if let Passed::Region { first: false } | Passed::Over = passed {
            self.tasks[id].doing.done += 1;
        }
        match passed {
            Passed::Over => return self.team_ends(cpu, id, name),
            Passed::Region { .. } => team.resize(now, self.paravirt.last(name, now)),
            Passed::Within => {}
        }
        team.share_out();
        let others = (0..team.spec.threads).filter(|thread| *thread != me);
        let others: Vec<_> =
            others.map(|thread| (thread, team.task(thread), team.part(thread))).collect();
        let halt_ns = team.spec.halt_ns;
        for (thread, task, part) in others {
            match (self.tasks[task].doing.stage, part) {
                (Stage::Spins | Stage::Halts, Some(ns)) => self.let_go(task, Stage::Works, ns),
                (Stage::Spins, None) => self.let_go(task, Stage::Halts, halt_ns),
                (_, None) => {}
                (_, Some(_)) => {
                    let team = self.world.teams.get_mut(name).expect("as above");
                    team.waking.push_back(thread);
                }
            }
        }
        self.goes_on(name, me)
    }

    /// What a thread does that came last, or woke another one: it wakes the next one or begins its
    /// own part.
    fn goes_on(&self, name: &Name, me: usize) -> Call {
        let team = &self.world.teams[name];
        match team.part(me) {
            _ if !team.waking.is_empty() => Call::GoesOn(Stage::Wakes, team.spec.wake_ns),
            Some(ns) => Call::GoesOn(Stage::Works, ns),
            None => Call::GoesOn(Stage::Halts, team.spec.halt_ns),
        }
    }

    fn wake_next(&mut self, cpu: usize, name: &Name, me: usize) -> Call {
        let team = self.world.teams.get_mut(name).expect("its thread runs");
        let thread = team.waking.pop_front().expect("it was seen to be there");
        let (task, part) = (team.task(thread), team.part(thread).unwrap_or(0));
        let resume_ns = team.spec.resume_ns;
        self.tasks[task].doing.stage = Stage::Works;
        self.tasks[task].remaining = resume_ns + part;
        self.wake_up(task, cpu, scx::WAKE_TTWU);
        self.goes_on(name, me)
    }

    /// The program is over, which is one request of its machine's: all threads exit.
    fn team_ends(&mut self, cpu: usize, id: TaskId, name: &Name) -> Call {
        let (now, team) = (self.clock.now, &self.world.teams[name]);
        let others: Vec<TaskId> =
            team.tasks.iter().flatten().copied().filter(|task| *task != id).collect();
        let arrived_ns = team.spec.arrives_ns;
        self.tasks[id].doing.responses_ns.push(now - arrived_ns);
        for task in others {
            match self.tasks[task].doing.stage {
                Stage::Waits => {
                    self.tasks[task].doing.stage = Stage::Fresh;
                    self.wake_up(task, cpu, scx::WAKE_TTWU);
                }
                _ => self.let_go(task, Stage::Fresh, 0),
            }
        }
        let all_ended = self.world.teams.values().all(|team| team.figures.ended_ns.is_some());
        if self.clock.ends_with_teams && all_ended {
            self.clock.ends = now;
        }
        Call::Free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn team(threads: usize, barriers: u64, regions: u64) -> Team {
        let spec = TeamSpec {
            threads,
            regions: Some(regions),
            barriers,
            work: Span::Between(1_000, 1_000_000),
            imbalance_thousandths: 500,
            spins: true,
            halt_ns: 0,
            wake_ns: 0,
            resume_ns: 0,
            adapts_to_ns: Some(100),
            owed: true,
            allowed: None,
            arrives_ns: 0,
        };
        Team::of(spec, &mut Random::new(1))
    }

    #[test]
    fn the_work_is_the_same_however_many_take_part_and_all_of_it_is_given() {
        let work = |size| {
            let mut team = team(7, 1, 1);
            team.size = size;
            let each = |_| {
                team.share_out();
                assert_eq!(team.parts.len(), size);
                team.parts.iter().sum()
            };
            (0..100).map(each).collect::<Vec<u64>>()
        };
        assert_eq!(work(1), work(7));
        assert_eq!(work(3), work(7));
        assert!(work(7).iter().all(|ns| (1_000..=1_000_000).contains(ns)));
    }

    #[test]
    fn parts_are_as_unequal_as_the_file_says() {
        let spread = |imbalance| {
            let mut team = team(100, 1, 1);
            team.spec.imbalance_thousandths = imbalance;
            team.share_out();
            let longest = team.parts.iter().max().unwrap();
            *longest as f64 / (team.parts.iter().sum::<u64>() as f64 / 100.0)
        };
        // The largest of a hundred normal numbers is 2.5 in the mean, give or take 0.4.
        assert!((0.99..1.01).contains(&spread(0)), "{}", spread(0));
        assert!((2.2..6.0).contains(&spread(500)), "{}", spread(500));
    }

    #[test]
    fn regions_have_so_many_barriers_and_the_program_so_many_regions() {
        let mut team = team(2, 3, 2);
        assert_eq!(team.pass(5), Passed::Region { first: true });
        let passed: Vec<Passed> = (6..12).map(|now| team.pass(now)).collect();
        let (within, region) = (Passed::Within, Passed::Region { first: false });
        assert_eq!(passed, [within, within, region, within, within, Passed::Over]);
        assert_eq!(team.figures.ran_ns(), Some(6));
    }

    #[test]
    fn a_window_is_used_once_and_no_team_grows_or_shrinks_beyond_its_bounds() {
        let window = |number, phantoms_ns, idle_ns| {
            Some(Window { number, length_ns: 100, phantoms_ns, idle_ns, ..Window::default() })
        };
        let mut team = team(8, 1, 1);
        for (window, size) in [
            (None, 8),
            (window(1, 300, 0), 5),
            (window(1, 300, 0), 5),
            (window(3, 0, 200), 7),
            (window(4, 0, 900), 8),
            (window(5, 9_000, 0), 1),
        ] {
            team.resize(10 * team.window, window);
            assert_eq!(team.size, size, "{window:?}");
        }
        assert_eq!(team.figures.sizes, [(0, 8), (0, 5), (10, 7), (30, 8), (40, 1)]);
    }

    #[test]
    fn the_mean_size_is_by_time() {
        let sizes = vec![(100, 8), (200, 4), (400, 6)];
        let figures = TeamFigures { sizes, ..TeamFigures::default() };
        assert!((figures.mean_size(0, 100)).abs() < 1e-9);
        assert!((figures.mean_size(100, 200) - 8.0).abs() < 1e-9);
        assert!(
            (figures.mean_size(150, 450) - (8.0 * 50.0 + 4.0 * 200.0 + 6.0 * 50.0) / 300.0).abs()
                < 1e-9
        );
    }
}

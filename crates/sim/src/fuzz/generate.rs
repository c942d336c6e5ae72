//! Cases from seeds. One generator makes all of them: what it draws comes from a stream of
//! its own, so that a run's chance stays the same when its case is made smaller.

use super::theme::{ANYTHING, Kind, Mix, Theme};
use super::{Act, Case, Does, Machine, Task, Timed, When};
use crate::machine::HZ;
use crate::metasched::{LAZY, POLICIES};
use crate::options::options_of;
use crate::random::Random;
use crate::{ms, us};

/// The most applications, so that acts meet on the same ones.
const APPS: u64 = 5;
/// The most cgroups below the root's.
const CGROUPS: u64 = 8;
/// The most tasks to a CPU.
const CROWD: u64 = 4;
/// The most tasks where slices may be as long as options allow.
const LONG_CROWD: u64 = 5;
/// The most acts of one case.
const ACTS: u64 = 60;
/// Acts between two events fall among so many: what some hundred milliseconds have.
const EVENTS: u64 = 6_000;

struct Generator {
    random: Random,
    /// Where system calls come from, in cases that have them.
    calls: Option<Random>,
    machine: Machine,
    cpus: usize,
    cgroups: Vec<String>,
    theme: Theme,
    calm_ns: u64,
    /// When the latest act is, so that others may come at the same moment.
    latest: When,
    /// The least and the greatest weight of tasks.
    weights: (u64, u64),
    longest_slice_ns: u64,
    lazy: bool,
}

/// The case of a seed: always the same.
pub fn generate(seed: u64) -> Case {
    let mut random = Random::new(seed ^ 0xca5e_ca5e);
    // That of two in ten.
    let theme = match random.within(0, Theme::DRAWN as u64) {
        0 => Theme::Anything,
        which => Theme::ALL[which as usize - 1].1,
    };
    generate_from(seed, theme, random)
}

/// The case of a seed that is about one thing.
pub fn generate_about(theme: Theme, seed: u64) -> Case {
    generate_from(seed, theme, Random::new(seed ^ (0x7e3e_0001 + theme as u64)))
}

fn generate_from(seed: u64, theme: Theme, mut random: Random) -> Case {
    let machine = match theme {
        Theme::Quotas => Machine::cpus(random.within(2, 16) as usize),
        // So that more is simulated of what is changed than of what waits for it in the end.
        Theme::Changes => Machine::cpus(random.within(1, 4) as usize),
        _ => machine(&mut random),
    };
    let machine = Machine { hz: hz(seed), ..machine };
    let mut generator = Generator {
        calls: calls(seed, theme),
        cpus: machine.cpus,
        machine,
        cgroups: vec![String::new()],
        theme,
        calm_ns: match theme {
            Theme::Quotas => random.within(ms(10_500), ms(16_000)),
            Theme::Changes => log_within(&mut random, ms(100), ms(10_000)),
            _ => log_within(&mut random, ms(5), ms(1_500)),
        },
        latest: When::At(0),
        weights: if random.once_in(6) { (50, 300) } else { (80, 160) },
        longest_slice_ns: if random.once_in(12) { u64::MAX } else { ms(40) },
        lazy: random.once_in(4),
        random,
    };
    generator.case(seed)
}

/// Few CPUs more often than many, all alike or with cores, caches and nodes.
fn machine(random: &mut Random) -> Machine {
    let cpus = match random.within(0, 9) {
        0 => 1,
        1..=6 => random.within(1, 4),
        7 | 8 => random.within(2, 16),
        _ => random.within(8, 40),
    } as usize;
    if !random.once_in(3) {
        return Machine::cpus(cpus);
    }
    let smt = random.once_in(2);
    let (llcs, nodes) = *pick(random, &[(1, 1), (2, 1), (2, 2), (4, 2)]);
    let least = if smt { 2 * llcs } else { llcs };
    Machine { llcs, nodes, smt, ..Machine::cpus(cpus.next_multiple_of(least)) }
}

/// The tick that distributions have had, half of the time that of today. Drawn by itself, so that it
/// changes nothing else of a seed.
fn hz(seed: u64) -> u32 {
    *pick(&mut Random::new(seed ^ 0x71c4), &[HZ, HZ, HZ, 100, 300, 1_000])
}

/// Whether tasks make system calls, more often where quotas may end them. Drawn by itself too.
fn calls(seed: u64, theme: Theme) -> Option<Random> {
    let mut random = Random::new(seed ^ 0x5ca1_1000);
    let once_in = match theme {
        Theme::Changes => 1,
        Theme::Quotas | Theme::Limits => 2,
        _ => 4,
    };
    random.once_in(once_in).then_some(random)
}

fn pick<'a, T>(random: &mut Random, of: &'a [T]) -> &'a T {
    &of[random.within(0, of.len() as u64 - 1) as usize]
}

/// One kind of act, as often as its weight says.
fn kind_of(mix: Mix, random: &mut Random) -> Kind {
    let mut at = random.within(0, mix.iter().map(|(_, weight)| weight).sum::<u64>() - 1);
    for (kind, weight) in mix {
        match at.checked_sub(*weight) {
            Some(rest) => at = rest,
            None => return *kind,
        }
    }
    unreachable!("what was drawn is less than the sum of the weights")
}

/// Between both, each order of magnitude as likely as any other.
fn log_within(random: &mut Random, low: u64, high: u64) -> u64 {
    let doublings = u64::from((high / low.max(1)).max(1).ilog2());
    let scale = random.within(0, doublings);
    let from = low.max(1) << scale;
    random.within(from, (2 * from).min(high).max(from)).clamp(low, high)
}

/// What a task does, with system calls: it sleeps in one, and computes in some. One that never
/// sleeps has many. With guests some of those are a virtual CPU's.
fn with_calls(does: Vec<Does>, random: &mut Random, guests: bool) -> Vec<Does> {
    let short = || Does::Run(us(1), us(50));
    let mut changed = Vec::new();
    for does in does {
        match does {
            Does::Sleep(..) => changed.push(Does::Call(vec![short(), does, short()])),
            Does::Run(low, high) => {
                let high = high.min(ms(30));
                changed.push(Does::Run(low.min(high / 2), high));
                if random.once_in(2) {
                    let most = log_within(random, us(2), ms(30));
                    let run = Does::Run(us(1), most);
                    changed.push(Does::Call(match guests && random.once_in(3) {
                        true => vec![run.clone(), Does::Guest, run],
                        false => vec![run],
                    }));
                }
            }
            other => changed.push(other),
        }
    }
    changed
}

/// A task that ends does so soon: each of its runs is 30 ms at most.
fn run_shortly(does: &mut [Does]) {
    for does in does {
        if let Does::Run(low, high) = does {
            (*low, *high) = ((*low).min(ms(30)), (*high).min(ms(30)));
        }
    }
}

impl Generator {
    fn case(&mut self, seed: u64) -> Case {
        self.make_cgroups();
        // Waiting behind whole seconds takes long, also here.
        let most = if self.longest_slice_ns == u64::MAX { LONG_CROWD } else { u64::MAX };
        let crowd = self.random.within(1, most.min(CROWD * self.cpus as u64));
        let tasks: Vec<Task> = (0..crowd).map(|_| self.task(true)).collect();
        let mut acts: Vec<Timed> = Vec::new();
        if self.theme != Theme::Root && self.random.once_in(2) {
            // Most faults need lanes to be there.
            for app in 1..=self.random.within(1, APPS) as u32 {
                acts.push(Timed { when: When::At(0), act: self.set_app(app) });
                let cgroup = self.cgroup();
                acts.push(Timed { when: When::At(1), act: Act::Assign { cgroup, app } });
            }
        }
        let nr_acts = match self.theme {
            Theme::Changes => self.random.within(ACTS / 3, 5 * ACTS),
            _ => log_within(&mut self.random, 1, ACTS),
        };
        for _ in 0..nr_acts {
            let when = self.moment();
            let act = self.act();
            // Where several are done at once a task often changes hands in between.
            let assigned = match act {
                Act::SetApp { app, .. } if self.random.once_in(2) => Some(app),
                _ => None,
            };
            acts.push(Timed { when, act });
            if let Some(app) = assigned {
                let cgroup = self.cgroup();
                acts.push(Timed { when: self.moment(), act: Act::Assign { cgroup, app } });
            }
        }
        // Late, early, often or never.
        for _ in 0..self.random.within(0, acts.len() as u64) {
            acts.push(Timed { when: self.moment(), act: Act::Reap });
        }
        if self.random.once_in(12) {
            acts.push(Timed { when: self.moment(), act: Act::Detach });
            if self.random.once_in(2) {
                let policy = self.honest_policy();
                acts.push(Timed { when: self.moment(), act: Act::Load { policy } });
            }
        }
        Case {
            broke: String::new(),
            seed,
            machine: self.machine.clone(),
            root: self.honest_policy(),
            tasks,
            acts,
            calm_ns: self.calm_ns,
            reaps: !self.random.once_in(6),
            bound_ns: None,
        }
    }

    /// A tree: each below any that is there, so some are deep.
    fn make_cgroups(&mut self) {
        let deep = self.random.once_in(8);
        for i in 0..self.random.within(1, CGROUPS) {
            let above = match deep {
                true => self.cgroups.last().expect("the root's is there").clone(),
                false => pick(&mut self.random, &self.cgroups).clone(),
            };
            let name = format!("c{i}");
            let path = if above.is_empty() { name } else { format!("{above}/{name}") };
            self.cgroups.push(path);
        }
    }

    /// Any but the root's, which has neither weight nor limit.
    fn cgroup(&mut self) -> String {
        let at = self.random.within(1, self.cgroups.len() as u64 - 1) as usize;
        self.cgroups[at].clone()
    }

    fn honest_policy(&mut self) -> String {
        (*pick(&mut self.random, POLICIES)).to_owned()
    }

    fn policy(&mut self) -> String {
        if self.lazy && self.random.once_in(4) {
            return LAZY.to_owned();
        }
        self.honest_policy()
    }

    fn task_weight(&mut self) -> u32 {
        self.random.within(self.weights.0, self.weights.1) as u32
    }

    fn lane_weight(&mut self) -> u32 {
        match self.random.within(0, 3) {
            0 | 1 => 100,
            2 => self.random.within(50, 400) as u32,
            _ => log_within(&mut self.random, 1, 10_000) as u32,
        }
    }

    /// Some of the CPUs, or one, or none: all of them.
    fn some_cpus(&mut self) -> Vec<usize> {
        let last = self.cpus as u64 - 1;
        match self.random.within(0, 5) {
            0 => vec![self.random.within(0, last) as usize],
            1 => {
                let low = self.random.within(0, last);
                (low as usize..=self.random.within(low, last) as usize).collect()
            }
            2 => (0..self.cpus).filter(|_| self.random.once_in(2)).collect(),
            _ => Vec::new(),
        }
    }

    fn task(&mut self, may_fork: bool) -> Task {
        let mut task = self.task_without_calls(may_fork);
        if let Some(calls) = &mut self.calls
            && !task.kthread
            && !calls.once_in(4)
        {
            task.does = with_calls(task.does, calls, self.theme == Theme::Changes);
        }
        task
    }

    fn task_without_calls(&mut self, may_fork: bool) -> Task {
        let mut task = Task {
            cgroup: pick(&mut self.random, &self.cgroups).clone(),
            weight: self.task_weight(),
            cpus: self.some_cpus(),
            arrives_ns: self.random.within(0, ms(50)),
            kthread: false,
            rounds: None,
            does: Vec::new(),
        };
        let shares = self.theme == Theme::Shares;
        let random = &mut self.random;
        match random.within(0, 9) {
            // Always busy.
            0..=6 if self.theme == Theme::Quotas => task.does.push(Does::Run(ms(1_000), ms(1_000))),
            7..=9 if shares => task.does.push(Does::Run(ms(1_000), ms(1_000))),
            0..=2 => task.does.push(Does::Run(ms(1_000), ms(1_000))),
            // A service.
            3 | 4 => task.does.extend([
                Does::Run(us(10), log_within(random, us(20), ms(3))),
                Does::Sleep(us(50), log_within(random, us(100), ms(20))),
            ]),
            // A thread of the kernel's: they serve all lanes, and run shortly.
            5 if random.once_in(2) => {
                task.kthread = true;
                task.cgroup = String::new();
                task.does.extend([Does::Run(us(5), us(300)), Does::Sleep(ms(3), ms(12))]);
            }
            // What comes and goes.
            _ => {
                for _ in 0..random.within(1, 4) {
                    task.does.push(Does::Run(us(1), log_within(random, us(2), ms(30))));
                    match random.within(0, 4) {
                        0..=2 => {
                            task.does.push(Does::Sleep(us(1), log_within(random, us(100), ms(20))))
                        }
                        3 => task.does.push(Does::Yield),
                        _ => {}
                    }
                }
                if !random.once_in(3) {
                    task.rounds = Some(random.within(1, 20));
                }
            }
        }
        if may_fork && !task.kthread && self.random.once_in(8) {
            let mut child = self.task(false);
            child.kthread = false;
            child.rounds = Some(self.random.within(1, 3));
            run_shortly(&mut child.does);
            task.does.insert(0, Does::Fork(Box::new(child)));
            task.rounds = Some(self.random.within(1, 3));
            run_shortly(&mut task.does);
        }
        task
    }

    /// Any time, one when ticks and sweeps come, the time of another act, or a gap between
    /// two events.
    fn moment(&mut self) -> When {
        // What is set then has to hold for long.
        let most_ns = if self.theme == Theme::Quotas { ms(500) } else { u64::MAX };
        let (calm_ns, tick_ns) = (self.calm_ns.min(most_ns), self.machine.modelled().tick_ns());
        let random = &mut self.random;
        let when = match random.within(0, 9) {
            0..=3 => When::At(random.within(0, calm_ns)),
            4 => When::At(random.within(0, calm_ns) / tick_ns * tick_ns),
            5 => When::At(random.within(0, calm_ns) / tick_ns * tick_ns + random.within(1, us(3))),
            6 => match self.latest {
                When::At(ns) => When::At(ns + random.within(0, us(3))),
                When::After(events) => When::After(events + random.within(0, 4)),
            },
            _ => When::After(log_within(random, 1, EVENTS)),
        };
        self.latest = when;
        when
    }

    fn option_value(&mut self, policy: &str, index: usize) -> Option<u64> {
        let option = options_of(policy).get(index)?;
        let high = option.most.min(self.longest_slice_ns).max(option.least);
        Some(log_within(&mut self.random, option.least, high))
    }

    fn set_app(&mut self, app: u32) -> Act {
        let policy = self.policy();
        let mut options = Vec::new();
        if self.random.once_in(2) {
            let declared = options_of(&policy).len();
            options = (0..declared).filter_map(|i| self.option_value(&policy, i)).collect();
        }
        Act::SetApp { app, policy, weight: self.lane_weight(), options }
    }

    /// An option's value, for whatever policy the lane has: one that each of them may have.
    fn lane_option(&mut self, app: u32) -> Act {
        let all: Vec<(&str, usize)> = POLICIES
            .iter()
            .flat_map(|policy| (0..options_of(policy).len()).map(|option| (*policy, option)))
            .collect();
        let (policy, option) = *pick(&mut self.random, &all);
        let value = self.option_value(policy, option).expect("it was found there");
        Act::LaneOption { app, option, value }
    }

    fn limit(&mut self) -> Act {
        let cgroup = self.cgroup();
        let random = &mut self.random;
        let longest_us = match self.theme {
            Theme::Quotas | Theme::Changes => 1_000_000,
            _ => 100_000,
        };
        let period_us = log_within(random, 1_000, longest_us);
        let (least_us, most_us) = match self.theme {
            Theme::Quotas => (1_000, (period_us / 100).max(1_000)),
            Theme::Changes => (1_000, 2 * period_us),
            _ => ((period_us / 50).max(1_000), 2 * period_us),
        };
        let quota_us = log_within(random, least_us, most_us);
        let burst_us = if random.once_in(3) { random.within(0, quota_us) } else { 0 };
        let quota_us = (!random.once_in(5)).then_some(quota_us);
        Act::CgroupMax { cgroup, period_us, quota_us, burst_us }
    }

    fn turns(&mut self) -> Act {
        let long = self.random.once_in(5);
        let turns = (0..self.random.within(1, 4))
            .map(|_| {
                let ns = match long {
                    true => log_within(&mut self.random, ms(50), ms(300)),
                    false => log_within(&mut self.random, us(100), ms(8)),
                };
                (self.honest_policy(), ns)
            })
            .collect();
        Act::StartTurns { turns }
    }

    fn act(&mut self) -> Act {
        let app = self.random.within(1, APPS) as u32;
        let task = self.random.within(0, 200);
        let of_theme = self.random.within(0, 2) > 0;
        let mix = if of_theme || self.theme == Theme::Root { self.theme.mix() } else { ANYTHING };
        match kind_of(mix, &mut self.random) {
            Kind::SetApp => self.set_app(app),
            Kind::DropApp => Act::DropApp { app },
            Kind::Assign => Act::Assign { cgroup: self.cgroup(), app },
            Kind::Unassign => Act::Unassign { cgroup: self.cgroup() },
            Kind::LaneWeight => Act::LaneWeight { app, weight: self.lane_weight() },
            Kind::LaneOption => {
                let app = if self.random.once_in(4) { 0 } else { app };
                self.lane_option(app)
            }
            Kind::ReplaceRoot => Act::ReplaceRoot { policy: self.honest_policy() },
            Kind::StartTurns => self.turns(),
            Kind::StopTurns => Act::StopTurns,
            Kind::Affinity => {
                let cpus = match self.some_cpus() {
                    none if none.is_empty() => (0..self.cpus).collect(),
                    some => some,
                };
                Act::Affinity { task, cpus }
            }
            Kind::TaskWeight => Act::TaskWeight { task, weight: self.task_weight() },
            Kind::MoveTask => {
                let cgroup = pick(&mut self.random, &self.cgroups).clone();
                Act::MoveTask { task, cgroup }
            }
            Kind::CgroupShare => {
                let (cgroup, idle) = (self.cgroup(), self.random.once_in(2));
                match self.random.once_in(2) {
                    true => Act::CgroupIdle { cgroup, idle },
                    false => Act::CgroupWeight { cgroup, weight: self.lane_weight() },
                }
            }
            Kind::CgroupMax => self.limit(),
            Kind::RemoveCgroup => Act::RemoveCgroup { cgroup: self.cgroup() },
            Kind::CpuOff => Act::CpuOff { cpu: self.any_cpu() },
            Kind::CpuOn => Act::CpuOn { cpu: self.any_cpu() },
            Kind::Detach => Act::Detach,
            Kind::Load => Act::Load { policy: self.honest_policy() },
        }
    }

    fn any_cpu(&mut self) -> usize {
        self.random.within(0, self.cpus as u64 - 1) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_case() {
        assert_eq!(generate(7), generate(7));
        assert_ne!(generate(7), generate(8));
    }

    #[test]
    fn a_theme_that_is_asked_for_is_kept_to() {
        for case in (1..50).map(|seed| generate_about(Theme::Root, seed)) {
            let of_apps = |timed: &Timed| {
                let text = format!("{:?}", timed.act);
                text.contains("app") || text.contains("StartTurns")
            };
            assert!(!case.acts.iter().any(of_apps), "{case:?}");
        }
        let hotplug: Vec<Case> = (1..20).map(|seed| generate_about(Theme::Hotplug, seed)).collect();
        assert!(format!("{hotplug:?}").matches("CpuOff").count() > 20);
        let changes: Vec<Case> = (1..20).map(|seed| generate_about(Theme::Changes, seed)).collect();
        let changes = format!("{changes:?}");
        assert!(changes.matches("CgroupMax").count() > 500 && changes.contains("Guest"));
    }

    #[test]
    fn every_kind_of_act_and_task_comes() {
        let cases: Vec<Case> = (1..=300).map(generate).collect();
        let text = format!("{cases:?}");
        for kind in [
            "ReplaceRoot",
            "SetApp",
            "DropApp",
            "Assign",
            "Unassign",
            "LaneWeight",
            "LaneOption",
            "Reap",
            "StartTurns",
            "StopTurns",
            "MoveTask",
            "TaskWeight",
            "Affinity",
            "CgroupWeight",
            "CgroupIdle",
            "CgroupMax",
            "RemoveCgroup",
            "Detach",
            "Load",
            "CpuOff",
            "CpuOn",
            "smt: true",
            "hz: 100 }",
            "hz: 1000 }",
            "Fork",
            "Yield",
            "Call(",
            "kthread: true",
            "After(",
            LAZY,
        ] {
            assert!(text.contains(kind), "'{kind}' never comes");
        }
    }

    #[test]
    fn options_take_values_over_their_whole_range() {
        let mut values = Vec::new();
        for case in (1..=3_000).map(generate) {
            for timed in case.acts {
                if let Act::SetApp { options, .. } = timed.act {
                    values.extend(options);
                }
            }
        }
        let option = &options_of(POLICIES[0])[0];
        let (low, high) = (values.iter().min().unwrap(), values.iter().max().unwrap());
        assert!(*low < 2 * option.least && *high > option.most / 2, "{low} to {high}");
    }
}

//! What a host tells its virtual machines of CPUs, as `include/metasched_paravirt.h` has it: over
//! windows of so long, how many of a machine's virtual CPUs were runnable and did not run
//! (*phantoms*), how many of the CPUs that it may use had nothing to do, and how many others hold
//! that are owed to it by its fair share. It is read from the stream of events, as the host's
//! observer reads it from tracepoints.

use crate::abi::CpuMask;
use crate::idle_cpus::IdleCpus;
use crate::step::Name;
use crate::task::TaskId;
use crate::trace::{Observed, What};
use metasched_abi::WEIGHT_DFL;
use metasched_scenario::shared::{SharedSpec, TeamSpec};
use metasched_stats::{Claim, FairShares, Had, parts_by_cgroup};
use std::collections::BTreeMap;

/// A window that is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    /// Windows are numbered from 1 on, since the start of the run.
    pub number: u64,
    /// How long it was, ns.
    pub length_ns: u64,
    /// For how long virtual CPUs waited for a CPU, ns; that of several adds up.
    pub phantoms_ns: u64,
    /// For how long CPUs had nothing to do, ns; likewise.
    pub idle_ns: u64,
    /// For how long virtual CPUs ran, ns; likewise.
    pub used_ns: u64,
    /// The CPUs that are owed to it, over the time, ns.
    pub owed_ns: u64,
    /// The CPUs that it owes to others, likewise.
    pub owing_ns: u64,
}

impl Window {
    fn of(number: u64, length_ns: u64) -> Self {
        Window { number, length_ns, ..Window::default() }
    }

    /// How many threads a program is to have that had so many: as many fewer as virtual CPUs waited
    /// in the mean or it owes CPUs, and as many more as CPUs had nothing to do or are owed to it.
    pub fn threads(&self, before: usize) -> i64 {
        let sum = |ns: u64| i128::from(ns);
        let change =
            sum(self.idle_ns) + sum(self.owed_ns) - sum(self.owing_ns) - sum(self.phantoms_ns);
        let length = sum(self.length_ns);
        let whole = (change.abs() + length / 2) / length * change.signum();
        before as i64 + whole as i64
    }
}

/// The machines that are told.
#[derive(Default)]
pub(crate) struct Paravirt {
    machines: Vec<Told>,
    /// Of which machine each task is a virtual CPU, by the task's number, and what it does.
    vcpus: Vec<Option<Vcpu>>,
    idle: IdleCpus,
    /// `cpu.weight` of cgroups, by their paths, where it was written.
    weights: BTreeMap<String, u32>,
    /// How CPUs are divided among the machines; none before it is asked for, or where that may have
    /// changed.
    shares: Option<FairShares>,
}

#[derive(Clone)]
struct Vcpu {
    machine: usize,
    does: Does,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Sleeps,
    Waits,
    Runs,
}

/// A machine that is told.
struct Told {
    name: Name,
    cpus: CpuMask,
    /// How many virtual CPUs it has.
    vcpus: usize,
    /// Whether it is told what is owed to it and what it owes.
    owed: bool,
    /// The cgroup of its virtual CPUs.
    cgroup: String,
    phantoms: u64,
    used: u64,
    idle: u64,
    /// Up to when time has been counted.
    counted_until: u64,
    /// The window that is not over yet, as far as it has come.
    present: Window,
    /// The last one that is over.
    last: Option<Window>,
}

impl Told {
    fn new(name: &Name, team: &TeamSpec, window_ns: u64, cpus: CpuMask) -> Self {
        Told {
            name: name.clone(),
            cpus,
            vcpus: team.threads,
            owed: team.owed,
            cgroup: String::new(),
            phantoms: 0,
            used: 0,
            idle: 0,
            counted_until: 0,
            present: Window::of(1, window_ns),
            last: None,
        }
    }

    /// Time has passed in which nothing changed.
    fn count(&mut self, now: u64) {
        loop {
            let ends = self.present.number * self.present.length_ns;
            let until = now.min(ends);
            self.present.phantoms_ns += self.phantoms * (until - self.counted_until);
            self.present.used_ns += self.used * (until - self.counted_until);
            self.present.idle_ns += self.idle * (until - self.counted_until);
            self.counted_until = until;
            if now < ends {
                return;
            }
            let Window { number, length_ns, .. } = self.present;
            self.last = Some(self.present);
            self.present = Window::of(number + 1, length_ns);
        }
    }
}

impl Paravirt {
    /// The machines of all teams that adapt; `all` are the host's CPUs.
    pub fn of(spec: &SharedSpec, all: &CpuMask) -> Self {
        let machines = spec.teams.iter().filter_map(|(name, team)| {
            let cpus = team.allowed.map_or(*all, |allowed| allowed.and(all));
            Some(Told::new(name, team, team.adapts_to_ns?, cpus))
        });
        Paravirt { machines: machines.collect(), ..Paravirt::default() }
    }

    /// A task is a virtual CPU of a machine, in that cgroup.
    pub fn born(&mut self, machine: &Name, task: TaskId, cgroup: &str) {
        let Some(machine) = self.machines.iter().position(|told| told.name == *machine) else {
            return;
        };
        if self.vcpus.len() <= task.0 {
            self.vcpus.resize(task.0 + 1, None);
        }
        self.vcpus[task.0] = Some(Vcpu { machine, does: Does::Sleeps });
        self.moved(task, cgroup);
    }

    /// A task is in that cgroup from now on.
    pub fn moved(&mut self, task: TaskId, cgroup: &str) {
        if let Some(Some(vcpu)) = self.vcpus.get(task.0) {
            cgroup.clone_into(&mut self.machines[vcpu.machine].cgroup);
            self.shares = None;
        }
    }

    /// `cpu.weight` of a cgroup is written.
    pub fn weighs(&mut self, cgroup: &str, weight: u32) {
        self.weights.insert(cgroup.to_owned(), weight);
        self.shares = None;
    }

    /// The last window of a machine that is over at `now`.
    pub fn last(&mut self, machine: &Name, now: u64) -> Option<Window> {
        let at = self.machines.iter().position(|told| told.name == *machine)?;
        self.machines.iter_mut().for_each(|told| told.count(now));
        let last = self.machines[at].last?;
        if self.machines.len() == 1 || !self.machines[at].owed {
            return Some(last);
        }
        // Windows of all machines that have the same length have ended at the same time.
        let had = self.machines.iter().map(|told| {
            let window = told.last.unwrap_or(Window::of(0, 1));
            let mean = |ns: u64| ns as f64 / window.length_ns as f64;
            Had {
                used: mean(window.used_ns),
                idle: mean(window.idle_ns),
                phantoms: mean(window.phantoms_ns),
            }
        });
        let had: Vec<Had> = had.collect();
        let debt = self.shares().debts(&had)[at];
        let ns = |cpus: f64| (cpus * last.length_ns as f64).round() as u64;
        Some(Window { owed_ns: ns(debt.owed), owing_ns: ns(debt.owing), ..last })
    }

    /// How CPUs are divided among the machines: by the weights of their cgroups.
    fn shares(&mut self) -> &FairShares {
        let (machines, weights) = (&self.machines, &self.weights);
        self.shares.get_or_insert_with(|| {
            let line = |told: &Told| {
                let ends = told.cgroup.match_indices('/').map(|(at, _)| at);
                let ends = ends.chain((!told.cgroup.is_empty()).then_some(told.cgroup.len()));
                let level = |end: usize| {
                    let path = &told.cgroup[..end];
                    (path.to_owned(), weights.get(path).copied().unwrap_or(WEIGHT_DFL))
                };
                ends.map(level).collect::<Vec<_>>()
            };
            let parts = parts_by_cgroup(&machines.iter().map(line).collect::<Vec<_>>());
            let claim = |(told, weight): (&Told, f64)| Claim {
                cpus: told.cpus.iter().map(|cpu| cpu as u32).collect(),
                weight,
                most: told.vcpus as f64,
            };
            FairShares::of(machines.iter().zip(parts).map(claim).collect())
        })
    }

    /// Takes an event in.
    #[inline]
    pub fn observe(&mut self, event: &Observed) {
        if !self.machines.is_empty() {
            self.follow(event);
        }
    }

    fn follow(&mut self, event: &Observed) {
        if self.idle.observe(event) {
            for told in &mut self.machines {
                told.count(event.at);
                told.idle = self.idle.now().and(&told.cpus).count() as u64;
            }
        }
        let Some(vcpu) = event.task.and_then(|task| self.vcpus.get_mut(task.0)?.as_mut()) else {
            return;
        };
        let told = &mut self.machines[vcpu.machine];
        let does = match &event.what {
            What::Wake | What::Stop { runnable: true } => Does::Waits,
            What::Start => Does::Runs,
            What::Stop { runnable: false } | What::Exit => Does::Sleeps,
            What::Allowed(cpus) => {
                told.count(event.at);
                told.cpus = **cpus;
                told.idle = self.idle.now().and(&told.cpus).count() as u64;
                self.shares = None;
                return;
            }
            _ => return,
        };
        let did = std::mem::replace(&mut vcpu.does, does);
        if did != does {
            told.count(event.at);
            match did {
                Does::Waits => told.phantoms -= 1,
                Does::Runs => told.used -= 1,
                Does::Sleeps => {}
            }
            match does {
                Does::Waits => told.phantoms += 1,
                Does::Runs => told.used += 1,
                Does::Sleeps => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::testing::event;
    use metasched_scenario::shared::TeamSpec;
    use metasched_scenario::span::Span;

    const NAME: &str = "vm";
    const MS: u64 = 1_000_000;

    /// A program of two threads, which may use `cpus`.
    fn team(cpus: &[usize]) -> TeamSpec {
        TeamSpec {
            threads: 2,
            regions: None,
            barriers: 1,
            work: Span::Exactly(1),
            imbalance_thousandths: 0,
            spins: true,
            halt_ns: 0,
            wake_ns: 0,
            resume_ns: 0,
            adapts_to_ns: Some(4 * MS),
            owed: true,
            allowed: Some(cpus.iter().copied().collect()),
            arrives_ns: 0,
        }
    }

    /// Two CPUs, of which the machine may use `cpus`; its virtual CPUs are the tasks 0 and 1.
    fn told(cpus: &[usize]) -> Paravirt {
        let mut spec = SharedSpec::default();
        spec.teams.insert(NAME.into(), team(cpus));
        let mut paravirt = Paravirt::of(&spec, &CpuMask::first(2));
        for task in 0..2 {
            paravirt.born(&NAME.into(), TaskId(task), "vm");
        }
        for cpu in 0..2 {
            paravirt.observe(&event((0, cpu, 0, What::Idle)));
        }
        paravirt
    }

    fn last(paravirt: &mut Paravirt, now: u64) -> Option<(u64, u64, u64)> {
        let last = paravirt.last(&NAME.into(), now);
        last.map(|window| (window.number, window.phantoms_ns, window.idle_ns))
    }

    #[test]
    fn a_window_has_the_means_by_time_to_the_nanosecond() {
        let mut paravirt = told(&[0, 1]);
        // Another's task changes nothing but that its CPU is busy.
        for (at, cpu, task, what) in [
            (MS, 0, 0, What::Wake),
            (MS + 300, 0, 0, What::Busy),
            (MS + 300, 0, 0, What::Start),
            (2 * MS, 0, 0, What::Stop { runnable: true }),
            (2 * MS, 0, 7, What::Start),
            (3 * MS, 0, 7, What::Stop { runnable: false }),
            (3 * MS, 0, 0, What::Start),
        ] {
            paravirt.observe(&event((at, cpu, task, what)));
        }
        assert_eq!(last(&mut paravirt, 4 * MS - 1), None);
        let idle_ns = MS + 300 + 4 * MS;
        assert_eq!(last(&mut paravirt, 4 * MS), Some((1, MS + 300, idle_ns)));
        // Nothing happened in the next two.
        assert_eq!(last(&mut paravirt, 13 * MS), Some((3, 0, 4 * MS)));
    }

    #[test]
    fn a_cpu_that_the_machine_may_not_use_is_none_of_its_idle_ones() {
        let mut paravirt = told(&[1]);
        assert_eq!(last(&mut paravirt, 4 * MS), Some((1, 0, 4 * MS)));
        let nowhere = What::Allowed(CpuMask::one(0).into());
        paravirt.observe(&event((4 * MS, 0, 0, nowhere)));
        paravirt.observe(&event((6 * MS, 0, 7, What::Start)));
        assert_eq!(last(&mut paravirt, 8 * MS), Some((2, 0, 2 * MS)));
    }

    #[test]
    fn who_has_less_than_his_share_is_owed_what_the_other_one_holds() {
        let mut paravirt = told(&[0, 1]);
        let mut other = Told::new(&"other".into(), &team(&[0, 1]), 4 * MS, CpuMask::first(2));
        other.idle = 2;
        paravirt.machines.push(other);
        for task in 2..4 {
            paravirt.born(&"other".into(), TaskId(task), "g/other");
        }
        for (cpu, task, what) in [
            (0, 0, What::Busy),
            (0, 0, What::Start),
            (1, 1, What::Busy),
            (1, 1, What::Start),
            (0, 2, What::Wake),
            (1, 3, What::Wake),
        ] {
            paravirt.observe(&event((0, cpu, task, what)));
        }
        let mut owed = |now, machine: &str| {
            let last = paravirt.last(&machine.into(), now).unwrap();
            (last.phantoms_ns, last.owed_ns, last.owing_ns)
        };
        assert_eq!(owed(4 * MS, NAME), (0, 0, 4 * MS));
        assert_eq!(owed(4 * MS, "other"), (8 * MS, 4 * MS, 0));
        paravirt.weighs("g", 300);
        let last = paravirt.last(&"other".into(), 8 * MS).unwrap();
        assert_eq!(last.owed_ns, 6 * MS, "of two CPUs three quarters are its");
        assert_eq!(last.threads(4), 3, "its phantoms are owed to it, but for half of one");
        paravirt.moved(TaskId(2), "h");
        assert_eq!(paravirt.last(&"other".into(), 8 * MS).unwrap().owed_ns, 4 * MS);
        paravirt.machines[1].owed = false;
        assert_eq!(paravirt.last(&"other".into(), 8 * MS).unwrap().owed_ns, 0);
    }

    #[test]
    fn the_number_of_threads_is_rounded_to_the_nearest() {
        let threads = |phantoms_ns, idle_ns| {
            Window { number: 1, length_ns: 100, phantoms_ns, idle_ns, ..Window::default() }
                .threads(8)
        };
        assert_eq!(threads(0, 0), 8);
        assert_eq!((threads(49, 0), threads(51, 0)), (8, 7));
        assert_eq!((threads(0, 49), threads(0, 51)), (8, 9));
        assert_eq!(threads(1_800, 0), -10);
    }
}

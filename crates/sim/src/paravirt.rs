//! What a host tells its virtual machines of CPUs, as `include/metasched_paravirt.h` has it: over
//! windows of so long, how many of a machine's virtual CPUs were runnable and did not run
//! (*phantoms*), and how many of the CPUs that it may use had nothing to do. It is read from the
//! stream of events, as the host's observer reads it from tracepoints.

use crate::abi::CpuMask;
use crate::idle_cpus::IdleCpus;
use crate::step::Name;
use crate::task::TaskId;
use crate::trace::{Observed, What};
use metasched_scenario::shared::SharedSpec;

/// A window that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Windows are numbered from 1 on, since the start of the run.
    pub number: u64,
    /// How long it was, ns.
    pub length_ns: u64,
    /// For how long virtual CPUs waited for a CPU, ns; that of several adds up.
    pub phantoms_ns: u64,
    /// For how long CPUs had nothing to do, ns; likewise.
    pub idle_ns: u64,
}

impl Window {
    /// How many threads a program is to have that had so many: as many fewer as virtual CPUs waited
    /// in the mean, and as many more as CPUs had nothing to do.
    pub fn threads(&self, before: usize) -> i64 {
        let sum = |ns: u64| i128::from(ns);
        let change = sum(self.idle_ns) - sum(self.phantoms_ns);
        let length = sum(self.length_ns);
        before as i64 + (change + length / 2).div_euclid(length) as i64
    }
}

/// The machines that are told.
#[derive(Default)]
pub(crate) struct Paravirt {
    machines: Vec<Told>,
    /// Of which machine each task is a virtual CPU, by the task's number, and whether it waits.
    vcpus: Vec<Option<Vcpu>>,
    idle: IdleCpus,
}

#[derive(Clone)]
struct Vcpu {
    machine: usize,
    waits: bool,
}

/// A machine that is told.
struct Told {
    name: Name,
    cpus: CpuMask,
    phantoms: u64,
    idle: u64,
    /// Up to when time has been counted.
    counted_until: u64,
    /// The window that is not over yet, as far as it has come.
    present: Window,
    /// The last one that is over.
    last: Option<Window>,
}

impl Told {
    fn new(name: &Name, window_ns: u64, cpus: CpuMask) -> Self {
        let present = Window { number: 1, length_ns: window_ns, phantoms_ns: 0, idle_ns: 0 };
        Told {
            name: name.clone(),
            cpus,
            phantoms: 0,
            idle: 0,
            counted_until: 0,
            present,
            last: None,
        }
    }

    /// Time has passed in which nothing changed.
    fn count(&mut self, now: u64) {
        loop {
            let ends = self.present.number * self.present.length_ns;
            let until = now.min(ends);
            self.present.phantoms_ns += self.phantoms * (until - self.counted_until);
            self.present.idle_ns += self.idle * (until - self.counted_until);
            self.counted_until = until;
            if now < ends {
                return;
            }
            let Window { number, length_ns, .. } = self.present;
            self.last = Some(self.present);
            self.present = Window { number: number + 1, length_ns, phantoms_ns: 0, idle_ns: 0 };
        }
    }
}

impl Paravirt {
    /// The machines of all teams that adapt; `all` are the host's CPUs.
    pub fn of(spec: &SharedSpec, all: &CpuMask) -> Self {
        let machines = spec.teams.iter().filter_map(|(name, team)| {
            let cpus = team.allowed.map_or(*all, |allowed| allowed.and(all));
            Some(Told::new(name, team.adapts_to_ns?, cpus))
        });
        Paravirt { machines: machines.collect(), ..Paravirt::default() }
    }

    /// A task is a virtual CPU of a machine.
    pub fn born(&mut self, machine: &Name, task: TaskId) {
        let Some(machine) = self.machines.iter().position(|told| told.name == *machine) else {
            return;
        };
        if self.vcpus.len() <= task.0 {
            self.vcpus.resize(task.0 + 1, None);
        }
        self.vcpus[task.0] = Some(Vcpu { machine, waits: false });
    }

    /// The last window of a machine that is over at `now`.
    pub fn last(&mut self, machine: &Name, now: u64) -> Option<Window> {
        let told = self.machines.iter_mut().find(|told| told.name == *machine)?;
        told.count(now);
        told.last
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
        let waits = match &event.what {
            What::Wake | What::Stop { runnable: true } => true,
            What::Start | What::Stop { runnable: false } | What::Exit => false,
            What::Allowed(cpus) => {
                told.count(event.at);
                told.cpus = **cpus;
                told.idle = self.idle.now().and(&told.cpus).count() as u64;
                return;
            }
            _ => return,
        };
        if std::mem::replace(&mut vcpu.waits, waits) != waits {
            told.count(event.at);
            told.phantoms = if waits { told.phantoms + 1 } else { told.phantoms - 1 };
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

    /// Two CPUs, of which the machine may use `cpus`; its virtual CPUs are the tasks 0 and 1.
    fn told(cpus: &[usize]) -> Paravirt {
        let team = TeamSpec {
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
            allowed: Some(cpus.iter().copied().collect()),
            arrives_ns: 0,
        };
        let mut spec = SharedSpec::default();
        spec.teams.insert(NAME.into(), team);
        let mut paravirt = Paravirt::of(&spec, &CpuMask::first(2));
        for task in 0..2 {
            paravirt.born(&NAME.into(), TaskId(task));
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
    fn the_number_of_threads_is_rounded_to_the_nearest() {
        let threads = |phantoms_ns, idle_ns| {
            Window { number: 1, length_ns: 100, phantoms_ns, idle_ns }.threads(8)
        };
        assert_eq!(threads(0, 0), 8);
        assert_eq!((threads(49, 0), threads(51, 0)), (8, 7));
        assert_eq!((threads(0, 49), threads(0, 51)), (8, 9));
        assert_eq!(threads(1_800, 0), -10);
    }
}

//! What scheduling costs.

use std::path::Path;
use std::time::Instant;

use metasched_base::{Figure, Interrupt, Result, Unit};
use metasched_host::machine::machine;
use metasched_loader::{OverheadCounts, OverheadPart, OverheadTracer, Probes, ScheduleCalls};
use metasched_stats::WaitHistogram;

use crate::force::{Force, in_force};

/// Measures what scheduling costs, from when it is made until it is asked for the figures.
pub struct OverheadMeter {
    tracer: OverheadTracer,
    earlier: OverheadCounts,
    force: Force,
    began: Instant,
    interrupt: Interrupt,
}

/// What scheduling cost.
#[derive(Clone, Debug)]
pub struct Overhead {
    /// The kernel's release.
    pub kernel: String,
    /// How many CPUs the machine has.
    pub cpus: u32,
    /// Whether its CPUs are emulated in software.
    pub emulated: bool,
    /// What was in force when it began, as users name it.
    pub scheduler: String,
    /// What was in force at the end, where that is another one, or another start of it.
    pub scheduler_later: Option<String>,
    /// How long it took, nanoseconds.
    pub length_ns: u64,
    /// What our own programs took in each call and beside it. What they took in it is taken off
    /// all that is told.
    pub probes: Probes,
    /// All calls of schedule().
    pub schedule: OverheadRow,
    /// Those that came to a task, by how deep its group is nested; only depths that were seen. The
    /// last of [`OverheadRow::DEPTHS`] has all deeper ones.
    pub depths: Vec<(usize, OverheadRow)>,
    /// Those by which a CPU came to have nothing to do.
    pub idle: OverheadRow,
    /// What is done outside schedule(); a row that was not measured where it cannot be traced here.
    pub parts: Vec<(OverheadPart, OverheadRow)>,
    /// Calls of schedule() whose end was not seen, which are not told of.
    pub dropped: u64,
}

/// Calls that are told of together.
#[derive(Clone, Debug, Default)]
pub struct OverheadRow {
    /// None where they cannot be traced here.
    times: Option<WaitHistogram>,
    /// Of these the ones that ended in another task; none outside schedule().
    switched: Option<WaitHistogram>,
    /// What our own programs took in each.
    probe_ns: u64,
    length_ns: u64,
    cpus: u32,
}

/// What is told of calls, in tables and documents.
pub const OVERHEAD_FIGURES: &[Figure<OverheadRow>] = &[
    Figure {
        name: "calls_per_s",
        title: "CALLS/S",
        unit: Unit::PerSecond,
        help: "calls a second, on all CPUs",
        of: |row| row.per_s(row.times.as_ref()),
    },
    Figure {
        name: "switches_per_s",
        title: "SWITCHES/S",
        unit: Unit::PerSecond,
        help: "of these the ones that ended in another task",
        of: |row| row.per_s(row.switched.as_ref()),
    },
    Figure {
        name: "mean_ns",
        title: "MEAN",
        unit: Unit::Nanoseconds,
        help: "the mean time of a call",
        of: |row| row.mean_ns(row.times.as_ref()),
    },
    Figure {
        name: "switch_mean_ns",
        title: "A SWITCH",
        unit: Unit::Nanoseconds,
        help: "the mean time of a call that ended in another task",
        of: |row| row.mean_ns(row.switched.as_ref()),
    },
    Figure {
        name: "p50_ns",
        title: "P50",
        unit: Unit::Nanoseconds,
        help: "half of the calls took no longer",
        of: |row| row.percentile_ns(0.5),
    },
    Figure {
        name: "p99_ns",
        title: "P99",
        unit: Unit::Nanoseconds,
        help: "99 of a hundred calls took no longer",
        of: |row| row.percentile_ns(0.99),
    },
    Figure {
        name: "share",
        title: "OF ALL CPUS",
        unit: Unit::Share,
        help: "the part of the time of all CPUs that went into them",
        of: |row| row.share(),
    },
    Figure {
        name: "calls",
        title: "CALLS",
        unit: Unit::Count,
        help: "how many calls there were",
        of: |row| row.times.as_ref().map(|times| times.count() as f64),
    },
    Figure {
        name: "switches",
        title: "SWITCHES",
        unit: Unit::Count,
        help: "of these the ones that ended in another task",
        of: |row| row.switched.as_ref().map(|switched| switched.count() as f64),
    },
    Figure {
        name: "sum_ns",
        title: "ALL",
        unit: Unit::Nanoseconds,
        help: "how long all calls took together",
        of: |row| row.times.as_ref().map(|times| row.sum_ns(times)),
    },
];

impl OverheadRow {
    /// So many depths are told apart.
    pub const DEPTHS: usize = metasched_loader::OVERHEAD_DEPTHS;

    /// Whether they can be traced here.
    pub fn is_measured(&self) -> bool {
        self.times.is_some()
    }

    /// Whether there was a call.
    fn any(&self) -> bool {
        self.times.as_ref().is_some_and(|times| times.count() > 0)
    }

    /// Without what our own programs took in it. An interrupt between two calls may make that look longer
    /// than a short call was.
    fn sum_ns(&self, times: &WaitHistogram) -> f64 {
        times.sum_ns.saturating_sub(times.count() * self.probe_ns) as f64
    }

    fn per_s(&self, times: Option<&WaitHistogram>) -> Option<f64> {
        times.map(|times| times.count() as f64 * 1e9 / self.length_ns.max(1) as f64)
    }

    fn mean_ns(&self, times: Option<&WaitHistogram>) -> Option<f64> {
        let times = times.filter(|times| times.count() > 0)?;
        Some(self.sum_ns(times) / times.count() as f64)
    }

    fn percentile_ns(&self, q: f64) -> Option<f64> {
        let ns = self.times.as_ref()?.percentile_ns(q)?;
        Some(ns.saturating_sub(self.probe_ns) as f64)
    }

    fn share(&self) -> Option<f64> {
        let all_ns = self.length_ns as f64 * f64::from(self.cpus);
        self.times.as_ref().map(|times| self.sum_ns(times) / all_ns.max(1.0))
    }
}

impl OverheadMeter {
    /// Begins to measure.
    ///
    /// # Errors
    /// As [`OverheadTracer::attach`].
    pub fn begin(interrupt: &Interrupt) -> Result<Self> {
        let force = in_force(interrupt)?;
        let tracer = OverheadTracer::attach()?;
        let earlier = tracer.read()?;
        let interrupt = interrupt.clone();
        Ok(Self { tracer, earlier, force, began: Instant::now(), interrupt })
    }

    /// What was measured until now.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn finish(self) -> Result<Overhead> {
        let length_ns = self.began.elapsed().as_nanos() as u64;
        let counts = self.tracer.read()?.since(&self.earlier);
        let probes = self.tracer.probes();
        // Our own end is no load to be measured.
        drop(self.tracer);
        let later = in_force(&self.interrupt)?;
        let same = later.scheduler == self.force.scheduler && later.enabled == self.force.enabled;
        let mut overhead = Overhead::new(counts, probes, length_ns)?;
        overhead.scheduler = self.force.scheduler;
        overhead.scheduler_later = (!same).then_some(later.scheduler);
        Ok(overhead)
    }
}

impl Overhead {
    fn new(counts: OverheadCounts, probes: Probes, length_ns: u64) -> Result<Self> {
        let host = machine(Path::new("/"))?;
        let cpus = host.cpus.max(1);
        let calls = |calls: &ScheduleCalls| {
            let mut times = calls.switched.clone();
            times.merge(&calls.stayed);
            OverheadRow {
                times: Some(times),
                switched: Some(calls.switched.clone()),
                probe_ns: probes.in_schedule_ns,
                length_ns,
                cpus,
            }
        };
        let part = |(part, times): (OverheadPart, Option<WaitHistogram>)| {
            let probe_ns = probes.in_part_ns;
            (part, OverheadRow { times, switched: None, probe_ns, length_ns, cpus })
        };
        let mut all = counts.idle.clone();
        counts.depths.iter().for_each(|depth| all.merge(depth));
        let depths = counts.depths.iter().map(calls).enumerate();
        Ok(Self {
            kernel: host.kernel_release,
            cpus,
            emulated: host.emulated,
            scheduler: String::new(),
            scheduler_later: None,
            length_ns,
            probes,
            schedule: calls(&all),
            depths: depths.filter(|(_, row)| row.any()).collect(),
            idle: calls(&counts.idle),
            parts: counts.parts.into_iter().map(part).collect(),
            dropped: counts.dropped,
        })
    }

    /// What measuring took, nanoseconds on all CPUs together.
    pub fn looking_ns(&self) -> u64 {
        let calls = |row: &OverheadRow| row.times.as_ref().map_or(0, WaitHistogram::count);
        let Probes { in_schedule_ns, beside_schedule_ns, in_part_ns } = self.probes;
        let parts: u64 = self.parts.iter().map(|(_, row)| calls(row)).sum();
        // What a pair takes beside a call was not tried: it is taken for as much as in it.
        calls(&self.schedule) * (in_schedule_ns + beside_schedule_ns) + parts * 2 * in_part_ns
    }

    /// That of the time of all CPUs.
    pub fn looking_share(&self) -> f64 {
        self.looking_ns() as f64 / (self.length_ns as f64 * f64::from(self.cpus)).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(all: &[u64]) -> WaitHistogram {
        let mut times = WaitHistogram::default();
        all.iter().for_each(|ns| times.add(*ns));
        times
    }

    #[test]
    fn what_our_programs_took_is_taken_off_and_nobody_took_less_than_nothing() {
        let probes = Probes { in_schedule_ns: 100, beside_schedule_ns: 50, in_part_ns: 30 };
        let mut depths = vec![ScheduleCalls::default(); OverheadRow::DEPTHS];
        depths[2] = ScheduleCalls { switched: times(&[1100, 2100]), stayed: times(&[400]) };
        let idle = ScheduleCalls { switched: times(&[60]), stayed: times(&[]) };
        let parts =
            vec![(OverheadPart::WakeUp, Some(times(&[230, 230]))), (OverheadPart::Tick, None)];
        let counts = OverheadCounts { depths, idle, parts, dropped: 0 };
        let overhead = Overhead::new(counts, probes, 1_000_000).unwrap();
        let figure = |row: &OverheadRow, name: &str| {
            let figure = OVERHEAD_FIGURES.iter().find(|figure| figure.name == name).unwrap();
            (figure.of)(row)
        };
        let [(2, deep)] = &overhead.depths[..] else { panic!("{:?}", overhead.depths) };
        assert_eq!(figure(deep, "sum_ns"), Some(3300.0));
        assert_eq!(figure(deep, "mean_ns"), Some(1100.0));
        assert_eq!(figure(deep, "switch_mean_ns"), Some(1500.0));
        assert_eq!(figure(deep, "calls_per_s"), Some(3000.0));
        assert_eq!(figure(deep, "share"), Some(0.0033 / f64::from(overhead.cpus)));
        assert_eq!(figure(&overhead.idle, "sum_ns"), Some(0.0));
        assert_eq!(figure(&overhead.idle, "p50_ns"), Some(0.0));
        assert_eq!(figure(&overhead.schedule, "calls"), Some(4.0));
        assert_eq!(figure(&overhead.parts[0].1, "mean_ns"), Some(200.0));
        assert_eq!(figure(&overhead.parts[0].1, "switches_per_s"), None);
        assert_eq!(figure(&overhead.parts[1].1, "share"), None);
        assert_eq!(overhead.looking_ns(), 4 * 150 + 2 * 60);
    }
}

//! How long a run takes.

use metasched_base::{Error, Kind, Result};
use metasched_sim::Scenario;
use metasched_stats::{Interval, median_interval};
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::time::Instant;

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Wall time of it all, loading included, s.
    pub wall_s: f64,
    /// CPU time of the thread that ran it, s.
    pub cpu_s: f64,
    /// Simulated time, s.
    pub simulated_s: f64,
    /// Events that the engine handled.
    pub events: u64,
}

/// CPU time of a clock's, s.
///
/// # Errors
/// When the kernel does not tell.
pub fn cpu_time_s(clock: ClockId) -> Result<f64> {
    let time = clock_gettime(clock)
        .map_err(|error| Error::new(Kind::Failed, "read the CPU time of this process", error))?;
    Ok(time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
}

impl Sample {
    /// Runs a scenario on this thread.
    ///
    /// # Errors
    /// When the run fails: a bench shows only runs that every checker has passed.
    pub fn of(scenario: &Scenario) -> Result<Sample> {
        let (began, cpu) = (Instant::now(), cpu_time_s(ClockId::CLOCK_THREAD_CPUTIME_ID)?);
        let outcome = scenario
            .run()
            .map_err(|failure| Error::new(Kind::Simulation, "run a load of the bench", failure))?;
        Ok(Sample {
            wall_s: began.elapsed().as_secs_f64(),
            cpu_s: cpu_time_s(ClockId::CLOCK_THREAD_CPUTIME_ID)? - cpu,
            simulated_s: outcome.simulated_ns as f64 / 1e9,
            events: outcome.events,
        })
    }
}

/// What several runs of one scenario show: medians, with what holds them in 95 of 100 cases
/// where there are enough runs.
#[derive(Clone, Debug, Serialize)]
pub struct Speed {
    /// Simulated time over wall time.
    pub speed: f64,
    /// Its interval.
    pub interval: Option<Interval>,
    /// Simulated time over CPU time.
    pub speed_cpu: f64,
    /// Events of the engine for each second of wall time.
    pub events_per_s: f64,
    /// CPU time for an event, ns.
    pub ns_per_event: f64,
    /// Events of the engine for each second of simulated time.
    pub events_per_simulated_s: f64,
}

impl Speed {
    /// The figures of some runs; none of no runs.
    pub fn of(samples: &[Sample]) -> Option<Speed> {
        let of = |figure: fn(&Sample) -> f64| {
            let values: Vec<f64> = samples.iter().map(figure).collect();
            (metasched_stats::median(&values), median_interval(&values))
        };
        let (speed, interval) = of(|s| s.simulated_s / s.wall_s);
        Some(Speed {
            speed: speed?,
            interval,
            speed_cpu: of(|s| s.simulated_s / s.cpu_s).0?,
            events_per_s: of(|s| s.events as f64 / s.wall_s).0?,
            ns_per_event: of(|s| s.cpu_s * 1e9 / s.events.max(1) as f64).0?,
            events_per_simulated_s: of(|s| s.events as f64 / s.simulated_s).0?,
        })
    }
}

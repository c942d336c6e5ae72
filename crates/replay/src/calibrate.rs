//! What the model of a machine needs to know of this one: how its CPUs hang together, and what
//! its kernel takes for itself.
//!
//! Costs are measured as the model counts them, under whatever scheduler is in force, whose own
//! part they hold: a switch with what its callbacks take, a wake-up likewise.

mod costs;
mod text;
mod threads;
mod ticks;

use std::path::Path;

use metasched_base::{Error, Interrupt, Kind, Result};
use metasched_host::kernel;
use metasched_host::machine::{HostFacts, Sharing, machine, sharing};
use metasched_host::process::allowed_cpus;
use metasched_scenario::Costs;
use metasched_scenario::file::{KernelThread, MachineSpec};
use metasched_stats::{WaitHistogram, median, median_interval};
use serde::{Deserialize, Serialize};
pub use ticks::Lateness;

/// A figure: the median over repeats, and the interval that holds the true one with 95 %
/// confidence, ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The median.
    pub median_ns: f64,
    /// The lower bound.
    pub low_ns: f64,
    /// The upper bound.
    pub high_ns: f64,
    /// How many repeats there were.
    pub repeats: usize,
}

impl Measured {
    /// Of these repeats, ns; what was below zero, by the noise of what was taken off, is none.
    fn of(repeats: &[f64]) -> Option<Measured> {
        let of = median_interval(repeats)?;
        let [median_ns, low_ns, high_ns] = [of.estimate, of.low, of.high].map(|ns| ns.max(0.0));
        Some(Measured { median_ns, low_ns, high_ns, repeats: repeats.len() })
    }

    fn ns(&self) -> u64 {
        self.median_ns.round() as u64
    }
}

/// What was measured. What is none could not be, and why not is in `notes`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Calibration {
    /// The machine, as the kernel tells of it.
    pub machine: HostFacts,
    /// The scheduler that was in force.
    pub scheduler: String,
    /// Ticks per second.
    pub hz: Option<u32>,
    /// A call that may wake or wait, and does neither.
    pub call: Option<Measured>,
    /// What a wake-up takes of who makes it, beyond the call.
    pub wake: Option<Measured>,
    /// What it takes longer where another CPU, which is idle, has to be told.
    pub tell: Option<Measured>,
    /// Going to sleep until a time and coming back, beside the switch.
    pub sleep: Option<Measured>,
    /// A switch from one task to another.
    pub switch: Option<Measured>,
    /// How late a timer goes off.
    pub timer: Option<Measured>,
    /// The longest that a tick that switches can be late: a whole tick's interrupt.
    pub tick_late: Option<Measured>,
    /// How late ticks come.
    pub ticks: Option<Lateness>,
    /// From a wake-up by another CPU until an idle CPU switches to the task: the tenth and the
    /// ninetieth percentile, ns.
    pub ipi_ns: Option<(u64, u64)>,
    /// The same from a wake-up by a timer of its own.
    pub own_ns: Option<(u64, u64)>,
    /// What a first run on another CPU takes longer, by what both share.
    pub migrations: Vec<(Sharing, Measured)>,
    /// What its kernel does by itself.
    #[serde(default)]
    pub kernel_threads: Vec<KernelThread>,
    /// What could not be measured, and why.
    pub notes: Vec<String>,
}

/// Measures the machine that this runs on, under the scheduler of that name, which is in force.
/// It takes some seconds, in which nothing else should run.
///
/// # Errors
/// When it cannot be measured at all, or was interrupted.
pub fn calibrate(scheduler: &str, interrupt: &Interrupt) -> Result<Calibration> {
    let root = Path::new("/");
    let machine = machine(root)?;
    let mut notes = Vec::new();
    let hz = hz(root, &machine.kernel_release, &mut notes);
    let cpus = allowed_cpus()?;
    let chain = costs::chains(&cpus, interrupt)?;
    let naps = costs::naps(&cpus, interrupt)?;
    let switch = Measured::of(&chain.switch_ns);
    let switch_ns = switch.map_or(0.0, |switch| switch.median_ns);
    let mut waits = |what: &str, of: Result<WaitHistogram>| {
        of.map_err(|error| notes.push(format!("{what}: {error}"))).ok()
    };
    let [own, told] = [waits("own", naps.own), waits("ipi", naps.told)];
    let spread = |of: &Option<WaitHistogram>| {
        let of = of.as_ref()?;
        of.percentile_ns(0.1).zip(of.percentile_ns(0.9))
    };
    // What is no part of the timer's own being late.
    let own_ns = own.as_ref().and_then(|own| own.percentile_ns(0.5)).unwrap_or(0);
    let after_ns = switch_ns + own_ns as f64;
    let late: Vec<f64> = naps.late_ns.iter().map(|ns| ns - after_ns).collect();
    let asleep: Vec<f64> = naps.asleep_ns.iter().map(|ns| ns - switch_ns).collect();
    let [call_ns, here_ns] = [&chain.call_ns, &chain.here_ns].map(|all| median(all).unwrap_or(0.0));
    let tell: Vec<f64> = naps.telling_ns.iter().map(|ns| ns - call_ns - here_ns).collect();
    let (mut tick_late, mut ticks) = (None, None);
    if let Some(hz) = hz {
        let period_ns = 1_000_000_000 / u64::from(hz);
        tick_late = Measured::of(&costs::ticks(cpus[0], period_ns, interrupt)?);
        ticks = ticks::lateness(&cpus, period_ns, interrupt)?;
    }
    let mut migrations = Vec::new();
    for (share, other) in pairs(root, &cpus) {
        let repeats = costs::migrations(cpus[0], other, interrupt)?;
        migrations.extend(Measured::of(&repeats).map(|measured| (share, measured)));
    }
    if cpus.len() == 1 {
        notes.push("migrations: there is one CPU".to_owned());
    }
    Ok(Calibration {
        machine,
        scheduler: scheduler.to_owned(),
        hz,
        call: Measured::of(&chain.call_ns),
        wake: Measured::of(&chain.wake_ns),
        tell: Measured::of(&tell),
        sleep: Measured::of(&asleep),
        switch,
        timer: Measured::of(&late),
        tick_late,
        ticks,
        ipi_ns: spread(&told),
        own_ns: spread(&own),
        migrations,
        kernel_threads: threads::kernel_threads(cpus.len(), interrupt)?,
        notes,
    })
}

/// Ticks per second, as the kernel was built.
fn hz(root: &Path, release: &str, notes: &mut Vec<String>) -> Option<u32> {
    let config = kernel::config(root, release).ok().flatten();
    let hz = config.and_then(|config| config.hz());
    if hz.is_none() {
        notes.push("hz: the kernel's configuration is not to be found".to_owned());
    }
    hz
}

/// The first CPU beside another one, for each thing that two can share.
fn pairs(root: &Path, cpus: &[usize]) -> Vec<(Sharing, usize)> {
    let mut pairs: Vec<(Sharing, usize)> = Vec::new();
    for cpu in &cpus[1..] {
        let share = sharing(root, cpus[0] as u32, *cpu as u32);
        if !pairs.iter().any(|(known, _)| *known == share) {
            pairs.push((share, *cpu));
        }
    }
    pairs
}

impl Calibration {
    /// The costs of the model; what was not measured is as on a machine of which nothing is
    /// said.
    pub fn costs(&self) -> Costs {
        let usual = Costs::default();
        let ns = |measured: Option<Measured>, usual| measured.map_or(usual, |m| m.ns());
        let (ipi_least_ns, ipi_most_ns) =
            self.ipi_ns.unwrap_or((usual.ipi_least_ns, usual.ipi_most_ns));
        let (own_least_ns, own_most_ns) =
            self.own_ns.unwrap_or((usual.own_least_ns, usual.own_most_ns));
        let migration = |share: Sharing, usual: u64| {
            let found = self.migrations.iter().find(|(known, _)| *known == share);
            ns(found.map(|(_, measured)| *measured), usual)
        };
        Costs {
            switch_ns: ns(self.switch, usual.switch_ns),
            migration_core_ns: migration(Sharing::Core, usual.migration_core_ns),
            migration_llc_ns: migration(Sharing::Llc, usual.migration_llc_ns),
            migration_node_ns: migration(Sharing::Node, usual.migration_node_ns),
            migration_across_ns: migration(Sharing::Machine, usual.migration_across_ns),
            call_ns: ns(self.call, usual.call_ns),
            wake_ns: ns(self.wake, usual.wake_ns),
            tell_ns: ns(self.tell, usual.tell_ns),
            sleep_ns: ns(self.sleep, usual.sleep_ns),
            timer_ns: ns(self.timer, usual.timer_ns),
            tick_late_ns: ns(self.tick_late, usual.tick_late_ns),
            tick_jitter_ns: self.ticks.map_or(usual.tick_jitter_ns, |ticks| ticks.jitter_ns),
            tick_strays: self.ticks.map_or(usual.tick_strays, |ticks| ticks.strays),
            tick_stray_ns: self.ticks.map_or(usual.tick_stray_ns, |ticks| ticks.stray_ns),
            ipi_least_ns,
            ipi_most_ns,
            own_least_ns,
            own_most_ns,
            // Callbacks and what they call are in the switch and the wake-up already; what a CPU
            // that was idle loses is not measured.
            ..usual
        }
    }

    /// The machine of the model.
    ///
    /// # Errors
    /// When it is one that the model does not have, such as one of uneven caches.
    pub fn spec(&self) -> Result<MachineSpec> {
        let spec = MachineSpec {
            cpus: self.machine.cpus as usize,
            llcs: self.machine.llcs as usize,
            nodes: self.machine.nodes as usize,
            smt: self.machine.smt,
            costs: self.costs(),
            kernel_threads: self.kernel_threads.clone(),
            ..MachineSpec::default()
        };
        let spec = MachineSpec { hz: self.hz.unwrap_or(spec.hz), ..spec };
        spec.machine().map(|_| spec).map_err(|error| {
            Error::new(Kind::Unsupported, "model this machine", error)
                .remedy("write a machine by hand, with the costs that --json tells")
        })
    }
}

#[cfg(test)]
mod tests;

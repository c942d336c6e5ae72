//! What the model of a machine needs to know of this one: how its CPUs hang together, and what
//! its kernel takes for itself.
//!
//! Costs are measured as the model counts them, under whatever scheduler is in force, whose own
//! part they hold: a switch with what its callbacks take, a wake-up likewise.

mod costs;
mod text;

use std::path::Path;

use metasched_base::{Error, Interrupt, Kind, Result};
use metasched_host::kernel;
use metasched_host::machine::{Machine, Sharing, machine, sharing};
use metasched_sim::Costs;
use metasched_sim::file::MachineSpec;
use metasched_stats::median_interval;
use serde::Serialize;

/// A figure: the median over repeats, and the interval that holds the true one with 95 %
/// confidence, ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
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
#[derive(Clone, Debug, Serialize)]
pub struct Calibration {
    /// The machine, as the kernel tells of it.
    pub machine: Machine,
    /// The scheduler that was in force.
    pub scheduler: String,
    /// Ticks per second.
    pub hz: Option<u32>,
    /// A call that may wake or wait, and does neither.
    pub call: Option<Measured>,
    /// What a wake-up takes of who makes it, beyond the call.
    pub wake: Option<Measured>,
    /// A switch from one task to another.
    pub switch: Option<Measured>,
    /// How late a timer goes off.
    pub timer: Option<Measured>,
    /// The longest that a tick that switches can be late: a whole tick's interrupt.
    pub tick_late: Option<Measured>,
    /// From a wake-up until an idle CPU switches to the task: the tenth and the ninetieth
    /// percentile, ns.
    pub ipi_ns: Option<(u64, u64)>,
    /// What a first run on another CPU takes longer, by what both share.
    pub migrations: Vec<(Sharing, Measured)>,
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
    let cpus = costs::cpus()?;
    let chain = costs::chains(&cpus, interrupt)?;
    let naps = costs::naps(&cpus, interrupt)?;
    let switch = Measured::of(&chain.switch_ns);
    let switch_ns = switch.map_or(0.0, |switch| switch.median_ns);
    let waits = naps.waits.map_err(|error| notes.push(format!("ipi: {error}"))).ok();
    let percentile = |q| waits.as_ref()?.percentile_ns(q);
    let ipi_ns = percentile(0.1).zip(percentile(0.9));
    // What is no part of the timer's own being late.
    let after_ns = switch_ns + percentile(0.5).unwrap_or(0) as f64;
    let late: Vec<f64> = naps.late_ns.iter().map(|ns| ns - after_ns).collect();
    let tick_late = match hz {
        None => None,
        Some(hz) => Measured::of(&costs::ticks(cpus[0], hz, interrupt)?),
    };
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
        switch,
        timer: Measured::of(&late),
        tick_late,
        ipi_ns,
        migrations,
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
            timer_ns: ns(self.timer, usual.timer_ns),
            tick_late_ns: ns(self.tick_late, usual.tick_late_ns),
            ipi_least_ns,
            ipi_most_ns,
            // In the switch and the wake-up already.
            callback_ns: usual.callback_ns,
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

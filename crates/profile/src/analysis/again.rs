//! What measuring a workload again goes by.

use std::time::Duration;

use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_control::SwitchRecord;
use metasched_stats::median;

use super::Analysis;
use crate::Environment;
use crate::manifest::Workload;
use crate::runner::Site;

impl Analysis {
    /// How long the slowest swap to these schedulers takes: the median of what was recorded for it,
    /// else of all swaps, else what was published.
    pub fn swap_takes(&self, schedulers: &[&str]) -> Duration {
        swap_takes(&self.switches, schedulers)
    }

    /// The workload as it was profiled: with the same parameters, and unchanged since. `place` is
    /// its folder or name.
    ///
    /// # Errors
    /// `BadInput` where it has changed, or was profiled elsewhere.
    pub fn same_workload(&self, place: &str, site: &Site) -> Result<Workload> {
        let settings: Vec<(String, String)> =
            self.params.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let workload = Workload::find(place, &settings, self.environment.emulated)?;
        let attempt = || format!("tune '{}'", self.workload);
        if workload.hash != self.workload_hash {
            return Err(Error::new(
                Kind::BadInput,
                attempt(),
                "its manifest or files have changed since it was profiled",
            )
            .remedy("run `metasched profile` for it again"));
        }
        let here = site.environment().attempt(Kind::Failed, attempt)?;
        if !comparable(&here, &self.environment) {
            return Err(Error::new(
                Kind::BadInput,
                attempt(),
                format!(
                    "it was last profiled on kernel {} of machine {}, and this is kernel {} of \
                 machine {}",
                    self.environment.kernel, self.environment.machine, here.kernel, here.machine
                ),
            )
            .remedy("run `metasched profile` for it here first"));
        }
        Ok(workload)
    }
}

/// How long the slowest swap to these schedulers takes: the median of what was recorded for
/// it, else of all swaps, else what was published.
fn swap_takes(records: &[SwitchRecord], schedulers: &[&str]) -> Duration {
    /// A whole process swap in the paper.
    const PUBLISHED: Duration = Duration::from_millis(133);
    let took = |only: Option<&str>| {
        let swaps = records.iter().filter(|r| r.is_change() && !r.replaced_a_lane());
        let of_scheduler = swaps.filter(|r| only.is_none_or(|name| r.to == name));
        let ns: Vec<f64> = of_scheduler.map(|r| r.total_ns as f64).collect();
        median(&ns).map(|ns| Duration::from_nanos(ns as u64))
    };
    let known = schedulers.iter().filter_map(|name| took(Some(name))).max();
    known.or_else(|| took(None)).unwrap_or(PUBLISHED)
}

fn comparable(a: &Environment, b: &Environment) -> bool {
    (&a.machine, &a.kernel, &a.metasched, a.cpus, a.emulated)
        == (&b.machine, &b.kernel, &b.metasched, b.cpus, b.emulated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use metasched_control::Mechanism;

    #[test]
    fn a_swap_takes_as_long_as_the_slowest_scheduler_of_the_cycle() {
        let record = |to: &str, total_ns| SwitchRecord {
            from: "eevdf".into(),
            to: to.into(),
            mechanism: Mechanism::Swap,
            stop_ns: None,
            start_ns: Some(total_ns),
            write_ns: None,
            total_ns,
        };
        let records = [record("fifo", 50_000_000), record("vtime", 70_000_000)];
        let cycle = ["fifo", "vtime"];
        assert_eq!(swap_takes(&records, &cycle), Duration::from_millis(70));
        let other = [record("scx_rusty", 900_000_000)];
        assert_eq!(swap_takes(&other, &cycle), Duration::from_millis(900));
        assert_eq!(swap_takes(&[], &cycle), Duration::from_millis(133));
    }
}

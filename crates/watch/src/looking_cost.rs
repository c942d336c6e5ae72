//! What looking itself costs.

use metasched_base::brief_time;
use metasched_loader::Runs;
use serde::{Deserialize, Serialize};

/// What a tracer took of the machine while it looked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LookingCost {
    /// How often it ran: at each wake-up and each switch.
    pub runs: u64,
    /// For how long, nanoseconds on all CPUs together, as the kernel counts it: without the way to
    /// it and back.
    pub ns: u64,
    /// That of the time of all CPUs.
    pub share: f64,
}

impl LookingCost {
    /// Of these runs, in so long a time on so many CPUs.
    pub fn new(runs: Runs, length_ns: u64, cpus: u32) -> Self {
        let all_ns = length_ns as f64 * f64::from(cpus.max(1));
        Self { runs: runs.count, ns: runs.ns, share: runs.ns as f64 / all_ns.max(1.0) }
    }

    /// In a sentence.
    pub fn text(&self) -> String {
        let each = self.ns.checked_div(self.runs).unwrap_or(0);
        format!(
            "looking took {:.2} % of the CPUs' time: {} runs of {} each, and the way to them",
            self.share * 100.0,
            self.runs,
            brief_time(each as f64)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_of_all_cpus_and_nothing_is_divided_by_nothing() {
        let cost = LookingCost::new(Runs { count: 1000, ns: 500_000 }, 100_000_000, 2);
        assert_eq!(cost.share, 0.0025);
        assert!(cost.text().starts_with("looking took 0.25 % "), "{}", cost.text());
        assert!(LookingCost::new(Runs::default(), 0, 0).text().contains("0 runs of 0 ns"));
    }
}

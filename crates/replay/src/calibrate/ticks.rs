//! When ticks come. All CPUs' are due at the same times; how late each one is decides which of
//! two CPUs whose slices end at one tick chooses first; and a slice whose last tick but one is very
//! late ends there, so that it and those after it end apart from the other CPUs'.

use metasched_base::{Interrupt, Result};
use nix::unistd::gettid;
use serde::{Deserialize, Serialize};

use super::costs::{apart, beside_work};
use crate::clock::now_ns;
use crate::threads::set_affinity;

/// How many ticks are watched: enough for one in a hundred to be seen several times.
const TICKS: u64 = 1_000;

/// How late ticks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    /// The longest that an ordinary one is late, ns: twice what the quartiles are apart, as in
    /// an even distribution.
    pub jitter_ns: u64,
    /// One in so many is later than that; 0: none was.
    pub strays: u64,
    /// The longest that such a one is late, ns: twice their median.
    pub stray_ns: u64,
}

/// Watches the ticks of the first CPU while all of them compute.
///
/// # Errors
/// When it was interrupted.
pub fn lateness(cpus: &[usize], period_ns: u64, interrupt: &Interrupt) -> Result<Option<Lateness>> {
    let phases_ns = beside_work(&cpus[1..], || {
        apart(|| {
            set_affinity(gettid(), std::iter::once(cpus[0]))?;
            watch(period_ns, interrupt)
        })
    })?;
    Ok(of_phases(phases_ns, period_ns))
}

/// When the longest time between two looks at the clock began, in the time of each tick, ns after
/// it was due: a tick is what takes longest there, as a rule.
fn watch(period_ns: u64, interrupt: &Interrupt) -> Result<Vec<u64>> {
    let mut phases_ns = Vec::new();
    let (mut now, mut longest) = (now_ns(), (0, 0));
    let (first, mut tick) = (now / period_ns, now / period_ns);
    while tick < first + TICKS {
        let then = std::mem::replace(&mut now, now_ns());
        longest = longest.max((now - then, then));
        if now / period_ns != tick {
            tick = now / period_ns;
            phases_ns.push(longest.1 % period_ns);
            longest = (0, 0);
            interrupt.check("the calibration")?;
        }
    }
    Ok(phases_ns)
}

/// What those phases come to; none without any.
fn of_phases(mut phases_ns: Vec<u64>, period_ns: u64) -> Option<Lateness> {
    // The clock need not be 0 at a tick: the time when most come is put in the middle.
    phases_ns.sort_unstable();
    let middle = *phases_ns.get(phases_ns.len() / 2)?;
    let turn = |ns: &u64| (ns + period_ns + period_ns / 2 - middle) % period_ns;
    let mut all: Vec<u64> = phases_ns.iter().map(turn).collect();
    all.sort_unstable();
    let quartile = |quarter: usize| all[all.len() * quarter / 4];
    let jitter_ns = 2 * (quartile(3) - quartile(1));
    // The earliest of an even distribution.
    let due = quartile(2) - (jitter_ns / 2).min(quartile(2));
    // Twice as late as any ordinary one: not its tail.
    let late = |ns: &u64| ns.checked_sub(due).filter(|late| *late > 2 * jitter_ns);
    let strays: Vec<u64> = all.iter().filter_map(late).collect();
    let Some(median) = strays.get(strays.len() / 2) else {
        return Some(Lateness { jitter_ns, strays: 0, stray_ns: 0 });
    };
    let stray_ns = (2 * median).min(period_ns);
    Some(Lateness { jitter_ns, strays: (all.len() / strays.len()) as u64, stray_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_ticks_and_strays_are_told_apart_wherever_the_clock_begins() {
        for offset in [0, 1_000_000, 3_960_000] {
            // A hundred ticks up to 99 us late, but for two that are late by 1 ms and 1.5.
            let mut phases: Vec<u64> = (0..100).map(|n| n * 1_000).collect();
            (phases[10], phases[60]) = (1_000_000, 1_500_000);
            let phases = phases.iter().map(|ns| (ns + offset) % 4_000_000).collect();
            let seen = of_phases(phases, 4_000_000).unwrap();
            assert!((90_000..=110_000).contains(&seen.jitter_ns), "{seen:?}");
            assert_eq!(seen.strays, 50, "{seen:?}");
            assert!((2_900_000..=3_100_000).contains(&seen.stray_ns), "{seen:?}");
        }
        assert_eq!(of_phases(Vec::new(), 4_000_000), None);
    }
}

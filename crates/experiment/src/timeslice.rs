//! The search for the base timeslice of a metascheduler.
//!
//! The search only proposes: who measures, and in what order, is the caller's
//! business. It looks first at a coarse grid, evenly spaced on the logarithmic
//! scale, because the effect of a timeslice spans orders of magnitude; then
//! between the best point and its neighbours.

use std::fmt;
use std::time::Duration;

use metasched_stats::Interval;
use serde::{Deserialize, Serialize};

/// At most this share of the shortest turn may go by in switching to it. With
/// half of a turn under the default scheduler there is little left to measure; the
/// paper's best point stood at 0.07.
const MAX_SWITCHING_SHARE: f64 = 0.5;

/// How many whole cycles a measurement must hold, so that it does not depend on
/// which turn it began or ended with.
const MIN_CYCLES: u32 = 3;

/// No turn by swap is shorter than this: a few of the default scheduler's own slices.
pub const MIN_TURN_BY_SWAP: Duration = Duration::from_millis(10);
/// No turn by lane is shorter than this: the base timeslices that are searched are whole
/// milliseconds, and slices themselves come to about as little.
pub const MIN_TURN_BY_LANE: Duration = Duration::from_millis(1);

/// Neighbours nearer to each other than this factor are not looked between.
const MIN_STEP: f64 = 1.2;

/// Fewer rounds give intervals too wide to tell timeslices apart.
const MIN_ROUNDS: usize = 3;

/// More timeslices than this add nothing that noise would not hide.
const MAX_POINTS: usize = 8;

/// Why there is nothing to search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TuneError {
    /// The shortest sensible base timeslice is longer than the longest that a
    /// measurement can hold.
    MeasurementTooShort {
        /// The shortest sensible base timeslice.
        floor: Duration,
        /// How long a measurement would have to be for it.
        needed: Duration,
    },
    /// The budget does not suffice for the least that says anything.
    BudgetTooSmall {
        /// The least budget that would.
        needed: Duration,
    },
}

impl fmt::Display for TuneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TuneError::MeasurementTooShort { floor, needed } => write!(
                f,
                "switching takes so long that the base timeslice must be at least {} ms, \
                 and a measurement at least {:.0} s",
                floor.as_millis(),
                needed.as_secs_f64().ceil()
            ),
            TuneError::BudgetTooSmall { needed } => {
                write!(f, "the least that says anything takes {:.0} s", needed.as_secs_f64().ceil())
            }
        }
    }
}

impl std::error::Error for TuneError {}

/// The base timeslices within which to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The shortest.
    pub floor: Duration,
    /// The longest.
    pub ceiling: Duration,
}

/// The bounds for `weights` where no turn is to be shorter than `min_turn`, a switch takes
/// `switching` and a measurement lasts `measurement`: long enough that the shortest turn
/// is worth its switch, short enough that a measurement holds several cycles.
pub fn bounds(
    weights: &[f64],
    min_turn: Duration,
    switching: Duration,
    measurement: Duration,
) -> Result<Bounds, TuneError> {
    let n = weights.len().max(1) as u32;
    // Turns of no length are left out, so they bound nothing.
    let least = weights.iter().copied().filter(|w| *w > 0.0).fold(1.0, f64::min);
    let shortest_turn = min_turn.max(switching.div_f64(MAX_SWITCHING_SHARE));
    let floor = round_up(shortest_turn.div_f64(f64::from(n) * least));
    let ceiling = measurement / (MIN_CYCLES * n);
    if floor > ceiling {
        return Err(TuneError::MeasurementTooShort { floor, needed: floor * MIN_CYCLES * n });
    }
    Ok(Bounds { floor, ceiling })
}

fn round_up(duration: Duration) -> Duration {
    Duration::from_millis(duration.as_nanos().div_ceil(1_000_000) as u64)
}

/// `points` base timeslices from floor to ceiling, evenly spaced on the
/// logarithmic scale, in whole milliseconds and without repeats.
pub fn grid(bounds: Bounds, points: usize) -> Vec<Duration> {
    let (low, high) = (bounds.floor.as_secs_f64(), bounds.ceiling.as_secs_f64());
    let mut slices: Vec<Duration> = match points {
        0 => Vec::new(),
        1 => vec![between(bounds.floor, bounds.ceiling)],
        _ => (0..points)
            .map(|i| low * (high / low).powf(i as f64 / (points - 1) as f64))
            .map(|s| Duration::from_millis((s * 1000.0).round() as u64))
            .collect(),
    };
    slices.dedup();
    slices
}

/// The geometric middle, in whole milliseconds.
fn between(a: Duration, b: Duration) -> Duration {
    Duration::from_millis((a.as_secs_f64() * b.as_secs_f64()).sqrt().mul_add(1000.0, 0.5) as u64)
}

/// A base timeslice and what it gave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The base timeslice, in milliseconds.
    pub base_slice_ms: u64,
    /// The ratio to the default scheduler (more is better); absent where it could
    /// not be measured.
    pub ratio: Option<Interval>,
}

/// The point with the highest ratio; of equals, the one with the longer timeslice,
/// which switches less.
pub fn best(points: &[Point]) -> Option<&Point> {
    points
        .iter()
        .filter_map(|p| p.ratio.map(|r| (p, r.estimate)))
        .max_by(|(p, a), (q, b)| a.total_cmp(b).then(p.base_slice_ms.cmp(&q.base_slice_ms)))
        .map(|(p, _)| p)
}

/// At most `budget` further base timeslices to measure: those in the middle
/// between the best point and its neighbours. Empty when the search is at its end:
/// no budget, nothing measured, or the neighbours are near enough.
pub fn refine(measured: &[Point], budget: usize) -> Vec<Duration> {
    let Some(best) = best(measured) else { return Vec::new() };
    let mut slices: Vec<u64> = measured.iter().map(|p| p.base_slice_ms).collect();
    slices.sort_unstable();
    slices.dedup();
    let at = slices.partition_point(|s| *s < best.base_slice_ms);
    let below = at.checked_sub(1).map(|i| slices[i]);
    let above = slices.get(at + 1).copied();
    // The better neighbour first, in case the budget ends there.
    let ratio = |slice: u64| {
        let point = measured.iter().find(|p| p.base_slice_ms == slice);
        point.and_then(|p| p.ratio).map_or(0.0, |r| r.estimate)
    };
    let mut neighbours: Vec<u64> = below.into_iter().chain(above).collect();
    neighbours.sort_by(|a, b| ratio(*b).total_cmp(&ratio(*a)));
    neighbours
        .into_iter()
        .filter(|n| {
            let (a, b) = (*n as f64, best.base_slice_ms as f64);
            (a / b).max(b / a) >= MIN_STEP
        })
        .map(|n| between(Duration::from_millis(n), Duration::from_millis(best.base_slice_ms)))
        .take(budget)
        .collect()
}

/// How a budget is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allotment {
    /// Points of the grid, for each strategy and mechanism.
    pub grid: usize,
    /// Points of refinement, for each strategy and mechanism.
    pub refinements: usize,
    /// How often each is measured.
    pub rounds: usize,
}

/// Spends `budget` on `searches` searches (one for each strategy and mechanism) and on
/// what has no base timeslice, of which there are `beside`, each measurement taking
/// `measurement` with all that goes with it. The default scheduler is measured once in
/// each round of each of the two stages, the others beside the searches in the first one.
pub fn allot(
    budget: Duration,
    measurement: Duration,
    searches: usize,
    beside: usize,
) -> Result<Allotment, TuneError> {
    let measurement_s = measurement.as_secs_f64().max(1e-3);
    let affordable = (budget.as_secs_f64() / measurement_s) as usize;
    let cost = |points: usize, rounds: usize| {
        let stages = if refinements_of(points) > 0 { 2 } else { 1 };
        rounds * (searches * points + beside + stages)
    };
    let sensible = if searches > 0 { 1..=MAX_POINTS } else { 0..=0 };
    let least = cost(*sensible.start(), MIN_ROUNDS);
    let Some(points) = sensible.rev().find(|p| cost(*p, MIN_ROUNDS) <= affordable) else {
        let needed = Duration::from_secs_f64(least as f64 * measurement_s);
        return Err(TuneError::BudgetTooSmall { needed });
    };
    // What is left over goes into rounds.
    let rounds = affordable / cost(points, 1);
    let refinements = refinements_of(points);
    Ok(Allotment { grid: points - refinements, refinements, rounds })
}

/// A grid of three shows where the best lies; what can be had beyond goes into
/// looking closer there, two points at most (either side of the best).
fn refinements_of(points: usize) -> usize {
    points.saturating_sub(3).min(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn point(base_slice_ms: u64, estimate: f64) -> Point {
        let ratio = Interval { estimate, low: estimate, high: estimate, n: 5 };
        Point { base_slice_ms, ratio: Some(ratio) }
    }

    /// A smooth curve with its top at 1800 ms.
    fn top_at_1800(base: Duration) -> Point {
        let distance = (base.as_secs_f64() / 1.8).ln();
        point(base.as_millis() as u64, 1.04 - 0.05 * distance * distance)
    }

    #[test]
    fn the_shortest_turn_is_worth_its_switch() {
        let b = bounds(&[0.75, 0.25], MIN_TURN_BY_SWAP, ms(133), ms(60_000)).unwrap();
        // The turn with weight 0.25 lasts half of a base timeslice.
        assert_eq!(b.floor, ms(532));
        assert_eq!(b.ceiling, ms(10_000));
        let b = bounds(&[1.0, 0.0], MIN_TURN_BY_SWAP, Duration::ZERO, ms(6_000)).unwrap();
        assert_eq!(b.floor, ms(5), "a cycle of one turn lasts two base timeslices");
    }

    #[test]
    fn by_lane_the_search_goes_down_to_a_millisecond() {
        let change = Duration::from_micros(100);
        let b = bounds(&[0.5, 0.5], MIN_TURN_BY_LANE, change, ms(20_000)).unwrap();
        assert_eq!(b.floor, ms(1));
        assert_eq!(grid(b, 4), [ms(1), ms(15), ms(223), ms(3333)]);
    }

    #[test]
    fn a_measurement_that_cannot_hold_three_cycles_is_refused_with_what_is_needed() {
        let bounds = |measurement| bounds(&[0.5, 0.5], MIN_TURN_BY_SWAP, ms(2500), measurement);
        let e = bounds(ms(10_000)).unwrap_err();
        let TuneError::MeasurementTooShort { floor, needed } = &e else { panic!("{e}") };
        assert_eq!((*floor, *needed), (ms(5000), ms(30_000)));
        assert!(e.to_string().contains("30 s"), "{e}");
        assert!(bounds(*needed).is_ok());
    }

    #[test]
    fn the_grid_keeps_within_its_bounds_and_rises() {
        let b = Bounds { floor: ms(10), ceiling: ms(4000) };
        for points in 1..12 {
            let g = grid(b, points);
            assert_eq!(g.len(), points);
            assert!(g.windows(2).all(|w| w[0] < w[1]), "{g:?}");
            assert!(g.iter().all(|s| (b.floor..=b.ceiling).contains(s)), "{g:?}");
        }
        assert!(grid(b, 0).is_empty());
        assert_eq!(grid(Bounds { floor: ms(5), ceiling: ms(5) }, 4), [ms(5)]);
    }

    #[test]
    fn refining_moves_towards_the_top_and_comes_to_an_end() {
        let b = Bounds { floor: ms(100), ceiling: ms(30_000) };
        let mut points: Vec<Point> = grid(b, 4).into_iter().map(top_at_1800).collect();
        let coarse = best(&points).unwrap().base_slice_ms as f64;
        let mut steps = 0;
        loop {
            let next = refine(&points, 2);
            if next.is_empty() {
                break;
            }
            points.extend(next.into_iter().map(top_at_1800));
            steps += 1;
            assert!(steps < 20, "does not end: {points:?}");
        }
        let fine = best(&points).unwrap().base_slice_ms as f64;
        assert!((fine / 1800.0).ln().abs() <= (coarse / 1800.0).ln().abs());
        assert!((fine / 1800.0 - 1.0).abs() < 0.2, "{fine}");
    }

    #[test]
    fn refining_keeps_to_its_budget_and_looks_on_the_better_side_first() {
        let points = [point(100, 1.0), point(400, 1.05), point(1600, 1.04)];
        assert_eq!(refine(&points, 0), []);
        assert_eq!(refine(&points, 1), [ms(800)]);
        assert_eq!(refine(&points, 5), [ms(800), ms(200)]);
    }

    #[test]
    fn what_could_not_be_measured_is_never_the_best() {
        let lost = Point { base_slice_ms: 50, ratio: None };
        assert_eq!(best(&[lost]), None);
        assert_eq!(refine(&[lost], 3), []);
        assert_eq!(best(&[lost, point(100, 0.9)]).map(|p| p.base_slice_ms), Some(100));
        let same = [point(100, 1.0), point(200, 1.0)];
        assert_eq!(best(&same).map(|p| p.base_slice_ms), Some(200), "the longer of equals");
    }

    #[test]
    fn no_allotment_costs_more_than_the_budget() {
        for budget_s in (60..7200).step_by(97) {
            for searches in 1..=8 {
                let budget = Duration::from_secs(budget_s);
                for beside in [0, 4] {
                    let Ok(a) = allot(budget, ms(12_500), searches, beside) else { continue };
                    let stages = 1 + usize::from(a.refinements > 0);
                    let points = searches * (a.grid + a.refinements);
                    let runs = a.rounds * (points + beside + stages);
                    assert!(ms(12_500) * runs as u32 <= budget, "{a:?} for {budget:?}");
                    assert!(a.rounds >= MIN_ROUNDS && a.grid >= 1, "{a:?}");
                }
            }
        }
    }

    #[test]
    fn a_budget_that_is_too_small_says_how_much_is_needed() {
        let e = allot(ms(10_000), ms(10_000), 8, 0).unwrap_err();
        assert_eq!(e, TuneError::BudgetTooSmall { needed: ms(270_000) });
        assert!(allot(ms(270_000), ms(10_000), 8, 0).is_ok());
        let e = allot(ms(10_000), ms(10_000), 8, 4).unwrap_err();
        assert_eq!(e, TuneError::BudgetTooSmall { needed: ms(390_000) });
    }

    #[test]
    fn what_has_no_base_timeslice_needs_no_search() {
        let a = allot(ms(100_000), ms(10_000), 0, 1).unwrap();
        assert_eq!(a, Allotment { grid: 0, refinements: 0, rounds: 5 });
    }
}

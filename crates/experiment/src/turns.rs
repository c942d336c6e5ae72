//! From weights to turns or lanes, and what turns can be expected to give.

use std::time::Duration;

/// The length of each turn: `t_i = n * t_b * w_i` (section 2.2 of the paper), so
/// that a whole cycle lasts `n` base timeslices whatever the weights are.
///
/// A weight of 0, or one that is no number, gives a turn of no length: whoever
/// takes the turns leaves it out.
pub fn timeslices(base: Duration, weights: &[f64]) -> Vec<Duration> {
    let cycle_s = base.as_secs_f64() * weights.len() as f64;
    weights
        .iter()
        .map(|w| Duration::try_from_secs_f64(cycle_s * w.max(0.0)).unwrap_or(Duration::ZERO))
        .collect()
}

/// The weight of each application's lane, where all run at the same time: its share of
/// what all of them would have at the weight that a cgroup has by default, 100. So an
/// even share is 100, and what runs beside the applications has one share more.
///
/// `parts` is how many parts the lanes have in all: one that several share weighs what they would
/// weigh one by one. In the range of `cpu.weight`; a share of 0, or one that is no number, gives the least.
pub fn lane_weights(shares: &[f64], parts: usize) -> Vec<u32> {
    const DEFAULT: f64 = 100.0;
    let all = parts as f64 * DEFAULT;
    // The cast takes what is no number for 0.
    shares.iter().map(|share| ((share * all).round() as u32).clamp(1, 10_000)).collect()
}

/// The weights in hundredths, adding up to 1 as before: each is rounded down, and
/// what is missing goes to those that lost most by it. A weight below a hundredth can
/// come out as 0.
pub fn rounded(weights: &[f64]) -> Vec<f64> {
    let hundredths: Vec<f64> = weights.iter().map(|w| w * 100.0).collect();
    // Products like 0.29 * 100 fall a hair below the whole number that they are.
    let mut whole: Vec<f64> = hundredths.iter().map(|h| (h + 1e-9).floor()).collect();
    let total: f64 = hundredths.iter().sum::<f64>().round();
    let missing = (total - whole.iter().sum::<f64>()).max(0.0) as usize;
    let mut by_loss: Vec<usize> = (0..weights.len()).collect();
    by_loss.sort_by(|a, b| (hundredths[*b] - whole[*b]).total_cmp(&(hundredths[*a] - whole[*a])));
    by_loss.into_iter().take(missing).for_each(|i| whole[i] += 1.0);
    whole.into_iter().map(|w| w / 100.0).collect()
}

/// The share of a turn (0 to 1) that goes by in switching to it, during which the
/// default scheduler is in force. The paper's 133 ms in 1800 ms are 0.07.
pub fn switching_share(switching: Duration, slice: Duration) -> f64 {
    if slice.is_zero() {
        return 1.0;
    }
    (switching.as_secs_f64() / slice.as_secs_f64()).min(1.0)
}

/// The throughput to expect of taking turns, as a ratio to the default
/// scheduler's, if turns do nothing but add up: each scheduler gives in its turn
/// what it gives alone, and while switching the default scheduler's 1.
///
/// `turns` holds for each the ratio of the *whole* application under that turn's
/// scheduler, the turn's length, and how long switching to it takes. Absent where
/// the turns have no length. What a strategy really gives must be measured; this
/// is the line to compare it with.
pub fn expected_ratio(turns: &[(f64, Duration, Duration)]) -> Option<f64> {
    let total: f64 = turns.iter().map(|(_, slice, _)| slice.as_secs_f64()).sum();
    if total <= 0.0 {
        return None;
    }
    let sum: f64 = turns
        .iter()
        .map(|(ratio, slice, switching)| {
            let lost = switching_share(*switching, *slice);
            slice.as_secs_f64() * (ratio * (1.0 - lost) + lost)
        })
        .sum();
    Some(sum / total).filter(|r| r.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Duration = Duration::from_millis(1800);

    #[test]
    fn even_shares_are_the_default_weight_and_none_is_out_of_range() {
        assert_eq!(lane_weights(&[0.5, 0.5], 2), [100, 100]);
        assert_eq!(lane_weights(&[0.75, 0.25], 2), [150, 50]);
        assert_eq!(lane_weights(&[0.0, f64::NAN, 1e9], 3), [1, 1, 10_000]);
        assert_eq!(lane_weights(&[0.5, 0.5], 4), [200, 200], "each is of two parts");
    }

    #[test]
    fn a_cycle_lasts_one_base_timeslice_for_each_part() {
        for weights in [vec![0.5, 0.5], vec![0.75, 0.25], vec![0.2, 0.3, 0.5], vec![1.0]] {
            let total: Duration = timeslices(BASE, &weights).iter().sum();
            let expected = BASE * weights.len() as u32;
            assert!(total.abs_diff(expected) < Duration::from_micros(1), "{total:?}");
        }
        assert_eq!(
            timeslices(BASE, &[0.75, 0.25]),
            [Duration::from_millis(2700), Duration::from_millis(900)]
        );
    }

    #[test]
    fn a_weight_of_nothing_gives_a_turn_of_no_length() {
        assert_eq!(timeslices(BASE, &[1.0, 0.0]), [BASE * 2, Duration::ZERO]);
        assert_eq!(timeslices(BASE, &[f64::NAN, -1.0]), [Duration::ZERO; 2]);
        assert!(timeslices(BASE, &[]).is_empty());
    }

    #[test]
    fn rounded_weights_still_add_up_and_are_off_by_less_than_a_hundredth() {
        for weights in [
            vec![0.075, 0.925],
            vec![1.0 / 3.0; 3],
            vec![0.29, 0.71],
            vec![1.0],
            vec![0.004, 0.996],
            vec![1.0 / 7.0; 7],
        ] {
            let r = rounded(&weights);
            assert!((r.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{r:?}");
            assert!(r.iter().zip(&weights).all(|(r, w)| (r - w).abs() < 0.01), "{r:?}");
        }
        assert_eq!(rounded(&[0.29, 0.71]), [0.29, 0.71]);
        assert!(rounded(&[]).is_empty());
    }

    #[test]
    fn the_papers_switch_takes_seven_percent_of_its_best_timeslice() {
        let share = switching_share(Duration::from_millis(133), BASE);
        assert!((share - 0.0739).abs() < 1e-4, "{share}");
        assert_eq!(switching_share(BASE, Duration::ZERO), 1.0);
        assert_eq!(switching_share(BASE * 2, BASE), 1.0);
    }

    #[test]
    fn turns_are_expected_to_give_the_mean_of_their_schedulers_less_the_switching() {
        let free = Duration::ZERO;
        let equal = expected_ratio(&[(1.1, BASE, free), (0.9, BASE, free)]).unwrap();
        assert!((equal - 1.0).abs() < 1e-12);
        let half = expected_ratio(&[(1.2, BASE, BASE / 2)]).unwrap();
        assert!((half - 1.1).abs() < 1e-9, "{half}");
        assert_eq!(expected_ratio(&[]), None);
        assert_eq!(expected_ratio(&[(f64::NAN, BASE, free)]), None);
    }
}

//! The weights of the paper's four metaschedulers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::StrategyError;

/// How a metascheduler shares the time between the parts' preferred schedulers
/// (section 2.2 of the paper). With `n` parts, each weight `w_i` is a share of
/// the cycle: the weights add up to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Equal shares, from no data: `w_i = 1 / n`. The paper's point of comparison.
    RoundRobin,
    /// By latency: `w_i = l_i / sum(l)`, with `l_i` the latency of part i alone
    /// under the default scheduler. The part that takes longest gets its scheduler
    /// for longest.
    Delta,
    /// By benefit: `w_i = r_i / sum(r)`, with `r_i` the throughput of part i alone
    /// under its best scheduler, in one of two forms ([`BenefitForm`]).
    Benefit,
    /// Both: the product of the delta and benefit weights, normalised:
    /// `w_i = d_i b_i / sum(d b)`. (The paper leaves the formula out and gives it
    /// in words.)
    DeltaBenefit,
}

impl Strategy {
    /// All four, in the paper's order.
    pub const ALL: [Strategy; 4] =
        [Strategy::RoundRobin, Strategy::Delta, Strategy::Benefit, Strategy::DeltaBenefit];

    /// Its name on the command line and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::RoundRobin => "round-robin",
            Strategy::Delta => "delta",
            Strategy::Benefit => "benefit",
            Strategy::DeltaBenefit => "delta-benefit",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Strategy {
    type Err = StrategyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|s| s.name() == text).ok_or_else(|| StrategyError::UnknownName {
            what: "strategy",
            given: text.to_owned(),
            known: Self::ALL.iter().map(|s| s.name().to_owned()).collect(),
        })
    }
}

/// What the paper's `r_i`, "the throughput under the best scheduler", is taken to
/// be. Throughputs of different parts have different units (requests, queries), so
/// it must be relative to something; the paper does not say what. Its own figures,
/// +6.62 % and +2.91 %, give 0.509 : 0.491 in one form and 0.69 : 0.31 in the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BenefitForm {
    /// The throughput as a ratio to the default scheduler's: 1.0662 and 1.0291.
    ///
    /// The default, because it is the printed formula (throughput, not gain), with
    /// throughput on the scale on which the paper reports it, and because noise of
    /// a percent in a ratio moves a weight by half a percent at most.
    #[default]
    Relative,
    /// The gain alone, ratio - 1, no less than 0: 0.0662 and 0.0291.
    ///
    /// It is nearer to the paper's stated purpose, but noise of a percent can turn
    /// 2 % : 1 % round. A part that gains nothing gets no turn; if no part gains,
    /// there is nothing to tell them apart and all weigh the same.
    Gain,
}

impl BenefitForm {
    /// Both forms, the default first.
    pub const ALL: [BenefitForm; 2] = [BenefitForm::Relative, BenefitForm::Gain];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            BenefitForm::Relative => "relative",
            BenefitForm::Gain => "gain",
        }
    }

    fn of(self, best_ratio: f64) -> f64 {
        match self {
            BenefitForm::Relative => best_ratio,
            BenefitForm::Gain => (best_ratio - 1.0).max(0.0),
        }
    }
}

impl fmt::Display for BenefitForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for BenefitForm {
    type Err = StrategyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|b| b.name() == text).ok_or_else(|| StrategyError::UnknownName {
            what: "form of benefit",
            given: text.to_owned(),
            known: Self::ALL.iter().map(|b| b.name().to_owned()).collect(),
        })
    }
}

/// What the weights need to know of a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AppFigures {
    /// The part's name.
    pub name: String,
    /// Its mean latency alone under the default scheduler, in microseconds (any
    /// unit will do if it is the same for all parts).
    pub eevdf_latency_us: f64,
    /// Its throughput alone under its preferred scheduler over that under the
    /// default scheduler: 1.05 is five percent more.
    pub best_ratio: f64,
}

/// The weights of the parts under a strategy, in their order. Each is between 0
/// and 1 and they add up to 1. A single part gets all of the time.
///
/// # Errors
///
/// [`StrategyError::NoApps`] without parts, [`StrategyError::BadFigure`] if a
/// figure that the strategy uses is not a positive, finite number.
pub fn weights(
    strategy: Strategy,
    apps: &[AppFigures],
    benefit: BenefitForm,
) -> Result<Vec<f64>, StrategyError> {
    let raw: Vec<f64> = match strategy {
        Strategy::RoundRobin => vec![1.0; apps.len()],
        Strategy::Delta => latencies(apps)?,
        Strategy::Benefit => benefits(apps, benefit)?,
        Strategy::DeltaBenefit => {
            // Normalised one by one first, as the paper words it, which also keeps
            // the products within the range of floating point.
            let delta = normalise(&latencies(apps)?)?;
            let benefit = normalise(&benefits(apps, benefit)?)?;
            delta.iter().zip(&benefit).map(|(d, b)| d * b).collect()
        }
    };
    normalise(&raw)
}

fn latencies(apps: &[AppFigures]) -> Result<Vec<f64>, StrategyError> {
    apps.iter().map(|a| positive(a, "latency", a.eevdf_latency_us)).collect()
}

fn benefits(apps: &[AppFigures], form: BenefitForm) -> Result<Vec<f64>, StrategyError> {
    let values: Vec<f64> = apps
        .iter()
        .map(|a| positive(a, "throughput ratio", a.best_ratio).map(|ratio| form.of(ratio)))
        .collect::<Result<_, _>>()?;
    // Only the gain can be 0 for all: nothing tells the parts apart then.
    Ok(if values.iter().all(|v| *v == 0.0) { vec![1.0; values.len()] } else { values })
}

fn positive(app: &AppFigures, figure: &'static str, value: f64) -> Result<f64, StrategyError> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(StrategyError::BadFigure { app: app.name.clone(), figure, value })
    }
}

fn normalise(raw: &[f64]) -> Result<Vec<f64>, StrategyError> {
    // By the largest first, so that the sum of huge values stays finite.
    let largest = raw.iter().copied().reduce(f64::max).ok_or(StrategyError::NoApps)?;
    let sum: f64 = raw.iter().map(|v| v / largest).sum();
    Ok(raw.iter().map(|v| v / largest / sum).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn app(name: &str, eevdf_latency_us: f64, best_ratio: f64) -> AppFigures {
        AppFigures { name: name.into(), eevdf_latency_us, best_ratio }
    }

    /// Front and back end with the paper's gains, and latencies of 3 to 1.
    fn paper() -> Vec<AppFigures> {
        vec![app("front", 3000.0, 1.0662), app("back", 1000.0, 1.0291)]
    }

    fn assert_close(actual: &[f64], expected: &[f64]) {
        assert_eq!(actual.len(), expected.len());
        for (a, e) in actual.iter().zip(expected) {
            assert!((a - e).abs() < 1e-9, "{actual:?} is not {expected:?}");
        }
    }

    /// Parts with figures over twelve orders of magnitude.
    fn random_apps(rng: &mut ChaCha8Rng) -> Vec<AppFigures> {
        let n = rng.random_range(1..=12);
        (0..n)
            .map(|i| {
                let latency = 10f64.powf(rng.random_range(-3.0..9.0));
                app(&format!("app{i}"), latency, rng.random_range(0.2..3.0))
            })
            .collect()
    }

    /// Calls `check` for every strategy and form of benefit on many sets of parts.
    fn for_random_apps(mut check: impl FnMut(Strategy, BenefitForm, &[AppFigures])) {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..300 {
            let apps = random_apps(&mut rng);
            for strategy in Strategy::ALL {
                for form in BenefitForm::ALL {
                    check(strategy, form, &apps);
                }
            }
        }
    }

    #[test]
    fn the_weights_are_those_of_the_papers_formulas() {
        let at = |s, b| weights(s, &paper(), b).unwrap();
        assert_close(&at(Strategy::RoundRobin, BenefitForm::Relative), &[0.5, 0.5]);
        assert_close(&at(Strategy::Delta, BenefitForm::Relative), &[0.75, 0.25]);
        let relative = 1.0662 / (1.0662 + 1.0291);
        assert_close(&at(Strategy::Benefit, BenefitForm::Relative), &[relative, 1.0 - relative]);
        let gain = 6.62 / (6.62 + 2.91);
        assert_close(&at(Strategy::Benefit, BenefitForm::Gain), &[gain, 1.0 - gain]);
        let both = 0.75 * gain / (0.75 * gain + 0.25 * (1.0 - gain));
        assert_close(&at(Strategy::DeltaBenefit, BenefitForm::Gain), &[both, 1.0 - both]);
    }

    #[test]
    fn the_weights_of_any_parts_are_shares_that_add_up_to_one() {
        for_random_apps(|strategy, form, apps| {
            let w = weights(strategy, apps, form).unwrap();
            assert!((w.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{strategy} {form} {w:?}");
            assert!(w.iter().all(|w| (0.0..=1.0).contains(w)), "{strategy} {form} {w:?}");
        });
    }

    #[test]
    fn the_order_of_the_parts_does_not_matter() {
        for_random_apps(|strategy, form, apps| {
            let mut reversed = apps.to_vec();
            reversed.reverse();
            let mut w = weights(strategy, &reversed, form).unwrap();
            w.reverse();
            assert_close(&w, &weights(strategy, apps, form).unwrap());
        });
    }

    #[test]
    fn the_unit_of_the_latency_does_not_matter() {
        for_random_apps(|strategy, form, apps| {
            let mut scaled = apps.to_vec();
            scaled.iter_mut().for_each(|a| a.eevdf_latency_us *= 1e6);
            assert_close(
                &weights(strategy, &scaled, form).unwrap(),
                &weights(strategy, apps, form).unwrap(),
            );
        });
    }

    #[test]
    fn a_higher_figure_never_lowers_a_parts_weight() {
        for_random_apps(|strategy, form, apps| {
            let before = weights(strategy, apps, form).unwrap()[0];
            for (latency, ratio) in [(2.0, 1.0), (1.0, 2.0)] {
                let mut more = apps.to_vec();
                more[0].eevdf_latency_us *= latency;
                more[0].best_ratio *= ratio;
                let after = weights(strategy, &more, form).unwrap()[0];
                // Where no part gained, one that begins to gain takes all: also no less.
                assert!(after >= before - 1e-9, "{strategy} {form}: {before} to {after}");
            }
        });
    }

    #[test]
    fn a_part_that_gains_nothing_gets_no_turn_by_gain() {
        let apps = [app("front", 1.0, 1.05), app("back", 1.0, 0.97)];
        assert_close(&weights(Strategy::Benefit, &apps, BenefitForm::Gain).unwrap(), &[1.0, 0.0]);
    }

    #[test]
    fn where_no_part_gains_all_benefits_weigh_the_same() {
        let apps = [app("front", 3.0, 1.0), app("back", 1.0, 0.97)];
        let at = |s| weights(s, &apps, BenefitForm::Gain).unwrap();
        assert_close(&at(Strategy::Benefit), &[0.5, 0.5]);
        assert_close(&at(Strategy::DeltaBenefit), &[0.75, 0.25]);
    }

    #[test]
    fn one_part_alone_gets_all_of_the_time() {
        for strategy in Strategy::ALL {
            let w = weights(strategy, &[app("only", 5.0, 1.0)], BenefitForm::Gain).unwrap();
            assert_eq!(w, [1.0], "{strategy}");
        }
    }

    #[test]
    fn no_part_at_all_is_an_error() {
        for strategy in Strategy::ALL {
            let e = weights(strategy, &[], BenefitForm::Relative).unwrap_err();
            assert_eq!(e, StrategyError::NoApps);
        }
    }

    #[test]
    fn a_figure_that_is_no_positive_number_is_named_with_its_part() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let apps = [app("front", 1.0, 1.0), app("back", bad, bad)];
            for (strategy, figure) in
                [(Strategy::Delta, "latency"), (Strategy::Benefit, "throughput ratio")]
            {
                let e = weights(strategy, &apps, BenefitForm::Gain).unwrap_err().to_string();
                assert!(e.contains("back") && e.contains(figure), "{e}");
            }
            // Round robin uses no figure, so a wrong one does not harm it.
            assert!(weights(Strategy::RoundRobin, &apps, BenefitForm::Gain).is_ok());
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for strategy in Strategy::ALL {
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
        }
        for form in BenefitForm::ALL {
            assert_eq!(form.to_string().parse(), Ok(form));
        }
        let e = "roundrobin".parse::<Strategy>().unwrap_err().to_string();
        assert!(e.contains("'roundrobin'") && e.contains("round-robin, delta"), "{e}");
    }
}

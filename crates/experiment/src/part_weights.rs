//! Weights that a user gives to the parts of a whole.

use std::str::FromStr;

use metasched_base::{Error, Kind, Result};

use crate::rounded;

/// What each part weighs beside the others, in the parts' order: `1:2` gives the second twice
/// what the first has.
#[derive(Clone, Debug, PartialEq)]
pub struct PartWeights(Vec<u32>);

impl PartWeights {
    /// For two that know nothing of each other: twice as much for one, then for the other.
    pub fn of_two() -> Vec<Self> {
        vec![Self(vec![1, 2]), Self(vec![2, 1])]
    }

    /// How many parts they are for.
    pub fn parts(&self) -> usize {
        self.0.len()
    }

    /// The share of each part in hundredths, from 0 to 1; together they are 1.
    pub(crate) fn shares(&self) -> Vec<f64> {
        let all = f64::from(self.0.iter().sum::<u32>());
        rounded(&self.0.iter().map(|weight| f64::from(*weight) / all).collect::<Vec<_>>())
    }
}

impl FromStr for PartWeights {
    type Err = Error;

    /// # Errors
    /// [`Kind::Usage`] if there are fewer than two, or one is no number from 1 to 10,000.
    fn from_str(text: &str) -> Result<Self> {
        let refuse = |cause: String| {
            Error::new(Kind::Usage, format!("read '{text}' as the weights of lanes"), cause)
                .remedy("write one for each part with colons between them, like 1:2")
        };
        let weight = |one: &str| match one.trim().parse::<u32>() {
            Ok(weight) if (1..=10_000).contains(&weight) => Ok(weight),
            _ => Err(refuse(format!("'{one}' is not a whole number from 1 to 10000"))),
        };
        let weights = text.split(':').map(weight).collect::<Result<Vec<_>>>()?;
        let least = weights.iter().min().copied().unwrap_or_default();
        if weights.len() < 2 {
            return Err(refuse("it is one weight alone".to_owned()));
        }
        if least * 100 < weights.iter().sum() {
            return Err(refuse("the least is less than a hundredth of all".to_owned()));
        }
        Ok(Self(weights))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_shares_in_hundredths() {
        let shares = |text: &str| text.parse::<PartWeights>().unwrap().shares();
        assert_eq!(shares("1:2"), [0.33, 0.67]);
        assert_eq!(shares("1:1:2"), [0.25, 0.25, 0.5]);
        assert_eq!(shares("1:99"), [0.01, 0.99], "the least that is told apart");
        let two: Vec<Vec<f64>> = PartWeights::of_two().iter().map(PartWeights::shares).collect();
        assert_eq!(two, [[0.33, 0.67], [0.67, 0.33]]);
    }

    #[test]
    fn what_are_no_weights_is_refused_with_how_to_write_them() {
        for wrong in ["", "1", "1:", "0:1", "-1:2", "1:x", "1:10001", "1:100", "0.5:0.5"] {
            let e = wrong.parse::<PartWeights>().unwrap_err();
            assert!(e.kind == Kind::Usage && e.remedy.contains("1:2"), "{wrong}: {e}");
        }
    }
}

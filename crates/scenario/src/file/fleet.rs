//! Many machines that are alike, over which functions are placed.

use super::raw;
use super::read::Reader;
use super::values::wrong;
use metasched_base::{Error, Kind, Result, nearest};
use std::str::FromStr;
use toml::Spanned;

/// No fleet has more machines.
const MACHINES_MOST: u64 = 10_000;
/// How many there are, the least and the most, and so many are what others are compared with.
const MACHINES: (u64, u64) = (8, 14);
const BASELINE: u64 = 12;

/// How a function finds its machine when it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placer {
    /// Where least is asked for, as Kubernetes' `LeastAllocated`.
    Spread,
    /// Where most is asked for among those with room, as its `MostAllocated`.
    Pack,
    /// Where least is used.
    LeastLoaded,
}

impl Placer {
    const ALL: [(&'static str, Placer); 3] =
        [("spread", Placer::Spread), ("pack", Placer::Pack), ("least-loaded", Placer::LeastLoaded)];

    /// As files write it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, placer)| *placer == self).map_or("", |(name, _)| name)
    }
}

impl FromStr for Placer {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let names = Self::ALL.map(|(name, _)| name);
        let found = Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, placer)| *placer);
        found.ok_or_else(|| {
            let near = nearest(text, names).map(|near| format!("did you mean '{near}'?"));
            let remedy = near.unwrap_or_else(|| format!("there are {}", names.join(", ")));
            let cause = format!("there is no placer '{text}'");
            Error::new(Kind::Usage, "choose who places functions", cause).remedy(remedy)
        })
    }
}

/// What is asked of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetSpec {
    /// How many machines there are, each of these numbers in turn, in ascending order.
    pub machines: Vec<u64>,
    /// So many under the first scheduler are what all is compared with.
    pub baseline: u64,
    /// The schedulers; [`metasched_abi::EEVDF`] or a policy.
    pub schedulers: Vec<String>,
    /// Who places.
    pub placer: Placer,
    /// To how much of a machine's CPUs requests may come, in thousandths.
    pub fill: u64,
}

impl Reader<'_> {
    /// `[fleet]`.
    pub fn fleet(&self, fleet: &raw::Fleet) -> Result<FleetSpec> {
        let (least, most) = match &fleet.machines {
            None => MACHINES,
            Some(text) => self.text(text, |text| {
                let (least, most) = text.split_once("..").unwrap_or((text, text));
                let number = |text: &str| text.trim().parse::<u64>().ok();
                let (Some(least), Some(most)) = (number(least), number(most)) else {
                    return Err(wrong(
                        format!("'{text}' is no number of machines"),
                        "write \"8..14\"",
                    ));
                };
                if least == 0 || least > most || most > MACHINES_MOST {
                    let remedy = format!("write the fewest first, 1 to {MACHINES_MOST}");
                    return Err(wrong(format!("'{text}' is out of range"), remedy));
                }
                Ok((least, most))
            })?,
        };
        let placer = match &fleet.placer {
            None => Placer::Spread,
            Some(text) => self.text(text, |text| {
                text.parse::<Placer>().map_err(|error| wrong(error.cause, error.remedy))
            })?,
        };
        let baseline = match &fleet.baseline {
            None => BASELINE.clamp(least, most),
            some => self.number(some, BASELINE, least..=most)?,
        };
        let named = |name: &Spanned<String>| self.text(name, |name| Ok(name.to_owned()));
        Ok(FleetSpec {
            baseline,
            schedulers: fleet.schedulers.iter().map(named).collect::<Result<_>>()?,
            placer,
            fill: self.thousandths(&fleet.fill, 1.0, 0.001..=100.0)?,
            machines: (least..=most).collect(),
        })
    }
}

//! How a machine may be scheduled: what is measured against the default scheduler.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Strategy;

/// A scheduler for the whole machine, or several that share it by a strategy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Contender {
    /// One scheduler for the whole machine, all the time.
    Scheduler {
        /// Its name, its options included.
        name: String,
    },
    /// Schedulers that take turns, each for the whole machine.
    Turns {
        /// How the time is shared.
        strategy: Strategy,
        /// How turns are changed; its name says enough here.
        mechanism: String,
        /// The base timeslice, in milliseconds.
        base_slice_ms: u64,
        /// The turns, in their order.
        turns: Vec<Share>,
    },
    /// Policies side by side, each on a lane of its own.
    Lanes {
        /// How the CPUs are shared; absent where the lanes' weights are by no formula.
        strategy: Option<Strategy>,
        /// The policy of everything else.
        default: String,
        /// The lanes.
        lanes: Vec<Share>,
    },
}

/// A turn or a lane: its application, its scheduler, and its share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The parts of the application. Several that prefer the same policy share one lane.
    pub parts: Vec<String>,
    /// The scheduler's name, its options included.
    pub scheduler: String,
    /// Its share of the whole, from 0 to 1.
    pub weight: f64,
}

/// Between the names of parts that share something.
const AND: &str = "+";

impl Share {
    /// Its parts, as one name: `front+back`.
    pub fn name(&self) -> String {
        self.parts.join(AND)
    }

    /// The parts of a name.
    pub fn parts_of(name: &str) -> Vec<String> {
        name.split(AND).map(str::to_owned).collect()
    }
}

impl Contender {
    /// One scheduler.
    pub fn scheduler(name: impl Into<String>) -> Self {
        Contender::Scheduler { name: name.into() }
    }

    /// How much there is to it, least first: of what is about as good, the simplest is taken.
    pub(crate) fn complexity(&self) -> u8 {
        match self {
            Contender::Scheduler { .. } => 0,
            Contender::Lanes { .. } => 1,
            Contender::Turns { .. } => 2,
        }
    }

    /// The strategy by which several share the machine.
    pub fn strategy(&self) -> Option<Strategy> {
        match self {
            Contender::Scheduler { .. } => None,
            Contender::Turns { strategy, .. } => Some(*strategy),
            Contender::Lanes { strategy, .. } => *strategy,
        }
    }

    /// By what they share it, in a word: the strategy, or the weights in hundredths (`33:67`).
    pub fn by(&self) -> String {
        self.strategy().map_or_else(
            || in_hundredths(self.shares().iter().map(|share| share.weight)),
            |strategy| strategy.to_string(),
        )
    }

    /// The turns or the lanes.
    pub fn shares(&self) -> &[Share] {
        match self {
            Contender::Scheduler { .. } => &[],
            Contender::Turns { turns: shares, .. } | Contender::Lanes { lanes: shares, .. } => {
                shares
            }
        }
    }

    /// Every scheduler that it needs.
    pub fn schedulers(&self) -> Vec<&str> {
        let own = match self {
            Contender::Scheduler { name } => Some(name),
            Contender::Turns { .. } => None,
            Contender::Lanes { default, .. } => Some(default),
        };
        let shares = self.shares().iter().map(|share| &share.scheduler);
        own.into_iter().chain(shares).map(String::as_str).collect()
    }

    /// The base timeslice, where there are turns.
    pub fn base_slice_ms(&self) -> Option<u64> {
        match self {
            Contender::Turns { base_slice_ms, .. } => Some(*base_slice_ms),
            _ => None,
        }
    }

    /// How turns are changed, where there are some.
    pub fn mechanism(&self) -> Option<&str> {
        match self {
            Contender::Turns { mechanism, .. } => Some(mechanism),
            _ => None,
        }
    }

    /// The same but for the base timeslice.
    pub fn with_base_slice(&self, ms: u64) -> Self {
        let mut other = self.clone();
        if let Contender::Turns { base_slice_ms, .. } = &mut other {
            *base_slice_ms = ms;
        }
        other
    }

    /// What each part is under: `front: fifo, back: vtime`.
    pub fn assignments(&self) -> String {
        let of = |share: &Share| format!("{}: {}", share.parts.join(" and "), share.scheduler);
        self.shares().iter().map(of).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Contender::Scheduler { name } => f.write_str(name),
            Contender::Turns { strategy, mechanism, base_slice_ms, .. } => {
                write!(f, "{strategy}, turns of {base_slice_ms} ms by {mechanism}")
            }
            Contender::Lanes { .. } => write!(f, "{}, lanes side by side", self.by()),
        }
    }
}

/// Weights from 0 to 1 as a word: `33:67`.
pub fn in_hundredths(weights: impl Iterator<Item = f64>) -> String {
    let hundredths = weights.map(|weight| format!("{:.0}", weight * 100.0));
    hundredths.collect::<Vec<_>>().join(":")
}

//! What must hold in every run, whatever the scenario. A checker sees only the
//! stream of events, never the engine's own tables: when the engine is wrong, it
//! must not be wrong with it.

mod affinity;
mod calls;
mod cpus;
mod hierarchy;
mod lane_shares;
mod lanes;
mod order;
mod parked;
mod picture;
mod quota;
mod served;
mod shares;
mod storms;
mod tasks;
mod waiting;

pub use affinity::AffinityKept;
pub use calls::CallsEnd;
pub use lane_shares::LaneShares;
pub use lanes::{DeadLanesEmpty, LanesDrained, OneLanePerTask};
pub use order::CallbacksInOrder;
pub use parked::ParkedBounded;
pub use quota::QuotaKept;
pub use served::{AccountsServed, Quarantined};
pub use shares::{Shares, SharesNearWeights};
pub use storms::NoKickStorm;
pub use tasks::{NoTaskLost, OneCpuPerTask};
pub use waiting::{WaitingBounded, WorkConserved};

use crate::kinds::Kinds;
use crate::trace::Observed;

/// One thing that must hold.
pub trait Checker {
    /// What it is called in a failure.
    fn name(&self) -> &'static str;

    /// The kinds of events that it wants to see; all unless it says otherwise.
    fn wants(&self) -> Kinds {
        Kinds::ALL
    }

    /// It wants to see any event that comes later than this, ns, since then a time may be up;
    /// never unless it says otherwise. It may change with each event that it sees.
    fn look_at(&self) -> u64 {
        u64::MAX
    }

    /// Looks at one event.
    ///
    /// # Errors
    /// What does not hold, in words.
    fn observe(&mut self, event: &Observed) -> Result<(), String>;

    /// Looks at the end of the run.
    ///
    /// # Errors
    /// What does not hold, in words.
    fn finish(&mut self, _now: u64) -> Result<(), String> {
        Ok(())
    }
}

/// How far a lane's share may be from its weight's unless a run says otherwise, as a part of the
/// latter: over a second a lane with an eighth of a CPU has some thirty runs, one more or less at
/// either end, and one out of its turn each 64 ms.
const LANE_SHARES: f64 = 0.2;

/// What level 1 promises besides, on a machine of so many CPUs with so long between ticks, ns.
pub fn of_level1(cpus: usize, tick_ns: u64, lane_shares: Option<f64>) -> Vec<Box<dyn Checker>> {
    vec![
        Box::<OneLanePerTask>::default(),
        Box::<DeadLanesEmpty>::default(),
        Box::new(LanesDrained::new(tick_ns)),
        Box::new(AccountsServed::new(cpus, tick_ns)),
        Box::<Quarantined>::default(),
        Box::new(QuotaKept::new(tick_ns)),
        Box::new(LaneShares::new(cpus, lane_shares.unwrap_or(LANE_SHARES))),
        Box::<ParkedBounded>::default(),
        Box::<CallsEnd>::default(),
        Box::<NoKickStorm>::default(),
    ]
}

/// A span of time as a person reads it.
fn ms(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

/// A short span of time as a person reads it.
fn us(ns: u64) -> String {
    format!("{:.3} us", ns as f64 / 1e3)
}

#[cfg(test)]
pub(crate) mod testing {
    use super::picture::Picture;
    use super::*;
    use crate::abi::CpuMask;
    use crate::metasched::{LaneSeen, LaneState};
    use crate::task::TaskId;
    use crate::trace::What;
    use std::rc::Rc;

    /// Feeds a hand-made stream of (time, CPU, task, event) to a checker.
    pub fn feed(
        checker: &mut dyn Checker,
        events: impl IntoIterator<Item = (u64, usize, usize, What)>,
    ) -> Result<(), String> {
        for (at, cpu, task, what) in events {
            let task = (!matches!(what, What::Idle | What::Busy | What::Offline | What::Online))
                .then_some(TaskId(task));
            checker.observe(&Observed { at, cpu, task, what })?;
        }
        Ok(())
    }

    /// A lane of the given weight 100 that is served, in the slot of its generation's number.
    pub fn lane(generation: u64, state: LaneState, app: u32) -> LaneSeen {
        LaneSeen {
            slot: generation as u32,
            generation,
            policy: 0,
            state,
            app,
            given: Some(100),
            quarantined: false,
            served: true,
            conserves: true,
        }
    }

    /// Tells a picture of things that happen to no task.
    pub fn feed_picture(picture: &mut Picture, events: impl IntoIterator<Item = What>) {
        for what in events {
            picture.take(&Observed { at: 0, cpu: 0, task: None, what });
        }
    }

    pub fn arrive(cpus: &[usize]) -> What {
        let allowed = Rc::new(cpus.iter().copied().collect::<CpuMask>());
        What::Arrive { weight: 100, allowed, kthread: false }
    }
}

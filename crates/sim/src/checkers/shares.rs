use super::Checker;
use crate::kinds::Kinds;
use crate::task::TaskId;
use crate::trace::{Observed, What};
use std::collections::BTreeMap;

/// What is expected of the shares: it depends on the scenario, so it is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// How far a task's share may lie from its weight's, as a part of the latter.
    pub tolerance: f64,
}

/// Tasks that always want a CPU get CPU time in proportion to their weights.
///
/// Only tasks that never slept are compared, from the moment at which the last of
/// them first ran; the machine must have fewer CPUs than any of them could fill.
pub struct SharesNearWeights {
    shares: Shares,
    tasks: BTreeMap<TaskId, Ran>,
}

struct Ran {
    weight: u32,
    slept: bool,
    /// Intervals in which it ran, as (start, end).
    runs: Vec<(u64, u64)>,
    started: Option<u64>,
}

impl SharesNearWeights {
    /// With the scenario's tolerance.
    pub fn new(shares: Shares) -> Self {
        SharesNearWeights { shares, tasks: BTreeMap::new() }
    }
}

impl Checker for SharesNearWeights {
    fn name(&self) -> &'static str {
        "shares_near_weights"
    }

    fn wants(&self) -> Kinds {
        Kinds::ARRIVE.and(Kinds::START).and(Kinds::STOP).and(Kinds::SLEEP).and(Kinds::WEIGHT)
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        let Some(id) = event.task else { return Ok(()) };
        if let What::Arrive { weight, .. } = event.what {
            let ran = Ran { weight, slept: false, runs: Vec::new(), started: None };
            self.tasks.insert(id, ran);
            return Ok(());
        }
        let Some(task) = self.tasks.get_mut(&id) else { return Ok(()) };
        match event.what {
            What::Start => task.started = Some(event.at),
            What::Stop { .. } => {
                if let Some(start) = task.started.take() {
                    task.runs.push((start, event.at));
                }
            }
            What::Sleep | What::Weight(_) => task.slept = true,
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self, now: u64) -> Result<(), String> {
        for task in self.tasks.values_mut() {
            if let Some(start) = task.started.take() {
                task.runs.push((start, now));
            }
        }
        let busy: Vec<(&TaskId, &Ran)> =
            self.tasks.iter().filter(|(_, t)| !t.slept && !t.runs.is_empty()).collect();
        let from = busy.iter().map(|(_, t)| t.runs[0].0).max().unwrap_or(now);
        let ran = |t: &Ran| -> u64 {
            t.runs.iter().map(|(start, end)| end.saturating_sub(*start.max(&from))).sum()
        };
        let total: u64 = busy.iter().map(|(_, t)| ran(t)).sum();
        let weights: u64 = busy.iter().map(|(_, t)| u64::from(t.weight)).sum();
        if busy.len() < 2 || total == 0 {
            return Err("fewer than two tasks were always busy: nothing to compare".into());
        }
        for (id, task) in busy {
            let share = ran(task) as f64 / total as f64;
            let due = f64::from(task.weight) / weights as f64;
            if (share - due).abs() > due * self.shares.tolerance {
                return Err(format!(
                    "task {} of weight {} got {:.1} % of the time, {:.1} % is due",
                    id.0,
                    task.weight,
                    share * 100.0,
                    due * 100.0
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{arrive, feed};
    use super::*;

    fn taking_turns(first_ns: u64, second_ns: u64) -> Result<(), String> {
        let mut checker = SharesNearWeights::new(Shares { tolerance: 0.1 });
        feed(&mut checker, [(0, 0, 1, arrive(&[0])), (0, 0, 2, arrive(&[0]))])?;
        let mut at = 0;
        for _ in 0..20 {
            for (task, ns) in [(1, first_ns), (2, second_ns)] {
                feed(&mut checker, [(at, 0, task, What::Start)])?;
                at += ns;
                feed(&mut checker, [(at, 0, task, What::Stop { runnable: true })])?;
            }
        }
        checker.finish(at)
    }

    #[test]
    fn equal_weights_want_equal_time() {
        taking_turns(10, 10).unwrap();
        assert!(taking_turns(10, 15).unwrap_err().contains("50.0 % is due"));
    }

    #[test]
    fn a_run_without_busy_tasks_shows_nothing() {
        let mut checker = SharesNearWeights::new(Shares { tolerance: 0.1 });
        assert!(checker.finish(100).is_err());
    }
}

//! Making a case that fails smaller, as long as the same checker fails: delta debugging
//! over the value.

use super::{Act, Case, Does, Machine, Timed, When};
use crate::machine::HZ;
use crate::{Failure, us};

/// What is left of a case.
pub struct Shrunk {
    /// The smallest that was found.
    pub case: Case,
    /// How it fails.
    pub failure: Failure,
    /// How many runs that took.
    pub runs: u64,
}

struct Shrinker<'a> {
    case: Case,
    failure: Failure,
    run: &'a dyn Fn(&Case) -> Option<Failure>,
    runs: u64,
    most: u64,
}

/// The smallest case, within at most `most` runs, that fails by the checker by which this one
/// does; `run` says how a case fails.
pub fn shrink(
    case: Case,
    failure: Failure,
    most: u64,
    run: &dyn Fn(&Case) -> Option<Failure>,
) -> Shrunk {
    let mut shrinker = Shrinker { case, failure, run, runs: 0, most };
    // Each step may make room for those before it.
    loop {
        let before = shrinker.case.clone();
        shrinker.end_early();
        shrinker.drop_acts();
        shrinker.drop_tasks();
        shrinker.fewer_cpus();
        shrinker.simpler_tasks();
        shrinker.simpler_acts();
        if shrinker.case == before || shrinker.runs >= shrinker.most {
            break;
        }
    }
    let Shrinker { case, failure, runs, .. } = shrinker;
    Shrunk { case, failure, runs }
}

impl Shrinker<'_> {
    /// Takes the changed case if it differs and fails in the same way.
    fn attempt(&mut self, change: impl FnOnce(&mut Case)) -> bool {
        let mut changed = self.case.clone();
        change(&mut changed);
        if changed == self.case || self.runs >= self.most {
            return false;
        }
        self.runs += 1;
        match (self.run)(&changed) {
            Some(failure) if failure.check == self.failure.check => {
                (self.case, self.failure) = (changed, failure);
                true
            }
            _ => false,
        }
    }

    /// Nothing that comes after the failure made it.
    fn end_early(&mut self) {
        let at = self.failure.at;
        self.attempt(|case| {
            case.acts.retain(|timed| matches!(timed.when, When::At(ns) if ns <= at));
        });
        self.attempt(|case| {
            let last = case.acts.iter().filter_map(|timed| match timed.when {
                When::At(ns) => Some(ns),
                When::After(_) => None,
            });
            let last = last.max().unwrap_or(0);
            if case.acts.iter().all(|timed| matches!(timed.when, When::At(_))) {
                case.calm_ns = last + us(1);
            }
        });
    }

    /// Leaves out chunks of a list, large ones first.
    fn drop_some<T>(&mut self, of: impl Fn(&mut Case) -> &mut Vec<T>) {
        let mut chunk = of(&mut self.case).len();
        while chunk > 0 {
            let mut from = 0;
            while from < of(&mut self.case).len() {
                let to = (from + chunk).min(of(&mut self.case).len());
                let dropped = self.attempt(|case| {
                    of(case).drain(from..to);
                });
                if !dropped {
                    from = to;
                }
            }
            chunk /= 2;
        }
    }

    fn drop_acts(&mut self) {
        self.drop_some(|case| &mut case.acts);
    }

    fn drop_tasks(&mut self) {
        self.drop_some(|case| &mut case.tasks);
    }

    fn fewer_cpus(&mut self) {
        self.attempt(|case| case.machine.hz = HZ);
        let hz = self.case.machine.hz;
        let alike = |cpus| Machine { hz, ..Machine::cpus(cpus) };
        self.attempt(|case| case.machine = alike(case.machine.cpus));
        for cpus in [1, 2, self.case.machine.cpus / 2, self.case.machine.cpus.saturating_sub(1)] {
            if cpus > 0 && cpus < self.case.machine.cpus {
                self.attempt(|case| case.machine = alike(cpus));
            }
        }
    }

    fn simpler_tasks(&mut self) {
        for i in 0..self.case.tasks.len() {
            self.attempt(|case| case.tasks[i].cpus.clear());
            self.attempt(|case| case.tasks[i].weight = 100);
            self.attempt(|case| case.tasks[i].arrives_ns = 0);
            self.attempt(|case| case.tasks[i].kthread = false);
            self.attempt(|case| case.tasks[i].cgroup.clear());
            self.attempt(|case| {
                (case.tasks[i].rounds, case.tasks[i].does) =
                    (None, vec![Does::Run(1_000_000_000, 1_000_000_000)]);
            });
            self.attempt(|case| {
                let does = case.tasks[i].does.drain(..);
                let plain = does.flat_map(|does| match does {
                    Does::Call(within) => within,
                    other => vec![other],
                });
                case.tasks[i].does = plain.collect();
            });
            for step in (0..self.case.tasks[i].does.len()).rev() {
                self.attempt(|case| {
                    case.tasks[i].does.remove(step);
                });
            }
        }
    }

    fn simpler_acts(&mut self) {
        for i in 0..self.case.acts.len() {
            self.attempt(|case| simplify(&mut case.acts[i]));
            for ns in [0, 100_000_000, 10_000_000, 1_000_000] {
                self.attempt(|case| {
                    if let When::At(at) = &mut case.acts[i].when {
                        *at = at.checked_div(ns).map_or(0, |whole| whole * ns);
                    }
                });
            }
        }
        // In the order in which they are done, where that makes no difference.
        self.attempt(|case| {
            case.acts.sort_by_key(|timed| match timed.when {
                When::At(ns) => (0, ns),
                When::After(events) => (1, events),
            });
        });
    }
}

fn simplify(timed: &mut Timed) {
    match &mut timed.act {
        Act::SetApp { policy, weight, options, .. } => {
            options.clear();
            *weight = 100;
            if policy == "vtime" {
                *policy = "fifo".to_owned();
            }
        }
        Act::StartTurns { turns } => turns.truncate(2),
        Act::CgroupMax { burst_us, .. } => *burst_us = 0,
        Act::LaneWeight { weight, .. } => *weight = 100,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::generate;

    fn failure(check: &str) -> Failure {
        crate::policy("shrinking", "fifo").failure(check, "", 0, Vec::new())
    }

    #[test]
    fn what_makes_no_difference_is_left_out() {
        let fails = |case: &Case| {
            let detaches = case.acts.iter().any(|timed| timed.act == Act::Detach);
            (detaches && case.tasks.len() >= 2).then(|| failure("this"))
        };
        let case = (1..).map(generate).find(|case| fails(case).is_some()).unwrap();
        let shrunk = shrink(case, failure("this"), 1_000, &fails);
        assert_eq!(shrunk.case.tasks.len(), 2);
        assert_eq!(shrunk.case.acts.len(), 1);
        assert_eq!(shrunk.case.machine.cpus, 1);
        assert!(shrunk.runs < 200, "{}", shrunk.runs);
    }

    #[test]
    fn another_failure_is_not_taken_for_this_one() {
        let case = generate(1);
        let other = |_: &Case| Some(failure("another"));
        assert_eq!(shrink(case.clone(), failure("this"), 100, &other).case, case);
    }
}

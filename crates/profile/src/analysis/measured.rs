//! What the store says, as the planner takes it.

use std::collections::BTreeMap;
use std::time::Duration;

use metasched_control::SwitchRecord;
use metasched_experiment::{CandidateRounds, Measured, Objective, Part, Whole};
use metasched_stats::median;

use super::{Analysis, FormFigures};
use crate::BASELINE;

impl Analysis {
    /// What the planner wants to know.
    pub fn measured(&self) -> Measured {
        let whole = self.composition.whole.as_deref();
        let part = |form: &FormFigures| Part {
            name: form.form.clone(),
            objective: self.objective(form),
            latency_us: Some(form.baseline.mean_us).filter(|us| *us > 0.0),
            candidates: candidates(form),
            asked: None,
        };
        let is_part = |form: &FormFigures| self.composition.parts.contains(&form.form);
        let (parts, others): (Vec<_>, Vec<_>) = self
            .forms
            .iter()
            .filter(|form| Some(form.form.as_str()) != whole)
            .partition(|form| is_part(form));
        Measured {
            application: self.workload.clone(),
            kernel: Some(self.environment.kernel.clone()),
            machine: self.environment.machine.clone(),
            default: BASELINE.to_owned(),
            parts: parts.into_iter().map(part).collect(),
            missing: self
                .composition
                .parts
                .iter()
                .filter(|name| self.form(name).is_none())
                .cloned()
                .collect(),
            whole: self.whole().map(|form| Whole {
                name: form.form.clone(),
                objective: self.objective(form),
                candidates: candidates(form),
                metaschedulers: self
                    .strategies
                    .iter()
                    .map(|s| (s.contender.clone(), s.rounds.rounds.clone()))
                    .collect(),
            }),
            others: others.into_iter().map(part).collect(),
            switching: switching_times(&self.switches),
        }
    }

    /// What a form is for: what its manifest says; where that is not found, its unit tells.
    fn objective(&self, form: &FormFigures) -> Objective {
        let by_unit = || Objective::by_default(form.unit != "runs");
        self.objectives.get(&form.form).copied().unwrap_or_else(by_unit)
    }
}

fn candidates(form: &FormFigures) -> Vec<CandidateRounds> {
    let versioned = |c: &super::CandidateFigures| CandidateRounds {
        version: c.version.clone(),
        ..c.rounds.clone()
    };
    form.candidates.iter().map(versioned).collect()
}

/// The median time that switching to each candidate took, by the mechanism that
/// takes least.
fn switching_times(records: &[SwitchRecord]) -> BTreeMap<String, Duration> {
    let mut times: BTreeMap<(&str, bool), Vec<f64>> = BTreeMap::new();
    for r in records {
        times.entry((&r.to, r.replaced_a_lane())).or_default().push(r.total_ns as f64);
    }
    let mut least: BTreeMap<String, Duration> = BTreeMap::new();
    for ((to, _), ns) in times {
        let Some(ns) = median(&ns) else { continue };
        let time = Duration::from_nanos(ns as u64);
        least.entry(to.to_owned()).and_modify(|t| *t = time.min(*t)).or_insert(time);
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_switching_takes_is_that_of_the_quicker_mechanism() {
        let record = |write_ns: Option<u64>, total_ns| SwitchRecord {
            from: "eevdf".into(),
            to: "fifo".into(),
            mechanism: metasched_control::Mechanism::Swap,
            stop_ns: None,
            start_ns: None,
            write_ns,
            total_ns,
        };
        let times = switching_times(&[
            record(None, 900_000_000),
            record(Some(40_000), 60_000),
            record(Some(40_000), 80_000),
            record(Some(40_000), 70_000),
        ]);
        assert_eq!(times["fifo"], Duration::from_nanos(70_000));
    }
}

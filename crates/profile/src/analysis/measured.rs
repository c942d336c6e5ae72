//! What the store says, as the planner takes it.

use std::collections::BTreeMap;
use std::time::Duration;

use metasched_control::SwitchRecord;
use metasched_experiment::{CandidateRounds, Measured, Objective, Part, Whole};
use metasched_stats::median;

use super::{Analysis, FormFigures, SideFigures};
use crate::BASELINE;

impl Analysis {
    /// What the planner wants to know. Each of a pair is judged by what it had while both ran: what
    /// it prefers alone says little of what it wants beside the other.
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
        let (alone, others): (Vec<_>, Vec<_>) = self
            .forms
            .iter()
            .filter(|form| Some(form.form.as_str()) != whole)
            .partition(|form| is_part(form));
        let mut others: Vec<Part> = others.into_iter().map(part).collect();
        let alone = alone.into_iter().map(part);
        let (parts, together) = match self.together() {
            Some(parts) => {
                others.extend(alone.map(|p| Part { name: format!("{}, alone", p.name), ..p }));
                (parts, true)
            }
            None => (alone.collect(), false),
        };
        Measured {
            application: self.workload.clone(),
            kernel: Some(self.environment.kernel.clone()),
            machine: self.environment.machine.clone(),
            default: BASELINE.to_owned(),
            missing: self
                .composition
                .parts
                .iter()
                .filter(|name| parts.iter().all(|part| part.name != **name))
                .cloned()
                .collect(),
            parts,
            together,
            whole: self.whole().map(|form| Whole {
                name: form.form.clone(),
                objective: self.objective(form),
                candidates: candidates(form),
                metaschedulers: self
                    .strategies
                    .iter()
                    .map(|s| (s.contender.clone(), s.rounds.rounds.clone()))
                    .collect(),
                beside: self.beside_strategies.clone(),
            }),
            others,
            switching: switching_times(&self.switches),
        }
    }

    /// The two of a pair, each by its own load while both ran under single schedulers; none where
    /// it is no pair, or they were not measured together.
    fn together(&self) -> Option<Vec<Part>> {
        let whole = self.whole()?;
        let under = |side: &SideFigures| {
            let single = whole.candidates.iter().find(|single| single.name == side.subject)?;
            Some(CandidateRounds { version: single.version.clone(), ..side.candidate.clone() })
        };
        let part = |name: &String| {
            let sides = self.sides.iter().filter(|side| side.name == *name);
            let candidates: Vec<CandidateRounds> = sides.filter_map(under).collect();
            (!candidates.is_empty()).then(|| Part {
                name: name.clone(),
                objective: self.objectives.get(name).copied().unwrap_or_default(),
                latency_us: self.side_latencies_us.get(name).copied(),
                candidates,
                asked: None,
            })
        };
        self.composition
            .parts
            .iter()
            .map(part)
            .collect::<Option<Vec<_>>>()
            .filter(|p| !p.is_empty())
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

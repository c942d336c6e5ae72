//! Metaschedulers as subjects.

use metasched_base::{Error, Kind, Result};
use metasched_control::{Candidate, Mechanism, resolve};
use metasched_profile::{Subject, TurnShare, read_plan};

use super::Args;

/// A subject for each strategy and base timeslice; the candidates that they need are
/// added to `pool`.
pub(super) fn subjects(
    args: &Args,
    table: &[Candidate],
    pool: &mut Vec<Candidate>,
) -> Result<Vec<Subject>> {
    let Some(path) = &args.plan else {
        return Err(Error::new(Kind::Usage, "measure a metascheduler", "there is no plan").remedy(
            "make one with: metasched plan --json > plan.json; then give --plan plan.json",
        ));
    };
    let plan = read_plan(path)?;
    let mut preferred = Vec::new();
    for app in &plan.apps {
        let candidate = resolve(table, &app.preferred)?;
        pool.push(candidate.clone());
        preferred.push(candidate);
    }
    let policies = preferred.iter().all(Candidate::turns_by_lane);
    let mechanism =
        args.mechanism.unwrap_or(if policies { Mechanism::Lane } else { Mechanism::Swap });
    if mechanism == Mechanism::Lane && !policies {
        let other = preferred.iter().find(|c| !c.turns_by_lane());
        let other = other.map(|c| c.name.as_str()).unwrap_or_default();
        return Err(Error::new(
            Kind::Usage,
            "take turns by lanes",
            format!("the plan prefers '{other}', which is not one of our policies, or has options"),
        )
        .remedy("use --mechanism swap"));
    }
    let mut subjects = Vec::new();
    for strategy in &args.strategy {
        let mut turns = Vec::new();
        for (app, candidate) in plan.apps.iter().zip(&preferred) {
            let weight = app.weights.get(strategy).ok_or_else(|| {
                Error::new(
                    Kind::BadInput,
                    format!("use the plan '{path}'"),
                    format!("'{}' has no weight for '{strategy}'", app.name),
                )
                .remedy("make it anew: metasched plan --json")
            })?;
            turns.push(TurnShare::new(app.name.clone(), candidate, *weight));
        }
        for base in &args.base_slice {
            subjects.push(Subject::Strategy {
                strategy: strategy.to_string(),
                mechanism,
                base_slice_ms: u64::try_from(base.as_millis()).unwrap_or(u64::MAX).max(1),
                turns: turns.clone(),
            });
        }
    }
    Ok(subjects)
}

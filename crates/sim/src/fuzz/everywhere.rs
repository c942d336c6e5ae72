//! One reassignment more, at every possible point: right after each event of a run in turn.

use super::{Act, Case, Timed, When, scenario};
use crate::Failure;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// The changes of hands that make sense in a case: every kind, of one application and cgroup
/// that it knows.
pub fn reassignments(case: &Case) -> Vec<Act> {
    let apps: BTreeSet<u32> = case.acts.iter().filter_map(|timed| app_of(&timed.act)).collect();
    let cgroups: BTreeSet<&String> =
        case.tasks.iter().map(|task| &task.cgroup).filter(|path| !path.is_empty()).collect();
    let policy = || case.root.clone();
    let mut acts = vec![Act::ReplaceRoot { policy: policy() }];
    if let Some(app) = apps.first().copied() {
        let options = Vec::new();
        acts.push(Act::SetApp { app, policy: policy(), weight: 100, options });
        acts.push(Act::DropApp { app });
    }
    if let (Some(app), Some(cgroup)) = (apps.last().copied(), cgroups.first().copied()) {
        acts.push(Act::Assign { cgroup: cgroup.clone(), app });
        acts.push(Act::Unassign { cgroup: cgroup.clone() });
    }
    if let Some(cgroup) = cgroups.last().copied() {
        acts.push(Act::MoveTask { task: 0, cgroup: cgroup.clone() });
    }
    acts
}

fn app_of(act: &Act) -> Option<u32> {
    match act {
        Act::SetApp { app, .. } | Act::Assign { app, .. } => Some(*app),
        _ => None,
    }
}

/// How many events a case has before faults stop.
///
/// # Errors
/// How it fails as it is.
pub fn events_before_calm(case: &Case) -> Result<u64, Failure> {
    let (seen, last) = (Rc::new(Cell::new(0)), case.calm_ns.saturating_sub(1));
    let counter = seen.clone();
    scenario(case).at(last, move |kernel| counter.set(kernel.handled())).run()?;
    Ok(seen.get())
}

/// The case with each of these acts after each of its first `events` events: a case for every
/// act and event.
pub fn everywhere(case: &Case, acts: Vec<Act>, events: u64) -> impl Iterator<Item = Case> {
    let case = case.clone();
    (1..=events).flat_map(move |event| {
        let (case, when) = (case.clone(), When::After(event));
        acts.clone().into_iter().map(move |act| {
            let mut more = case.clone();
            more.acts.push(Timed { when, act });
            more
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::generate;

    #[test]
    fn there_is_a_case_for_every_act_and_event() {
        let case = generate(1);
        let acts = vec![Act::Reap, Act::StopTurns];
        let all: Vec<Case> = everywhere(&case, acts, 3).collect();
        let last = |case: &Case| case.acts.last().unwrap().clone();
        assert_eq!(all.len(), 6);
        assert_eq!(last(&all[0]), Timed { when: When::After(1), act: Act::Reap });
        assert_eq!(last(&all[5]), Timed { when: When::After(3), act: Act::StopTurns });
        assert!(all.iter().all(|more| more.acts.len() == case.acts.len() + 1));
    }

    #[test]
    fn every_kind_of_reassignment_that_a_case_has_room_for_comes() {
        let with_apps = |case: &Case| {
            case.acts.iter().any(|timed| app_of(&timed.act).is_some())
                && case.tasks.iter().any(|task| !task.cgroup.is_empty())
        };
        let case = (1..).map(generate).find(with_apps).unwrap();
        let text = format!("{:?}", reassignments(&case));
        for kind in ["ReplaceRoot", "SetApp", "DropApp", "Assign", "Unassign", "MoveTask"] {
            assert!(text.contains(kind), "'{kind}' never comes");
        }
    }
}

//! What a hierarchy of cgroups leaves the lightest task of a case.

use super::{Act, Case};
use std::collections::BTreeMap;

/// Of a cgroup that nobody has touched, and of a task of nice 0: `WEIGHT_DFL` of `bpf/lane.h`.
const DEFAULT: f64 = 100.0;
/// Of a cgroup with `cpu.idle`: `WEIGHT_IDLE` there.
const IDLE: f64 = 1.0;

/// The least and the greatest weight that something ever has.
#[derive(Clone, Copy)]
struct Range {
    low: f64,
    high: f64,
}

impl Range {
    const UNTOUCHED: Range = Range { low: DEFAULT, high: DEFAULT };

    fn has(&mut self, weight: f64) {
        (self.low, self.high) = (self.low.min(weight), self.high.max(weight));
    }
}

/// The part of a machine, above 0 and 1 at most, that `cpu.weight` and `cpu.idle` leave the
/// lightest task, level by level, in the worst order of what the case does: with the least weight
/// that each cgroup above it ever has, beside the greatest of each sibling and of all `tasks`,
/// which may all be at each level. `ratio` is the heaviest task's weight over the lightest's.
pub fn least_part(case: &Case, tasks: u64, ratio: u64) -> f64 {
    let mut cgroups: BTreeMap<String, Range> = BTreeMap::new();
    let mut seen = |path: &str| {
        for (end, _) in path.match_indices('/').chain([(path.len(), "")]) {
            cgroups.entry(path[..end].to_owned()).or_insert(Range::UNTOUCHED);
        }
    };
    case.tasks.iter().for_each(|task| seen(&task.cgroup));
    for timed in &case.acts {
        match &timed.act {
            Act::MoveTask { cgroup, .. }
            | Act::CgroupWeight { cgroup, .. }
            | Act::CgroupIdle { cgroup, .. } => seen(cgroup),
            _ => {}
        }
    }
    for timed in &case.acts {
        let (cgroup, weight) = match &timed.act {
            Act::CgroupWeight { cgroup, weight } => (cgroup, f64::from(*weight)),
            Act::CgroupIdle { cgroup, idle: true } => (cgroup, IDLE),
            _ => continue,
        };
        if let Some(range) = cgroups.get_mut(cgroup) {
            range.has(weight);
        }
    }
    // A cgroup alone at a level has all of it, whatever its weight.
    let (nr_tasks, ratio) = (tasks as f64, ratio as f64);
    let beside = |above: &str, but: &str| -> f64 {
        let siblings = cgroups.iter().filter(|(path, _)| *path != but && parent(path) == above);
        siblings.map(|(_, range)| range.high).sum::<f64>()
    };
    let own = 1.0 / (1.0 + (nr_tasks - 1.0).max(0.0) * ratio);
    let part = |path: &str| -> f64 {
        let mut part = 1.0;
        let mut at = path;
        while !at.is_empty() {
            let low = cgroups[at].low;
            part *= low / (low + beside(parent(at), at) + nr_tasks * DEFAULT * ratio);
            at = parent(at);
        }
        part
    };
    own * cgroups.keys().map(|path| part(path)).fold(1.0, f64::min)
}

fn parent(path: &str) -> &str {
    path.rfind('/').map_or("", |end| &path[..end])
}

#[cfg(test)]
mod tests {
    use super::super::{Timed, When, generate};
    use super::*;

    fn case(acts: Vec<Act>) -> Case {
        let acts = acts.into_iter().map(|act| Timed { when: When::At(0), act }).collect();
        Case { acts, tasks: Vec::new(), ..generate(1) }
    }

    fn weight(cgroup: &str, weight: u32) -> Act {
        Act::CgroupWeight { cgroup: cgroup.to_owned(), weight }
    }

    #[test]
    fn tasks_that_are_alike_have_equal_parts() {
        assert_eq!(least_part(&case(Vec::new()), 4, 1), 0.25);
        assert_eq!(least_part(&case(Vec::new()), 1, 1), 1.0);
    }

    #[test]
    fn each_level_takes_its_part() {
        // Beside its sibling of 10,000 and a task of 100; twice, since the sibling may be light too.
        let acts = || vec![weight("a/b", 1), weight("a/c", 10_000)];
        let (below, above) = (1.0 / (1.0 + 10_000.0 + 100.0), 100.0 / 200.0);
        let part = least_part(&case(acts()), 1, 1);
        assert!((part - below * above).abs() < 1e-12, "{part}");
        // What was heavy and gets light is taken at its worst.
        let more = [acts(), vec![weight("a/c", 2)]].concat();
        assert_eq!(least_part(&case(more), 1, 1), part);
    }

    #[test]
    fn an_idle_cgroup_has_next_to_nothing() {
        let idle = Act::CgroupIdle { cgroup: "a".to_owned(), idle: true };
        let part = least_part(&case(vec![idle]), 1, 1);
        assert_eq!(part, 1.0 / 101.0);
    }
}

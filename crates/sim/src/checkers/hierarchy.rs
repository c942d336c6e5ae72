use super::picture::Picture;
use crate::dense::Dense;
use crate::trace::What;
use metasched_abi::WEIGHT_DFL;
use std::collections::{BTreeMap, BTreeSet};

/// What `cpu.weight` says in the hierarchy, as `meta/shares.bpf.h` promises it: worked out
/// anew each time that it is asked for, and exactly.
#[derive(Default)]
pub struct Weights(Dense<Option<u32>>);

impl Weights {
    pub fn take(&mut self, what: &What) {
        if let What::CgroupWeight { cgroup, weight } = what {
            *self.0.at(*cgroup as usize) = Some(*weight);
        }
    }

    /// The part of the machine that each application has (0: everything else), while tasks
    /// directly in those cgroups want to run.
    pub fn shares(&self, picture: &Picture, busy: &BTreeSet<u64>) -> BTreeMap<u32, f64> {
        let mut tree = Tree {
            weights: self,
            picture,
            children: BTreeMap::new(),
            own: busy,
            busy: busy.iter().flat_map(|id| picture.line(*id)).collect(),
            open: BTreeSet::new(),
            shares: BTreeMap::new(),
        };
        let all: BTreeSet<u64> = busy.iter().flat_map(|id| picture.line(*id)).collect();
        for (id, above) in picture.cgroups() {
            if let Some(above) = above {
                if picture.assigned_to(id).is_some() {
                    tree.open.extend(picture.line(above));
                }
                if all.contains(&id) {
                    tree.children.entry(above).or_default().push(id);
                }
            }
        }
        let roots: Vec<u64> =
            all.iter().copied().filter(|id| picture.line(*id).nth(1).is_none()).collect();
        for root in roots {
            tree.spread(root, 0, 1.0);
        }
        tree.shares
    }
}

struct Tree<'a> {
    weights: &'a Weights,
    picture: &'a Picture,
    /// Those that have work, below those that have.
    children: BTreeMap<u64, Vec<u64>>,
    /// With tasks of their own that want to run; those, and what is above them.
    own: &'a BTreeSet<u64>,
    busy: BTreeSet<u64>,
    /// Above one that is assigned.
    open: BTreeSet<u64>,
    shares: BTreeMap<u32, f64>,
}

impl Tree<'_> {
    /// What a cgroup weighs beside its siblings. A weight that the user gave is shared by those
    /// of the application's cgroups that have work.
    fn weight(&self, id: u64) -> f64 {
        let app = self.picture.assigned_to(id);
        let given = app.and_then(|app| self.picture.lane_of_app(app)).and_then(|lane| lane.given);
        match given {
            Some(given) => {
                let same = |other: &&u64| self.picture.assigned_to(**other) == app;
                f64::from(given) / self.busy.iter().filter(same).count() as f64
            }
            None => f64::from(self.weights.0.get(id as usize).unwrap_or(WEIGHT_DFL)),
        }
    }

    fn spread(&mut self, id: u64, above: u32, share: f64) {
        // Without a lane it is everything else's.
        let app = match self.picture.assigned_to(id) {
            Some(app) => self.picture.lane_of_app(app).map_or(0, |lane| lane.app),
            None => above,
        };
        if !self.open.contains(&id) {
            *self.shares.entry(app).or_default() += share;
            return;
        }
        let children = self.children.get(&id).cloned().unwrap_or_default();
        // Tasks that are directly in it count as one more child.
        let own = if self.own.contains(&id) { f64::from(WEIGHT_DFL) } else { 0.0 };
        let sum = own + children.iter().map(|child| self.weight(*child)).sum::<f64>();
        if own > 0.0 {
            *self.shares.entry(app).or_default() += share * own / sum;
        }
        for child in children {
            self.spread(child, app, share * self.weight(child) / sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{feed_picture, lane};
    use super::*;
    use crate::metasched::LaneState::InForce;

    /// P (2) with c1 (3) and c2 (4), which is assigned to 1, and Q (5), all below the root (1).
    fn shares(given: Option<u32>, busy: &[u64]) -> Vec<(u32, f64)> {
        let mut of_c2 = lane(2, InForce, 1);
        of_c2.given = given;
        let cgroups = [(1, None), (2, Some(1)), (3, Some(2)), (4, Some(2)), (5, Some(1))];
        let mut picture = Picture::default();
        let events = cgroups.map(|(id, above)| What::Cgroup { id, above }).into_iter().chain([
            What::Lanes([lane(1, InForce, 0), of_c2].into()),
            What::Assign { cgroup: 4, app: 1 },
        ]);
        feed_picture(&mut picture, events);
        let mut weights = Weights::default();
        weights.take(&What::CgroupWeight { cgroup: 3, weight: 300 });
        weights.shares(&picture, &busy.iter().copied().collect()).into_iter().collect()
    }

    #[test]
    fn a_share_is_that_of_the_cgroup_above_by_the_weights_of_those_with_work() {
        assert_eq!(shares(None, &[3, 4, 5]), [(0, 0.875), (1, 0.125)]);
        assert_eq!(shares(None, &[4, 5]), [(0, 0.5), (1, 0.5)]);
        assert_eq!(shares(Some(900), &[3, 4]), [(0, 0.25), (1, 0.75)]);
        // Tasks of P and of the root themselves.
        assert_eq!(shares(None, &[1, 2, 4]), [(0, 0.75), (1, 0.25)]);
    }
}

//! The fair shares of those that share CPUs, and what is owed to who has less than his.
//!
//! A machine whose number of threads follows phantoms and idle CPUs alone rests at any division of
//! the CPUs: nothing tells it that another one holds more than its share. What is owed to it says
//! so.

use std::collections::{BTreeMap, BTreeSet};

/// The default of `cpu.weight`, and what is taken for who is in a cgroup itself.
const WEIGHT: f64 = 100.0;

/// What one of them may claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claim {
    /// The CPUs that it may use.
    pub cpus: BTreeSet<u32>,
    /// How much of a CPU it is to have, beside the others that may use it: more than 0.
    pub weight: f64,
    /// So many CPUs it can use at most: it has no more threads.
    pub most: f64,
}

/// What one of them had over some time, in CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Had {
    /// On so many its threads ran, in the mean.
    pub used: f64,
    /// So many that it may use were idle, in the mean.
    pub idle: f64,
    /// So many of its threads waited for a CPU, in the mean.
    pub phantoms: f64,
}

/// What somebody is owed and owes, in CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Debt {
    /// What others hold beyond their fair shares, as far as he has less than his own.
    pub owed: f64,
    /// What he holds beyond his fair share, as far as threads of those wait for it to whom it is
    /// owed.
    pub owing: f64,
}

/// CPUs that several may use, and how they are to be divided.
#[derive(Clone, Debug, Default)]
pub struct FairShares {
    claims: Vec<Claim>,
    alike: Vec<Alike>,
}

/// CPUs that the same ones may use.
#[derive(Clone, Debug)]
struct Alike {
    whose: Vec<usize>,
    count: f64,
    /// The first of those that have CPUs in common with these ones, be it by way of others.
    circle: usize,
}

/// How CPUs are divided.
struct Division {
    /// How many CPUs each is to have.
    fair: Vec<f64>,
    /// Of CPUs that are alike, the part of each that may use them, in the order that they have
    /// there.
    parts: Vec<Vec<f64>>,
}

impl FairShares {
    /// Of those that claim CPUs.
    pub fn of(claims: Vec<Claim>) -> Self {
        let mut by_cpu: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, claim) in claims.iter().enumerate() {
            for cpu in &claim.cpus {
                by_cpu.entry(*cpu).or_default().push(at);
            }
        }
        let mut counts: BTreeMap<Vec<usize>, f64> = BTreeMap::new();
        for whose in by_cpu.into_values() {
            *counts.entry(whose).or_default() += 1.0;
        }
        let mut circles: Vec<usize> = (0..claims.len()).collect();
        for whose in counts.keys() {
            let merged: Vec<usize> = whose.iter().map(|at| circles[*at]).collect();
            let first = *merged.iter().min().expect("somebody may use it");
            circles.iter_mut().filter(|circle| merged.contains(circle)).for_each(|c| *c = first);
        }
        let alike = counts.into_iter().map(|(whose, count)| {
            let circle = circles[whose[0]];
            Alike { whose, count, circle }
        });
        Self { alike: alike.collect(), claims }
    }

    /// What was claimed.
    pub fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// How many CPUs each is to have of what they have together, and of what is idle.
    pub fn fair(&self, had: &[Had]) -> Vec<f64> {
        self.divide(had).fair
    }

    /// What is owed to each by those that share CPUs with it. Idle CPUs come first: what these make
    /// good is not owed.
    ///
    /// Each CPU is divided by weight among those that may use it. What one of them has too few
    /// threads for the others have. What other work holds, which claims nothing, is not divided.
    ///
    /// Where several have less than their shares each is owed of what others hold by how much it
    /// lacks. So all together are never owed more than others hold. And nobody owes what nobody
    /// waits for: who does not take what is owed to him leaves it to the others.
    pub fn debts(&self, had: &[Had]) -> Vec<Debt> {
        if self.alike.iter().all(|alike| alike.whose.len() < 2) {
            return vec![Debt::default(); had.len()];
        }
        let Division { fair, parts } = self.divide(had);
        let lacks: Vec<f64> =
            fair.iter().zip(had).map(|(fair, had)| (fair - had.used).max(0.0)).collect();
        // Who owes to whom, and how much.
        let mut each: Vec<(usize, usize, f64)> = Vec::new();
        let mut owed = vec![0.0; had.len()];
        for (other, (fair, had)) in fair.iter().zip(had).enumerate() {
            let beyond = had.used - fair;
            if beyond <= 0.0 {
                continue;
            }
            // What the share of each has of the CPUs that the other may use.
            let mut common = vec![0.0; owed.len()];
            for (alike, parts) in self.alike.iter().zip(&parts) {
                if alike.whose.contains(&other) {
                    alike.whose.iter().zip(parts).for_each(|(at, part)| common[*at] += part);
                }
            }
            let lacking: Vec<usize> =
                (0..owed.len()).filter(|at| common[*at] > 0.0 && lacks[*at] > 0.0).collect();
            let all: f64 = lacking.iter().map(|at| lacks[*at]).sum();
            for at in lacking {
                let cpus = (lacks[at] * (beyond / all).min(1.0)).min(common[at]);
                owed[at] += cpus;
                each.push((other, at, cpus));
            }
        }
        let mut debts: Vec<Debt> = (0..had.len())
            .map(|at| Debt { owed: (owed[at].min(lacks[at]) - had[at].idle).max(0.0), owing: 0.0 })
            .collect();
        for (other, at, cpus) in each {
            let waits = debts[at].owed.min(had[at].phantoms);
            debts[other].owing += waits * cpus / owed[at];
        }
        debts
    }

    /// Divides what they have together, and what is idle.
    fn divide(&self, had: &[Had]) -> Division {
        let mut left: Vec<f64> = self.alike.iter().map(|a| a.count * self.held(a, had)).collect();
        let mut parts: Vec<Vec<f64>> =
            self.alike.iter().map(|alike| vec![0.0; alike.whose.len()]).collect();
        let mut open = vec![true; self.claims.len()];
        // Each round but the last one closes somebody.
        loop {
            let mut fair = vec![0.0; self.claims.len()];
            for (alike, (left, parts)) in self.alike.iter().zip(left.iter().zip(&mut parts)) {
                let weights = alike.whose.iter().filter(|at| open[**at]);
                let weights: f64 = weights.map(|at| self.claims[*at].weight).sum();
                for (at, part) in alike.whose.iter().zip(parts) {
                    if open[*at] {
                        *part = left * self.claims[*at].weight / weights;
                    }
                    fair[*at] += *part;
                }
            }
            let full = |at: usize| open[at] && fair[at] > self.claims[at].most;
            if !(0..open.len()).any(full) {
                return Division { fair, parts };
            }
            for (alike, (left, parts)) in self.alike.iter().zip(left.iter_mut().zip(&mut parts)) {
                for (at, part) in alike.whose.iter().zip(parts) {
                    if full(*at) {
                        *part *= self.claims[*at].most / fair[*at];
                        *left = (*left - *part).max(0.0);
                    }
                }
            }
            open = (0..open.len()).map(|at| open[at] && !full(at)).collect();
        }
    }

    /// The part of these CPUs that is held by those who claim them, or idle: nobody knows who runs
    /// where, so it is that of all CPUs in the circle.
    fn held(&self, of: &Alike, had: &[Had]) -> f64 {
        let circle = || self.alike.iter().filter(|alike| alike.circle == of.circle);
        let whose: BTreeSet<usize> =
            circle().flat_map(|alike| alike.whose.iter().copied()).collect();
        let used: f64 = whose.iter().map(|at| had[*at].used).sum();
        let idle = whose.iter().map(|at| had[*at].idle).fold(0.0, f64::max);
        ((used + idle) / circle().map(|alike| alike.count).sum::<f64>()).min(1.0)
    }
}

/// The part of the machine that the kernel gives to each of them, by the cgroups that they are in:
/// at each level the weights of those count in which some of them are. `lines` has of each its
/// cgroups from the root down, by name and `cpu.weight`. One that is in a cgroup directly counts
/// there as 100, beside those that are below.
pub fn parts_by_cgroup(lines: &[Vec<(String, u32)>]) -> Vec<f64> {
    /// What is in a cgroup: the weights of those below, and of those in it.
    #[derive(Default)]
    struct Inside {
        below: BTreeMap<String, f64>,
        own: f64,
    }
    impl Inside {
        fn all(&self) -> f64 {
            self.own + self.below.values().sum::<f64>()
        }
    }
    let mut tree: BTreeMap<Vec<&str>, Inside> = BTreeMap::new();
    for line in lines {
        let mut path = Vec::new();
        for (name, weight) in line {
            let inside = tree.entry(path.clone()).or_default();
            inside.below.insert(name.clone(), f64::from(*weight));
            path.push(name);
        }
        tree.entry(path).or_default().own += WEIGHT;
    }
    let part = |line: &Vec<(String, u32)>| {
        let (mut part, mut path) = (1.0, Vec::new());
        for (name, weight) in line {
            part *= f64::from(*weight) / tree[&path].all();
            path.push(name.as_str());
        }
        part * WEIGHT / tree[&path].all()
    };
    lines.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn claim(cpus: std::ops::Range<u32>, weight: f64, most: f64) -> Claim {
        Claim { cpus: cpus.collect(), weight, most }
    }

    fn shares(claims: &[(std::ops::Range<u32>, f64, f64)]) -> FairShares {
        let claim = |(cpus, weight, most): &(std::ops::Range<u32>, f64, f64)| {
            claim(cpus.clone(), *weight, *most)
        };
        FairShares::of(claims.iter().map(claim).collect())
    }

    fn had(used: &[f64]) -> Vec<Had> {
        used.iter().map(|used| Had { used: *used, ..Had::default() }).collect()
    }

    fn owed(shares: &FairShares, had: &[Had]) -> Vec<f64> {
        shares.debts(had).iter().map(|debt| debt.owed).collect()
    }

    /// What is fair where they have all CPUs.
    fn fair(claims: &[(std::ops::Range<u32>, f64, f64)]) -> Vec<f64> {
        shares(claims).fair(&vec![Had { idle: 99.0, ..Had::default() }; claims.len()])
    }

    fn near(found: &[f64], wanted: &[f64]) {
        let apart = found.iter().zip(wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(found.len() == wanted.len() && apart < 1e-9, "{found:?}, not {wanted:?}");
    }

    #[test]
    fn cpus_are_divided_by_weight_among_those_that_may_use_them() {
        near(&fair(&[(0..36, 1.0, 36.0), (0..36, 1.0, 36.0)]), &[18.0, 18.0]);
        near(&fair(&[(0..36, 1.0, 36.0), (0..36, 2.0, 36.0)]), &[12.0, 24.0]);
        // Of the second pair of CPUs each has one, and the rest for itself.
        near(&fair(&[(0..4, 1.0, 9.0), (2..8, 1.0, 9.0)]), &[3.0, 5.0]);
        near(&fair(&[(0..4, 1.0, 9.0), (4..8, 7.0, 9.0)]), &[4.0, 4.0]);
        near(&fair(&[(0..0, 1.0, 9.0), (0..8, 1.0, 9.0)]), &[0.0, 8.0]);
    }

    #[test]
    fn what_somebody_has_no_threads_for_the_others_have() {
        let all = [(0..36, 1.0, 4.0), (0..36, 1.0, 36.0), (0..36, 1.0, 36.0)];
        near(&fair(&all), &[4.0, 16.0, 16.0]);
        // The second one has too few only when the first one's are divided.
        let all = [(0..36, 1.0, 4.0), (0..36, 1.0, 14.0), (0..36, 1.0, 36.0)];
        near(&fair(&all), &[4.0, 14.0, 18.0]);
        near(&fair(&[(0..8, 1.0, 2.0), (0..8, 1.0, 3.0)]), &[2.0, 3.0]);
        near(&fair(&[(0..8, 1.0, 0.0), (0..8, 1.0, 30.0)]), &[0.0, 8.0]);
    }

    #[test]
    fn what_other_work_holds_is_not_divided() {
        let all = [(0..36, 1.0, 36.0), (0..36, 2.0, 36.0), (36..40, 1.0, 9.0)];
        let division = shares(&all).divide(&had(&[6.0, 18.0, 1.0]));
        near(&division.fair, &[8.0, 16.0, 1.0]);
        let idle = |used| Had { used, idle: 3.0, phantoms: 0.0 };
        near(&shares(&all).fair(&[idle(6.0), idle(18.0), Had::default()]), &[9.0, 18.0, 0.0]);
        // Circles join by whom they have in common.
        let chain = shares(&[(0..4, 1.0, 9.0), (2..8, 1.0, 9.0), (6..10, 1.0, 9.0)]);
        near(&chain.divide(&had(&[5.0, 0.0, 0.0])).fair, &[1.5, 2.0, 1.5]);
    }

    #[test]
    fn who_has_less_than_his_share_is_owed_what_others_hold_beyond_theirs() {
        let two = shares(&[(0..36, 1.0, 36.0), (0..36, 1.0, 36.0)]);
        near(&owed(&two, &had(&[30.0, 6.0])), &[0.0, 12.0]);
        near(&owed(&two, &had(&[18.0, 18.0])), &[0.0, 0.0]);
        // Ten CPUs are held by others.
        near(&owed(&two, &had(&[20.0, 6.0])), &[0.0, 7.0]);
        near(&owed(&two, &had(&[13.0, 13.0])), &[0.0, 0.0]);
        let idle = |used| Had { used, idle: 1.5, phantoms: 0.0 };
        near(&owed(&two, &[idle(20.0), idle(14.5)]), &[0.0, 0.5]);
        // By how much each lacks.
        let three = shares(&[(0..36, 1.0, 36.0), (0..36, 1.0, 36.0), (0..36, 1.0, 36.0)]);
        near(&owed(&three, &had(&[28.0, 0.0, 8.0])), &[0.0, 12.0, 4.0]);
        // The second one lacks nothing: it has no more threads.
        let few = shares(&[(0..36, 1.0, 36.0), (0..36, 1.0, 2.0), (0..36, 1.0, 36.0)]);
        near(&owed(&few, &had(&[30.0, 2.0, 4.0])), &[0.0, 0.0, 13.0]);
    }

    #[test]
    fn who_holds_more_than_his_share_owes_what_others_wait_for() {
        let two = shares(&[(0..36, 1.0, 36.0), (0..36, 1.0, 36.0)]);
        let owing = |shares: &FairShares, had: &[(f64, f64)]| -> Vec<f64> {
            let had = had.iter().map(|(used, phantoms)| Had {
                used: *used,
                idle: 0.0,
                phantoms: *phantoms,
            });
            shares.debts(&had.collect::<Vec<_>>()).iter().map(|debt| debt.owing).collect()
        };
        // It is owed 12, and has threads for three of them.
        near(&owing(&two, &[(30.0, 5.0), (6.0, 3.0)]), &[3.0, 0.0]);
        near(&owing(&two, &[(30.0, 5.0), (6.0, 0.0)]), &[0.0, 0.0]);
        near(&owing(&two, &[(30.0, 5.0), (6.0, 30.0)]), &[12.0, 0.0]);
        near(&owing(&two, &[(18.0, 5.0), (18.0, 5.0)]), &[0.0, 0.0]);
        // Two owe by how much each holds.
        let three = shares(&[(0..36, 1.0, 36.0), (0..36, 1.0, 36.0), (0..36, 1.0, 36.0)]);
        near(&owing(&three, &[(14.0, 0.0), (18.0, 0.0), (4.0, 4.0)]), &[1.0, 3.0, 0.0]);
    }

    #[test]
    fn nobody_owes_who_cannot_use_his_cpus() {
        let apart = shares(&[(0..4, 1.0, 9.0), (4..8, 1.0, 9.0), (0..4, 1.0, 9.0)]);
        near(&owed(&apart, &had(&[4.0, 1.0, 0.0])), &[0.0, 0.0, 2.0]);
        // The third one may use a single CPU of those that the first one holds, and half of it is
        // its.
        let one = shares(&[(0..8, 1.0, 9.0), (0..7, 1.0, 9.0), (7..16, 1.0, 9.0)]);
        near(&owed(&one, &had(&[16.0, 0.0, 0.0])), &[0.0, 3.5, 0.5]);
    }

    /// Whoever they are and whatever they had.
    #[test]
    fn nobody_is_owed_more_than_he_lacks_nor_all_together_more_than_others_hold() {
        let mut random = ChaCha8Rng::seed_from_u64(16);
        let mut owing = 0;
        for _ in 0..20_000 {
            let count = random.random_range(1..6);
            let claims: Vec<Claim> = (0..count)
                .map(|_| {
                    let from = random.random_range(0..4_u32);
                    let until = from + random.random_range(0..6);
                    let most = f64::from(random.random_range(0..8_u32));
                    claim(from..until, random.random_range(0.1..10.0), most)
                })
                .collect();
            let had: Vec<Had> = (0..count)
                .map(|_| Had {
                    used: random.random_range(0.0..8.0),
                    idle: f64::from(random.random_range(0..2_u32)) * random.random_range(0.0..2.0),
                    phantoms: random.random_range(0.0..8.0),
                })
                .collect();
            let shares = FairShares::of(claims.clone());
            let (fair, debts) = (shares.fair(&had), shares.debts(&had));
            let owed: Vec<f64> = debts.iter().map(|debt| debt.owed).collect();
            let cpus: BTreeSet<u32> = claims.iter().flat_map(|c| c.cpus.clone()).collect();
            assert!(fair.iter().sum::<f64>() <= cpus.len() as f64 + 1e-9, "{claims:?}: {fair:?}");
            for (fair, claim) in fair.iter().zip(&claims) {
                let most = claim.most.min(claim.cpus.len() as f64) + 1e-9;
                assert!((0.0..=most).contains(fair), "{claims:?}: {fair}");
            }
            let beyond: f64 = (0..count).map(|at| (had[at].used - fair[at]).max(0.0)).sum();
            assert!(owed.iter().sum::<f64>() <= beyond + 1e-9, "{claims:?} {had:?}: {owed:?}");
            for at in 0..count {
                let lacks = (fair[at] - had[at].used - had[at].idle).max(0.0);
                assert!((0.0..=lacks + 1e-9).contains(&owed[at]), "{claims:?} {had:?}: {owed:?}");
            }
            let mut waits = 0.0;
            for at in 0..count {
                let beyond = (had[at].used - fair[at]).max(0.0);
                assert!((0.0..=beyond + 1e-9).contains(&debts[at].owing), "{had:?}: {debts:?}");
                waits += owed[at].min(had[at].phantoms) - debts[at].owing;
            }
            assert!(
                waits.abs() < 1e-9,
                "{had:?}: {debts:?}: all that is waited for is owed by somebody"
            );
            assert!(count > 1 || debts == [Debt::default()], "one alone is owed nothing");
            owing += usize::from(owed.iter().any(|owed| *owed > 0.1));
        }
        assert!(owing > 2_000, "{owing}");
    }

    #[test]
    fn weights_count_level_by_level_as_the_kernel_divides() {
        let line = |said: &[(&str, u32)]| -> Vec<(String, u32)> {
            said.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect()
        };
        let of = |lines: &[&[(&str, u32)]]| {
            parts_by_cgroup(&lines.iter().map(|said| line(said)).collect::<Vec<_>>())
        };
        near(&of(&[&[]]), &[1.0]);
        near(&of(&[&[], &[]]), &[0.5, 0.5]);
        near(&of(&[&[("a", 100)], &[("b", 300)]]), &[0.25, 0.75]);
        // What all have in common does not count.
        near(&of(&[&[("m", 7), ("a", 100)], &[("m", 7), ("b", 300)]]), &[0.25, 0.75]);
        // Two in a group have together what one beside it has.
        let nested: &[&[(&str, u32)]] =
            &[&[("g", 100), ("a", 100)], &[("g", 100), ("b", 300)], &[("c", 100)]];
        near(&of(nested), &[0.125, 0.375, 0.5]);
        // One is in a cgroup itself, and one below it.
        near(&of(&[&[("g", 100)], &[("g", 100), ("b", 300)]]), &[0.25, 0.75]);
    }
}

//! What lanes had and did between two looks at the keeper.

use metasched_base::{Figure, Unit};
use metasched_control::keeper::KeeperStatus;
use metasched_loader::{LaneInfo, LaneState};

/// A lane over the time between two looks.
#[derive(Clone, Debug)]
pub struct LaneRow {
    /// The application whose lane it is; none for the default lane, and for one that drains.
    pub name: Option<String>,
    /// The cgroups that are on it; none for the default lane.
    pub cgroups: Vec<String>,
    /// What it weighs in the hierarchy of cgroups, over that of all lanes that had work.
    pub share_wanted: Option<f64>,
    /// Its CPU time over that of all lanes; `None` where nothing was measured, as with
    /// a lane that is alone.
    pub share_got: Option<f64>,
    /// How often the application has got another lane in place of the one it had; `None`
    /// where it is no application's lane.
    pub replaced: Option<u64>,
    /// The lane at the second look.
    pub lane: LaneInfo,
    /// The same lane at the first; none if it is newer.
    pub earlier: Option<LaneInfo>,
}

/// What is told of a lane, in tables and documents, beside its waits.
pub const LANE_FIGURES: &[Figure<LaneRow>] = &[
    Figure {
        name: "weight",
        title: "WEIGHT",
        unit: Unit::Count,
        help: "its weight among the cgroups beside it",
        of: |row| Some(f64::from(row.lane.weight)),
    },
    Figure {
        name: "share_wanted",
        title: "WANTED",
        unit: Unit::Share,
        help: "its part by its weight, among the lanes that had work",
        of: |row| row.share_wanted,
    },
    Figure {
        name: "share_got",
        title: "GOT",
        unit: Unit::Share,
        help: "its part of the CPU time of all lanes",
        of: |row| row.share_got,
    },
    Figure {
        name: "nr_queued",
        title: "QUEUED",
        unit: Unit::Count,
        help: "how many tasks stand in its queues now",
        of: |row| Some(f64::from(row.lane.nr_queued)),
    },
    Figure {
        name: "kicks",
        title: "PREEMPTS",
        unit: Unit::Count,
        help: "how often another application's task had to make way for its own",
        of: |row| Some(row.lane.kicks as f64),
    },
    Figure {
        name: "longest_unserved_ns",
        title: "UNSERVED",
        unit: Unit::Nanoseconds,
        help: "the longest time for which it had work and no CPU",
        of: |row| Some(row.lane.longest_unserved_ns as f64),
    },
    Figure {
        name: "replaced",
        title: "REPLACED",
        unit: Unit::Count,
        help: "how often its application got another lane in place of the one it had",
        of: |row| row.replaced.map(|times| times as f64),
    },
];

/// Every lane of the second look.
pub fn lane_rows(before: &KeeperStatus, after: &KeeperStatus) -> Vec<LaneRow> {
    let earlier = |lane: &LaneInfo| before.lanes.iter().find(|l| l.generation == lane.generation);
    let ran =
        |lane: &LaneInfo| lane.runtime_ns.saturating_sub(earlier(lane).map_or(0, |l| l.runtime_ns));
    let live = |lane: &&LaneInfo| lane.state == LaneState::InForce;
    let has_work = |lane: &LaneInfo| ran(lane) > 0 || lane.nr_queued > 0;
    let weight = |lane: &LaneInfo| f64::from(lane.weight_now);
    let weights: f64 = after.lanes.iter().filter(live).filter(|l| has_work(l)).map(weight).sum();
    let total: u64 = after.lanes.iter().map(ran).sum();
    let row = |lane: &LaneInfo| {
        let app = after.apps.iter().find(|app| app.number == lane.app && lane.is_apps());
        LaneRow {
            name: app.map(|app| app.name.clone()),
            cgroups: app.map_or_else(Vec::new, |app| app.cgroups.keys().cloned().collect()),
            replaced: app.map(|app| app.replaced),
            share_wanted: (live(&lane) && has_work(lane) && weights > 0.0)
                .then(|| weight(lane) / weights),
            share_got: (total > 0).then(|| ran(lane) as f64 / total as f64),
            lane: lane.clone(),
            earlier: earlier(lane).cloned(),
        }
    };
    after.lanes.iter().map(row).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use metasched_control::{App, Candidate, Member, Why};
    use metasched_loader::LaneSpec;

    pub(crate) fn lane(app: u32, weight: u32, runtime_ns: u64) -> LaneInfo {
        LaneInfo {
            index: app,
            policy: "fifo".to_owned(),
            generation: u64::from(app) + 1,
            state: LaneState::InForce,
            app,
            weight,
            weight_now: weight,
            nr_queued: 0,
            runtime_ns,
            kicks: 0,
            longest_unserved_ns: 0,
            waits: None,
            quarantined: false,
            in_force_ns: 1,
            first_run_ns: None,
            counters: Default::default(),
        }
    }

    pub(crate) fn status(lanes: Vec<LaneInfo>) -> KeeperStatus {
        let cgroups = ["a/b", "c", "d", "e"];
        KeeperStatus {
            pid: 1,
            scheduler: Candidate::eevdf(""),
            since_unix_s: 0,
            earlier: None,
            lanes,
            apps: vec![App {
                number: 1,
                name: "front".to_owned(),
                lane: LaneSpec::of("fifo"),
                why: Why::Hand,
                share: None,
                replaced: 3,
                quarantined: false,
                cgroups: cgroups.map(|path| (path.to_owned(), Member { id: 7, rule: None })).into(),
            }],
            without_lane: Vec::new(),
            exempt: Default::default(),
            quarantines: Vec::new(),
            policies: Vec::new(),
            limits: Default::default(),
        }
    }

    #[test]
    fn shares_are_of_what_ran_between_the_looks() {
        let before = status(vec![lane(0, 100, 500), lane(1, 300, 100), lane(2, 100, 9)]);
        let after = status(vec![lane(0, 100, 600), lane(1, 300, 400), lane(2, 100, 9)]);
        let rows = lane_rows(&before, &after);
        let shares: Vec<_> = rows.iter().map(|r| (r.share_wanted, r.share_got)).collect();
        assert_eq!(shares, [(Some(0.25), Some(0.25)), (Some(0.75), Some(0.75)), (None, Some(0.0))]);
        assert_eq!((rows[1].name.as_deref(), rows[1].cgroups.len()), (Some("front"), 4));
        assert_eq!((rows[0].name.as_deref(), rows[0].replaced), (None, None));
    }

    #[test]
    fn a_lane_that_is_alone_is_not_measured() {
        let rows = lane_rows(&status(vec![lane(0, 100, 0)]), &status(vec![lane(0, 100, 0)]));
        assert_eq!(rows[0].share_got, None);
    }
}

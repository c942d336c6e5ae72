//! Looks at the machine again and again: what is in force, and what its lanes or cgroups did
//! since the look before.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};

use metasched_base::{Figure, Interrupt, Result, Unit};
use metasched_control::keeper::KeeperStatus;
use metasched_host::cgroup::{Cgroup, CpuStat};
use metasched_loader::{CountRuns, LaneInfo, Limit, Runs, WaitTracer, Waiters, variant};
use metasched_stats::WaitHistogram;

use crate::force::{Force, in_force};
use crate::lanes::lane_rows;
use crate::looking_cost::LookingCost;
use crate::whom::DEFAULT_LANE;

/// Of so many cgroups waits are traced, those that use the CPUs most.
const TRACED: usize = WaitTracer::CGROUPS_MAX;

/// To trace other cgroups the tracer has to be loaded anew: not more often than this.
const TRACED_FOR: Duration = Duration::from_secs(10);

/// What was seen between two looks.
#[derive(Clone, Debug)]
pub struct Look {
    /// What is in force, as users name it.
    pub scheduler: String,
    /// Whether rows are lanes of our program; else they are cgroups.
    pub lanes: bool,
    /// How long it is since the look before, nanoseconds.
    pub length_ns: u64,
    /// Wake-ups of tasks, a second; none where nothing is traced or the kernel does not count.
    pub wakeups_per_s: Option<f64>,
    /// Switches between tasks, a second.
    pub switches_per_s: Option<f64>,
    /// The waits of the whole system; none where nothing is traced.
    pub waits: Option<WaitHistogram>,
    /// What looking took.
    pub overhead: Option<LookingCost>,
    /// The policies that our program was loaded with: others no lane can have.
    pub policies: Vec<String>,
    /// The lanes, or the cgroups that used a CPU.
    pub rows: Vec<Row>,
}

/// A lane or a cgroup, over the time between two looks.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// What it is told from others by: an application's number, or a cgroup's path.
    pub key: String,
    /// What users know it by.
    pub name: String,
    /// The policy of a lane.
    pub policy: Option<String>,
    /// The weight of its application, or `cpu.weight` of the cgroup.
    pub weight: Option<u32>,
    /// Its part of the CPUs by its weight, among those that have work.
    pub wanted: Option<f64>,
    /// Its part of what was used.
    pub got: Option<f64>,
    /// How many CPUs' worth of time it had.
    pub cpus: Option<f64>,
    /// How many tasks stand in its queues now.
    pub queued: Option<u64>,
    /// How long its tasks waited for a CPU.
    pub waits: Option<WaitHistogram>,
    /// How long the piece is, seconds.
    pub seconds: f64,
    /// How often the task of another application had to make way for one of its own.
    pub kicks: Option<u64>,
    /// For what part of the time `cpu.max` kept its tasks from running.
    pub throttled: Option<f64>,
    /// `cpu.max`: so many CPUs' worth.
    pub quota: Option<f64>,
    /// What its policy counted meanwhile: name, what it is, how often.
    pub counters: Vec<(String, &'static str, u64)>,
    /// Its cgroups; none for the default lane.
    pub cgroups: Vec<String>,
}

/// What is told of a row, in tables and documents.
pub const ROW_FIGURES: &[Figure<Row>] = &[
    Figure {
        name: "weight",
        title: "WEIGHT",
        unit: Unit::Count,
        help: "its weight among others: the lane's, or cpu.weight",
        of: |row| row.weight.map(f64::from),
    },
    Figure {
        name: "wanted",
        title: "WANTED",
        unit: Unit::Share,
        help: "its part by its weight, among those that had work",
        of: |row| row.wanted,
    },
    Figure {
        name: "got",
        title: "GOT",
        unit: Unit::Share,
        help: "its part of the CPU time that was used",
        of: |row| row.got,
    },
    Figure {
        name: "cpus",
        title: "CPUS",
        unit: Unit::Number,
        help: "how many CPUs' worth of time it had",
        of: |row| row.cpus,
    },
    Figure {
        name: "queued",
        title: "QUEUED",
        unit: Unit::Count,
        help: "how many tasks stand in its queues now",
        of: |row| row.queued.map(|n| n as f64),
    },
    Figure {
        name: "wait_p50_ns",
        title: "WAIT P50",
        unit: Unit::Nanoseconds,
        help: "half of its tasks' waits for a CPU were no longer",
        of: |row| row.waits.as_ref()?.percentile_ns(0.5).map(|ns| ns as f64),
    },
    Figure {
        name: "wait_p99_ns",
        title: "P99",
        unit: Unit::Nanoseconds,
        help: "99 of a hundred of its tasks' waits were no longer",
        of: |row| row.waits.as_ref()?.percentile_ns(0.99).map(|ns| ns as f64),
    },
    Figure {
        name: "wait_max_ns",
        title: "LONGEST",
        unit: Unit::Nanoseconds,
        help: "the longest wait of a task of its own",
        of: |row| row.waits.as_ref().filter(|w| w.count() > 0).map(|w| w.max_ns as f64),
    },
    Figure {
        name: "waits_per_s",
        title: "WAITS/S",
        unit: Unit::PerSecond,
        help: "how often a second a task of its own waited, and then ran",
        of: |row| row.waits.as_ref().map(|w| w.count() as f64 / row.seconds),
    },
    Figure {
        name: "preemptions_per_s",
        title: "PREEMPTS/S",
        unit: Unit::PerSecond,
        help: "how often a second another application's task had to make way for its own",
        of: |row| row.kicks.map(|n| n as f64 / row.seconds),
    },
    Figure {
        name: "throttled",
        title: "THROTTLED",
        unit: Unit::Share,
        help: "for what part of the time cpu.max kept its tasks from running",
        of: |row| row.throttled,
    },
    Figure {
        name: "quota",
        title: "QUOTA",
        unit: Unit::Number,
        help: "how many CPUs' worth cpu.max lets it have",
        of: |row| row.quota,
    },
];

/// What is known of a cgroup at one look.
struct Seen {
    stat: CpuStat,
    /// By the kernel, which enforces it for its own scheduler only.
    throttled_ns: u64,
    cgroup: Cgroup,
    id: u64,
}

/// What a look needs of the one before.
struct Earlier {
    at: Instant,
    force: Force,
    cgroups: BTreeMap<String, Seen>,
    traced: HashMap<u64, WaitHistogram>,
    system: WaitHistogram,
    runs: [Runs; 2],
}

/// The tracer, and whom it was asked for.
struct Traced {
    tracer: WaitTracer,
    ids: Vec<u64>,
    since: Instant,
}

/// Looks again and again.
pub struct Looks {
    interrupt: Interrupt,
    traced: Option<Traced>,
    trace: bool,
    counting: Option<CountRuns>,
    earlier: Earlier,
    cpus: u32,
}

impl Looks {
    /// Looks for the first time. Without `trace` nothing is traced, which costs nothing: then waits are
    /// known of lanes only.
    ///
    /// # Errors
    /// As [`WaitTracer::attach`].
    pub fn begin(trace: bool, interrupt: &Interrupt) -> Result<Self> {
        let root = Path::new("/");
        let cpus = metasched_host::machine::machine(root)?.cpus;
        let counting = if trace { CountRuns::start().ok() } else { None };
        let force = in_force(interrupt)?;
        let earlier = Earlier {
            at: Instant::now(),
            cgroups: cgroups(root),
            force,
            traced: HashMap::new(),
            system: WaitHistogram::default(),
            runs: Default::default(),
        };
        let mut looks =
            Self { interrupt: interrupt.clone(), traced: None, trace, counting, earlier, cpus };
        looks.follow(&[])?;
        Ok(looks)
    }

    /// Traces these cgroups from now on, and the system.
    fn follow(&mut self, ids: &[u64]) -> Result<()> {
        if !self.trace {
            return Ok(());
        }
        let asked = ids.iter().map(|id| Waiters::Cgroup(*id));
        let asked: Vec<Waiters> = [Waiters::System].into_iter().chain(asked).collect();
        // The old one first: two would cost twice.
        self.traced = None;
        let tracer = WaitTracer::attach(&asked)?;
        self.earlier.runs = tracer.runs_by_event()?;
        self.traced = Some(Traced { tracer, ids: ids.to_vec(), since: Instant::now() });
        self.earlier.traced = ids.iter().map(|id| (*id, WaitHistogram::default())).collect();
        self.earlier.system = WaitHistogram::default();
        Ok(())
    }

    /// What happened since the look before.
    pub fn look(&mut self) -> Result<Look> {
        let root = Path::new("/");
        let force = in_force(&self.interrupt)?;
        let (seen, at) = (cgroups(root), Instant::now());
        let length_ns = at.duration_since(self.earlier.at).as_nanos().max(1) as u64;
        let mut waits = self.read_waits()?;
        let system = waits.remove(&0);
        let runs = match &self.traced {
            Some(traced) if self.counting.is_some() => Some(traced.tracer.runs_by_event()?),
            _ => None,
        };
        let before = self.earlier.runs;
        let since = runs.map(|runs| [runs[0].since(&before[0]), runs[1].since(&before[1])]);
        let seconds = length_ns as f64 / 1e9;
        let rate = |at: usize| since.map(|runs| runs[at].count as f64 / seconds);
        let both = since.map(|[a, b]| Runs { count: a.count + b.count, ns: a.ns + b.ns });
        let with_lanes = force.keeper.as_ref().filter(|keeper| !keeper.lanes.is_empty());
        let before = self.earlier.force.keeper.as_ref().filter(|k| !k.lanes.is_empty());
        let rows = match with_lanes {
            Some(after) => self.of_lanes(before.unwrap_or(after), after, &seen, seconds),
            None => self.of_cgroups(&seen, &waits, seconds),
        };
        let look = Look {
            scheduler: force.scheduler.clone(),
            lanes: with_lanes.is_some(),
            length_ns,
            wakeups_per_s: rate(0),
            switches_per_s: rate(1),
            waits: system,
            policies: with_lanes.map_or_else(Vec::new, |keeper| keeper.policies.clone()),
            overhead: both.map(|runs| LookingCost::new(runs, length_ns, self.cpus)),
            rows,
        };
        self.earlier.runs = runs.unwrap_or_default();
        (self.earlier.at, self.earlier.force) = (at, force);
        self.earlier.cgroups = seen;
        self.choose(&look)?;
        Ok(look)
    }

    /// The waits since the look before of each cgroup that is traced, by its number; the system's
    /// are those of 0.
    fn read_waits(&mut self) -> Result<HashMap<u64, WaitHistogram>> {
        let Some(traced) = &self.traced else { return Ok(HashMap::new()) };
        let all = traced.tracer.read()?;
        let mut since = HashMap::new();
        for (id, now) in std::iter::once(0).chain(traced.ids.iter().copied()).zip(all) {
            let earlier = match id {
                0 => &mut self.earlier.system,
                id => self.earlier.traced.entry(id).or_default(),
            };
            since.insert(id, now.since(earlier));
            *earlier = now;
        }
        Ok(since)
    }

    /// Traces those that used the CPUs most, if these are others than before.
    fn choose(&mut self, look: &Look) -> Result<()> {
        let wanted: Vec<u64> = match look.lanes {
            // Lanes count the waits of their tasks themselves.
            true => Vec::new(),
            false => look
                .rows
                .iter()
                .take(TRACED)
                .filter_map(|row| Some(self.earlier.cgroups.get(&row.key)?.id))
                .collect(),
        };
        let Some(traced) = &self.traced else { return Ok(()) };
        let missing = wanted.iter().any(|id| !traced.ids.contains(id));
        let due = traced.ids.is_empty() || traced.since.elapsed() >= TRACED_FOR;
        if missing && due { self.follow(&wanted) } else { Ok(()) }
    }

    /// How many CPUs' worth a cgroup had.
    fn used(&self, path: &str, seen: &BTreeMap<String, Seen>, seconds: f64) -> Option<f64> {
        let now = seen.get(path)?.stat.usage_usec;
        let before = self.earlier.cgroups.get(path).map_or(0, |seen| seen.stat.usage_usec);
        Some(now.saturating_sub(before) as f64 / 1e6 / seconds)
    }

    fn of_lanes(
        &self,
        before: &KeeperStatus,
        after: &KeeperStatus,
        seen: &BTreeMap<String, Seen>,
        seconds: f64,
    ) -> Vec<Row> {
        let used = |paths: &[String]| -> f64 {
            paths.iter().filter_map(|path| self.used(path, seen, seconds)).sum()
        };
        let all = self.used("", seen, seconds);
        let in_apps: f64 = after
            .apps
            .iter()
            .flat_map(|app| app.cgroups.keys())
            .filter_map(|path| self.used(path, seen, seconds))
            .sum();
        let rows = lane_rows(before, after).into_iter().map(|row| {
            let lane = &row.lane;
            let limits = |status: &KeeperStatus| limits(status, &row.cgroups, seen);
            let (limited, limited_before) = (limits(after), limits(before));
            let throttled_ns =
                |limits: &[Limit]| limits.iter().map(|l| l.throttled_ns).sum::<u64>();
            let throttled = throttled_ns(&limited).saturating_sub(throttled_ns(&limited_before));
            let root = lane.is_root();
            Row {
                // An application is the same when another lane takes the place of its own.
                key: match root || lane.is_apps() {
                    true => lane.app.to_string(),
                    false => format!("{}/{}", lane.app, lane.generation),
                },
                name: row.name.clone().unwrap_or_else(|| match root {
                    true => DEFAULT_LANE.to_owned(),
                    false => "(none any more)".to_owned(),
                }),
                policy: Some(lane.policy.clone()),
                weight: Some(lane.weight),
                wanted: row.share_wanted,
                got: row.share_got,
                cpus: match root {
                    true => all.map(|all| (all - in_apps).max(0.0)),
                    false => row.name.as_ref().map(|_| used(&row.cgroups)),
                },
                queued: Some(u64::from(lane.nr_queued)),
                waits: lane.waits.as_ref().map(|waits| {
                    let earlier = row.earlier.as_ref().and_then(|lane| lane.waits.as_ref());
                    earlier.map_or_else(|| waits.clone(), |earlier| waits.since(earlier))
                }),
                seconds,
                kicks: Some(since(lane.kicks, row.earlier.as_ref().map(|lane| lane.kicks))),
                throttled: (!limited.is_empty())
                    .then(|| (throttled as f64 / 1e9 / seconds / limited.len() as f64).min(1.0)),
                quota: limited
                    .iter()
                    .map(|l| l.quota_ns as f64 / l.period_ns.max(1) as f64)
                    .reduce(f64::min),
                counters: counters(lane, row.earlier.as_ref()),
                cgroups: row.cgroups,
            }
        });
        rows.collect()
    }

    /// Cgroups that have tasks and used a CPU, those that used most first.
    fn of_cgroups(
        &self,
        seen: &BTreeMap<String, Seen>,
        waits: &HashMap<u64, WaitHistogram>,
        seconds: f64,
    ) -> Vec<Row> {
        let all = self.used("", seen, seconds).filter(|all| *all > 0.0);
        // What is below one is not counted twice: a cgroup with tasks has none below, but the root
        // and threaded ones.
        let inner = |path: &str| {
            let below = format!("{path}/");
            seen.range(below.clone()..).next().is_some_and(|(next, _)| next.starts_with(&below))
        };
        let leaves = seen.iter().filter(|(path, _)| !path.is_empty() && !inner(path));
        let mut rows: Vec<Row> = leaves
            .filter_map(|(path, now)| {
                let cpus = self.used(path, seen, seconds)?;
                let before = self.earlier.cgroups.get(path).map(|seen| seen.throttled_ns);
                let quota = now.cgroup.limits().quota_us;
                let throttled = since(now.throttled_ns, before) as f64 / 1e9 / seconds;
                (cpus > 0.0).then(|| Row {
                    key: path.clone(),
                    name: path.clone(),
                    weight: now.cgroup.cpu_weight(),
                    got: all.map(|all| (cpus / all).min(1.0)),
                    cpus: Some(cpus),
                    waits: waits.get(&now.id).cloned(),
                    seconds,
                    throttled: quota.map(|_| throttled.min(1.0)),
                    quota: quota.map(|(quota, period)| quota as f64 / period.max(1) as f64),
                    cgroups: vec![path.clone()],
                    ..Row::default()
                })
            })
            .collect();
        rows.sort_by(|a, b| b.cpus.partial_cmp(&a.cpus).unwrap_or(std::cmp::Ordering::Equal));
        rows
    }
}

/// What came since a counter had another value; all, where it is new.
fn since(now: u64, before: Option<u64>) -> u64 {
    now.saturating_sub(before.unwrap_or(0))
}

/// The limits of these cgroups.
fn limits(status: &KeeperStatus, cgroups: &[String], seen: &BTreeMap<String, Seen>) -> Vec<Limit> {
    let ids: Vec<u64> = cgroups.iter().filter_map(|path| Some(seen.get(path)?.id)).collect();
    let enforced = status.limits.enforced.iter();
    enforced.filter(|limit| ids.contains(&limit.cgroup)).cloned().collect()
}

/// What a lane's policy counted since the look before, with what each counter is.
fn counters(lane: &LaneInfo, earlier: Option<&LaneInfo>) -> Vec<(String, &'static str, u64)> {
    let policy = variant(&lane.policy).ok();
    let help = |name: &str| {
        let known = policy.and_then(|p| p.counters.iter().find(|counter| counter.name == name));
        known.map_or("", |counter| counter.description)
    };
    let before = |name: &str| earlier.and_then(|lane| lane.counters.get(name).copied());
    let of = |(name, now): (&String, &u64)| (name.clone(), help(name), since(*now, before(name)));
    lane.counters.iter().map(of).collect()
}

/// Every cgroup with what it used so far, by its path; the root's is empty.
fn cgroups(root: &Path) -> BTreeMap<String, Seen> {
    let all = Cgroup::find(root, "/").and_then(|top| top.and_below()).unwrap_or_default();
    all.into_iter()
        .filter_map(|cgroup| {
            // One that was removed meanwhile is not seen.
            let (stat, id) = (cgroup.cpu_stat().ok()?, cgroup.id().ok()?);
            Some((
                cgroup.name(),
                Seen { throttled_ns: stat.throttled_usec * 1000, stat, cgroup, id },
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::tests::lane;

    #[test]
    fn a_policys_counters_have_their_descriptions_and_are_since_the_look_before() {
        let with = |count: u64| {
            let policy = metasched_loader::policies()
                .iter()
                .find(|policy| !policy.counters.is_empty())
                .unwrap();
            let name = policy.counters[0].name.to_owned();
            LaneInfo {
                policy: policy.name.to_owned(),
                counters: [(name, count)].into(),
                ..lane(0, 100, 0)
            }
        };
        let [(_, help, count)] = &counters(&with(9), Some(&with(4)))[..] else { panic!() };
        assert!(!help.is_empty());
        assert_eq!(*count, 5);
        assert_eq!(counters(&with(9), None)[0].2, 9);
    }

    #[test]
    fn every_figure_of_a_row_is_absent_where_nothing_was_measured() {
        let row = Row { seconds: 1.0, ..Row::default() };
        assert!(ROW_FIGURES.iter().all(|figure| figure.text(&row) == "-"));
        let names: std::collections::BTreeSet<&str> = ROW_FIGURES.iter().map(|f| f.name).collect();
        assert_eq!(names.len(), ROW_FIGURES.len());
        assert!(ROW_FIGURES.iter().all(|figure| !figure.help.is_empty()));
    }
}

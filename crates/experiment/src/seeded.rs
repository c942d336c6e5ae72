//! A scenario as a bed, on whatever runs it by its seeds: the simulator, or real threads. Its
//! cgroups are the parts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use metasched_base::Result;

use crate::bed::{Bed, Effort};
use crate::choose::CandidateRounds;
use crate::contender::Contender;
use crate::objective::{Objective, Round, Sample};
use crate::plan::{Measured, Part, Whole};
use crate::race::losers;
use crate::rounds::{Need, need};

/// The name of all cgroups together.
pub const WHOLE: &str = "all";

/// Runs a scenario by its seeds.
pub trait Runs {
    /// Runs a cgroup alone, or [`WHOLE`], under contenders with seeds; gives the runs in that order.
    ///
    /// # Errors
    /// The first failure, in the order given.
    fn run(&mut self, subject: &str, jobs: &[(Contender, u64)]) -> Result<Vec<SeededRun>>;

    /// Is told how many runs will be asked for at most, for whoever shows progress.
    fn expects(&mut self, _most: usize) {}

    /// What is run, and on what.
    fn about(&self) -> About;

    /// The command that runs a contender alone.
    ///
    /// # Errors
    /// When it cannot be run here.
    fn command(&self, contender: &Contender) -> Result<String>;
}

/// What is run, and on what.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The scenario's name.
    pub application: String,
    /// The kernel; none where it is simulated.
    pub kernel: Option<String>,
    /// The machine, in words.
    pub machine: String,
    /// The scheduler that all are compared with.
    pub default: String,
    /// Its cgroups that can have lanes.
    pub parts: Vec<String>,
    /// Whether tasks are in several cgroups, the root among them.
    pub has_several: bool,
    /// How much of a run counts.
    pub measurement: Duration,
    /// What cgroups are for, where the scenario says it.
    pub objectives: BTreeMap<String, Objective>,
    /// The policies that it asks for, by cgroup.
    pub asked: BTreeMap<String, String>,
}

/// What is kept of a run.
#[derive(Clone, Debug, Default)]
pub struct SeededRun {
    /// By the cgroup's path.
    pub groups: BTreeMap<String, GroupRun>,
    /// How long it was measured, ns.
    pub window_ns: u64,
}

/// What the tasks of a cgroup did in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupRun {
    /// How much they did.
    pub counts: Counts,
    /// The 99th percentile of responses where there are any, else of waits for a CPU, us; no number
    /// where neither was measured.
    pub p99_us: f64,
    /// The time of all responses, or, without requests, from wake-ups to the sleeps after them, ns.
    pub latency_ns: u64,
}

/// How much the tasks of a cgroup did in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Units of work that were done; a request that is answered is one.
    pub done: u64,
    /// Requests that were answered.
    pub answered: u64,
    /// How often a task had done what it woke for, and slept again.
    pub bursts: u64,
    /// Time on CPUs, ns.
    pub cpu_ns: u64,
}

/// What throughput is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Requests that were answered.
    Requests,
    /// What tasks call done, beside requests or without any.
    Units,
    /// What a task wakes for, and has done when it sleeps again.
    Bursts,
    /// Seconds on a CPU, of tasks that do not sleep.
    CpuSeconds,
}

impl Work {
    /// What is counted in all runs of a cgroup: of one kind in all of them, or they could not be
    /// compared.
    pub fn of(runs: impl Iterator<Item = Counts> + Clone) -> Self {
        let all = |has: fn(&Counts) -> bool| runs.clone().all(|counts| has(&counts));
        if all(|run| run.done > 0) {
            if all(|run| run.answered == run.done) { Work::Requests } else { Work::Units }
        } else if all(|run| run.bursts > 0) {
            Work::Bursts
        } else {
            Work::CpuSeconds
        }
    }

    /// The amount of it in a run.
    pub fn amount(self, run: Counts) -> f64 {
        match self {
            Work::Requests | Work::Units => run.done as f64,
            Work::Bursts => run.bursts as f64,
            Work::CpuSeconds => run.cpu_ns as f64 / 1e9,
        }
    }
}

/// An amount in a time of `window_ns`, as a rate per second.
pub fn per_second(amount: f64, window_ns: u64) -> f64 {
    amount * 1e9 / window_ns.max(1) as f64
}

/// A bed of what runs a scenario. The n-th run of each contender has the n-th seed.
pub struct SeededBed<R> {
    /// What runs it.
    pub runs: R,
    about: About,
    first_seed: u64,
    subjects: Vec<Subject>,
    made: u64,
}

/// A cgroup, or all of them, and what was run of it.
struct Subject {
    name: String,
    default: Vec<SeededRun>,
    contenders: Vec<(Contender, Vec<SeededRun>)>,
}

/// A cgroup of a subject: what its work is counted in, and what it is for.
struct Counted {
    path: String,
    work: Work,
    objective: Objective,
}

impl<R: Runs> SeededBed<R> {
    /// Nothing was run yet.
    pub fn new(runs: R, first_seed: u64) -> Self {
        let about = runs.about();
        Self { runs, about, first_seed, subjects: Vec::new(), made: 0 }
    }

    /// What is run, and on what.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// How many runs were made so far.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Runs what a subject still needs under contenders.
    fn subject(
        &mut self,
        at: usize,
        contenders: &[Contender],
        effort: &Effort,
        began: Instant,
    ) -> Result<()> {
        let places = self.subjects[at].places(contenders);
        loop {
            let subject = &mut self.subjects[at];
            let wanted = subject.wanted(&self.about, &places, effort);
            let spent = effort.budget.is_some_and(|budget| began.elapsed() >= budget);
            if wanted.is_empty() || spent {
                return Ok(());
            }
            let seed = |n: u32| self.first_seed + u64::from(n);
            let mut jobs: Vec<(Contender, u64)> = Vec::new();
            let mut takers: Vec<Option<usize>> = Vec::new();
            let has = subject.default.len() as u32;
            let until = wanted.iter().map(|(_, runs, more)| runs + more).max().unwrap_or(0);
            // By seed, so that what is compared is run side by side.
            for n in 0..until {
                if n >= has {
                    jobs.push((Contender::scheduler(self.about.default.as_str()), seed(n)));
                    takers.push(None);
                }
                for (which, runs, more) in &wanted {
                    if (*runs..runs + more).contains(&n) {
                        jobs.push((contenders[*which].clone(), seed(n)));
                        takers.push(Some(places[*which]));
                    }
                }
            }
            self.made += jobs.len() as u64;
            let runs = self.runs.run(&subject.name, &jobs)?;
            for (taker, run) in takers.into_iter().zip(runs) {
                match taker {
                    None => subject.default.push(run),
                    Some(place) => subject.contenders[place].1.push(run),
                }
            }
        }
    }
}

impl<R: Runs> Bed for SeededBed<R> {
    fn measure(
        &mut self,
        subjects: &[String],
        contenders: &[Contender],
        effort: &Effort,
    ) -> Result<()> {
        let began = Instant::now();
        // At most: those that are precise, or surely not the best, have fewer runs.
        let each = (contenders.len() + 1) * effort.rules.max_rounds as usize;
        self.runs.expects(subjects.len() * each);
        for name in subjects {
            let known = self.subjects.iter().position(|subject| subject.name == *name);
            let at = known.unwrap_or_else(|| {
                let (default, contenders) = (Vec::new(), Vec::new());
                self.subjects.push(Subject { name: name.clone(), default, contenders });
                self.subjects.len() - 1
            });
            self.subject(at, contenders, effort, began)?;
        }
        Ok(())
    }

    fn measured(&mut self) -> Result<Measured> {
        let (wholes, parts): (Vec<_>, Vec<_>) =
            self.subjects.iter().partition(|subject| subject.name == WHOLE);
        let About { application, kernel, machine, default, .. } = self.about.clone();
        Ok(Measured {
            application,
            kernel,
            machine,
            default,
            parts: parts.into_iter().map(|part| part.part(&self.about)).collect(),
            whole: wholes.first().map(|whole| whole.whole(&self.about)),
            ..Measured::default()
        })
    }
}

impl Subject {
    /// The places of contenders; those that are new have no runs.
    fn places(&mut self, contenders: &[Contender]) -> Vec<usize> {
        let mut place = |contender: &Contender| {
            let known = self.contenders.iter().position(|(known, _)| known == contender);
            known.unwrap_or_else(|| {
                self.contenders.push((contender.clone(), Vec::new()));
                self.contenders.len() - 1
            })
        };
        contenders.iter().map(&mut place).collect()
    }

    /// Which of the contenders at these places want more runs: which one it is of them, how
    /// many it has, and how many more.
    fn wanted(&self, about: &About, places: &[usize], effort: &Effort) -> Vec<(usize, u32, u32)> {
        let groups = self.groups(about);
        let objective = objective(&groups);
        let rounds: Vec<CandidateRounds> =
            places.iter().map(|place| self.rounds(*place, &groups)).collect();
        let lost = match effort.rules.drop_losers {
            true => losers(&rounds, objective),
            false => Vec::new(),
        };
        let wants = |(which, candidate): (usize, &CandidateRounds)| {
            if lost.iter().any(|lost| lost.place == which) {
                return None;
            }
            let has = candidate.rounds.len() as u32;
            match need(&candidate.pairs(objective), &effort.rules) {
                // One by one after the first, so that each look at the race is taken.
                Need::Rounds(more) => Some((which, has, if has == 0 { more.min(3) } else { 1 })),
                _ => None,
            }
        };
        rounds.iter().enumerate().filter_map(wants).collect()
    }

    fn groups(&self, about: &About) -> Vec<Counted> {
        let Some(first) = self.default.first() else { return Vec::new() };
        let none = GroupRun::default();
        let of = |path: &String| {
            let all = self.default.iter().chain(self.contenders.iter().flat_map(|(_, runs)| runs));
            let counts = |run: &SeededRun| run.groups.get(path).unwrap_or(&none).counts;
            let runs: Vec<Counts> = all.map(counts).collect();
            let work = Work::of(runs.iter().copied());
            let by_default = || Objective::by_default(work == Work::Requests);
            let objective = about.objectives.get(path).copied().unwrap_or_else(by_default);
            Counted { path: path.clone(), work, objective }
        };
        first.groups.keys().map(of).collect()
    }

    /// The rounds of the contender at a place; the n-th has the number n.
    fn rounds(&self, place: usize, groups: &[Counted]) -> CandidateRounds {
        let (contender, runs) = &self.contenders[place];
        let rounds = runs.iter().zip(&self.default).zip(0..).map(|((run, default), number)| {
            Round { number, candidate: sample(run, groups), default: sample(default, groups) }
        });
        CandidateRounds::new(contender.to_string(), rounds.collect())
    }

    fn part(&self, about: &About) -> Part {
        let groups = self.groups(about);
        Part {
            name: self.name.clone(),
            objective: objective(&groups),
            latency_us: self.latency_us(),
            candidates: (0..self.contenders.len()).map(|at| self.rounds(at, &groups)).collect(),
            asked: about.asked.get(&self.name).cloned(),
        }
    }

    fn whole(&self, about: &About) -> Whole {
        let groups = self.groups(about);
        let mut whole =
            Whole { name: self.name.clone(), objective: objective(&groups), ..Whole::default() };
        for (at, (contender, _)) in self.contenders.iter().enumerate() {
            let rounds = self.rounds(at, &groups);
            match contender {
                Contender::Scheduler { .. } => whole.candidates.push(rounds),
                several => whole.metaschedulers.push((several.clone(), rounds.rounds)),
            }
        }
        whole
    }

    /// The mean time of a response under the default scheduler; where there are none, that from a
    /// wake-up to the sleep after it. Absent where tasks never sleep.
    fn latency_us(&self) -> Option<f64> {
        let groups = || self.default.iter().flat_map(|run| run.groups.values());
        let count = |group: &GroupRun| match group.counts.answered {
            0 => group.counts.bursts,
            answered => answered,
        };
        let (ns, all): (u64, u64) =
            (groups().map(|group| group.latency_ns).sum(), groups().map(count).sum());
        (all > 0).then(|| ns as f64 / all as f64 / 1e3)
    }
}

fn objective(groups: &[Counted]) -> Objective {
    match groups {
        [one] => one.objective,
        [] => Objective::default(),
        _ => Objective::Parts,
    }
}

/// The figures of a run: of its only cgroup, or of all of them together.
fn sample(run: &SeededRun, groups: &[Counted]) -> Sample {
    let none = GroupRun::default();
    let of = |Counted { path, work, objective }: &Counted| {
        let group = run.groups.get(path).unwrap_or(&none);
        let throughput = per_second(work.amount(group.counts), run.window_ns);
        (*objective, Sample::new(throughput, group.p99_us))
    };
    match groups {
        [one] => of(one).1,
        several => Sample::of_parts(&several.iter().map(of).collect::<Vec<_>>()),
    }
}

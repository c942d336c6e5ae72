//! Runs: each arrangement with each seed, on as many CPUs as this machine has.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use metasched_base::{Error, Interrupt, Kind, Progress, Result, brief_time};
use metasched_sim::figures::{GroupFigures, RunFigures};
use metasched_sim::{Failure, Outcome, Scenario};
use metasched_stats::DurationHistogram;

use crate::arrangement::Arrangement;
use crate::comparison::Comparison;
use crate::parallel::each;
use crate::setup::Setup;

/// Intervals of fewer runs say too little to stop by.
const LEAST_RUNS: u64 = 4;
/// Progress is shown of what takes longer.
const PATIENCE: Duration = Duration::from_secs(2);

/// How many seeds, from the setup's first on.
#[derive(Clone, Copy, Debug)]
pub enum Seeds {
    /// So many.
    Fixed {
        /// The number.
        runs: u64,
    },
    /// As many as it takes until each ratio is known to this part of itself.
    UntilNarrow {
        /// Never more than these.
        most: u64,
        /// How far an interval may reach to either side, as a part of the ratio.
        precision: f64,
    },
}

/// A cgroup in a run.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Empty for the root.
    pub path: String,
    /// What its tasks did.
    pub figures: GroupFigures,
    /// Of requests, in the whole run.
    pub responses: DurationHistogram,
    /// Units of work that were done; a request that is answered is one.
    pub done: u64,
}

/// What is kept of a run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Its seed.
    pub seed: u64,
    /// By path, in order.
    pub groups: Vec<Group>,
    /// All of them together.
    pub all: Group,
    /// How long it was measured.
    pub window_ns: u64,
    /// The CPU time that there was.
    pub capacity_ns: u64,
    /// Of that, how much was idle while a task waited.
    pub idle_beside_work_ns: u64,
    /// Events that the engine handled.
    pub events: u64,
}

impl Run {
    /// A cgroup by its path.
    pub fn group(&self, path: &str) -> Option<&Group> {
        let at = self.groups.binary_search_by(|group| group.path.as_str().cmp(path));
        at.ok().map(|at| &self.groups[at])
    }
}

/// The command that gives a run again: what is in force (all that are compared, if absent), and
/// the seed.
pub type Again<'a> = &'a dyn Fn(Option<&Arrangement>, u64) -> String;

/// Runs arrangements of one setup.
#[derive(Clone, Copy)]
pub struct Runner<'a> {
    /// What all are given alike.
    pub setup: &'a Setup,
    /// What is compared, the one that all others are compared with first.
    pub arrangements: &'a [Arrangement],
    /// Only the tasks of this cgroup.
    pub only: Option<&'a str>,
    /// The command that repeats what went wrong.
    pub again: Again<'a>,
    /// Ends it early.
    pub interrupt: &'a Interrupt,
}

impl<'a> Runner<'a> {
    /// Runs all arrangements with all seeds.
    ///
    /// # Errors
    /// The first failure, in the order of seeds and arrangements, whichever came first.
    pub fn run(&self, seeds: Seeds) -> Result<Comparison<'a>> {
        let (began, first) = (Instant::now(), self.setup.first_seed);
        let mut runs = Vec::new();
        match seeds {
            Seeds::Fixed { runs: count } => {
                runs = self.rounds(first, count, began)?;
            }
            Seeds::UntilNarrow { most, precision } => loop {
                let done = runs.len() as u64;
                // Half as many again each time, so that looking costs little; and always
                // the same numbers, so that the result depends on nothing else.
                let until = (done + (done / 2).max(LEAST_RUNS)).min(most);
                runs.extend(self.rounds(first + done, until - done, began)?);
                let narrow = Comparison::new(self.setup, self.arrangements, runs.clone())
                    .widest()
                    .is_none_or(|widest| widest <= precision);
                if narrow || until == most {
                    let comparison = Comparison::new(self.setup, self.arrangements, runs);
                    return Ok(comparison.wanted(precision));
                }
            },
        }
        Ok(Comparison::new(self.setup, self.arrangements, runs))
    }

    /// One round for each seed: each arrangement's run.
    fn rounds(&self, first: u64, count: u64, began: Instant) -> Result<Vec<Vec<Run>>> {
        let each = self.arrangements.len();
        let jobs: Vec<(usize, u64)> =
            (first..first + count).flat_map(|seed| (0..each).map(move |at| (at, seed))).collect();
        let mut steps =
            Steps::new(format!("simulating {}", self.setup.file.name), jobs.len(), began);
        let mut runs = self.jobs(&jobs, &mut || steps.step())?.into_iter();
        Ok((0..count).map(|_| runs.by_ref().take(each).collect()).collect())
    }

    /// Runs arrangements, by their places, with seeds; gives the runs in that order.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn jobs(&self, jobs: &[(usize, u64)], finished: &mut dyn FnMut()) -> Result<Vec<Run>> {
        let Runner { setup, arrangements, only, interrupt, .. } = *self;
        let work = |(which, seed): &(usize, u64)| {
            one(setup, arrangements[*which].scenario(setup, *seed), only, *seed)
        };
        let results = each(jobs, interrupt, work, finished)?;
        let failed = |(which, seed): (usize, u64), failure: Box<Failure>| {
            self.failed(&arrangements[which], seed, &failure)
        };
        let results = results.into_iter().zip(jobs);
        results.map(|(run, job)| run.map_err(|failure| failed(*job, failure))).collect()
    }

    /// A failed run as an error, after its last events.
    pub fn failed(&self, arrangement: &Arrangement, seed: u64, failure: &Failure) -> Error {
        let again = (self.again)(Some(arrangement), seed);
        failed(&self.setup.file.name, &arrangement.name, seed, failure, &again)
    }
}

/// A failed run of a scenario under an arrangement as an error, after its last events.
pub fn failed(scenario: &str, under: &str, seed: u64, failure: &Failure, again: &str) -> Error {
    failure.recent().iter().for_each(|line| eprintln!("{line}"));
    let attempt = format!("simulate '{scenario}' under {under} with seed {seed}");
    let at = brief_time(failure.at as f64);
    let cause = format!("{} at {at}: {}", failure.check, failure.message);
    Error::new(Kind::Simulation, attempt, cause).remedy(format!("to see it again: {again}"))
}

/// Progress that is shown once it has taken a while.
pub struct Steps {
    name: String,
    total: usize,
    began: Instant,
    done: usize,
    bar: Option<Progress>,
}

impl Steps {
    /// Of so many steps, since `began`.
    pub fn new(name: String, total: usize, began: Instant) -> Self {
        Steps { name, total, began, done: 0, bar: None }
    }

    /// One more is done.
    pub fn step(&mut self) {
        self.done += 1;
        if let Some(bar) = &self.bar {
            bar.step();
        } else if self.began.elapsed() > PATIENCE && self.done < self.total {
            let bar = Progress::new(self.name.clone(), self.total as u64);
            (0..self.done).for_each(|_| bar.step());
            self.bar = Some(bar);
        }
    }
}

/// Runs a scenario, or what of it is in a cgroup, and keeps its figures.
///
/// # Errors
/// When a checker finds something, or a rule is broken.
pub fn one(
    setup: &Setup,
    scenario: Scenario,
    only: Option<&str>,
    seed: u64,
) -> Result<Run, Box<Failure>> {
    let scenario = match only {
        Some(cgroup) => scenario.only_in(cgroup),
        None => scenario,
    };
    let figures =
        Rc::new(RefCell::new(RunFigures::new(setup.machine.clone(), setup.file.warm_up_ns)));
    let outcome = scenario.read_by(&figures).run().map_err(Box::new)?;
    Ok(kept(&figures.borrow(), &outcome, seed))
}

fn kept(figures: &RunFigures, outcome: &Outcome, seed: u64) -> Run {
    let groups: Vec<Group> = figures
        .groups()
        .map(|(path, figures)| with_responses(path, figures.clone(), outcome))
        .collect();
    let mut all = Group { figures: figures.all(), ..Group::default() };
    for group in &groups {
        all.responses.merge(&group.responses);
        all.done += group.done;
    }
    Run {
        seed,
        groups,
        all,
        window_ns: figures.window_ns(),
        capacity_ns: figures.capacity_ns(),
        idle_beside_work_ns: figures.idle_beside_work_ns(),
        events: outcome.events,
    }
}

fn with_responses(path: &str, figures: GroupFigures, outcome: &Outcome) -> Group {
    let (mut responses, mut done) = (DurationHistogram::default(), 0);
    for (each_ns, units) in outcome.work_in(path) {
        each_ns.iter().for_each(|ns| responses.record(*ns));
        done += units;
    }
    Group { path: path.to_owned(), figures, responses, done }
}

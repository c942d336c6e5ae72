//! Runs: each contender with each seed, on as many CPUs as this machine has.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Progress, Result, brief_time};
use metasched_sim::figures::{GroupFigures, RunFigures};
use metasched_sim::{Failure, Outcome, Scenario};
use metasched_stats::DurationHistogram;

use super::bed::Bed;
use super::compare::Comparison;
use super::contender::Contender;
use crate::context::Context;

/// Intervals of fewer runs say too little to stop by.
const LEAST_RUNS: u64 = 4;
/// Progress is shown of what takes longer.
const PATIENCE: Duration = Duration::from_secs(2);

/// With which seeds.
pub enum Seeds {
    /// So many, from the first on.
    Fixed { first: u64, runs: u64 },
    /// From the first on, until each ratio is known to this part of itself.
    UntilNarrow { first: u64, most: u64, precision: f64 },
}

/// A cgroup in a run.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Empty for the root.
    pub path: String,
    pub figures: GroupFigures,
    /// Of requests, in the whole run.
    pub responses: DurationHistogram,
    /// Units of work that were done; a request that is answered is one.
    pub done: u64,
}

/// What is kept of a run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    pub seed: u64,
    /// By path, in order.
    pub groups: Vec<Group>,
    pub all: Group,
    pub window_ns: u64,
    pub capacity_ns: u64,
    pub idle_beside_work_ns: u64,
    pub events: u64,
}

impl Run {
    /// A cgroup by its path.
    pub fn group(&self, path: &str) -> Option<&Group> {
        let at = self.groups.binary_search_by(|group| group.path.as_str().cmp(path));
        at.ok().map(|at| &self.groups[at])
    }
}

/// Who runs what.
pub struct Runner<'a> {
    pub bed: &'a Bed,
    pub contenders: &'a [Contender],
    /// Only the tasks of this cgroup.
    pub only: Option<&'a str>,
    /// The command that repeats what went wrong.
    pub replay: &'a dyn Fn(Option<&Contender>, u64) -> String,
    pub context: &'a Context,
}

impl<'a> Runner<'a> {
    /// Runs all contenders with all seeds.
    ///
    /// # Errors
    /// The first failure, in the order of seeds and contenders, whichever came first.
    pub fn run(&self, seeds: Seeds) -> Result<Comparison<'a>> {
        let began = Instant::now();
        let mut runs = Vec::new();
        match seeds {
            Seeds::Fixed { first, runs: count } => {
                runs = self.rounds(first, count, began)?;
            }
            Seeds::UntilNarrow { first, most, precision } => loop {
                let done = runs.len() as u64;
                // Half as many again each time, so that looking costs little; and always
                // the same numbers, so that the result depends on nothing else.
                let until = (done + (done / 2).max(LEAST_RUNS)).min(most);
                runs.extend(self.rounds(first + done, until - done, began)?);
                let narrow = Comparison::new(self.bed, self.contenders, runs.clone())
                    .widest()
                    .is_none_or(|widest| widest <= precision);
                if narrow || until == most {
                    let comparison = Comparison::new(self.bed, self.contenders, runs);
                    return Ok(comparison.wanted(precision));
                }
            },
        }
        Ok(Comparison::new(self.bed, self.contenders, runs))
    }

    /// One round for each seed: each contender's run.
    fn rounds(&self, first: u64, count: u64, began: Instant) -> Result<Vec<Vec<Run>>> {
        let each = self.contenders.len();
        let jobs: Vec<(usize, u64)> =
            (first..first + count).flat_map(|seed| (0..each).map(move |at| (at, seed))).collect();
        let mut steps = Steps::new(format!("simulating {}", self.bed.file.name), jobs.len(), began);
        let mut runs = self.jobs(&jobs, &mut || steps.step())?.into_iter();
        Ok((0..count).map(|_| runs.by_ref().take(each).collect()).collect())
    }

    /// Runs contenders, by their places, with seeds; gives the runs in that order.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn jobs(&self, jobs: &[(usize, u64)], finished: &mut dyn FnMut()) -> Result<Vec<Run>> {
        let next = AtomicUsize::new(0);
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
        let mut results: Vec<Option<Result<Run, Box<Failure>>>> =
            jobs.iter().map(|_| None).collect();
        let (bed, only, interrupt) = (self.bed, self.only, &self.context.interrupt);
        let contenders = self.contenders;
        std::thread::scope(|scope| {
            let (send, receive) = mpsc::channel();
            for _ in 0..workers {
                let (send, next) = (send.clone(), &next);
                scope.spawn(move || {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        if at >= jobs.len() || interrupt.is_raised() {
                            break;
                        }
                        let (contender, seed) = jobs[at];
                        let scenario = contenders[contender].scenario(bed, seed);
                        if send.send((at, one(bed, scenario, only, seed))).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(send);
            for (at, result) in receive {
                results[at] = Some(result);
                finished();
            }
        });
        interrupt.check("the simulation")?;
        let failed = |(contender, seed): (usize, u64), failure: Box<Failure>| {
            self.failed(&self.contenders[contender], seed, &failure)
        };
        results
            .into_iter()
            .zip(jobs)
            .map(|(run, job)| {
                run.expect("each job sends its result").map_err(|failure| failed(*job, failure))
            })
            .collect()
    }

    /// A failed run as an error, after its last events.
    pub fn failed(&self, contender: &Contender, seed: u64, failure: &Failure) -> Error {
        failure.recent().iter().for_each(|line| eprintln!("{line}"));
        let attempt =
            format!("simulate '{}' under {} with seed {seed}", self.bed.file.name, contender.name);
        let at = brief_time(failure.at as f64);
        let cause = format!("{} at {at}: {}", failure.check, failure.message);
        let again = (self.replay)(Some(contender), seed);
        Error::new(Kind::Simulation, attempt, cause).remedy(format!("to see it again: {again}"))
    }
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
    bed: &Bed,
    scenario: Scenario,
    only: Option<&str>,
    seed: u64,
) -> Result<Run, Box<Failure>> {
    let scenario = match only {
        Some(cgroup) => scenario.only_in(cgroup),
        None => scenario,
    };
    let figures = Rc::new(RefCell::new(RunFigures::new(bed.machine.clone(), bed.warm_up_ns)));
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

//! A form that is started: one application, or the two of a pair.

use std::time::Duration;

use metasched_base::{Error, Interrupt, Kind, Result};
use metasched_experiment::{Objective, Sample};

use super::{Application, Observe, RunResult, Site};
use crate::manifest::{Form, Side, Workload};
use crate::{LoadFigures, PartFigures, Parts};

/// What runs while a form is measured.
#[derive(Debug)]
pub enum Started<'a> {
    /// One application.
    One(Box<Application<'a>>),
    /// Those of a pair, with what is measured of them.
    Both(Vec<(&'a Side, Application<'a>)>),
}

impl<'a> Started<'a> {
    /// Starts a form, as [`Application::start`]; of a pair both, one after the other.
    pub fn start(workload: &'a Workload, form: &'a Form, site: &'a Site) -> Result<Self> {
        let of = |side: &'a Side| {
            let form = side.workload.manifest.form(&side.form)?;
            Application::start(&side.workload, form, site)
        };
        if workload.sides.is_empty() {
            return Application::start(workload, form, site).map(|one| Self::One(Box::new(one)));
        }
        match workload.side(&form.name) {
            Some(side) => of(side).map(|one| Self::One(Box::new(one))),
            None => {
                let both = workload.sides.iter().map(|side| Ok((side, of(side)?)));
                both.collect::<Result<_>>().map(Self::Both)
            }
        }
    }

    /// Runs the load once, as [`Application::run`]; of a pair both loads at the same time. Where one
    /// fails the other is ended too.
    pub fn run(
        &mut self,
        duration: Duration,
        observe: Observe,
        interrupts: &[&Interrupt],
    ) -> Result<RunResult> {
        let both = match self {
            Self::One(one) => return one.run(duration, observe, interrupts),
            Self::Both(both) => both,
        };
        let failed = Interrupt::default();
        let all: Vec<&Interrupt> = interrupts.iter().copied().chain([&failed]).collect();
        let (all, failed) = (&all, &failed);
        let results: Vec<(&Side, Result<RunResult>)> = std::thread::scope(|scope| {
            let threads: Vec<_> = both
                .iter_mut()
                .map(|(side, application)| {
                    let run = move || {
                        let result = application.run(duration, observe, all);
                        if result.is_err() {
                            failed.raise();
                        }
                        result
                    };
                    (*side, scope.spawn(run))
                })
                .collect();
            let join = |(side, thread): (&'a Side, std::thread::ScopedJoinHandle<_>)| {
                (side, thread.join().expect("a run does not panic"))
            };
            threads.into_iter().map(join).collect()
        });
        let mut sides = Vec::new();
        let mut errors: Vec<Error> = Vec::new();
        for (side, result) in results {
            match result {
                Ok(result) => sides.push((side, result)),
                Err(error) => errors.push(error),
            }
        }
        // What came first; the other was only interrupted by it.
        errors.sort_by_key(|error| error.kind == Kind::Interrupted);
        match errors.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(joined(&sides)),
        }
    }

    /// Asks all processes to stop, the last first, then kills what is left.
    pub fn stop(self) -> Result<()> {
        match self {
            Self::One(one) => one.stop(),
            Self::Both(both) => {
                let mut stopped = Ok(());
                for (_, application) in both.into_iter().rev() {
                    let this = application.stop();
                    stopped = stopped.and(this);
                }
                stopped
            }
        }
    }
}

/// What both did together, each judged by what it is for. The parts are the two, each with its own
/// figures.
fn joined(sides: &[(&Side, RunResult)]) -> RunResult {
    let objective = |side: &Side| {
        side.workload.manifest.form(&side.form).map(Form::objective).unwrap_or_default()
    };
    let samples: Vec<(Objective, Sample)> =
        sides.iter().map(|(side, run)| (objective(side), run.figures.sample())).collect();
    let whole = Sample::of_parts(&samples);
    let all: Vec<&LoadFigures> = sides.iter().map(|(_, result)| &result.figures).collect();
    let sum = |figure: fn(&LoadFigures) -> Option<f64>| -> Option<f64> {
        all.iter().map(|figures| figure(figures)).sum()
    };
    // What is no number has no place in the store.
    let number = |value: f64| value.is_finite().then_some(value);
    let figures = LoadFigures {
        throughput_per_s: whole.throughput_per_s,
        requests: all.iter().map(|f| f.requests).sum(),
        errors: all.iter().map(|f| f.errors).sum(),
        duration_s: all.iter().map(|f| f.duration_s).fold(0.0, f64::max),
        p99_us: number(whole.p99_us).unwrap_or(0.0),
        served_per_s: number(whole.served_per_s),
        merit: number(whole.merit),
        nvcsw_per_s: sum(|f| f.nvcsw_per_s),
        nivcsw_per_s: sum(|f| f.nivcsw_per_s),
        cpu_s: sum(|f| f.cpu_s),
        user_s: sum(|f| f.user_s),
        ..LoadFigures::default()
    };
    let part = |(side, result): &(&Side, RunResult)| {
        let figures = &result.figures;
        let part = PartFigures {
            cpu_s: figures.cpu_s,
            user_s: figures.user_s,
            wait_mean_us: figures.wait_mean_us,
            timeslices: None,
            nvcsw_per_s: figures.nvcsw_per_s,
            nivcsw_per_s: figures.nivcsw_per_s,
            wait_histogram: figures.wait_histogram.clone(),
            runs: figures.runs.clone(),
            load: Some(Box::new(figures.clone())),
        };
        (side.name.clone(), part)
    };
    let parts: Parts = sides.iter().map(part).collect();
    RunResult { figures, parts }
}

//! One form: its application is started once, and kept running while subjects change.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use metasched_base::{Error, Interrupt, Kind, Result};
use metasched_control::SwitchRecord;
use metasched_experiment::{CandidateRounds, Need, affordable, losers, need, suffices};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::{Bench, Event, is_fatal};
use crate::manifest::{Form, Reader};
use crate::runner::{Observe, RunResult, Started, interrupted};
use crate::store::{NewMeasurement, Query};
use crate::{Failure, RunKind, Subject};

/// What the store holds of a series, for the subjects of this call (by their place).
pub(super) struct State {
    /// The rounds of each beside the default scheduler.
    pub rounds: Vec<CandidateRounds>,
    /// Those that are surely not the best: their places.
    pub lost: Vec<usize>,
    /// Traced runs.
    traced: Vec<u32>,
    /// Control runs.
    controls: u32,
}

impl State {
    pub(super) fn pairs(&self) -> usize {
        self.rounds.iter().map(|of| of.rounds.len()).sum()
    }
}

/// How a run failed.
enum Fault {
    /// Nothing can go on: interruption, store, privileges.
    Stop(Error),
    /// The application or its load does not work, whatever it runs under.
    Workload(Error),
    /// It failed under this subject.
    Subject(Error),
}

/// One run that is to be made.
#[derive(Clone, Copy)]
struct Item {
    subject: usize,
    kind: RunKind,
}

/// A form while it is measured.
struct Running<'a> {
    application: Option<Started<'a>>,
    form: &'a Form,
    series: i64,
    /// When its part of the budget is over.
    end: Option<Instant>,
    /// Runs that later forms will need.
    later: u32,
    random: ChaCha8Rng,
    rounds: u32,
}

impl<'a> Bench<'a, '_> {
    /// What the store holds of a series.
    pub(super) fn state(&self, form: &Form, series: i64) -> Result<State> {
        let named = |subject: &Subject| CandidateRounds::new(subject.to_string(), Vec::new());
        let mut state = State {
            rounds: self.subjects.iter().map(named).collect(),
            lost: Vec::new(),
            traced: vec![0; self.subjects.len()],
            controls: 0,
        };
        let place = |subject: &Subject| self.subjects.iter().position(|s| s == subject);
        for pair in self.store.pairs(&Query::of_series(series))? {
            if let Some(place) = place(&pair.subject) {
                state.rounds[place].rounds.push(pair.round());
            }
        }
        if self.request.options.rules.drop_losers {
            // The default scheduler, which is the first, is in every round.
            let lost = losers(&state.rounds[1..], form.objective());
            state.lost = lost.iter().map(|lost| lost.place + 1).collect();
        }
        let traced = Query { kind: Some(RunKind::Traced), ..Query::of_series(series) };
        for run in self.store.measurements(&traced)? {
            if let Some(place) = place(&run.subject) {
                state.traced[place] += 1;
            }
        }
        let controls = self.store.controls(&Query::of_series(series))?.len();
        state.controls = u32::try_from(controls).unwrap_or(u32::MAX);
        Ok(state)
    }

    /// About how many runs it takes until the form needs no more.
    pub(super) fn runs_needed(&self, form: &Form, state: &State) -> u32 {
        let mut runs = 0;
        let mut longest = 0;
        for place in self.alive() {
            if let Need::Rounds(rounds) = self.need(form, state, place) {
                runs += rounds;
                longest = longest.max(rounds);
            }
        }
        let controls = self.request.options.control_runs.saturating_sub(state.controls);
        longest = longest.max(controls);
        runs + longest + controls + self.traces_missing(state).len() as u32
    }

    fn need(&self, form: &Form, state: &State, place: usize) -> Need {
        if state.lost.contains(&place) {
            return Need::Behind;
        }
        need(&state.rounds[place].pairs(form.objective()), &self.request.options.rules)
    }

    /// The subjects other than the default scheduler that were not dropped.
    fn alive(&self) -> Vec<usize> {
        (1..self.subjects.len()).filter(|place| !self.is_dropped(&self.subjects[*place])).collect()
    }

    fn traces_missing(&self, state: &State) -> Vec<usize> {
        let wanted = self.request.options.trace_runs;
        let mut missing = Vec::new();
        for place in [0].into_iter().chain(self.alive()) {
            for _ in state.traced[place]..wanted {
                missing.push(place);
            }
        }
        missing
    }

    /// Measures a form until it needs no more or its time is over. Gives what made it
    /// end early, if the application does not work.
    pub(super) fn form(
        &mut self,
        form: &'a Form,
        series: i64,
        end: Option<Instant>,
        later: u32,
    ) -> Result<Option<Error>> {
        // Applications start under the default scheduler, whatever ran before.
        self.enter_baseline()?;
        let mut random = ChaCha8Rng::seed_from_u64(self.request.options.seed);
        // Each form draws from a stream of its own, so that what one form needs does
        // not change the order of another.
        random.set_stream(series.unsigned_abs());
        let mut running =
            Running { application: None, form, series, end, later, random, rounds: 0 };
        let result = self.rounds(&mut running).and_then(|()| self.traces(&mut running));
        // Back first: an application stops best under the scheduler that it started under.
        let back = self.enter_baseline();
        let stopped = running.application.take().map_or(Ok(()), Started::stop);
        match result {
            Ok(()) => back.and(stopped).map(|()| None),
            Err(Fault::Stop(error)) => Err(error),
            Err(Fault::Workload(error) | Fault::Subject(error)) => back.map(|()| Some(error)),
        }
    }

    fn enter_baseline(&mut self) -> Result<()> {
        let subject = self.subjects[0].clone();
        self.executor.enter(&subject).map(drop)
    }

    /// Round after round, until nobody needs another or the time is over. When it
    /// does not suffice for everybody, the better half goes on after each has had a round.
    fn rounds(&mut self, running: &mut Running<'a>) -> Result<(), Fault> {
        loop {
            let state = self.state(running.form, running.series).map_err(Fault::Stop)?;
            let mut wanting = self.alive();
            wanting
                .retain(|place| matches!(self.need(running.form, &state, *place), Need::Rounds(_)));
            wanting.shuffle(&mut running.random);

            let fits = self.runs_that_fit(running.end);
            let rules = &self.request.options.rules;
            let mut control = state.controls < self.request.options.control_runs && fits >= 2;
            // Traced runs at the end want their time too.
            let mut beside = usize::from(control) + self.traces_missing(&state).len();
            let runs = fits.saturating_sub(beside);
            if rules.drop_losers && !suffices(&wanting, &state.rounds, rules.min_rounds, runs) {
                // What there is of it is for those that may be the best.
                (control, beside) = (false, 0);
                let objective = running.form.objective();
                wanting = affordable(&wanting, &state.rounds, objective, rules.min_rounds, fits);
            }
            // Whatever the budget, nobody is left without any figure.
            let owed = match running.rounds {
                0 => wanting.iter().filter(|place| state.rounds[**place].rounds.is_empty()).count(),
                _ => 0,
            };
            wanting.sort_by_key(|place| state.rounds[*place].rounds.len());
            wanting.truncate(fits.saturating_sub(beside + 1).max(owed));
            if wanting.is_empty() && !control {
                return Ok(());
            }
            let mut items: Vec<Item> = wanting
                .into_iter()
                .map(|subject| Item { subject, kind: RunKind::Measured })
                .collect();
            items.push(Item { subject: 0, kind: RunKind::Measured });
            if control {
                items.push(Item { subject: 0, kind: RunKind::Control });
            }
            items.shuffle(&mut running.random);
            let here = u32::try_from(items.len()).unwrap_or(u32::MAX);
            self.round(
                running,
                &items,
                self.runs_needed(running.form, &state).saturating_sub(here),
            )?;
            running.rounds += 1;
        }
    }

    /// How many runs can be made until then.
    fn runs_that_fit(&self, end: Option<Instant>) -> usize {
        let Some(end) = end else { return usize::MAX };
        let left = end.saturating_duration_since(Instant::now());
        (left.as_secs_f64() / self.pace.mean.as_secs_f64()) as usize
    }

    /// The traced runs that are missing. They belong to no round: nothing is divided.
    fn traces(&mut self, running: &mut Running<'a>) -> Result<(), Fault> {
        let state = self.state(running.form, running.series).map_err(Fault::Stop)?;
        let mut missing = self.traces_missing(&state);
        missing.shuffle(&mut running.random);
        // If there is no time for all: the default scheduler's, and of those that are known best.
        missing.sort_by_key(|place| match place {
            0 => Reverse(usize::MAX),
            place => Reverse(state.rounds[*place].rounds.len()),
        });
        let items: Vec<Item> =
            missing.into_iter().map(|subject| Item { subject, kind: RunKind::Traced }).collect();
        if items.is_empty() { Ok(()) } else { self.round(running, &items, 0) }
    }

    /// Makes the runs of a round in the given order; `after` is about how many this form
    /// needs after it.
    fn round(
        &mut self,
        running: &mut Running<'a>,
        items: &[Item],
        after: u32,
    ) -> Result<(), Fault> {
        let session = self.session().map_err(Fault::Stop)?;
        let round = self.store.last_round(running.series, session).map_err(Fault::Stop)? + 1;
        for (order, item) in items.iter().enumerate() {
            let subject = self.subjects[item.subject].clone();
            let late = || running.end.is_some_and(|end| Instant::now() + self.pace.mean > end);
            if self.is_dropped(&subject) || (item.kind == RunKind::Traced && late()) {
                continue;
            }
            let left = u32::try_from(items.len() - order).unwrap_or(u32::MAX);
            self.announce(running, &subject, item.kind, round, left + after);
            let began = Instant::now();
            match self.run(running, &subject, item.kind) {
                Ok((result, started_at, switches)) => {
                    self.pace.add(began.elapsed());
                    self.store
                        .add(&NewMeasurement {
                            series: running.series,
                            session,
                            round,
                            order: u32::try_from(order).unwrap_or(u32::MAX),
                            kind: item.kind,
                            subject: &subject,
                            started_at: &started_at,
                            figures: &result.figures,
                            parts: &result.parts,
                        })
                        .and_then(|_| self.store.add_switches(session, &switches))
                        .map_err(Fault::Stop)?;
                    (self.observer)(Event::Finished {
                        subject: &subject,
                        figures: &result.figures,
                    });
                }
                // The tracer is ours: what it cannot do is nobody else's failure, and
                // it would fail the next time too.
                Err(Fault::Subject(error) | Fault::Workload(error))
                    if item.kind == RunKind::Traced =>
                {
                    self.keep_failure(running, session, &subject, &error)?;
                    (self.observer)(Event::Failed {
                        subject: &subject,
                        error: &error,
                        dropped: false,
                    });
                    return Ok(());
                }
                Err(Fault::Subject(error)) => self.failed(running, session, &subject, error)?,
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    /// Tells that a run begins, of which so many are still to come.
    fn announce(
        &mut self,
        running: &Running,
        subject: &Subject,
        kind: RunKind,
        round: u32,
        runs: u32,
    ) {
        let mut runs_left = runs + running.later;
        if let Some(budget) = self.request.options.budget {
            // A run that was begun is finished even so.
            let left = (self.began + budget).saturating_duration_since(Instant::now());
            let left = (self.pace.mean * runs_left).min(left.max(self.pace.mean));
            runs_left = (left.as_secs_f64() / self.pace.mean.as_secs_f64()).ceil() as u32;
        }
        (self.observer)(Event::Running {
            form: &running.form.name,
            subject,
            kind,
            round,
            runs_left,
        });
    }

    /// Keeps a failure under a subject, and starts the application anew: it may be in
    /// any state.
    fn failed(
        &mut self,
        running: &mut Running<'a>,
        session: i64,
        subject: &Subject,
        error: Error,
    ) -> Result<(), Fault> {
        self.keep_failure(running, session, subject, &error)?;
        self.failures.push((subject.clone(), error.clone()));
        let dropped = self.is_dropped(subject);
        (self.observer)(Event::Failed { subject, error: &error, dropped });
        self.enter_baseline().map_err(Fault::Stop)?;
        running.application = None;
        Ok(())
    }

    fn keep_failure(
        &mut self,
        running: &Running,
        session: i64,
        subject: &Subject,
        error: &Error,
    ) -> Result<(), Fault> {
        let failure = Failure {
            session,
            series: running.series,
            subject: subject.clone(),
            at: crate::store::now(),
            error: error.to_string(),
        };
        self.store.add_failure(&failure).map_err(Fault::Stop)
    }

    /// One run: puts the subject in force, warms up, measures.
    fn run(
        &mut self,
        running: &mut Running<'a>,
        subject: &Subject,
        kind: RunKind,
    ) -> Result<(RunResult, String, Vec<SwitchRecord>), Fault> {
        let blame = |error: Error| {
            if is_fatal(&error) || subject.is_baseline() {
                Fault::Stop(error)
            } else {
                Fault::Subject(error)
            }
        };
        let options = self.request.options;
        let given = running.form.load.given.is_some();
        let warm = running.application.is_some();
        if running.application.is_none() {
            let application = Started::start(self.request.workload, running.form, self.site);
            running.application = Some(application.map_err(workload_fault)?);
        }
        let Some(application) = &mut running.application else { unreachable!("it was just set") };
        let mut switches = self.executor.enter(subject).map_err(blame)?;
        // A command has nothing to warm up but the caches, and those only once: under whatever
        // scheduler, the run before it did the same.
        let warmup = match running.form.load.reads {
            Reader::Elapsed if warm => Duration::ZERO,
            _ => options.warmup,
        };
        let (user, reads) = (&self.site.interrupt, running.form.load.reads);
        let mut outcome = None;
        let mut work = |cancel: &Interrupt| {
            outcome = Some(warm_and_run(
                application,
                reads,
                warmup,
                options.duration,
                kind,
                &[user, cancel],
            ));
        };
        let taken = self.executor.during(subject, &mut work);
        if user.is_raised() {
            return Err(Fault::Stop(interrupted("finish the measurement")));
        }
        switches.extend(taken.map_err(blame)?);
        match outcome {
            Some(Ok((result, started_at))) => Ok((result, started_at, switches)),
            // There is nothing but the command.
            Some(Err(error)) if given || is_fatal(&error) => Err(Fault::Stop(error)),
            Some(Err(error)) if subject.is_baseline() => Err(Fault::Workload(error)),
            Some(Err(error)) => Err(Fault::Subject(error)),
            None => Err(Fault::Stop(Error::new(
                Kind::Failed,
                format!("measure under '{subject}'"),
                "the load was never run",
            ))),
        }
    }
}

fn workload_fault(error: Error) -> Fault {
    if is_fatal(&error) { Fault::Stop(error) } else { Fault::Workload(error) }
}

fn warm_and_run(
    application: &mut Started,
    reads: Reader,
    warmup: Duration,
    duration: Duration,
    kind: RunKind,
    interrupts: &[&Interrupt],
) -> Result<(RunResult, String)> {
    let end = Instant::now() + warmup;
    while !warmup.is_zero() {
        application.run(warmup, Observe::Nothing, interrupts)?;
        // A command does not know for how long: it is run again until then.
        if reads != Reader::Elapsed || Instant::now() >= end {
            break;
        }
    }
    let observe = match kind {
        RunKind::Measured => Observe::Usage,
        RunKind::Traced => Observe::Waits,
        RunKind::Control => Observe::Nothing,
    };
    let started_at = crate::store::now();
    Ok((application.run(duration, observe, interrupts)?, started_at))
}

//! Measures workloads under subjects, in rounds, until the ratios are precise enough.
//!
//! A round is every subject once, in random order, on one boot; ratios are made only
//! within a round, so what drifts with the machine cancels out. Forms are measured
//! one after the other, not in turns: starting an application takes ten seconds and
//! more, and no figure of one form is ever divided by one of another.

mod executor;
mod form;
mod summary;

use std::time::{Duration, Instant};

use metasched_base::Result;
use metasched_experiment::Rules;

use crate::manifest::{Form, Workload};
use crate::runner::{Site, prepare, stage};
use crate::{Error, Kind, LoadFigures, RunKind, SeriesKey, Store, Subject};

pub use executor::{Executor, SwitcherExecutor, Work};
pub use summary::{FailureSummary, FormSummary, Outcome, SubjectSummary, Summary};

/// How to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long each load runs.
    pub duration: Duration,
    /// How long a load runs before it after each change of subject, not counted.
    pub warmup: Duration,
    /// When a subject has been measured often enough.
    pub rules: Rules,
    /// After this time no new round is begun; it is shared out evenly over the forms.
    pub budget: Option<Duration>,
    /// The seed of the random order.
    pub seed: u64,
    /// Runs with the tracer of run-queue waits, of each subject, after the rounds.
    pub trace_runs: u32,
    /// Rounds that also run the default scheduler without metasched's observation.
    pub control_runs: u32,
    /// A subject is dropped when this many of its runs have failed.
    pub max_failures: u32,
    /// Sets what the store holds of the same series aside.
    pub fresh: bool,
    /// The command line, to be kept with the session.
    pub command: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(8),
            warmup: Duration::from_secs(2),
            rules: Rules::default(),
            budget: Some(Duration::from_secs(600)),
            seed: 1,
            trace_runs: 1,
            control_runs: 2,
            max_failures: 2,
            fresh: false,
            command: String::new(),
        }
    }
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The workload.
    pub workload: &'a Workload,
    /// The names of its forms; all of them where this is empty.
    pub forms: &'a [String],
    /// Under what; the default scheduler is added where it is missing.
    pub subjects: &'a [Subject],
    /// How.
    pub options: &'a Options,
}

/// The events of a session, for display.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// The workload is being prepared, which can take minutes.
    Preparing,
    /// A form is being started.
    Starting {
        /// Its name.
        form: &'a str,
        /// Pairs that the store held already, over all subjects.
        kept: usize,
    },
    /// Nothing of this form has to be measured.
    Settled {
        /// Its name.
        form: &'a str,
        /// Pairs that the store holds.
        kept: usize,
    },
    /// A run begins.
    Running {
        /// The form.
        form: &'a str,
        /// The subject.
        subject: &'a Subject,
        /// Why.
        kind: RunKind,
        /// The round.
        round: u32,
        /// About how many runs are still to come, this one among them.
        runs_left: u32,
    },
    /// A run gave figures, which are in the store.
    Finished {
        /// The subject.
        subject: &'a Subject,
        /// The figures.
        figures: &'a LoadFigures,
    },
    /// A run failed.
    Failed {
        /// The subject.
        subject: &'a Subject,
        /// Why.
        error: &'a Error,
        /// Whether the subject is not measured any more.
        dropped: bool,
    },
}

/// Receives the events.
pub type Observer<'a> = &'a mut dyn FnMut(Event<'_>);

/// Measures the forms of a workload under subjects.
///
/// What the store holds of the same series (same machine, kernel, versions, workload
/// and durations) counts: only what is missing is measured. Every finished run is in
/// the store when the next begins. A subject whose scheduler dies is dropped after
/// some failures, a form whose application does not work is left, and the others go
/// on; the summary tells.
///
/// Errors: what makes going on pointless, such as an interruption, a store that
/// cannot be written, or missing privileges.
pub fn measure_subjects(
    request: &Request,
    site: &Site,
    executor: &mut dyn Executor,
    store: &mut Store,
    observer: Observer,
) -> Result<Summary> {
    let forms = forms(request)?;
    let mut subjects = request.subjects.to_vec();
    match subjects.iter().position(Subject::is_baseline) {
        Some(place) => subjects.swap(0, place),
        None => subjects.insert(0, executor.baseline()?),
    }
    observer(Event::Preparing);
    let _prepared = prepare(request.workload, site)?;
    let mut bench = Bench {
        request,
        site,
        executor,
        store,
        observer,
        subjects,
        failures: Vec::new(),
        session: None,
        pace: Pace::new(request.options),
        began: Instant::now(),
    };
    let measured = bench.all(&forms);
    // Whatever happened, nothing of the workload stays.
    // Each of a pair, whatever comes of the other.
    let mut closed = Ok(());
    for one in request.workload.each() {
        let this = site.groups.close(&one.manifest.name);
        closed = closed.and(this);
    }
    let forms = measured?;
    closed?;
    summary::summary(&bench, forms)
}

/// The forms that were asked for, in the manifest's order.
fn forms<'a>(request: &Request<'a>) -> Result<Vec<&'a Form>> {
    let manifest = &request.workload.manifest;
    for name in request.forms {
        manifest.form(name)?;
    }
    let wanted = |form: &&Form| request.forms.is_empty() || request.forms.contains(&form.name);
    Ok(manifest.forms.iter().filter(wanted).collect())
}

/// One call's state.
struct Bench<'a, 'o> {
    request: &'a Request<'a>,
    site: &'a Site,
    executor: &'a mut dyn Executor,
    store: &'a mut Store,
    observer: Observer<'o>,
    /// The default scheduler first.
    subjects: Vec<Subject>,
    /// Of each subject, how many runs failed.
    failures: Vec<(Subject, Error)>,
    session: Option<i64>,
    pace: Pace,
    began: Instant,
}

/// A form that was dealt with.
struct Measured {
    form: String,
    series: i64,
    /// Pairs in the store before this call.
    before: usize,
    /// What ended it, if the application did not work.
    error: Option<Error>,
}

impl<'a> Bench<'a, '_> {
    fn all(&mut self, forms: &[&'a Form]) -> Result<Vec<Measured>> {
        let mut series = Vec::new();
        for form in forms {
            let id = self.store.series_id(&self.key(form)?)?;
            if self.request.options.fresh {
                self.store.supersede(id)?;
            }
            series.push(id);
        }
        let mut done = Vec::new();
        let mut staged = false;
        for (place, form) in forms.iter().enumerate() {
            let end = self.share(forms.len() - place);
            let state = self.state(form, series[place])?;
            let before = state.pairs();
            let needed = self.runs_needed(form, &state);
            if needed == 0 {
                (self.observer)(Event::Settled { form: &form.name, kept: before });
                done.push(Measured {
                    form: form.name.clone(),
                    series: series[place],
                    before,
                    error: None,
                });
                continue;
            }
            if !staged {
                stage(self.request.workload, self.site)?;
                staged = true;
            }
            let mut later = 0;
            for (form, id) in forms.iter().zip(&series).skip(place + 1) {
                later += self.runs_needed(form, &self.state(form, *id)?);
            }
            (self.observer)(Event::Starting { form: &form.name, kept: before });
            let error = self.form(form, series[place], end, later)?;
            done.push(Measured { form: form.name.clone(), series: series[place], before, error });
        }
        Ok(done)
    }

    /// When the next form's part of the budget is over.
    fn share(&self, forms_left: usize) -> Option<Instant> {
        let now = Instant::now();
        let end = self.began + self.request.options.budget?;
        let left = end.saturating_duration_since(now);
        Some(now + left / u32::try_from(forms_left).unwrap_or(1).max(1))
    }

    fn key(&self, form: &Form) -> Result<SeriesKey> {
        let workload = self.request.workload;
        Ok(SeriesKey {
            environment: self.site.environment()?,
            workload: workload.manifest.name.clone(),
            form: form.name.clone(),
            unit: form.unit.clone(),
            params: workload.params.clone(),
            workload_hash: workload.hash.clone(),
            duration_s: self.request.options.duration.as_secs_f64(),
            warmup_s: self.request.options.warmup.as_secs_f64(),
        })
    }

    /// The session, which begins with the first run.
    fn session(&mut self) -> Result<i64> {
        if let Some(session) = self.session {
            return Ok(session);
        }
        let options = self.request.options;
        let session =
            self.store.begin_session(&self.site.boot_id()?, options.seed, &options.command)?;
        self.session = Some(session);
        Ok(session)
    }

    /// Whether a subject failed too often in this call.
    fn is_dropped(&self, subject: &Subject) -> bool {
        let failed = self.failures.iter().filter(|(who, _)| who == subject).count();
        failed >= usize::try_from(self.request.options.max_failures.max(1)).unwrap_or(1)
    }
}

/// How long a run takes, warm-up and change of scheduler included.
struct Pace {
    mean: Duration,
    runs: u32,
}

impl Pace {
    /// Before the first run: what was asked for, and a second for the change.
    fn new(options: &Options) -> Self {
        Self { mean: options.duration + options.warmup + Duration::from_secs(1), runs: 0 }
    }

    fn add(&mut self, took: Duration) {
        self.runs += 1;
        // The first measured run replaces the guess.
        self.mean = (self.mean * (self.runs - 1) + took) / self.runs;
    }
}

/// The kinds after which nothing else can succeed either.
fn is_fatal(error: &Error) -> bool {
    matches!(error.kind, Kind::Interrupted | Kind::Denied | Kind::Busy | Kind::Usage)
}

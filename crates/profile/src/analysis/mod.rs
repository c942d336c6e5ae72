//! One workload's measurements, as ratios against the default scheduler.

mod activity;
mod again;
mod composition;
mod form;
mod measured;
mod rounds;
mod sides;
mod strategies;

use metasched_base::{Error, Kind, Result};
use metasched_control::SwitchRecord;
use metasched_experiment::{CandidateRounds, Objective};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

use crate::manifest::Manifest;
use crate::{BASELINE, Environment, Query, Series, Session, Store, Subject};
pub use activity::{ACTIVITY_FIGURES, Activity};
pub use composition::{Composition, composition};
pub use form::{Baseline, CandidateFigures, FormFigures};
use rounds::Rounds;
pub use sides::SideFigures;
pub(crate) use sides::{side_latencies_us, sides};
pub use strategies::StrategyFigures;

/// What a workload's manifest says of its forms.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    /// Which are parts of which whole, where it says so.
    pub composition: Option<Composition>,
    /// What each form is for.
    pub objectives: BTreeMap<String, Objective>,
}

impl Declared {
    /// By the manifest.
    pub fn of(manifest: &Manifest) -> Self {
        let whole = manifest.forms.iter().find(|form| !form.parts.is_empty());
        Self {
            composition: whole.map(|whole| Composition {
                parts: whole.parts.clone(),
                whole: Some(whole.name.clone()),
            }),
            objectives: manifest
                .forms
                .iter()
                .map(|form| (form.name.clone(), form.objective()))
                .collect(),
        }
    }
}

/// Everything that the store says about one workload in one setting: figures of
/// different machines, kernels, versions or parameters are never mixed.
#[derive(Clone, Debug, Serialize)]
pub struct Analysis {
    /// The workload's name.
    pub workload: String,
    /// Where it was measured.
    pub environment: Environment,
    /// The workload's parameters.
    pub params: BTreeMap<String, String>,
    /// The hash of the workload's manifest, files and parameters.
    pub workload_hash: String,
    /// Which forms are parts of which whole.
    pub composition: Composition,
    /// What each form is for.
    pub objectives: BTreeMap<String, Objective>,
    /// The forms that were measured: parts first, then the whole, then others.
    pub forms: Vec<FormFigures>,
    /// The metaschedulers that were measured on the whole.
    pub strategies: Vec<StrategyFigures>,
    /// Single schedulers on the whole in the same rounds as these.
    #[serde(skip)]
    pub beside_strategies: Vec<CandidateRounds>,
    /// Of a pair: each of the two, while both run.
    pub sides: Vec<SideFigures>,
    /// Their mean latencies under the default scheduler, in us; those that have one.
    #[serde(skip)]
    pub side_latencies_us: BTreeMap<String, f64>,
    /// Changes of scheduler in the sessions below.
    pub switches: Vec<SwitchRecord>,
    /// The sessions that the figures come from.
    pub sessions: Vec<Session>,
}

impl Analysis {
    /// The figures of a form, if it was measured.
    pub fn form(&self, name: &str) -> Option<&FormFigures> {
        self.forms.iter().find(|f| f.form == name)
    }

    /// The figures of the whole, if it was measured.
    pub fn whole(&self) -> Option<&FormFigures> {
        self.composition.whole.as_deref().and_then(|name| self.form(name))
    }
}

/// Reads the figures of `workload`, or of the workload that was measured last.
/// `declared` gives what the workload's manifest says, where it is found.
///
/// # Errors
///
/// [`Kind::BadInput`] if the store holds nothing of the workload, and whatever
/// reading the store gives.
pub fn analyse(
    store: &Store,
    workload: Option<&str>,
    declared: impl FnOnce(&str) -> Declared,
) -> Result<Analysis> {
    let query = Query { workload: workload.map(str::to_owned), ..Query::default() };
    let series = store.series(&query)?;
    let Some(newest) = series.iter().find(|s| s.measured > 0) else {
        return Err(nothing_measured(store, workload)?);
    };
    let setting: Vec<&Series> = series.iter().filter(|s| same_setting(s, newest)).collect();
    // A workload's forms are first measured in the order of its manifest.
    let mut by_age: Vec<&Series> = setting.iter().copied().filter(|s| s.measured > 0).collect();
    by_age.sort_by_key(|s| s.id);
    let mut names: Vec<&str> = Vec::new();
    for s in by_age {
        if !names.contains(&s.key.form.as_str()) {
            names.push(&s.key.form);
        }
    }
    let declared = declared(&newest.key.workload);
    let composition = declared.composition.unwrap_or_else(|| composition(&names));
    let order = composition.order(&names);
    let mut forms = Vec::new();
    for name in &order {
        let of_form = setting.iter().copied().filter(|s| s.key.form == *name);
        if let Some(figures) = FormFigures::read(store, of_form)? {
            forms.push(figures);
        }
    }
    let (strategies, beside_strategies) = match composition.whole.as_deref() {
        Some(whole) => strategies::read(store, setting.iter().filter(|s| s.key.form == whole))?,
        None => Default::default(),
    };
    let (mut of_sides, mut of_whole) = (Vec::new(), Vec::new());
    if let Some(whole) = composition.whole.as_deref() {
        // Profiling and tuning may have runs of different lengths: the series with most rounds counts.
        for s in setting.iter().filter(|s| s.key.form == whole) {
            let all = store.measurements(&Query::of_series(s.id))?;
            for side in sides(&all) {
                add_side(&mut of_sides, side);
            }
            of_whole.extend(all);
        }
    }
    let (sessions, switches) = sessions_of(store, &setting)?;
    Ok(Analysis {
        workload: newest.key.workload.clone(),
        environment: newest.key.environment.clone(),
        params: newest.key.params.clone(),
        workload_hash: newest.key.workload_hash.clone(),
        composition,
        objectives: declared.objectives,
        forms,
        strategies,
        beside_strategies,
        sides: of_sides,
        side_latencies_us: side_latencies_us(&of_whole),
        switches,
        sessions,
    })
}

/// What a series holds of each of these schedulers beside the default one.
///
/// # Errors
/// When the store cannot be read.
pub fn candidate_rounds(
    store: &Store,
    series: i64,
    subjects: &[Subject],
) -> Result<Vec<CandidateRounds>> {
    let all = store.measurements(&Query::of_series(series))?;
    let rounds = Rounds::new(&all, |m| {
        let wanted = m.subject.is_baseline() || subjects.contains(&m.subject);
        wanted.then(|| m.subject.to_string())
    });
    let of = |subject: &Subject| {
        let name = subject.to_string();
        CandidateRounds::new(&name, rounds.pairs(&name, BASELINE))
    };
    Ok(subjects.iter().map(of).collect())
}

/// Of the same in two series the one with more rounds is kept.
fn add_side(all: &mut Vec<SideFigures>, side: SideFigures) {
    match all.iter_mut().find(|s| (&s.subject, &s.name) == (&side.subject, &side.name)) {
        Some(known) if known.rounds < side.rounds => *known = side,
        Some(_) => {}
        None => all.push(side),
    }
}

fn same_setting(a: &Series, b: &Series) -> bool {
    a.key.workload == b.key.workload
        && a.key.environment == b.key.environment
        && a.key.params == b.key.params
        && a.key.workload_hash == b.key.workload_hash
}

fn sessions_of(store: &Store, setting: &[&Series]) -> Result<(Vec<Session>, Vec<SwitchRecord>)> {
    let mut ids = BTreeSet::new();
    for series in setting {
        ids.extend(store.measurements(&Query::of_series(series.id))?.iter().map(|m| m.session));
    }
    let sessions = store.sessions()?.into_iter().filter(|s| ids.contains(&s.id)).collect();
    let switches = store.switches()?;
    let of_these = switches.into_iter().filter(|(session, _)| ids.contains(session));
    Ok((sessions, of_these.map(|(_, record)| record).collect()))
}

/// The error for a store without figures of the workload.
fn nothing_measured(store: &Store, workload: Option<&str>) -> Result<Error> {
    let path = store.path().display();
    let known: BTreeSet<String> =
        store.series(&Query::default())?.into_iter().map(|s| s.key.workload).collect();
    Ok(match workload {
        Some(name) if !known.is_empty() => Error::new(
            Kind::BadInput,
            format!("find measurements of '{name}'"),
            format!(
                "the store '{path}' holds only those of {}",
                known.into_iter().collect::<Vec<_>>().join(", ")
            ),
        )
        .remedy("name one of these, or run `metasched profile` for it first"),
        _ => Error::new(Kind::BadInput, format!("find measurements in '{path}'"), "it holds none")
            .remedy("run `metasched profile` first, or name another store with --store"),
    })
}

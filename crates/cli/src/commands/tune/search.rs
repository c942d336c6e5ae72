//! What is measured to tune: a search for each strategy and mechanism.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Result};
use metasched_control::{Candidate, CandidateKind, EEVDF, Mechanism, resolve};
use metasched_profile::manifest::Workload;
use metasched_profile::measure::{Executor, Observer, Options, Request, Rules, measure_subjects};
use metasched_profile::runner::Site;
use metasched_profile::{Store, Subject, TurnShare};
use metasched_report::{Analysis, Plan, StrategyFigures, cycle};
use metasched_strategy::tune::{
    Allotment, MIN_TURN_BY_LANE, MIN_TURN_BY_SWAP, Point, TuneError, allot, best, bounds, grid,
    refine,
};
use metasched_strategy::{BenefitForm, Strategy};
use serde::Serialize;

use crate::commands::plan::Source;

/// What a run takes besides warm-up and load: settling, switching, reading figures.
const OVERHEAD: Duration = Duration::from_secs(1);
/// The same where the CPUs are emulated.
const OVERHEAD_EMULATED: Duration = Duration::from_secs(4);

/// What was asked for.
pub(super) struct Settings<'a> {
    pub strategies: &'a [Strategy],
    pub mechanisms: &'a [Mechanism],
    /// Instead of a search, where there are any.
    pub base_slices: &'a [Duration],
    /// The scheduler of a part's turn.
    pub asked: BTreeMap<String, String>,
    pub benefit: BenefitForm,
    pub budget: Duration,
    pub duration: Duration,
    pub warmup: Duration,
    pub seed: u64,
}

/// The search of one strategy by one mechanism.
struct Search {
    strategy: Strategy,
    mechanism: Mechanism,
    turns: Vec<TurnShare>,
    /// The base timeslices to begin with.
    first: Vec<Duration>,
}

impl Search {
    fn subject(&self, base: Duration) -> Subject {
        Subject::Strategy {
            strategy: self.strategy.to_string(),
            mechanism: self.mechanism,
            base_slice_ms: u64::try_from(base.as_millis()).unwrap_or(u64::MAX).max(1),
            turns: self.turns.clone(),
        }
    }

    /// Whether the figures are those of this search.
    fn owns(&self, figures: &StrategyFigures) -> bool {
        figures.strategy == self.strategy.name()
            && figures.mechanism == self.mechanism
            && figures.turns == self.turns
    }

    fn points(&self, analysis: &Analysis) -> Vec<Point> {
        let own = analysis.strategies.iter().filter(|s| self.owns(s));
        own.map(|s| Point { base_slice_ms: s.base_slice_ms, ratio: s.throughput.interval })
            .collect()
    }
}

/// All searches, and how the budget is spent on them.
pub(super) struct Searches<'a> {
    settings: Settings<'a>,
    /// The form that turns are measured on.
    whole: String,
    searches: Vec<Search>,
    pool: Vec<Candidate>,
    /// The best single scheduler, to be measured in the same rounds.
    single: Option<Subject>,
    allotment: Allotment,
    notes: Vec<String>,
}

impl<'a> Searches<'a> {
    /// Decides whose turn has which scheduler, and between which bounds to search.
    pub fn new(
        plan: &Plan,
        analysis: &Analysis,
        table: &[Candidate],
        settings: Settings<'a>,
    ) -> Result<Self> {
        let mut this = Self {
            whole: analysis.composition.whole.clone().unwrap_or_default(),
            searches: Vec::new(),
            pool: table.to_vec(),
            single: None,
            allotment: Allotment { grid: 0, refinements: 0, rounds: 0 },
            notes: Vec::new(),
            settings,
        };
        this.single = this.single_scheduler(plan, table);
        let mechanisms = this.settings.mechanisms.to_vec();
        let count = mechanisms.len() * this.settings.strategies.len();
        this.allotment = this.allot(count, analysis.environment.emulated)?;
        for mechanism in &mechanisms {
            match this.add(plan, analysis, table, *mechanism) {
                Ok(()) => {}
                // One mechanism that cannot be searched leaves the other.
                Err(e) if mechanisms.len() > 1 && e.kind == Kind::BadInput => {
                    this.notes.push(format!("not searched by {mechanism}: {e}"));
                }
                Err(e) => return Err(e),
            }
        }
        if this.searches.is_empty() {
            return Err(Error::new(Kind::BadInput, "tune", this.notes.join("; ")));
        }
        Ok(this)
    }

    fn single_scheduler(&mut self, plan: &Plan, table: &[Candidate]) -> Option<Subject> {
        let name = plan.whole.as_ref()?.best_estimate.as_ref()?;
        let candidate = resolve(table, name).ok()?;
        self.pool.push(candidate.clone());
        Some(Subject::scheduler(&candidate))
    }

    fn allot(&self, searches: usize, emulated: bool) -> Result<Allotment> {
        let s = &self.settings;
        let overhead = if emulated { OVERHEAD_EMULATED } else { OVERHEAD };
        let measurement = s.duration + s.warmup + overhead;
        let too_small = |e: TuneError| {
            Error::new(Kind::Usage, "tune within the budget", e)
                .remedy("raise --budget, or name fewer --strategies or one --mechanism")
        };
        if s.base_slices.is_empty() {
            return allot(s.budget, measurement, searches).map_err(too_small);
        }
        // An explicit list is measured as it is; the budget decides about rounds only.
        let runs = searches * s.base_slices.len() + 1 + usize::from(self.single.is_some());
        let affordable = (s.budget.as_secs_f64() / measurement.as_secs_f64()) as usize;
        match affordable / runs {
            rounds if rounds < 2 => {
                Err(too_small(TuneError::BudgetTooSmall { needed: measurement * 2 * runs as u32 }))
            }
            rounds => Ok(Allotment { grid: s.base_slices.len(), refinements: 0, rounds }),
        }
    }

    fn add(
        &mut self,
        plan: &Plan,
        analysis: &Analysis,
        table: &[Candidate],
        mechanism: Mechanism,
    ) -> Result<()> {
        let possible = |name: &str| match resolve(table, name) {
            Ok(c) => mechanism == Mechanism::Swap || c.kind == CandidateKind::Policy,
            Err(_) => false,
        };
        let cycle = cycle(plan, possible, &self.settings.asked)?;
        let chosen: Vec<Candidate> =
            cycle.turns.iter().map(|t| resolve(table, &t.scheduler)).collect::<Result<_>>()?;
        if mechanism == Mechanism::Lane
            && let Some(other) = chosen.iter().find(|c| c.kind != CandidateKind::Policy)
        {
            return Err(Error::new(
                Kind::BadInput,
                "take turns by lanes",
                format!("'{}' is not one of our policies", other.name),
            )
            .remedy("use --mechanism swap for it"));
        }
        self.notes.extend(cycle.notes.iter().map(|note| format!("by {mechanism}: {note}")));
        let switching = cycle.switching(mechanism, &analysis.switches);
        let min_turn = match mechanism {
            Mechanism::Lane => MIN_TURN_BY_LANE,
            Mechanism::Swap => MIN_TURN_BY_SWAP,
        };
        for strategy in self.settings.strategies {
            let weights = cycle.weights(*strategy, self.settings.benefit)?;
            let first = if self.settings.base_slices.is_empty() {
                let within = bounds(&weights, min_turn, switching, self.settings.duration)
                    .map_err(|e| {
                        Error::new(Kind::BadInput, format!("search '{strategy}'"), e)
                            .remedy("raise --duration, or give --base-slices")
                    })?;
                grid(within, self.allotment.grid)
            } else {
                self.settings.base_slices.to_vec()
            };
            let turns =
                cycle.turns.iter().zip(&chosen).zip(weights).map(|((turn, candidate), weight)| {
                    TurnShare::new(&turn.app, candidate, weight)
                });
            let turns = turns.collect();
            self.searches.push(Search { strategy: *strategy, mechanism, turns, first });
        }
        self.pool.extend(chosen);
        Ok(())
    }

    /// What a user should know before it begins.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Every candidate that is needed.
    pub fn pool(&self) -> &[Candidate] {
        &self.pool
    }

    /// Measures the grid, then around the best of each search.
    pub fn run(
        &self,
        workload: &Workload,
        source: &Source,
        site: &Site,
        executor: &mut dyn Executor,
        store: &mut Store,
        observer: Observer,
    ) -> Result<()> {
        let began = Instant::now();
        let first: Vec<Subject> =
            self.searches.iter().flat_map(|s| s.first.iter().map(|b| s.subject(*b))).collect();
        let mut measure = |subjects: Vec<Subject>, store: &mut Store, share: Duration| {
            let options = self.options(share);
            let forms = [self.whole.clone()];
            let subjects = subjects.into_iter().chain(self.single.clone()).collect::<Vec<_>>();
            let request =
                Request { workload, forms: &forms, subjects: &subjects, options: &options };
            measure_subjects(&request, site, executor, store, observer).map(drop)
        };
        let runs = |points: usize| if points > 0 { points * self.searches.len() + 1 } else { 0 };
        let all = runs(self.allotment.grid) + runs(self.allotment.refinements);
        let share = self.settings.budget.mul_f64(runs(self.allotment.grid) as f64 / all as f64);
        measure(first, store, share)?;
        if self.allotment.refinements == 0 {
            return Ok(());
        }
        let analysis = source.analyse(store)?;
        let closer: Vec<Subject> = self
            .searches
            .iter()
            .flat_map(|s| {
                let slices = refine(&s.points(&analysis), self.allotment.refinements);
                slices.into_iter().map(|base| s.subject(base)).collect::<Vec<_>>()
            })
            .collect();
        if closer.is_empty() {
            return Ok(());
        }
        measure(closer, store, self.settings.budget.saturating_sub(began.elapsed()))
    }

    fn options(&self, budget: Duration) -> Options {
        let rounds = u32::try_from(self.allotment.rounds).unwrap_or(u32::MAX);
        Options {
            duration: self.settings.duration,
            warmup: self.settings.warmup,
            // Every point gets the same number of rounds: they are compared.
            rules: Rules { min_rounds: rounds, max_rounds: rounds, ..Rules::default() },
            budget: Some(budget),
            seed: self.settings.seed,
            trace_runs: 0,
            control_runs: 0,
            command: std::env::args().collect::<Vec<_>>().join(" "),
            ..Options::default()
        }
    }

    /// What the store says of these searches.
    pub fn result(&self, analysis: &Analysis) -> Tuned {
        let table: Vec<StrategyFigures> = analysis
            .strategies
            .iter()
            .filter(|figures| self.searches.iter().any(|s| s.owns(figures)))
            .cloned()
            .collect();
        let best_of_each = self
            .searches
            .iter()
            .filter_map(|s| {
                let best = best(&s.points(analysis))?.base_slice_ms;
                table.iter().find(|t| s.owns(t) && t.base_slice_ms == best).cloned()
            })
            .collect();
        let rated = table.iter().filter_map(|t| Some((t, t.throughput.estimate?)));
        let best = rated.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(t, _)| t.clone());
        Tuned {
            workload: analysis.workload.clone(),
            form: analysis.composition.whole.clone().unwrap_or_default(),
            single: self.single.as_ref().map(Subject::to_string),
            notes: self.notes.clone(),
            table,
            best_of_each,
            best,
        }
    }
}

/// What tuning came to.
#[derive(Debug, Serialize)]
pub(super) struct Tuned {
    pub workload: String,
    pub form: String,
    /// The single scheduler that was measured in the same rounds.
    pub single: Option<String>,
    pub notes: Vec<String>,
    /// Every strategy, mechanism and base timeslice.
    pub table: Vec<StrategyFigures>,
    /// The best base timeslice of each strategy and mechanism.
    pub best_of_each: Vec<StrategyFigures>,
    /// The best of all; whether it is better than the default beyond the noise is in
    /// its verdict, which is corrected for the size of the table.
    pub best: Option<StrategyFigures>,
}

/// The name of the default scheduler, for texts.
pub(super) const DEFAULT: &str = EEVDF;

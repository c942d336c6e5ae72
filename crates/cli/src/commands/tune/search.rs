//! What is measured to tune: a search for each strategy and mechanism, and lanes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Result};
use metasched_control::{Candidate, CandidateKind, EEVDF, Mechanism, resolve};
use metasched_profile::manifest::Workload;
use metasched_profile::measure::{Executor, Observer, Options, Request, Rules, measure_subjects};
use metasched_profile::runner::{Site, cgroup_name};
use metasched_profile::{Store, Subject, TurnShare};
use metasched_report::{Analysis, Plan, StrategyFigures, cycle, side_by_side};
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
    /// The strategies by which lanes are weighted.
    pub lanes_by: &'a [Strategy],
    /// The policy beside the lanes, where lanes are to be measured.
    pub default: Option<&'a str>,
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

/// The search of one strategy in one way.
struct Search {
    strategy: Strategy,
    turns: Vec<TurnShare>,
    way: Way,
}

/// How the schedulers of a strategy share the machine.
enum Way {
    Turns {
        mechanism: Mechanism,
        /// The base timeslices to begin with.
        first: Vec<Duration>,
    },
    /// Side by side: there is nothing to search, only to measure.
    Lanes {
        /// The policy of everything else.
        default: Candidate,
    },
}

impl Search {
    /// What is measured first.
    fn first(&self) -> Vec<Subject> {
        match &self.way {
            Way::Turns { mechanism, first } => self.subjects(*mechanism, first),
            Way::Lanes { default } => vec![Subject::Lanes {
                strategy: self.strategy.to_string(),
                default: (Subject::scheduler(default).to_string(), default.version.clone()),
                lanes: self.turns.clone(),
            }],
        }
    }

    /// What is measured after that, around the best.
    fn closer(&self, analysis: &Analysis, refinements: usize) -> Vec<Subject> {
        match &self.way {
            Way::Turns { mechanism, .. } => {
                self.subjects(*mechanism, &refine(&self.points(analysis), refinements))
            }
            Way::Lanes { .. } => Vec::new(),
        }
    }

    /// Turns of these base timeslices.
    fn subjects(&self, mechanism: Mechanism, bases: &[Duration]) -> Vec<Subject> {
        let of = |base: &Duration| Subject::Strategy {
            strategy: self.strategy.to_string(),
            mechanism,
            base_slice_ms: u64::try_from(base.as_millis()).unwrap_or(u64::MAX).max(1),
            turns: self.turns.clone(),
        };
        bases.iter().map(of).collect()
    }

    /// Whether the figures are those of this search.
    fn owns(&self, figures: &StrategyFigures) -> bool {
        let way = match &self.way {
            Way::Turns { mechanism, .. } => figures.mode.mechanism() == Some(*mechanism),
            Way::Lanes { default } => figures.default.as_deref() == Some(default.name.as_str()),
        };
        way && figures.strategy == self.strategy.name() && figures.turns == self.turns
    }

    fn points(&self, analysis: &Analysis) -> Vec<Point> {
        let own = analysis.strategies.iter().filter(|s| self.owns(s));
        own.filter_map(|s| {
            let base_slice_ms = s.mode.base_slice_ms()?;
            Some(Point { base_slice_ms, ratio: s.throughput.interval })
        })
        .collect()
    }

    /// Its figures: where there are several base timeslices, the best of them.
    fn best<'b>(
        &self,
        table: &'b [StrategyFigures],
        analysis: &Analysis,
    ) -> Option<&'b StrategyFigures> {
        let base_slice_ms = match self.way {
            Way::Turns { .. } => Some(best(&self.points(analysis))?.base_slice_ms),
            Way::Lanes { .. } => None,
        };
        table.iter().find(|t| self.owns(t) && t.mode.base_slice_ms() == base_slice_ms)
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
        workload: &Workload,
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
        let ways = mechanisms.len() + usize::from(this.settings.default.is_some());
        // One way that cannot be searched leaves the others.
        let tolerate = |this: &mut Self, way: &str, added: Result<()>| match added {
            Err(e) if ways > 1 && e.kind == Kind::BadInput => {
                this.notes.push(format!("not searched by {way}: {e}"));
                Ok(())
            }
            other => other,
        };
        if let Some(default) = this.settings.default {
            let added = this.add_lanes(plan, table, workload, default);
            tolerate(&mut this, "lanes side by side", added)?;
        }
        let searches = mechanisms.len() * this.settings.strategies.len();
        this.allotment =
            this.allot(searches, this.searches.len(), analysis.environment.emulated)?;
        for mechanism in &mechanisms {
            let added = this.add_turns(plan, analysis, table, *mechanism);
            tolerate(&mut this, &mechanism.to_string(), added)?;
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

    fn allot(&self, searches: usize, lanes: usize, emulated: bool) -> Result<Allotment> {
        let s = &self.settings;
        let overhead = if emulated { OVERHEAD_EMULATED } else { OVERHEAD };
        let measurement = s.duration + s.warmup + overhead;
        let too_small = |e: TuneError| {
            Error::new(Kind::Usage, "tune within the budget", e)
                .remedy("raise --budget, or name fewer --strategies, one --mechanism or --mode")
        };
        if s.base_slices.is_empty() {
            return allot(s.budget, measurement, searches, lanes).map_err(too_small);
        }
        // An explicit list is measured as it is; the budget decides about rounds only.
        let beside = lanes + 1 + usize::from(self.single.is_some());
        let runs = searches * s.base_slices.len() + beside;
        let affordable = (s.budget.as_secs_f64() / measurement.as_secs_f64()) as usize;
        match affordable / runs {
            rounds if rounds < 2 => {
                Err(too_small(TuneError::BudgetTooSmall { needed: measurement * 2 * runs as u32 }))
            }
            rounds => Ok(Allotment { grid: s.base_slices.len(), refinements: 0, rounds }),
        }
    }

    /// Lanes side by side, weighted by each strategy.
    fn add_lanes(
        &mut self,
        plan: &Plan,
        table: &[Candidate],
        workload: &Workload,
        default: &str,
    ) -> Result<()> {
        let attempt = || format!("put the parts of '{}' on lanes", self.whole);
        let policy = |name: &str| matches!(resolve(table, name), Ok(c) if is_policy(&c));
        let default = resolve(table, default)?;
        let beside = side_by_side(plan, policy, &self.settings.asked)?;
        let chosen: Vec<Candidate> =
            beside.turns.iter().map(|t| resolve(table, &t.scheduler)).collect::<Result<_>>()?;
        if let Some(other) = chosen.iter().chain([&default]).find(|c| !is_policy(c)) {
            return Err(not_a_policy(attempt(), other)
                .remedy("choose among our policies, or have them take turns: --mode turns"));
        }
        let mut cgroups = Vec::new();
        for part in &beside.turns {
            let own = workload.part_cgroups(&part.app, &self.whole);
            if own.is_empty() {
                let cause = format!("'{}' has no cgroup of its own there", part.app);
                return Err(Error::new(Kind::BadInput, attempt(), cause)
                    .remedy("have it run in processes of its own; for qa: --set layout=split"));
            }
            let name = |own| cgroup_name(&workload.manifest.name, own);
            cgroups.push(own.into_iter().map(name).collect::<Vec<_>>());
        }
        self.notes.extend(beside.notes.iter().map(|note| format!("side by side: {note}")));
        for strategy in self.settings.lanes_by {
            let weights = beside.weights(*strategy, self.settings.benefit)?;
            let lanes: Vec<TurnShare> = (beside.turns.iter().zip(&chosen).zip(&cgroups))
                .zip(weights)
                .map(|(((part, candidate), cgroups), weight)| {
                    TurnShare::new(&part.app, candidate, weight).cgroups(cgroups.clone())
                })
                .collect();
            if let Some(same) = self.searches.iter().find(|s| s.turns == lanes) {
                self.notes.push(format!(
                    "side by side: {strategy} weighs the parts as {} does, and is not measured",
                    same.strategy
                ));
                continue;
            }
            let way = Way::Lanes { default: default.clone() };
            self.searches.push(Search { strategy: *strategy, turns: lanes, way });
        }
        self.pool.extend(chosen.into_iter().chain([default]));
        Ok(())
    }

    /// Turns by a mechanism, under each strategy.
    fn add_turns(
        &mut self,
        plan: &Plan,
        analysis: &Analysis,
        table: &[Candidate],
        mechanism: Mechanism,
    ) -> Result<()> {
        let possible = |name: &str| match resolve(table, name) {
            Ok(c) => mechanism == Mechanism::Swap || is_policy(&c),
            Err(_) => false,
        };
        let cycle = cycle(plan, possible, &self.settings.asked)?;
        let chosen: Vec<Candidate> =
            cycle.turns.iter().map(|t| resolve(table, &t.scheduler)).collect::<Result<_>>()?;
        if mechanism == Mechanism::Lane
            && let Some(other) = chosen.iter().find(|c| !is_policy(c))
        {
            return Err(not_a_policy("take turns by lanes".to_owned(), other)
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
            let way = Way::Turns { mechanism, first };
            self.searches.push(Search { strategy: *strategy, turns, way });
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
        let first: Vec<Subject> = self.searches.iter().flat_map(Search::first).collect();
        let mut measure = |subjects: Vec<Subject>, store: &mut Store, share: Duration| {
            let options = self.options(share);
            let forms = [self.whole.clone()];
            let subjects = subjects.into_iter().chain(self.single.clone()).collect::<Vec<_>>();
            let request =
                Request { workload, forms: &forms, subjects: &subjects, options: &options };
            measure_subjects(&request, site, executor, store, observer).map(drop)
        };
        let turns = self.searches.iter().filter(|s| matches!(s.way, Way::Turns { .. })).count();
        let closer = match self.allotment.refinements {
            0 => 0,
            points => points * turns + 1,
        };
        let begins = first.len() + 1;
        let share = self.settings.budget.mul_f64(begins as f64 / (begins + closer) as f64);
        measure(first, store, share)?;
        if self.allotment.refinements == 0 {
            return Ok(());
        }
        let analysis = source.analyse(store)?;
        let closer: Vec<Subject> = self
            .searches
            .iter()
            .flat_map(|s| s.closer(&analysis, self.allotment.refinements))
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
        let best_of_each =
            self.searches.iter().filter_map(|s| s.best(&table, analysis).cloned()).collect();
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

fn is_policy(candidate: &Candidate) -> bool {
    candidate.kind == CandidateKind::Policy
}

fn not_a_policy(attempt: String, other: &Candidate) -> Error {
    Error::new(Kind::BadInput, attempt, format!("'{}' is not one of our policies", other.name))
}

/// What tuning came to.
#[derive(Debug, Serialize)]
pub(super) struct Tuned {
    pub workload: String,
    pub form: String,
    /// The single scheduler that was measured in the same rounds.
    pub single: Option<String>,
    pub notes: Vec<String>,
    /// Every strategy, mechanism and base timeslice, and lanes.
    pub table: Vec<StrategyFigures>,
    /// The best base timeslice of each strategy and mechanism, and lanes.
    pub best_of_each: Vec<StrategyFigures>,
    /// The best of all; whether it is better than the default beyond the noise is in
    /// its verdict, which is corrected for the size of the table.
    pub best: Option<StrategyFigures>,
}

/// The name of the default scheduler, for texts.
pub(super) const DEFAULT: &str = EEVDF;

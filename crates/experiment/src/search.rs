//! The best way to run the parts' preferred schedulers together: each strategy in turns, for
//! several base timeslices, and side by side on lanes. A coarse grid comes first, then a closer
//! look around the best.

use std::collections::BTreeMap;
use std::time::Duration;

use metasched_base::{Error, Kind, Result};
use metasched_stats::{Interval, paired_ratio};
use serde::Serialize;

use crate::bed::{Bed, Effort};
use crate::choose::{CandidateRounds, assess};
use crate::contender::Contender;
use crate::cycle::{Cycle, cycle, side_by_side};
use crate::part_weights::PartWeights;
use crate::plan::{Measured, Plan, Whole};
use crate::race::pairs;
use crate::ratio::{Ratio, ratios};
use crate::recommend::Recommendation;
use crate::rounds::Rules;
use crate::timeslice::{Allotment, Point, best, bounds, grid, refine};
use crate::{BenefitForm, Objective, SEED, Strategy};

/// A way to change turns, as far as a search cares.
pub struct Mechanism<'a> {
    /// Its name.
    pub name: &'a str,
    /// No turn is shorter.
    pub shortest_turn: Duration,
    /// Whether it can put a scheduler in force.
    pub carries: &'a dyn Fn(&str) -> bool,
    /// How long the slowest change between these schedulers takes.
    pub switching: &'a dyn Fn(&[&str]) -> Duration,
}

/// Lanes side by side.
pub struct Lanes<'a> {
    /// The strategies whose weights they have.
    pub by: &'a [Strategy],
    /// Further weights to try, by no formula: each has one for every part, in the plan's order.
    pub weights: &'a [PartWeights],
    /// The policy of everything that has no lane.
    pub default: &'a str,
    /// Whether a scheduler can have a lane.
    pub carries: &'a dyn Fn(&str) -> bool,
    /// Whether parts that have the same policy have a lane each, so that none takes from another
    /// what is its by its weight.
    pub apart: bool,
}

/// What is searched.
pub struct SearchOptions<'a> {
    /// The strategies that take turns.
    pub strategies: &'a [Strategy],
    /// How turns are changed; none where they are not searched.
    pub mechanisms: &'a [Mechanism<'a>],
    /// Absent where lanes are not measured.
    pub lanes: Option<Lanes<'a>>,
    /// The base timeslices to measure instead of a search, if there are any.
    pub base_slices: &'a [Duration],
    /// The schedulers that parts are to have, instead of those that they prefer.
    pub asked: &'a BTreeMap<String, String>,
    /// How benefit enters the weights.
    pub benefit: BenefitForm,
    /// How long a measurement lasts: three cycles of turns must fit.
    pub measurement: Duration,
}

/// One strategy in one way; turns without their base timeslice.
struct Search {
    contender: Contender,
    /// The base timeslices to begin with.
    first: First,
}

/// The base timeslices to begin with.
enum First {
    /// There is nothing to search: lanes.
    Nothing,
    /// These.
    Given(Vec<Duration>),
    /// A grid between these.
    Within(crate::timeslice::Bounds),
}

/// All that is searched.
pub struct Searches {
    searches: Vec<Search>,
    /// What a user should know before it begins.
    pub notes: Vec<String>,
}

impl Searches {
    /// Decides which application has which scheduler, and the bounds of the search.
    ///
    /// # Errors
    /// [`Kind::BadInput`] if nothing can be searched.
    pub fn new(plan: &Plan, options: &SearchOptions) -> Result<Self> {
        let mut this = Self { searches: Vec::new(), notes: Vec::new() };
        let ways = options.mechanisms.len() + usize::from(options.lanes.is_some());
        // One way that cannot be searched leaves the others.
        let tolerate = |this: &mut Self, way: &str, added: Result<()>| match added {
            Err(e) if ways > 1 && e.kind == Kind::BadInput => {
                this.notes.push(format!("not searched, {way}: {e}"));
                Ok(())
            }
            other => other,
        };
        if let Some(lanes) = &options.lanes {
            let added = this.add_lanes(plan, lanes, options);
            tolerate(&mut this, "lanes side by side", added)?;
        }
        for mechanism in options.mechanisms {
            let added = this.add_turns(plan, mechanism, options);
            tolerate(&mut this, &format!("turns by {}", mechanism.name), added)?;
        }
        if this.searches.is_empty() {
            let notes: Vec<String> = plan.notes.iter().chain(&this.notes).cloned().collect();
            return Err(Error::new(Kind::BadInput, "run the parts together", notes.join("; "))
                .remedy("choose another: --strategy round-robin needs no figures, and benefit no latency"));
        }
        Ok(this)
    }

    fn add_lanes(&mut self, plan: &Plan, lanes: &Lanes, options: &SearchOptions) -> Result<()> {
        let beside = side_by_side(plan, lanes.carries, options.asked)?;
        refuse_uncarried(&beside, lanes.carries, "on lanes")?;
        self.notes.extend(beside.notes.iter().map(|note| format!("side by side: {note}")));
        // The plan's notes say what a strategy says nothing about.
        let by_formula = lanes.by.iter().filter_map(|strategy| {
            Some((Some(*strategy), beside.weights(*strategy, options.benefit).ok()?))
        });
        let by_none = lanes.weights.iter().map(|weights| (None, weights.shares()));
        for (strategy, weights) in by_formula.chain(by_none) {
            let shares = match lanes.apart {
                true => beside.turns(&weights),
                false => beside.lanes(&weights),
            };
            if let [one] = shares.as_slice() {
                self.notes.push(format!(
                    "side by side: all parts come to {}, which is one scheduler for all",
                    one.scheduler
                ));
                return Ok(());
            }
            let contender =
                Contender::Lanes { strategy, default: lanes.default.to_owned(), lanes: shares };
            self.add(contender, First::Nothing);
        }
        Ok(())
    }

    fn add_turns(
        &mut self,
        plan: &Plan,
        mechanism: &Mechanism,
        options: &SearchOptions,
    ) -> Result<()> {
        let cycle = cycle(plan, mechanism.carries, options.asked)?;
        refuse_uncarried(&cycle, mechanism.carries, &format!("by {}", mechanism.name))?;
        let schedulers: Vec<&str> = cycle.turns.iter().map(|t| t.scheduler.as_str()).collect();
        let switching = (mechanism.switching)(&schedulers);
        let by = mechanism.name;
        self.notes.extend(cycle.notes.iter().map(|note| format!("turns by {by}: {note}")));
        for strategy in options.strategies {
            let Ok(weights) = cycle.weights(*strategy, options.benefit) else { continue };
            let first = match options.base_slices {
                [] => {
                    let within =
                        bounds(&weights, mechanism.shortest_turn, switching, options.measurement);
                    First::Within(within.map_err(|e| {
                        Error::new(Kind::BadInput, format!("search '{strategy}'"), e)
                            .remedy("raise --duration, or give --base-slice")
                    })?)
                }
                given => First::Given(given.to_vec()),
            };
            let contender = Contender::Turns {
                strategy: *strategy,
                mechanism: mechanism.name.to_owned(),
                base_slice_ms: 0,
                turns: cycle.turns(&weights),
            };
            self.add(contender, first);
        }
        Ok(())
    }

    fn add(&mut self, contender: Contender, first: First) {
        let same = |s: &&Search| {
            s.contender.mechanism() == contender.mechanism()
                && s.contender.shares() == contender.shares()
        };
        match self.searches.iter().find(same) {
            Some(same) => {
                let (other, this) = (same.contender.by(), contender.by());
                self.notes.push(format!(
                    "{}: {this} weighs the parts as {other} does, and is not measured",
                    contender
                        .mechanism()
                        .map_or("side by side".into(), |m| format!("turns by {m}"))
                ));
            }
            None => self.searches.push(Search { contender, first }),
        }
    }

    /// What is searched, turns without their base timeslice.
    pub fn contenders(&self) -> impl Iterator<Item = &Contender> {
        self.searches.iter().map(|search| &search.contender)
    }

    /// How many have base timeslices, and how many have none.
    pub fn count(&self) -> (usize, usize) {
        let lanes = self.searches.iter().filter(|s| matches!(s.first, First::Nothing)).count();
        (self.searches.len() - lanes, lanes)
    }

    /// Measures the grid, then around the best of each search; `beside` is measured in the
    /// same rounds. Every point has the same number of rounds: they are compared.
    ///
    /// # Errors
    /// As [`Bed::measure`].
    pub fn run(
        &self,
        bed: &mut dyn Bed,
        whole: &str,
        beside: &[Contender],
        allotment: Allotment,
        budget: Option<Duration>,
        objective: Option<Objective>,
    ) -> Result<()> {
        let began = std::time::Instant::now();
        let subjects = [whole.to_owned()];
        let rounds = u32::try_from(allotment.rounds).unwrap_or(u32::MAX);
        let rules = Rules::exactly(rounds);
        let measure = |bed: &mut dyn Bed, points: Vec<Contender>, budget: Option<Duration>| {
            let contenders: Vec<Contender> = points.into_iter().chain(beside.to_vec()).collect();
            bed.measure(&subjects, &contenders, &Effort { rules, budget })
        };
        let first: Vec<Contender> =
            self.searches.iter().flat_map(|s| s.first(allotment.grid)).collect();
        let (turns, _) = self.count();
        let closer = match allotment.refinements {
            0 => 0,
            points => points * turns + 1,
        };
        let begins = first.len() + 1;
        let part = begins as f64 / (begins + closer) as f64;
        measure(bed, first, budget.map(|budget| budget.mul_f64(part)))?;
        if allotment.refinements == 0 {
            return Ok(());
        }
        let measured = bed.measured()?;
        let Some(whole) = &measured.whole else { return Ok(()) };
        let objective = objective.unwrap_or(whole.objective);
        let closer: Vec<Contender> = self
            .searches
            .iter()
            .flat_map(|s| s.at(&refine(&s.points(whole, objective), allotment.refinements)))
            .collect();
        match closer.as_slice() {
            [] => Ok(()),
            _ => measure(bed, closer, budget.map(|budget| budget.saturating_sub(began.elapsed()))),
        }
    }

    /// What is known of what was searched.
    pub fn result(&self, measured: &Measured, plan: Plan, beside: Option<&Contender>) -> Tuned {
        let none = Whole::default();
        let whole = measured.whole.as_ref().unwrap_or(&none);
        let objective = plan.whole.as_ref().map_or(whole.objective, |whole| whole.objective);
        let own: Vec<(&Contender, CandidateRounds)> = whole
            .metaschedulers
            .iter()
            .filter(|(contender, _)| self.searches.iter().any(|s| s.owns(contender)))
            .map(|(c, rounds)| (c, CandidateRounds::new(c.to_string(), rounds.clone())))
            .collect();
        let rounds: Vec<CandidateRounds> = own.iter().map(|(_, rounds)| rounds.clone()).collect();
        let scores = assess(&rounds, objective);
        let single = beside.and_then(|beside| {
            let name = beside.to_string();
            let mut all = whole.beside.iter().chain(&whole.candidates);
            all.find(|candidate| candidate.name == name)
        });
        let best_of = |objective| -> Vec<(&Search, u64)> {
            let of = |s| Some((s, best(&Search::points(s, whole, objective))?.base_slice_ms));
            self.searches.iter().filter_map(of).collect()
        };
        let bests = best_of(objective);
        let mut table: Vec<Row> = own
            .iter()
            .zip(ratios(&rounds))
            .zip(scores)
            .map(|(((contender, rounds), (throughput, p99)), score)| Row {
                its_best: bests.iter().any(|(search, ms)| {
                    search.owns(contender) && contender.base_slice_ms() == Some(*ms)
                }),
                contender: (*contender).clone(),
                rounds: rounds.rounds.len(),
                throughput,
                p99,
                score: score.score,
                over_single: single.and_then(|single| over(rounds, single)),
            })
            .collect();
        table.sort_by_key(|row| {
            let at = row.contender.strategy().map(|strategy| strategy as u8);
            let mechanism = row.contender.mechanism().map(str::to_owned);
            (row.contender.complexity(), mechanism, at, row.contender.base_slice_ms())
        });
        let best = (0..table.len()).filter(|at| table[*at].score.is_some()).max_by(|a, b| {
            table[*a].score.unwrap_or(0.0).total_cmp(&table[*b].score.unwrap_or(0.0))
        });
        let p99 = best_of(Objective::P99);
        let base_slices = best_of(Objective::Throughput)
            .into_iter()
            .map(|(search, throughput_ms)| BestSlices {
                strategy: search.contender.strategy(),
                mechanism: search.contender.mechanism().map(str::to_owned),
                throughput_ms,
                p99_ms: p99
                    .iter()
                    .find(|(other, _)| other.contender == search.contender)
                    .map(|(_, ms)| *ms),
            })
            .collect();
        Tuned {
            workload: measured.application.clone(),
            form: whole.name.clone(),
            machine: measured.machine.clone(),
            default: measured.default.clone(),
            objective,
            single: single.map(|single| single.name.clone()),
            notes: plan.notes.iter().chain(&self.notes).cloned().collect(),
            table,
            best,
            base_slices,
            recommendation: plan.recommendation.unwrap_or_default(),
            again: plan.again,
        }
    }
}

impl Search {
    /// What is measured first.
    fn first(&self, points: usize) -> Vec<Contender> {
        match &self.first {
            First::Nothing => vec![self.contender.clone()],
            First::Given(bases) => self.at(bases),
            First::Within(bounds) => self.at(&grid(*bounds, points)),
        }
    }

    /// Turns of these base timeslices.
    fn at(&self, bases: &[Duration]) -> Vec<Contender> {
        let ms = |base: &Duration| u64::try_from(base.as_millis()).unwrap_or(u64::MAX).max(1);
        bases.iter().map(|base| self.contender.with_base_slice(ms(base))).collect()
    }

    fn owns(&self, contender: &Contender) -> bool {
        contender.with_base_slice(0) == self.contender.with_base_slice(0)
    }

    /// What is known of its base timeslices.
    fn points(&self, whole: &Whole, objective: Objective) -> Vec<Point> {
        let own = whole.metaschedulers.iter().filter(|(contender, _)| self.owns(contender));
        own.filter_map(|(contender, rounds)| {
            let base_slice_ms = contender.base_slice_ms()?;
            let candidate = CandidateRounds::new(contender.to_string(), rounds.clone());
            let ratio = paired_ratio(&candidate.pairs(objective), SEED);
            Some(Point { base_slice_ms, ratio })
        })
        .collect()
    }
}

/// Refuses what was asked for and cannot be carried.
fn refuse_uncarried(cycle: &Cycle, carries: &dyn Fn(&str) -> bool, how: &str) -> Result<()> {
    match cycle.turns.iter().find(|turn| !carries(&turn.scheduler)) {
        None => Ok(()),
        Some(turn) => {
            let cause = format!("'{}' is not one of our policies", turn.scheduler);
            Err(Error::new(Kind::BadInput, format!("run '{}' {how}", turn.app), cause)
                .remedy("choose among our policies, or have it take turns by swap"))
        }
    }
}

/// Ratios to another contender, by runs of the same rounds; absent where there are too few.
pub fn over(this: &CandidateRounds, other: &CandidateRounds) -> Option<Over> {
    let ratio = |objective| paired_ratio(&pairs(this, Some(other), objective), SEED);
    let throughput = ratio(Objective::Throughput)?;
    Some(Over { throughput, p99: ratio(Objective::P99).map(|p99| p99.inverse()) })
}

/// Ratios to another contender than the default scheduler.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Over {
    /// Throughput: more is better.
    pub throughput: Interval,
    /// 99th percentile of latency: less is better; absent where a run had none.
    pub p99: Option<Interval>,
}

/// What tuning came to.
#[derive(Debug, Serialize)]
pub struct Tuned {
    /// The workload, or the scenario.
    pub workload: String,
    /// The form that was measured: the whole.
    pub form: String,
    /// The machine.
    pub machine: String,
    /// The scheduler that all are compared with.
    pub default: String,
    /// What the best is best at.
    pub objective: Objective,
    /// The single scheduler that was measured in the same rounds.
    pub single: Option<String>,
    /// What was not searched as one might expect, and why.
    pub notes: Vec<String>,
    /// Lanes, and every strategy, mechanism and base timeslice.
    pub table: Vec<Row>,
    /// The place of the highest estimate in the table; whether it is better than the default
    /// beyond the noise is for the recommendation to say.
    pub best: Option<usize>,
    /// Which base timeslice is best for throughput, and which for latency.
    pub base_slices: Vec<BestSlices>,
    /// What to do.
    pub recommendation: Recommendation,
    /// The command that gives the same again, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<String>,
}

/// A strategy in a way.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was in force.
    pub contender: Contender,
    /// How many rounds there are.
    pub rounds: usize,
    /// Throughput against the default scheduler.
    pub throughput: Ratio,
    /// 99th percentile of latency against the default scheduler.
    pub p99: Ratio,
    /// Its ratio to the default scheduler by the objective; more is better.
    pub score: Option<f64>,
    /// Whether it has the best base timeslice of its strategy and mechanism.
    pub its_best: bool,
    /// Against the single scheduler that was measured in the same rounds.
    pub over_single: Option<Over>,
}

/// The best base timeslices of a strategy by a mechanism.
#[derive(Clone, Debug, Serialize)]
pub struct BestSlices {
    /// The strategy.
    pub strategy: Option<Strategy>,
    /// The mechanism.
    pub mechanism: Option<String>,
    /// That with the most throughput, in milliseconds.
    pub throughput_ms: u64,
    /// That with the lowest 99th percentile of latency; absent where there is no latency.
    pub p99_ms: Option<u64>,
}

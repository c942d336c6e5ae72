//! A scenario planned and tuned, as `metasched plan` and `metasched tune` do with a workload; on
//! whatever runs it.

use std::collections::BTreeSet;
use std::time::Duration;

use metasched_abi::{DEFAULT_POLICY, EEVDF, POLICIES, POLICY_NAMES, known_variant};
use metasched_base::{Error, Kind, Result};
use metasched_experiment::timeslice::{Allotment, MIN_TURN_BY_LANE};
use metasched_experiment::{
    About, Bed as _, Contender, Effort, Lanes, Measured, Mechanism, Plan, PlanOptions, Rules, Runs,
    SearchOptions, Searches, SeededBed, Strategy, Tuned, WHOLE, plan, settle,
};

/// Base timeslices of the first look at a strategy.
const GRID: usize = 6;
/// Base timeslices around its best.
const REFINEMENTS: usize = 2;
/// How many times as many runs as the others the few have that are best.
const SETTLING: u32 = 8;

/// How preferences are found, and what is searched.
#[derive(Clone, Copy, Debug)]
pub struct Tuning<'a> {
    /// How to plan.
    pub options: PlanOptions,
    /// The policies that are compared with the default scheduler; all, if there are none.
    pub policies: &'a [String],
    /// How many runs of each cgroup under each policy, at most; those that are surely not the
    /// best have fewer.
    pub plan_runs: u32,
    /// The strategies to search.
    pub strategies: &'a [Strategy],
    /// The base timeslices to simulate instead of a search, if there are any.
    pub base_slices: &'a [Duration],
    /// How many runs of each point of the search.
    pub runs: u32,
}

impl Default for Tuning<'_> {
    /// Everything is searched, with as many runs as it mostly takes.
    fn default() -> Self {
        Self {
            options: PlanOptions::default(),
            policies: &[],
            plan_runs: 6,
            strategies: &Strategy::ALL,
            base_slices: &[],
            runs: 6,
        }
    }
}

/// In which ways the preferred policies share the machine.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    /// One after the other.
    pub turns: bool,
    /// All at the same time.
    pub lanes: bool,
    /// No turn is shorter.
    pub shortest_turn: Duration,
}

impl Ways {
    /// What a search looks at.
    pub const ALL: Ways = Ways { turns: true, lanes: true, shortest_turn: MIN_TURN_BY_LANE };
}

impl Tuning<'_> {
    /// Simulates each cgroup alone under every policy, and all of them together if `whole`; gives
    /// what follows.
    ///
    /// # Errors
    /// `BadInput` when there is nothing to prefer; and when a run fails.
    pub fn plan(&self, bed: &mut SeededBed<impl Runs>, whole: bool) -> Result<Plan> {
        let About { application, default, parts, has_several, .. } = bed.about().clone();
        let contenders = self.contenders(&default)?;
        let mut subjects = parts;
        if subjects.is_empty() {
            let attempt = format!("find out what parts of '{application}' prefer");
            let cause = "all its tasks are in the root cgroup";
            return Err(Error::new(Kind::BadInput, attempt, cause).remedy(
                "give its tasks a cgroup; or compare policies for all of them: --compare",
            ));
        }
        if whole && has_several {
            subjects.push(WHOLE.to_owned());
        }
        let effort = Effort { rules: self.rules(), budget: None };
        bed.measure(&subjects, &contenders, &effort)?;
        self.planned(&bed.measured()?, bed)
    }

    /// Plans, and then simulates turns and lanes as well.
    ///
    /// # Errors
    /// As [`Tuning::plan`]; and `BadInput` where there is one cgroup, or nothing can be searched.
    pub fn tune(&self, bed: &mut SeededBed<impl Runs>) -> Result<Tuned> {
        let plan = self.plan(bed, true)?;
        if bed.about().parts.len() < 2 {
            let attempt = format!("tune '{}'", bed.about().application);
            let cause = "it has one cgroup, so there is nothing to take turns for";
            return Err(Error::new(Kind::BadInput, attempt, cause)
                .remedy("compare policies for it: metasched sim plan"));
        }
        let searches = self.searches(bed.about(), &plan, Ways::ALL)?;
        let rounds = usize::try_from(self.runs).unwrap_or(usize::MAX);
        let allotment = match self.base_slices.len() {
            0 => Allotment { grid: GRID, refinements: REFINEMENTS, rounds },
            given => Allotment { grid: given, refinements: 0, rounds },
        };
        searches.run(bed, WHOLE, &[], allotment, None, self.options.objective)?;
        let most = self.runs.saturating_mul(SETTLING);
        settle(bed, WHOLE, self.runs, most, self.options.objective)?;
        let measured = bed.measured()?;
        let plan = self.planned(&measured, bed)?;
        Ok(searches.result(&measured, plan, None))
    }

    /// What is compared with the default scheduler.
    fn contenders(&self, default: &str) -> Result<Vec<Contender>> {
        let mut names: Vec<&str> = self.policies.iter().map(String::as_str).collect();
        if names.is_empty() {
            names = POLICY_NAMES.to_vec();
        }
        let mut seen = BTreeSet::from([default]);
        names.retain(|name| seen.insert(name));
        if names.is_empty() {
            let attempt = format!("compare schedulers with '{default}'");
            return Err(Error::new(Kind::BadInput, attempt, "no other is named")
                .remedy("name another, or leave --schedulers out"));
        }
        let known =
            |name: &&str| known_variant(POLICIES, name).map(|_| Contender::scheduler(*name));
        names.iter().map(known).collect()
    }

    /// What there is to search in these ways.
    ///
    /// # Errors
    /// As [`Searches::new`].
    pub fn searches(&self, about: &About, plan: &Plan, ways: Ways) -> Result<Searches> {
        // The fair class takes no turns and has no lanes.
        let policy = |name: &str| name != EEVDF;
        let at_once = |_: &[&str]| Duration::ZERO;
        let mechanism = Mechanism {
            name: "lane",
            shortest_turn: ways.shortest_turn,
            carries: &policy,
            switching: &at_once,
        };
        let lanes = Lanes {
            by: self.strategies,
            weights: &[],
            default: DEFAULT_POLICY,
            carries: &policy,
            apart: false,
        };
        Searches::new(
            plan,
            &SearchOptions {
                strategies: self.strategies,
                mechanisms: if ways.turns { std::slice::from_ref(&mechanism) } else { &[] },
                lanes: ways.lanes.then_some(lanes),
                base_slices: self.base_slices,
                asked: &about.asked,
                benefit: self.options.benefit,
                measurement: about.measurement,
            },
        )
    }

    /// In the simulator a run costs little, and noise is small.
    fn rules(&self) -> Rules {
        let runs = self.plan_runs;
        Rules { min_rounds: runs.min(4), max_rounds: runs, precision: 0.005, drop_losers: true }
    }

    /// The plan of what was simulated, with the command that simulates what it recommends.
    fn planned(&self, measured: &Measured, bed: &SeededBed<impl Runs>) -> Result<Plan> {
        let mut plan = plan(measured, self.options)?;
        if let Some(recommended) = &mut plan.recommendation
            && let Some(contender) = &recommended.contender
        {
            recommended.command = bed.runs.command(contender)?;
        }
        Ok(plan)
    }
}

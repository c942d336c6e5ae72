//! `metasched tune`.

mod coordinate;
mod show;

use std::collections::BTreeMap;
use std::time::Duration;

use metasched_base::{Error, Kind, Result, parse_duration, parse_pair};
use metasched_control::{
    Candidate, CandidateEnv, CandidateKind, Mechanism, SwitcherOptions, candidates, put_back_after,
    resolve,
};
use metasched_experiment::timeslice::{
    Allotment, MIN_TURN_BY_LANE, MIN_TURN_BY_SWAP, TuneError, allot,
};
use metasched_experiment::{
    self as experiment, Contender, Lanes, PartWeights, SearchOptions, Searches, Strategy,
};
use metasched_loader::DEFAULT_POLICY;
use metasched_profile::measure::{Options, SwitcherExecutor};
use metasched_profile::runner::{Cgroups, Site};
use metasched_profile::{Analysis, WorkloadBed, cgroups_of, subject};

use super::plan::{ChoiceArgs, Source};
use super::run::Mode;
use super::strategies::SearchedArgs;
use crate::context::Context;
use show::Show;
pub use show::text;

/// What a run takes besides warm-up and load: settling, switching, reading figures.
const OVERHEAD: Duration = Duration::from_secs(1);
/// The same where the CPUs are emulated.
const OVERHEAD_EMULATED: Duration = Duration::from_secs(4);

/// Searches the best way to run the preferred schedulers together, by what the whole is for.
///
/// Measures the whole application while the parts' preferred schedulers take turns,
/// under each strategy, by each mechanism and for several base timeslices, and while
/// they run side by side on lanes with the strategy's weights, in random order with
/// EEVDF and the best single scheduler in every round. For the base timeslice a coarse
/// grid comes first, then a closer look around the best. Everything is kept in the store, and a
/// repeated call measures only what is missing.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    choice: ChoiceArgs,
    #[command(flatten)]
    searched: SearchedArgs,
    /// How applications get their schedulers: turns (one after the other, the whole
    /// machine) and lanes (all at the same time, each in its cgroups; our policies only)
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "turns,lanes")]
    mode: Vec<Mode>,
    /// With lanes: the strategies whose weights they have, if not those of --strategy
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    lanes_by: Vec<Strategy>,
    /// With lanes: further weights to try, of the parts in their order; of a pair 1:2 and 2:1 if
    /// none are given
    #[arg(long = "lane-weights", value_name = "N:N,...", value_delimiter = ',')]
    lane_weights: Vec<PartWeights>,
    /// With lanes: the policy of everything that has none of its own
    #[arg(long, value_name = "POLICY", default_value = DEFAULT_POLICY)]
    default: String,
    /// The mechanisms to search for turns: swap (any scheduler, by stopping and starting
    /// processes) and lane (our policies)
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "swap,lane")]
    mechanism: Vec<Mechanism>,
    /// The base timeslices to measure, with commas between them, instead of a search
    #[arg(long = "base-slice", value_name = "TIME,...", value_delimiter = ',', value_parser = parse_duration)]
    base_slices: Vec<Duration>,
    /// The scheduler of a part's turn, instead of the planned one; once for each part
    #[arg(long = "turn", value_name = "APP=SCHEDULER", value_parser = parse_turn)]
    turns: Vec<(String, String)>,
    /// Searches options of one policy instead, one after the other: an option's values are tried
    /// while all others stand still, the best stays, and the next option follows. Values have
    /// colons between them (slice=5ms:10ms:20ms); if none are given they lie around the default.
    /// Needs no profile; --workload may name several, each NAME or NAME:FORM, which count alike
    #[arg(long, value_name = "OPTION,...", value_delimiter = ',', requires = "scheduler")]
    coordinate: Vec<coordinate::Asked>,
    /// With --coordinate: the policy, with options that are not searched or begin otherwise than by
    /// default, as in ioprio:prio_slice=10ms
    #[arg(long, value_name = "NAME", requires = "coordinate")]
    scheduler: Option<String>,
    /// The time for all of it; it decides how many timeslices and rounds there are
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
    budget: Duration,
    /// How long a run of each load lasts: three whole cycles of turns must fit into it
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_duration)]
    duration: Duration,
    /// How long a load runs, uncounted, after each change of what is in force
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    warmup: Duration,
    /// The seed of the random order
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Stops a scheduler that is in force already, and puts it back at the end
    #[arg(long)]
    take_over: bool,
}

fn parse_turn(text: &str) -> Result<(String, String)> {
    parse_pair(text, "a turn", "front=fifo")
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    if !args.coordinate.is_empty() {
        return coordinate::run(args, context);
    }
    let mut store = args.source.open()?;
    let analysis = args.source.analyse(&store)?;
    let plan = args.choice.planned(&analysis, &args.source)?;
    let Some(whole) = analysis.composition.whole.clone() else {
        return Err(Error::new(
            Kind::BadInput,
            format!("tune '{}'", analysis.workload),
            "it has no form that is made up of others, so there is nothing to take turns for",
        )
        .remedy("declare `parts` in a form of its manifest, and profile all of its forms"));
    };
    let mut site = Site::here(Box::new(Cgroups::new(None)), &context.interrupt)?;
    let workload = analysis.same_workload(&args.source.place(&analysis.workload), &site)?;
    context.verbose(|| format!("tuning {} with {:?}", analysis.workload, analysis.params));
    let table = candidates(&CandidateEnv::system())?;
    let searches = args.searches(&plan, &analysis, &table)?;
    let single = plan.whole.as_ref().and_then(|whole| whole.best_estimate.as_ref());
    let single = single.filter(|name| resolve(&table, name).is_ok()).map(Contender::scheduler);
    let allotment =
        args.allot(&searches, usize::from(single.is_some()), analysis.environment.emulated)?;
    let mut pool = table.clone();
    for contender in searches.contenders().chain(&single) {
        // What cannot be put in force is said before anything is stopped.
        subject(contender, &table, &|part| cgroups_of(part, &workload, &whole))?;
        for name in contender.schedulers() {
            pool.push(resolve(&table, name)?);
        }
    }
    let mut show = Show::new(context, &analysis.workload);
    searches.notes.iter().for_each(|note| show.note(note));

    let options = SwitcherOptions::new("metasched tune").take_over(args.take_over);
    put_back_after(options, |switcher| {
        site.groups = Box::new(Cgroups::new(Some(switcher.guard())));
        let mut executor = SwitcherExecutor::new(switcher, &pool);
        let mut bed = WorkloadBed {
            workload: &workload,
            table: &table,
            site: &site,
            executor: &mut executor,
            store: &mut store,
            observer: &mut |event| show.event(&event),
            options: args.options(),
        };
        let objective = args.choice.objective;
        let beside = single.as_slice();
        let budget = Some(args.budget);
        let measured = searches.run(&mut bed, &whole, beside, allotment, budget, objective);
        show.end();
        measured
    })?;
    let analysis = args.source.analyse(&store)?;
    let plan = args.choice.planned(&analysis, &args.source)?;
    let tuned = searches.result(&analysis.measured(), plan, single.as_ref());
    if tuned.table.is_empty() {
        return Err(Error::new(
            Kind::Failed,
            "tune",
            "no metascheduler could be measured beside the default scheduler",
        )
        .remedy("see what was said above; `metasched doctor` checks the machine"));
    }
    context.print(&tuned, show::text)?;
    Ok(0)
}

impl Args {
    /// The ways to give applications schedulers.
    fn searches(
        &self,
        plan: &experiment::Plan,
        analysis: &Analysis,
        table: &[Candidate],
    ) -> Result<Searches> {
        let policy =
            |name: &str| resolve(table, name).is_ok_and(|c| c.kind == CandidateKind::Policy);
        let turns_by_lane = |name: &str| resolve(table, name).is_ok_and(|c| c.turns_by_lane());
        let known = |name: &str| resolve(table, name).is_ok();
        let took = |schedulers: &[&str]| analysis.swap_takes(schedulers);
        // The change itself and the interrupts that follow it. Nothing is under another
        // scheduler meanwhile, so it takes no more than that from a turn.
        let by_lane = |_: &[&str]| Duration::from_micros(100);
        let mechanism = |mechanism: &Mechanism| match mechanism {
            Mechanism::Swap => experiment::Mechanism {
                name: "swap",
                shortest_turn: MIN_TURN_BY_SWAP,
                carries: &known,
                switching: &took,
            },
            Mechanism::Lane => experiment::Mechanism {
                name: "lane",
                shortest_turn: MIN_TURN_BY_LANE,
                carries: &turns_by_lane,
                switching: &by_lane,
            },
        };
        let mechanisms: Vec<experiment::Mechanism> =
            if self.mode.contains(&Mode::Turns) { &self.mechanism[..] } else { &[] }
                .iter()
                .map(mechanism)
                .collect();
        let by = if self.lanes_by.is_empty() { &self.searched.strategies } else { &self.lanes_by };
        let default = resolve(table, &self.default)?;
        // The two of a pair know nothing of each other.
        let apart = plan.together;
        let weights = self.lane_weights(plan)?;
        let lanes =
            Lanes { by, weights: &weights, default: &default.name, carries: &policy, apart };
        let asked: BTreeMap<String, String> = self.turns.iter().cloned().collect();
        Searches::new(
            plan,
            &SearchOptions {
                strategies: &self.searched.strategies,
                mechanisms: &mechanisms,
                lanes: self.mode.contains(&Mode::Lanes).then_some(lanes),
                base_slices: &self.base_slices,
                asked: &asked,
                benefit: self.choice.benefit_form,
                measurement: self.duration,
            },
        )
    }

    /// The weights of lanes that are by no formula.
    fn lane_weights(&self, plan: &experiment::Plan) -> Result<Vec<PartWeights>> {
        let parts = plan.apps.len();
        if let Some(other) = self.lane_weights.iter().find(|weights| weights.parts() != parts) {
            let names: Vec<&str> = plan.apps.iter().map(|app| app.name.as_str()).collect();
            let (given, names) = (other.parts(), names.join(", "));
            return Err(Error::new(
                Kind::Usage,
                format!("weigh the lanes of '{}'", plan.workload),
                format!("{given} weights are given, and it has {parts} parts: {names}"),
            )
            .remedy("give one for each part, with colons between them: --lane-weights 1:2"));
        }
        Ok(match self.lane_weights.as_slice() {
            [] if plan.together && parts == 2 => PartWeights::of_two(),
            given => given.to_vec(),
        })
    }

    /// What a run takes in all.
    fn measurement(&self, emulated: bool) -> Duration {
        self.duration + self.warmup + if emulated { OVERHEAD_EMULATED } else { OVERHEAD }
    }

    /// How many rounds of so many runs fit into the budget: at least two, which an interval needs.
    fn rounds(&self, runs: usize, emulated: bool) -> std::result::Result<usize, TuneError> {
        let measurement = self.measurement(emulated);
        let round = measurement * u32::try_from(runs.max(1)).unwrap_or(u32::MAX);
        match self.budget.as_nanos() / round.as_nanos() {
            0 | 1 => Err(TuneError::BudgetTooSmall { needed: round * 2 }),
            rounds => Ok(usize::try_from(rounds).unwrap_or(usize::MAX)),
        }
    }

    /// How the budget is spent.
    fn allot(&self, searches: &Searches, singles: usize, emulated: bool) -> Result<Allotment> {
        let (turns, lanes) = searches.count();
        let allotment = if self.base_slices.is_empty() {
            allot(self.budget, self.measurement(emulated), turns, lanes)
        } else {
            // An explicit list is measured as it is; the budget decides about rounds only.
            let grid = self.base_slices.len();
            let rounds = self.rounds(turns * grid + lanes + 1 + singles, emulated);
            rounds.map(|rounds| Allotment { grid, refinements: 0, rounds })
        };
        allotment.map_err(|e| {
            too_small(e)
                .remedy("raise --budget, or name fewer of --strategy, one --mechanism or --mode")
        })
    }

    fn options(&self) -> Options {
        Options {
            duration: self.duration,
            warmup: self.warmup,
            seed: self.seed,
            trace_runs: 0,
            control_runs: 0,
            command: std::env::args().collect::<Vec<_>>().join(" "),
            ..Options::default()
        }
    }
}

/// What it takes does not fit into the budget.
fn too_small(e: TuneError) -> Error {
    Error::new(Kind::Usage, "tune within the budget", e)
}

//! `metasched tune`.

mod search;
mod show;

use std::collections::BTreeMap;
use std::time::Duration;

use metasched_base::{Error, Kind, Result, ResultExt, parse_duration};
use metasched_control::{CandidateEnv, Mechanism, Switcher, SwitcherOptions, candidates};
use metasched_profile::manifest::{Manifest, Workload, locate};
use metasched_profile::measure::SwitcherExecutor;
use metasched_profile::runner::{Cgroups, Site};
use metasched_profile::{Environment, Store};
use metasched_report::{Analysis, plan};
use metasched_strategy::Strategy;

use super::plan::{ChoiceArgs, PUBLISHED_BASE_SLICE, Source};
use super::run::{DEFAULT_POLICY, Mode};
use super::strategies::SearchedArgs;
use crate::context::Context;
use search::{Searches, Settings};
use show::Show;

/// Searches the best way to run the preferred schedulers together, on throughput.
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
    /// With lanes: the strategies whose weights they have, if not those of --strategies
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    lanes_by: Vec<Strategy>,
    /// With lanes: the policy of everything that has none of its own
    #[arg(long, value_name = "POLICY", default_value = DEFAULT_POLICY)]
    default: String,
    /// The mechanisms to search for turns: swap (any scheduler, by stopping and starting
    /// processes) and lane (our policies)
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "swap,lane")]
    mechanism: Vec<Mechanism>,
    /// The base timeslices to measure, with commas between them, instead of a search
    #[arg(long, value_name = "TIME,...", value_delimiter = ',', value_parser = parse_duration)]
    base_slices: Vec<Duration>,
    /// The scheduler of a part's turn, instead of the planned one; once for each part
    #[arg(long = "turn", value_name = "PART=SCHEDULER", value_parser = parse_turn)]
    turns: Vec<(String, String)>,
    /// The time for all of it; it decides how many timeslices and rounds there are
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
    budget: Duration,
    /// How long each load runs: three whole cycles of turns must fit into it
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
    match text.split_once('=') {
        Some((part, scheduler)) if !part.is_empty() && !scheduler.is_empty() => {
            Ok((part.to_owned(), scheduler.to_owned()))
        }
        _ => Err(Error::new(Kind::Usage, format!("read the turn '{text}'"), "there is no '='")
            .remedy("write it like front=fifo")),
    }
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let mut store = args.source.open()?;
    let analysis = args.source.analyse(&store)?;
    let plan = plan(&analysis, args.choice.options(PUBLISHED_BASE_SLICE, false))?;
    if analysis.composition.whole.is_none() {
        return Err(Error::new(
            Kind::BadInput,
            format!("tune '{}'", analysis.workload),
            "it has no form that is made up of others, so there is nothing to take turns for",
        )
        .remedy("declare `parts` in a form of its manifest, and profile all of its forms"));
    }
    let mut site = Site::here(Box::new(Cgroups::new(None)), &context.interrupt)?;
    let workload = same_workload(&args.source, &analysis, &site, context)?;
    let table = candidates(&CandidateEnv::system())?;
    let settings = Settings {
        strategies: &args.searched.strategies,
        mechanisms: if args.mode.contains(&Mode::Turns) { &args.mechanism } else { &[] },
        lanes_by: match args.lanes_by.as_slice() {
            [] => &args.searched.strategies,
            own => own,
        },
        default: args.mode.contains(&Mode::Lanes).then_some(&args.default),
        base_slices: &args.base_slices,
        asked: args.turns.iter().cloned().collect::<BTreeMap<_, _>>(),
        benefit: args.choice.benefit_form,
        budget: args.budget,
        duration: args.duration,
        warmup: args.warmup,
        seed: args.seed,
    };
    let searches = Searches::new(&plan, &analysis, &table, &workload, settings)?;
    let mut show = Show::new(context, &analysis.workload);
    searches.notes().iter().for_each(|note| show.note(note));

    let options = SwitcherOptions::new("metasched tune").take_over(args.take_over);
    let mut switcher = Switcher::new(options)?;
    site.groups = Box::new(Cgroups::new(Some(switcher.guard())));
    let measured = {
        let mut executor = SwitcherExecutor::new(&mut switcher, searches.pool());
        searches
            .run(&workload, &args.source, &site, &mut executor, &mut store, &mut |e| show.event(&e))
    };
    show.end();
    let restored = switcher.restore();
    match (measured, restored) {
        (Ok(()), Ok(())) => {}
        (Err(error), Ok(())) | (Ok(()), Err(error)) => return Err(error),
        (Err(error), Err(second)) => {
            return Err(Error { cause: format!("{}; and {second}", error.cause), ..error });
        }
    }
    finish(args, context, &store, &searches)
}

/// Shows what the store now says of what was searched.
fn finish(args: &Args, context: &Context, store: &Store, searches: &Searches) -> Result<u8> {
    let result = searches.result(&args.source.analyse(store)?);
    if result.table.is_empty() {
        return Err(Error::new(
            Kind::Failed,
            "tune",
            "no metascheduler could be measured beside the default scheduler",
        )
        .remedy("see what was said above; `metasched doctor` checks the machine"));
    }
    context.print(&result, show::text)?;
    Ok(0)
}

/// The workload as it was profiled: with the same parameters, and unchanged since.
fn same_workload(
    source: &Source,
    analysis: &Analysis,
    site: &Site,
    context: &Context,
) -> Result<Workload> {
    let manifest = Manifest::read(&locate(&source.place(&analysis.workload))?)?;
    let settings: Vec<(String, String)> =
        analysis.params.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let workload = Workload::resolve(manifest, &settings, analysis.environment.emulated)?;
    let attempt = || format!("tune '{}'", analysis.workload);
    if workload.hash != analysis.workload_hash {
        return Err(Error::new(
            Kind::BadInput,
            attempt(),
            "its manifest or files have changed since it was profiled",
        )
        .remedy("run `metasched profile` for it again"));
    }
    let here = site.environment().attempt(Kind::Failed, attempt)?;
    if !comparable(&here, &analysis.environment) {
        return Err(Error::new(
            Kind::BadInput,
            attempt(),
            format!(
                "it was last profiled on kernel {} of machine {}, and this is kernel {} of \
                 machine {}",
                analysis.environment.kernel,
                analysis.environment.machine,
                here.kernel,
                here.machine
            ),
        )
        .remedy("run `metasched profile` for it here first"));
    }
    context.verbose(|| format!("tuning {} with {:?}", analysis.workload, analysis.params));
    Ok(workload)
}

fn comparable(a: &Environment, b: &Environment) -> bool {
    (&a.machine, &a.kernel, &a.metasched, a.cpus, a.emulated)
        == (&b.machine, &b.kernel, &b.metasched, b.cpus, b.emulated)
}

//! `metasched sim`: policies tried on a modelled machine.

mod again;
mod bed;
mod calibrate;
mod fleet;
mod pictures;
mod plan;
mod replay;
mod show;
mod strategies;
mod tune;

use std::path::PathBuf;
use std::time::Duration;

use metasched_base::{Error, Kind, Result, parse_duration};
use metasched_loader::{DEFAULT_POLICY, EEVDF, LaneTurn};
use metasched_sim::metasched::POLICIES;
use metasched_simbed::{
    Arrangement, CgroupLane, Comparison, LANES, Runner, Seeds, Setup, distinct, name,
};

use super::percent::parse_percent;
use crate::context::Context;
use bed::BedArgs;
pub use show::table;
use strategies::StrategyArgs;

/// Simulates a scenario: the policies' own source on a modelled machine, in user space.
///
/// Needs no privileges and no sched_ext. The same scenario and seed give the same result
/// on any machine; each result ends with the command that gives it again. Without --policy,
/// --lanes and --compare the cgroups have the policies that the scenario says. What is
/// modelled, and what a scenario may say: docs/simulator.md.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    bed: BedArgs,
    /// Everything under this policy
    #[arg(long, value_name = "POLICY", conflicts_with_all = ["lanes", "compare", "strategy"])]
    policy: Option<String>,
    /// Cgroups on lanes of their own, side by side
    #[arg(
        long,
        value_name = "CGROUP=POLICY[:WEIGHT],...",
        value_delimiter = ',',
        conflicts_with = "compare"
    )]
    lanes: Vec<CgroupLane>,
    /// With lanes: the policy of everything that has none of its own
    #[arg(long, value_name = "POLICY", default_value = DEFAULT_POLICY)]
    default: String,
    /// Compares policies, each with the first; if none is named, all that there are with
    /// 'eevdf', a simple model of the kernel's own scheduler. 'lanes' is what the scenario says
    /// of its cgroups
    #[arg(long, value_name = "POLICY,...", num_args = 0..=1, require_equals = true)]
    compare: Option<Option<String>>,
    /// The whole machine goes from policy to policy
    #[arg(
        long,
        value_name = "POLICY=TIME,...",
        value_delimiter = ',',
        conflicts_with_all = ["policy", "lanes", "compare"]
    )]
    turns: Vec<LaneTurn>,
    #[command(flatten)]
    strategies: StrategyArgs,
    /// Only the tasks of this cgroup
    #[arg(long, value_name = "CGROUP")]
    only: Option<String>,
    /// How many runs, each with a seed of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    runs: u64,
    /// Repeats until each ratio's 95 % interval is narrow enough
    #[arg(long, conflicts_with = "runs")]
    until_narrow: bool,
    /// With --until-narrow: how far an interval may reach to either side
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = parse_percent)]
    precision: f64,
    /// With --until-narrow: after so many runs it is enough, however wide the intervals
    #[arg(long = "max-runs", value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(2..=100_000))]
    most_runs: u64,
    /// Writes a trace that ui.perfetto.dev opens: CPUs, tasks, queues, wake-ups, kicks
    #[arg(long, value_name = "FILE.pftrace", conflicts_with_all = ["compare", "strategy", "runs", "until_narrow"])]
    trace: Option<PathBuf>,
    /// Draws who had which CPU when
    #[arg(long, value_name = "FILE.svg", conflicts_with_all = ["compare", "strategy", "runs", "until_narrow"])]
    gantt: Option<PathBuf>,
    /// With --trace or --gantt: where the window begins; the end of the warm-up if not given
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    from: Option<Duration>,
    /// With --trace or --gantt: where the window ends
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    to: Option<Duration>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Plan(plan::Args),
    Tune(tune::Args),
    Fleet(fleet::Args),
    Replay(replay::Args),
    Calibrate(calibrate::Args),
}

impl Args {
    fn seeds(&self) -> Seeds {
        match self.until_narrow {
            true => Seeds::UntilNarrow { most: self.most_runs, precision: self.precision },
            false => Seeds::Fixed { runs: self.runs },
        }
    }

    /// What is to be simulated, the one that the others are compared with first.
    fn arrangements(&self, setup: &Setup, context: &Context) -> Result<Vec<Arrangement>> {
        let settings = &setup.settings;
        let policy = |name: &str| {
            let arrangement = Arrangement::policy(name, settings)?;
            arrangement.check(setup)?;
            Ok(arrangement)
        };
        if !self.strategies.strategy.is_empty() {
            return strategies::arrangements(&self.strategies, setup, context);
        }
        if let Some(compared) = &self.compare {
            // The kernel's own scheduler is what everything is measured by, where it can be.
            let fair = (!setup.file.needs_program()).then_some(EEVDF);
            let all =
                || fair.into_iter().chain(POLICIES.iter().copied()).map(str::to_owned).collect();
            let names: Vec<String> = compared
                .as_ref()
                .map_or_else(all, |list| list.split(',').map(|s| s.trim().to_owned()).collect());
            return distinct(names, |name| match name {
                // What the scenario says would be the default policy alone, under another name.
                LANES if setup.file.lanes.is_empty() => {
                    let cause = format!("'{}' says no lanes of its cgroups", setup.file.name);
                    Err(Error::new(Kind::BadInput, "compare with 'lanes'", cause).remedy(
                        "give a cgroup of it one, such as lane = \"fifo\", or leave it out",
                    ))
                }
                LANES => self.lanes_of_file(setup),
                name => policy(name),
            });
        }
        if let (Some(EEVDF), [setting, ..]) = (self.policy.as_deref(), settings.as_slice()) {
            let cause = "the model of the fair class has no options";
            return Err(Error::new(Kind::Usage, format!("set '{setting}'"), cause)
                .remedy("leave it out; in a comparison it is set of the others"));
        }
        Ok(vec![match &self.policy {
            Some(name) => policy(name)?,
            None if !self.turns.is_empty() => Arrangement::turns(self.turns.clone(), settings)?,
            None if self.lanes.is_empty() => self.lanes_of_file(setup)?,
            None => Arrangement::lanes(self.lanes.clone(), &self.default, settings)?,
        }])
    }

    /// Refuses a cgroup without tasks: a slip of the pen would pass as a result.
    fn check_only(&self, setup: &Setup, arrangement: &Arrangement) -> Result<()> {
        let Some(only) = &self.only else { return Ok(()) };
        let scenario = arrangement.scenario(setup, 0);
        let cgroups = scenario.cgroups();
        if cgroups.contains(only.as_str()) {
            return Ok(());
        }
        let known: Vec<&str> = cgroups.into_iter().map(name).collect();
        let cause = format!("no task of '{}' is in it", setup.file.name);
        Err(Error::new(Kind::BadInput, format!("simulate only the cgroup '{only}'"), cause)
            .remedy(format!("its tasks are in {}", known.join(", "))))
    }

    fn lanes_of_file(&self, setup: &Setup) -> Result<Arrangement> {
        Arrangement::of_file(&setup.file, &self.default, &setup.settings)
    }
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    match &args.command {
        Some(Command::Plan(args)) => return plan::run(args, context),
        Some(Command::Tune(args)) => return tune::run(args, context),
        Some(Command::Fleet(args)) => return fleet::run(args, context),
        Some(Command::Replay(args)) => return replay::run(args, context),
        Some(Command::Calibrate(args)) => return calibrate::run(args, context),
        None => {}
    }
    let setup = args.bed.setup()?;
    let arrangements = args.arrangements(&setup, context)?;
    args.check_only(&setup, &arrangements[0])?;
    if args.until_narrow && arrangements.len() == 1 {
        return Err(Error::new(Kind::Usage, "repeat until narrow", "there is nothing to compare")
            .remedy("add --compare or --strategy; or give a number of --runs"));
    }
    let only = args.only.as_deref();
    let again = |arrangement: Option<&Arrangement>, seed| match arrangement {
        Some(arrangement) => again::one(&context.given, arrangement, only, seed),
        None => again::all(&context.given, seed),
    };
    let runner = Runner {
        setup: &setup,
        arrangements: &arrangements,
        only,
        again: &again,
        interrupt: &context.interrupt,
    };
    let comparison = if args.trace.is_some() || args.gantt.is_some() {
        let window = pictures::Window::new(args.from, args.to, &setup)?;
        let files = pictures::Files { trace: args.trace.as_deref(), gantt: args.gantt.as_deref() };
        let run = pictures::run(&runner, setup.first_seed, window, &files)?;
        Comparison::new(&setup, &arrangements, vec![vec![run]])
    } else if args.from.is_some() || args.to.is_some() {
        return Err(Error::new(Kind::Usage, "choose a window", "there is nothing to draw")
            .remedy("add --gantt FILE.svg or --trace FILE.pftrace"));
    } else {
        runner.run(args.seeds())?
    };
    comparison.check_lanes()?;
    let report = comparison.report(again(None, comparison.first_seed()));
    context.print(&report, show::text)?;
    Ok(0)
}

//! `metasched run`: the metascheduler itself.

mod hold;
pub mod lanes;
mod live;
mod turns;

use std::time::Duration;

use metasched_base::{Error, Kind, Result, parse_duration};
use metasched_control::{Candidate, CandidateEnv, EEVDF, Mechanism, candidates};
use metasched_experiment::{Contender, PUBLISHED_BASE_SLICE, Plan, Strategy};
use metasched_profile::read_plan;
use metasched_profile::wanted::{AppCgroup, PlannedShares, TurnSpec, Wanted};

use super::plan::{ChoiceArgs, Source};
use crate::context::Context;
pub use hold::HoldArgs;
use turns::Cycle;

/// Does what the plan recommends, in the foreground, until Ctrl-C or the end of --for.
///
/// That is one scheduler, turns or lanes, or nothing: 'metasched plan' says which, and how sure
/// that is. With --mode, --strategy, --turn, --base-slice or --mechanism it is what these ask
/// for. What was in force before is put back at the end.
///
/// With --mode turns the schedulers that the applications prefer take turns: application i of n
/// has its scheduler in force for n * BASE_SLICE * WEIGHT_i, again and again.
///
/// With --mode lanes nobody waits for a turn: each application's cgroups are on a lane of
/// the policy that it prefers, with its share as weight, all at the same time. 'metasched
/// lane list' and 'metasched lane explain' show meanwhile what came of it; 'metasched rules'
/// finds the cgroups by rules.
///
/// With --json, turns are JSON lines: one for each turn, and a summary as the last.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How applications get their schedulers: 'turns' (one after the other, the whole
    /// machine) or 'lanes' (all at the same time, each in its cgroups; our policies only)
    #[arg(long, value_name = "NAME")]
    mode: Option<Mode>,
    /// With lanes: a cgroup of an application of the plan; once for each cgroup. A
    /// path below /sys/fs/cgroup may be of one that is made later
    #[arg(long = "cgroup", value_name = "APP=CGROUP")]
    cgroups: Vec<AppCgroup>,
    /// With --mode lanes: the policy of everything that is in none of those cgroups
    /// [default: fair]
    #[arg(long, value_name = "POLICY")]
    default: Option<String>,
    /// The base timeslice. Longer: less switching; shorter: an application waits less
    /// for its scheduler. By lane it may be as short as 1ms. 'metasched tune' finds the
    /// best one [default: 1800ms]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    base_slice: Option<Duration>,
    /// How to change schedulers: 'lane' (our policies, microseconds) or 'swap' (any,
    /// by stopping and starting processes). The default is 'lane' where it is possible
    #[arg(long, value_name = "NAME")]
    mechanism: Option<Mechanism>,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    hold: HoldArgs,
}

/// Which plan it goes by; shared with `rules`.
#[derive(Debug, clap::Args)]
pub struct PlanArgs {
    /// How the time is shared: round-robin, delta, benefit, delta-benefit. For turns the
    /// default is delta, which was best when published; for lanes it is round-robin: parts
    /// that wait for each other are as slow as the one with the least share
    #[arg(long, value_name = "NAME")]
    strategy: Option<Strategy>,
    /// The plan, as 'metasched plan --json' writes it; '-' reads standard input. The
    /// default is the plan from the store
    #[arg(long, value_name = "FILE", conflicts_with = "turns")]
    plan: Option<String>,
    /// An application, its scheduler and its weight, instead of a plan; once for each
    /// application. Without weights all are equal, and the strategy does not matter
    #[arg(long = "turn", value_name = "APP=SCHEDULER[:WEIGHT]")]
    turns: Vec<TurnSpec>,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    choice: ChoiceArgs,
}

impl PlanArgs {
    fn strategy(&self, mode: Mode) -> Strategy {
        self.strategy.unwrap_or(match mode {
            Mode::Turns => Strategy::Delta,
            Mode::Lanes => Strategy::RoundRobin,
        })
    }

    /// The plan, weighed for turns or for lanes.
    pub fn read(&self, mode: Mode) -> Result<PlannedShares> {
        match self.turns.as_slice() {
            [] => PlannedShares::from_plan(self.file()?, self.strategy(mode), self.plan.as_deref()),
            turns => PlannedShares::from_turns(turns),
        }
    }

    /// The plan that a file has, or that `metasched plan` would make of the store.
    fn file(&self) -> Result<Plan> {
        if let Some(path) = &self.plan {
            if let Some((option, value)) = self.choice.given().first() {
                let cause = "the plan of a file was chosen by what its figures were judged by then";
                return Err(Error::new(Kind::Usage, format!("choose by {option} {value}"), cause)
                    .remedy(format!("metasched plan {option} {value} --json makes another")));
            }
            return read_plan(path);
        }
        self.choice.planned(&self.source.analyse(&self.source.open()?)?, &self.source)
    }

    /// Whether one was named, rather than left to the store.
    pub fn is_given(&self) -> bool {
        self.plan.is_some() || !self.turns.is_empty()
    }
}

/// How applications get their schedulers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// One after the other, the whole machine.
    Turns,
    /// All at the same time, each in its cgroups.
    Lanes,
}

/// What is to be in force.
enum Wish {
    /// The default scheduler; why.
    Nothing(String),
    Turns(Cycle),
    Lanes(Box<Wanted>),
}

impl Args {
    /// The mode that is asked for; absent where the plan's recommendation decides.
    fn mode(&self) -> Option<Mode> {
        let asked = self.base_slice.is_some()
            || self.mechanism.is_some()
            || self.plan.strategy.is_some()
            || !self.plan.turns.is_empty();
        self.mode.or(asked.then_some(Mode::Turns))
    }

    /// What is to be in force, by what is asked for or recommended.
    fn wish(&self, table: &[Candidate]) -> Result<Wish> {
        let base_slice = self.base_slice.unwrap_or(PUBLISHED_BASE_SLICE);
        let default = self.default.as_deref();
        if let Some(mode) = self.mode() {
            let (plan, strategy) = (self.plan.read(mode)?, self.plan.strategy(mode));
            return Ok(match mode {
                Mode::Lanes => {
                    Wish::Lanes(Wanted::from_plan(&plan, &self.cgroups, default, table)?.into())
                }
                Mode::Turns => {
                    Wish::Turns(Cycle { plan, strategy, mechanism: self.mechanism, base_slice })
                }
            });
        }
        let plan = self.plan.file()?;
        let recommended = plan.recommendation.ok_or_else(|| {
            Error::new(Kind::BadInput, "do what the plan recommends", "it recommends nothing")
                .remedy("make it anew: metasched plan --json; or give --mode turns")
        })?;
        let Some(contender) = recommended.contender else {
            return Ok(Wish::Nothing(recommended.sure.sentence));
        };
        let rows =
            PlannedShares::recommended(&contender, &plan.workload, self.plan.plan.as_deref())?;
        Ok(match &contender {
            Contender::Lanes { default: planned, .. } => {
                let named = |part: &String| self.cgroups.iter().any(|c| c.app == *part);
                let known = recommended.cgroups.iter().filter(|(part, _)| !named(part));
                let known = known.flat_map(|(part, cgroups)| {
                    let of = |cgroup: &String| (part.clone(), cgroup.clone());
                    cgroups.iter().map(of)
                });
                let known = known.map(|(app, cgroup)| AppCgroup { app, cgroup });
                let cgroups: Vec<_> = self.cgroups.iter().cloned().chain(known).collect();
                let default = default.unwrap_or(planned);
                Wish::Lanes(Wanted::from_plan(&rows, &cgroups, Some(default), table)?.into())
            }
            other => Wish::Turns(Cycle {
                plan: rows,
                strategy: other.strategy().unwrap_or(Strategy::RoundRobin),
                mechanism: other.mechanism().map(str::parse).transpose()?,
                base_slice: other.base_slice_ms().map_or(base_slice, Duration::from_millis),
            }),
        })
    }

    /// Refuses an option that is about the other mode.
    fn check_mode(&self) -> Result<()> {
        let Some(mode) = self.mode() else { return Ok(()) };
        let (attempt, about, remedy, given) = match mode {
            Mode::Turns => (
                "take turns",
                "lanes",
                "add --mode lanes",
                [("--cgroup", !self.cgroups.is_empty()), ("--default", self.default.is_some())]
                    .to_vec(),
            ),
            Mode::Lanes => (
                "use lanes",
                "turns",
                "leave it out: with --mode lanes nothing is changed any more",
                vec![("--mechanism", self.mechanism.is_some())],
            ),
        };
        match given.into_iter().find(|(_, given)| *given) {
            Some((option, _)) => {
                let cause = format!("'{option}' is about {about}");
                Err(Error::new(Kind::Usage, attempt, cause).remedy(remedy))
            }
            None => Ok(()),
        }
    }
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    args.check_mode()?;
    if args.base_slice.is_some_and(|base| base.is_zero()) {
        return Err(Error::new(Kind::Usage, "take turns of no length", "the base timeslice is 0")
            .remedy("write one such as --base-slice 1800ms"));
    }
    let table = candidates(&CandidateEnv::system())?;
    let options = args.hold.options("metasched run")?;
    match args.wish(&table)? {
        Wish::Nothing(why) => {
            context.print(&serde_json::json!({ "in_force": EEVDF, "why": why }), |_| {
                format!("the default scheduler stays in force: {why}")
            })?;
            Ok(0)
        }
        Wish::Lanes(wanted) => lanes::hold(*wanted, &table, options, &args.hold, context),
        Wish::Turns(cycle) => turns::take(&cycle, &table, options, &args.hold, context),
    }
}

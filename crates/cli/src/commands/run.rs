//! `metasched run`: the metascheduler itself.

mod hold;
pub mod lanes;
mod live;

use std::path::Path;
use std::time::Duration;

use metasched_base::{Error, Kind, Result, format_duration, parse_duration};
use metasched_control::{
    Candidate, CandidateEnv, EEVDF, Mechanism, Turn, TurnsSummary, candidates, name_in_force,
    put_back_after, take_turns,
};
use metasched_experiment::{BenefitForm, Contender, Plan, PlanOptions, Strategy, timeslices};
use metasched_host::process::OwnUse;
use metasched_host::sched_ext::SchedExt;
use metasched_profile::wanted::{AppCgroup, PlannedShares, TurnSpec, Wanted};
use metasched_profile::{planned, read_plan};
use serde::Serialize;

use super::plan::{PUBLISHED_BASE_SLICE, Source};
use crate::context::{Context, json_line};
pub use hold::HoldArgs;
use live::Live;

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
            return read_plan(path);
        }
        let choice = PlanOptions {
            objective: None,
            benefit: BenefitForm::default(),
            base_slice: PUBLISHED_BASE_SLICE,
            count_switching: false,
        };
        planned(&self.source.analyse(&self.source.open()?)?, choice)
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

/// The shortest base timeslice by lane. Turns of a millisecond are about what slices come
/// to themselves; below that applications would mostly see changes.
const LEAST_BASE_SLICE: Duration = Duration::from_millis(1);

/// The last line of the JSON output.
#[derive(Debug, Serialize)]
struct Summary<'a> {
    strategy: Strategy,
    mechanism: Mechanism,
    base_slice_ms: f64,
    turns: &'a [Turn],
    summary: &'a TurnsSummary,
    switching_share: f64,
    own_use: &'a OwnUse,
    /// What is in force again, by its name in the kernel.
    in_force: &'a str,
}

/// What is to be in force.
enum Wish {
    /// The default scheduler; why.
    Nothing(String),
    Turns {
        plan: PlannedShares,
        strategy: Strategy,
        mechanism: Option<Mechanism>,
        base_slice: Duration,
    },
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
                    Wish::Turns { plan, strategy, mechanism: self.mechanism, base_slice }
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
            other => Wish::Turns {
                plan: rows,
                strategy: other.strategy().unwrap_or(Strategy::RoundRobin),
                mechanism: other.mechanism().map(str::parse).transpose()?,
                base_slice: other.base_slice_ms().map_or(base_slice, Duration::from_millis),
            },
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
    let (plan, strategy, mechanism, base_slice) = match args.wish(&table)? {
        Wish::Nothing(why) => {
            context.print(&serde_json::json!({ "in_force": EEVDF, "why": why }), |_| {
                format!("the default scheduler stays in force: {why}")
            })?;
            return Ok(0);
        }
        Wish::Lanes(wanted) => return lanes::hold(*wanted, &table, options, &args.hold, context),
        Wish::Turns { plan, strategy, mechanism, base_slice } => {
            (plan, strategy, mechanism, base_slice)
        }
    };
    let until = args.hold.duration;
    let turns = plan.turns(&table, |weights| timeslices(base_slice, weights))?;
    let mechanism = mechanism.unwrap_or_else(|| Mechanism::of_turns(&turns));
    if mechanism == Mechanism::Lane && base_slice < LEAST_BASE_SLICE {
        return Err(Error::new(
            Kind::Usage,
            format!("take turns by lane with a base timeslice of {base_slice:?}"),
            "the shortest is 1 ms",
        )
        .remedy("write one such as --base-slice 1ms"));
    }

    let mut own = OwnUse::default();
    let taken = put_back_after(options, |switcher| {
        let mut live = Live::new(context, until);
        live.begin(&turns, mechanism);
        let taken = take_turns(switcher, &turns, mechanism, until, &context.interrupt, &mut |e| {
            own.begin();
            live.turn(e);
        });
        own.end();
        live.end();
        taken
    });
    let status = SchedExt::at(Path::new("/")).status();
    let (summary, back) = match (taken, status.map(|status| name_in_force(&status))) {
        (Ok(summary), Ok(back)) => (summary, back),
        (Ok(_), Err(error)) => return Err(error),
        (Err(error), Ok(back)) => {
            let cause = format!("{}; '{back}' is in force now", error.cause);
            return Err(Error { cause, ..error });
        }
        (Err(error), Err(second)) => return Err(error.and(&second)),
    };
    if context.json {
        json_line(&Summary {
            strategy,
            mechanism,
            base_slice_ms: base_slice.as_secs_f64() * 1e3,
            turns: &turns,
            summary: &summary,
            switching_share: summary.switching_share(),
            own_use: &own,
            in_force: &back,
        })?;
    } else {
        println!("{}", text(&summary, &back, &own));
    }
    Ok(args.hold.exit_code(summary.interrupted))
}

fn text(summary: &TurnsSummary, back: &str, own: &OwnUse) -> String {
    let span = |ns: u64| format_duration(Duration::from_millis(ns / 1_000_000));
    let mut out = format!(
        "{} turns in {}: the start took {}, {} switches after it {:.3} % of the time\n",
        summary.turns,
        span(summary.elapsed_ns),
        span(summary.start_ns),
        summary.switches,
        summary.switching_share() * 100.0
    );
    if let Some(late) = summary.lateness {
        let ms = |ns: u64| ns as f64 / 1e6;
        let (mean, most) = (ms(late.mean_ns), ms(late.max_ns));
        out.push_str(&format!(
            "  turns began {mean:.3} ms late in the mean, {most:.3} ms at most\n"
        ));
    }
    for (scheduler, ns) in &summary.in_force_ns {
        let share = *ns as f64 / summary.elapsed_ns.max(1) as f64 * 100.0;
        out.push_str(&format!("  {scheduler}: {} ({share:.1} %)\n", span(*ns)));
    }
    let memory = own
        .max_rss_kib
        .map_or("memory: not measured".to_owned(), |kib| format!("{:.0} MiB", kib as f64 / 1024.0));
    out.push_str(&format!(
        "metasched itself took {:.2} % of a CPU and {memory}\n",
        own.cpu_share * 100.0
    ));
    out.push_str(&format!("'{back}' is in force again"));
    out
}

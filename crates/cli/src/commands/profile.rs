//! `metasched profile`.

mod command;
mod export;
mod show;
mod strategy;

use std::path::{Path, PathBuf};
use std::time::Duration;

use metasched_base::{Error, Kind, Result, parse_duration};
use metasched_control::{
    Candidate, CandidateEnv, Mechanism, SwitcherOptions, candidates, put_back_after, resolve,
};
use metasched_experiment::{Rules, Strategy};
use metasched_profile::manifest::{Manifest, Workload, available, parse_setting};
use metasched_profile::measure::{Options, Summary};
use metasched_profile::runner::{Cgroups, Site, prepare};
use metasched_profile::{Profile, Store, Subject, default_path, profile, random_seed};
use metasched_testbed::{Vm, VmOptions};

use super::percent::parse_percent;
use crate::context::Context;
use show::Show;

/// Measures a workload, or any command, under every candidate scheduler.
///
/// With 'metasched profile -- COMMAND' the figure is the time that the command takes, here, with
/// this environment and nothing to read; the exit status is the command's where a run fails.
///
/// Runs are interleaved in random order and repeated until the throughput ratio to the
/// default scheduler (EEVDF) is known well enough, or the budget is spent. Every
/// finished run is kept in the store; the next call measures only what is missing.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The workload: a name (see --list) or the path of its folder; two with a '+' between them
    /// are measured each alone and both at once, NAME:FORM in a form that is not their first
    #[arg(required_unless_present_any = ["list", "words"])]
    workload: Option<String>,
    /// The forms to measure; all of them if none is given
    forms: Vec<String>,
    /// The schedulers to measure, with commas between them; options follow a colon, as
    /// in scx_rusty:-k. All that there are if not given; EEVDF is always measured
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    schedulers: Vec<String>,
    /// Sets a parameter of the workload; can be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    set: Vec<(String, String)>,
    /// How long a run of each load lasts. Longer runs vary less, but fewer fit into the budget
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = parse_duration)]
    duration: Duration,
    /// How long a load runs, uncounted, after each change of scheduler. A command is run again
    /// and again until then, at least once unless it is 0s, and only before its first run:
    /// later ones find the caches as the run before them left them
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    warmup: Duration,
    /// Rounds that are made in any case, if the budget allows
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    min_rounds: u32,
    /// Rounds after which it is enough, however wide the intervals
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=1000))]
    max_rounds: u32,
    /// A scheduler is measured until its ratio's 95 % interval reaches no further than
    /// this to either side
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = parse_percent)]
    precision: f64,
    /// Goes on with schedulers that are surely not the best; otherwise they are dropped early,
    /// and the time goes to the others. The chance of dropping one that is more than 2 %
    /// better than the best that is left is below 5 %, for all of them together. And where the
    /// budget is too small for --min-rounds of all, each has one round, and then the better
    /// half goes on, until a few are left that have as many
    #[arg(long)]
    keep_all: bool,
    /// The time for all forms together, each of which gets its share; no round begins
    /// that would not end in time, except the first of each form
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
    budget: Duration,
    /// The seed of the random order; one is drawn, and told, if not given
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Runs of each subject with the tracer of run-queue waits, after the rounds
    #[arg(long, value_name = "N", default_value_t = 1)]
    trace_runs: u32,
    /// Rounds that also run EEVDF without metasched's own observation, to show what
    /// that observation costs
    #[arg(long, value_name = "N", default_value_t = 2)]
    control_runs: u32,
    /// Measures a metascheduler instead: round-robin, delta, benefit, delta-benefit
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "plan")]
    strategy: Vec<Strategy>,
    /// The metascheduler's base timeslice; several with commas between them
    #[arg(long, value_name = "TIME", default_value = "1800ms", value_delimiter = ',', value_parser = parse_duration)]
    base_slice: Vec<Duration>,
    /// How the metascheduler changes turns: 'lane' (our policies) or 'swap' (any). The
    /// default is 'lane' where it is possible
    #[arg(long, value_name = "NAME")]
    mechanism: Option<Mechanism>,
    /// The plan with the metascheduler's turns, as 'metasched plan --json' writes it
    #[arg(long, value_name = "FILE")]
    plan: Option<String>,
    /// The store of results
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// Measures afresh: what the store holds of the same is set aside
    #[arg(long)]
    fresh: bool,
    /// Only prepares the workload, which needs no sched_ext
    #[arg(long)]
    prepare_only: bool,
    /// Whether the CPU that will be measured on is emulated in software, which decides
    /// what the parameter value 'auto' means. Found out if not given; where this kernel
    /// has no sched_ext, it is the testbed's that counts
    #[arg(long, value_name = "YES", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    emulated: Option<bool>,
    /// Stops a scheduler that is in force already, and puts it back at the end
    #[arg(long)]
    take_over: bool,
    /// Lists the workloads that there are, with their forms and parameters
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    command: command::CommandArgs,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    if !args.command.words.is_empty() {
        return command::run(args, context);
    }
    let workload = match &args.workload {
        Some(name) if !args.list => name,
        _ => {
            context.print(&show::listing(available()), |listing| listing.to_string())?;
            return Ok(0);
        }
    };
    let manifest = Manifest::find(workload)?;
    for form in &args.forms {
        manifest.form(form)?;
    }
    let site = Site::here(Box::new(Cgroups::new(None)), &context.interrupt)?;
    let emulated = args.emulated.unwrap_or_else(|| will_be_emulated(&site));
    let workload = Workload::find(workload, &args.set, emulated)?;
    let mut show = Show::new(context, &workload);
    if args.prepare_only {
        show.preparing();
        let prepared = prepare(&workload, &site)?;
        let caches = workload.each().into_iter().map(|one| site.cache(one)).collect();
        return show.prepared(prepared.now, caches).map(|()| 0);
    }
    let table = candidates(&CandidateEnv::system())?;
    let (subjects, pool) = match args.strategy.as_slice() {
        [] => schedulers(args, table)?,
        _ => {
            let mut pool = table.clone();
            (strategy::subjects(args, &table, &mut pool)?, pool)
        }
    };
    let options = options(args)?;
    let what = Profile { workload, forms: args.forms.clone(), candidates: pool, subjects, options };
    let (summary, store) = measure(args, &what, site, &mut show)?;
    context.print(&summary, |summary| show::text(summary, store.path()))?;
    Ok(summary.exit_code())
}

/// The schedulers that were asked for, and all that can be put in force.
fn schedulers(args: &Args, table: Vec<Candidate>) -> Result<(Vec<Subject>, Vec<Candidate>)> {
    let names: Vec<String> = match args.schedulers.as_slice() {
        // A preset is a policy that is there already, with options.
        [] => table.iter().filter(|one| !one.is_preset()).map(|one| one.name.clone()).collect(),
        names => names.to_vec(),
    };
    let mut pool = table.clone();
    let mut subjects = Vec::new();
    for name in names {
        let candidate = resolve(&table, &name)?;
        subjects.push(Subject::scheduler(&candidate));
        pool.push(candidate);
    }
    Ok((subjects, pool))
}

/// Measures, and puts back what was in force; gives the store too.
fn measure(
    args: &Args,
    what: &Profile,
    mut site: Site,
    show: &mut Show,
) -> Result<(Summary, Store)> {
    // Both before anything is started: a store that cannot be written wastes no run.
    let mut store = Store::open(args.store.clone().unwrap_or_else(default_path))?;
    show.preparing();
    let _prepared = prepare(&what.workload, &site)?;
    let options = SwitcherOptions::new("metasched profile").take_over(args.take_over);
    let summary = put_back_after(options, |switcher| {
        site.groups = Box::new(Cgroups::new(Some(switcher.guard())));
        let measured = profile(what, &site, switcher, &mut store, &mut |event| show.event(&event));
        show.end();
        measured
    })?;
    Ok((summary, store))
}

/// What the measured CPU will be: this machine's if it has sched_ext, else the
/// testbed's, which is emulated unless a guest runs with KVM.
fn will_be_emulated(site: &Site) -> bool {
    if Path::new("/sys/kernel/sched_ext").exists() {
        return site.machine.emulated;
    }
    // That there is no KVM is known at once; whether a guest runs with it takes a trial.
    let kvm = metasched_testbed::kvm_opens(Path::new("/dev/kvm")).is_ok()
        && Vm::new(VmOptions::default()).is_ok_and(|vm| vm.machine().kvm);
    !kvm
}

fn options(args: &Args) -> Result<Options> {
    if args.duration.is_zero() {
        return Err(Error::new(Kind::Usage, "measure for no time", "the duration is 0")
            .remedy("give one such as --duration 8s"));
    }
    if args.min_rounds > args.max_rounds {
        return Err(Error::new(
            Kind::Usage,
            "measure",
            format!(
                "--min-rounds {} is more than --max-rounds {}",
                args.min_rounds, args.max_rounds
            ),
        )
        .remedy("raise --max-rounds"));
    }
    Ok(Options {
        duration: args.duration,
        warmup: args.warmup,
        rules: Rules {
            min_rounds: args.min_rounds,
            max_rounds: args.max_rounds,
            precision: args.precision,
            drop_losers: !args.keep_all,
        },
        budget: Some(args.budget),
        seed: args.seed.unwrap_or_else(random_seed),
        trace_runs: args.trace_runs,
        control_runs: args.control_runs,
        fresh: args.fresh,
        command: std::env::args().collect::<Vec<_>>().join(" "),
        ..Options::default()
    })
}

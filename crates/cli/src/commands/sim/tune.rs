//! `metasched sim tune`: the best way to run the preferred policies together.

use std::time::Duration;

use comfy_table::presets;
use metasched_base::{Result, format_duration};
use metasched_stats::Interval;
use metasched_strategy::Strategy;
use metasched_strategy::tune::{MIN_TURN_BY_LANE, Point, best, bounds, grid, refine};
use serde::Serialize;

use super::bed::{Bed, BedArgs};
use super::compare::version;
use super::contender::Contender;
use super::plan::{Plan, PreferenceArgs, Weighed, plan, preference_words};
use super::replay;
use super::runs::{Runner, Seeds};
use super::strategies::{as_lanes, in_turns};
use crate::commands::percent::change;
use crate::commands::run::DEFAULT_POLICY;
use crate::commands::strategies::SearchedArgs;
use crate::context::Context;

/// Base timeslices of the first look at a strategy.
const GRID: usize = 6;
/// Base timeslices around its best.
const REFINEMENTS: usize = 2;

/// Searches the best base timeslice of each strategy, and compares with lanes side by side.
///
/// Each cgroup has the policy that the scenario says, or prefers. A coarse grid comes first,
/// then a closer look around the best; every point has the same seeds as the default policy.
/// What is best is the geometric mean of the cgroups' throughputs.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    bed: BedArgs,
    #[command(flatten)]
    preference: PreferenceArgs,
    #[command(flatten)]
    searched: SearchedArgs,
    /// How many runs of each point
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u64).range(2..=10_000))]
    runs: u64,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Tuned {
    version: String,
    scenario: String,
    machine: String,
    default: String,
    table: Vec<Row>,
    /// The place of the best in the table.
    best: Option<usize>,
    notes: Vec<String>,
    replay: String,
}

/// A strategy at a base timeslice, or as lanes.
#[derive(Clone, Debug, Serialize)]
struct Row {
    strategy: Strategy,
    /// Absent for lanes.
    base_slice_ms: Option<u64>,
    /// Of the geometric mean of throughputs, to the default policy.
    ratio: Option<Interval>,
    /// The command that simulates it alone.
    command: String,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let bed = args.bed.bed()?;
    let again = |seed| {
        let mut more = preference_words(&args.preference);
        more.extend(args.searched.words());
        more.extend(["--runs".to_owned(), args.runs.to_string()]);
        replay::words(&["tune"], &args.bed, seed, &more)
    };
    let plan = plan(&bed, &args.bed, &args.preference, &again, context)?;
    let search = Search { args, bed: &bed, plan: &plan, context };
    let tuned = search.run(again(args.bed.first_seed(&bed)))?;
    context.print(&tuned, text)?;
    Ok(0)
}

struct Search<'a> {
    args: &'a Args,
    bed: &'a Bed,
    plan: &'a Plan,
    context: &'a Context,
}

impl Search<'_> {
    fn run(&self, replay: String) -> Result<Tuned> {
        let mut notes = self.plan.notes.clone();
        let measurement = Duration::from_nanos(self.bed.duration_ns - self.bed.warm_up_ns);
        let mut first = Vec::new();
        let searched = self.searched()?;
        for (at, Weighed { strategy, same, weights }) in searched.iter().enumerate() {
            for other in same {
                notes.push(format!(
                    "{other} weighs the cgroups as {strategy} does, and is not simulated"
                ));
            }
            first.push((at, None));
            match bounds(weights, MIN_TURN_BY_LANE, Duration::ZERO, measurement) {
                Ok(within) => {
                    first.extend(grid(within, GRID).into_iter().map(|base| (at, Some(base))));
                }
                Err(error) => notes.push(format!("no turns of {strategy}: {error}")),
            }
        }
        let mut table = self.measure(&searched, &first)?;
        let closer: Vec<(usize, Option<Duration>)> = searched
            .iter()
            .enumerate()
            .flat_map(|(at, weighed)| {
                let points = points(&table, weighed.strategy);
                refine(&points, REFINEMENTS).into_iter().map(move |base| (at, Some(base)))
            })
            .collect();
        if !closer.is_empty() {
            table.extend(self.measure(&searched, &closer)?);
        }
        table.sort_by_key(|row| (row.strategy, row.base_slice_ms));
        let estimate = |row: &Row| row.ratio.map_or(0.0, |ratio| ratio.estimate);
        let best = (0..table.len())
            .max_by(|a, b| estimate(&table[*a]).total_cmp(&estimate(&table[*b])).then(b.cmp(a)));
        Ok(Tuned {
            version: version(),
            scenario: self.bed.file.name.clone(),
            machine: self.bed.machine_text(),
            default: DEFAULT_POLICY.to_owned(),
            table,
            best,
            notes,
            replay,
        })
    }

    /// Those that say something of this scenario.
    fn searched(&self) -> Result<Vec<Weighed>> {
        let says = |strategy: &&Strategy| self.plan.weights(**strategy).is_ok();
        let said: Vec<Strategy> =
            self.args.searched.strategies.iter().filter(says).copied().collect();
        self.plan.distinct(&said)
    }

    /// Simulates strategies, by their places, in turns of base timeslices or side by side.
    fn measure(
        &self,
        searched: &[Weighed],
        what: &[(usize, Option<Duration>)],
    ) -> Result<Vec<Row>> {
        let bed = &self.args.bed;
        let mut contenders = vec![Contender::policy(DEFAULT_POLICY, &bed.settings)?];
        for (at, base) in what {
            contenders.push(match base {
                Some(base) => in_turns(&searched[*at], self.plan, *base, bed)?,
                None => as_lanes(&searched[*at], self.plan, bed)?,
            });
        }
        let replay = |contender: Option<&Contender>, seed| {
            let arguments = contender.map(|c| c.arguments.clone()).unwrap_or_default();
            replay::words(&[], bed, seed, &arguments)
        };
        let first = bed.first_seed(self.bed);
        let (bed, context) = (self.bed, self.context);
        let runner = Runner { bed, contenders: &contenders, only: None, replay: &replay, context };
        let comparison = runner.run(Seeds::Fixed { first, runs: self.args.runs })?;
        let rows = what.iter().zip(1..).map(|((which, base), at)| Row {
            strategy: searched[*which].strategy,
            base_slice_ms: base.map(|base| base.as_millis() as u64),
            ratio: comparison.whole(at),
            command: replay(Some(&contenders[at]), first),
        });
        Ok(rows.collect())
    }
}

/// What was measured of a strategy in turns.
fn points(table: &[Row], strategy: Strategy) -> Vec<Point> {
    let own = table.iter().filter(|row| row.strategy == strategy);
    own.filter_map(|row| Some(Point { base_slice_ms: row.base_slice_ms?, ratio: row.ratio }))
        .collect()
}

fn text(tuned: &Tuned) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["strategy", "base slice", "throughput", ""]);
    for row in &tuned.table {
        let points = points(&tuned.table, row.strategy);
        let its_best = best(&points).is_some_and(|p| Some(p.base_slice_ms) == row.base_slice_ms);
        table.add_row([
            row.strategy.to_string(),
            row.base_slice_ms
                .map_or("side by side".to_owned(), |ms| format_duration(Duration::from_millis(ms))),
            row.ratio.map_or("-".to_owned(), change),
            if its_best { "its best" } else { "" }.to_owned(),
        ]);
    }
    let mut out = format!(
        "metasched {}, simulated\n{}; {}; geometric mean of the cgroups' throughputs, against {}, \
         with 95 % intervals:\n\n{}\n\n",
        tuned.version,
        tuned.scenario,
        tuned.machine,
        tuned.default,
        table.trim_fmt()
    );
    for note in &tuned.notes {
        out += &format!("{note}\n");
    }
    if let Some(best) = tuned.best.map(|at| &tuned.table[at]) {
        if best.ratio.is_none_or(|ratio| ratio.low <= 1.0) {
            out += &format!("nothing is better than {} beyond the noise\n", tuned.default);
        }
        out += &format!("highest estimate: {}\n", best.command);
    }
    out + &format!("again: {}\n", tuned.replay)
}

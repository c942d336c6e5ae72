//! `metasched plan`.

use std::path::PathBuf;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use metasched_base::{Result, parse_duration};
use metasched_experiment::{BenefitForm, Objective, Plan, PlanOptions, Recommendation, Strategy};
use metasched_profile::manifest::Manifest;
use metasched_profile::{Analysis, Declared, SideFigures, Store, analyse, planned};
use serde::Serialize;

use crate::context::Context;
use crate::given::line;

/// Says which scheduler each part prefers, how sure that is, and what to do.
///
/// Reads what `metasched profile` and `metasched tune` measured. Its last lines are one
/// recommendation: to leave the default scheduler in force, to run one scheduler, turns or
/// lanes; `metasched run` carries it out. Every figure is a ratio to the default
/// scheduler (EEVDF) with its 95 % interval; "better" and "worse" stand where the
/// difference is beyond the noise, corrected for the number of schedulers compared.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub choice: ChoiceArgs,
    /// The base timeslice that the turns are worked out for (1800ms if not given): with
    /// n parts, a cycle lasts n of them. If it is given, what is lost in switching at
    /// that timeslice counts when a preferred scheduler is chosen
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    base_slice: Option<Duration>,
}

/// Where the measurements are; shared with `tune`, `run` and `report`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Source {
    /// The store of results
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// The workload: its name, or the path of its folder; the one measured last if not
    /// given
    #[arg(long, value_name = "NAME")]
    pub workload: Option<String>,
}

/// What a preferred scheduler is to be; shared with `tune` and `report`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ChoiceArgs {
    /// What the preferred scheduler is best at: throughput, p99, service (p99, while at most 2 %
    /// fewer requests are served), wait (least waiting for a CPU for the same work) or mix:W with
    /// W, from 0 to 1, the weight of throughput. If it
    /// is not given, each part is judged by what it is for: what its manifest or scenario says,
    /// else one that answers requests as a service, any other by its throughput
    #[arg(long)]
    pub objective: Option<Objective>,
    /// What "benefit" is in the weights: relative (throughput against the default
    /// scheduler) or gain (what exceeds it)
    #[arg(long, default_value = "relative", value_name = "FORM")]
    pub benefit_form: BenefitForm,
}

impl Source {
    /// Opens the store.
    pub fn open(&self) -> Result<Store> {
        Store::open(self.store.clone().unwrap_or_else(metasched_profile::default_path))
    }

    /// Reads the workload's figures from the store.
    pub fn analyse(&self, store: &Store) -> Result<Analysis> {
        let name = match self.workload.as_deref() {
            // The store knows names only.
            Some(path) if path.contains('/') => Some(Manifest::find(path)?.name),
            name => name.map(str::to_owned),
        };
        let declared = |name: &str| declared(&self.place(name)).unwrap_or_default();
        analyse(store, name.as_deref(), declared)
    }

    /// Where to look for the workload: as it was given, else by its name.
    pub fn place(&self, name: &str) -> String {
        self.workload.clone().unwrap_or_else(|| name.to_owned())
    }
}

impl ChoiceArgs {
    /// What the figures come to, with the command that carries it out from the same store.
    pub fn planned(&self, analysis: &Analysis, source: &Source) -> Result<Plan> {
        self.planned_with(analysis, source, self.options())
    }

    fn planned_with(
        &self,
        analysis: &Analysis,
        source: &Source,
        options: PlanOptions,
    ) -> Result<Plan> {
        let mut plan = planned(analysis, options)?;
        if let Some(recommended) = plan.recommendation.as_mut().filter(|r| !r.command.is_empty()) {
            let workload = ("--workload", analysis.workload.clone());
            let store = source.store.as_ref().map(|store| ("--store", store.display().to_string()));
            let words: Vec<String> = [workload]
                .into_iter()
                .chain(store)
                .chain(self.given())
                .flat_map(|(option, value)| [option.to_owned(), value])
                .collect();
            recommended.command += &format!(" {}", line(&words));
        }
        Ok(plan)
    }

    /// What differs from the defaults, as options and their values.
    pub fn given(&self) -> Vec<(&'static str, String)> {
        let objective = self.objective.map(|objective| ("--objective", objective.to_string()));
        let form = (self.benefit_form != BenefitForm::default())
            .then(|| ("--benefit-form", self.benefit_form.to_string()));
        objective.into_iter().chain(form).collect()
    }

    /// As the planner wants them.
    pub fn options(&self) -> PlanOptions {
        PlanOptions {
            objective: self.objective,
            benefit: self.benefit_form,
            ..PlanOptions::default()
        }
    }
}

/// What the workload's manifest says of its forms, where it is found.
fn declared(workload: &str) -> Option<Declared> {
    Some(Declared::of(&Manifest::find(workload).ok()?))
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let store = args.source.open()?;
    let mut options = args.choice.options();
    if let Some(base_slice) = args.base_slice {
        options = PlanOptions { base_slice, count_switching: true, ..options };
    }
    let analysis = args.source.analyse(&store)?;
    let view = View {
        plan: args.choice.planned_with(&analysis, &args.source, options)?,
        sides: analysis.sides,
    };
    context.print(&view, |view| match view.sides.as_slice() {
        [] => text(&view.plan),
        sides => format!("{}\n\n{}", text(&view.plan), sides_text(sides)),
    })?;
    Ok(0)
}

/// The plan, and of a pair what each of the two had while both ran.
#[derive(Serialize)]
struct View {
    #[serde(flatten)]
    plan: Plan,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sides: Vec<SideFigures>,
}

/// What each of a pair has while both run.
pub fn sides_text(sides: &[SideFigures]) -> String {
    let mut table =
        new_table(["scheduler", "of both", "throughput", "p99", "n"].map(String::from).to_vec());
    for side in sides {
        table.add_row([
            side.subject.clone(),
            side.name.clone(),
            side.throughput.text(),
            side.p99.text(),
            side.rounds.to_string(),
        ]);
    }
    if let Some(rounds) = table.column_mut(4) {
        rounds.set_cell_alignment(CellAlignment::Right);
    }
    format!("each of them, while both run:\n{}\n", table.trim_fmt())
}

/// The plan as text.
pub fn text(plan: &Plan) -> String {
    let bed = match &plan.kernel {
        Some(kernel) => format!("{} on kernel {kernel}", plan.workload),
        None => format!("{}, simulated on {}", plan.workload, plan.machine),
    };
    let mut out = format!(
        "{bed}, against {}, with 95 % intervals:\n\n{}\n",
        plan.default,
        ratio_table(plan).trim_fmt()
    );
    out += "better, worse: beyond the noise, corrected for the number of schedulers\n\n";
    let width = plan.apps.iter().map(|a| a.name.len()).max().unwrap_or(0);
    let when = if plan.together { "while all run" } else { "alone" };
    out += &format!("preferred, {when} (intervals wide enough for the best of several):\n");
    for app in &plan.apps {
        out += &format!("  {:width$}  by {:10}  {}\n", app.name, app.objective, app.sure.sentence);
        if app.preferred == plan.default
            && let Some(best) = &app.best_estimate
        {
            out += &format!("  {:width$}  (highest estimate: {best})\n", "");
        }
    }
    if let Some(whole) = &plan.whole {
        let by = whole.objective;
        out += &format!("  one scheduler for {}, by {by}: {}\n", whole.form, whole.sure.sentence);
    }
    out += &format!("\nweights, and turns at a base timeslice of {} ms:\n\n", plan.base_slice_ms);
    out += &weight_table(plan).trim_fmt();
    out.push('\n');
    for note in &plan.notes {
        out += &format!("{note}\n");
    }
    if let Some(recommendation) = &plan.recommendation {
        out += &format!("\n{}", recommended(recommendation));
    }
    if let Some(again) = &plan.again {
        out += &format!("again: {again}\n");
    }
    out.trim_end().to_owned()
}

/// The recommendation as text: what, how sure, what was not measured, and the command.
pub fn recommended(recommendation: &Recommendation) -> String {
    let sentence = &recommendation.sure.sentence;
    let mut out = match &recommendation.contender {
        None => format!("recommended: leave the default scheduler in force\n  {sentence}\n"),
        Some(contender) => {
            let who = match contender.shares() {
                [] => String::new(),
                _ => format!(" ({})", contender.assignments()),
            };
            format!("recommended: {contender}{who}\n  {sentence}\n")
        }
    };
    if !recommendation.not_measured.is_empty() {
        out += &format!("  not measured: {}\n", recommendation.not_measured.join(", "));
    }
    if !recommendation.command.is_empty() {
        out += &format!("  to run it: {}\n", recommendation.command);
    }
    out
}

fn new_table(header: Vec<String>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table
}

fn ratio_table(plan: &Plan) -> Table {
    let header = ["form", "scheduler", "rounds", "throughput", "p99 latency"];
    let mut table = new_table(header.map(String::from).to_vec());
    let mut last = "";
    for row in &plan.table {
        // The form stands once, above its candidates.
        let form = if row.form == last { "" } else { &row.form };
        last = &row.form;
        table.add_row([
            form.to_owned(),
            row.candidate.clone(),
            row.rounds.to_string(),
            row.throughput.text(),
            row.p99.text(),
        ]);
    }
    if let Some(rounds) = table.column_mut(2) {
        rounds.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn weight_table(plan: &Plan) -> Table {
    let mut header = vec!["strategy".to_owned()];
    header.extend(plan.apps.iter().map(|a| format!("{} ({})", a.name, a.preferred)));
    if !plan.expected.is_empty() {
        header.push("expected of the whole".to_owned());
    }
    let mut table = new_table(header);
    for strategy in Strategy::ALL {
        if plan.apps.iter().any(|app| !app.weights.contains_key(&strategy)) {
            continue;
        }
        let mut row = vec![strategy.to_string()];
        row.extend(plan.apps.iter().map(|a| {
            let weight = a.weights.get(&strategy).copied().unwrap_or(0.0);
            let slice_ms = a.slices_ms.get(&strategy).copied().unwrap_or(0.0);
            format!("{weight:.3}  {slice_ms:.0} ms")
        }));
        if let Some(e) = plan.expected.iter().find(|e| e.strategy == strategy) {
            row.push(metasched_base::change(e.ratio));
        }
        table.add_row(row);
    }
    table
}

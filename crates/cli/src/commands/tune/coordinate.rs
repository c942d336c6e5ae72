//! `metasched tune --coordinate`: the options of one policy, one after the other.

use std::str::FromStr;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use metasched_base::{Error, Kind, Result};
use metasched_control::{
    Candidate, CandidateEnv, CandidateKind, Switcher, SwitcherOptions, candidates, put_back_after,
    resolve,
};
use metasched_experiment::{Coordinate, Descent, FormRounds, Point, Rules, Step, change};
use metasched_loader::{OptionInfo, PolicyInfo, variant};
use metasched_profile::manifest::Workload;
use metasched_profile::measure::{Options, Request, SwitcherExecutor, measure_subjects};
use metasched_profile::runner::{Cgroups, Site, prepare};
use metasched_profile::{Store, Subject, candidate_rounds};
use metasched_stats::Interval;
use serde::Serialize;

use super::{Args, Show, too_small};
use crate::context::Context;

/// Rounds of each point where the budget allows it.
const RULES: Rules = Rules { min_rounds: 3, max_rounds: 12, precision: 0.02, drop_losers: false };

/// A coordinate as the user gives it: `slice`, or `slice=5ms:10ms:20ms`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    option: String,
    values: Vec<String>,
}

impl FromStr for Asked {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (option, values) = text.split_once('=').unwrap_or((text, ""));
        let values: Vec<String> = values.split(':').map(|value| value.trim().to_owned()).collect();
        let empty = values.iter().any(String::is_empty) && text.contains('=');
        if option.trim().is_empty() || empty {
            return Err(Error::new(
                Kind::Usage,
                format!("read '{text}' as an option to search"),
                "a name or a value is missing",
            )
            .remedy("write an option, such as slice, or with its values: slice=5ms:10ms:20ms"));
        }
        let values = if text.contains('=') { values } else { Vec::new() };
        Ok(Self { option: option.trim().to_owned(), values })
    }
}

/// What came of the search.
#[derive(Debug, Serialize)]
struct Found {
    /// The policy, without options.
    policy: String,
    /// What everything is compared with.
    default: String,
    /// What points were chosen by; absent where each form was judged by what it is for.
    objective: Option<String>,
    /// The coordinates, in the order in which they were searched.
    steps: Vec<Step>,
    /// The policy with the options that were found, as `--schedulers` takes it.
    scheduler: String,
}

/// A workload, and which of its forms count.
struct Measured {
    workload: Workload,
    forms: Vec<String>,
}

/// Carries the search out; the value is the process's exit status.
pub(super) fn run(args: &Args, context: &Context) -> Result<u8> {
    let table = candidates(&CandidateEnv::system())?;
    let begins = resolve(&table, args.scheduler.as_deref().unwrap_or_default())?;
    if begins.kind != CandidateKind::Policy {
        return Err(Error::new(
            Kind::BadInput,
            format!("search options of '{}'", begins.name),
            "only those of our policies can be set while it runs",
        )
        .remedy("choose a policy of ours: metasched list"));
    }
    let policy = variant(begins.bare_name())?;
    let coordinates =
        args.coordinate.iter().map(|asked| asked.read(policy)).collect::<Result<Vec<_>>>()?;
    let standing: Vec<(String, String)> =
        begins.options().into_iter().filter_map(|o| o.split_once('=')).map(owned).collect();
    let mut store = args.source.open()?;
    let mut site = Site::here(Box::new(Cgroups::new(None)), &context.interrupt)?;
    let measured = workloads(args, &site)?;
    let runs = |points: usize, forms: usize| (points + 1) * forms;
    let forms: usize = measured.iter().map(|one| one.forms.len()).sum();
    let all: usize = coordinates.iter().map(|c| runs(c.values.len(), forms)).sum();
    args.rounds(all, site.machine.emulated).map_err(|e| {
        too_small(e).remedy("raise --budget, shorten --duration, or name fewer values or workloads")
    })?;
    let mut descent = Descent::new(coordinates, standing, args.choice.objective);
    // What cannot be put in force is said before anything is stopped.
    for options in descent.points() {
        resolve(&table, &spec(&begins, &options))?;
    }
    for one in &measured {
        prepare(&one.workload, &site)?;
    }
    let options = SwitcherOptions::new("metasched tune").take_over(args.take_over);
    put_back_after(options, |switcher| {
        site.groups = Box::new(Cgroups::new(Some(switcher.guard())));
        loop {
            let points = descent.points();
            if points.is_empty() {
                return Ok(());
            }
            let specs = points.iter().map(|options| resolve(&table, &spec(&begins, options)));
            let specs = specs.collect::<Result<Vec<Candidate>>>()?;
            let mut pool = table.clone();
            pool.extend(specs.iter().cloned());
            let mut rounds = Vec::new();
            for one in &measured {
                let part = runs(specs.len(), one.forms.len()) as f64 / all as f64;
                let share = args.budget.mul_f64(part);
                let bench = Bench { args, site: &site, pool: &pool, specs: &specs, share };
                rounds.extend(bench.measure(one, switcher, &mut store, context)?);
            }
            descent.tell(&rounds);
        }
    })?;
    let (set, steps) = descent.end();
    let found = Found {
        policy: policy.name.to_owned(),
        default: metasched_profile::BASELINE.to_owned(),
        objective: args.choice.objective.map(|objective| objective.to_string()),
        scheduler: resolve(&table, &spec(&begins, &set))?.name.replacen(' ', ":", 1),
        steps,
    };
    if found.steps.iter().all(|step| step.kept.is_none()) {
        return Err(Error::new(Kind::Failed, "tune", "no point could be measured")
            .remedy("see what was said above; `metasched doctor` checks the machine"));
    }
    context.print(&found, text)?;
    Ok(0)
}

fn owned((option, value): (&str, &str)) -> (String, String) {
    (option.to_owned(), value.to_owned())
}

/// The policy with these options, as [`resolve`] takes it.
fn spec(begins: &Candidate, options: &[String]) -> String {
    format!("{} {}", begins.bare_name(), options.join(" "))
}

/// The workloads, each `NAME` or `NAME:FORM`, with commas between them.
fn workloads(args: &Args, site: &Site) -> Result<Vec<Measured>> {
    let Some(names) = &args.source.workload else {
        return Err(Error::new(Kind::Usage, "search options", "no workload is named")
            .remedy("name one or several: --workload jvm-store,jvm-mix:reactors"));
    };
    let one = |text: &str| {
        let (name, form) = match text.split_once(':') {
            Some((name, form)) if !text.contains('+') => (name, Some(form)),
            _ => (text, None),
        };
        let workload = Workload::find(name, &[], site.machine.emulated)?;
        let forms = match form {
            Some(form) => vec![workload.manifest.form(form)?.name.clone()],
            None => workload.manifest.forms.iter().map(|form| form.name.clone()).collect(),
        };
        Ok(Measured { workload, forms })
    };
    names.split(',').map(one).collect()
}

/// What all measurements of a coordinate have in common.
struct Bench<'a> {
    args: &'a Args,
    site: &'a Site,
    pool: &'a [Candidate],
    specs: &'a [Candidate],
    /// The time for one workload.
    share: Duration,
}

impl Bench<'_> {
    /// Measures the points on a workload, in the same rounds.
    fn measure(
        &self,
        one: &Measured,
        switcher: &mut Switcher,
        store: &mut Store,
        context: &Context,
    ) -> Result<Vec<FormRounds>> {
        let subjects: Vec<Subject> = self.specs.iter().map(Subject::scheduler).collect();
        let options = Options { rules: RULES, budget: Some(self.share), ..self.args.options() };
        let request = Request {
            workload: &one.workload,
            forms: &one.forms,
            subjects: &subjects,
            options: &options,
        };
        let name = &one.workload.manifest.name;
        let mut show = Show::new(context, name);
        let mut executor = SwitcherExecutor::new(switcher, self.pool);
        let summary = measure_subjects(&request, self.site, &mut executor, store, &mut |event| {
            show.event(&event);
        });
        show.end();
        let summary = summary?;
        let form = |form: &metasched_profile::measure::FormSummary| -> Result<FormRounds> {
            if let Some(error) = &form.error {
                eprintln!("metasched: warning: {name}, {}: {error}", form.form);
            }
            Ok(FormRounds {
                form: format!("{name} {}", form.form),
                objective: one.workload.manifest.form(&form.form)?.objective(),
                points: candidate_rounds(store, form.series, &subjects)?,
            })
        };
        summary.forms.iter().map(form).collect()
    }
}

impl Asked {
    /// With the values to try, each as the policy takes it.
    fn read(&self, policy: &'static PolicyInfo) -> Result<Coordinate> {
        let written = |values: &[String]| -> Result<Vec<String>> {
            let mut all: Vec<String> = Vec::new();
            for value in values {
                let setting = format!("{}={value}", self.option).parse()?;
                let options = policy.settings(&[setting])?;
                let words = policy.written(&options).into_iter();
                for (_, value) in words.filter_map(|word| word.split_once('=').map(owned)) {
                    if !all.contains(&value) {
                        all.push(value);
                    }
                }
            }
            Ok(all)
        };
        let option = policy.option_named(&self.option)?;
        let values = match self.values.as_slice() {
            [] => written(&around_default(option))?,
            given => written(given)?,
        };
        let short = policy.written(&[(option.name.to_owned(), option.default)].into());
        let name =
            short.first().and_then(|word| word.split_once('=')).map_or(option.name, |(n, _)| n);
        Ok(Coordinate { option: name.to_owned(), values })
    }
}

/// The values that are tried if none are given: the default, a quarter and half of it, twice and
/// four times as much, within what the option can be; of a switch both.
fn around_default(option: &OptionInfo) -> Vec<String> {
    let times = [(1, 4), (1, 2), (1, 1), (2, 1), (4, 1)];
    let scaled =
        |(by, over): (u64, u64)| (option.default * by / over).clamp(option.least, option.most);
    let values: Vec<u64> = match option.most - option.least {
        1 => vec![option.least, option.most],
        _ => times.into_iter().map(scaled).collect(),
    };
    values.iter().map(u64::to_string).collect()
}

/// The search as text: a table for each coordinate.
fn text(found: &Found) -> String {
    let mut out = format!(
        "options of {}, against {}, with 95 % intervals; less is better:\n",
        found.policy, found.default
    );
    for step in &found.steps {
        let beside = match step.beside.as_slice() {
            [] => String::new(),
            beside => format!(", with {}", beside.join(" ")),
        };
        out += &format!("\n{}{beside}:\n\n", step.option);
        out += &table(step).trim_fmt();
        out.push('\n');
    }
    if found.steps.iter().flat_map(|step| &step.points).any(|point| point.run_time.is_none()) {
        out += "\n-: fewer than two rounds: raise --budget, or search less";
    }
    out += "\n*: no other value has both less run time and less wait, by their estimates\n";
    let by = match &found.objective {
        Some(objective) => objective.clone(),
        None => "what each form is for".to_owned(),
    };
    out += &format!("\nhighest estimates by {by}: {}\n", found.scheduler);
    if let Some(text) = found.steps.last().and_then(kept_against_others) {
        out += &text;
    }
    out
}

fn table(step: &Step) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec![step.option.clone(), "run time".into(), "wait".into(), String::new()];
    let forms = step.points.first().map_or(&[][..], |point| &point.forms);
    if forms.len() > 1 {
        header.extend(forms.iter().map(|form| form.form.clone()));
    }
    header.push("rounds".into());
    table.set_header(header);
    let ratio = |ratio: Option<Interval>| ratio.map_or("-".to_owned(), change);
    for (at, point) in step.points.iter().enumerate() {
        let mark = if point.undominated && point.wait.is_some() { "*" } else { "" };
        let kept = if step.kept == Some(at) { " kept" } else { "" };
        let mut row = vec![
            point.value.clone(),
            ratio(point.run_time),
            ratio(point.wait),
            format!("{mark}{kept}"),
        ];
        if forms.len() > 1 {
            row.extend(point.forms.iter().map(|form| ratio(form.run_time)));
        }
        row.push(point.forms.iter().map(|form| form.rounds).min().unwrap_or(0).to_string());
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Left);
    }
    table
}

/// How sure it is that what was kept is better than the others: where intervals overlap it is not.
fn kept_against_others(step: &Step) -> Option<String> {
    let kept = step.points.get(step.kept?)?.score?;
    let apart = |point: &&Point| point.score.is_some_and(|score| score.high < kept.low);
    let surely = step.points.iter().filter(apart).count();
    let others = step.points.len() - 1;
    Some(format!(
        "of the {others} other values of {}, {surely} are behind it by more than the intervals\n",
        step.option
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(policy: &str, text: &str) -> Result<Coordinate> {
        text.parse::<Asked>()?.read(variant(policy)?)
    }

    #[test]
    fn values_are_those_that_were_given_or_lie_around_the_default() {
        for (text, values) in [
            ("slice", &["5ms", "10ms", "20ms", "40ms", "80ms"][..]),
            ("slice_ns=5ms:20000000:5000us", &["5ms", "20ms"]),
            ("average", &["247", "495", "990", "999"]),
            ("no_starvation", &["0", "1"]),
        ] {
            let coordinate = read("ioprio", text).unwrap();
            assert_eq!(coordinate.values, values, "{text}");
        }
        assert_eq!(read("ioprio", "slice_ns").unwrap().option, "slice");
    }

    #[test]
    fn what_cannot_be_searched_is_refused_with_what_can() {
        for (text, said) in [
            ("slise", "it has slice_ns"),
            ("slice=", "slice=5ms:10ms:20ms"),
            ("=5ms", "a name or a value is missing"),
            ("slice=5ms:soon", "'soon' is no number"),
            ("slice=1", "out of range"),
        ] {
            let error = read("ioprio", text).unwrap_err();
            let whole = format!("{error} {}", error.remedy);
            assert!(whole.contains(said), "{whole}");
        }
    }
}

//! `bench-app`: the question-answering application under every scheduler and strategy.
//!
//! It runs the public commands (`profile`, `plan`, `tune`, `run`) and gathers their JSON,
//! so that what is measured is what a user runs. The table of Figure 1 comes from
//! `profile`, that of Figure 2 from `tune`, metasched's own use from `run`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use clap::Parser;
use metasched_base::{Error, Kind, Result, ResultExt, format_duration};
use metasched_benches::{finish, table};
use serde::Serialize;
use serde_json::Value;

/// Measures the application under every scheduler and every strategy.
#[derive(Debug, Parser)]
#[command(name = "bench-app")]
struct Args {
    /// Time for the schedulers (Figure 1)
    #[arg(long, default_value = "12m", value_parser = metasched_base::parse_duration)]
    profile_budget: Duration,
    /// Time for the strategies (Figure 2) and lanes
    #[arg(long, default_value = "20m", value_parser = metasched_base::parse_duration)]
    tune_budget: Duration,
    /// Where the store is
    #[arg(long, env = "METASCHED_OUT", default_value = ".")]
    out: PathBuf,
    /// The schedulers to measure, as `metasched profile --schedulers` takes them; all that
    /// are here if not given
    #[arg(long, value_name = "NAME,...")]
    schedulers: Option<String>,
    /// The schedulers that take turns, as `metasched tune --turn` takes them, instead of
    /// those that the parts prefer; once for each part
    #[arg(long = "turn", value_name = "PART=SCHEDULER")]
    turns: Vec<String>,
    /// Further arguments of `metasched profile`, in one word
    #[arg(
        long = "profile",
        value_name = "ARGUMENTS",
        default_value = "",
        allow_hyphen_values = true
    )]
    profile_arguments: String,
    /// Further arguments of `metasched tune`, in one word: "--strategy delta"
    #[arg(long = "tune", value_name = "ARGUMENTS", default_value = "", allow_hyphen_values = true)]
    tune_arguments: String,
    /// How long metasched's own use is watched
    #[arg(long, default_value = "30s", value_parser = metasched_base::parse_duration)]
    own_for: Duration,
}

#[derive(Serialize)]
struct Figures {
    /// For each form and scheduler: throughput and p99 as ratios to EEVDF.
    schedulers: Value,
    /// For each strategy, mechanism and base timeslice on the whole application, and for
    /// lanes side by side: the same.
    strategies: Value,
    /// The lanes with the most throughput, against EEVDF and, in `over`, against the best
    /// single scheduler and the best of the turns, by runs of the same rounds.
    lanes: Value,
    /// The best of these, and the single scheduler that was measured beside them.
    best_strategy: Value,
    best_single: Value,
    /// EEVDF with metasched's observation over EEVDF without it: throughput, by form.
    observation: Value,
    /// CPU share and memory of the metascheduler itself, by mechanism.
    own_use: Value,
}

fn main() -> ExitCode {
    finish(bench(&Args::parse()))
}

fn bench(args: &Args) -> Result<Figures> {
    let store = args.out.join("results.db");
    let store = store.to_string_lossy();
    let profile_budget = format_duration(args.profile_budget).replace(' ', "");
    let tune_budget = format_duration(args.tune_budget).replace(' ', "");

    let mut profile = vec!["profile", "qa", "--store", &store, "--budget", &profile_budget];
    if let Some(schedulers) = &args.schedulers {
        profile.extend(["--schedulers", schedulers]);
    }
    profile.extend(args.profile_arguments.split_whitespace());
    let profile = metasched(&profile)?;
    let plan = metasched(&["plan", "--store", &store])?;
    let mut tune = vec!["tune", "--store", &store, "--budget", &tune_budget];
    for turn in &args.turns {
        tune.extend(["--turn", turn.as_str()]);
    }
    tune.extend(args.tune_arguments.split_whitespace());
    let tuned = metasched(&tune)?;
    let own_use = own_use(args)?;

    print_ratios("throughput and p99 against EEVDF", &plan["table"], &["form", "candidate"]);
    print_ratios(
        "the whole application, turns and lanes",
        &tuned["table"],
        &["strategy", "mode", "mechanism", "base_slice_ms"],
    );
    let observation: Value = profile["forms"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|form| Some((form["form"].as_str()?.to_string(), form["observation"].clone())))
        .collect();
    Ok(Figures {
        schedulers: plan["table"].clone(),
        strategies: tuned["table"].clone(),
        lanes: best_lanes(&tuned["table"]),
        best_strategy: tuned["best"].clone(),
        best_single: tuned["single"].clone(),
        observation,
        own_use,
    })
}

/// What the metascheduler itself takes while it runs, between policies that need not suit
/// any application: its own cost is the same.
fn own_use(args: &Args) -> Result<Value> {
    let period = format_duration(args.own_for).replace(' ', "");
    let mut uses = serde_json::Map::new();
    for mechanism in ["lane", "swap"] {
        let ran = metasched(&[
            "run",
            "--mechanism",
            mechanism,
            "--turn",
            "a=fifo",
            "--turn",
            "b=vtime",
            "--for",
            &period,
        ])?;
        uses.insert(mechanism.to_string(), ran["own_use"].clone());
    }
    Ok(Value::Object(uses))
}

/// Runs a command of the metasched that was built with this benchmark; its progress is
/// seen on standard error.
///
/// # Returns
/// The last JSON document that it printed.
fn metasched(arguments: &[&str]) -> Result<Value> {
    let attempt = || format!("run 'metasched {}'", arguments.join(" "));
    let program = std::env::current_exe()
        .attempt(Kind::Failed, attempt)?
        .parent()
        .unwrap_or(Path::new("."))
        .join("metasched");
    let output = Command::new(&program)
        .args(arguments)
        .arg("--json")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .attempt(Kind::Failed, attempt)?;
    if !output.status.success() {
        return Err(Error::new(
            Kind::Failed,
            attempt(),
            format!("it ended with {}", output.status),
        ));
    }
    let documents = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    match documents.last() {
        Some(last) => last.attempt(Kind::Failed, || format!("{} and read its JSON", attempt())),
        None => Err(Error::new(Kind::Failed, attempt(), "it printed nothing")),
    }
}

fn print_ratios(title: &str, rows: &Value, keys: &[&str]) {
    let mut titles = keys.to_vec();
    titles.extend(["throughput / EEVDF", "p99 / EEVDF", "rounds"]);
    let mut shown = table(&titles);
    for row in rows.as_array().into_iter().flatten() {
        let mut cells: Vec<String> = keys.iter().map(|key| plain(&row[*key])).collect();
        cells.extend([
            ratio(&row["throughput"]),
            ratio(&row["p99"]),
            // A strategy's row has no count of its own.
            plain(row.get("rounds").unwrap_or(&row["throughput"]["interval"]["n"])),
        ]);
        shown.add_row(cells);
    }
    println!("{title}\n{shown}\n");
}

/// Of the rows about lanes, the one with the most throughput; null if there is none.
fn best_lanes(rows: &Value) -> Value {
    let rate = |row: &Value| row["throughput"]["estimate"].as_f64().unwrap_or(0.0);
    let lanes = rows.as_array().into_iter().flatten().filter(|row| row["mode"] == "lanes");
    lanes.max_by(|a, b| rate(a).total_cmp(&rate(b))).cloned().unwrap_or_default()
}

/// A value without quotes, nothing for what is not there.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A ratio, with its interval where there is one.
fn ratio(value: &Value) -> String {
    let interval = &value["interval"];
    match (value["estimate"].as_f64(), interval["low"].as_f64(), interval["high"].as_f64()) {
        (Some(e), Some(l), Some(h)) => format!("{e:.3} [{l:.3}-{h:.3}]"),
        (Some(e), _, _) => format!("{e:.3} [no interval]"),
        _ => "not measured".into(),
    }
}

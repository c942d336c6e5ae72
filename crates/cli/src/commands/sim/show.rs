//! The result as text.

use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use metasched_base::{brief_time, format_duration};
use metasched_experiment::Work;
use metasched_simbed::{Entry, GroupEntry, Metric, Ratio, Report, Spread};

use crate::commands::percent::change;

/// The whole report.
pub fn text(report: &Report) -> String {
    let mut out = header(report);
    match report.contenders.as_slice() {
        [one] => out += &alone(one),
        several => out += &compared(several),
    }
    if let Some(precision) = report.precision {
        out += &narrowness(report, precision);
    }
    out += &format!("again: {}\n", report.replay);
    out
}

fn header(report: &Report) -> String {
    let brief = |ns| format_duration(Duration::from_nanos(ns));
    let about = match report.about.as_str() {
        "" => String::new(),
        about => format!(": {about}"),
    };
    let seeds = match report.seeds.as_slice() {
        [seed] => format!("seed {seed}"),
        [first, .., last] => format!("seeds {first} to {last}"),
        [] => String::new(),
    };
    let warm_up = match report.warm_up_ns {
        0 => String::new(),
        ns => format!(", of which {} of warm-up do not count", brief(ns)),
    };
    format!(
        "metasched {}, simulated\n{}{about}\n{}; {}{warm_up}; {seeds}\n\n",
        report.version,
        report.scenario,
        report.machine,
        brief(report.duration_ns)
    )
}

/// A table without lines, whose columns stand to the right but for the first ones.
pub fn table(header: Vec<String>, left: usize) -> Table {
    let mut table = Table::new();
    let columns = header.len();
    // One line each, however narrow the terminal says it is.
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    for column in left..columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn titles(titles: &[&str]) -> Vec<String> {
    titles.iter().map(|title| (*title).to_owned()).collect()
}

/// The rows that a table shows, and a line that tells of the others.
fn shown(groups: &[GroupEntry]) -> (Vec<&GroupEntry>, String) {
    let rows: Vec<&GroupEntry> = groups.iter().filter(|group| group.shown).collect();
    let more = match groups.len() - rows.len() {
        0 => String::new(),
        more => format!("and {more} cgroups that used less; --json has them all\n"),
    };
    (rows, more)
}

/// A number with two or three digits that count.
fn brief(value: f64) -> String {
    let digits = match value {
        v if v >= 99.95 || v == 0.0 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

/// What is shown of a figure that is not there.
const NOT_MEASURED: &str = "not measured";

fn percent(part: f64) -> String {
    metasched_base::percent(part)
}

fn unit(work: Work) -> &'static str {
    match work {
        Work::Requests => "requests/s",
        Work::Units => "units/s",
        Work::Bursts => "bursts/s",
        Work::CpuSeconds => "CPUs",
    }
}

fn throughput(group: &GroupEntry) -> String {
    format!("{} {}", brief(group.throughput_per_s), unit(group.work))
}

/// For how long `cpu.max` kept tasks away, if it did.
fn throttled(group: &GroupEntry) -> String {
    group.throttled_ns.filter(|ns| *ns > 0).map_or(String::new(), time)
}

fn time(ns: u64) -> String {
    brief_time(ns as f64)
}

/// A contender of which nothing is a ratio.
pub fn alone(entry: &Entry) -> String {
    let (rows, more) = shown(&entry.groups);
    let responses = rows.iter().any(|row| row.response.is_some());
    let limited = rows.iter().any(|row| row.throttled_ns > Some(0));
    let mut header = titles(&["cgroup", "tasks", "throughput", "CPUs", "share"]);
    header.extend(titles(&["wait p50", "p90", "p99", "max"]));
    if limited {
        header.push("throttled".to_owned());
    }
    if responses {
        header.extend(titles(&["response p50", "p99", "max"]));
    }
    header.extend(titles(&["switches/s", "forced", "migrations/s"]));
    let mut table = table(header, 1);
    for row in rows {
        let wait = row.wait.as_ref().map(|w| [w.p50_ns, w.p90_ns, w.p99_ns, w.max_ns].map(time));
        let mut cells = vec![
            row.cgroup.clone(),
            row.tasks.to_string(),
            throughput(row),
            brief(row.cpus),
            percent(row.share),
        ];
        cells.extend(wait.unwrap_or([NOT_MEASURED; 4].map(str::to_owned)));
        if limited {
            cells.push(throttled(row));
        }
        if responses {
            let response = row.response.as_ref().map(|r| [r.p50_ns, r.p99_ns, r.max_ns].map(time));
            cells.extend(response.unwrap_or([const { String::new() }; 3]));
        }
        cells.extend([
            brief(row.voluntary_per_s + row.involuntary_per_s),
            brief(row.involuntary_per_s),
            migrations(row),
        ]);
        table.add_row(cells);
    }
    format!(
        "under {}:\n{}\n{more}\nCPUs in use {}, idle while work waited {}\n",
        entry.name,
        table.trim_fmt(),
        percent(entry.utilisation),
        entry.idle_beside_work.map_or(NOT_MEASURED.to_owned(), percent)
    )
}

/// Migrations, and how far they went where that is known.
fn migrations(row: &GroupEntry) -> String {
    let mut text = row.migrations_per_s.map_or(NOT_MEASURED.to_owned(), brief);
    let farther = [(row.across_llcs_per_s, "LLCs"), (row.across_nodes_per_s, "nodes")];
    for (rate, what) in farther {
        if let Some(rate) = rate.filter(|rate| *rate > 0.0) {
            text += &format!(", {} across {what}", brief(rate));
        }
    }
    text
}

/// Contenders against the first.
fn compared(entries: &[Entry]) -> String {
    let first = &entries[0];
    let (rows, more) = shown(&first.groups);
    let responses = rows.iter().any(|row| row.response.is_some());
    let limited =
        entries.iter().flat_map(|entry| &entry.groups).any(|g| g.shown && g.throttled_ns > Some(0));
    let against = format!("against {}", first.name);
    let mut header = titles(&["cgroup", "policy", "throughput", &against]);
    header.extend(titles(&["wait p50", "p99", &against]));
    if responses {
        header.extend(titles(&["response p50", "p99", &against]));
    }
    if limited {
        header.push("throttled".to_owned());
    }
    let mut by_group = table(header, 2);
    for row in rows {
        for (at, entry) in entries.iter().enumerate() {
            let Some(group) = entry.groups.iter().find(|g| g.cgroup == row.cgroup) else {
                continue;
            };
            let name = if at == 0 { row.cgroup.clone() } else { String::new() };
            let ratio = |metric| match at {
                0 => String::new(),
                _ => ratio(group.ratios.get(&metric)),
            };
            let mut cells =
                vec![name, entry.name.clone(), throughput(group), ratio(Metric::Throughput)];
            let wait = |which: fn(&Spread) -> u64| {
                group.wait.as_ref().map_or(NOT_MEASURED.to_owned(), |w| time(which(w)))
            };
            cells.extend([wait(|w| w.p50_ns), wait(|w| w.p99_ns), ratio(Metric::WaitP99)]);
            if responses {
                let of = |which: fn(&Spread) -> u64| {
                    group.response.as_ref().map(|r| time(which(r))).unwrap_or_default()
                };
                let against = match &group.response {
                    Some(_) => ratio(Metric::ResponseP99),
                    None => String::new(),
                };
                cells.extend([of(|r| r.p50_ns), of(|r| r.p99_ns), against]);
            }
            if limited {
                cells.push(throttled(group));
            }
            by_group.add_row(cells);
        }
    }
    let header = ["policy", "CPUs in use", "idle while work waited", "switches/s", "migrations/s"];
    let mut by_policy = table(titles(&header), 1);
    for entry in entries {
        let Some(all) = entry.groups.last() else { continue };
        by_policy.add_row([
            entry.name.clone(),
            percent(entry.utilisation),
            entry.idle_beside_work.map_or(NOT_MEASURED.to_owned(), percent),
            brief(all.voluntary_per_s + all.involuntary_per_s),
            migrations(all),
        ]);
    }
    format!("{}\n{more}\n{}\n\n", by_group.trim_fmt(), by_policy.trim_fmt())
}

fn ratio(ratio: Option<&Ratio>) -> String {
    match ratio {
        None => "-".to_owned(),
        Some(Ratio { interval: Some(interval), .. }) => change(*interval),
        Some(Ratio { estimate, .. }) => metasched_base::change(*estimate),
    }
}

fn narrowness(report: &Report, precision: f64) -> String {
    let runs = report.seeds.len();
    let Some(widest) = report.widest else {
        return format!("{runs} runs; there is nothing to compare\n");
    };
    let enough = if widest <= precision {
        "narrow enough"
    } else {
        "not as narrow as asked for; raise --max-runs"
    };
    format!(
        "{runs} runs; the widest 95 % interval reaches {:.1} % to either side: {enough}\n",
        widest * 100.0
    )
}

//! What was found, by variant, density and scheduler.

use std::collections::BTreeMap;

use comfy_table::Table;
use metasched_base::brief_time;
use metasched_benches::show;
use metasched_stats::{Interval, median, paired_ratio};
use serde::Serialize;

use crate::Variant;

/// What a run says, and what it is called over EEVDF's: times in ns, shares of all CPUs, calls within a second.
pub const FIGURES: [(&str, &str); 9] = [
    ("p50_ns", "p50_ratio"),
    ("p95_ns", "p95_ratio"),
    ("p99_ns", "p99_ratio"),
    ("light_p50_ns", "light_p50_ratio"),
    ("light_p95_ns", "light_p95_ratio"),
    ("timely_per_s", "throughput_ratio"),
    ("schedule_share", "schedule_share_ratio"),
    ("busy_share", "cpu_ratio"),
    ("switches_per_s", "switches_ratio"),
];

/// One scheduler's runs of one load.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// Over EEVDF, with 95 % intervals; none where that was not measured.
    #[serde(flatten)]
    ratios: BTreeMap<&'static str, Option<Interval>>,
    medians: BTreeMap<&'static str, Option<f64>>,
    runs: usize,
    /// Why the last run failed, where one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

impl Cell {
    /// Of all runs: `pairs` are a figure of theirs, and EEVDF's of the same round or seed.
    pub fn new(
        pairs: impl Fn(&str) -> Vec<(f64, f64)>,
        runs: impl Fn(&str) -> Vec<f64>,
        failed: Option<String>,
    ) -> Self {
        let ratio = |(name, ratio): &(&'static str, _)| (*ratio, paired_ratio(&pairs(name), 1));
        let middle = |(name, _): &(&'static str, _)| (*name, median(&runs(name)));
        Cell {
            ratios: FIGURES.iter().map(ratio).collect(),
            medians: FIGURES.iter().map(middle).collect(),
            runs: runs(FIGURES[0].0).len(),
            failed,
        }
    }
}

/// Schedulers, in the order in which they are shown, and what was found.
pub type Rows = BTreeMap<u64, Vec<(String, Cell)>>;

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Bed(BTreeMap<Variant, Rows>);

impl Bed {
    /// Adds a scheduler.
    pub fn add(&mut self, variant: Variant, density: u64, scheduler: &str, cell: Cell) {
        let rows = self.0.entry(variant).or_default().entry(density).or_default();
        rows.push((scheduler.to_owned(), cell));
    }

    /// What there is of a variant.
    pub fn of(&self, variant: Variant) -> Option<&Rows> {
        self.0.get(&variant)
    }
}

impl Serialize for Bed {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let parallel_p95 = |density: &u64, scheduler: &str| {
            let rows = self.0.get(&Variant::Parallel)?.get(density)?;
            let (_, cell) = rows.iter().find(|(name, _)| name == scheduler)?;
            cell.ratios["p95_ratio"]
        };
        let by_variant = self.0.iter().map(|(variant, rows)| {
            let by_density = rows.iter().map(|(density, cells)| {
                let by_scheduler = cells.iter().map(|(scheduler, cell)| {
                    let mut cell = cell.clone();
                    if *variant == Variant::Plain {
                        let p95 = parallel_p95(density, scheduler);
                        cell.ratios.insert("p95_parallel_ratio", p95);
                    }
                    (scheduler, cell)
                });
                (density, by_scheduler.collect::<BTreeMap<_, _>>())
            });
            (variant.name(), by_density.collect::<BTreeMap<_, _>>())
        });
        by_variant.collect::<BTreeMap<_, _>>().serialize(serializer)
    }
}

/// A variant as people read it.
pub fn table(rows: &Rows) -> Table {
    let mut table = metasched_benches::table(&[
        "how many",
        "scheduler",
        "p50",
        "p95",
        "p99",
        "light p95",
        "in time/s",
        "scheduling",
        "busy",
        "switches/s",
        "p50 over EEVDF's",
        "p95",
        "light p95",
        "in time",
        "scheduling",
    ]);
    for (density, cells) in rows {
        for (scheduler, cell) in cells {
            let middle = |name: &str, shown: fn(f64) -> String| {
                cell.medians[name].map_or("not measured".to_owned(), shown)
            };
            let whole = |value: f64| format!("{value:.0}");
            let share = |value: f64| format!("{:.1} %", 100.0 * value);
            let ratio = |name: &str| show(cell.ratios[name]);
            table.add_row([
                density.to_string(),
                scheduler.clone(),
                middle("p50_ns", brief_time),
                middle("p95_ns", brief_time),
                middle("p99_ns", brief_time),
                middle("light_p95_ns", brief_time),
                middle("timely_per_s", whole),
                middle("schedule_share", share),
                middle("busy_share", share),
                middle("switches_per_s", whole),
                ratio("p50_ratio"),
                ratio("p95_ratio"),
                ratio("light_p95_ratio"),
                ratio("throughput_ratio"),
                ratio("schedule_share_ratio"),
            ]);
        }
    }
    table
}

//! What was found, as tables and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use comfy_table::Table;
use metasched_benches::show;
use metasched_stats::{Interval, median, paired_ratio};
use serde::{Serialize, Serializer};

use crate::machines::{CASES, Case, Shared};
use crate::measured::{Cell, OVERLOADS as MEASURED_OVERLOADS};
use crate::program::{Load, Ran, THREADS, Way};
use crate::simulated::{ALWAYS, HOGS, OVERLOADS};
use crate::{EEVDF, MEASURED};

/// Published run times, s: by scheduler and way, on the idle host and on the overloaded one.
const PUBLISHED: [(&str, Way, Option<f64>, f64); 6] = [
    ("eevdf", Way::Spinning, Some(9.68), 19.95),
    ("eevdf", Way::Blocking, Some(17.43), 22.43),
    ("eevdf", Way::Adapting, None, 13.02),
    ("central", Way::Spinning, None, 19.79),
    ("central", Way::Blocking, None, 32.65),
    ("central", Way::Adapting, None, 12.71),
];
/// The number of threads is drawn for each of these, ms.
const STEP_MS: u64 = 100;
/// How far it is drawn, ms.
const DRAWN_MS: u64 = 4_000;
const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Runs of the program by scheduler, way and load; those of several seeds in their order.
#[derive(Default)]
pub struct Runs(BTreeMap<(String, Way, Load), Vec<Ran>>);

impl Runs {
    /// Adds a run.
    pub fn add(&mut self, scheduler: &str, way: Way, load: Load, ran: Ran) {
        self.0.entry((scheduler.to_owned(), way, load)).or_default().push(ran);
    }

    fn of(&self, scheduler: &str, way: Way, load: Load) -> &[Ran] {
        &self.0[&(scheduler.to_owned(), way, load)]
    }

    fn seconds(&self, scheduler: &str, way: Way, load: Load) -> Vec<f64> {
        self.of(scheduler, way, load).iter().map(|ran| ran.seconds).collect()
    }

    /// How long the program runs one way, over how long it runs the other way, by pairs of one
    /// seed.
    pub fn ratio(&self, scheduler: &str, load: Load, way: Way, over: Way) -> Option<Interval> {
        let others = self.seconds(scheduler, over, load);
        let pairs: Vec<_> = self.seconds(scheduler, way, load).into_iter().zip(others).collect();
        paired_ratio(&pairs, 1)
    }

    /// Run times, with the published ones beside them.
    pub fn table(&self, schedulers: &[&str]) -> Table {
        let mut table = metasched_benches::table(&[
            "host's scheduler",
            "program",
            "idle, s",
            "published",
            "overloaded, s",
            "published",
            "all spinning over it",
            "published",
            "overloaded pinned, s",
            "all spinning over it",
        ]);
        for scheduler in schedulers {
            for way in Way::ALL {
                let middle = |load| {
                    let seconds = median(&self.seconds(scheduler, way, load));
                    seconds.map_or("not measured".to_owned(), |s| format!("{s:.2}"))
                };
                let over = |load| show(self.ratio(scheduler, load, Way::Spinning, way));
                let seconds = |s: Option<f64>| s.map_or(String::new(), |s| format!("{s:.2}"));
                let published = published(scheduler, way);
                let gain = published.and_then(|(_, overloaded)| {
                    published_overloaded(scheduler, Way::Spinning).map(|all| all / overloaded)
                });
                table.add_row([
                    (*scheduler).to_owned(),
                    way.title().to_owned(),
                    middle(Load::Idle),
                    seconds(published.and_then(|(idle, _)| idle)),
                    middle(Load::PERIODIC),
                    seconds(published.map(|(_, overloaded)| overloaded)),
                    over(Load::PERIODIC),
                    seconds(gain),
                    middle(Load::Pinned),
                    over(Load::Pinned),
                ]);
            }
        }
        table
    }

    /// What adapting gains under EEVDF by what the overload is.
    pub fn by_overload(&self) -> Table {
        let mut table = metasched_benches::table(&[
            "overload",
            "computes, of 500 ms",
            "spinning, s",
            "adapting, s",
            "gain",
        ]);
        let periodic = OVERLOADS.map(|(hogs, busy_ms)| {
            (hogs, format!("{busy_ms} ms"), Load::Together { hogs, busy_ms })
        });
        let always = ALWAYS.map(|hogs| (hogs, "always".to_owned(), Load::Hogs(hogs)));
        for (hogs, computes, load) in periodic.into_iter().chain(always) {
            let middle = |way| {
                let seconds = median(&self.seconds(EEVDF, way, load));
                seconds.map_or("not simulated".to_owned(), |s| format!("{s:.2}"))
            };
            table.add_row([
                format!("{hogs} tasks"),
                computes,
                middle(Way::Spinning),
                middle(Way::Adapting),
                show(self.ratio(EEVDF, load, Way::Spinning, Way::Adapting)),
            ]);
        }
        table
    }

    /// The program on a host as small as the measured ones.
    pub fn as_measured(&self, schedulers: &[&str]) -> Table {
        let mut table = table_of(&titles_by_overload());
        for scheduler in schedulers {
            for way in Way::ALL {
                let mut row = vec![(*scheduler).to_owned(), way.title().to_owned()];
                for hogs in MEASURED_OVERLOADS {
                    let load = Load::Measured(hogs as u64);
                    let seconds = median(&self.seconds(scheduler, way, load));
                    row.push(seconds.map_or("not simulated".to_owned(), |s| format!("{s:.2}")));
                    row.push(show(self.ratio(scheduler, load, Way::Spinning, way)));
                }
                table.add_row(row);
            }
        }
        table
    }

    /// How much slower spinning is by how many virtual CPUs wait.
    pub fn slowdown(&self, schedulers: &[&str]) -> Table {
        let mut table = metasched_benches::table(&[
            "host's scheduler",
            "hogs",
            "phantoms",
            "spinning, s",
            "times",
        ]);
        for scheduler in schedulers {
            let seconds = |hogs| self.seconds(scheduler, Way::Spinning, Load::Hogs(hogs));
            for hogs in HOGS {
                let ran = self.of(scheduler, Way::Spinning, Load::Hogs(hogs));
                let phantoms: Vec<f64> = ran.iter().map(|ran| ran.phantoms).collect();
                let pairs: Vec<_> = seconds(hogs).into_iter().zip(seconds(0)).collect();
                table.add_row([
                    (*scheduler).to_owned(),
                    hogs.to_string(),
                    format!("{:.1}", median(&phantoms).unwrap_or(0.0)),
                    format!("{:.2}", median(&seconds(hogs)).unwrap_or(0.0)),
                    show(paired_ratio(&pairs, 1)),
                ]);
            }
        }
        table
    }

    /// How many threads take part over time on the overloaded host, drawn: of the first seed.
    pub fn over_time(&self, schedulers: &[&str]) -> String {
        let mut text = format!(
            "threads that take part, each {STEP_MS} ms, on the overloaded host (full: {THREADS}):\n"
        );
        for scheduler in schedulers {
            let sizes = sizes(&self.of(scheduler, Way::Adapting, Load::PERIODIC)[0]);
            let level = |size: f64| (size / THREADS as f64 * (LEVELS.len() - 1) as f64).round();
            let drawn: String = sizes.iter().map(|size| LEVELS[level(*size) as usize]).collect();
            let _ = writeln!(text, "{scheduler:>8} |{drawn}|");
        }
        text
    }
}

fn table_of(titles: &[String]) -> Table {
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    metasched_benches::table(&titles)
}

/// Of run times and gains on a measured machine, or one as small.
fn titles_by_overload() -> Vec<String> {
    let mut titles = vec!["host's scheduler".to_owned(), "program".to_owned()];
    for hogs in MEASURED_OVERLOADS {
        let beside = match hogs {
            0 => "idle".to_owned(),
            1 => "1 task".to_owned(),
            _ => format!("{hogs} tasks"),
        };
        titles.extend([format!("{beside}, s"), "gain".to_owned()]);
    }
    titles
}

/// What was measured, by scheduler, tasks beside the program, and the program's way.
pub fn measured(program: &BTreeMap<&str, BTreeMap<usize, BTreeMap<&str, Cell>>>) -> Table {
    let mut titles = titles_by_overload();
    let all: Vec<String> = MEASURED_OVERLOADS.iter().map(ToString::to_string).collect();
    for figure in ["threads", "windows used", "CPU, s"] {
        titles.push(format!("{figure}: {}", all.join(" / ")));
    }
    let mut table = table_of(&titles);
    for (scheduler, by_overload) in MEASURED.iter().filter_map(|name| program.get_key_value(name)) {
        for way in Way::ALL {
            let cells: Vec<&Cell> =
                by_overload.values().map(|by_way| &by_way[way.name()]).collect();
            let number = |value: Option<f64>, digits: usize| {
                value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
            };
            let each = |of: fn(&Cell) -> Option<f64>, digits| {
                let all: Vec<String> = cells.iter().map(|cell| number(of(cell), digits)).collect();
                all.join(" / ")
            };
            let mut row = vec![(*scheduler).to_owned(), way.title().to_owned()];
            for cell in &cells {
                row.extend([number(cell.seconds, 2), show(cell.gain)]);
            }
            row.extend([
                each(|cell| cell.threads, 2),
                each(|cell| cell.windows, 0),
                each(|cell| cell.cpu_s, 2),
            ]);
            table.add_row(row);
        }
    }
    table
}

/// How many threads took part, over time.
fn sizes(ran: &Ran) -> Vec<f64> {
    const STEP_NS: u64 = STEP_MS * 1_000_000;
    let ended_ns = ran.figures.ended_ns.unwrap_or(u64::MAX).min(DRAWN_MS * 1_000_000);
    let size = |n: u64| ran.figures.mean_size(n * STEP_NS, (n + 1) * STEP_NS);
    (0..ended_ns / STEP_NS).map(size).collect()
}

fn published(scheduler: &str, way: Way) -> Option<(Option<f64>, f64)> {
    let found = PUBLISHED.iter().find(|row| row.0 == scheduler && row.1 == way);
    found.map(|(_, _, idle, overloaded)| (*idle, *overloaded))
}

fn published_overloaded(scheduler: &str, way: Way) -> Option<f64> {
    published(scheduler, way).map(|(_, overloaded)| overloaded)
}

impl Serialize for Runs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Cell {
            seconds: Vec<f64>,
            phantoms: Option<f64>,
            #[serde(skip_serializing_if = "Vec::is_empty")]
            threads_each_100ms: Vec<f64>,
        }
        let mut all: BTreeMap<&str, BTreeMap<&str, BTreeMap<String, Cell>>> = BTreeMap::new();
        for ((scheduler, way, load), runs) in &self.0 {
            let phantoms: Vec<f64> = runs.iter().map(|ran| ran.phantoms).collect();
            let tenth = |value: f64| (value * 10.0).round() / 10.0;
            let cell = Cell {
                seconds: runs.iter().map(|ran| ran.seconds).collect(),
                phantoms: median(&phantoms),
                threads_each_100ms: match way.adapts() {
                    true => sizes(&runs[0]).into_iter().map(tenth).collect(),
                    false => Vec::new(),
                },
            };
            let by_way = all.entry(scheduler).or_default().entry(way.name()).or_default();
            by_way.insert(load.name(), cell);
        }
        all.serialize(serializer)
    }
}

/// What became of several machines, by case and scheduler; of several seeds in their order.
#[derive(Default)]
pub struct Sharing(Vec<(&'static str, String, Vec<Shared>)>);

impl Sharing {
    /// Adds a run.
    pub fn add(&mut self, case: &Case, scheduler: &str, shared: Shared) {
        let found =
            self.0.iter_mut().find(|(name, under, _)| *name == case.name && under == scheduler);
        match found {
            Some((_, _, all)) => all.push(shared),
            None => self.0.push((case.name, scheduler.to_owned(), vec![shared])),
        }
    }

    /// Who had how much.
    pub fn table(&self) -> Table {
        let mut table = metasched_benches::table(&[
            "machines",
            "host's scheduler",
            "CPUs of the poorest over its share",
            "of its worst 100 ms",
            "threads",
            "sway of threads",
            "regions/s",
        ]);
        let mut rows: Vec<_> = self.0.iter().collect();
        rows.sort_by_key(|(name, ..)| CASES.iter().position(|case| case.name == *name));
        for (name, scheduler, all) in rows {
            let each = |of: fn(&Shared) -> &Vec<f64>| {
                let machines = 0..of(&all[0]).len();
                let middle = |at: usize| {
                    median(&all.iter().map(|shared| of(shared)[at]).collect::<Vec<_>>())
                };
                let cells = machines.map(|at| format!("{:.2}", middle(at).unwrap_or(0.0)));
                cells.collect::<Vec<_>>().join(", ")
            };
            // Which of them it is depends on the seed: the median over seeds, and the worst.
            let least = |of: &Vec<f64>| of.iter().copied().fold(f64::INFINITY, f64::min);
            let poorest = |of: fn(&Shared) -> &Vec<f64>| {
                let shares: Vec<f64> = all.iter().map(|shared| least(of(shared))).collect();
                format!("{:.2}, at worst {:.2}", median(&shares).unwrap_or(0.0), least(&shares))
            };
            let regions: Vec<f64> = all.iter().map(|shared| shared.regions_per_s).collect();
            table.add_row([
                (*name).to_owned(),
                scheduler.clone(),
                poorest(|shared| &shared.of_fair),
                poorest(|shared| &shared.least_of_fair),
                each(|shared| &shared.threads),
                each(|shared| &shared.sway),
                format!("{:.0}", median(&regions).unwrap_or(0.0)),
            ]);
        }
        table
    }
}

impl Serialize for Sharing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Cell<'a> {
            of_fair: Vec<&'a [f64]>,
            least_of_fair: Vec<&'a [f64]>,
            threads: Vec<&'a [f64]>,
            sway: Vec<&'a [f64]>,
            regions_per_s: Vec<f64>,
            /// Of the first seed.
            cpus_each_100ms: &'a [Vec<f64>],
        }
        let mut all: BTreeMap<&str, BTreeMap<&str, Cell>> = BTreeMap::new();
        for (name, scheduler, runs) in &self.0 {
            let each = |of: fn(&Shared) -> &[f64]| runs.iter().map(of).collect();
            let cell = Cell {
                of_fair: each(|shared| &shared.of_fair),
                least_of_fair: each(|shared| &shared.least_of_fair),
                threads: each(|shared| &shared.threads),
                sway: each(|shared| &shared.sway),
                regions_per_s: runs.iter().map(|shared| shared.regions_per_s).collect(),
                cpus_each_100ms: &runs[0].cpus,
            };
            all.entry(name).or_default().insert(scheduler, cell);
        }
        all.serialize(serializer)
    }
}

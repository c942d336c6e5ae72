//! What the observer costs the machine: the throughput of hackbench with and without it.

use std::collections::BTreeMap;

use metasched_base::{Interrupt, Result};
use metasched_benches::rounds::{Kept, Measured};
use metasched_benches::{Timed, order, show, table};
use metasched_stats::{Interval, median, paired_ratio};
use serde::Serialize;

use crate::container::Container;

/// What measures it, among schedulers.
pub const OBSERVER: &str = "observer";
/// How often each is run in a round: what counts is the sum.
const RUNS: u64 = 4;
const SEED: u64 = 7;
/// How much of it is run before for nothing.
const WARM_UP: f64 = 0.2;

/// Programs that do little but switch and wake: 40 tasks that write to each other.
const LOADS: [Timed; 2] = [
    Timed {
        name: "processes",
        command: &["hackbench", "-g", "1", "-l", "{}"],
        loops: 1000,
        marker: "Time:",
    },
    Timed {
        name: "threads",
        command: &["hackbench", "-g", "1", "-T", "-l", "{}"],
        loops: 1000,
        marker: "Time:",
    },
];

/// Whether a page is written meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    Nobody,
    /// Another cgroup.
    Another,
    /// The load's own cgroup.
    Itself,
}

impl Served {
    const ALL: [Served; 3] = [Served::Nobody, Served::Another, Served::Itself];

    fn name(self) -> &'static str {
        match self {
            Served::Nobody => "nobody",
            Served::Another => "another",
            Served::Itself => "itself",
        }
    }
}

fn key(load: &Timed, served: Served) -> String {
    format!("{}/{}", load.name, served.name())
}

/// Runs all of it a few times, interleaved.
///
/// # Errors
/// When hackbench or the observer fails.
pub fn measure(container: &Container, round: u64, interrupt: &Interrupt) -> Result<Measured> {
    let mut values = BTreeMap::new();
    for run in 0..RUNS {
        for at in order(LOADS.len() * Served::ALL.len(), SEED + run, round) {
            interrupt.check("the benchmark")?;
            let load = &LOADS[at / Served::ALL.len()];
            let served = Served::ALL[at % Served::ALL.len()];
            let server = (served != Served::Nobody).then(|| container.serve()).transpose()?;
            let cgroup = match served {
                Served::Itself => container.cgroup(),
                Served::Nobody | Served::Another => container.beside(),
            };
            // As in Container::run.
            load.scaled(WARM_UP).run(Some(cgroup))?;
            *values.entry(key(load, served)).or_insert(0.0) += load.run(Some(cgroup))?;
            server.map_or(Ok(()), super::container::Server::stop)?;
        }
    }
    Ok(Measured { round, subject: OBSERVER.to_owned(), values, failed: BTreeMap::new() })
}

/// What a load loses.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    load: &'static str,
    served: &'static str,
    /// Throughput with the observer over throughput without it.
    throughput: Option<Interval>,
    /// Median of a round's mean run time, s.
    seconds: Option<f64>,
    rounds: usize,
}

/// What was measured.
pub fn costs(kept: &Kept) -> Vec<Cost> {
    let of = |load: &'static Timed| {
        Served::ALL.map(|served| {
            let (with, without) = (key(load, served), key(load, Served::Nobody));
            let seconds = kept.values(&with, OBSERVER);
            Cost {
                load: load.name,
                served: served.name(),
                throughput: paired_ratio(&kept.pairs_within(&without, &with, OBSERVER), 1),
                seconds: median(&seconds).map(|sum| sum / RUNS as f64),
                rounds: seconds.len(),
            }
        })
    };
    LOADS.iter().flat_map(of).collect()
}

/// The same as people read it.
pub fn costs_table(costs: &[Cost]) -> comfy_table::Table {
    let mut shown =
        table(&["hackbench", "whose page is written", "s", "throughput over none", "rounds"]);
    for cost in costs {
        shown.add_row([
            cost.load.to_owned(),
            cost.served.to_owned(),
            cost.seconds.map_or("not measured".to_owned(), |s| format!("{s:.3}")),
            show(cost.throughput),
            cost.rounds.to_string(),
        ]);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use metasched_benches::rounds::Setting;

    #[test]
    fn a_cost_is_throughput_over_that_of_the_same_round() {
        let (program, kernel, options) = (String::new(), String::new(), String::new());
        let setting = Setting { program, kernel, cpus: 2, options };
        let round = |round, nobody, itself| {
            let values = [(Served::Nobody, nobody), (Served::Itself, itself)];
            let values = values.map(|(served, seconds)| (key(&LOADS[1], served), seconds));
            let (values, failed) = (BTreeMap::from(values), BTreeMap::new());
            Measured { round, subject: OBSERVER.to_owned(), values, failed }
        };
        let measured = vec![round(0, 8.0, 10.0), round(1, 16.0, 20.0)];
        let costs = costs(&Kept { setting, measured });
        let found = |load, served| {
            costs.iter().find(|cost| cost.load == load && cost.served == served).unwrap()
        };
        let itself = found("threads", "itself");
        assert!((itself.throughput.unwrap().estimate - 0.8).abs() < 1e-9);
        assert_eq!((itself.seconds, itself.rounds), (Some(3.75), 2));
        assert!((found("threads", "nobody").throughput.unwrap().estimate - 1.0).abs() < 1e-9);
        assert!(found("processes", "another").throughput.is_none());
    }
}

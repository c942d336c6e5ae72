//! What the benchmarks share: the loads, the order of runs, the table and the last
//! line of JSON.
//!
//! All of them measure in one boot, interleaved, with EEVDF as the baseline, and give
//! ratios with 95 % intervals.

pub mod agreement;
pub mod beside;
pub mod machine_side;
pub mod rounds;

use std::process::ExitCode;
use std::time::Duration;

use comfy_table::Table;
use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_control::{Candidate, Mechanism, Switcher};
use metasched_host::cgroup::Cgroup;
use metasched_host::process::{Child, Output, Spawn, run_first};
use metasched_stats::Interval;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

/// The groups of hackbench in every load: 4 groups of 40 tasks, as in the published
/// trials that our aims come from.
pub const HACKBENCH_GROUPS: u32 = 4;

/// No single run may take longer than this; an emulated guest needs seconds.
const RUN_TIMEOUT: Duration = Duration::from_secs(180);

/// Puts this process above the load that it measures: the real-time class is served
/// before sched_ext and before EEVDF alike, so that what is timed is the scheduler
/// and not how long the timing process itself waited for a CPU.
pub fn realtime() -> Result<()> {
    run_first(10).map_err(|error| {
        Error::new(Kind::Denied, "take real-time priority for the benchmark", error)
            .remedy("run it as root")
    })
}

/// How long the machine goes on with a change of schedulers: a program that ended is freed, its
/// process' memory too. On one CPU a load that began at once took up to twice as long.
const SETTLES: Duration = Duration::from_secs(2);

/// Puts a scheduler in force by process swap, from the kernel's own: each begins from the same
/// clean state, and from one program of ours to the same one nothing would change. Then waits
/// until the machine has nothing more to do with that.
pub fn put_in_force(switcher: &mut Switcher, candidate: &Candidate) -> Result<()> {
    switcher.switch_to(&Candidate::eevdf(""))?;
    switcher.switch_by(candidate, Mechanism::Swap)?;
    std::thread::sleep(SETTLES);
    Ok(())
}

/// Hackbench in the background, until dropped. It ends by itself after ten minutes.
pub struct Hackbench {
    _child: Child,
}

impl Hackbench {
    /// Starts the load, in a cgroup if one is given, and gives it time to reach its
    /// steady state.
    pub fn start(cgroup: Option<&Cgroup>) -> Result<Self> {
        let groups = HACKBENCH_GROUPS.to_string();
        let command = ["timeout", "600", "hackbench", "-g", &groups, "-l", "100000000"];
        let mut spawn = Spawn::new(command).stdout(Output::Null).stderr(Output::Tail(4096));
        if let Some(cgroup) = cgroup {
            spawn = spawn.cgroup(cgroup);
        }
        let mut child = spawn.start()?;
        std::thread::sleep(Duration::from_secs(2));
        if child.poll()?.is_some() {
            return Err(Error::new(
                Kind::Failed,
                "start hackbench as the load",
                child.last_lines(3),
            )
            .remedy("install it: rt-tests is the package"));
        }
        Ok(Self { _child: child })
    }
}

/// One benchmark program that prints how long it took.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// Its name in tables and in JSON.
    pub name: &'static str,
    /// The command, with `{}` for how often it goes round.
    pub command: &'static [&'static str],
    /// That number.
    pub loops: u32,
    /// What stands before the seconds in its output.
    pub marker: &'static str,
}

impl Timed {
    /// The same, so many times as long; once round at least.
    pub fn scaled(&self, factor: f64) -> Timed {
        let loops = (f64::from(self.loops) * factor).round().max(1.0) as u32;
        Timed { loops, ..*self }
    }

    /// Runs it once, in a cgroup if one is given.
    ///
    /// # Returns
    /// The time that it printed, in seconds.
    pub fn run(&self, cgroup: Option<&Cgroup>) -> Result<f64> {
        let loops = self.loops.to_string();
        let command: Vec<String> =
            self.command.iter().map(|word| word.replace("{}", &loops)).collect();
        let attempt = || format!("run '{}'", command.join(" "));
        let mut spawn = Spawn::new(&command);
        if let Some(cgroup) = cgroup {
            spawn = spawn.cgroup(cgroup);
        }
        number_after(&output_of(spawn, attempt)?, self.marker).attempt(Kind::Failed, attempt)
    }
}

/// Runs a program to its end.
///
/// # Returns
/// The end of its standard output, and that of its standard error.
///
/// # Errors
/// When it fails, or takes more than three minutes.
pub fn output_of(spawn: Spawn, attempt: impl Fn() -> String) -> Result<String> {
    let spawn = spawn.stdout(Output::Tail(1 << 16)).stderr(Output::Tail(1 << 16));
    let mut child = spawn.start()?;
    match child.wait(RUN_TIMEOUT)? {
        Some(status) if status.success() => Ok(child.stdout_tail() + &child.stderr_tail()),
        Some(_) => Err(Error::new(Kind::Failed, attempt(), child.last_lines(3))),
        None => Err(Error::new(Kind::Timeout, attempt(), "it did not end in three minutes")),
    }
}

/// The first number after `marker` in what a program printed, as it is or with the `s` of seconds.
///
/// # Errors
/// Says that there is none.
pub fn number_after(text: &str, marker: &str) -> std::result::Result<f64, String> {
    let number = text.split_once(marker).and_then(|(_, rest)| rest.split_whitespace().next());
    let number = number.and_then(|word| word.trim_end_matches('s').parse().ok());
    number.ok_or_else(|| format!("its output has no number after '{marker}'"))
}

/// Fails if somebody asks to measure what there is not.
pub fn all_are_known(asked: &[String], known: &[&str]) -> Result<()> {
    let Some(unknown) = asked.iter().find(|name| !known.contains(&name.as_str())) else {
        return Ok(());
    };
    let cause = format!("there is no '{unknown}'");
    Err(Error::new(Kind::Usage, "choose what is measured", cause)
        .remedy(format!("choose among: {}", known.join(", "))))
}

/// The numbers `0..n` in a random order, another for each round of the same seed.
pub fn order(n: usize, seed: u64, round: u64) -> Vec<usize> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(round);
    let mut order: Vec<usize> = (0..n).collect();
    order.shuffle(&mut rng);
    order
}

/// An interval as tables show it: `1.03 [1.00-1.06]`.
pub fn show(interval: Option<Interval>) -> String {
    match interval {
        Some(i) => format!("{:.3} [{:.3}-{:.3}]", i.estimate, i.low, i.high),
        None => "not measured".into(),
    }
}

/// A table with these column titles.
pub fn table(titles: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header(titles);
    table
}

/// Ends a benchmark: its figures as the one last line of standard output, or the error.
pub fn finish<T: Serialize>(result: Result<T>) -> ExitCode {
    let line = result.and_then(|figures| {
        serde_json::to_string(&figures)
            .attempt(Kind::Failed, || "write the figures as JSON".to_string())
    });
    match line {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.kind.exit_code())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_found_in_what_the_programs_print() {
        assert_eq!(number_after("...\nTime: 0.013\n", "Time:"), Ok(0.013));
        assert_eq!(number_after("     Total time: 0.009 [sec]", "Total time:"), Ok(0.009));
        assert_eq!(number_after("    total time:     1.25s\n", "total time:"), Ok(1.25));
        assert!(number_after("Segmentation fault", "Time:").is_err());
    }

    #[test]
    fn every_round_has_an_order_of_its_own_that_its_seed_repeats() {
        let orders: Vec<_> = (0..8).map(|round| order(4, 7, round)).collect();
        assert_eq!(orders, (0..8).map(|round| order(4, 7, round)).collect::<Vec<_>>());
        assert!(orders.windows(2).any(|pair| pair[0] != pair[1]));
        for mut o in orders {
            o.sort_unstable();
            assert_eq!(o, [0, 1, 2, 3]);
        }
    }
}

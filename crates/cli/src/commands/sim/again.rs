//! The command that gives the same again.

use std::time::Duration;

use metasched_base::format_duration;

use super::Args;
use super::bed::BedArgs;
use super::contender::Contender;
use crate::commands::percent::percent;
use crate::commands::run::{DEFAULT_POLICY, Mode};

/// The command line of the same runs from the seed `seed` on; of one contender's run with
/// that seed alone where there is one.
pub fn command(args: &Args, contender: Option<&Contender>, seed: u64) -> String {
    let mut more = match contender {
        Some(contender) => contender.arguments.clone(),
        None => several(args),
    };
    if let Some(cgroup) = &args.only {
        more.extend(["--only".to_owned(), cgroup.clone()]);
    }
    words(&[], &args.bed, seed, &more)
}

/// `metasched sim`, then `before`, then what is common to all commands about simulations,
/// then `more`.
pub fn words(before: &[&str], bed: &BedArgs, seed: u64, more: &[String]) -> String {
    let mut words: Vec<String> =
        ["metasched", "sim"].iter().chain(before).map(|word| (*word).to_owned()).collect();
    words.push(bed.path().display().to_string());
    let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
    let machine = &bed.machine;
    machine.machine.iter().for_each(|path| add("--machine", path.display().to_string()));
    let numbers = [("--cpus", machine.cpus), ("--llcs", machine.llcs), ("--nodes", machine.nodes)];
    for (option, number) in numbers {
        number.into_iter().for_each(|n| add(option, n.to_string()));
    }
    machine.smt.into_iter().for_each(|smt| words.push(format!("--smt={smt}")));
    let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
    for (option, time) in [("--duration", bed.duration), ("--warmup", bed.warm_up)] {
        time.into_iter().for_each(|t| add(option, brief(t)));
    }
    bed.settings.iter().for_each(|setting| add("--set", setting.to_string()));
    add("--seed", seed.to_string());
    words.extend(more.iter().cloned());
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// Durations as an option has them, with commas between them.
pub fn times(durations: &[Duration]) -> String {
    durations.iter().map(|duration| brief(*duration)).collect::<Vec<_>>().join(",")
}

/// A duration as an option has it.
fn brief(duration: Duration) -> String {
    format_duration(duration).replace(' ', "")
}

/// What asks for all contenders and all runs.
fn several(args: &Args) -> Vec<String> {
    let mut words = Vec::new();
    let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
    args.policy.iter().for_each(|policy| add("--policy", policy.clone()));
    if !args.lanes.is_empty() {
        add("--lanes", list(&args.lanes));
    }
    if args.default != DEFAULT_POLICY {
        add("--default", args.default.clone());
    }
    if !args.turns.is_empty() {
        add("--turns", list(&args.turns));
    }
    if !args.strategies.strategy.is_empty() {
        add("--strategy", list(&args.strategies.strategy));
        let modes = args.strategies.mode.iter().map(|mode| match mode {
            Mode::Turns => "turns",
            Mode::Lanes => "lanes",
        });
        add("--mode", modes.collect::<Vec<_>>().join(","));
        add("--base-slice", brief(args.strategies.base_slice));
        words.extend(args.strategies.preference.words());
    }
    let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
    if args.runs > 1 {
        add("--runs", args.runs.to_string());
    }
    if args.until_narrow {
        add("--precision", percent(args.precision));
        add("--max-runs", args.most_runs.to_string());
        words.push("--until-narrow".to_owned());
    }
    if let Some(compare) = &args.compare {
        let list = compare.iter().map(|list| format!("={list}")).collect::<String>();
        words.push(format!("--compare{list}"));
    }
    words
}

fn list<T: ToString>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

/// As a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn again(line: &str) -> String {
        let args = Line::try_parse_from(line.split(' ').skip(1)).unwrap().args;
        command(&args, None, 7)
    }

    #[test]
    fn what_is_said_again_is_said_the_same_way() {
        for line in [
            "metasched sim a.toml --seed 7 --policy fifo",
            "metasched sim a.toml --cpus 64 --llcs 8 --smt=true --duration 1m30s --set slice=5ms --seed 7 --runs 3 --compare=fifo,vtime",
            "metasched sim a.toml --machine here.toml --cpus 2 --seed 7 --policy fifo",
            "metasched sim a.toml --seed 7 --lanes web=fifo:300,db=vtime:100 --default fifo",
            "metasched sim a.toml --seed 7 --turns vtime=3ms,fifo=1ms --only web",
            "metasched sim a.toml --seed 7 --strategy delta,benefit --mode lanes --base-slice 20ms --plan-runs 4",
            "metasched sim a.toml --seed 7 --precision 7% --max-runs 64 --until-narrow --compare",
        ] {
            assert_eq!(again(line), line);
            assert_eq!(again(&again(line)), line);
        }
    }

    #[test]
    fn a_path_with_spaces_survives_a_shell() {
        assert_eq!(quoted("it's here.toml"), r"'it'\''s here.toml'");
        assert_eq!(quoted("examples/webserver.toml"), "examples/webserver.toml");
    }
}

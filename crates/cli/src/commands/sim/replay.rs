//! The command that gives the same again.

use super::contender::Contender;
use super::{Args, DEFAULT_POLICY};
use metasched_base::format_duration;

/// The command line of the same runs from the seed `seed` on; of one contender's run with
/// that seed alone where there is one.
pub fn command(args: &Args, contender: Option<&Contender>, seed: u64) -> String {
    let mut words = vec!["metasched".to_owned(), "sim".to_owned()];
    let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
    let path = args.scenario.display().to_string();
    let machine = &args.machine;
    let numbers = [("--cpus", machine.cpus), ("--llcs", machine.llcs), ("--nodes", machine.nodes)];
    for (option, number) in numbers {
        number.into_iter().for_each(|n| add(option, n.to_string()));
    }
    machine.smt.into_iter().for_each(|smt| add("--smt", smt.to_string()));
    for (option, time) in [("--duration", args.duration), ("--warm-up", args.warm_up)] {
        time.into_iter().for_each(|t| add(option, format_duration(t).replace(' ', "")));
    }
    args.settings.iter().for_each(|setting| add("--set", setting.to_string()));
    add("--seed", seed.to_string());
    match contender {
        Some(contender) => words.extend(contender.arguments.iter().cloned()),
        None => several(args, &mut words),
    }
    words.insert(2, path);
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// What asks for all contenders and all runs.
fn several(args: &Args, words: &mut Vec<String>) {
    let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
    args.policy.iter().for_each(|policy| add("--policy", policy.clone()));
    if !args.lanes.is_empty() {
        let lanes: Vec<String> = args.lanes.iter().map(ToString::to_string).collect();
        add("--lanes", lanes.join(","));
    }
    if args.default != DEFAULT_POLICY {
        add("--default", args.default.clone());
    }
    if args.runs > 1 {
        add("--runs", args.runs.to_string());
    }
    if args.until_narrow {
        add("--precision", args.precision.to_string());
        add("--most-runs", args.most_runs.to_string());
        words.push("--until-narrow".to_owned());
    }
    if let Some(compare) = &args.compare {
        words.push("--compare".to_owned());
        words.extend(compare.clone());
    }
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
            "metasched sim a.toml --cpus 64 --llcs 8 --smt true --duration 1m30s --set slice=5ms --seed 7 --runs 3 --compare fifo,vtime",
            "metasched sim a.toml --seed 7 --lanes web=fifo:300,db=vtime:100 --default fifo",
            "metasched sim a.toml --seed 7 --precision 0.05 --most-runs 64 --until-narrow --compare",
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

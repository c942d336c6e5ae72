//! The command that gives the same again: what the user gave, with the seed.

use clap::Args as _;
use metasched_simbed::{Arrangement, Form};

use super::bed::BedArgs;
use crate::given::{Given, line};

/// The id of `--seed`.
const SEED: &str = "seed";

/// The command line of the same runs from the seed `seed` on.
pub fn all(given: &Given, seed: u64) -> String {
    let mut words = given.words(None, |id| id != SEED);
    words.extend(option("--seed", seed));
    line(&words)
}

/// The command line of one run, of that arrangement, and of one cgroup alone if there is one.
pub fn one(given: &Given, arrangement: &Arrangement, only: Option<&str>, seed: u64) -> String {
    let bed = BedArgs::augment_args(clap::Command::new("metasched"));
    let of_bed = |id: &str| bed.get_arguments().any(|arg| arg.get_id() == id);
    let mut words = given.words(Some(&["metasched", "sim"]), |id| id != SEED && of_bed(id));
    words.extend(option("--seed", seed));
    words.extend(arguments(arrangement));
    words.extend(only.into_iter().flat_map(|cgroup| option("--only", cgroup)));
    line(&words)
}

/// [`one`] of that command line.
pub fn one_of(given: &Given) -> impl Fn(&Arrangement, Option<&str>, u64) -> String {
    |arrangement, only, seed| one(given, arrangement, only, seed)
}

/// The options of 'metasched sim' that ask for an arrangement.
fn arguments(arrangement: &Arrangement) -> Vec<String> {
    match &arrangement.form {
        Form::Alone { policy } => option("--policy", policy).to_vec(),
        Form::ScenarioLanes { default, .. } => option("--default", default).to_vec(),
        Form::Lanes { default, lanes } => {
            [option("--lanes", list(lanes)), option("--default", default)].concat()
        }
        Form::Turns(turns) => option("--turns", list(turns)).to_vec(),
    }
}

fn option(name: &str, value: impl ToString) -> [String; 2] {
    [name.to_owned(), value.to_string()]
}

fn list<T: ToString>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    fn given(line: &str) -> Given {
        let command = Cli::command();
        let matches = command.clone().try_get_matches_from(line.split(' ')).unwrap();
        Given::of(&command, &matches)
    }

    #[test]
    fn what_was_given_is_said_again_with_the_seed() {
        for line in [
            "metasched sim a.toml --policy fifo",
            "metasched sim a.toml --set slice=5ms --set window=2ms --cpus 64 --llcs 8 --smt=true --duration 1m30s --compare=fifo,vtime --runs 3",
            "metasched sim a.toml --machine here.toml --cpus 2 --policy fifo",
            "metasched sim a.toml --lanes web=fifo:300,db=vtime:100 --default fifo",
            "metasched sim a.toml --turns vtime=3ms,fifo=1ms --only web",
            "metasched sim a.toml --strategy delta,benefit --mode lanes --base-slice 20ms --plan-runs 4",
            "metasched sim a.toml --compare --until-narrow --precision 7% --max-runs 64",
            "metasched sim tune a.toml --cpus 2 --benefit-form gain --strategy delta --base-slice 3ms,10ms --runs 4",
            // A value that is the default, but was given, is given again.
            "metasched sim plan a.toml --plan-runs 6",
        ] {
            let said = all(&given(line), 7);
            assert_eq!(said, format!("{line} --seed 7"));
            assert_eq!(all(&given(&said), 8), format!("{line} --seed 8"));
        }
    }

    #[test]
    fn one_run_has_the_scenario_the_machine_and_its_arrangement_only() {
        let line = "metasched --json sim tune a.toml --set slice=5ms --smt --seed 3 --runs 4 -v";
        let arrangement =
            |lane: &str| Arrangement::lanes(vec![lane.parse().unwrap()], "fair", &[]).unwrap();
        assert_eq!(
            one(&given(line), &arrangement("web+db=vtime"), Some("web"), 9),
            "metasched sim a.toml --set slice=5ms --smt=true --seed 9 --lanes web+db=vtime:100 --default fair --only web"
        );
    }
}

//! `metasched rules`, as far as it goes without a kernel that has sched_ext: what is
//! wrong is told before anything is loaded.

use std::process::{Command, Output};

fn metasched(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_metasched")).args(arguments).output().unwrap()
}

#[test]
fn a_wrong_file_of_rules_ends_with_status_3_and_names_the_line() {
    for (config, said) in [
        ("[[app]]\nname = \"x\"\npolicy = \"lavd\"\ncgroups = [\"a\"]", "app.toml:3: "),
        ("[[app]]\nname = \"x\"\npolicy = \"fifo\"\ncgroups = [\"../a\"]", "app.toml:4: "),
        ("attributes = yes", "app.toml:1: "),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.toml");
        std::fs::write(&path, config).unwrap();
        let output = metasched(&["rules", path.to_str().unwrap()]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
    }
}

#[test]
fn what_is_about_lanes_is_refused_of_turns_and_the_other_way_round() {
    for (arguments, remedy) in [
        (["run", "--turn", "x=fifo", "--cgroup", "x=a"].as_slice(), "add --mode lanes"),
        (&["run", "--turn", "x=fifo", "--default", "fifo"], "add --mode lanes"),
        (&["run", "--mode", "lanes", "--turn", "x=fifo", "--mechanism", "swap"], "leave it out"),
    ] {
        let output = metasched(arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(remedy), "{output:?}");
    }
}

#[test]
fn the_plan_of_a_file_is_not_judged_anew() {
    // Regression: --benefit-form was left out without a word.
    for option in [["--objective", "p99"], ["--benefit-form", "gain"]] {
        let arguments = [["run", "--plan", "plan.json"].as_slice(), &option].concat();
        let output = metasched(&arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let makes_another = format!("metasched plan {} --json makes another", option.join(" "));
        assert!(String::from_utf8_lossy(&output.stderr).contains(&makes_another), "{output:?}");
    }
}

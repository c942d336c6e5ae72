//! `metasched run --config`, as far as it goes without a kernel that has sched_ext: what is
//! wrong is told before anything is loaded.

use std::process::{Command, Output};

fn run(config: &str, more: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.toml");
    std::fs::write(&path, config).unwrap();
    Command::new(env!("CARGO_BIN_EXE_metasched"))
        .args(["run", "--config"])
        .arg(path)
        .args(more)
        .output()
        .unwrap()
}

#[test]
fn a_wrong_file_of_rules_ends_with_status_3_and_names_the_line() {
    for (config, said) in [
        ("[[app]]\nname = \"x\"\npolicy = \"lavd\"\ncgroups = [\"a\"]", "app.toml:3: "),
        ("[[app]]\nname = \"x\"\npolicy = \"fifo\"\ncgroups = [\"../a\"]", "app.toml:4: "),
        ("attributes = yes", "app.toml:1: "),
    ] {
        let output = run(config, &[]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
    }
}

#[test]
fn rules_are_for_lanes_and_not_for_turns_or_the_short_form() {
    let config = "[[app]]\nname = \"x\"\npolicy = \"fifo\"\ncgroups = [\"a\"]";
    for more in [["--mode", "turns"], ["--cgroup", "x=a"]] {
        let output = run(config, &more);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}

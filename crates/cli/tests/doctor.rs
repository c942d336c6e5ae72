//! `metasched doctor`, and what all commands have in common.

use std::path::Path;
use std::process::{Command, Output};

fn metasched(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_metasched")).args(args).output().unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

#[test]
fn the_doctors_exit_status_agrees_with_its_json() {
    let output = metasched(&["doctor", "--json"]);
    let diagnosis = json(&output);
    let expected = if diagnosis["loadable_here"].as_bool().unwrap() { 0 } else { 4 };
    assert_eq!(output.status.code(), Some(expected));
    let topics: Vec<&str> = diagnosis["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["topic"].as_str().unwrap())
        .collect();
    for topic in ["kernel", "sched_ext", "config", "BTF", "privileges", "cgroups", "KVM"] {
        assert!(topics.contains(&topic), "{topics:?}");
    }
}

#[test]
#[ignore = "needs a kernel with sched_ext"]
fn the_doctor_finds_the_guest_fit_for_schedulers() {
    let output = metasched(&["doctor", "--json"]);
    let diagnosis = json(&output);
    assert!(Path::new("/sys/kernel/sched_ext/state").exists(), "this is no guest");
    assert_eq!(diagnosis["loadable_here"], true, "{diagnosis:#}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_wrong_command_line_ends_with_status_2() {
    assert_eq!(metasched(&["dance"]).status.code(), Some(2));
    assert_eq!(metasched(&["doctor", "--loud"]).status.code(), Some(2));
}

#[test]
fn lanes_have_one_noun_with_verbs() {
    for verb in ["assign", "unassign", "set", "list", "explain"] {
        let help = metasched(&["lane", verb, "--help"]);
        let said = String::from_utf8(help.stdout).unwrap();
        assert!(
            help.status.success() && said.contains(&format!("metasched lane {verb}")),
            "{said}"
        );
    }
    for old in ["assign", "unassign", "lanes", "explain"] {
        assert_eq!(metasched(&[old, "--help"]).status.code(), Some(2), "{old}");
    }
}

#[test]
fn completions_know_every_command_and_none_that_is_hidden() {
    let script = metasched(&["completions", "bash"]);
    let script = String::from_utf8(script.stdout).unwrap();
    for command in
        ["doctor", "profile", "plan", "tune", "run", "rules", "exec", "lane", "report", "vm"]
    {
        assert!(script.contains(&format!("metasched,{command})")), "{command}");
    }
    assert!(!script.contains("metasched,guard)"), "hidden commands are not offered");
}

#[test]
fn help_has_colour_where_it_is_asked_for_and_none_in_a_pipe() {
    let help = |forced: Option<(&str, &str)>| {
        let output = Command::new(env!("CARGO_BIN_EXE_metasched"))
            .arg("--help")
            .env_remove("NO_COLOR")
            .env_remove("CLICOLOR_FORCE")
            .env("TERM", "xterm-256color")
            .envs(forced)
            .output()
            .unwrap();
        output.stdout.contains(&0x1b)
    };
    assert!(help(Some(("CLICOLOR_FORCE", "1"))), "there is none to leave out");
    assert!(!help(None), "a pipe was given colour");
}

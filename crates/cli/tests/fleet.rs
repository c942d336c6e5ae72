//! `metasched sim fleet`, as a user calls it.

use std::process::{Command, Output};

use serde_json::Value;

/// More functions than two machines of two CPUs can serve at once.
const FLEET: &str = r#"
name = "small"
duration = "1200ms"
warm_up = "200ms"

[machine]
cpus = 2
costs = { switch = "2us", group_level = "2us", group_queued = "4us" }

[[function]]
name = "f"
count = 24
scale = 0.6
sleep = "exp(20ms)"
run = "exp(1500us)"
request = 0.15

[fleet]
machines = "2..4"
baseline = 4
schedulers = ["eevdf", "lags"]
"#;

/// Calls the command on a file of that text, on these CPUs of the machine only.
fn fleet(text: &str, more: &[&str], cpus: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("fleet.toml"), text).unwrap();
    Command::new("taskset")
        .args(["-c", cpus, env!("CARGO_BIN_EXE_metasched"), "sim", "fleet", "fleet.toml"])
        .args(more)
        .current_dir(&folder)
        .output()
        .unwrap()
}

fn json(text: &str, more: &[&str]) -> Value {
    let output = fleet(text, &[more, &["--json", "--runs", "3"]].concat(), "0-1023");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn entry<'a>(report: &'a Value, machines: u64, scheduler: &str) -> &'a Value {
    let entries = report["entries"].as_array().unwrap();
    let is = |entry: &&Value| entry["machines"] == machines && entry["scheduler"] == scheduler;
    entries.iter().find(is).unwrap()
}

#[test]
fn fewer_machines_are_busier_and_slower_and_the_least_that_keep_the_latency_are_told() {
    let report = json(FLEET, &[]);
    let p95 =
        |machines, scheduler| entry(&report, machines, scheduler)["p95"]["ns"].as_f64().unwrap();
    assert!(p95(2, "eevdf") > 1.5 * p95(4, "eevdf"), "{report:#}");
    let figure = |machines, name: &str| entry(&report, machines, "eevdf")[name].as_f64().unwrap();
    assert!(figure(2, "utilisation") > figure(4, "utilisation"));
    assert!(figure(2, "perceived_cpus") > 1.02 * figure(2, "effective_cpus"), "switches cost");
    assert_eq!(entry(&report, 4, "eevdf")["p50"]["over_baseline"]["estimate"], 1.0);
    assert_eq!(report["dedicated_machines"], 2, "3.6 CPUs on machines of two");
    let verdict = &report["verdicts"][0];
    assert_eq!(verdict["scheduler"], "eevdf");
    let kept = |machines: u64| {
        let over = |name: &str| {
            entry(&report, machines, "eevdf")[name]["over_baseline"]["estimate"].as_f64().unwrap()
        };
        over("p50") <= 1.05 && over("p95") <= 1.05
    };
    let fewest = (2..=4).rev().take_while(|machines| kept(*machines)).last();
    assert_eq!(verdict["machines"].as_u64(), fewest, "{report:#}");
    assert!(fewest > Some(2));
}

#[test]
fn the_result_does_not_depend_on_how_many_cpus_there_are_here() {
    let on = |cpus| fleet(FLEET, &["--runs", "2", "--machines", "3"], cpus).stdout;
    let one = on("0");
    assert!(!one.is_empty());
    assert_eq!(String::from_utf8(on("0-1023")).unwrap(), String::from_utf8(one).unwrap());
}

#[test]
fn the_text_has_the_three_tables_and_the_command_that_gives_them_again() {
    let output = fleet(FLEET, &["--runs", "2", "--machines", "3,4", "--placer", "pack"], "0-1023");
    let text = String::from_utf8(output.stdout).unwrap();
    for said in
        ["24 functions", "placed by 'pack'", "p95 over first", "CPUs busy", "machines that keep"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
    let again =
        "again: metasched sim fleet fleet.toml --machines 3,4 --placer pack --runs 2 --seed 1";
    assert_eq!(text.lines().last(), Some(again));
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    let without = FLEET.split("[fleet]").next().unwrap();
    let no_function = "[[task]]\nname = \"t\"\nsteps = [\"run 1ms\"]\n[fleet]\n";
    for (text, more, cause, remedy) in [
        (without, &[][..], "no [fleet]", "metasched sim"),
        (no_function, &[], "it has none", "[[function]]"),
        (FLEET, &["--machines", "1"], "3.6 of 2 CPUs", "a higher 'fill'"),
        (FLEET, &["--schedulers", "eevdf,eevdf"], "named twice", "once"),
        (FLEET, &["--schedulers", "lasg"], "lasg", "lags"),
        (FLEET, &["--placer", "spred"], "spred", "spread"),
    ] {
        let output = fleet(text, more, "0-1023");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{more:?}");
        assert!(said.contains(cause) && said.contains(remedy), "{more:?}: {said}");
    }
    for (line, wrong, said) in [
        ("machines = \"2..4\"", "machines = \"4..2\"", "fewest first"),
        ("machines = \"2..4\"", "machines = \"many\"", "write \"8..14\""),
        ("baseline = 4", "baseline = 9", "write 2 to 4"),
        ("baseline = 4", "placer = \"spraed\"", "did you mean 'spread'"),
        ("baseline = 4", "fill = 0.0", "out of range"),
        ("scale = 0.6", "scale = -1.0", "out of range"),
        ("scale = 0.6", "samples = \"none.csv\"", "azure2021"),
        ("scale = 0.6", "threads = 0", "write 1 to 64"),
        ("name = \"f\"", "name = \"f g\"", "without spaces"),
    ] {
        let output = fleet(&FLEET.replace(line, wrong), &[], "0-1023");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains(said) && error.contains("fleet.toml:"), "{wrong}: {error}");
    }
}

#[test]
fn samples_may_come_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("calls.csv");
    std::fs::write(&csv, "a,b,c\n3,1,\n2,,1\n").unwrap();
    let samples = format!("samples = {csv:?}");
    let text = FLEET.replace("count = 24\nscale = 0.6", &samples);
    let report = json(&text, &["--machines", "3"]);
    assert_eq!(report["functions"], 3);
    std::fs::write(&csv, "a,b,c\n3,1,\n2,,x\n").unwrap();
    let output = fleet(&text, &[], "0-1023");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("calls.csv:3: 'x' is no number of calls"), "{said}");
}

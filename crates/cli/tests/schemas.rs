//! What `--json` prints has keys and kinds that programs count on: those in `schemas/`, a file for
//! each command. `make schemas` writes them anew.

mod schema;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use schema::{differences, schema_of, written};
use serde_json::Value;

/// Documents that only a kernel with sched_ext gives: tests in the guest hold them to these.
const IN_GUEST: &[&str] = &[
    "latency",
    "latency-diff",
    "latency-follow",
    "overhead",
    "profile",
    "top",
    "tune",
    "tune-coordinate",
    "vms",
    "vms-attach",
    "vms-serve",
];

/// The name of the file, and what is called: so that every key is there that can be.
const COMMANDS: &[(&str, &[&str])] = &[
    ("doctor", &["doctor"]),
    ("error", &["sim", "no-such-file.toml"]),
    ("list", &["list"]),
    ("sim", &["sim", "examples/webserver.toml", "--policy", "vtime", "--duration", "1s"]),
    (
        "sim-compare",
        &[
            "sim",
            "examples/webserver.toml",
            "--compare=eevdf,vtime",
            "--runs",
            "2",
            "--duration",
            "1s",
        ],
    ),
    (
        "sim-fleet",
        &["sim", "fleet", "examples/functions.toml", "--runs", "2", "--duration", "700ms"],
    ),
    (
        "sim-plan",
        &["sim", "plan", "examples/webserver.toml", "--plan-runs", "3", "--duration", "1s"],
    ),
    (
        "sim-tune",
        &[
            "sim",
            "tune",
            "examples/webserver.toml",
            "--schedulers",
            "fifo,fair",
            "--plan-runs",
            "3",
            "--strategy",
            "round-robin",
            "--base-slice",
            "5ms",
            "--runs",
            "2",
            "--duration",
            "1s",
        ],
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn documents_have_the_keys_that_programs_count_on() {
    for (name, arguments) in COMMANDS {
        let output = Command::new(env!("CARGO_BIN_EXE_metasched"))
            .args(*arguments)
            .arg("--json")
            .current_dir(root())
            .output()
            .unwrap();
        let document = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("{name}: {e}: {output:?}"));
        schema::check(name, &document);
    }
}

#[test]
fn every_recorded_schema_is_of_a_command() {
    for entry in fs::read_dir(schema::folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let names = COMMANDS.iter().map(|(name, _)| name).chain(IN_GUEST);
        assert!(names.into_iter().any(|of| *of == name), "{}: delete it", path.display());
    }
}

#[test]
fn a_key_that_is_new_or_gone_or_of_another_kind_is_seen() {
    let was =
        serde_json::json!({ "name": "a", "groups": [{ "share": 1, "p99": null }, { "share": 2 }] });
    let recorded = written(&schema_of(&was));
    assert_eq!(
        recorded,
        ": object\n.groups: array\n.groups[]: object\n.groups[].p99: absent, null\n\
         .groups[].share: number\n.name: string\n"
    );
    let found = |is: Value| differences(&recorded, &schema_of(&is));
    assert_eq!(found(was.clone()), Vec::<String>::new());
    assert_eq!(found(serde_json::json!({ "name": "b", "groups": [] })), Vec::<String>::new());
    assert_eq!(found(serde_json::json!({ "groups": [] })), [".name is gone"]);
    assert_eq!(
        found(serde_json::json!({ "name": "", "groups": [{}] })),
        [".groups[].share is gone"]
    );
    let new = serde_json::json!({ "name": "", "groups": [], "id": 1 });
    assert_eq!(found(new), [".id is new"]);
    let other = serde_json::json!({ "name": 3, "groups": [] });
    assert_eq!(found(other), [".name is {\"number\"}, and was {\"string\"}"]);
}

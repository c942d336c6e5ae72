//! What `--json` prints has keys and kinds that programs count on: those in `schemas/`, a file for
//! each command. `make schemas` writes them anew.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
        "sim-plan",
        &["sim", "plan", "examples/webserver.toml", "--plan-runs", "3", "--duration", "1s"],
    ),
    (
        "sim-tune",
        &[
            "sim",
            "tune",
            "examples/webserver.toml",
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

/// The kinds of values at each place of a document: `.groups[].share` is the key `share` of each
/// of `groups`. A key that only some objects of a list have is `absent` in the others.
type Schema = BTreeMap<String, BTreeSet<&'static str>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// `values` are all that stand at that place.
fn describe(place: &str, values: &[&Value], schema: &mut Schema) {
    let kinds = values.iter().map(|value| match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    });
    schema.entry(place.to_owned()).or_default().extend(kinds);
    let items: Vec<&Value> = values.iter().filter_map(|value| value.as_array()).flatten().collect();
    if !items.is_empty() {
        describe(&format!("{place}[]"), &items, schema);
    }
    let objects: Vec<_> = values.iter().filter_map(|value| value.as_object()).collect();
    let keys: BTreeSet<&String> = objects.iter().flat_map(|object| object.keys()).collect();
    for key in keys {
        let values: Vec<&Value> = objects.iter().filter_map(|object| object.get(key)).collect();
        let place = format!("{place}.{key}");
        describe(&place, &values, schema);
        if values.len() < objects.len() {
            schema.get_mut(&place).expect("just made").insert("absent");
        }
    }
}

fn written(schema: &Schema) -> String {
    schema.iter().fold(String::new(), |mut text, (place, kinds)| {
        let kinds: Vec<&str> = kinds.iter().copied().collect();
        writeln!(text, "{place}: {}", kinds.join(", ")).expect("a String");
        text
    })
}

/// What differs from the recorded one. What is empty, null or absent on this machine may be more
/// on another, so a document may have less than what is recorded, but nothing else.
fn differences(recorded: &str, schema: &Schema) -> Vec<String> {
    let recorded: BTreeMap<&str, BTreeSet<&str>> = recorded
        .lines()
        .map(|line| line.rsplit_once(": ").unwrap_or_else(|| panic!("no kind: {line}")))
        .map(|(place, kinds)| (place, kinds.split(", ").collect()))
        .collect();
    let mut differences = Vec::new();
    for (place, kinds) in schema {
        match recorded.get(place.as_str()) {
            None => differences.push(format!("{place} is new")),
            Some(known) if !kinds.is_subset(known) => {
                differences.push(format!("{place} is {kinds:?}, and was {known:?}"));
            }
            Some(_) => {}
        }
    }
    for (place, kinds) in &recorded {
        let above = place.rsplit_once('.').map_or("", |(above, _)| above);
        // A list may be empty, and where there is no object it has no key.
        let possible = !place.ends_with("[]")
            && schema.get(above).is_some_and(|kinds| kinds.contains("object"));
        if possible && !schema.contains_key(*place) && !kinds.contains("absent") {
            differences.push(format!("{place} is gone"));
        }
    }
    differences
}

fn schema_of(document: &Value) -> Schema {
    let mut schema = Schema::new();
    describe("", &[document], &mut schema);
    schema
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
        let schema = schema_of(&document);
        assert!(schema.len() > 3, "{name}: {document:#}");
        let path = root().join("crates/cli/tests/schemas").join(name).with_extension("txt");
        if std::env::var_os("METASCHED_WRITE_PAGES").is_some() {
            fs::write(&path, written(&schema)).unwrap();
        }
        let recorded = fs::read_to_string(&path)
            .unwrap_or_else(|e| panic!("{}: {e}: run `make schemas`", path.display()));
        let differences = differences(&recorded, &schema);
        assert!(
            differences.is_empty(),
            "`metasched {} --json`: {differences:#?}\nif that is meant, run `make schemas`",
            arguments.join(" ")
        );
    }
}

#[test]
fn every_recorded_schema_is_of_a_command() {
    for entry in fs::read_dir(root().join("crates/cli/tests/schemas")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(COMMANDS.iter().any(|(of, _)| *of == name), "{}: delete it", path.display());
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

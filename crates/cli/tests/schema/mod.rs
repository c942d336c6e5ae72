//! The keys and kinds of JSON documents, held against those that are recorded in `schemas/`: for
//! the tests of commands that any machine carries out, and for those in the guest.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The kinds of values at each place of a document: `.groups[].share` is the key `share` of each
/// of `groups`. A key that only some objects of a list have is `absent` in the others.
pub type Schema = BTreeMap<String, BTreeSet<&'static str>>;

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

pub fn written(schema: &Schema) -> String {
    schema.iter().fold(String::new(), |mut text, (place, kinds)| {
        let kinds: Vec<&str> = kinds.iter().copied().collect();
        writeln!(text, "{place}: {}", kinds.join(", ")).expect("a String");
        text
    })
}

/// What differs from the recorded one. What is empty, null or absent on this machine may be more
/// on another, so a document may have less than what is recorded, but nothing else.
pub fn differences(recorded: &str, schema: &Schema) -> Vec<String> {
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

pub fn schema_of(document: &Value) -> Schema {
    let mut schema = Schema::new();
    describe("", &[document], &mut schema);
    schema
}

/// Where the recorded ones are; this file is used by more than one crate.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/schemas")
}

/// Holds a document against the recorded schema of this name, or records it.
pub fn check(name: &str, document: &Value) {
    let schema = schema_of(document);
    assert!(schema.len() > 3, "{name}: {document:#}");
    let path = folder().join(name).with_extension("txt");
    if std::env::var_os("METASCHED_WRITE_PAGES").is_some() {
        fs::write(&path, written(&schema)).unwrap();
    }
    let recorded = fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{}: {e}: run `make schemas`", path.display()));
    let differences = differences(&recorded, &schema);
    // A guest cannot write it, so that it is said here.
    assert!(
        differences.is_empty(),
        "the document of `{name}`: {differences:#?}\nif that is meant, run `make schemas`, or of \
         one from the guest write to {}:\n{}",
        path.display(),
        written(&schema)
    );
}

//! A test: options are spelled as the table in CONTRIBUTING.md has them.

use std::collections::BTreeMap;

use clap::CommandFactory;

/// Clap's own.
const NOT_OURS: &[&str] = &["help", "version"];
/// The value of an option that takes none.
const NONE: &str = "-";

/// Every long option of the visible commands: the forms that its value has, and a command with each.
fn options() -> BTreeMap<String, BTreeMap<String, String>> {
    let mut all = crate::Cli::command();
    all.build();
    let mut found = BTreeMap::new();
    walk(&all, "metasched", &mut found);
    found
}

fn walk(
    command: &clap::Command,
    name: &str,
    found: &mut BTreeMap<String, BTreeMap<String, String>>,
) {
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        let Some(long) = arg.get_long().filter(|long| !NOT_OURS.contains(long)) else { continue };
        assert!(arg.get_help().is_some(), "{name} --{long}: say what it does");
        let takes = arg.get_action().takes_values();
        let value = arg.get_value_names().filter(|_| takes).map_or(NONE, |names| &names[0]);
        // Of FILE.toml and NAME,... the first word.
        let form = value.trim_end_matches(",...").split('.').next().unwrap_or(value);
        found
            .entry(long.to_owned())
            .or_default()
            .insert(form.replace('|', " or "), name.to_owned());
    }
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        walk(sub, &format!("{name} {}", sub.get_name()), found);
    }
}

/// The table's rows: option and value.
fn table() -> Vec<(String, String)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../CONTRIBUTING.md");
    let text = std::fs::read_to_string(path).unwrap();
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `--")?.split(" | ");
        let option = cells.next()?.trim_end_matches('`').to_owned();
        Some((option, cells.next()?.to_owned()))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn every_option_is_in_the_table_with_its_value_and_the_table_has_no_other() {
    let (options, table) = (options(), table());
    let known: BTreeMap<&str, &str> =
        table.iter().map(|(option, value)| (option.as_str(), value.as_str())).collect();
    assert_eq!(known.len(), table.len(), "CONTRIBUTING.md: an option has one row");
    for (option, forms) in &options {
        let value = known.get(option.as_str()).unwrap_or_else(|| {
            panic!("{forms:?} --{option}: take an option of CONTRIBUTING.md's table, or add a row")
        });
        for (form, command) in forms {
            // What is in brackets may be left out.
            let mut allowed =
                value.split(" or ").chain([*value, value.split('[').next().unwrap_or(value)]);
            assert!(
                allowed.any(|allowed| allowed == form),
                "{command} --{option} takes '{form}': CONTRIBUTING.md's table says '{value}'"
            );
        }
    }
    let unused: Vec<&&str> = known.keys().filter(|o| !options.contains_key(**o)).collect();
    assert!(unused.is_empty(), "CONTRIBUTING.md: no command takes {unused:?}; remove the rows");
}

#[test]
fn no_two_options_differ_only_by_dashes() {
    let mut spelled: BTreeMap<String, String> = BTreeMap::new();
    for option in options().into_keys() {
        if let Some(other) = spelled.insert(option.replace('-', ""), option.clone()) {
            panic!("--{option} and --{other}: choose one spelling");
        }
    }
}

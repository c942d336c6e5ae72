//! What there is to choose from is declared once: policies.def and presets.def name it, and each
//! policy's README says when it is the right one. README.md's table and docs/policies.md are made
//! of these; `make pages` writes them.

use metasched_abi::{POLICIES, PRESETS, PolicyInfo};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = "docs/policies.md";
const TABLE_HEAD: &str = "| policy | |\n|---|---|\n";

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A paragraph of a policy's README, from its bold words to the next empty line.
fn paragraph(policy: &PolicyInfo, begins: &str) -> String {
    let name = format!("policies/{}/README.md", policy.name);
    let text = read(&name);
    let at = text.find(begins).unwrap_or_else(|| panic!("{name}: say '{begins}'"));
    text[at..].split("\n\n").next().unwrap().trim_end().to_string()
}

fn table() -> String {
    POLICIES.iter().fold(TABLE_HEAD.to_string(), |mut table, policy| {
        let name = policy.name;
        writeln!(table, "| [{name}](policies/{name}/README.md) | {} |", policy.summary).unwrap();
        table
    })
}

fn page() -> String {
    let mut page = "# Which policy when\n\n\
        Written by `make pages` from what each policy declares and says of itself. Policies differ by\n\
        what they were made for: measure yours (`metasched profile`) before you believe this page.\n\
        Measured figures are in [results.md](results.md).\n"
        .to_string();
    for policy in POLICIES {
        let name = policy.name;
        let (when, not) = (paragraph(policy, "**When.**"), paragraph(policy, "**When not.**"));
        write!(
            page,
            "\n## {name}\n\n[{name}](../policies/{name}/README.md): {}.\n\n{when}\n\n{not}\n",
            policy.summary
        )
        .unwrap();
        let presets: Vec<_> =
            PRESETS.iter().filter(|preset| preset.preset_of == Some(name)).collect();
        if !presets.is_empty() {
            page.push_str("\n| preset | |\n|---|---|\n");
        }
        for preset in presets {
            writeln!(page, "| `{}` | {} |", preset.name, preset.summary).unwrap();
        }
    }
    page
}

/// README.md with its table as it should be.
fn readme() -> String {
    let text = read("README.md");
    let at = text.find("| policy |").expect("README.md has a table of policies");
    let length = text[at..].find("\n\n").expect("and text after it") + 1;
    format!("{}{}{}", &text[..at], table(), &text[at + length..])
}

#[test]
fn what_is_said_of_policies_is_what_they_say() {
    for (name, wanted) in [(PAGE, page()), ("README.md", readme())] {
        if std::env::var_os("METASCHED_WRITE_PAGES").is_some() {
            fs::write(path(name), &wanted).unwrap();
        }
        assert!(
            fs::read_to_string(path(name)).is_ok_and(|is| is == wanted),
            "{name} is not what the policies say: run `make pages`"
        );
    }
}

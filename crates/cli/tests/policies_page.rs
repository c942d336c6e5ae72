//! What there is to choose from is declared once: policies.def and presets.def name it, and each
//! policy's README says when it is the right one. README.md's table and docs/policies.md are made
//! of these, and of the figures in docs/results.md; `make pages` writes them.

use metasched_abi::{POLICIES, PRESETS, PolicyInfo};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = "docs/policies.md";
const RESULTS: &str = "docs/results.md";
/// How the headings of its sections with such tables begin.
const MEASURED: &str = "Every policy and its original, on ";
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

/// A row of a table on the page of results.
struct Measured {
    /// On what it was measured, as the heading of its section ends.
    on: String,
    /// The table's first line.
    titles: String,
    /// Who, and over which other scheduler if it is not EEVDF.
    who: String,
    /// All its cells but the first.
    figures: String,
}

/// The rows of all tables in the sections about every policy.
fn measured() -> Vec<Measured> {
    let text = read(RESULTS);
    let sections = text.split("\n## ").filter_map(|section| section.strip_prefix(MEASURED));
    let mut rows = Vec::new();
    for section in sections {
        let (on, section) = section.split_once('\n').expect("text after a heading");
        let mut titles = None;
        for line in section.lines() {
            let cells = line.strip_prefix("| ").and_then(|line| line.split_once(" | "));
            match (titles, cells) {
                (None, Some(_)) => titles = Some(line),
                (Some(titles), Some((who, figures))) => rows.push(Measured {
                    on: on.to_owned(),
                    titles: titles.to_owned(),
                    who: who.to_owned(),
                    figures: figures.to_owned(),
                }),
                (Some(_), None) if line.is_empty() => titles = None,
                _ => {}
            }
        }
    }
    rows
}

/// What was measured of a policy, as a table for each set of loads.
fn figures(policy: &str, measured: &[Measured]) -> String {
    let mut page = String::new();
    let mut titles = "";
    for row in measured {
        let (who, over) = row.who.split_once(" / ").unwrap_or((&row.who, "eevdf"));
        if who != policy {
            continue;
        }
        if row.titles != titles {
            titles = &row.titles;
            let columns = titles.matches(" |").count();
            write!(page, "\n{titles}\n|{}\n", "---|".repeat(columns)).unwrap();
        }
        writeln!(page, "| over {over}, {} | {}", row.on, row.figures).unwrap();
    }
    assert!(page.contains("over eevdf"), "{RESULTS}: the rows of {policy}");
    page
}

fn page() -> String {
    let measured = measured();
    let mut page = "# Which policy when\n\n\
        Written by `make pages` from what each policy declares and says of itself, and from what was\n\
        measured: see [results.md](results.md) for how. Figures say how many times as good it is as the\n\
        other, by time, requests or p99: above 1 is better. Policies differ by what they were made for:\n\
        measure yours (`metasched profile`) before you believe this page.\n"
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
        page.push_str(&figures(name, &measured));
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

const NEWCOMERS_PAGE: &str = "docs/write-a-policy.md";
/// Where the policy of that page is built from, and loaded and run by tests.
const NEWCOMERS_POLICIES: &str = "crates/sim/faults/policies";

/// The code of the first block after that text.
fn block_after<'a>(page: &'a str, text: &str) -> &'a str {
    let at = page.find(text).unwrap_or_else(|| panic!("{NEWCOMERS_PAGE}: say {text}"));
    let from = at + page[at..].find("```").expect("a block follows");
    let fence: &str = &page[from..from + page[from..].bytes().take_while(|b| *b == b'`').count()];
    let code = from + page[from..].find('\n').expect("its first line") + 1;
    let end = page[code..].find(&format!("\n{fence}\n")).expect("its end") + 1;
    &page[code..code + end]
}

#[test]
fn the_page_on_how_to_write_a_policy_has_what_is_built() {
    let page = read(NEWCOMERS_PAGE);
    let folder = path(NEWCOMERS_POLICIES).join("shortest");
    let mut files = 0;
    for file in fs::read_dir(folder).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let built = read(&format!("{NEWCOMERS_POLICIES}/shortest/{name}"));
        let said = block_after(&page, &format!("`policies/shortest/{name}`"));
        assert!(said == built, "{NEWCOMERS_PAGE}: {name} is not what is built");
        files += 1;
    }
    assert_eq!(files, 4, "a policy is four files");
    let line = block_after(&page, "At the end of `policies/policies.def`");
    let table = read(&format!("{NEWCOMERS_POLICIES}/policies.def"));
    assert!(table.ends_with(line), "{NEWCOMERS_PAGE}: the line is not that of {table}");
}

#[test]
fn the_commands_of_that_page_are_there() {
    let page = read(NEWCOMERS_PAGE);
    let commands = block_after(&page, "## 6. Look at it");
    let makefile = read("Makefile");
    let mut targets = 0;
    for target in commands.lines().filter_map(|line| line.strip_prefix("make ")) {
        let target = target.split_whitespace().next().unwrap();
        assert!(makefile.contains(&format!("\n{target}: ")), "there is no make {target}");
        targets += 1;
    }
    assert_eq!(targets, 2);
    let file = "examples/webserver.toml";
    assert!(commands.contains(file) && path(file).exists(), "{file}");
}

//! Compiles the kernel programs and makes the tables that follow from
//! `policies/policies.def` and each policy's `options.h`.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap()).join("../..");
    let root = root.canonicalize().expect("the workspace's root");
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    for folder in ["bpf", "meta", "policies"] {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
    }
    println!("cargo::rerun-if-env-changed=BPF_CLANG");

    let mut policies = read_policies(&root.join("policies"));
    // The loader of `crates/faulty`, which is for tests.
    let lazy = env::var_os("CARGO_FEATURE_LAZY").map(|_| root.join("crates/sim/faults/policies"));
    if let Some(folder) = &lazy {
        println!("cargo::rerun-if-changed={}", folder.display());
        policies.extend(add_for_tests(&root.join("policies/policies.def"), &out));
    }
    fs::write(out.join("policies.gen.h"), includes(&policies)).expect("write policies.gen.h");
    fs::write(out.join("policies.rs"), rust_table(&policies)).expect("write policies.rs");

    let clang = clang();
    // What was made comes first: it may stand in for what is in the tree.
    let mut args: Vec<String> = [out.clone()]
        .into_iter()
        .chain(["bpf", "meta", "policies"].map(|folder| root.join(folder)))
        .chain(lazy)
        .map(|folder| format!("-I{}", folder.display()))
        .collect();
    // What is compiled tells policies' versions apart, so where it lies must not show in it.
    args.push(format!("-ffile-prefix-map={}=.", root.display()));
    // The state words of lanes and tasks are read through the policy's own struct.
    args.extend(
        ["-mcpu=v3", "-fno-strict-aliasing", "-Wall", "-Wextra", "-Werror"].map(Into::into),
    );
    // A callback takes all the arguments that its caller has.
    args.extend(["-Wno-unused-parameter", "-Wno-sign-compare"].map(Into::into));
    for (source, name) in [("meta/metasched.bpf.c", "metasched"), ("bpf/wait.bpf.c", "wait")] {
        if let Err(error) = SkeletonBuilder::new()
            .source(root.join(source))
            .obj(out.join(format!("{name}.bpf.o")))
            .clang(&clang)
            .clang_args(&args)
            .reference_obj(true)
            .build_and_generate(out.join(format!("{name}.skel.rs")))
        {
            panic!("cannot build {source} with '{clang}': {error:?}");
        }
        let object = out.join(format!("{name}.bpf.o"));
        let object = Object(fs::read(object).expect("it was just built"));
        if name == "metasched" {
            fs::write(out.join("shapes.rs"), object.shapes()).expect("write shapes.rs");
        }
        if let Some(section) = object.data_with_addresses() {
            panic!(
                "{source}: its section {section} holds addresses, which the kernel would read as \
                 0. Is a callback taken from a policy_ops that is no constant to the compiler?"
            );
        }
    }
}

/// The compiler for BPF: the one asked for, else the version that is tested with.
fn clang() -> String {
    if let Ok(clang) = env::var("BPF_CLANG") {
        return clang;
    }
    ["clang-19", "clang"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success()))
        .unwrap_or_else(|| {
            panic!("cannot build the kernel program: there is no clang; apt-get install clang-19")
        })
        .to_string()
}

/// An object file as the compiler for BPF writes it: ELF of 64 bits, the lowest byte first.
struct Object(Vec<u8>);

/// The header of a section: its name, its type, the section that it is about, and its bytes.
struct Section<'a> {
    name: String,
    kind: u64,
    about: u64,
    bytes: &'a [u8],
}

impl Object {
    fn number(&self, at: usize, bytes: usize) -> u64 {
        number(&self.0[at..at + bytes])
    }

    fn section(&self, index: u64) -> Section<'_> {
        const NOBITS: u64 = 8;
        let header = |index: u64| {
            self.number(0x28, 8) as usize + index as usize * self.number(0x3a, 2) as usize
        };
        let at = header(index);
        let names = self.number(header(self.number(0x3e, 2)) + 0x18, 8);
        let name = &self.0[(names + self.number(at, 4)) as usize..];
        let end = name.iter().position(|byte| *byte == 0).expect("a name ends");
        let kind = self.number(at + 4, 4);
        let (from, size) = (self.number(at + 0x18, 8) as usize, self.number(at + 0x20, 8) as usize);
        Section {
            name: String::from_utf8_lossy(&name[..end]).into_owned(),
            kind,
            about: self.number(at + 0x2c, 4),
            bytes: if kind == NOBITS { &[] } else { &self.0[from..from + size] },
        }
    }

    fn sections(&self) -> impl Iterator<Item = Section<'_>> {
        (0..self.number(0x3c, 2)).map(|index| self.section(index))
    }

    /// A section with data in which the compiler has left the address of something: the loader
    /// fills in those in code only.
    fn data_with_addresses(&self) -> Option<String> {
        const RELOCATIONS: u64 = 9;
        self.sections()
            .filter(|section| section.kind == RELOCATIONS)
            .map(|section| self.section(section.about).name)
            .find(|name| [".data", ".rodata", ".bss"].iter().any(|data| name.starts_with(data)))
    }

    /// What `policy_shapes` of meta/table.bpf.h says of each policy.
    fn shapes(&self) -> String {
        const NUMBERS: usize = 4;
        let shapes = self.sections().find(|section| section.name == ".policy_shapes");
        let bytes = shapes.expect("table.bpf.h makes it").bytes;
        let mut text = String::from("&[\n");
        for policy in bytes.chunks_exact(NUMBERS * 8) {
            let words: Vec<u64> = policy.chunks_exact(8).map(number).collect();
            let [callbacks, cpu_bytes, llc_bytes, cpu_sets] = words[..] else { unreachable!() };
            writeln!(
                text,
                "Shape {{ callbacks: {callbacks}, cpu_bytes: {cpu_bytes}, llc_bytes: {llc_bytes}, \
                 cpu_sets: {cpu_sets} }},"
            )
            .unwrap();
        }
        text.push_str("]\n");
        text
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte))
}

/// Puts the policies that are for tests after the others, in a list of its own.
fn add_for_tests(def: &Path, out: &Path) -> Vec<Policy> {
    let mut text = fs::read_to_string(def).expect("it was read before");
    let policies = ["lazy", "central", "witness"].map(|name| {
        writeln!(text, "POLICY({name}, \"for tests\")").unwrap();
        Policy {
            name: name.to_owned(),
            source: format!("{name}.bpf.c"),
            summary: "for tests".to_owned(),
            options: Vec::new(),
            counters: Vec::new(),
        }
    });
    fs::write(out.join("policies.def"), text).expect("OUT_DIR is writable");
    policies.into()
}

struct Policy {
    name: String,
    /// Its file, below `policies` or another folder where headers are looked for.
    source: String,
    summary: String,
    /// Name, unit, default, least, most, help.
    options: Vec<Vec<String>>,
    /// Name, description.
    counters: Vec<Vec<String>>,
}

fn read_policies(folder: &Path) -> Vec<Policy> {
    let def = folder.join("policies.def");
    let text = fs::read_to_string(&def).unwrap_or_else(|e| panic!("read {}: {e}", def.display()));
    let mut entries = entries(&text, "POLICY");
    assert!(!entries.is_empty(), "{}: no POLICY() line", def.display());
    entries
        .drain(..)
        .map(|entry| {
            let [name, summary] = entry.as_slice() else {
                panic!("{}: want POLICY(name, summary), got {entry:?}", def.display());
            };
            let header = folder.join(name).join("options.h");
            let text = fs::read_to_string(&header)
                .unwrap_or_else(|e| panic!("read {}: {e}", header.display()));
            // The first argument is the policy's own name, for the C side.
            let own = |list: Vec<Vec<String>>, n: usize| -> Vec<Vec<String>> {
                list.into_iter()
                    .map(|mut entry| {
                        assert!(
                            entry.len() == n && entry[0] == *name,
                            "{}: {entry:?}",
                            header.display()
                        );
                        entry.remove(0);
                        entry
                    })
                    .collect()
            };
            Policy {
                name: name.clone(),
                source: format!("{name}/{name}.bpf.c"),
                summary: summary.clone(),
                options: own(entries_of(&text, "OPTION"), 7),
                counters: own(entries_of(&text, "COUNTER"), 3),
            }
        })
        .collect()
}

/// The arguments of every `MACRO(...)` that starts a line.
fn entries(text: &str, name: &str) -> Vec<Vec<String>> {
    text.lines()
        .filter_map(|line| Some(arguments(line.strip_prefix(name)?.strip_prefix('(')?)))
        .collect()
}

/// The arguments of every `MACRO(` inside a list macro, whose name is lower case.
fn entries_of(text: &str, name: &str) -> Vec<Vec<String>> {
    let start = format!("\t{name}(");
    text.match_indices(&start).map(|(at, _)| arguments(&text[at + start.len()..])).collect()
}

/// Splits at commas, up to the closing parenthesis; strings may hold both.
fn arguments(text: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut in_string = false;
    for c in text.chars() {
        match c {
            '"' => in_string = !in_string,
            ')' if !in_string => break,
            ',' if !in_string => all.push(String::new()),
            '\\' | '\n' | '\t' => {}
            _ => all.last_mut().unwrap().push(c),
        }
    }
    all.iter().map(|a| a.trim().to_string()).collect()
}

fn includes(policies: &[Policy]) -> String {
    policies.iter().fold(String::new(), |mut text, p| {
        writeln!(text, "#include <{}>", p.source).unwrap();
        text
    })
}

fn rust_table(policies: &[Policy]) -> String {
    let mut text = String::from("&[\n");
    for p in policies {
        writeln!(text, "PolicyInfo {{ name: {:?}, summary: {:?}, options: &[", p.name, p.summary)
            .unwrap();
        for o in &p.options {
            writeln!(
                text,
                "OptionInfo {{ name: {:?}, unit: {:?}, default: {}, least: {}, most: {}, help: {:?} }},",
                o[0], o[1], o[2], o[3], o[4], o[5]
            )
            .unwrap();
        }
        text.push_str("], counters: &[\n");
        for c in &p.counters {
            writeln!(text, "CounterInfo {{ name: {:?}, description: {:?} }},", c[0], c[1]).unwrap();
        }
        text.push_str("] },\n");
    }
    text.push_str("]\n");
    text
}

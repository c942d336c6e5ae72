//! Compiles the kernel programs.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;
use object::{Object as _, ObjectSection as _};

fn main() {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap()).join("../..");
    let root = root.canonicalize().expect("the workspace's root");
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    for folder in ["bpf", "meta", "policies"] {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
    }
    println!("cargo::rerun-if-env-changed=BPF_CLANG");
    println!("cargo::rustc-check-cfg=cfg(lazy)");

    // The loader of `crates/faulty`, which is for tests, has a policy more.
    let policies = match env::var_os("CARGO_FEATURE_LAZY") {
        None => env::var_os("DEP_METASCHED_ABI_POLICIES_INCLUDE"),
        Some(_) => {
            println!("cargo::rustc-cfg=lazy");
            println!(
                "cargo::rerun-if-changed={}",
                root.join("crates/sim/faults/policies").display()
            );
            env::var_os("DEP_METASCHED_ABI_FAULTY_INCLUDE")
        }
    }
    .expect("crates/abi says where the policies' headers are");

    let clang = clang();
    // Those of the policies come first: one of them may stand in for what is in the tree.
    let mut args: Vec<String> = env::split_paths(&policies)
        .chain(["bpf", "meta"].map(|folder| root.join(folder)))
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
        let bytes = fs::read(out.join(format!("{name}.bpf.o"))).expect("it was just built");
        let object = object::File::parse(&*bytes).expect("the compiler writes ELF");
        if name == "metasched" {
            fs::write(out.join("shapes.rs"), shapes(&object)).expect("write shapes.rs");
        }
        if let Some(section) = data_with_addresses(&object) {
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

/// A section with data in which the compiler has left the address of something: the loader
/// fills in those in code only.
fn data_with_addresses(object: &object::File) -> Option<String> {
    object
        .sections()
        .filter(|section| section.relocations().next().is_some())
        .map(|section| section.name().expect("a section has a name").to_owned())
        .find(|name| [".data", ".rodata", ".bss"].iter().any(|data| name.starts_with(data)))
}

/// What `policy_shapes` of meta/table.bpf.h says of each policy.
fn shapes(object: &object::File) -> String {
    const NUMBERS: usize = 5;
    let section = object.section_by_name(".policy_shapes").expect("table.bpf.h makes it");
    let bytes = section.data().expect("the compiler has filled it");
    let mut text = String::from("&[\n");
    for policy in bytes.chunks_exact(NUMBERS * 8) {
        let words: Vec<u64> = policy
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
            .collect();
        let [uses, cpu_bytes, llc_bytes, cpu_sets, user_half] = words[..] else { unreachable!() };
        writeln!(
            text,
            "Shape {{ uses: {uses}, cpu_bytes: {cpu_bytes}, llc_bytes: {llc_bytes}, cpu_sets: {cpu_sets}, \
             user_half: {user_half} }},"
        )
        .unwrap();
    }
    text.push_str("]\n");
    text
}

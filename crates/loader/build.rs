//! Compiles the kernel programs.

use std::env;
use std::fs;
use std::path::PathBuf;
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
        let object = out.join(format!("{name}.bpf.o"));
        let bytes = fs::read(&object).expect("it was just built");
        if let Some(section) = data_with_addresses(&bytes) {
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

/// A section with data in which the compiler has left the address of something: the loader fills
/// in those in code only. The object is an ELF file of 64 bits.
fn data_with_addresses(object: &[u8]) -> Option<String> {
    const RELOCATIONS: u64 = 9;
    let number = |at: usize, bytes: usize| -> u64 {
        object[at..at + bytes].iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte))
    };
    let (headers, size) = (number(0x28, 8) as usize, number(0x3a, 2) as usize);
    let header = |section: u64| headers + section as usize * size;
    let names = number(header(number(0x3e, 2)) + 0x18, 8) as usize;
    let name_of = |section: u64| {
        let start = names + number(header(section), 4) as usize;
        let length = object[start..].iter().position(|byte| *byte == 0).expect("a name ends");
        String::from_utf8_lossy(&object[start..start + length]).into_owned()
    };
    (0..number(0x3c, 2))
        .filter(|section| number(header(*section) + 4, 4) == RELOCATIONS)
        .map(|section| name_of(number(header(section) + 0x2c, 4)))
        .find(|name| [".data", ".rodata", ".bss"].iter().any(|data| name.starts_with(data)))
}

//! Compiles the kernel programs.

use std::env;
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

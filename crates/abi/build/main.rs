//! Takes what is shared from the C declarations.

mod declarations;
mod policies;

use std::env;
use std::fs;
use std::path::PathBuf;

fn main() {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    let root = root.canonicalize().expect("the workspace's root");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    for input in ["crates/abi/build", "crates/abi/c", "crates/sim/faults/policies"] {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    for input in ["bpf", "include", "meta", "policies"] {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    println!("cargo::rerun-if-env-changed=CLANG");

    let shared = ["crates/abi/c", "bpf", "include", "meta"].map(|folder| root.join(folder));
    let known = root.join("policies");
    // The policy that does not dispatch comes after the others, in a list of its own that
    // includes theirs.
    let faulty = root.join("crates/sim/faults/policies");
    for (set, folders) in [("policies", vec![known.clone()]), ("faulty", vec![faulty, known])] {
        policies::make(set, &folders, &shared, &out.join(set));
    }

    let folders = [&shared[..], &[root.join("policies")]].concat();
    let rust = declarations::generate(&root.join("crates/abi/c/abi.h"), &folders);
    fs::write(out.join("declarations.rs"), rust).expect("OUT_DIR is writable");
}

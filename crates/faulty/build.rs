//! Compiles the kernel program once more, with the policies that are for tests.

#[path = "../loader/build/object.rs"]
mod object;

use std::env;
use std::fs;

fn main() {
    println!("cargo::rerun-if-changed=../sim/faults/policies");
    let program = "meta/metasched.bpf.c";
    let skeleton = object::compile(program, "metasched", "DEP_METASCHED_ABI_FAULTY_INCLUDE");
    let loaders = env::var_os("DEP_METASCHED_LOADER_SKELETON").expect("crates/loader says it");
    let loaders = fs::read_to_string(loaders).expect("its build script has written it");
    // Last comes the file itself.
    let shape = |skeleton: &str| skeleton.split("static DATA").next().map(str::to_owned);
    assert!(
        shape(&skeleton) == shape(&loaders),
        "the loader cannot load {program} with these policies: its variables or maps are others \
         than without. Does one of them have a variable of its own, or one that is not constant?"
    );
}

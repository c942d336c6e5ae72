//! Compiles the kernel programs.

mod object;

use std::env;
use std::fs;
use std::path::PathBuf;

/// Where a skeleton takes the bytes from that it loads.
const OWN_BYTES: &str = "ObjectSkeletonConfigBuilder::new(&DATA)";
/// And where it is to take them from: there may be others in their place, see object.rs.
const BYTES: &str = "ObjectSkeletonConfigBuilder::new(crate::object::object().bytes)";

fn main() {
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    let policies = "DEP_METASCHED_ABI_POLICIES_INCLUDE";
    object::compile("bpf/wait.bpf.c", "wait", policies);
    object::compile("bpf/follow.bpf.c", "follow", policies);
    object::compile("bpf/overhead.bpf.c", "overhead", policies);
    object::compile("bpf/paravirt.bpf.c", "paravirt", policies);
    object::compile("bpf/vcpus.bpf.c", "vcpus", policies);
    let skeleton = object::compile("meta/metasched.bpf.c", "metasched", policies);
    let path = out.join("metasched.skel.rs");
    // For crates that compile a program to be loaded in its place.
    println!("cargo::metadata=skeleton={}", out.join("own.skel.rs").display());
    fs::write(out.join("own.skel.rs"), &skeleton).expect("OUT_DIR is writable");
    assert!(skeleton.contains(OWN_BYTES), "libbpf-cargo writes skeletons otherwise: {OWN_BYTES}");
    fs::write(&path, skeleton.replace(OWN_BYTES, BYTES)).expect("OUT_DIR is writable");
}

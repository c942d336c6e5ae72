//! A hash of everything that decides what a simulated run does, for its reports: the same
//! hash, scenario and seed give the same bytes.

use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let root = here.join("../..");
    let mut hasher = Sha256::new();
    for folder in [
        "crates/scenario/src",
        "crates/sim/src",
        "crates/sim/seam",
        "crates/simbed/src",
        "bpf",
        "meta",
        "policies",
    ] {
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
        hash(&root.join(folder), &mut hasher);
    }
    let hash = hasher.finalize().iter().take(4).fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String");
        text
    });
    println!("cargo:rustc-env=SIM_SOURCES={hash}");
}

/// The files of a folder and of those in it, by name.
fn hash(folder: &Path, hasher: &mut Sha256) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("a readable folder").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            hash(&path, hasher);
            continue;
        }
        let contents = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let name = path.file_name().expect("a file").as_encoded_bytes();
        // With lengths, so that no two trees give the same stream of bytes.
        for part in [name, contents.as_slice()] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
}

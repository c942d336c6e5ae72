//! Facts about the machine, read from /proc and /sys below a root path that tests can replace.

pub mod btf;
pub mod cgroup;
pub mod kallsyms;
pub mod kernel;
pub mod machine;
pub mod privileges;
pub mod process;
pub mod sched_ext;
pub mod schedstat;
pub mod services;
pub mod tracefs;
pub mod vmlinuz;

use std::path::{Path, PathBuf};

/// `path`, which is absolute, below `root`.
fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// The contents of a small file of /proc or /sys without white space at its ends; None
/// where there is no such file or it cannot be read, which for a fact is the same.
fn read_trimmed(root: &Path, path: &str) -> Option<String> {
    let text = std::fs::read_to_string(below(root, path)).ok()?;
    Some(text.trim().to_string())
}

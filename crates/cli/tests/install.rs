//! `make install` and `make uninstall`, into a folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_metasched");

/// It is built for this test since the package needs its crate.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.with_file_name("libmetasched_dop.so")
}

fn make(target: &str, folder: &Path) {
    let output = Command::new("make")
        .arg("-C")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .args([target, "PREFIX=/opt", &format!("PROGRAM={PROGRAM}")])
        .arg(format!("LIBRARY={}", library().display()))
        .arg(format!("DESTDIR={}", folder.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn what_is_installed_runs_is_stripped_and_goes_again() {
    let folder = tempfile::tempdir().unwrap();
    make("install", folder.path());
    let below = |path: &str| folder.path().join("opt").join(path);
    let installed = below("bin/metasched");
    let said = Command::new(&installed).arg("--version").output().unwrap();
    assert!(said.status.success() && said.stdout.starts_with(b"metasched "), "{said:?}");
    let [before, after] = [Path::new(PROGRAM), &installed].map(|p| fs::metadata(p).unwrap().len());
    assert!(after < before, "{before} and {after} bytes");
    for path in [
        "lib/libmetasched_dop.so",
        "bin/metasched-dop-open",
        "include/metasched_paravirt.h",
        "share/man/man1/metasched.1",
        "share/man/man1/metasched-lane-list.1",
        "share/bash-completion/completions/metasched",
        "share/zsh/site-functions/_metasched",
        "share/fish/vendor_completions.d/metasched.fish",
    ] {
        assert!(fs::metadata(below(path)).is_ok_and(|data| data.len() > 100), "{path}");
    }
    make("uninstall", folder.path());
    assert_eq!(files(folder.path()), Vec::<PathBuf>::new());
}

//! The list of policies: for C the headers that include each one's files, for Rust the table.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes what follows from the first `policies.def` in these folders, which also hold the
/// policies' own, and tells the build scripts of dependents as `DEP_METASCHED_ABI_SET` of
/// the names, and as `..._INCLUDE` of the folders where C finds what it needs.
pub fn make(set: &str, folders: &[PathBuf], shared: &[PathBuf], out: &Path) {
    fs::create_dir_all(out).expect("OUT_DIR is writable");
    let clang = clang();
    let includes = |folders: &[PathBuf]| -> Vec<String> {
        folders.iter().map(|folder| format!("-I{}", folder.display())).collect()
    };

    // The preprocessor says which there are, and in which order.
    let names = out.join("names.c");
    let line = "#define POLICY(name, ...) name\n";
    fs::write(&names, format!("{line}#include <policies.def>\n")).expect("OUT_DIR is writable");
    let mut preprocess = Command::new(&clang);
    preprocess.args(["-E", "-P"]).args(includes(folders)).arg(&names);
    let said = run(preprocess, "read policies.def");
    let names: Vec<&str> = said.split_whitespace().collect();
    assert!(!names.is_empty(), "policies.def lists no policy");

    let includes_of = |file: &dyn Fn(&str) -> String| -> String {
        names.iter().map(|name| format!("#include <{name}/{}>\n", file(name))).collect()
    };
    let sources = includes_of(&|name| format!("{name}.bpf.c"));
    fs::write(out.join("policies.gen.h"), sources).expect("OUT_DIR is writable");
    let options = includes_of(&|_| "options.h".to_owned());
    fs::write(out.join("options.gen.h"), options).expect("OUT_DIR is writable");

    let print = out.join("print");
    let folders = [&[out.to_path_buf()], folders].concat();
    let mut compile = Command::new(&clang);
    compile.args(["-Wall", "-Wextra", "-Werror"]).args(includes(&folders)).args(includes(shared));
    compile.arg(shared[0].join("policies.c")).arg("-o").arg(&print);
    run(compile, "compile the table of policies");
    for (what, file) in [("policies", "table.rs"), ("presets", "presets.rs")] {
        let mut printing = Command::new(&print);
        printing.arg(what);
        let table = run(printing, &format!("print the table of {what}"));
        fs::write(out.join(file), table).expect("OUT_DIR is writable");
    }

    println!("cargo::metadata={set}={}", names.join(" "));
    let folders = env::join_paths(folders).expect("no folder has a colon in its name");
    println!("cargo::metadata={set}_include={}", folders.display());
}

/// The compiler, as everywhere: the one asked for, else the version that is tested with.
fn clang() -> String {
    let named = env::var("CLANG").ok();
    let names = ["clang-19", "clang"].map(str::to_owned);
    let works = |name: &String| {
        Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success())
    };
    named.into_iter().chain(names).find(works).unwrap_or_else(|| {
        panic!("cannot read the headers: there is no clang; apt-get install clang-19")
    })
}

/// What the command prints.
fn run(mut command: Command, attempt: &str) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("cannot {attempt}: {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cannot {attempt}:\n{said}");
    String::from_utf8(output.stdout).expect("C sources in UTF-8")
}

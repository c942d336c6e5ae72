//! Compiles the policies and level 1 natively: the same files as the kernel's,
//! with `seam/` in front of `bpf/`. And the planted faults, for the tests.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where C leaves a result undefined and BPF or the verifier does not: see seam.c.
const SANITIZE: &str = "-fsanitize=integer-divide-by-zero,shift,null,bounds";

/// The policy that docs/write-a-policy.md has its readers write.
const PAGES_POLICY: &str = "shortest";

fn main() {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let root = here.join("../..").canonicalize().expect("the workspace's root");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    for input in ["crates/sim/seam", "crates/sim/faults", "bpf", "meta", "policies"] {
        println!("cargo:rerun-if-changed={}", root.join(input).display());
    }
    let policies = from_abi("POLICIES");
    write_policy_modules(&root.join("policies"), policies.split(' '), "policy_tests.rs", &out);
    // Of those that are for tests only the one of docs/write-a-policy.md has tests of its own.
    let page = [PAGES_POLICY].into_iter();
    write_policy_modules(&here.join("faults/policies"), page, "page_tests.rs", &out);

    let native = Native::new("POLICIES_INCLUDE", root.clone(), out.clone());
    let seam = native.object(&here.join("seam/seam.c"), false);
    let metasched = native.object(&root.join("meta/metasched.bpf.c"), true);
    let user_space = native.object(&here.join("seam/metasched.c"), false);
    native.link("libmetasched-native.so", &[&seam, &metasched, &user_space]);

    // Level 1 with the policies that are for tests.
    let faulty = Native::new("FAULTY_INCLUDE", root.clone(), out.join("faulty"));
    let metasched = faulty.object(&root.join("meta/metasched.bpf.c"), true);
    let user_space = faulty.object(&here.join("seam/metasched.c"), false);
    faulty.link("libfaulty-native.so", &[&seam, &metasched, &user_space]);

    let mut faults: Vec<PathBuf> = fs::read_dir(here.join("faults"))
        .expect("crates/sim/faults")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.to_string_lossy().ends_with(".bpf.c"))
        .collect();
    faults.sort();
    let mut objects: Vec<PathBuf> = faults.iter().map(|f| native.object(f, true)).collect();
    objects.push(seam);
    native.link("libfaults-native.so", &objects.iter().collect::<Vec<_>>());

    println!("cargo::metadata=out={}", out.display());
    println!("cargo::metadata=compiler={}", native.compiler);
    println!("cargo::metadata=flags={}", faulty.flags(true).join(" "));
    println!("cargo:rerun-if-env-changed=CLANG");
}

/// A module for each policy's `tests.rs`, so that a new policy needs no edit here.
fn write_policy_modules<'a>(
    folder: &Path,
    policies: impl Iterator<Item = &'a str>,
    file: &str,
    out: &Path,
) {
    let mut modules = String::new();
    for name in policies {
        let path = folder.join(format!("{name}/tests.rs"));
        assert!(path.exists(), "{} is missing: every policy has tests", path.display());
        writeln!(modules, "#[path = {path:?}]\npub mod {name};").expect("a String");
    }
    fs::write(out.join(file), modules).expect("OUT_DIR is writable");
}

struct Native {
    compiler: String,
    root: PathBuf,
    /// Where headers are looked for that list the policies, and theirs.
    policies: String,
    out: PathBuf,
}

impl Native {
    fn new(policies: &str, root: PathBuf, out: PathBuf) -> Native {
        fs::create_dir_all(&out).expect("OUT_DIR is writable");
        Native { compiler: find_compiler(), root, policies: from_abi(policies), out }
    }

    fn flags(&self, policy: bool) -> Vec<String> {
        // Like the crate: the simulator unoptimised has unoptimised policies.
        let optimised = env::var("OPT_LEVEL").expect("cargo sets it") != "0";
        let optimisation = if optimised { "-O2" } else { "-O0" };
        let mut flags: Vec<String> = [
            "-std=gnu17",
            optimisation,
            "-g",
            "-fPIC",
            "-Wall",
            "-Werror=implicit-function-declaration",
            // Declared with another type than C's own of that name: enqueue, exit.
            "-fno-builtin",
            "-ffreestanding",
            // BPF wraps, and lays one type over another.
            "-fwrapv",
            "-fno-strict-aliasing",
            // What follows a NULL dereference is not dead code: the seam sees it.
            "-fno-delete-null-pointer-checks",
            // BPF programs share one translation unit; not all of it is used.
            "-Wno-unused-function",
            "-Wno-unused-variable",
        ]
        .map(str::to_owned)
        .into();
        if policy {
            // The compiler refuses to read what was never written, where it sees it; else it
            // reads as a pattern, the same in every run, which is neither 0 nor an address.
            flags.extend(
                ["-Werror=uninitialized", "-Werror=sometimes-uninitialized"].map(Into::into),
            );
            flags.extend(["-ftrivial-auto-var-init=pattern".into(), SANITIZE.into()]);
        }
        let policies = env::split_paths(&self.policies);
        let others = ["crates/sim/seam", "bpf", "meta"].map(|folder| self.root.join(folder));
        flags.extend(policies.chain(others).map(|folder| format!("-I{}", folder.display())));
        flags
    }

    fn object(&self, source: &Path, policy: bool) -> PathBuf {
        let name = source.file_name().expect("a file").to_string_lossy().into_owned();
        let object = self.out.join(format!("{name}.o"));
        let mut command = Command::new(&self.compiler);
        command.args(self.flags(policy)).arg("-c").arg(source).arg("-o").arg(&object);
        run(command, &object, &format!("compile {} natively", source.display()));
        object
    }

    /// A call that is not modelled is an undefined symbol, and fails here by name.
    fn link(&self, name: &str, objects: &[&PathBuf]) {
        let mut command = Command::new(&self.compiler);
        let library = self.out.join(name);
        command.args(["-shared", "-Wl,-z,defs", "-Wl,-Bsymbolic", "-o"]).arg(&library);
        command.args(objects);
        run(command, &library, &format!("link {name}: is every call that it makes modelled?"));
    }
}

/// What the build of crates/abi says of the policies.
fn from_abi(what: &str) -> String {
    env::var(format!("DEP_METASCHED_ABI_{what}")).expect("crates/abi says it")
}

/// clang, which also compiles the BPF; gcc knows neither BPF_PROG's attributes
/// nor its type tags.
fn find_compiler() -> String {
    let named = env::var("CLANG").ok();
    let names = ["clang", "clang-19", "clang-20", "clang-21", "clang-18"].map(str::to_owned);
    let works = |name: &String| {
        Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success())
    };
    named.into_iter().chain(names).find(works).unwrap_or_else(|| {
        panic!("cannot compile policies natively: there is no clang; install clang-19")
    })
}

/// Runs a compiler that writes to that file.
fn run(mut command: Command, written: &Path, attempt: &str) {
    // Clippy looks at Rust and runs nothing: what it needs is that the file is there.
    if env::var("RUSTC_WORKSPACE_WRAPPER").is_ok_and(|wrapper| wrapper.contains("clippy-driver")) {
        return fs::write(written, "").expect("OUT_DIR is writable");
    }
    let output = command.output().unwrap_or_else(|e| panic!("cannot {attempt}: {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cannot {attempt}:\n{said}");
    for line in said.lines().filter(|line| line.contains("warning:")) {
        println!("cargo:warning={line}");
    }
}

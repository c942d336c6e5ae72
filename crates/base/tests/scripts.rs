//! What the scripts decide: each is run as it is, in a folder of its own, with other programs in
//! place of those that it calls. `logs/` has what test programs printed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A folder with scripts and with what stands for the programs that they call.
struct Stage {
    folder: TempDir,
    settings: Vec<(String, String)>,
}

struct Ended {
    status: i32,
    out: String,
    err: String,
    /// The programs that were called, with their arguments, a line each.
    calls: Vec<String>,
}

impl Ended {
    #[track_caller]
    fn assert(&self, status: i32, says: &str) {
        let said = format!("{}{}", self.out, self.err);
        assert_eq!(self.status, status, "{said}");
        assert!(said.contains(says), "it does not say '{says}':\n{said}");
    }

    fn called(&self, begins: &str) -> Vec<&str> {
        self.calls.iter().map(String::as_str).filter(|call| call.starts_with(begins)).collect()
    }
}

impl Stage {
    fn new(scripts: &[&str]) -> Stage {
        let stage = Stage { folder: tempfile::tempdir().unwrap(), settings: Vec::new() };
        for script in scripts {
            fs::create_dir_all(stage.path("scripts")).unwrap();
            fs::copy(root().join("scripts").join(script), stage.path("scripts").join(script))
                .unwrap();
        }
        fs::create_dir_all(stage.path("bin")).unwrap();
        stage
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// A program that notes how it was called, and then does that.
    fn program(&self, path: &str, body: &str) {
        let name = path.rsplit('/').next().unwrap();
        let calls = self.path("calls");
        let text =
            format!("#!/bin/bash\necho \"{name} $*\" >>{}\n{body}\n", calls.to_str().unwrap());
        let path = self.write(path, &text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn set(&mut self, name: &str, value: impl AsRef<Path>) {
        self.settings.push((name.into(), value.as_ref().to_str().unwrap().into()));
    }

    fn run(&self, script: &str, arguments: &[&str]) -> Ended {
        let _ = fs::remove_file(self.path("calls"));
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        let output = Command::new("bash")
            .arg(self.path("scripts").join(script))
            .args(arguments)
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.folder.path())
            .env("TMPDIR", self.folder.path())
            .envs(self.settings.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        Ended {
            status: output.status.code().unwrap(),
            out: text(output.stdout),
            err: text(output.stderr),
            calls: calls.lines().map(str::to_owned).collect(),
        }
    }
}

/// Where it has one, scripts measure on this machine's kernel, and in a guest otherwise.
fn kernel_has_sched_ext() -> bool {
    Path::new("/sys/kernel/sched_ext/state").exists()
}

fn log(name: &str) -> String {
    let path = root().join("crates/base/tests/logs").join(name).with_extension("txt");
    path.to_str().unwrap().into()
}

#[track_caller]
fn assert_result(log_name: &str, status: &str, passes: bool, says: &str) {
    let kind = log_name.split('-').next().unwrap();
    let ended =
        Stage::new(&["test.sh"]).run("test.sh", &["--decide", kind, &log(log_name), status]);
    ended.assert(i32::from(!passes), says);
}

#[test]
fn rust_passes_if_tests_ran_and_none_failed_and_no_program_died() {
    assert_result("rust-passed", "0", true, "test: 2 passed, 0 failed\n");
    let both = "FAILED rust: what_is_new_is_installed \
                what_is_held_is_refused_though_it_is_asked_for\ntest: 1 passed, 2 failed\n";
    assert_result("rust-failed", "101", false, both);
    // Whatever the status is that comes through.
    assert_result("rust-failed", "0", false, "1 passed, 2 failed");
    assert_result("rust-died", "101", false, "ended with status 101, and no test failed");
    assert_result("rust-died", "101", false, "2 passed, 1 failed");
    assert_result("rust-does-not-build", "101", false, "0 passed, 1 failed");
    assert_result("rust-does-not-build", "0", false, "no test ran");
    assert_result("rust-none", "0", false, "no test ran");
}

#[test]
fn python_passes_if_tests_ran_and_none_failed_and_it_did_not_die() {
    assert_result("python-passed", "0", true, "test: 2 passed, 0 failed\n");
    // One that is skipped has not failed.
    assert_result("python-failed", "1", false, "test: 3 passed, 2 failed\n");
    assert_result("python-unexpected", "1", false, "test: 2 passed, 1 failed\n");
    assert_result("python-died", "1", false, "no test ran");
    assert_result("python-died-after", "3", false, "ended with status 3, and no test failed");
    assert_result("python-none", "0", false, "no test ran");
}

#[test]
fn every_test_program_must_have_come_through_the_guest() {
    let stage = Stage::new(&["test.sh"]);
    stage.write(
        "guest/programs",
        "/target/deps/guest-0a1b\t/crates/loader\t\n\
         /target/deps/guest-2c3d\t/crates/control\thang::\n",
    );
    let decide =
        || stage.run("test.sh", &["--decide", "guest", &stage.path("guest").display().to_string()]);
    let passed = fs::read_to_string(log("rust-passed")).unwrap();
    stage.write("guest/1.log", &passed);
    stage.write("guest/1.status", "0\n");
    stage.write("guest/2.log", &passed);
    decide().assert(1, "FAILED control/guest hang::: the guest ended while it ran");
    stage.write("guest/2.status", "0\n");
    decide().assert(0, "test: 4 passed, 0 failed\n");
    // It left a scheduler in force.
    stage.write("guest/2.status", "1\n");
    decide().assert(1, "FAILED control/guest hang::: it ended with status 1, and no test failed");
    stage.write("guest/1.log", "");
    decide().assert(1, "FAILED loader/guest: no test ran");
    stage.write("guest/programs", "");
    decide().assert(1, "0 passed");
}

#[test]
fn one_check_that_is_not_clean_fails_and_the_others_go_on() {
    let stage = Stage::new(&["test.sh"]);
    let check = "case $1 in --list) echo shell deny docs ;; deny) echo a licence; exit 1 ;; esac";
    stage.program("scripts/lint.sh", check);
    let ended = stage.run("test.sh", &["lint"]);
    ended.assert(1, "FAILED lint: deny is not clean");
    ended.assert(1, "a licence\n");
    ended.assert(1, "test: 2 passed, 1 failed\n");
    stage.program("scripts/lint.sh", "exit 1");
    stage.run("test.sh", &["lint"]).assert(1, "0 passed");
    stage.run("test.sh", &["all"]).assert(2, "there is no 'all'");
}

/// One whose Rust is that version, and whose Clippy prints how it is to be called.
fn lint_stage(rust: &str) -> Stage {
    let stage = Stage::new(&["lint.sh", "lint-requirements.txt"]);
    stage.write("Cargo.toml", "[workspace.metadata]\nlinted-with = \"1.95\"\n");
    stage.program("bin/rustc", &format!("echo 'rustc {rust} (59807616e 2026-04-14)'"));
    stage.program("bin/clippy-driver", "");
    stage.program("bin/cargo", "echo $RUSTC_WORKSPACE_WRAPPER $CLIPPY_ARGS");
    stage
}

#[test]
fn warnings_are_errors_where_they_are_known() {
    for (rust, strict) in [("1.91.0", "deny"), ("1.95.1", "deny"), ("1.96.0", "warn")] {
        let ended = lint_stage(rust).run("lint.sh", &["clippy"]);
        ended.assert(0, &format!("clippy-driver --{strict}=warnings__CLIPPY_HACKERY__\n"));
    }
}

#[test]
fn every_check_is_made_though_one_finds_something() {
    let stage = lint_stage("1.95.0");
    stage.program("bin/cargo", "[ $1 = doc ]");
    let ended = stage.run("lint.sh", &["clippy", "docs"]);
    ended.assert(1, "not clean: clippy; see the above");
    assert_eq!(ended.called("cargo").len(), 2);
    stage.program("bin/shellcheck", "[ $1 != --shell=bash ]");
    stage.write("scripts/sourced.sh", "");
    stage.run("lint.sh", &["shell"]).assert(1, "not clean: shell");
    stage.run("lint.sh", &["style"]).assert(2, "there is no check 'style'");
}

fn bench_stage() -> Stage {
    let stage = Stage::new(&["bench.sh"]);
    stage.program("bin/cargo", "");
    stage.program("target/release/metasched", "echo measured");
    stage.program("scripts/peers.sh", "");
    stage.program("scripts/kernel-peers.sh", "echo /peers");
    for bench in ["sim", "calibration", "policies", "cost"] {
        stage.program(&format!("target/release/bench-{bench}"), "echo measured");
    }
    stage
}

#[test]
fn a_bench_runs_where_it_can_with_what_it_needs() {
    let mut stage = bench_stage();
    let ended = stage.run("bench.sh", &["speed"]);
    ended.assert(2, "there is no 'speed'");
    assert_eq!(ended.calls, Vec::<String>::new());

    // The simulator's, and a calibration whose other side is there, need no kernel.
    let here = |stage: &Stage, arguments: &[&str]| {
        let ended = stage.run("bench.sh", arguments);
        ended.assert(0, "measured");
        (ended.called("metasched ").is_empty(), ended.calls.last().unwrap().clone())
    };
    assert_eq!(here(&stage, &["sim", "--fast"]), (true, "bench-sim --fast".into()));
    let kept = ["calibration", "--machine=old.json"];
    assert_eq!(here(&stage, &kept), (true, "bench-calibration --machine=old.json".into()));
    assert!(stage.path(".cache/bench/sim/output.txt").exists());

    let (was_here, call) = here(&stage, &["calibration", "--machines"]);
    assert_eq!(was_here, kernel_has_sched_ext());
    assert!(was_here || call.contains("--cpus 2 --thread multi --pin "), "{call}");
    let (_, call) = here(&stage, &["policies"]);
    assert!(call.contains("bench-policies --kernel-peers /peers --budget 40m"), "{call}");
    assert!(was_here || call.contains("METASCHED_ROUNDS="), "{call}");
    assert!(was_here || call.contains("/rounds.jsonl"), "{call}");
    stage.set("BENCH_COUNTED", "1");
    let (_, call) = here(&stage, &["policies"]);
    // Rounds of another kind are no part of the same figures.
    assert!(was_here || call.contains("--cpus 1 --thread counted "), "{call}");
    assert!(was_here || call.contains("/rounds-counted.jsonl"), "{call}");
}

#[test]
fn a_bench_that_fails_does_not_pass() {
    let stage = bench_stage();
    stage.program("target/release/bench-sim", "echo half a table; exit 7");
    stage.run("bench.sh", &["sim"]).assert(7, "half a table");
}

/// One where measuring ends with that status.
fn demo_stage(status: i32) -> Stage {
    let stage = Stage::new(&["demo.sh", "steps.sh"]);
    stage.program("bin/cargo", "");
    let measure = format!(
        "echo budgets $DEMO_PROFILE_BUDGET $DEMO_TUNE_BUDGET $DEMO_MECHANISM; exit {status}"
    );
    stage.program("scripts/demo-measure.sh", &measure);
    let metasched = format!("if [ \"$1\" = vm ]; then {measure}; fi");
    stage.program("target/release/metasched", &metasched);
    stage
}

#[test]
fn a_demo_takes_less_time_once_one_has_ended() {
    let stage = demo_stage(0);
    let ended = stage.run("demo.sh", &[]);
    ended.assert(0, "budgets 12m 430s lane");
    let guest = usize::from(!kernel_has_sched_ext());
    assert_eq!(ended.called("metasched vm").len(), guest);
    assert_eq!(ended.called("metasched report").len(), 1);
    stage.run("demo.sh", &[]).assert(0, "budgets 200s 430s lane");
}

#[test]
fn a_demo_that_did_not_end_goes_on_with_all_its_time() {
    let stage = demo_stage(1);
    let ended = stage.run("demo.sh", &[]);
    ended.assert(1, "goes on from there");
    assert_eq!(ended.called("metasched report").len(), 0);
    stage.run("demo.sh", &[]).assert(1, "budgets 12m 430s lane");
    demo_stage(130).run("demo.sh", &[]).assert(130, "stopped");
    demo_stage(5).run("demo.sh", &[]).assert(5, "ended with an error");
}

#[test]
fn a_page_alone_wants_a_store_and_shows_the_benches_that_ran() {
    let stage = demo_stage(0);
    stage.run("demo.sh", &["--report-only"]).assert(3, "nothing to report on yet");
    stage.run("demo.sh", &["--report"]).assert(2, "unknown option '--report'");
    stage.write(".cache/demo/results.db", "");
    stage.write(".cache/bench/switch/output.txt", "a table");
    stage.write(".cache/bench/cost/output.txt", "");
    let ended = stage.run("demo.sh", &["--report-only"]);
    ended.assert(0, "");
    let report = ended.calls.last().unwrap();
    assert!(report.ends_with(" --bench .cache/bench/switch/output.txt"), "{report}");
    assert_eq!(report.matches("--bench").count(), 1, "{report}");
    assert_eq!(ended.called("metasched vm").len() + ended.called("demo-measure").len(), 0);
}

#[test]
fn one_published_scheduler_is_enough_and_those_that_are_there_are_not_built() {
    let mut stage = Stage::new(&["peers.sh"]);
    stage.program("bin/clang-19", "");
    stage.program(
        "bin/cargo",
        "name=${!#}\n[ $name != scx_lavd ] || exit 101\nmkdir -p $CARGO_TARGET_DIR\n\
         touch $METASCHED_CACHE_ROOT/peers/bin/$name\nchmod +x $METASCHED_CACHE_ROOT/peers/bin/$name",
    );
    stage.set("METASCHED_CACHE_ROOT", stage.path("cache"));
    let ended = stage.run("peers.sh", &["scx_lavd"]);
    ended.assert(1, "0 of 1 in");
    let ended = stage.run("peers.sh", &["scx_lavd", "scx_rusty"]);
    ended.assert(0, "1 did not build: scx_lavd");
    assert!(stage.path("cache/peers/target").exists(), "the next call goes on there");
    let ended = stage.run("peers.sh", &["scx_rusty"]);
    ended.assert(0, "scx_rusty: already there");
    assert_eq!(ended.called("cargo").len(), 0);
    assert!(!stage.path("cache/peers/target").exists());
    assert_eq!(stage.run("peers.sh", &[]).called("cargo").len(), 3, "four, one of them is there");
}

/// One whose archive has that version, and where every scheduler of the kernel's tools builds but one.
fn kernel_peers_stage(version: &str) -> Stage {
    let mut stage = Stage::new(&["kernel-peers.sh"]);
    for tool in ["clang-19", "gcc", "bpftool"] {
        stage.program(&format!("bin/{tool}"), "");
    }
    // Of `make -C FOLDER NAME O=OUT ...`.
    stage.program(
        "bin/make",
        "[ $3 != scx_pair ] || exit 2\nbin=${4#O=}/build/bin\nmkdir -p $bin\n\
         echo built >$bin/$3\nchmod +x $bin/$3",
    );
    stage.program("bin/apt-get", "touch linux-bpf-dev_7.deb");
    stage.program("bin/dpkg-deb", "mkdir -p types; touch types/vmlinux.h");
    stage.program("scripts/kernel-source.sh", &format!("[ $1 != --version ] || echo {version}"));
    stage.set("METASCHED_CACHE_ROOT", stage.path("cache"));
    stage
}

#[test]
fn schedulers_of_the_kernels_tools_are_built_once_for_each_version() {
    let stage = kernel_peers_stage("7.3.4-1");
    let folder = stage.path("cache/kernel-peers/7.3.4-1");
    let run = |arguments: &[&str], status: i32, says: &str| {
        let ended = stage.run("kernel-peers.sh", arguments);
        ended.assert(status, says);
        let built = ended.called("make ").len();
        (built, ended.out.trim_end() == folder.to_str().unwrap())
    };
    assert_eq!(run(&[], 2, "kernel-peers.sh NAME"), (0, false));
    assert_eq!(run(&["scx_simple"], 0, "building scx_simple"), (1, true));
    // Only what is asked for and not there is built; one of them is enough.
    assert_eq!(run(&["scx_simple"], 0, ""), (0, true));
    assert_eq!(run(&["scx_simple", "scx_pair"], 0, "scx_pair does not build"), (1, true));
    assert_eq!(run(&["scx_pair"], 1, "none of them builds"), (1, false));
    let left = fs::read_dir(stage.path("cache/kernel-peers")).unwrap().count();
    assert_eq!(left, 1, "a build leaves its folder");

    // Nothing can be fetched, or not even asked for.
    for source in ["[ $1 = --version ] && echo 7.4.0-1", "exit 4"] {
        stage.program("scripts/kernel-source.sh", source);
        assert_eq!(run(&["scx_simple"], 0, "taking what was built before"), (0, true));
        assert_eq!(run(&["scx_qmap"], 1, "none of them was built before"), (0, false));
    }
    stage.program("scripts/kernel-source.sh", "[ $1 != --version ] || echo 7.4.0-1");
    let ended = stage.run("kernel-peers.sh", &["scx_simple"]);
    ended.assert(0, "building scx_simple");
    assert!(ended.out.ends_with("/7.4.0-1\n"), "{}", ended.out);
}

#[test]
fn guests_have_a_published_scheduler_on_their_path_or_the_tests_have_failed() {
    let stage = Stage::new(&["test.sh", "test-in-guest.sh"]);
    // One program with one test, as cargo tells of it.
    let program = stage.path("deps/guest-0a1b");
    stage.program("deps/guest-0a1b", "echo 'one: test'");
    let message = format!(
        "{{\"executable\": \"{}\", \"profile\": {{\"test\": true}}, \
         \"manifest_path\": \"/crates/profile/Cargo.toml\"}}",
        program.display()
    );
    let message = stage.write("message", &message);
    stage.program("bin/cargo", &format!("cat {}", message.display()));
    let passed = log("rust-passed");
    // The guest, with which the test ends.
    let guest = format!(
        "echo \"guest finds $PATH\"\nout={}\ncp {passed} $out/1.log\necho 0 >$out/1.status",
        stage.path(".cache/test/guest").display()
    );
    stage.program("target/release/metasched", &guest);
    stage.program("scripts/kernel-peers.sh", "echo /peers/7.3");
    let ended = stage.run("test.sh", &["guest"]);
    ended.assert(0, "test: 2 passed, 0 failed\n");
    ended.assert(0, "guest finds /peers/7.3:");
    assert_eq!(ended.called("kernel-peers.sh"), ["kernel-peers.sh scx_simple"]);
    stage.program("scripts/kernel-peers.sh", "exit 1");
    let ended = stage.run("test.sh", &["guest"]);
    ended.assert(1, "FAILED guest: there is no published scheduler for the tests");
    ended.assert(1, "test: 2 passed, 1 failed\n");
}

/// What `archive.sh` makes of sources: the archive and that of security updates.
fn archives(stage: &Stage) -> String {
    stage.write(
        "scripts/ask.sh",
        ". \"$(dirname \"$0\")/archive.sh\"; echo $MIRROR, $SECURITY_MIRROR",
    );
    let ended = stage.run("ask.sh", &[]);
    ended.assert(0, "");
    ended.out.trim_end().to_owned()
}

#[test]
fn the_archive_is_where_the_machines_own_sources_say() {
    let mut stage = Stage::new(&["archive.sh"]);
    stage.set("METASCHED_ROOT", stage.path(""));
    stage.write("etc/apt/sources.list", "# deb http://no.example/debian bookworm main\n");
    assert_eq!(archives(&stage), ", -security");
    let list = "deb [arch=amd64] http://one.example/debian/ bookworm main\n\
                deb http://two.example/debian bookworm-backports main\n\
                deb http://other.example/ubuntu noble main\n";
    stage.write("etc/apt/sources.list", list);
    assert_eq!(archives(&stage), "http://one.example/debian, http://one.example/debian-security");
    let security = "deb http://zero.example/debian-security bookworm-security main\n";
    stage.write("etc/apt/sources.list", &format!("{security}{list}"));
    assert_eq!(archives(&stage), "http://one.example/debian, http://zero.example/debian-security");
    stage.write("etc/apt/sources.list", "");
    let sources = "Types: deb\nURIs: https://safe.example/debian\nSuites: bookworm\n";
    stage.write("etc/apt/sources.list.d/debian.sources", sources);
    assert_eq!(
        archives(&stage),
        "https://safe.example/debian, https://safe.example/debian-security"
    );
    stage.set("METASCHED_DEBIAN_MIRROR", "http://mine.example/debian");
    stage.set("METASCHED_SECURITY_MIRROR", "http://mine.example/security");
    assert_eq!(archives(&stage), "http://mine.example/debian, http://mine.example/security");
}

/// One where every step in the new root takes no time; `make test` ends with that status.
fn fresh_stage(id: u32, status: i32) -> Stage {
    let mut stage = Stage::new(&["fresh.sh", "archive.sh"]);
    stage.program("bin/id", &format!("echo {id}"));
    stage.program("bin/debootstrap", "");
    stage.program("bin/unshare", "");
    stage.program("bin/apt-config", "");
    // Asked for its commit, it has one.
    stage.program("bin/git", "[ $1 != rev-parse ] || echo 0a1b2c3d");
    stage.program(
        "bin/setpriv",
        &format!(
            "case \"$*\" in\n\
             *debootstrap*) root=${{@: -2:1}}; mkdir -p $root/usr/sbin $root/etc/apt/apt.conf.d\n\
             echo 12.15 >$root/etc/debian_version ;;\n\
             *' test') exit {status} ;;\nesac"
        ),
    );
    stage.set("METASCHED_DEBIAN_MIRROR", "http://one.example/debian");
    stage
}

fn roots_left(stage: &Stage) -> usize {
    let entries = fs::read_dir(stage.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    entries.filter(|name| name.to_str().unwrap().starts_with("metasched-fresh.")).count()
}

#[test]
fn a_new_root_runs_both_commands_and_fails_if_one_does() {
    let stage = fresh_stage(0, 0);
    let ended = stage.run("fresh.sh", &[]);
    ended.assert(0, "fresh:   make test: 0:00:0");
    assert_eq!(ended.called("setpriv").len(), 3, "{:?}", ended.calls);
    assert_eq!(roots_left(&stage), 0);

    let stage = fresh_stage(0, 9);
    stage.run("fresh.sh", &[]).assert(1, "failed with status 9");
    let ended = stage.run("fresh.sh", &["--only", "demo", "--keep"]);
    ended.assert(0, "the root is left in");
    assert_eq!(ended.called("setpriv").len(), 2, "{:?}", ended.calls);
    assert_eq!(roots_left(&stage), 1);
}

#[test]
fn a_new_root_that_cannot_be_is_refused_before_anything_is_done() {
    let stage = fresh_stage(0, 0);
    stage.run("fresh.sh", &["--only", "all"]).assert(2, "there is no step 'all'");
    stage.run("fresh.sh", &["--fast"]).assert(2, "unknown option '--fast'");
    let user = fresh_stage(1000, 0);
    let ended = user.run("fresh.sh", &[]);
    ended.assert(6, "root is needed");
    assert_eq!(ended.called("setpriv").len() + roots_left(&user), 0);
    stage.program("bin/setpriv", "exit 1");
    stage.run("fresh.sh", &[]).assert(1, "cannot make a root of bookworm");
    assert_eq!(roots_left(&stage), 0);
}

/// A guest that says `guest` and ends with `status`.
fn image_stage(guest: &str, status: i32) -> Stage {
    let stage = Stage::new(&["test-image.sh"]);
    for tool in ["taskset", "hackbench", "stress-ng", "bpftool", "ldd"] {
        stage.program(&format!("bin/{tool}"), "");
    }
    stage.program("bin/qemu-system-x86_64", "");
    stage.program("scripts/kernel-peers.sh", "echo /peers");
    stage.program(
        "bin/apt-cache",
        "echo linux-binary-7.0.13+deb14-amd64; echo linux-binary-7.0.1-x",
    );
    stage.program("bin/apt-get", "touch a.deb");
    stage.program("bin/dpkg-deb", "mkdir -p kernel/boot; touch kernel/boot/vmlinuz-7.0.13");
    for name in ["loader", "control", "faulty"] {
        stage.program(&format!("deps/guest-{name}"), "");
    }
    let line = |name: &str| {
        format!(
            "{{\"executable\": \"{}\", \"profile\": {{\"test\": true}}, \
             \"manifest_path\": \"/crates/{name}/Cargo.toml\"}}",
            stage.path(&format!("deps/guest-{name}")).display()
        )
    };
    let messages = ["loader", "control", "faulty"].map(line).join("\n");
    let messages = stage.write("messages", &messages);
    let cargo = format!("[ $1 != test ] || cat {}", messages.display());
    stage.program("bin/cargo", &cargo);
    let said = stage.write("said", guest);
    let vm = format!("cat {}; exit {status}", said.display());
    stage.program("target/release/metasched", &vm);
    stage
}

#[test]
fn an_old_kernel_passes_if_tests_ran_there_and_all_came_to_their_end() {
    let passed = "test result: ok. 5 passed; 0 failed; 1 ignored\n";
    let run = |guest: &str, status: i32, version: &str| {
        image_stage(guest, status).run("test-image.sh", &[version])
    };
    let ended = run(&format!("{passed}{passed}"), 0, "7.0.13");
    ended.assert(0, "test-image: linux-binary-7.0.13+deb14-amd64: 10 passed, 0 failed");
    let failed = "test result: FAILED. 5 passed; 1 failed; 0 ignored\n";
    run(&format!("{failed}{passed}"), 101, "7.0.13").assert(1, "10 passed, 1 failed");
    run("test result: ok. 0 passed; 0 failed\n", 0, "7.0.13").assert(1, "0 passed");
    // The guest ended before the tests did.
    run(passed, 1, "7.0.13").assert(1, "5 passed");
    // A version is all of it.
    for version in ["7.0.1", "7.0"] {
        run(passed, 0, version).assert(4, &format!("the archive has no linux-binary-{version}*"));
    }
    run(passed, 0, "lanes::").assert(2, "scripts/test-image.sh 7.0.13");
}

/// One with traces of metasched in a root of its own, which installed two packages.
fn uninstall_stage(id: u32) -> Stage {
    let mut stage = Stage::new(&["remove-deps.sh"]);
    stage.program("bin/id", &format!("echo {id}"));
    stage.program("bin/getent", "");
    stage.program("bin/dpkg-query", "echo 'ii wrk'; echo 'rc cpio'; echo 'ii libluajit:amd64'");
    stage.program(
        "bin/apt-get",
        "[ $2 != --simulate ] || printf 'Remv wrk [1]\\nRemv libluajit [2]\\n'",
    );
    stage.set("METASCHED_ROOT", stage.path("root"));
    for path in ["var/lib/metasched/installed", "run/metasched/lock", "var/cache/metasched/file"] {
        stage.write(&format!("root/{path}"), "wrk\ncpio\nlibluajit\n");
    }
    stage.write("root/var/cache/other/file", "");
    stage
}

#[test]
fn what_is_removed_is_ours_and_was_agreed_to() {
    let stage = uninstall_stage(0);
    // There is nobody to agree.
    stage.run("remove-deps.sh", &[]).assert(1, "nothing was removed");
    assert!(stage.path("root/var/lib/metasched/installed").exists());
    let ended = stage.run("remove-deps.sh", &["--yes"]);
    ended.assert(0, "apt-get remove wrk libluajit\n");
    assert_eq!(ended.called("apt-get").len(), 0, "packages stay");
    for path in ["var/lib/metasched", "run/metasched", "var/cache/metasched"] {
        assert!(!stage.path("root").join(path).exists(), "{path}");
    }
    assert!(stage.path("root/var/cache/other/file").exists());
    stage.run("remove-deps.sh", &["--yes"]).assert(0, "nothing of metasched is on this machine");
    uninstall_stage(1000).run("remove-deps.sh", &["--yes"]).assert(6, "root is needed");
}

#[test]
fn packages_go_only_if_no_others_would_go_with_them() {
    let mut stage = uninstall_stage(0);
    stage.set("PURGE", "1");
    let ended = stage.run("remove-deps.sh", &["--yes"]);
    ended.assert(0, "done");
    assert_eq!(ended.calls.last().unwrap(), "apt-get remove --yes --quiet wrk libluajit");
    let mut stage = uninstall_stage(0);
    stage.set("PURGE", "1");
    stage.program("bin/apt-get", "printf 'Remv wrk [1]\\nRemv nginx [2]\\n'");
    let ended = stage.run("remove-deps.sh", &["--yes"]);
    ended.assert(5, "would go too: nginx;");
    assert_eq!(ended.called("apt-get").len(), 1);
    assert!(stage.path("root/var/lib/metasched").exists());
}

#[test]
fn nothing_is_removed_under_one_that_is_at_work() {
    let stage = uninstall_stage(0);
    let lock = fs::File::open(stage.path("root/run/metasched/lock")).unwrap();
    lock.lock().unwrap();
    stage.run("remove-deps.sh", &["--yes"]).assert(5, "a metasched is at work");
    assert!(stage.path("root/var/cache/metasched/file").exists());
}

#[test]
fn every_recorded_log_is_used() {
    let source = fs::read_to_string(root().join("crates/base/tests/scripts.rs")).unwrap();
    for entry in fs::read_dir(root().join("crates/base/tests/logs")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(source.contains(&format!("\"{name}\"")), "logs/{name}.txt: use or delete it");
    }
}

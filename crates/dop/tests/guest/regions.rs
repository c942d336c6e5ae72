//! Programs with real runtimes, the library preloaded into them, and a host that writes their page.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::host::{A_LOOK, Host, Regions, THREADS, compile, figure, library, output};

/// Tests that each runtime has to pass.
macro_rules! with_each_runtime {
    ($($name:ident)*) => {
        mod gnu {
            $(#[test] fn $name() { super::$name("cc"); })*
        }
        #[cfg(target_arch = "x86_64")]
        mod llvm {
            $(#[test] fn $name() { super::$name("clang-19"); })*
        }
    };
}

with_each_runtime! {
    threads_follow_phantoms_and_idle_cpus
    every_kind_of_region_follows
    clauses_are_obeyed_if_nothing_else_is_said
    clauses_are_adapted_if_that_is_said
    a_clause_is_no_other_regions
    regions_within_regions_are_left_as_they_are
    regions_within_one_of_a_single_thread_follow
    other_threads_follow
    a_fork_follows
    what_the_program_reads_stays
    the_line_goes_to_standard_error_and_to_no_file_in_its_place
    a_page_that_stands_still_is_left
    a_page_that_a_dead_host_left_behind_is_not_followed
    a_page_that_goes_is_left_and_a_new_one_is_followed
    a_page_of_another_version_is_not_followed
    without_a_page_nothing_changes
    rubbish_in_the_page_does_no_harm
    a_page_that_gets_shorter_at_any_time_does_no_harm
    a_runtime_that_only_a_plugin_has_is_found
}

fn regions(host: &Host, compiler: &str) -> PathBuf {
    compile(host.folder(), compiler, "regions", &["-fopenmp"])
}

/// The program runs and was told of three phantoms, so that regions have five threads.
fn told_of_three(compiler: &str) -> (Host, Regions) {
    let mut host = Host::new();
    let program = regions(&host, compiler);
    let mut running = Regions::start(&mut host.command(&program));
    assert_eq!(running.after(&mut host, 3.0, 0.0), 5);
    (host, running)
}

fn threads_follow_phantoms_and_idle_cpus(compiler: &str) {
    let (mut host, mut running) = told_of_three(compiler);
    let told = [(0.0, 0.0), (2.25, 0.0), (0.0, 0.25), (0.0, 1.0), (64.0, 0.0), (0.0, 64.0)];
    let threads: Vec<u32> =
        told.iter().map(|(phantoms, idle)| running.after(&mut host, *phantoms, *idle)).collect();
    assert_eq!(threads, [5, 3, 3, 4, 1, 8]);
    running.end();
    let logged = host.logged();
    let [line] = logged.as_slice() else { panic!("{logged:?}") };
    assert_eq!(figure(line, "regions"), 7.0, "{line}");
    assert_eq!(figure(line, "adapted"), 6.0, "{line}");
    assert_eq!(figure(line, "windows"), 7.0, "{line}");
    assert_eq!(figure(line, "alone"), 0.0, "{line}");
    assert_eq!(figure(line, "threads_mean"), 4.14, "{line}");
}

/// GNU's runtime would have them spin until there is a region of several threads again.
#[test]
fn threads_that_spin_end_where_one_is_left() {
    let mut host = Host::new();
    let program = regions(&host, "cc");
    for (policy, left) in [("active", 1), ("passive", THREADS as usize)] {
        let mut running = Regions::start(host.command(&program).env("OMP_WAIT_POLICY", policy));
        assert_eq!(running.after(&mut host, 0.0, 0.0), THREADS);
        assert_eq!(running.after(&mut host, 64.0, 0.0), 1);
        // They end by themselves, a moment later.
        let end = Instant::now() + Duration::from_secs(10);
        while running.alive() != left {
            assert!(Instant::now() < end, "{policy}: {} of {left}", running.alive());
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(running.after(&mut host, 0.0, 3.0), 4);
        assert_eq!(running.after(&mut host, 64.0, 0.0), 1);
        assert_eq!(running.threads("for_dynamic"), 1);
        assert_eq!(running.after(&mut host, 0.0, 64.0), THREADS);
        running.end();
    }
}

fn every_kind_of_region_follows(compiler: &str) {
    let (_host, mut running) = told_of_three(compiler);
    for kind in [
        "for_static",
        "for_dynamic",
        "for_guided",
        "for_runtime",
        "for_nonmonotonic_dynamic",
        "for_nonmonotonic_guided",
        "for_nonmonotonic_runtime",
        "for_maybe_nonmonotonic_runtime",
        "sections",
        "task_reduction",
        "tasks",
    ] {
        assert_eq!(running.threads(kind), 5, "{kind}");
    }
    running.end();
}

fn clauses_are_obeyed_if_nothing_else_is_said(compiler: &str) {
    let (mut host, mut running) = told_of_three(compiler);
    assert_eq!(running.after(&mut host, 3.0, 0.0), 2);
    assert_eq!(running.threads("with_clause"), 4);
    assert_eq!(running.threads("plain"), 2, "it is not reckoned from the clause");
    running.end();
    assert_eq!(figure(&host.logged()[0], "clauses"), 1.0);
}

fn clauses_are_adapted_if_that_is_said(compiler: &str) {
    let mut host = Host::new();
    let program = regions(&host, compiler);
    let mut command = host.command(&program);
    let mut running = Regions::start(command.env("METASCHED_DOP_CLAUSES", "adapt"));
    assert_eq!(running.after(&mut host, 6.0, 0.0), 2);
    assert_eq!(running.threads("with_clause"), 2);
    host.write(0.0, 5.0);
    thread::sleep(A_LOOK);
    assert_eq!(running.threads("with_clause"), 4);
    running.end();
    assert_eq!(figure(&host.logged()[0], "clauses"), 0.0);
}

fn a_clause_is_no_other_regions(compiler: &str) {
    let (_host, mut running) = told_of_three(compiler);
    assert_eq!(running.threads("with_false_if"), 1);
    assert_eq!(running.threads("plain"), 5);
    running.end();
}

fn regions_within_regions_are_left_as_they_are(compiler: &str) {
    let (_host, mut running) = told_of_three(compiler);
    assert_eq!(running.threads("nested"), THREADS);
    assert_eq!(running.threads("plain"), 5);
    running.end();
}

fn regions_within_one_of_a_single_thread_follow(compiler: &str) {
    let (_host, mut running) = told_of_three(compiler);
    assert_eq!(running.threads("within_one"), 5);
    running.end();
}

fn other_threads_follow(compiler: &str) {
    let (mut host, mut running) = told_of_three(compiler);
    for _ in 0..3 {
        assert_eq!(running.threads("other_thread"), 5);
    }
    // The others are gone, so all of the correction is the main thread's.
    assert_eq!(running.after(&mut host, 2.0, 0.0), 3);
    running.end();
}

fn a_fork_follows(compiler: &str) {
    let mut host = Host::new();
    let program = regions(&host, compiler);
    let mut running = Regions::start(&mut host.command(&program));
    // GNU's runtime has no regions in a child if the parent had any with several threads. LLVM's is
    // not told of those with one.
    running.threads(if compiler == "cc" { "with_false_if" } else { "with_clause" });
    let threads = thread::scope(|scope| {
        let child = scope.spawn(|| running.threads("in_child"));
        while !child.is_finished() {
            host.write(3.0, 0.0);
            thread::sleep(A_LOOK);
        }
        child.join().unwrap()
    });
    assert!((1..THREADS).contains(&threads), "{threads}");
    assert_eq!(running.after(&mut host, 3.0, 0.0), 5, "the parent's books are its own");
    running.end();
    let logged = host.logged();
    let [child, parent] = logged.as_slice() else { panic!("{logged:?}") };
    assert_ne!(figure(child, "pid"), figure(parent, "pid"));
    let clauses = [child, parent].map(|line| figure(line, "clauses"));
    assert_eq!(clauses, [0.0, 1.0], "so are the child's: {logged:?}");
}

fn the_line_goes_to_standard_error_and_to_no_file_in_its_place(compiler: &str) {
    let host = Host::new();
    let program = regions(&host, compiler);
    let said = host.folder().join("said");
    let run = |kinds: &[&str]| {
        let mut command = host.command(&program);
        command.env("METASCHED_DOP_LOG", "stderr").current_dir(host.folder());
        let mut running = Regions::start(command.stderr(File::create(&said).unwrap()));
        kinds.iter().for_each(|kind| assert!(running.threads(kind) > 0));
        running.end();
        fs::read_to_string(&said).unwrap()
    };
    let line = run(&["plain"]);
    assert!(line.starts_with("metasched-dop: ") && line.contains(" regions=1 "), "{line}");
    assert_eq!(run(&["plain", "own_file"]), "");
    assert_eq!(fs::read_to_string(host.folder().join("own")).unwrap(), "");
}

fn what_the_program_reads_stays(compiler: &str) {
    let (_host, mut running) = told_of_three(compiler);
    assert_eq!(running.threads("max_threads"), THREADS);
    running.end();
}

fn a_page_that_stands_still_is_left(compiler: &str) {
    let mut host = Host::new();
    host.window = Duration::from_millis(100);
    let program = regions(&host, compiler);
    let mut running = Regions::start(&mut host.command(&program));
    // This machine may be so busy that we are late ourselves.
    let followed = (0..100).any(|_| running.after(&mut host, 3.0, 0.0) < THREADS);
    assert!(followed, "the page was never followed");
    thread::sleep(3 * host.window);
    assert_eq!(running.threads("plain"), THREADS);
    running.end();
    let logged = host.logged();
    assert!(logged[0].ends_with("why=the page stands still"), "{logged:?}");
}

fn a_page_that_a_dead_host_left_behind_is_not_followed(compiler: &str) {
    let mut host = Host::new();
    host.write(3.0, 0.0);
    let program = regions(&host, compiler);
    let mut running = Regions::start(&mut host.command(&program));
    assert_eq!(running.threads("plain"), THREADS);
    running.end();
    let logged = host.logged();
    assert!(logged[0].ends_with("why=the page was not yet seen to change"), "{logged:?}");
    assert_eq!(figure(&logged[0], "alone"), 1.0);
}

/// Longer than until a page is looked for again.
const A_SEARCH: Duration = Duration::from_millis(200);

fn a_page_that_goes_is_left_and_a_new_one_is_followed(compiler: &str) {
    let (mut host, mut running) = told_of_three(compiler);
    let ways: [fn(&Host); 3] =
        [|host| host.truncate(100), Host::remove, |host| host.write_bytes(&[0; 64])];
    for go in ways {
        go(&host);
        thread::sleep(A_LOOK);
        assert_eq!(running.threads("plain"), THREADS);
        thread::sleep(A_SEARCH);
        host.make();
        host.write(0.0, 0.0);
        assert_eq!(running.threads("plain"), THREADS, "it may have been left behind");
        assert_eq!(running.after(&mut host, 3.0, 0.0), 5);
    }
    running.end();
}

fn a_page_of_another_version_is_not_followed(compiler: &str) {
    let (mut host, mut running) = told_of_three(compiler);
    for _ in 0..2 {
        host.write_version(2, 3.0, 0.0);
        thread::sleep(A_SEARCH);
        assert_eq!(running.threads("plain"), THREADS);
    }
    running.end();
    let logged = host.logged();
    assert!(logged[0].ends_with("why=the page is of version 2, and this reads 1"), "{logged:?}");
}

fn without_a_page_nothing_changes(compiler: &str) {
    let host = Host::new();
    let program = regions(&host, compiler);
    host.remove();
    let mut running = Regions::start(&mut host.command(&program));
    for kind in ["plain", "for_dynamic", "sections"] {
        assert_eq!(running.threads(kind), THREADS);
    }
    assert_eq!(running.threads("with_clause"), 4);
    running.end();
    let logged = host.logged();
    assert!(logged[0].contains("why=cannot read the page: No such file"), "{logged:?}");
    assert_eq!((figure(&logged[0], "alone"), figure(&logged[0], "adapted")), (3.0, 0.0));
}

/// Has somebody spoil the page again and again until the program has run thousands of regions.
fn spoilt(compiler: &str, spoil: impl Fn(&mut Host, &mut ChaCha8Rng) + Sync) {
    /// The page is looked at once in a millisecond, and regions of one thread are over sooner.
    const AT_LEAST: Duration = Duration::from_millis(300);
    let (mut host, mut running) = told_of_three(compiler);
    let done = AtomicBool::new(false);
    let mut runs = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = ChaCha8Rng::seed_from_u64(16);
            while !done.load(Ordering::Relaxed) {
                spoil(&mut host, &mut random);
                thread::sleep(Duration::from_micros(100));
            }
        });
        // The program checks what it reckons, and tells only if all is right.
        let began = Instant::now();
        while runs < 3 || began.elapsed() < AT_LEAST {
            let threads = running.threads("many");
            assert!((1..=THREADS).contains(&threads), "{threads}");
            runs += 1;
        }
        done.store(true, Ordering::Relaxed);
    });
    running.end();
    let logged = host.logged();
    let (regions, alone) = (figure(&logged[0], "regions"), figure(&logged[0], "alone"));
    assert_eq!(regions, f64::from(2000 * runs + 1));
    assert!(alone > 0.0 && figure(&logged[0], "adapted") > 0.0, "{logged:?}");
}

fn rubbish_in_the_page_does_no_harm(compiler: &str) {
    spoilt(compiler, |host, random| {
        let mut bytes = [0; 64];
        random.fill_bytes(&mut bytes);
        match random.random_range(0..4) {
            0 => host.write_bytes(&bytes),
            // Whose head is right, so that the numbers are read.
            1 => {
                bytes[..16].copy_from_slice(b"MSCHEDPV\x01\0\0\0\x02\0\0\0");
                host.write_bytes(&bytes);
            }
            _ => host.write(3.0, 0.0),
        }
    });
}

fn a_page_that_gets_shorter_at_any_time_does_no_harm(compiler: &str) {
    spoilt(compiler, |host, random| {
        if random.random_range(0..4) == 0 {
            host.truncate(random.random_range(0..4096));
        } else {
            host.truncate(4096);
            host.write(3.0, 0.0);
        }
    });
}

fn plugin(folder: &Path, compiler: &str) -> PathBuf {
    compile(folder, compiler, "plugin", &["-fopenmp", "-shared", "-fPIC"])
}

fn a_runtime_that_only_a_plugin_has_is_found(compiler: &str) {
    let mut host = Host::new();
    let program = compile(host.folder(), "cc", "host", &[]);
    let plugin = plugin(host.folder(), compiler);
    let mut running = Regions::start(host.command(&program).arg(plugin));
    assert_eq!(running.after(&mut host, 3.0, 0.0), 5);
    running.end();
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_program_with_both_runtimes_has_one_number() {
    let mut host = Host::new();
    let program = compile(host.folder(), "cc", "host", &[]);
    let plugins = ["cc", "clang-19"].map(|compiler| plugin(host.folder(), compiler));
    let mut running = Regions::start(host.command(&program).args(plugins));
    host.write(3.0, 0.0);
    thread::sleep(A_LOOK);
    assert_eq!(running.ask(""), "5 5");
    running.end();
}

/// LLVM's runtime has GNU's entry points, too. What is linked to it must not come to the other.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_call_goes_to_the_runtime_to_which_its_caller_is_linked() {
    let mut host = Host::new();
    let program = compile(host.folder(), "cc", "host", &[]);
    let object = compile(host.folder(), "cc", "plugin", &["-fopenmp", "-fPIC", "-c"]);
    let llvms = host.folder().join("llvms.so");
    let runtime = "/usr/lib/llvm-19/lib/libomp.so";
    output(Command::new("cc").arg("-shared").arg("-o").args([&llvms, &object]).arg(runtime));
    // In the place of the object file.
    let gnus = plugin(host.folder(), "cc");
    let mut running = Regions::start(host.command(&program).args([gnus, llvms]));
    host.write(3.0, 0.0);
    thread::sleep(A_LOOK);
    assert_eq!(running.ask(""), "5 5");
    running.end();
}

#[test]
fn code_of_older_compilers_follows() {
    let mut host = Host::new();
    let program = compile(host.folder(), "cc", "old", &["-fopenmp"]);
    let mut running = Regions::start(&mut host.command(&program));
    host.write(3.0, 0.0);
    thread::sleep(A_LOOK);
    let mut said = running.ask("");
    for kind in ["plain", "sections", "static", "dynamic", "guided", "runtime", "static_since"] {
        assert_eq!(said, format!("{kind} 5 right"));
        said = running.line();
    }
    running.end();
}

/// Clang has an own call for an `if`, where it builds regions as Flang does.
#[test]
#[cfg(target_arch = "x86_64")]
fn regions_with_an_if_follow() {
    let mut host = Host::new();
    let options = ["-fopenmp", "-Xclang", "-fopenmp-enable-irbuilder"];
    let program = compile(host.folder(), "clang-19", "conditional", &options);
    let used = names(&program, "--undefined-only");
    assert!(used.iter().any(|name| name == "__kmpc_fork_call_if"), "{used:?}");
    let mut running = Regions::start(&mut host.command(&program));
    host.write(3.0, 0.0);
    thread::sleep(A_LOOK);
    let threads = ["yes", "false", "yes", "nested", "yes"].map(|line| running.threads(line));
    assert_eq!(threads, [5, 1, 5, 1, 5]);
    running.end();
    // All but the one within a region and the one that is none.
    assert_eq!(figure(&host.logged()[0], "regions"), 4.0);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn clauses_of_newer_compilers_are_left_as_they_are() {
    let mut host = Host::new();
    let runtime = compile(host.folder(), "cc", "newer", &["-shared", "-fPIC"]);
    let program = compile(host.folder(), "cc", "newer_user", &[runtime.to_str().unwrap()]);
    for (clauses, expected) in [("obey", [5, 7, 7, 7, 7, 7, 5]), ("adapt", [5, 5, 5, 7, 7, 7, 5])] {
        let mut command = host.command(&program);
        let mut running = Regions::start(command.env("METASCHED_DOP_CLAUSES", clauses));
        host.write(3.0, 0.0);
        thread::sleep(A_LOOK);
        for (line, threads) in ["", "c", "i", "s", "l", "b", ""].iter().zip(expected) {
            assert_eq!(running.ask(line), format!("{threads} 55"), "{line} {clauses}");
        }
        running.end();
    }
}

/// The names that a file defines, or uses with `--undefined-only`.
fn names(file: &Path, which: &str) -> Vec<String> {
    let said = output(Command::new("nm").args(["-D", "--format=just-symbols", which]).arg(file));
    said.lines().map(|name| name.split('@').next().unwrap().to_string()).collect()
}

fn starters(names: &[String]) -> Vec<String> {
    let starts = |name: &&String| name.starts_with("GOMP_parallel") && !name.ends_with("_end");
    names.iter().filter(starts).cloned().collect()
}

#[test]
fn we_stand_before_all_that_starts_regions_in_gnus_runtime() {
    let runtime = output(Command::new("cc").arg("-print-file-name=libgomp.so"));
    let theirs = starters(&names(Path::new(runtime.trim()), "--defined-only"));
    assert!(theirs.len() >= 17, "{theirs:?}");
    let mut ours = starters(&names(&library(), "--defined-only"));
    let mut theirs = theirs;
    ours.sort();
    theirs.sort();
    assert_eq!(ours, theirs);
}

/// Else the tests above would not have run what they say.
#[test]
fn the_tests_programs_start_regions_in_every_way() {
    let host = Host::new();
    let mut used: Vec<String> = ["regions", "old"]
        .iter()
        .flat_map(|name| {
            starters(&names(&compile(host.folder(), "cc", name, &["-fopenmp"]), "--undefined-only"))
        })
        .collect();
    used.sort();
    used.dedup();
    let mut ours = starters(&names(&library(), "--defined-only"));
    ours.sort();
    assert_eq!(used, ours);
}

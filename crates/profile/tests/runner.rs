//! Runs real processes of tiny workloads: no privileges, no sched_ext.

mod support;

use std::fs;
use std::time::{Duration, Instant};

use metasched_base::{Interrupt, Kind};
use metasched_profile::runner::{Application, Observe, RunResult, prepare, stage};
use support::{Lab, metrics};

const SHORT: Duration = Duration::from_secs(1);

/// A form with one process and a load, each a shell command.
fn form(process: &str, ready: &str, load: &str) -> String {
    format!(
        "[form.full]\nsummary = \"all\"\n\
         [form.full.process.app]\ncommand = [\"sh\", \"-c\", '''{process}''']\n{ready}\n\
         [form.full.load]\ncommand = [\"sh\", \"-c\", '''{load}''']\nreads = \"metrics\"\n"
    )
}

/// Stages, starts, and runs the load once.
fn measure(lab: &Lab) -> metasched_base::Result<RunResult> {
    let workload = lab.workload();
    stage(&workload, &lab.site)?;
    let form = workload.manifest.form("full")?.clone();
    let mut application = Application::start(&workload, &form, &lab.site)?;
    let result = application.run(SHORT, Observe::Usage, &[&lab.site.interrupt])?;
    application.stop()?;
    Ok(result)
}

const READY: &str = "ready = { file = \"$METASCHED_RUN/up\", timeout_s = 10 }";

#[test]
fn a_workload_is_started_loaded_and_stopped_and_nothing_stays() {
    let lab = Lab::new(&form(
        "trap 'echo bye > $METASCHED_RUN/bye; exit' TERM; (sleep 1000 &) ; touch $METASCHED_RUN/up; while :; do sleep 0.05; done",
        READY,
        &format!("test -e $METASCHED_RUN/up || exit 3; (sleep 1000 &); {}", metrics(0.1, 20.0)),
    ));
    let result = measure(&lab).unwrap();
    assert_eq!(result.figures.throughput_per_s, 20.0);
    assert_eq!(result.figures.cpu_s, None);
    assert_eq!(lab.left(), Vec::<i32>::new());
    let workload = lab.workload();
    assert!(lab.site.scratch(&workload).join("bye").exists(), "it was asked before it was killed");
}

#[test]
fn a_file_that_an_earlier_start_left_does_not_make_an_application_ready() {
    // The process is slow: with the old file still there, the load would come first.
    let lab = Lab::new(&form(
        "sleep 0.5; echo now > $METASCHED_RUN/state; touch $METASCHED_RUN/up; sleep 1000",
        READY,
        &format!("grep -q now $METASCHED_RUN/state || exit 5; {}", metrics(0.0, 20.0)),
    ));
    measure(&lab).unwrap();
    let state = lab.site.scratch(&lab.workload()).join("state");
    fs::write(&state, "earlier").unwrap();
    measure(&lab).unwrap();
}

#[test]
fn an_application_that_never_gets_ready_is_told_with_its_last_words() {
    let ready = READY.replace("10", "0.4");
    let lab = Lab::new(&form("echo cannot bind port 80 >&2; sleep 1000", &ready, "true"));
    let began = Instant::now();
    let e = measure(&lab).unwrap_err();
    assert_eq!(e.kind, Kind::Timeout);
    assert!(e.cause.contains("not ready after 0.4 s"), "{e}");
    assert!(e.cause.contains("cannot bind port 80"), "{e}");
    assert!(e.remedy.contains("app.log"), "{e}");
    assert!(began.elapsed() < Duration::from_secs(20));
    assert!(lab.left().is_empty());
}

#[test]
fn an_application_that_ends_before_it_is_ready_is_told_at_once() {
    let lab = Lab::new(&form("echo no module named flask >&2; exit 4", READY, "true"));
    let began = Instant::now();
    let e = measure(&lab).unwrap_err();
    assert!(e.cause.contains("'app' ended by itself with exit status 4"), "{e}");
    assert!(e.cause.contains("no module named flask"), "{e}");
    assert!(began.elapsed() < Duration::from_secs(9), "it did not wait for the timeout");
    assert!(lab.left().is_empty());
}

#[test]
fn an_application_that_dies_under_load_ends_the_run_at_once() {
    let lab = Lab::new(&form(
        "touch $METASCHED_RUN/up; sleep 0.3; echo out of memory; kill -KILL $$",
        READY,
        "sleep 1000",
    ));
    let began = Instant::now();
    let e = measure(&lab).unwrap_err();
    assert!(e.cause.contains("SIGKILL"), "{e}");
    assert!(e.cause.contains("out of memory"), "{e}");
    assert!(began.elapsed() < Duration::from_secs(20));
    assert!(lab.left().is_empty());
}

#[test]
fn a_load_that_fails_prints_nonsense_or_nothing_is_told_apart() {
    let cases = [
        ("echo connection refused >&2; exit 7", "exit status 7", "connection refused"),
        ("echo hello", "'hello'", "METASCHED"),
        ("true", "printed nothing", ""),
        ("echo METASCHED 42", "line 1", "'42'"),
    ];
    for (load, one, two) in cases {
        let lab = Lab::new(&form("touch $METASCHED_RUN/up; sleep 1000", READY, load));
        let e = measure(&lab).unwrap_err();
        assert_eq!(e.kind, Kind::Failed, "{e}");
        assert!(e.cause.contains(one) && e.cause.contains(two), "{load}: {e}");
        assert!(e.remedy.contains("load."), "{e}");
        assert!(lab.left().is_empty());
    }
}

#[test]
fn a_load_that_hangs_is_killed_with_all_that_it_started() {
    let text = form("touch $METASCHED_RUN/up; sleep 1000", READY, "sleep 999 & sleep 999")
        + "timeout_s = 0.3\n";
    let lab = Lab::new(&text);
    let e = measure(&lab).unwrap_err();
    assert_eq!(e.kind, Kind::Timeout);
    assert!(e.cause.contains("did not end within 0.3 s"), "{e}");
    assert!(lab.left().is_empty());
}

#[test]
fn a_stop_that_is_asked_for_ends_the_load_at_once() {
    let lab = Lab::new(&form("touch $METASCHED_RUN/up; sleep 1000", READY, "sleep 1000"));
    let workload = lab.workload();
    stage(&workload, &lab.site).unwrap();
    let form = workload.manifest.form("full").unwrap().clone();
    let mut application = Application::start(&workload, &form, &lab.site).unwrap();
    let interrupt = Interrupt::default();
    std::thread::spawn({
        let interrupt = interrupt.clone();
        move || {
            std::thread::sleep(Duration::from_millis(200));
            interrupt.raise();
        }
    });
    let began = Instant::now();
    let e = application.run(SHORT, Observe::Nothing, &[&interrupt]).unwrap_err();
    assert_eq!(e.kind, Kind::Interrupted);
    assert!(began.elapsed() < Duration::from_secs(10));
    drop(application);
    assert!(lab.left().is_empty());
}

#[test]
fn a_command_is_measured_by_its_run_time() {
    let lab = Lab::new(
        "[form.full]\nsummary = \"c\"\nunit = \"runs\"\n\
         [form.full.process.main]\ncommand = [\"sleep\", \"0.2\"]\n",
    );
    let result = measure(&lab).unwrap();
    assert!((0.2..2.0).contains(&result.figures.duration_s), "{:?}", result.figures);
    assert_eq!(result.figures.requests, 1);
}

#[test]
fn preparation_is_done_once_and_again_when_it_was_cut_off_or_the_workload_changed() {
    let run = form("sleep 1000", "", "true");
    let lab = Lab::new("");
    let count = lab.folder.path().join("count");
    let text = format!(
        "schema = 1\nname = \"tiny\"\nsummary = \"a test\"\n\
         [prepare]\ncommand = [\"sh\", \"-c\", \"echo x >> {count}; test ! -e $METASCHED_CACHE/half; echo y > $METASCHED_CACHE/half; test ! -e {stop}\"]\n{run}",
        count = count.display(),
        stop = lab.folder.path().join("stop").display(),
    );
    let manifest = lab.path().join("manifest.toml");
    fs::write(&manifest, &text).unwrap();
    fs::write(lab.folder.path().join("stop"), "").unwrap();
    let e = prepare(&lab.workload(), &lab.site).unwrap_err();
    assert!(e.cause.contains("exit status 1"), "{e}");
    fs::remove_file(lab.folder.path().join("stop")).unwrap();
    // The half that the first try left is not in the way.
    assert!(prepare(&lab.workload(), &lab.site).unwrap().now);
    assert!(!prepare(&lab.workload(), &lab.site).unwrap().now);
    assert_eq!(lab.lines("count"), 2);
    fs::write(&manifest, format!("{text}# changed\n")).unwrap();
    assert!(prepare(&lab.workload(), &lab.site).unwrap().now);
    assert_eq!(lab.lines("count"), 3);
}

#[test]
fn the_two_prepared_folders_used_last_stay_and_so_does_one_in_use() {
    let lab = Lab::new(&form("sleep 1000", "", "true"));
    let manifest = lab.path().join("manifest.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    // Each change makes a folder, known by its number.
    let version = |n: u32| {
        fs::write(&manifest, format!("{text}# {n}\n")).unwrap();
        lab.workload()
    };
    let there = |n: u32| lab.site.cache(&version(n)).exists();
    let prepare = |n: u32| {
        let prepared = prepare(&version(n), &lab.site).unwrap();
        // The times of two uses must differ by what a file system can tell apart.
        std::thread::sleep(Duration::from_millis(20));
        prepared
    };
    let in_use = prepare(0);
    for n in 1..=3 {
        prepare(n);
    }
    assert!(there(0) && !there(1) && there(2) && there(3));
    drop(in_use);
    prepare(2);
    prepare(4);
    assert!(!there(0) && there(2) && !there(3) && there(4));
}

#[test]
fn staging_is_done_once_per_boot() {
    let lab = Lab::new("");
    let text = format!(
        "schema = 1\nname = \"tiny\"\nsummary = \"a test\"\n\
         [stage]\ncommand = [\"sh\", \"-c\", \"echo x >> {}\"]\n{}",
        lab.folder.path().join("count").display(),
        form("sleep 1000", "", "true")
    );
    fs::write(lab.path().join("manifest.toml"), &text).unwrap();
    let workload = lab.workload();
    stage(&workload, &lab.site).unwrap();
    stage(&workload, &lab.site).unwrap();
    assert_eq!(lab.lines("count"), 1);
    fs::write(lab.site.scratch(&workload).join(".metasched-staged"), "another boot").unwrap();
    stage(&workload, &lab.site).unwrap();
    assert_eq!(lab.lines("count"), 2);
    fs::write(lab.path().join("manifest.toml"), format!("{text}# changed\n")).unwrap();
    stage(&lab.workload(), &lab.site).unwrap();
    assert!(!lab.site.scratch(&workload).exists(), "what is no longer used takes no memory");
}

//! The measuring loop with real processes and a store, under schedulers that are
//! played: what is "in force" is a word in a file that the load reads.

mod support;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use metasched_base::{Error, Interrupt, Kind, Result};
use metasched_control::{Mechanism, SwitchRecord};
use metasched_experiment::Rules;
use metasched_profile::manifest::{CommandFailed, Given, Workload};
use metasched_profile::measure::{
    Event, Executor, Options, Outcome, Request, Summary, Work, measure_subjects,
};
use metasched_profile::{Measurement, Query, RunKind, Runs, Store, Subject};
use support::Lab;

/// How a played scheduler dies.
#[derive(Clone, Copy, PartialEq)]
enum Death {
    AtOnce,
    UnderLoad,
}

/// Puts a word into a file.
struct Played {
    file: PathBuf,
    deaths: BTreeMap<&'static str, Death>,
    /// Every subject that was asked for.
    entered: Vec<String>,
}

fn exit(name: &str) -> Error {
    Error::new(Kind::SchedulerExit, format!("keep '{name}' in force"), "runnable task stall")
}

impl Executor for Played {
    fn baseline(&self) -> Result<Subject> {
        Ok(scheduler("eevdf"))
    }

    fn enter(&mut self, subject: &Subject) -> Result<Vec<SwitchRecord>> {
        let name = subject.to_string();
        self.entered.push(name.clone());
        if self.deaths.get(name.as_str()) == Some(&Death::AtOnce) {
            return Err(exit(&name));
        }
        fs::write(&self.file, &name).unwrap();
        Ok(vec![SwitchRecord {
            from: "x".into(),
            to: name,
            mechanism: Mechanism::Swap,
            stop_ns: None,
            start_ns: Some(5),
            write_ns: None,
            total_ns: 6,
        }])
    }

    fn during(&mut self, subject: &Subject, work: Work) -> Result<Vec<SwitchRecord>> {
        work(&Interrupt::default());
        match self.deaths.get(subject.to_string().as_str()) {
            Some(Death::UnderLoad) => Err(exit(&subject.to_string())),
            _ => Ok(Vec::new()),
        }
    }
}

fn scheduler(name: &str) -> Subject {
    Subject::Scheduler { name: name.into(), version: "1".into(), options: Vec::new() }
}

/// Prints metrics by what is in force: the shell function `rate` gives the throughput.
const LOAD: &str = r#"
now=$(cat ../now); echo "$now $METASCHED_DURATION_S" >> ../runs; rate
test -n "$t" || exit 9
echo "METASCHED {\"throughput_per_s\":$t,\"requests\":$t,\"errors\":0,\"duration_s\":1,\"mean_us\":5,\"p50_us\":5,\"p95_us\":6,\"p99_us\":$((100000 / t)),\"p999_us\":100000,\"max_us\":100000}"
"#;

/// A steady load: the same throughput each time, 10 % more under `fast`.
const STEADY: &str = "case $now in fast) t=110;; slow) t=90;; *) t=100;; esac";

/// Every run differs from the one before by more than any precision allows.
const NOISY: &str = "n=$(wc -l < ../runs); t=$((100 + (n * 7919 % 13) * 20))";

fn form(name: &str, rate: &str) -> String {
    format!(
        "[form.{name}]\nsummary = \"x\"\n\
         [form.{name}.process.app]\ncommand = [\"sh\", \"-c\", \"echo x >> ../starts; exec sleep 1000\"]\n\
         [form.{name}.load]\nreads = \"metrics\"\ncommand = [\"sh\", \"-c\", '''rate() {{ {rate}\n}}{LOAD}''']\n"
    )
}

struct Bench {
    lab: Lab,
    store: Store,
    executor: Played,
    options: Options,
    subjects: Vec<Subject>,
    events: Vec<String>,
}

impl Bench {
    fn new(manifest: &str, subjects: &[&str]) -> Self {
        let lab = Lab::new(manifest);
        let store = Store::open(lab.folder.path().join("store.db")).unwrap();
        let executor = Played {
            file: lab.folder.path().join("now"),
            deaths: BTreeMap::new(),
            entered: Vec::new(),
        };
        let options = Options {
            duration: Duration::from_secs(1),
            warmup: Duration::ZERO,
            rules: Rules { min_rounds: 4, max_rounds: 6, precision: 0.05, drop_losers: false },
            trace_runs: 0,
            control_runs: 0,
            ..Options::default()
        };
        let subjects = subjects.iter().map(|name| scheduler(name)).collect();
        Self { lab, store, executor, options, subjects, events: Vec::new() }
    }

    fn measure(&mut self) -> Result<Summary> {
        self.measure_watching(|_| {})
    }

    fn measure_watching(&mut self, watch: impl FnMut(&Event)) -> Result<Summary> {
        let workload = self.lab.workload();
        self.measure_workload(&workload, watch)
    }

    /// A command that the user gave, which a shell reads, in the workload's folder.
    fn measure_command(&mut self, line: &str, given: Given) -> Result<Summary> {
        let words = ["sh", "-c", line].map(str::to_owned);
        let workload = Workload::of_command(&words, &self.lab.path(), given, false);
        self.measure_workload(&workload, |_| {})
    }

    fn measure_workload(
        &mut self,
        workload: &Workload,
        mut watch: impl FnMut(&Event),
    ) -> Result<Summary> {
        let request =
            Request { workload, forms: &[], subjects: &self.subjects, options: &self.options };
        let events = RefCell::new(Vec::new());
        let result = measure_subjects(
            &request,
            &self.lab.site,
            &mut self.executor,
            &mut self.store,
            &mut |event| {
                watch(&event);
                events.borrow_mut().push(match event {
                    Event::Settled { form, kept } => format!("settled {form} {kept}"),
                    Event::Starting { form, kept } => format!("starting {form} {kept}"),
                    Event::Failed { subject, dropped, .. } => format!("failed {subject} {dropped}"),
                    _ => return,
                });
            },
        );
        self.events = events.into_inner();
        assert_eq!(self.lab.left(), Vec::<i32>::new(), "a process was left behind");
        result
    }

    fn runs(&self) -> Vec<Measurement> {
        self.store.measurements(&Query::default()).unwrap()
    }

    fn count(&self, name: &str) -> usize {
        self.runs().iter().filter(|run| run.subject == scheduler(name)).count()
    }
}

#[test]
fn those_that_are_surely_not_the_best_are_measured_no_further_also_by_a_second_call() {
    let mut bench = Bench::new(&form("full", STEADY), &["fast", "slow", "same"]);
    bench.options.rules.drop_losers = true;
    let summary = bench.measure().unwrap();
    let of = |summary: &Summary, name: &str| {
        let subject = summary.forms[0].subjects.iter().find(|s| s.name == name).unwrap();
        (subject.outcome, subject.pairs)
    };
    assert_eq!(of(&summary, "fast"), (Outcome::Precise, 4));
    // 20 and 10 % behind the leader, without any noise: out at the first look.
    assert_eq!(of(&summary, "slow"), (Outcome::Behind, 3));
    assert_eq!(of(&summary, "same"), (Outcome::Behind, 3));
    let chances = summary.forms[0].subjects.iter().filter_map(|s| s.chance);
    assert!(chances.clone().count() == 2 && chances.sum::<f64>() <= 0.05);
    let runs = fs::read_to_string(bench.lab.folder.path().join("runs")).unwrap();
    bench.measure().unwrap();
    let again = fs::read_to_string(bench.lab.folder.path().join("runs")).unwrap();
    assert_eq!(runs, again, "nothing was left to measure");
}

#[test]
fn steady_subjects_are_measured_in_the_fewest_rounds_with_the_default_in_each() {
    let mut bench = Bench::new(&form("full", STEADY), &["fast", "slow"]);
    let summary = bench.measure().unwrap();
    assert_eq!(summary.exit_code(), 0);
    let runs = bench.runs();
    assert_eq!(runs.len(), 12);
    for round in 1..=4 {
        let mut names: Vec<String> =
            runs.iter().filter(|r| r.round == round).map(|r| r.subject.to_string()).collect();
        names.sort();
        assert_eq!(names, ["eevdf", "fast", "slow"], "round {round}");
    }
    let fast = &summary.forms[0].subjects[0];
    assert_eq!((fast.name.as_str(), fast.outcome, fast.pairs), ("fast", Outcome::Precise, 4));
    assert!((fast.throughput.unwrap().estimate - 1.1).abs() < 1e-9);
    assert!((fast.p99.unwrap().estimate - 909.0 / 1000.0).abs() < 1e-9);
    assert_eq!(bench.lab.lines("starts"), 1, "one start serves all rounds");
    // What was in force when the load ran is what the store says.
    let seen = fs::read_to_string(bench.lab.folder.path().join("runs")).unwrap();
    let stored: Vec<String> = runs.iter().map(|r| format!("{} 1", r.subject)).collect();
    assert_eq!(seen.lines().collect::<Vec<_>>(), stored);
    assert_eq!(bench.store.switches().unwrap().len(), 12);
}

#[test]
fn the_order_follows_from_the_seed() {
    let order = |seed| {
        let mut bench = Bench::new(&form("full", STEADY), &["fast", "slow"]);
        bench.options.seed = seed;
        bench.measure().unwrap();
        assert_eq!(bench.store.sessions().unwrap()[0].seed, seed);
        bench.runs().iter().map(|r| r.subject.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(order(7), order(7));
    assert_ne!(order(7), order(8));
}

#[test]
fn noisy_subjects_get_all_rounds_and_no_more() {
    let mut bench = Bench::new(&form("full", NOISY), &["fast"]);
    let summary = bench.measure().unwrap();
    assert_eq!(summary.forms[0].subjects[0].outcome, Outcome::Exhausted);
    assert_eq!(bench.count("fast"), 6);
}

#[test]
fn a_second_call_measures_only_what_is_missing_and_says_so() {
    let mut bench = Bench::new(&form("full", STEADY), &["fast"]);
    bench.measure().unwrap();
    let before = bench.runs().len();
    let summary = bench.measure().unwrap();
    assert_eq!(bench.events, ["settled full 4"]);
    assert_eq!((summary.session, summary.forms[0].pairs_before), (None, 4));
    assert_eq!(bench.runs().len(), before);
    assert_eq!(bench.lab.lines("starts"), 1, "the application was not even started");

    // One more subject: only it is measured, beside the default.
    bench.subjects.push(scheduler("slow"));
    bench.measure().unwrap();
    assert_eq!((bench.count("fast"), bench.count("slow"), bench.count("eevdf")), (4, 4, 8));

    // Another duration is another series: nothing is taken over.
    bench.options.duration = Duration::from_secs(2);
    let summary = bench.measure().unwrap();
    assert_eq!(summary.forms[0].pairs_before, 0);

    // Afresh: the old ones are set aside.
    bench.options.fresh = true;
    let summary = bench.measure().unwrap();
    assert_eq!(summary.forms[0].subjects[0].pairs, 4);
}

#[test]
fn a_candidate_that_exits_at_once_is_dropped_and_the_others_go_on() {
    for death in [Death::AtOnce, Death::UnderLoad] {
        let mut bench = Bench::new(&form("full", STEADY), &["fast", "slow"]);
        bench.executor.deaths.insert("slow", death);
        let summary = bench.measure().unwrap();
        assert_eq!(bench.events[1..], ["failed slow false", "failed slow true"]);
        assert_eq!(summary.exit_code(), Kind::SchedulerExit.exit_code());
        assert_eq!((bench.count("fast"), bench.count("slow")), (4, 0));
        let slow = &summary.forms[0].subjects[1];
        assert_eq!((slow.outcome, slow.pairs), (Outcome::Dropped, 0));
        let failures = bench.store.failures(summary.forms[0].series).unwrap();
        assert_eq!(failures.len(), 2);
        assert!(failures[0].error.contains("runnable task stall"), "{}", failures[0].error);
        assert_eq!(bench.executor.entered.last().unwrap(), "eevdf");
    }
}

#[test]
fn a_load_that_fails_under_one_candidate_costs_only_that_candidate() {
    let rate = "case $now in slow) echo socket error >&2; t=;; *) t=100;; esac";
    let mut bench = Bench::new(&form("full", rate), &["fast", "slow"]);
    let summary = bench.measure().unwrap();
    assert_eq!((bench.count("fast"), bench.count("slow")), (4, 0));
    assert_eq!(summary.failures.len(), 2);
    assert!(summary.failures[0].error.cause.contains("socket error"));
    assert_eq!(bench.lab.lines("starts"), 3, "the application was started anew after each");
}

#[test]
fn a_load_that_fails_under_the_default_ends_its_form_and_the_next_goes_on() {
    let manifest = form("broken", "echo bad config >&2; t=") + &form("full", STEADY);
    let mut bench = Bench::new(&manifest, &["fast"]);
    let summary = bench.measure().unwrap();
    let error = summary.forms[0].error.as_ref().unwrap();
    assert!(error.cause.contains("bad config"), "{error}");
    assert_eq!(summary.forms[1].error.as_ref().map(|e| e.to_string()), None);
    assert_eq!(summary.forms[1].subjects[0].pairs, 4);
    assert_eq!(summary.exit_code(), Kind::Failed.exit_code());
}

#[test]
fn an_interruption_keeps_what_was_finished_and_the_next_call_goes_on() {
    let mut bench = Bench::new(&form("full", STEADY), &["fast", "slow"]);
    let interrupt = bench.lab.site.interrupt.clone();
    let mut finished = 0;
    let error = bench
        .measure_watching(|event| {
            if matches!(event, Event::Finished { .. }) {
                finished += 1;
                if finished == 5 {
                    interrupt.raise();
                }
            }
        })
        .unwrap_err();
    assert_eq!(error.kind, Kind::Interrupted);
    assert_eq!(bench.runs().len(), 5);
    assert_eq!(bench.executor.entered.last().unwrap(), "eevdf");

    bench.lab.site.interrupt = Interrupt::default();
    let summary = bench.measure().unwrap();
    let pairs_before = summary.forms[0].pairs_before;
    assert!((2..=3).contains(&pairs_before), "{pairs_before}");
    for subject in &summary.forms[0].subjects {
        assert_eq!((subject.pairs, subject.outcome), (4, Outcome::Precise), "{}", subject.name);
    }
}

#[test]
fn when_the_budget_is_spent_no_round_is_begun_but_each_form_gets_one() {
    let mut bench = Bench::new(&(form("a", STEADY) + &form("b", STEADY)), &["fast"]);
    bench.options.budget = Some(Duration::from_millis(1));
    let summary = bench.measure().unwrap();
    assert_eq!(bench.runs().len(), 4);
    for form in &summary.forms {
        assert_eq!((form.subjects[0].pairs, form.subjects[0].outcome), (1, Outcome::OutOfTime));
    }
    assert_eq!(summary.exit_code(), 0);
    // What has its round already is owed no other.
    let summary = bench.measure().unwrap();
    assert_eq!(bench.runs().len(), 4);
    assert_eq!(summary.forms[0].subjects[0].pairs, 1);
}

#[test]
fn a_subject_that_is_new_gets_its_round_whatever_the_budget() {
    let mut bench = Bench::new(&form("a", STEADY), &["fast"]);
    bench.options.budget = Some(Duration::from_millis(1));
    bench.measure().unwrap();
    bench.subjects.push(scheduler("slow"));
    let summary = bench.measure().unwrap();
    let pairs: Vec<usize> = summary.forms[0].subjects.iter().map(|s| s.pairs).collect();
    assert_eq!(pairs, [1, 1]);
}

#[test]
fn control_runs_are_made_in_the_first_rounds_without_observation() {
    let mut bench = Bench::new(&form("full", STEADY), &["fast"]);
    bench.options.control_runs = 2;
    let summary = bench.measure().unwrap();
    let controls: Vec<u32> =
        bench.runs().iter().filter(|r| r.kind == RunKind::Control).map(|r| r.round).collect();
    assert_eq!(controls, [1, 2]);
    assert_eq!(summary.forms[0].observation.unwrap().estimate, 1.0);
    assert_eq!(summary.forms[0].subjects[0].pairs, 4);
}

#[test]
fn a_tracer_that_cannot_work_is_told_and_harms_nobody() {
    let mut bench = Bench::new(&form("full", STEADY), &["fast"]);
    bench.options.trace_runs = 1;
    let summary = bench.measure().unwrap();
    // The groups of this test are no cgroups, so there is nothing to trace.
    assert_eq!(bench.events.len(), 2);
    assert!(bench.events[1].starts_with("failed"), "{:?}", bench.events);
    assert_eq!(summary.exit_code(), 0);
    assert_eq!(summary.forms[0].subjects[0].outcome, Outcome::Precise);
    let failures = bench.store.failures(summary.forms[0].series).unwrap();
    assert_eq!(failures.len(), 1);
    assert!(failures[0].error.contains("trace run-queue waits"), "{}", failures[0].error);
}

#[test]
fn a_warm_up_runs_before_every_measured_load() {
    let mut bench = Bench::new(&form("full", STEADY), &["fast"]);
    bench.options.warmup = Duration::from_millis(1500);
    bench.measure().unwrap();
    let seen = fs::read_to_string(bench.lab.folder.path().join("runs")).unwrap();
    let durations: Vec<&str> =
        seen.lines().filter_map(|l| l.split_once(' ')).map(|l| l.1).collect();
    assert_eq!(durations, ["1.5", "1"].repeat(8));
}

/// Twice as quick under `fast`; what runs is written down with what it was given.
const COMMAND: &str = r#"now=$(cat ../now); echo "$now" >> ../runs; cat >> ../input; echo out
echo "${METASCHED_RUN-none}" >> ../variables
case $now in fast) sleep 0.04;; *) sleep 0.08;; esac"#;

#[test]
fn a_command_is_measured_under_each_scheduler_and_the_quicker_one_is_told() {
    let mut bench = Bench::new(&form("full", STEADY), &["fast"]);
    bench.options.duration = Duration::ZERO;
    // Runs vary on a busy machine, not by a factor of two.
    bench.options.rules.max_rounds = 4;
    let given = Given {
        prepare: Some("echo \"before $(cat ../now)\" >> ../runs".into()),
        ..Given::default()
    };
    let summary = bench.measure_command(COMMAND, given.clone()).unwrap();
    let fast = &summary.forms[0].subjects[0];
    let speed = fast.throughput.unwrap();
    assert!(speed.low > 1.2 && speed.estimate < 2.5, "{speed:?}");
    let runs = Runs::of_series(&bench.store, summary.forms[0].series).unwrap();
    assert_eq!(runs.len(), 2);
    for of in &runs {
        assert_eq!((of.times.len(), of.exit_codes.as_slice()), (4, [0; 4].as_slice()));
        let least = if of.scheduler == "fast" { 0.04 } else { 0.08 };
        assert!(of.min >= least && of.mean >= of.min, "{of:?}");
    }
    let read = |name: &str| fs::read_to_string(bench.lab.folder.path().join(name)).unwrap();
    for pair in read("runs").lines().collect::<Vec<_>>().chunks(2) {
        assert_eq!(pair[0], format!("before {}", pair[1]), "under the same scheduler");
    }
    assert_eq!((read("runs").lines().count(), read("input").as_str()), (16, ""));
    assert_eq!(read("variables"), "none\n".repeat(8), "its environment is the user's");
    let twin = bench.measure_command(COMMAND, given).unwrap();
    assert_eq!((twin.session, twin.forms[0].pairs_before), (None, 4));
    let other = bench.measure_command(COMMAND, Given::default()).unwrap();
    assert_eq!(other.forms[0].pairs_before, 0, "without preparation it is another one");
}

#[test]
fn a_command_is_warmed_up_before_its_first_run_only_and_until_the_time_is_over() {
    let mut bench = Bench::new(&form("full", STEADY), &["fast"]);
    bench.options.warmup = Duration::from_millis(100);
    bench.options.rules.max_rounds = 4;
    bench.measure_command("echo x >> ../runs; sleep 0.06", Given::default()).unwrap();
    assert_eq!(bench.runs().len(), 8);
    assert_eq!(bench.lab.lines("runs"), 8 + 2);
}

#[test]
fn a_command_that_fails_ends_everything_with_its_status_unless_that_is_ignored() {
    let mut bench = Bench::new(&form("full", STEADY), &["fast"]);
    bench.options.rules.max_rounds = 4;
    let line = "grep -q fast ../now && { echo no license >&2; exit 7; }; true";
    let error = bench.measure_command(line, Given::default()).unwrap_err();
    let source = error.source.as_deref().and_then(|s| s.downcast_ref::<CommandFailed>());
    assert_eq!(source.and_then(|failed| failed.0.code()), Some(7), "{error}");
    assert!(error.cause.contains("no license"), "{error}");
    assert_eq!(bench.executor.entered.last().unwrap(), "eevdf");

    let ignored = Given { ignore_failure: true, ..Given::default() };
    let summary = bench.measure_command(line, ignored).unwrap();
    let runs = Runs::of_series(&bench.store, summary.forms[0].series).unwrap();
    let fast = runs.iter().find(|of| of.scheduler == "fast").unwrap();
    assert_eq!(fast.exit_codes, [7; 4]);

    // What prepares a run is not the command: its status is nobody's.
    let given = Given { prepare: Some("echo disk full >&2; exit 7".into()), ..Given::default() };
    let error = bench.measure_command("true", given).unwrap_err();
    assert!(error.source.is_none() && error.cause.contains("disk full"), "{error}");
}

/// A second workload beside the lab's, whose load a shell carries out.
fn beside(bench: &Bench, load: &str) -> Workload {
    let folder = bench.lab.folder.path();
    fs::create_dir_all(folder.join("job")).unwrap();
    let manifest = format!(
        "schema = 1\nname = \"job\"\nsummary = \"a job\"\n[form.full]\nsummary = \"x\"\n\
         objective = \"throughput\"\n[form.full.load]\nreads = \"metrics\"\n\
         command = [\"sh\", \"-c\", '''{load}''']\n"
    );
    fs::write(folder.join("job/manifest.toml"), manifest).unwrap();
    let pair = format!("{0}/tiny+{0}/job", folder.display());
    Workload::find(&pair, &[], false).unwrap()
}

#[test]
fn a_pair_is_measured_each_alone_and_both_at_once_with_the_figures_of_each() {
    let mut bench = Bench::new(&form("full", STEADY), &["fast"]);
    // A job that does less where the other does more.
    let rate = "case $now in fast) t=50;; *) t=100;; esac";
    let pair = beside(&bench, &format!("rate() {{ {rate}\n}}{LOAD}"));
    let summary = bench.measure_workload(&pair, |_| {}).unwrap();
    let forms: Vec<&str> = summary.forms.iter().map(|form| form.form.as_str()).collect();
    assert_eq!(forms, ["tiny", "job", "both"]);
    let ratio = |at: usize| summary.forms[at].subjects[0].throughput.unwrap().estimate;
    assert!((ratio(0) - 1.1).abs() < 1e-9 && (ratio(1) - 0.5).abs() < 1e-9);
    assert!((ratio(2) - (1.1_f64 * 0.5).sqrt()).abs() < 1e-9, "the geometric mean");
    let both = &summary.forms[2];
    let side = |name: &str| {
        let side = both.sides.iter().find(|side| side.name == name && side.subject == "fast");
        side.unwrap().throughput.estimate.unwrap()
    };
    assert!((side("tiny") - 1.1).abs() < 1e-9 && (side("job") - 0.5).abs() < 1e-9);
    assert!(summary.forms[0].sides.is_empty() && both.error.is_none());
    // The store has both's own figures, and the whole's by what each is for.
    let runs = bench.runs();
    let is_whole = |run: &&Measurement| run.figures.merit.is_some() && !run.subject.is_baseline();
    let whole = runs.iter().find(is_whole).unwrap();
    assert_eq!(whole.parts["job"].load.as_ref().unwrap().requests, 50);
    assert!(whole.figures.served_per_s.is_some());
    // A second call finds all of it.
    let before = bench.runs().len();
    bench.measure_workload(&pair, |_| {}).unwrap();
    assert_eq!(bench.runs().len(), before);
}

#[test]
fn where_one_of_a_pair_fails_the_other_is_ended_too_and_the_failure_is_told() {
    let load = "sleep 60; rate() { t=100; }; ".to_owned() + LOAD;
    let mut bench = Bench::new(&form("full", STEADY), &["fast"]);
    let pair = beside(&bench, "echo no more room >&2; exit 3");
    bench.options.rules.max_rounds = 4;
    let began = std::time::Instant::now();
    let summary = bench.measure_workload(&pair, |_| {}).unwrap();
    for form in &summary.forms[1..] {
        let error = form.error.as_ref().expect("the job never works").to_string();
        assert!(error.contains("no more room"), "{}: {error}", form.form);
    }
    assert!(summary.forms[0].error.is_none(), "what works alone is measured");
    // The other way round: the one that is left would go on for a minute.
    let mut bench = Bench::new(&form("full", "exit 7"), &["fast"]);
    let pair = beside(&bench, &load);
    let error = error_of_both(&mut bench, &pair);
    assert!(error.contains("workload 'tiny'"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    assert_eq!(bench.lab.left(), Vec::<i32>::new());
}

/// Has both of a pair run at once, which fails; what is told of it.
fn error_of_both(bench: &mut Bench, pair: &Workload) -> String {
    let forms = ["both".to_owned()];
    let options = bench.options.clone();
    let request =
        Request { workload: pair, forms: &forms, subjects: &bench.subjects, options: &options };
    let Bench { lab, executor, store, .. } = bench;
    let summary = measure_subjects(&request, &lab.site, executor, store, &mut |_| {}).unwrap();
    summary.forms[0].error.as_ref().expect("it fails").to_string()
}

#[test]
fn a_service_of_a_pair_that_dies_in_the_middle_ends_both_and_is_told() {
    let dies = form("full", "sleep 60; t=100")
        .replace("exec sleep 1000", "sleep 0.3; echo out of memory; kill -KILL $$");
    let mut bench = Bench::new(&dies, &["fast"]);
    let pair = beside(&bench, &format!("sleep 60; rate() {{ t=100; }}; {LOAD}"));
    let began = std::time::Instant::now();
    let error = error_of_both(&mut bench, &pair);
    assert!(error.contains("SIGKILL") && error.contains("out of memory"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    assert_eq!(bench.lab.left(), Vec::<i32>::new());
}

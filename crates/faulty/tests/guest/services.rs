//! What level 1 does for policies: `central` with a timer, a CPU that decides for
//! others and infinite slices, and a witness of the order of callbacks.

use std::time::{Duration, Instant};

use metasched_host::cgroup::Cgroup;
use metasched_host::process::{Child, Output, Spawn};
use metasched_loader::{LaneSpec, LoadOptions, Program};

const CENTRAL: &str = "central";
const PLACES: &str = "places";
const WITNESS: &str = "witness";
const LAGS: &str = "lags";
/// The policy that docs/write-a-policy.md has its readers write.
const SHORTEST: &str = "shortest";
/// The kernel's watchdog, which ends us if a task that could run does not for so long.
const WATCHDOG: Duration = Duration::from_secs(10);
/// Twice that: also what waits for the end of something rare is seen to wait.
const HELD: Duration = Duration::from_secs(20);
/// More than the CPUs of the guest, so that some always wait.
const HOGS: usize = 4;
const SLEEPERS: usize = 3;
const TASKS: usize = HOGS + SLEEPERS;
/// The verifier reads a million instructions of a program at most; all policies have to fit, and more
/// to come. With ten of them it reads some 150,000 of dispatch.
const INSTRUCTIONS: u32 = 250_000;

const HOG: &str = "while :; do :; done";
/// Waits for what never comes, for 20 ms each time; what it forks ends with it.
const SLEEPER: &str = "coproc cat; while :; do read -r -t 0.02 -u ${COPROC[0]}; done";

/// Hogs, and some that sleep most of the time, each a process.
fn tasks(cgroup: &Cgroup) -> Vec<(&'static str, Child)> {
    let start = |script: &str| {
        Spawn::new(["bash", "-c", script])
            .cgroup(cgroup)
            .stdout(Output::Null)
            .stderr(Output::Null)
            .start()
            .unwrap()
    };
    let hogs = (0..HOGS).map(|_| ("hog", start(HOG)));
    let sleepers = (0..SLEEPERS).map(|_| ("sleeper", start(SLEEPER)));
    hogs.chain(sleepers).collect()
}

/// What a process itself ran.
fn ran(child: &Child) -> Duration {
    let path = format!("/proc/{}/schedstat", child.pid());
    let text = std::fs::read_to_string(path).unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

/// The program with these policies, the first of them in force.
fn load(named: &[&str]) -> Program {
    let timeout_ms = WATCHDOG.as_millis() as u32;
    let policies = named.iter().map(ToString::to_string).collect();
    metasched_faulty::load(&LoadOptions { timeout_ms, policies, ..LoadOptions::policy(named[0]) })
        .unwrap()
}

/// All of them run, again and again, past the watchdog's time, and nobody is ejected.
fn all_run_for(program: &mut Program, tasks: &[(&'static str, Child)], held: Duration) {
    let start = Instant::now();
    let mut before: Vec<Duration> = tasks.iter().map(|(_, child)| ran(child)).collect();
    let mut longest = Duration::ZERO;
    while start.elapsed() < held {
        let round = Instant::now();
        while round.elapsed() < WATCHDOG {
            let slept = Instant::now();
            std::thread::sleep(Duration::from_millis(50));
            longest = longest.max(slept.elapsed());
            assert!(program.exited().is_none(), "{:?}", program.exited());
        }
        let now: Vec<Duration> = tasks.iter().map(|(_, child)| ran(child)).collect();
        let had: Vec<Duration> = now.iter().zip(&before).map(|(now, then)| *now - *then).collect();
        println!("after {:?} they had {had:?}; a sleep of 50 ms took {longest:?}", start.elapsed());
        for ((name, _), had) in tasks.iter().zip(&had) {
            assert!(!had.is_zero(), "a {name} had nothing for {:?}", WATCHDOG);
        }
        before = now;
    }
    assert!(program.new_quarantines().is_empty());
    assert!(program.exited().is_none(), "{:?}", program.exited());
}

fn verified(policies: &[&str]) -> Vec<(String, u32)> {
    let policies = policies.iter().map(ToString::to_string).collect();
    let program =
        metasched_faulty::load(&LoadOptions { policies, ..LoadOptions::policy("fifo") }).unwrap();
    let all = libbpf_rs::query::ProgInfoIter::default();
    let found = all.map(|info| (info.name.to_string_lossy().into_owned(), info.verified_insns));
    let found = found.filter(|(name, _)| name.starts_with("metasched")).collect();
    program.unload().unwrap();
    found
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn the_verifier_reads_little_more_for_the_hardest_policies() {
    let (with, mut without) = (verified(&[]), verified(&["fifo", "vtime"]));
    assert!(!with.is_empty());
    // The kernel cuts their names: of several alike the first of one load is that of the other.
    for (name, instructions) in &with {
        let place = without.iter().position(|(other, _)| other == name);
        let less = place.map(|place| without.remove(place).1);
        let less = less.map_or_else(|| "left out".to_owned(), |less| less.to_string());
        println!("{name}: {instructions} instructions verified, without sketches {less}");
        assert!(*instructions < INSTRUCTIONS, "{name}: {instructions}");
    }
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn one_cpu_decides_for_all_in_the_root_lane() {
    let cgroup = Cgroup::create("metasched-test/all").unwrap();
    let mut program = load(&[CENTRAL]);
    let tasks = tasks(&cgroup);
    all_run_for(&mut program, &tasks, HELD);
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn cgroups_that_use_little_come_first_and_nobody_starves() {
    let little = Cgroup::create("metasched-test/little").unwrap();
    let much = Cgroup::create("metasched-test/much").unwrap();
    let mut program = load(&[LAGS]);
    let all: Vec<_> = tasks(&little).into_iter().skip(HOGS).chain(tasks(&much)).collect();
    all_run_for(&mut program, &all, WATCHDOG);
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn the_policy_of_the_page_runs_whatever_comes() {
    let cgroup = Cgroup::create("metasched-test/page").unwrap();
    let mut program = load(&[SHORTEST]);
    let tasks = tasks(&cgroup);
    all_run_for(&mut program, &tasks, WATCHDOG);
    let counters = program.counters().unwrap();
    let own: Vec<_> = counters.iter().filter(|(name, _)| name.starts_with(SHORTEST)).collect();
    assert!(own.len() == 2 && own.iter().all(|(_, n)| **n > 0), "{counters:?}");
}

/// One that has a CPU decide, one with queues for each CPU and each cache, and all else.
#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn lanes_that_ask_much_of_level_1_run_beside_each_other_and_one_alone() {
    let groups = ["mine", "places", "others"]
        .map(|name| Cgroup::create(&format!("metasched-test/{name}")).unwrap());
    let mut program = load(&["fifo", CENTRAL, PLACES]);
    let mut all: Vec<_> = groups.iter().flat_map(tasks).collect();
    for (app, (policy, group)) in (1..).zip([CENTRAL, PLACES].into_iter().zip(&groups)) {
        program.set_app(app, &LaneSpec::of(policy), 100).unwrap();
        program.assign(group.id().unwrap(), app).unwrap();
    }
    all_run_for(&mut program, &all, HELD);

    // Alone with work, so that its slices are infinite.
    all.truncate(TASKS);
    all_run_for(&mut program, &all, WATCHDOG);
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn a_lane_alone_is_told_of_its_tasks_in_order() {
    let cgroup = Cgroup::create("metasched-test/all").unwrap();
    let mut program = load(&[WITNESS]);
    let tasks = tasks(&cgroup);
    all_run_for(&mut program, &tasks, WATCHDOG * 2);
}

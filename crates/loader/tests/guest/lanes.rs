//! Lanes side by side on a real kernel: cgroups assigned, weighted, moved, and changed
//! at any moment.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::load::{Hog, Load};
use crate::support::{Group, Offline, assert_alive, load, load_all, settles, wait_until};
use metasched_base::Kind;
use metasched_host::process::run_first;
use metasched_loader::{LaneInfo, LaneSpec, Program, policies};

fn lane(policy: &str, weight: Option<u32>) -> LaneSpec {
    LaneSpec { weight, ..LaneSpec::of(policy) }
}

/// The lane that an application has in force.
pub fn lane_of(program: &Program, app: u32) -> LaneInfo {
    let lanes = program.lanes().unwrap();
    let found = lanes.iter().find(|l| l.app == app && l.is_apps());
    found.unwrap_or_else(|| panic!("application {app} has no lane: {lanes:?}")).clone()
}

/// A cgroup that is assigned, or stands beside one, with what runs in it.
pub struct Assigned {
    /// Before the group, which cannot go while they are in it.
    hogs: Vec<Hog>,
    pub group: Group,
}

impl Assigned {
    pub fn new(program: &mut Program, app: u32, name: &str, spec: &LaneSpec, hogs: usize) -> Self {
        let assigned = Self::beside(name, hogs);
        program.set_app(app, spec, 100).unwrap();
        program.assign(assigned.group.id(), app).unwrap();
        assigned
    }

    /// One that is not assigned.
    pub fn beside(name: &str, hogs: usize) -> Self {
        let one =
            Self { hogs: (0..hogs).map(|_| Hog::start(&[], 0)).collect(), group: Group::new(name) };
        one.hogs.iter().for_each(|hog| one.group.take(hog));
        one
    }

    /// CPU time of its hogs, by the kernel's own books.
    pub fn ran(&self) -> f64 {
        self.hogs.iter().map(|hog| hog.ran().as_secs_f64()).sum()
    }
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn lanes_share_the_cpus_by_their_weights() {
    let mut program = load("fifo");
    let light = Assigned::new(&mut program, 1, "metasched-light", &lane("vtime", None), 2);
    let heavy = Assigned::new(&mut program, 2, "metasched-heavy", &lane("fifo", Some(300)), 3);
    std::thread::sleep(Duration::from_secs(1));
    let before = (light.ran(), heavy.ran());
    let books = |program: &Program| [1, 2].map(|app| lane_of(program, app).runtime_ns as f64);
    let booked = books(&program);
    // As in guest.rs: what a stalled host puts off is made up for later.
    settles("CPU time by weight, 3 : 1", Duration::from_secs(2), || {
        let ratio = (heavy.ran() - before.1) / (light.ran() - before.0);
        println!("{ratio:.2} : 1");
        (ratio / 3.0 - 1.0).abs() < 0.10
    });
    let now = books(&program);
    let ratio = (now[1] - booked[1]) / (now[0] - booked[0]);
    assert!((ratio / 3.0 - 1.0).abs() < 0.2, "by the lanes' own books {ratio:.2} : 1");
    assert_alive(&program);
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn a_cgroups_weight_is_its_lanes_until_the_user_gives_one() {
    let mut program = load("fifo");
    let assigned = Assigned::new(&mut program, 1, "metasched-weighed", &lane("fifo", None), 0);
    // Where the parent has no cpu controller there is no such file.
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu").unwrap();
    fs::write(assigned.group.file("cpu.weight"), "250").unwrap();
    assert_eq!(lane_of(&program, 1).weight, 250);
    for (idle, weight) in [("1", 1), ("0", 100)] {
        fs::write(assigned.group.file("cpu.idle"), idle).unwrap();
        assert_eq!(lane_of(&program, 1).weight, weight);
    }
    program.set_lane(1, &lane("fifo", Some(70))).unwrap();
    fs::write(assigned.group.file("cpu.weight"), "300").unwrap();
    assert_eq!(lane_of(&program, 1).weight, 70);
    assert_alive(&program);
}

/// P holds c1 and c2, and Q stands beside it.
#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn an_assigned_cgroup_has_its_part_of_the_one_above() {
    let mut program = load("vtime");
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu").unwrap();
    let p = Group::new("metasched-p");
    fs::write(p.file("cgroup.subtree_control"), "+cpu").unwrap();
    let c1 = Assigned::beside("metasched-p/c1", 2);
    let c2 = Assigned::new(&mut program, 1, "metasched-p/c2", &lane("vtime", None), 2);
    // In the one lane of all else vtime knows no groups: as many tasks as shares.
    let q = Assigned::beside("metasched-q", 4);
    std::thread::sleep(Duration::from_secs(1));
    let before = [&c1, &c2, &q].map(Assigned::ran);
    settles("a quarter, a quarter and a half", Duration::from_secs(2), || {
        let now = [&c1, &c2, &q].map(Assigned::ran);
        let ran: Vec<f64> = now.iter().zip(before).map(|(now, before)| now - before).collect();
        let total: f64 = ran.iter().sum();
        println!("{:.3} {:.3} {:.3}", ran[0] / total, ran[1] / total, ran[2] / total);
        ran.iter().zip([0.25, 0.25, 0.5]).all(|(ran, due)| (ran / total - due).abs() < 0.03)
    });
    assert_alive(&program);
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn a_cpuset_holds_a_lanes_tasks_and_lets_them_go() {
    let mut program = load("fifo");
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpuset").unwrap();
    let held = Assigned::new(&mut program, 1, "metasched-held", &lane("vtime", None), 3);
    let _others = Assigned::new(&mut program, 2, "metasched-others", &lane("fifo", None), 2);
    let on = |cpu| held.hogs.iter().all(|hog| hog.last_cpu() == cpu);
    for cpu in [1, 0] {
        fs::write(held.group.file("cpuset.cpus"), cpu.to_string()).unwrap();
        wait_until(&format!("each has run on CPU {cpu}"), || {
            let before: Vec<Duration> = held.hogs.iter().map(Hog::ran).collect();
            std::thread::sleep(Duration::from_millis(300));
            on(cpu) && held.hogs.iter().zip(before).all(|(hog, before)| hog.ran() > before)
        });
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(50));
            assert!(on(cpu), "one has left CPU {cpu}");
        }
    }
    fs::write(held.group.file("cpuset.cpus"), "\n").unwrap();
    wait_until("they use both CPUs", || !on(0) && !on(1));
    assert_alive(&program);
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn tasks_follow_the_nearest_assigned_cgroup_also_when_they_move() {
    let mut program = load("fifo");
    let _outer = Assigned::new(&mut program, 1, "metasched-outer", &lane("vtime", None), 0);
    let inner = Group::new("metasched-outer/a");
    let deep = Group::new("metasched-outer/a/b");
    let elsewhere = Group::new("metasched-elsewhere");
    let hog = Hog::start(&[], 0);
    let _others: Vec<Hog> = (0..3).map(|_| Hog::start(&[], 0)).collect();
    deep.take(&hog);
    let runs_on = |program: &Program, app: u32| {
        let before = lane_of(program, app).runtime_ns;
        wait_until(&format!("the hog on the lane of application {app}"), || {
            lane_of(program, app).runtime_ns > before + 50_000_000
        });
    };
    runs_on(&program, 1);
    // A cgroup between them is nearer.
    program.set_app(2, &lane("fifo", None), 100).unwrap();
    program.assign(inner.id(), 2).unwrap();
    runs_on(&program, 2);
    program.unassign(inner.id()).unwrap();
    runs_on(&program, 1);
    // The cpu controller is not needed for a move to be seen.
    program.assign(elsewhere.id(), 2).unwrap();
    elsewhere.take(&hog);
    runs_on(&program, 2);
    assert_eq!(program.unassign(deep.id()).unwrap_err().kind, Kind::BadInput);
    assert_alive(&program);
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn a_cgroup_is_reassigned_100_times_under_load_and_the_books_are_right() {
    const CHANGES: u32 = 100;
    let mut program = load("fifo");
    let busy = Assigned::new(&mut program, 1, "metasched-busy", &lane("fifo", None), 4);
    let hackbench = Load::endless_hackbench(2);
    std::thread::sleep(Duration::from_millis(300));
    let mut first_runs = 0;
    for change in 0..CHANGES {
        let policy = if change % 2 == 0 { "vtime" } else { "fifo" };
        let replacement = program.set_app(1, &lane(policy, None), 100).unwrap();
        std::thread::sleep(Duration::from_millis(10));
        let now = lane_of(&program, 1);
        assert_eq!((now.generation, now.policy.as_str()), (replacement.generation, policy));
        first_runs += u32::from(program.first_run_ns(replacement.generation).is_some());
        assert_alive(&program);
    }
    assert!(first_runs > CHANGES / 2, "only {first_runs} lanes had run a task after 10 ms");
    wait_until("all old lanes freed", || program.lanes().unwrap().len() == 2);
    let before: Vec<Duration> = busy.hogs.iter().map(Hog::ran).collect();
    for (hog, before) in busy.hogs.iter().zip(before) {
        wait_until("a hog runs on", || hog.ran() > before);
    }
    hackbench.assert_running();
    // The last one goes: one lane alone, unwatched.
    program.unassign(busy.group.id()).unwrap();
    program.drop_app(1).unwrap();
    wait_until("one lane alone", || program.lanes().unwrap().len() == 1);
    assert_alive(&program);
    program.unload().unwrap();
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut program = load("fifo");
    let no_lane = "there is nothing to change";
    let no_app = "Invalid argument";
    for (error, kind, said) in [
        (program.set_app(0, &lane("fifo", None), 100).unwrap_err(), Kind::Failed, no_app),
        (program.set_app(64, &lane("fifo", None), 100).unwrap_err(), Kind::Failed, no_app),
        (program.set_app(1, &lane("lavd", None), 100).unwrap_err(), Kind::BadInput, "'lavd'"),
        (
            program.set_app(1, &lane("fifo", Some(0)), 100).unwrap_err(),
            Kind::BadInput,
            "out of range",
        ),
        (program.assign(1, 1).unwrap_err(), Kind::BadInput, no_lane),
        (program.unassign(1).unwrap_err(), Kind::BadInput, no_lane),
        (program.drop_app(1).unwrap_err(), Kind::BadInput, no_lane),
        (program.set_lane(1, &lane("fifo", Some(5))).unwrap_err(), Kind::BadInput, no_lane),
    ] {
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.to_string().contains(said), "{said}: {error}");
    }
    assert_eq!(program.lanes().unwrap().len(), 1);
    // 63 beside the default one, and all of them can be replaced.
    for policy in ["fifo", "vtime"] {
        for app in 1..=63 {
            program.set_app(app, &lane(policy, None), 100).unwrap();
        }
    }
    assert_alive(&program);
}

/// Waits until what the hogs of a cgroup run is so much of a CPU, within a twentieth.
fn runs_by_its_quota(under: &str, hogs: &[&Hog], quota: f64) {
    let ran = || hogs.iter().map(|hog| hog.ran().as_secs_f64()).sum::<f64>();
    let (start, before) = (Instant::now(), ran());
    // At least ten periods; what a stalled host puts off is made up for later.
    settles(&format!("the quota under {under}"), Duration::from_secs(1), || {
        let share = (ran() - before) / start.elapsed().as_secs_f64();
        println!("{under}: {share:.3} of a CPU, {quota} granted");
        (share / quota - 1.0).abs() < 0.05
    });
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn cpu_max_holds_as_under_the_default_scheduler() {
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu").unwrap();
    let outer = Group::new("metasched-limited");
    fs::write(outer.file("cgroup.subtree_control"), "+cpu").unwrap();
    let inner = Group::new("metasched-limited/inner");
    let hogs = [Hog::start(&[], 0), Hog::start(&[], 0), Hog::start(&[], 0)];
    hogs.iter().for_each(|hog| inner.take(hog));
    let all: Vec<&Hog> = hogs.iter().collect();
    fs::write(outer.file("cpu.max"), "40000 100000").unwrap();
    run_first(1).unwrap();
    runs_by_its_quota("EEVDF", &all, 0.4);
    // One that is there when the program is loaded, and one that comes later.
    let mut program = load("fifo");
    runs_by_its_quota("fifo, found", &all, 0.4);
    fs::write(inner.file("cpu.max"), "20000 100000").unwrap();
    runs_by_its_quota("fifo, nested", &all, 0.2);
    program.replace_root("vtime").unwrap();
    runs_by_its_quota("vtime", &all, 0.2);
    program.set_app(1, &lane("fifo", None), 100).unwrap();
    program.assign(inner.id(), 1).unwrap();
    runs_by_its_quota("a lane of its own", &all, 0.2);
    // Without the inner one, a single hog on its CPU is stopped too.
    fs::write(inner.file("cpu.max"), "max 100000").unwrap();
    runs_by_its_quota("a lane, the outer one alone", &all, 0.4);
    drop(hogs);
    let lone = Hog::start(&[], 0);
    inner.take(&lone);
    runs_by_its_quota("a hog alone", &[&lone], 0.4);
    fs::write(outer.file("cpu.max"), "max 100000").unwrap();
    runs_by_its_quota("a hog without a limit", &[&lone], 1.0);
    assert_alive(&program);
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn throttling_is_counted_for_each_limited_cgroup() {
    const PERIODS: u64 = 30;
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu").unwrap();
    let program = load("fifo");
    let groups = ["metasched-throttled", "metasched-roomy"].map(Group::new);
    let hogs = groups.each_ref().map(|group| {
        let hog = Hog::start(&[], 0);
        group.take(&hog);
        hog
    });
    for (group, max) in groups.iter().zip(["40000 100000", "2000000 100000"]) {
        fs::write(group.file("cpu.max"), max).unwrap();
    }
    run_first(1).unwrap();
    let limit_of = |group: &Group| {
        let limits = program.limits();
        assert_eq!(limits.refused, 0);
        limits.enforced.into_iter().find(|limit| limit.cgroup == group.id()).unwrap()
    };
    wait_until("periods", || limit_of(&groups[0]).nr_periods >= PERIODS);
    let [tight, roomy] = groups.each_ref().map(limit_of);
    println!("{tight:?}");
    // A hog that wants a whole CPU uses 40 % of one up in every period, and then waits for
    // the other 60 %; a tick more or less, and what the host keeps from the guest.
    assert!(tight.nr_throttled <= tight.nr_periods + 1, "{tight:?}");
    assert!(tight.nr_throttled * 10 >= tight.nr_periods * 8, "{tight:?}");
    let share = tight.throttled_ns as f64 / (tight.nr_periods * tight.period_ns) as f64;
    assert!((0.45..=0.65).contains(&share), "throttled for {share:.2} of the time: {tight:?}");
    assert_eq!((roomy.nr_throttled, roomy.throttled_ns), (0, 0), "{roomy:?}");
    // The place is used again, by a limit that has counted nothing yet.
    fs::write(groups[0].file("cpu.max"), "max 100000").unwrap();
    assert!(program.limits().enforced.iter().all(|limit| limit.cgroup != groups[0].id()));
    fs::write(groups[0].file("cpu.max"), "40000 100000").unwrap();
    assert!(limit_of(&groups[0]).nr_periods < PERIODS / 2);
    drop(hogs);
    assert_alive(&program);
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn the_least_quotas_beside_many_hogs_end_nobody() {
    /// What the watchdog waits, and half of it until it looks.
    const LONG_ENOUGH: Duration = Duration::from_secs(48);
    /// Times what is due. The mean is what is granted, unless those take more that are let through
    /// with nothing left: each of 16 hogs once in 5 s at most, for up to 0.8 ms of an emulated CPU
    /// until it has stopped, beside other work of the host's. Against 1 ms in a second that is 2.56.
    const AT_MOST: f64 = 2.6;
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu").unwrap();
    let program = load("fifo");
    let groups = ["metasched-least", "metasched-small", "metasched-short"].map(Group::new);
    let hogs: Vec<Vec<Hog>> = groups
        .iter()
        .zip([16, 4, 2])
        .map(|(group, n)| {
            let hogs: Vec<Hog> = (0..n).map(|_| Hog::start(&[], 0)).collect();
            hogs.iter().for_each(|hog| group.take(hog));
            hogs
        })
        .collect();
    let quotas = [("1000 1000000", 0.001), ("1000 100000", 0.01), ("1000 4000", 0.25)];
    for (group, (max, _)) in groups.iter().zip(quotas) {
        fs::write(group.file("cpu.max"), max).unwrap();
    }
    let ran = |hogs: &Vec<Hog>| hogs.iter().map(|hog| hog.ran().as_secs_f64()).sum::<f64>();
    std::thread::sleep(Duration::from_secs(2));
    let (start, before): (Instant, Vec<f64>) = (Instant::now(), hogs.iter().map(ran).collect());
    std::thread::sleep(LONG_ENOUGH);
    let took = start.elapsed().as_secs_f64();
    let after: Vec<f64> = hogs.iter().map(ran).collect();
    assert_alive(&program);
    program.limits().enforced.iter().for_each(|limit| println!("{limit:?}"));
    for ((after, before), (max, due)) in after.into_iter().zip(before).zip(quotas) {
        let share = (after - before) / took;
        println!("{max}: {share:.5} of a CPU, {due} granted");
        assert!(share < AT_MOST * due, "{max}: {share:.5} of a CPU");
    }
}

/// A fork holds a lock that every other one waits for, and every move between cgroups even more.
#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn who_forks_with_nothing_left_keeps_nobody_from_it() {
    const TIMES: usize = 100;
    /// Some tens of ms were seen, and minutes while who forked was parked with the lock.
    const AT_MOST: Duration = Duration::from_secs(2);
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu").unwrap();
    let program = load("fair");
    let [limited, here, there] =
        ["metasched-forks", "metasched-here", "metasched-there"].map(Group::new);
    let forks: Vec<Hog> = (0..8).map(|_| Hog::forking()).collect();
    forks.iter().for_each(|hog| limited.take(hog));
    let moved = Hog::mostly_waiting();
    fs::write(limited.file("cpu.max"), "1000 1000000").unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let timed = |act: &dyn Fn()| {
        let start = Instant::now();
        act();
        start.elapsed()
    };
    let (mut forked, mut moves) = (Duration::ZERO, Duration::ZERO);
    for time in 0..TIMES {
        forked = forked.max(timed(&|| assert!(Command::new("true").status().unwrap().success())));
        moves = moves.max(timed(&|| [&here, &there][time % 2].take(&moved)));
        assert!(forked.max(moves) < AT_MOST, "time {time}: {forked:?} to fork, {moves:?} to move");
    }
    println!("{forked:?} to fork, {moves:?} to move");
    drop((forks, moved));
    assert_alive(&program);
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn who_is_killed_while_parked_dies_at_once() {
    /// Sixteen sweeps, and what the host keeps from the guest; by its quota it would be minutes.
    const AT_MOST: Duration = Duration::from_secs(3);
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu").unwrap();
    let program = load("fifo");
    let group = Group::new("metasched-killed");
    let hogs: Vec<Hog> = (0..16).map(|_| Hog::start(&[], 0)).collect();
    hogs.iter().for_each(|hog| group.take(hog));
    fs::write(group.file("cpu.max"), "1000 1000000").unwrap();
    std::thread::sleep(Duration::from_secs(2));
    // One after the other, each when the one before it is gone.
    let start = Instant::now();
    drop(hogs);
    let took = start.elapsed();
    println!("16 killed in {took:?}");
    assert!(took < AT_MOST, "{took:?}");
    assert_alive(&program);
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn who_is_killed_while_parked_is_charged_with_no_more_than_it_ran() {
    const TIMES: usize = 10;
    /// What ran before the kill and is charged after it, and the clocks of two CPUs.
    const TICKS: Duration = Duration::from_millis(20);
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu").unwrap();
    let program = load("fifo");
    let group = Group::new("metasched-killed");
    fs::write(group.file("cpu.max"), "1000 1000000").unwrap();
    for _ in 0..TIMES {
        let hog = Hog::start(&[], 0);
        group.take(&hog);
        // By then it has been parked for so long that its CPU was idle for some hundred ms.
        std::thread::sleep(Duration::from_millis(600));
        let before = group.usage();
        let start = Instant::now();
        drop(hog);
        let (took, charged) = (start.elapsed(), group.usage() - before);
        println!("charged with {charged:?} for {took:?}");
        assert!(charged < took + TICKS, "charged with {charged:?} for {took:?}");
    }
    assert_alive(&program);
}

/// Some sweeps, and what the host keeps from the guest. No task is parked for more than 5 s anyway.
const FREED_WITHIN: Duration = Duration::from_secs(4);

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn a_limit_that_goes_leaves_nobody_parked() {
    const TIMES: usize = 15;
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu").unwrap();
    let mut program = load("fifo");
    // With the last limit all queues are emptied: the one above stays.
    let outer = Group::new("metasched-outer");
    fs::write(outer.file("cgroup.subtree_control"), "+cpu").unwrap();
    fs::write(outer.file("cpu.max"), "40000 100000").unwrap();
    let inner = Group::new("metasched-outer/inner");
    let hogs: Vec<Hog> = (0..3).map(|_| Hog::start(&[], 0)).collect();
    hogs.iter().for_each(|hog| inner.take(hog));
    run_first(1).unwrap();
    program.set_app(1, &lane("fifo", None), 100).unwrap();
    program.assign(inner.id(), 1).unwrap();
    let mut longest = Duration::ZERO;
    for _ in 0..TIMES {
        fs::write(inner.file("cpu.max"), "20000 100000").unwrap();
        std::thread::sleep(Duration::from_millis(350));
        fs::write(inner.file("cpu.max"), "max 100000").unwrap();
        let start = Instant::now();
        for hog in &hogs {
            let before = hog.ran();
            wait_until("a hog runs on", || hog.ran() > before);
        }
        longest = longest.max(start.elapsed());
    }
    println!("all run again {longest:?} after their limit went, at the latest");
    assert!(longest < FREED_WITHIN, "{longest:?}");
    assert_alive(&program);
}

/// How long lanes are churned; METASCHED_SOAK_S gives another time in seconds.
const CHURN: Duration = Duration::from_secs(15);

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn lanes_hold_while_everything_changes_at_random() {
    let asked = std::env::var("METASCHED_SOAK_S").ok().and_then(|text| text.parse().ok());
    let duration = asked.map_or(CHURN, Duration::from_secs);
    let seed = std::env::var("METASCHED_SEED").ok().and_then(|text| text.parse().ok());
    let now = std::time::UNIX_EPOCH.elapsed().unwrap();
    let seed = seed.unwrap_or_else(|| u64::from(now.subsec_micros()));
    println!("METASCHED_SEED={seed}");
    let mut random = Random(seed | 1);
    run_first(1).unwrap();
    let mut program = load_all("vtime");
    // Those below first: that is the order in which they can go.
    let names =
        ["metasched-churn/a/b", "metasched-churn/a", "metasched-churn/c", "metasched-churn"];
    let groups: Vec<Group> = names.iter().map(|name| Group::new(name)).collect();
    // All but the last may have processes: those that hand controllers on may not.
    let (inhabited, limited) = (&groups[..3], &groups[1..]);
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu").unwrap();
    fs::write(groups[3].file("cgroup.subtree_control"), "+cpu").unwrap();
    let loads = [Load::endless_hackbench(1), Load::stress()];
    let mut hogs: Vec<Hog> = (0..6).map(|_| Hog::start(&[], 0)).collect();
    let policies: Vec<&str> = policies().iter().map(|p| p.name).collect();
    let start = Instant::now();
    let (mut changes, mut made, mut unserved_ns) = (0u32, 0u32, 0u64);
    let mut root = "vtime";
    let mut longest_change = (Duration::ZERO, 0, root);
    while start.elapsed() < duration {
        let began = Instant::now();
        let app = 1 + random.below(4) as u32;
        let policy = policies[random.below(policies.len())];
        let group = &groups[random.below(groups.len())];
        let place = random.below(hogs.len());
        let change = random.below(13);
        match change {
            0..=2 => {
                program.set_app(app, &lane(policy, None), 20 + random.below(400) as u32).unwrap();
                program.assign(group.id(), app).unwrap();
            }
            // There may be nothing to take away; that is told, and no harm.
            3 => drop(program.drop_app(app)),
            4 => drop(program.unassign(group.id())),
            5 => drop(program.set_lane(app, &lane(policy, Some(20 + random.below(400) as u32)))),
            6 => {
                program.replace_root(policy).unwrap();
                root = policy;
            }
            7 => inhabited[random.below(inhabited.len())].take(&hogs[place]),
            8 => hogs[place] = Hog::start(&[random.below(2)], random.below(10) as i32),
            9 => {
                // Cgroups come and go, assigned, with a task in them for a moment.
                for _ in 0..20 {
                    let brief = Group::new("metasched-churn/brief");
                    if program.assign(brief.id(), app).is_ok() {
                        program.unassign(brief.id()).unwrap();
                    }
                    brief.take(&hogs[place]);
                    groups[0].take(&hogs[place]);
                    made += 1;
                }
            }
            10 => drop(Offline::cpu1()),
            11 => {
                let quota = ["max", "10000", "50000"][random.below(3)];
                let limit = limited[random.below(limited.len())].file("cpu.max");
                fs::write(limit, format!("{quota} 20000")).unwrap();
            }
            _ => std::thread::sleep(Duration::from_millis(random.below(60) as u64)),
        }
        changes += 1;
        longest_change = longest_change.max((began.elapsed(), change, root));
        assert_alive(&program);
        let lanes = program.lanes().unwrap();
        let longest = lanes.iter().map(|lane| lane.longest_unserved_ns).max();
        unserved_ns = unserved_ns.max(longest.unwrap_or(0));
    }
    println!(
        "{changes} changes and {made} cgroups in {:?}, the longest took {longest_change:?}; \
         at most {} ms unserved",
        start.elapsed(),
        unserved_ns / 1_000_000
    );
    loads.iter().for_each(Load::assert_running);
    // Without the crowd a hog waits for five others at most: whoever waits for long is parked or
    // lost, and does not wait for its turn at a low weight.
    let ends = Instant::now();
    drop(loads);
    println!("the loads ended after {:?}", ends.elapsed());
    // Everything has come to rest: everybody runs, and nothing is left over. One limit is left,
    // which nobody reaches.
    for (group, max) in limited.iter().zip(["max 20000", "max 20000", "50000 20000"]) {
        fs::write(group.file("cpu.max"), max).unwrap();
    }
    let start = Instant::now();
    for hog in &hogs {
        let (before, asked) = (hog.ran(), Instant::now());
        wait_until("a hog runs", || hog.ran() > before);
        println!("{}: ran after {:?}", hog.about(), asked.elapsed());
    }
    let all_ran = start.elapsed();
    println!("all run {all_ran:?} after their limits went");
    assert!(all_ran < FREED_WITHIN, "{:?} {:?}", program.lanes().unwrap(), program.limits());
    assert_alive(&program);
    assert!(program.quarantines().is_empty(), "{:?}", program.quarantines());
    for app in 1..=4 {
        let _ = program.drop_app(app);
    }
    wait_until("one lane alone", || program.lanes().unwrap().len() == 1);
    assert_alive(&program);
    program.unload().unwrap();
}

/// Chance from a seed, so that a run can be had again: xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

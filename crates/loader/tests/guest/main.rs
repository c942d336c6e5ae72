//! The kernel program on a real kernel: what no model can show.
//!
//! These change the scheduler of the machine that they run on, so they are for
//! the guest: `make test-guest`, one at a time. Elsewhere they fail.

mod awake;
mod constants;
mod cpu_masks;
mod lanes;
mod load;
mod memory;
mod paravirt;
mod reuse;
mod support;
mod turns;
mod waits;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use load::{Hog, Load};
use metasched_abi::CPUS_MAX;
use metasched_base::Kind;
use metasched_host::machine::CpuPlace;
use metasched_loader::{
    CountRuns, LaneSpec, LoadOptions, Program, Runs, WaitTracer, Waiters, policies,
};
use metasched_stats::WaitHistogram;
use support::{Group, Offline, assert_alive, load, load_all, settles, sysfs, wait_until};

/// The verifier grants a million to each program; dispatch with all policies needs 56,600 on 7.3.4,
/// 9,400 of them for pv, and 3,600 more on 7.0.13. It is most of what a start takes.
const VERIFIED_MOST: u32 = 62_000;

/// A process that holds a program of ours until it is killed, at the latest when it is dropped.
struct Holder(nix::unistd::Pid);

impl Holder {
    fn fork(policy: &str) -> Self {
        // SAFETY: the child only loads the program and sleeps until it is killed.
        match unsafe { nix::unistd::fork() }.unwrap() {
            nix::unistd::ForkResult::Child => {
                let _program = Program::load(&LoadOptions::policy(policy));
                loop {
                    std::thread::sleep(Duration::from_secs(1));
                }
            }
            nix::unistd::ForkResult::Parent { child } => Self(child),
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = nix::sys::signal::kill(self.0, nix::sys::signal::Signal::SIGKILL);
        let _ = nix::sys::wait::waitpid(self.0, None);
    }
}

/// Without the others what they need of level 1 is left out: of these one asks least of it, the others
/// for state of cgroups, a half in user space, and a CPU that decides for others.
#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn the_kernel_takes_a_policy_alone() {
    for policy in ["fifo", "fair", "rustland", "central"] {
        let policies = vec![policy.to_owned()];
        let options = LoadOptions { policies, ..LoadOptions::policy(policy) };
        let programs = Program::verify(&options, &machine(2, 2, 1, 1)).unwrap();
        assert!(programs.iter().all(|(_, instructions)| *instructions > 0), "{programs:?}");
    }
    assert_eq!(sysfs("state"), "disabled");
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn each_policy_runs_a_load_and_the_default_scheduler_comes_after_it() {
    let mut program = load_all("fifo");
    for policy in policies() {
        program.replace_root(policy.name).unwrap();
        assert_eq!(program.root_policy(), policy.name);
        let own = format!("{}.", policy.name);
        let counted = |program: &Program| -> u64 {
            let counters = program.counters().unwrap();
            counters.iter().filter(|(name, _)| name.starts_with(&own)).map(|(_, n)| n).sum()
        };
        let before = counted(&program);
        let mut hackbench = Load::hackbench(2, 50);
        hackbench.wait();
        assert_alive(&program);
        let counted = counted(&program) - before;
        assert!(counted > 100, "{}: it counted only {counted} things", policy.name);
    }
    program.unload().unwrap();
    wait_until("the default scheduler", || sysfs("state") == "disabled");
}

/// The ends of what a user may set, one after the other under a load: nothing stalls, and the load
/// ends. With the defaults of all it does above.
#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn every_option_may_be_at_its_ends() {
    let mut program = load_all("fifo");
    let mut ends = 0;
    for policy in policies() {
        program.replace_root(policy.name).unwrap();
        for option in policy.options {
            for value in [option.least, option.most] {
                let options = [(option.name.to_owned(), value)].into();
                program.set_lane(0, &LaneSpec { options, ..LaneSpec::of(policy.name) }).unwrap();
                let mut hackbench = Load::hackbench(1, 10);
                hackbench.wait();
                assert_alive(&program);
                ends += 1;
            }
        }
    }
    assert!(ends > 60, "{ends} ends");
    program.unload().unwrap();
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn the_root_lane_is_replaced_100_times_under_load_and_the_books_are_right() {
    const CHANGES: u64 = 100;
    let mut program = load("fifo");
    let hackbench = Load::endless_hackbench(4);
    std::thread::sleep(Duration::from_millis(300));
    let mut first_runs = 0;
    for change in 0..CHANGES {
        let policy = if change % 2 == 0 { "vtime" } else { "fifo" };
        let replacement = program.replace_root(policy).unwrap();
        // The first lane had generation 1, and none is used twice.
        assert_eq!(replacement.generation, change + 2);
        assert_eq!(program.root_policy(), policy);
        std::thread::sleep(Duration::from_millis(10));
        if let Some(first) = program.first_run_ns(replacement.generation) {
            assert!(first >= replacement.at_ns, "a task ran before its lane was there");
            first_runs += 1;
        }
        let lanes = program.lanes().unwrap();
        let roots: Vec<_> = lanes.iter().filter(|l| l.is_root()).collect();
        assert_eq!(roots.len(), 1, "{lanes:?}");
        assert_eq!(roots[0].generation, replacement.generation);
        assert_alive(&program);
    }
    assert!(first_runs > CHANGES / 2, "only {first_runs} lanes had run a task after 10 ms");
    // Every lane that was replaced gets empty and is freed, still under load.
    wait_until("all old lanes freed", || program.lanes().unwrap().len() == 1);
    hackbench.assert_running();
    drop(hackbench);
    let counters = program.counters().unwrap();
    assert!(counters["fifo.queued"] > 0 && counters["vtime.queued"] > 0, "{counters:?}");
    program.unload().unwrap();
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn under_vtime_two_hogs_on_a_cpu_share_it_by_their_weights() {
    // The weights of nice 0 and nice 5 are 1024 and 335.
    const WANTED: f64 = 1024.0 / 335.0;
    // What is off by a slice or two gets less and less of the whole, so this is
    // reached soon, but not while the guest's host stalls for a while in between:
    // then one run takes as long as ten slices, and is made up for only later.
    const TOLERANCE: f64 = 0.10;
    let program = load("vtime");
    let (heavy, light) = (Hog::start(&[0], 0), Hog::start(&[0], 5));
    std::thread::sleep(Duration::from_secs(1));
    let (heavy_before, light_before) = (heavy.ran(), light.ran());
    std::thread::sleep(Duration::from_secs(5));
    settles("CPU time by weight, 3.06 : 1", Duration::from_secs(1), || {
        let heavy_ran = (heavy.ran() - heavy_before).as_secs_f64();
        let ratio = heavy_ran / (light.ran() - light_before).as_secs_f64();
        println!("{ratio:.2} : 1");
        (ratio / WANTED - 1.0).abs() < TOLERANCE
    });
    assert_alive(&program);
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn pinned_tasks_run_on_their_cpus_while_lanes_change() {
    let cpus = std::thread::available_parallelism().unwrap().get();
    assert!(cpus >= 2, "one CPU shows nothing about pinning");
    let mut program = load("fifo");
    let free = [Hog::start(&[], 0), Hog::start(&[], 0), Hog::start(&[], 0)];
    let pinned: Vec<Hog> = (0..cpus).map(|cpu| Hog::start(&[cpu], 0)).collect();
    for policy in ["vtime", "fifo", "vtime", "fifo"] {
        let before: Vec<Duration> = free.iter().chain(&pinned).map(Hog::ran).collect();
        std::thread::sleep(Duration::from_secs(2));
        for (hog, before) in free.iter().chain(&pinned).zip(before) {
            let ran = hog.ran() - before;
            assert!(ran > Duration::from_millis(100), "a hog ran for only {ran:?} of 2 s");
        }
        for (cpu, hog) in pinned.iter().enumerate() {
            assert_eq!(hog.last_cpu(), cpu);
        }
        program.replace_root(policy).unwrap();
    }
    assert_alive(&program);
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn a_cpu_goes_off_and_on_line_under_load() {
    let mut program = load_all("fifo");
    for policy in policies() {
        program.replace_root(policy.name).unwrap();
        let hackbench = Load::endless_hackbench(2);
        let pinned = Hog::start(&[1], 0);
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(300));
            let offline = Offline::cpu1();
            let before = pinned.ran();
            wait_until("a task whose CPU is gone runs", || pinned.ran() > before);
            program.replace_root(policy.name).unwrap();
            drop(offline);
        }
        wait_until("all old lanes freed", || program.lanes().unwrap().len() == 1);
        hackbench.assert_running();
        assert_alive(&program);
    }
    program.unload().unwrap();
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn killing_the_process_gives_the_default_scheduler_back() {
    let holder = Holder::fork("vtime");
    wait_until("the child's program", || sysfs("state") == "enabled");
    assert_eq!(sysfs("root/ops"), "metasched");
    drop(holder);
    wait_until("the default scheduler", || sysfs("state") == "disabled");
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn a_second_load_is_refused_and_the_scheduler_in_force_named() {
    let program = load("fifo");
    let error = Program::load(&LoadOptions::policy("vtime")).err().expect("one at a time");
    assert_eq!(error.kind, Kind::Busy);
    assert_eq!(
        error.to_string(),
        "cannot load 'vtime': 'metasched' is already attached; stop it first"
    );
    assert_alive(&program);
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn an_operators_sysrq_ends_the_program_and_the_record_says_so() {
    let mut program = load("fifo");
    assert!(program.exited().is_none());
    fs::write("/proc/sysrq-trigger", "S").unwrap();
    wait_until("the exit record", || program.exited().is_some());
    let record = program.exited().unwrap();
    assert!(record.was_sysrq() && record.was_asked_for(), "{record:?}");
    assert!(!record.reason.is_empty(), "{record:?}");
    wait_until("the default scheduler", || sysfs("state") == "disabled");
    let error = program.replace_root("vtime").unwrap_err();
    assert_eq!(error.kind, Kind::SchedulerExit, "{error}");
    // What was counted can still be read.
    program.counters().unwrap();
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn the_verifier_reads_few_instructions() {
    let _program = load_all("fifo");
    let cgroups = (1..=WaitTracer::CGROUPS_MAX as u64).map(Waiters::Cgroup);
    let names = (1..=WaitTracer::TASKS_MAX).map(|i| Waiters::Name(i.to_string()));
    let _tracer = WaitTracer::attach(&cgroups.chain(names).collect::<Vec<_>>()).unwrap();
    let mut total = 0;
    for program in libbpf_rs::query::ProgInfoIter::default() {
        let name = program.name.to_string_lossy().into_owned();
        if ["metasched_", "wait_", "replace_root", "reap"].iter().any(|own| name.starts_with(own)) {
            println!("{name}: {} instructions verified", program.verified_insns);
            assert!(program.verified_insns < VERIFIED_MOST, "{name}: {}", program.verified_insns);
            total += program.verified_insns;
        }
    }
    println!("{total} in all");
    assert!(total > 100, "no program of ours was found");
}

/// CPUs that are spread over caches, nodes and cores, one after the other.
fn machine(cpus: u32, llcs: u32, nodes: u32, threads: u32) -> BTreeMap<u32, CpuPlace> {
    let place = |cpu: u32| CpuPlace {
        llc: cpu * llcs / cpus,
        node: cpu * nodes / cpus,
        sibling: cpu / threads * threads + (cpu + 1) % threads,
        online: true,
    };
    (0..cpus).map(|cpu| (cpu, place(cpu))).collect()
}

/// What stands in the program of the machine are constants to the verifier: on a machine with one
/// cache it does not read what is for several.
#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn the_verifier_reads_the_program_of_any_machine() {
    let every_second = machine(12, 3, 3, 2).into_iter().map(|(cpu, place)| (2 * cpu, place));
    for (name, machine) in [
        ("a CPU", machine(1, 1, 1, 1)),
        ("three sockets, and numbers left out", every_second.collect()),
        ("a server", machine(512, 64, 8, 2)),
        ("the largest machine", machine(CPUS_MAX as u32, CPUS_MAX as u32, 64, 1)),
    ] {
        let programs = Program::verify(&LoadOptions::policy("fair"), &machine).unwrap();
        let most = programs.iter().max_by_key(|(_, instructions)| *instructions).unwrap();
        let total: u32 = programs.iter().map(|(_, instructions)| instructions).sum();
        println!("{name}: {total} instructions verified, {most:?}");
        assert!(most.1 < VERIFIED_MOST, "{name}: {most:?}");
    }
    assert_eq!(sysfs("state"), "disabled");
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn waits_are_traced_for_a_cgroup_and_the_system_under_any_scheduler() {
    let group = Group::new("metasched-wait-test");
    let below = Group::new("metasched-wait-test/below");
    let tracer = WaitTracer::attach(&[Waiters::Cgroup(group.id()), Waiters::System]).unwrap();
    let trace = |what: &str| {
        tracer.reset().unwrap();
        // Three hogs on one CPU: two of them always wait.
        let hogs: Vec<Hog> = (0..3).map(|_| Hog::start(&[0], 0)).collect();
        below.take(&hogs[0]);
        std::thread::sleep(Duration::from_secs(2));
        let all = tracer.read().unwrap();
        let [own, system] = all.as_slice() else { panic!("{all:?}") };
        for waits in [own, system] {
            assert!(waits.count() > 10, "{what}: {waits:?}");
            assert!(waits.sum_ns >= waits.max_ns);
        }
        assert!(own.count() < system.count(), "{what}: {own:?}");
        assert!(own.max_ns > 1_000_000, "{what}: a hog that shares its CPU waits for slices");
    };
    trace("EEVDF");
    let program = load("fifo");
    trace("fifo");
    assert_alive(&program);
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn waits_of_as_many_cgroups_as_may_be_asked_for_are_told_apart() {
    let top = Group::new("metasched-wait-many");
    let groups: Vec<Group> = (1..WaitTracer::CGROUPS_MAX)
        .map(|n| Group::new(&format!("metasched-wait-many/{n}")))
        .collect();
    let all = std::iter::once(&top).chain(&groups).map(|group| Waiters::Cgroup(group.id()));
    let asked: Vec<Waiters> = all.chain([Waiters::System]).collect();
    let tracer = WaitTracer::attach(&asked).unwrap();
    let hogs: Vec<Hog> = (0..3).map(|_| Hog::start(&[0], 0)).collect();
    let (first, last) = (&groups[0], &groups[groups.len() - 1]);
    first.take(&hogs[0]);
    last.take(&hogs[1]);
    tracer.reset().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let waits: Vec<u64> = tracer.read().unwrap().iter().map(WaitHistogram::count).collect();
    let (system, last) = (waits.len() - 1, waits.len() - 2);
    let (of_first, of_last) = (waits[1], waits[last]);
    assert!(of_first > 10 && of_last > 10, "{waits:?}");
    // What is counted for a cgroup is counted for those above it, and for no other.
    assert!(waits[0].abs_diff(of_first + of_last) < 10, "{waits:?}");
    assert!(waits[2..last].iter().all(|count| *count == 0), "{waits:?}");
    assert!(waits[system] > waits[0], "{waits:?}");
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn waits_of_a_process_and_of_a_name_are_told_apart_and_the_tracers_runs_are_counted() {
    let hogs: Vec<Hog> = (0..3).map(|_| Hog::start(&[0], 0)).collect();
    let sleeper = Hog::mostly_waiting();
    let asked = [
        Waiters::Name("sleep".into()),
        Waiters::Process(hogs[1].pid()),
        Waiters::Name("a-name-that-nobody-has".into()),
        Waiters::System,
    ];
    let counting = CountRuns::start().unwrap();
    let tracer = WaitTracer::attach(&asked).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let waits: Vec<u64> = tracer.read().unwrap().iter().map(WaitHistogram::count).collect();
    let [sleeps, hog, nobody, system] = waits[..] else { panic!("{waits:?}") };
    assert!(sleeps > 10 && hog > 10, "{waits:?}");
    assert_eq!(nobody, 0, "{waits:?}");
    assert!(system > sleeps + hog, "{waits:?}");
    // Each wait that ended is a switch, and began with another event or at one.
    let runs = tracer.runs().unwrap();
    assert!(runs.count > system && runs.ns > runs.count, "{runs:?}");
    drop(counting);
    let later = tracer.runs().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(tracer.runs().unwrap().since(&later), Runs::default(), "nobody asked for it");
    drop((hogs, sleeper));
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn our_constants_are_the_kernels() {
    let btf = Command::new("bpftool")
        .args(["btf", "dump", "file", "/sys/kernel/btf/vmlinux", "format", "raw"])
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .expect("bpftool is installed");
    let kernel = constants::of_btf_dump(&String::from_utf8_lossy(&btf.stdout));
    let ours = constants::of_header(include_str!("../../../../bpf/vmlinux.h"));
    assert!(ours.len() > 10, "the header was not understood: {ours:?}");
    for (name, value) in ours {
        if let Some(theirs) = kernel.get(&name) {
            assert_eq!(value, *theirs, "{name}");
        } else {
            assert!(!name.starts_with("SCX_"), "{name}: the kernel has no such constant");
        }
    }
}

//! What pv promises, run in the simulator from its own source.

use metasched_scenario::file::ScenarioFile;
use metasched_sim::metasched::{assign, scenario, set_app, set_option};
use metasched_sim::observer::Observer;
use metasched_sim::task::TaskId;
use metasched_sim::trace::{Observed, What};
use metasched_sim::{Machine, Outcome, Scenario, TaskSpec, between, exactly, ms, options, policy, us};
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

/// Defaults of options.h.
const GANG: u64 = ms(6);
/// The default of `slice_ns` on eight CPUs.
const SLICE: u64 = us(2_800);
/// CPUs of the host, unless a test says otherwise.
const CPUS: usize = 8;
const LENGTH: u64 = ms(4_000);

/// A program that spins, in a machine of so many virtual CPUs: 200 us of work for each of eight from one
/// barrier to the next.
fn machine(name: &str, threads: usize, more: &str) -> String {
    format!(
        "[[team]]\nname = \"{name}\"\nthreads = {threads}\nbarriers = 8\n\
         work = \"1600us\"\nimbalance = 0.1\n{more}\n"
    )
}

fn hogs(count: usize) -> String {
    match count {
        0 => String::new(),
        _ => format!("[[task]]\nname = \"hog\"\ncount = {count}\nsteps = [\"run 1s\"]\n"),
    }
}

/// The tasks of a file under a policy. Spinning keeps whole CPUs from others.
fn of(policy: &str, text: &str) -> Scenario {
    let text = format!("duration = \"4s\"\n[machine]\ncpus = {CPUS}\n{text}");
    let file = ScenarioFile::parse(Path::new("pv.toml"), &text).unwrap_or_else(|e| panic!("{e}"));
    scenario("machines", policy).cpus(CPUS).run_for(LENGTH).with_file(&file)
}

fn set(run: Scenario, option: &str, value: u64) -> Scenario {
    let (option, value) = options::option("pv", option, &value.to_string()).unwrap();
    run.at(0, move |kernel| set_option(kernel, 0, option, value))
}

/// CPU time of the tasks whose names begin so.
fn ran(outcome: &Outcome, prefix: &str) -> f64 {
    let of = outcome.all().filter(|(name, _)| name.starts_with(prefix));
    of.map(|(_, figures)| figures.ran_ns).sum::<u64>() as f64
}

fn regions(outcome: &Outcome, name: &str) -> f64 {
    outcome.team(name).regions as f64
}

/// How long how many tasks of a machine ran at once, ns.
struct Together {
    prefix: &'static str,
    members: Vec<bool>,
    running: usize,
    last: u64,
    for_ns: Vec<u64>,
}

impl Together {
    fn of(prefix: &'static str, members: usize) -> Rc<RefCell<Together>> {
        let for_ns = vec![0; members + 1];
        Rc::new(RefCell::new(Together { prefix, members: Vec::new(), running: 0, last: 0, for_ns }))
    }

    /// The part of the time in which so many ran.
    fn part(&self, running: usize) -> f64 {
        self.for_ns[running] as f64 / self.for_ns.iter().sum::<u64>() as f64
    }
}

impl Observer for Together {
    fn born(&mut self, task: TaskId, name: &str, _cgroup: &str) {
        assert_eq!(task.0, self.members.len());
        self.members.push(name.starts_with(self.prefix));
    }

    fn observe(&mut self, event: &Observed) {
        self.for_ns[self.running] += event.at - std::mem::replace(&mut self.last, event.at);
        let Some(task) = event.task.filter(|task| self.members[task.0]) else { return };
        match event.what {
            What::Start => self.running += 1,
            What::Stop { .. } => self.running -= 1,
            _ => assert!(task.0 < self.members.len()),
        }
    }
}

/// Eight virtual CPUs and four hogs on eight CPUs: each is owed two thirds of a CPU. The hogs use theirs on four, so
/// that the machine has all of them for a third of the time.
#[test]
pub(crate) fn all_virtual_cpus_run_at_once_where_each_has_its_part_anyway() {
    let together = |policy| {
        let watch = Together::of("vm ", CPUS);
        of(policy, &(machine("vm", CPUS, "") + &hogs(4))).read_by(&watch).pass();
        let watch = watch.borrow();
        watch.part(CPUS)
    };
    let (pv, fair) = (together("pv"), together("fair"));
    assert!(pv > 0.25, "all run at once for {pv:.3} of the time");
    assert!(fair < 0.15, "fair does so for {fair:.3}: this shows nothing");
}

#[test]
pub(crate) fn a_machine_has_no_more_than_its_part() {
    for count in [1, 2, 4, 8, 16] {
        let outcome = of("pv", &(machine("vm", CPUS, "") + &hogs(count))).pass();
        let each = ran(&outcome, "vm ") / CPUS as f64 / (ran(&outcome, "hog") / count as f64);
        assert!((0.97..1.03).contains(&each), "{count} hogs: {each:.3} of what each hog has");
    }
}

/// What the weights of a machine's virtual CPUs and of hogs are, on how many CPUs and caches.
const UNEQUAL: [(&[u32], &[u32], usize, usize); 5] = [
    (&[10_000, 100], &[10_000], 1, 1),
    (&[1, 10_000], &[10_000], 1, 1),
    (&[20, 300, 20, 300], &[200; 4], 2, 1),
    (&[20, 300, 20, 300, 100, 100, 50, 200], &[200; 8], 4, 1),
    (&[20, 300, 20, 300, 100, 100, 50, 200], &[200; 8], 4, 2),
];

/// Virtual CPUs of unequal weight: the machine has what they weigh together. The lightest one has its part of that.
#[test]
pub(crate) fn a_machine_of_unequal_virtual_cpus_has_no_more_than_its_part() {
    for (machine_weights, hog_weights, cpus, llcs) in UNEQUAL {
        let text = machine("vm", machine_weights.len(), "") + &hogs(hog_weights.len());
        let outcome = of("pv", &text)
            .machine(Machine::new(cpus, llcs, 1, false).unwrap())
            .at(ms(1), move |kernel| {
                for (group, weights) in [("vm", machine_weights), ("hog", hog_weights)] {
                    let tasks = kernel.tasks_in_group(group);
                    assert_eq!(tasks.len(), weights.len());
                    tasks.iter().zip(weights).for_each(|(task, weight)| {
                        kernel.set_weight(*task, *weight);
                    });
                }
            })
            .waits_at_most(LENGTH)
            .pass();
        let (own, others) = (machine_weights.iter().sum::<u32>(), hog_weights.iter().sum::<u32>());
        let owed = f64::from(others) / f64::from(own + others) * (LENGTH * cpus as u64) as f64;
        let had = ran(&outcome, "hog") / owed;
        assert!((0.97..1.03).contains(&had), "{machine_weights:?}: hogs have {had:.3} of their part");
        let each = outcome.all().filter(|(name, _)| name.starts_with("vm "));
        let each: Vec<u64> = each.map(|(_, figures)| figures.ran_ns).collect();
        let (least, most) = (each.iter().min().unwrap(), each.iter().max().unwrap());
        assert!(most < &(2 * least), "{machine_weights:?}, {llcs} caches: {each:?} ns");
    }
}

/// Who waits for the long time of a gang is owed all of it afterwards, and not a slice.
#[test]
pub(crate) fn long_times_of_a_machine_take_nothing_from_others() {
    let long = options::option("pv", "gang_ns", "100ms").unwrap().1;
    for (threads, count) in [(CPUS, 3), (CPUS, 8), (CPUS + 4, 4)] {
        let run = of("pv", &(machine("vm", threads, "") + &hogs(count)));
        let outcome = set(run, "gang_ns", long).pass();
        let each = ran(&outcome, "vm ") / threads as f64 / (ran(&outcome, "hog") / count as f64);
        assert!((0.97..1.03).contains(&each), "{count} hogs: {each:.3} of what each hog has");
    }
}

/// Of one machine those that ran while others waited have not had more in the end.
#[test]
pub(crate) fn the_virtual_cpus_of_a_machine_have_the_same() {
    for (threads, count) in [(CPUS, 3), (CPUS + 4, 0), (CPUS + 4, 3)] {
        let outcome = of("pv", &(machine("vm", threads, "") + &hogs(count))).pass();
        let of = outcome.all().filter(|(name, _)| name.starts_with("vm "));
        let each: Vec<u64> = of.map(|(_, figures)| figures.ran_ns).collect();
        let (least, most) = (each.iter().min().unwrap(), each.iter().max().unwrap());
        assert!(most - least < LENGTH / 50, "{threads} and {count}: {least} to {most} ns");
    }
}

#[test]
pub(crate) fn spinning_gets_on_several_times_as_fast_where_virtual_cpus_wait() {
    for (count, times) in [(1, 1.0), (2, 1.3), (4, 2.0), (8, 2.5)] {
        let done = |policy| {
            regions(&of(policy, &(machine("vm", CPUS, "") + &hogs(count))).pass(), "vm")
        };
        let (pv, fair) = (done("pv"), done("fair"));
        assert!(pv > times * fair, "{count} hogs: {pv} regions, and {fair} under fair");
    }
}

/// What they share is divided by times, and not by CPUs.
#[test]
pub(crate) fn machines_take_turns() {
    let alone = regions(&of("pv", &machine("vm", CPUS, "")).pass(), "vm");
    let outcome = of("pv", &(machine("a", CPUS, "") + &machine("b", CPUS, ""))).pass();
    let both = regions(&outcome, "a") + regions(&outcome, "b");
    let share = ran(&outcome, "a ") / (LENGTH * CPUS as u64) as f64;
    assert!((0.49..0.51).contains(&share), "{share:.3}");
    assert!(both > 0.9 * alone, "{both} regions of two, {alone} of one alone");
}

/// What has one thread is no gang: all that was ever seen of it is the same, to the nanosecond.
#[test]
pub(crate) fn a_task_alone_in_its_process_lives_as_under_fair() {
    let figures = |policy_name: &str| {
        let outcome = policy("singles", policy_name)
            .machine(Machine::new(4, 2, 1, false).unwrap())
            .tasks(6, |i| TaskSpec::hog(format!("hog {i}")).in_cgroup(["a", "b/c", ""][i % 3]))
            .tasks(9, |i| {
                TaskSpec::named(format!("sleeper {i}"))
                    .run(between(us(50), ms(4)))
                    .sleep(between(us(100), ms(10)))
                    .for_ever()
            })
            .task(TaskSpec::hog("pinned").only_on([3]).weight(300))
            .run_for(ms(2_000))
            .pass();
        let all: Vec<String> = outcome.all().map(|(name, f)| format!("{name} {f:?}")).collect();
        (all, outcome.events, outcome.switches)
    };
    assert_eq!(figures("pv"), figures("fair"));
}

/// A machine of three that has not had more than its part, beside one of eight that asks for all CPUs.
#[test]
pub(crate) fn a_machine_without_phantoms_is_not_disturbed_for_one_that_spins() {
    let speeds = |policy| {
        let outcome = of(policy, &(machine("small", 3, "") + &machine("large", CPUS, ""))).pass();
        ["small", "large"].map(|name| regions(&outcome, name))
    };
    let alone = regions(&of("pv", &machine("small", 3, "")).pass(), "small");
    let ([small, large], [small_fair, large_fair]) = (speeds("pv"), speeds("fair"));
    // Its part of the CPUs is 8/11 of what it wants.
    assert!(small > 0.69 * alone, "{small} regions of {alone}, {small_fair} under fair");
    assert!(small_fair < 0.6 * alone, "{small_fair} of {alone} under fair: this shows nothing");
    assert!(large > 2.0 * large_fair, "{large} regions, {large_fair} under fair");
}

#[test]
pub(crate) fn a_machine_that_may_use_some_cpus_asks_for_no_others() {
    let text = machine("vm", 4, "affinity = \"0-3\"") + &hogs(8);
    let outcome = |policy| of(policy, &text).pass();
    let (pv, fair) = (outcome("pv"), outcome("fair"));
    let (done, done_fair) = (regions(&pv, "vm"), regions(&fair, "vm"));
    assert!(done > 2.0 * done_fair, "{done} regions, {done_fair} under fair");
    let each = ran(&pv, "vm ") / 4.0 / (ran(&pv, "hog") / 8.0);
    assert!((0.97..1.03).contains(&each), "{each:.3} of what each hog has");
}

/// Its virtual CPUs wait under two caches.
#[test]
pub(crate) fn a_machine_under_two_caches_gets_on_too() {
    let done = |policy| {
        let text = machine("vm", CPUS, "") + &hogs(8);
        let run = of(policy, &text).machine(Machine::new(CPUS, 2, 1, false).unwrap());
        let outcome = run.pass();
        let each = ran(&outcome, "vm ") / ran(&outcome, "hog");
        assert!((0.9..1.1).contains(&each), "{each:.3} of what the hogs have");
        regions(&outcome, "vm")
    };
    let (pv, fair) = (done("pv"), done("fair"));
    assert!(pv > 1.5 * fair, "{pv} regions, and {fair} under fair");
}

#[test]
fn cpus_come_and_go_beneath_machines() {
    let text = machine("a", CPUS, "") + &machine("b", CPUS / 2, "") + &hogs(3);
    let mut run = of("pv", &text);
    for (at, cpu) in [(300, 1), (500, 6), (700, 0)] {
        run = run.at(ms(at), move |kernel| assert!(kernel.cpu_off(cpu)));
        run = run.at(ms(at + 1_000), move |kernel| assert!(kernel.cpu_on(cpu)));
    }
    let outcome = run.pass();
    for name in ["a", "b"] {
        assert!(regions(&outcome, name) > 100.0, "{name}: {}", regions(&outcome, name));
    }
    let each = ran(&outcome, "a ") / 8.0 / (ran(&outcome, "b ") / 4.0);
    assert!((0.9..1.1).contains(&each), "{each:.3}");
}

/// Machines on a lane of pv, and as much beside them on one of another policy.
#[test]
fn accounts_have_their_parts_beside_machines() {
    let text = machine("vm", CPUS, "cgroup = \"vms\"") + &hogs(CPUS);
    let outcome = of("fair", &text)
        .at(0, |kernel| {
            set_app(kernel, 1, "pv", 100);
            assign(kernel, "vms", 1);
        })
        .pass();
    let share = ran(&outcome, "vm ") / (LENGTH * CPUS as u64) as f64;
    assert!((0.48..0.52).contains(&share), "{share:.3}");
}

/// One that wants little does not wait for the times of two machines.
#[test]
fn who_wakes_beside_machines_waits_for_the_time_of_one_at_most() {
    let sleeper = TaskSpec::named("sleeper").run(exactly(us(200))).sleep(between(ms(5), ms(15)));
    let text = machine("a", CPUS, "") + &machine("b", CPUS, "");
    let outcome = of("pv", &text).task(sleeper.for_ever()).pass();
    let figures = outcome.task("sleeper");
    assert!(figures.waits > 200 && figures.longest_wait_ns < GANG + SLICE, "{figures:?}");
}

/// What each of the two does, and what is left without it.
#[test]
pub(crate) fn short_turns_help_where_few_wait_and_gangs_where_many_do() {
    let done = |option: Option<&str>, count| {
        let run = of("pv", &(machine("vm", CPUS, "") + &hogs(count)));
        let run = match option {
            Some(option) => set(run, option, 0),
            None => run,
        };
        regions(&run.pass(), "vm")
    };
    for (count, turns, gangs) in [(1, 2.5, 1.1), (8, 1.0, 1.3)] {
        let (both, no_turns, no_gangs) =
            (done(None, count), done(Some("turn_ns"), count), done(Some("gang_ns"), count));
        assert!(both > turns * no_turns, "{count} hogs: {both}, without turns {no_turns}");
        assert!(both > gangs * no_gangs, "{count} hogs: {both}, without gangs {no_gangs}");
    }
}

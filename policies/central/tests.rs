//! What central promises, run in the simulator from its own source.

use metasched_sim::kernel::Kernel;
use metasched_sim::metasched::{assign, set_app, set_option};
use metasched_sim::{
    Costs, Machine, Outcome, Scenario, TaskSpec, between, exactly, ms, options, policy, us,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The default of `slice_ns` in options.h.
const SLICE: u64 = ms(20);
/// How often the timer looks, and what a kick and an answer take beside that.
const LOOK: u64 = ms(1);
const ANSWER: u64 = us(300);
/// How often level 1 looks which CPUs take tasks.
const SWEEP: u64 = ms(4);
const LENGTH: u64 = ms(4_000);
const SEEDS: u64 = 16;

fn central(name: &str) -> Scenario {
    policy(name, "central")
}

fn hogs(run: Scenario, n: usize) -> Scenario {
    run.tasks(n, |i| TaskSpec::hog(format!("hog {i}"))).run_for(LENGTH)
}

/// First in, first out: of so many on so many CPUs each has its part. Four of ten have their turns at
/// once, and who of them stands before whom is chance: in one run somebody may have five turns less.
#[test]
pub(crate) fn all_have_their_turns_of_a_slice() {
    let mut ran_ns = BTreeMap::<String, u64>::new();
    for seed in 1..=SEEDS {
        let outcome = hogs(central("ten hogs on four CPUs").cpus(4).seed(seed), 10).pass();
        for (name, figures) in outcome.all() {
            *ran_ns.entry(name.to_owned()).or_default() += figures.ran_ns;
            // The six that wait, in rounds of four.
            assert!(figures.longest_wait_ns <= 2 * (SLICE + LOOK), "{name}: {figures:?}");
        }
    }
    let part = SEEDS * LENGTH * 4 / 10;
    for (name, ran_ns) in ran_ns {
        assert!(ran_ns.abs_diff(part) <= part / 50, "{name}: {ran_ns} of {part}");
    }
}

/// No tick ends them: without the timer a task that runs goes on for ever.
#[test]
fn slices_are_infinite_until_somebody_waits() {
    let outcome = hogs(central("two hogs on two CPUs").cpus(2), 2).pass();
    for (name, figures) in outcome.all() {
        assert!(figures.waits <= 2, "{name}: {figures:?}");
        assert!(figures.ran_ns > LENGTH - ms(2), "{name}: {figures:?}");
    }
}

#[test]
fn a_shorter_slice_makes_way_sooner() {
    let (option, value) = options::option("central", "slice_ns", "5000000").unwrap();
    let outcome = hogs(central("slices of 5 ms").cpus(2), 4)
        .at(0, move |kernel| set_option(kernel, 0, option, value))
        .pass();
    for (name, figures) in outcome.all() {
        assert!(figures.waits > LENGTH / ms(15), "{name}: {figures:?}");
    }
}

#[test]
pub(crate) fn who_wakes_beside_idle_cpus_is_handed_one_at_once() {
    let outcome = central("sleepers on eight CPUs")
        .cpus(8)
        .tasks(4, |i| {
            TaskSpec::named(format!("sleeper {i}"))
                .run(between(us(100), us(900)))
                .sleep(between(ms(2), ms(8)))
                .for_ever()
        })
        .run_for(LENGTH)
        .pass();
    for (name, figures) in outcome.all() {
        assert!(figures.waits > 300 && figures.longest_wait_ns <= ANSWER, "{name}: {figures:?}");
    }
}

/// CPU 0 answers when it comes to dispatch, and computes then: what it is asked after that is too soon
/// once more, and its timer was set before.
#[test]
pub(crate) fn what_is_asked_after_an_answer_is_answered_in_time() {
    let little = || between(us(5), us(60));
    let outcome = central("a central CPU that comes to dispatch often")
        .cpus(4)
        .task(TaskSpec::named("bound").only_on([0]).run(between(us(5), us(900))).sleep(little()).for_ever())
        .tasks(3, |i| TaskSpec::named(format!("{i}")).run(little()).sleep(little()).for_ever())
        .run_for(ms(500))
        .pass();
    for i in 0..3 {
        let figures = outcome.task(&i.to_string());
        assert!(figures.longest_wait_ns <= ANSWER, "{i}: {figures:?}");
    }
}

/// Those that may run on one CPU only, and those that may run anywhere, take turns there.
#[test]
fn who_is_bound_and_who_is_not_both_run() {
    let outcome = hogs(central("bound to each CPU, and free").cpus(2), 4)
        .tasks(4, |i| TaskSpec::hog(format!("bound {i}")).only_on([i % 2]))
        .pass();
    for (name, figures) in outcome.all() {
        assert!(figures.ran_ns > LENGTH / 8, "{name}: {figures:?}");
        assert!(figures.longest_wait_ns <= 8 * (SLICE + 2 * LOOK), "{name}: {figures:?}");
    }
}

/// How often a CPU was interrupted, or told of a task.
fn kicks(outcome: &Outcome, cpu: usize) -> u64 {
    let of = format!(" cpu{cpu} ");
    let kicks = outcome.trace.lines().filter(|l| l.contains(&of) && l.contains(" kick"));
    kicks.count() as u64
}

/// On CPU 0 somebody always waits; the others could not run them.
#[test]
pub(crate) fn who_waits_for_another_cpu_interrupts_nobody_each_millisecond() {
    let outcome = central("two on one CPU")
        .cpus(4)
        .tasks(2, |i| TaskSpec::hog(format!("bound {i}")).only_on([0]))
        .tasks(3, |i| TaskSpec::hog(format!("alone {i}")).only_on([i + 1]))
        .traced()
        .run_for(LENGTH)
        .pass();
    for cpu in 1..4 {
        let kicks = kicks(&outcome, cpu);
        assert!(kicks <= LENGTH / SLICE + 5, "{kicks} interrupts of CPU {cpu}");
    }
    let turns = outcome.task("bound 0").ran_ns;
    assert!(turns.abs_diff(LENGTH / 2) <= SLICE + LOOK, "{turns}");
}

/// The queues that the lane has beside those of CPUs.
const QUEUES: u64 = 2;

/// On CPUs that do not decide runs begin with what was put into their queues.
#[test]
pub(crate) fn one_cpu_hands_out_what_the_others_run() {
    let outcome = hogs(central("who hands out").cpus(4), 10).traced().pass();
    let (mut handed, mut begun) = (0, 0);
    for line in outcome.trace.lines() {
        begun += u64::from(!line.contains(" cpu0 ") && line.ends_with(" start"));
        if let Some((_, id)) = line.split_once("insert into 0x") {
            let queue = u64::from_str_radix(id, 16).unwrap() & 0xffff;
            handed += u64::from(queue >= QUEUES);
        }
    }
    assert!(begun > 3 * LENGTH / (2 * SLICE), "{begun} runs show nothing");
    assert!(handed > begun * 9 / 10, "{handed} handed out for {begun} runs");
}

/// An idle CPU that does not decide is handed who wakes, and the one that does runs on: it takes nothing
/// back at once.
#[test]
pub(crate) fn who_is_handed_to_an_idle_cpu_takes_no_other() {
    let outcome = policy("a lane of central beside two hogs", "fifo")
        .cpus(3)
        .tasks(2, |i| TaskSpec::hog(format!("hog {i}")).only_on([i]))
        .task(TaskSpec::named("wakes").run(exactly(ms(2))).sleep(exactly(ms(3))).for_ever().in_cgroup("a"))
        .at(0, |kernel| {
            set_app(kernel, 1, "central", 100);
            assign(kernel, "a", 1);
        })
        .run_for(LENGTH)
        .pass();
    for i in 0..2 {
        let ran = outcome.task(&format!("hog {i}")).ran_ns;
        assert!(ran > LENGTH * 98 / 100, "hog {i} had {ran}");
    }
}

/// CPU 3 alone is idle. CPU 1 takes what is bound by itself, and what runs on CPU 2 goes on each time.
fn beside_one_idle_cpu(wakes: usize) -> u64 {
    let outcome = central("one idle CPU")
        .cpus(4)
        .tasks(2, |i| TaskSpec::hog(format!("bound {i}")).only_on([1]))
        .tasks(2, |i| TaskSpec::hog(format!("alone {i}")).only_on([2 * i]))
        .tasks(wakes, |i| {
            let wakes = TaskSpec::named(format!("wakes {i}"));
            wakes.run(exactly(us(100))).sleep(between(ms(1), ms(3))).for_ever()
        })
        .run_for(LENGTH)
        .pass();
    let waits = (0..wakes).map(|i| outcome.task(&format!("wakes {i}")).longest_wait_ns);
    waits.max().unwrap()
}

#[test]
fn a_cpu_that_has_something_to_run_is_handed_nobody() {
    let waits = beside_one_idle_cpu(1);
    assert!(waits <= ANSWER, "{waits} beside an idle CPU");
}

/// Who wakes while CPU 3 runs the other one has it next.
#[test]
pub(crate) fn who_wakes_beside_busy_cpus_is_handed_to_none_of_them() {
    let waits = beside_one_idle_cpu(2);
    assert!(waits <= us(100) + ANSWER, "{waits} beside a CPU that is soon idle");
}

/// A higher class has CPU 0, and all others run tasks: these make way for who waits.
#[test]
pub(crate) fn cpus_take_by_themselves_while_the_one_that_decides_does_not_answer() {
    let outcome = hogs(central("CPU 0 is taken").cpus(4), 6)
        .at(ms(1_000), |kernel| kernel.take_cpu(0, ms(500)))
        .waits_at_most(ms(600))
        .pass();
    let mut waits: Vec<u64> = outcome.all().map(|(_, figures)| figures.longest_wait_ns).collect();
    waits.sort_unstable();
    // Who gave way on CPU 0 stays there.
    assert!(waits[4] <= 2 * SLICE + 10 * LOOK, "{waits:?}");
}

/// More than are looked at for one that may run on a CPU.
#[test]
fn many_that_are_bound_elsewhere_stand_in_nobodys_way() {
    let outcome = central("a crowd on one CPU")
        .cpus(2)
        .tasks(40, |i| TaskSpec::hog(format!("crowd {i}")).only_on([0]))
        .task(TaskSpec::named("free").run(exactly(ms(1))).sleep(exactly(ms(5))).for_ever())
        .run_for(LENGTH)
        .pass();
    let free = outcome.task("free");
    assert!(free.longest_wait_ns <= SLICE + 2 * LOOK, "{free:?}");
}

#[test]
fn the_central_cpu_may_go_off_line_and_come_back() {
    let outcome = hogs(central("CPU 0 goes").cpus(4), 9)
        .at(ms(1_000), |kernel| assert!(kernel.cpu_off(0)))
        .at(ms(2_500), |kernel| assert!(kernel.cpu_on(0)))
        .pass();
    for (name, figures) in outcome.all() {
        assert!(figures.longest_wait_ns <= 4 * (SLICE + 2 * LOOK), "{name}: {figures:?}");
    }
    let ran: u64 = outcome.all().map(|(_, figures)| figures.ran_ns).sum();
    assert!(ran > ms(4 * 4_000 - 1_500) * 98 / 100, "{ran}");
}

/// The next one decides in its place, before the timer looks.
#[test]
pub(crate) fn who_wakes_while_the_central_cpu_is_off_line_is_handed_a_cpu_at_once() {
    let outcome = central("CPU 0 is gone")
        .cpus(8)
        .tasks(4, |i| {
            TaskSpec::named(format!("sleeper {i}"))
                .arrives(ms(100))
                .run(between(us(100), us(900)))
                .sleep(between(ms(2), ms(8)))
                .for_ever()
        })
        .at(ms(10), |kernel| assert!(kernel.cpu_off(0)))
        .run_for(LENGTH)
        .pass();
    for i in 0..4 {
        let figures = outcome.task(&format!("sleeper {i}"));
        assert!(figures.longest_wait_ns <= ANSWER, "{i}: {figures:?}");
    }
}

/// The kernel tells of a CPU that goes when a thread of its has had three turns. Level 1 sees it at a sweep.
#[test]
pub(crate) fn a_central_cpu_that_is_about_to_go_is_asked_for_a_sweep_at_most() {
    let outcome = hogs(central("CPU 0 is about to go").cpus(4), 15)
        .at(ms(1_000), |kernel| assert!(kernel.cpu_off(0)))
        .traced()
        .pass();
    let late = |line: &&str| {
        let at: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
        at > ms(1_000) + 2 * SWEEP && line.contains(" cpu0 ") && line.contains(" kick")
    };
    let kicks = outcome.trace.lines().filter(late).count();
    assert!(kicks <= 10, "{kicks} kicks of a CPU that takes no tasks");
}

#[test]
fn another_cpu_may_be_central() {
    let (option, value) = options::option("central", "central_cpu", "3").unwrap();
    let outcome = hogs(central("CPU 3 decides").cpus(4), 9)
        .at(0, move |kernel| set_option(kernel, 0, option, value))
        .at(ms(500), |kernel| assert!(kernel.cpu_off(0)))
        .pass();
    for (name, figures) in outcome.all() {
        assert!(figures.longest_wait_ns <= 4 * (SLICE + 2 * LOOK), "{name}: {figures:?}");
    }
}

/// It is asked each time that somebody wakes; whom it hands a task is another one each time.
#[test]
pub(crate) fn the_cpu_that_decides_is_the_one_that_the_option_names() {
    let asked = |cpu: usize| {
        let (option, value) = options::option("central", "central_cpu", &cpu.to_string()).unwrap();
        let outcome = central("who decides")
            .cpus(8)
            .at(0, move |kernel| set_option(kernel, 0, option, value))
            .tasks(6, |i| {
                TaskSpec::named(format!("sleeper {i}"))
                    .run(between(us(100), us(900)))
                    .sleep(between(ms(1), ms(4)))
                    .for_ever()
            })
            .traced()
            .run_for(ms(1_000))
            .pass();
        (0..8).max_by_key(|cpu| kicks(&outcome, *cpu)).unwrap()
    };
    for cpu in [0, 5] {
        assert_eq!(asked(cpu), cpu, "another CPU decides");
    }
}

#[test]
fn several_lanes_have_a_central_cpu_each() {
    let run = central("three lanes").machine(Machine::new(8, 2, 1, false).unwrap());
    let run = ["a", "b"].into_iter().fold(run, |run, cgroup| {
        run.tasks(8, move |i| TaskSpec::hog(format!("{cgroup} {i}")).in_cgroup(cgroup))
    });
    let (option, value) = options::option("central", "central_cpu", "5").unwrap();
    hogs(run, 8)
        .at(0, move |kernel| {
            for (app, cgroup) in [(1, "a"), (2, "b")] {
                set_app(kernel, app, "central", 100);
                assign(kernel, cgroup, app);
            }
            set_option(kernel, 1, option, value);
        })
        .lane_shares(0.2)
        .pass();
}

/// Of what a CPU was handed that another lane has taken meanwhile, others are told.
#[test]
fn what_a_busy_cpu_was_handed_does_not_wait_beside_an_idle_one() {
    let outcome = central("a lane of central beside one of long runs")
        .cpus(4)
        .tasks(3, |i| {
            TaskSpec::named(format!("beside {i}"))
                .run(between(ms(1), ms(20)))
                .sleep(between(us(100), ms(10)))
                .for_ever()
                .in_cgroup("a")
        })
        .tasks(6, |i| {
            TaskSpec::named(format!("short {i}"))
                .run(between(us(50), ms(2)))
                .sleep(between(us(50), ms(2)))
                .for_ever()
        })
        .at(0, |kernel| {
            set_app(kernel, 1, "fifo", 100);
            assign(kernel, "a", 1);
        })
        .idle_at_most(ms(3))
        .run_for(LENGTH)
        .pass();
    assert!(outcome.all().all(|(_, figures)| figures.ran_ns > 0));
}

/// A machine without anybody who waits is left alone.
#[test]
pub(crate) fn the_timer_stops_while_nobody_waits() {
    let (before, after) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let count = |at: &Rc<Cell<u64>>| {
        let at = at.clone();
        move |kernel: &mut Kernel| at.set(kernel.timers_set())
    };
    let outcome = central("two hogs and nobody else")
        .cpus(4)
        .tasks(2, |i| TaskSpec::hog(format!("hog {i}")))
        .at(ms(10), count(&before))
        .at(LENGTH - 1, count(&after))
        .traced()
        .run_for(LENGTH)
        .pass();
    let late = |line: &&str| {
        let at: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
        at > ms(10) && line.contains(" kick")
    };
    assert_eq!(outcome.trace.lines().filter(late).count(), 0);
    // Level 1 has one of 4 ms, since the lane has queues of CPUs.
    let timers = after.get() - before.get();
    assert!(timers <= LENGTH / ms(4), "{timers} timers were set");
}

/// Hogs of which each CPU but the first has one, in a lane of central, on a machine that can stop ticks.
fn without_ticks(name: &str, cpus: usize) -> Scenario {
    policy(name, "vtime")
        .machine(Machine::cpus(cpus).nohz_full())
        .tasks(cpus - 1, |i| TaskSpec::hog(format!("hog {i}")).only_on([i + 1]).in_cgroup("far"))
        .at(0, |kernel| {
            set_app(kernel, 1, "central", 100);
            assign(kernel, "far", 1);
        })
}

/// The ticks of CPU 1 between each of these times and the next one.
fn ticks_between(run: Scenario, times: &[u64]) -> (Outcome, Vec<u64>) {
    let taken = Rc::new(RefCell::new(Vec::new()));
    let mut run = run;
    for at in times {
        let taken = taken.clone();
        run = run.at(*at, move |kernel| taken.borrow_mut().push(kernel.ticks(1)));
    }
    let outcome = run.pass();
    let taken = taken.borrow().windows(2).map(|two| two[1] - two[0]).collect();
    (outcome, taken)
}

/// Alone a task of central's computes without ticks; with another lane's beside it there are all of
/// them, for the CPU is shared by the weights; and then none once more.
#[test]
pub(crate) fn ticks_stop_but_where_another_lane_needs_them() {
    let beside = TaskSpec::named("beside").only_on([1]).arrives(ms(1_000)).run(exactly(ms(500)));
    let run = without_ticks("a CPU without ticks", 2).task(beside);
    // What the other account has saved up, 20 ms for each CPU, and some slices.
    let run = run.waits_at_most(ms(50)).run_for(ms(4_000));
    let (outcome, ticks) = ticks_between(run, &[ms(100), ms(1_000), ms(1_900), ms(2_100), ms(4_000) - 1]);
    // Ten times a second something may come between.
    assert!(ticks[0] <= 9, "{ticks:?} ticks");
    assert!(ticks[1] >= 900 / 4 - 5, "{ticks:?} ticks");
    assert!(ticks[3] <= 19, "{ticks:?} ticks");
    let ran = outcome.task("beside").ran_ns;
    assert!(ran.abs_diff(ms(500)) < ms(1), "{ran}");
}

/// An interrupt takes long here. So who wakes may be put behind a task that is about to begin a run
/// without an end; nobody else wants a CPU most of the time.
#[test]
pub(crate) fn nobody_is_left_behind_a_run_that_began_meanwhile() {
    let costs = Costs { ipi_least_ns: us(500), ipi_most_ns: ms(1), ..Costs::default() };
    let (option, value) = options::option("central", "slice_ns", "1000000").unwrap();
    let sleeper = |name: String, least, most| {
        TaskSpec::named(name).run(between(us(50), us(300))).sleep(between(least, most)).for_ever()
    };
    let outcome = without_ticks("behind it", 3)
        .machine(Machine::cpus(3).nohz_full().costs(costs))
        .at(1, move |kernel| set_option(kernel, 1, option, value))
        .task(sleeper("own".into(), us(100), ms(2)).only_on([1, 2]).in_cgroup("far"))
        .tasks(2, |i| sleeper(format!("other {i}"), ms(50), ms(300)).only_on([i + 1]))
        .run_for(LENGTH)
        .pass();
    let own = outcome.task("own");
    assert!(own.longest_wait_ns <= ms(20), "{own:?}");
}

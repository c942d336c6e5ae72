//! What comes after what has gone: lanes in the places of earlier ones, limits too, applications that
//! are no more; and machines that have less than they may have.

use crate::lanes::hogs;
use crate::level1::expect;
use metasched_sim::abi::NO_QUOTA;
use metasched_sim::metasched::{
    assign, drop_app, lanes, program, reap, replace_root, scenario, set_app, set_app_with, unassign,
};
use metasched_sim::{Scenario, TaskSpec, ms};

/// User space looks after lanes, ten times in 100 ms.
fn reaped(run: Scenario, from_ns: u64) -> Scenario {
    (0..10).fold(run, |run, i| {
        run.at(from_ns + i * ms(10), |kernel| {
            reap(kernel);
        })
    })
}

/// The first lane is freed, and one of central takes its place, whose tasks run until its timer ends
/// their runs.
fn a_timer_in_its_place() -> Scenario {
    let run = hogs(scenario("a timer in its place", "fifo").cpus(2), 4, "");
    let run = reaped(run.at(ms(50), |kernel| replace_root(kernel, "vtime")), ms(60));
    run.at(ms(300), |kernel| {
        replace_root(kernel, "central");
        let root = lanes(kernel).into_iter().find(|lane| lane.is_root());
        expect(kernel, root.is_some_and(|lane| lane.slot == 0), "the place was not used again");
    })
    .waits_at_most(ms(200))
    .run_for(ms(2_000))
}

/// The kernel forgets what a timer calls when it is stopped: the tasks waited for ever.
#[test]
pub(crate) fn a_lane_in_the_place_of_another_hears_of_its_timer() {
    a_timer_in_its_place().pass();
}

/// A cgroup whose tasks are parked has no limit any more, and another has one in the same place.
fn a_limit_in_its_place() -> Scenario {
    let run = scenario("a limit in its place", "fifo").cpus(2).idle_at_most(ms(1_000));
    hogs(hogs(run, 2, "a"), 2, "b")
        .at(0, |kernel| kernel.set_cgroup_max("a", 1_000_000, 1_000, 0))
        .at(ms(500), |kernel| {
            kernel.set_cgroup_max("a", 1_000_000, NO_QUOTA, 0);
            kernel.set_cgroup_max("b", 1_000_000, 1_000, 0);
        })
        .run_for(ms(900))
}

#[test]
pub(crate) fn who_was_parked_goes_on_though_another_cgroup_has_the_place_of_the_limit() {
    let outcome = a_limit_in_its_place().pass();
    let ran = outcome.task("a 0").ran_ns + outcome.task("a 1").ran_ns;
    assert!(ran > ms(700), "they ran for {} ms of two CPUs in 400 ms", ran / ms(1));
}

/// An application is dropped while it has work; another stays, which has none.
fn an_application_goes() -> Scenario {
    let run = hogs(scenario("an application goes", "fifo"), 2, "a");
    let run = run.at(0, |kernel| {
        for (app, cgroup) in [(1, "a"), (2, "b")] {
            set_app(kernel, app, "fifo", 100);
            assign(kernel, cgroup, app);
        }
    });
    let run = run.at(ms(500), |kernel| {
        unassign(kernel, "a");
        drop_app(kernel, 1);
    });
    reaped(run, ms(510)).run_for(ms(2_500))
}

/// CPUs served it by its lag for ever, and nobody was alone any more.
#[test]
pub(crate) fn who_is_alone_when_an_application_has_gone_has_whole_slices() {
    let outcome = an_application_goes().pass();
    let hog = outcome.task("a 0");
    // Slices of 20 ms, from 0.6 s on; of 2 ms they would be some 500.
    let stops = hog.voluntary_switches + hog.involuntary_switches;
    assert!(stops < 180, "it was stopped {stops} times");
}

/// 63 heavy applications on a CPU, and the lightest with as many tasks as wait for half a minute if
/// each has a turn of half a second.
fn a_light_crowd() -> Scenario {
    let run = hogs(scenario("a light crowd", "fifo"), 60, "light");
    run.tasks(62, |i| TaskSpec::hog(format!("heavy {i}")).in_cgroup(format!("heavy{}", i + 1)))
        .at(0, |kernel| {
            for app in 1..=62 {
                set_app(kernel, app, "fifo", 10_000);
                assign(kernel, &format!("heavy{app}"), app);
            }
            set_app(kernel, 63, "fifo", 1);
            assign(kernel, "light", 63);
        })
        .waits_at_most(ms(12_000))
        .run_for(ms(40_000))
}

#[test]
pub(crate) fn the_lightest_application_with_many_tasks_does_not_end_the_program() {
    a_light_crowd().pass();
}

/// A machine that is made for 64 CPUs and has four: ten applications, one a twentieth of the others.
fn few_of_many_cpus() -> Scenario {
    let mut run = scenario("few of many CPUs", "fifo").cpus(64);
    for app in 1..=10 {
        run = run.tasks(4, move |i| {
            let spec = TaskSpec::hog(format!("app{app}. {i}")).in_cgroup(format!("app{app}"));
            spec.only_on([0, 1, 2, 3])
        });
    }
    run.at(0, |kernel| {
        for cpu in 4..64 {
            kernel.cpu_off(cpu);
        }
        for app in 1..=10 {
            set_app(kernel, app, "fifo", if app == 10 { 5 } else { 100 });
            assign(kernel, &format!("app{app}"), app);
        }
    })
    .waits_at_most(ms(8_000))
    .run_for(ms(8_000))
}

/// By the 64 its share made a slice often: it came first every 32 ms, by no right.
#[test]
pub(crate) fn a_light_application_is_light_where_most_cpus_are_off_line() {
    let outcome = few_of_many_cpus().pass();
    let ran: u64 = (0..4).map(|i| outcome.task(&format!("app10. {i}")).ran_ns).sum();
    // 177 ms are due of 32 s, and rotations give it something.
    assert!(ran < ms(300), "it ran for {} ms", ran / ms(1));
}

/// A cgroup with `cpu.idle` beside another, each on a lane, found so by a program that comes later.
fn idle_when_the_program_comes() -> Scenario {
    let run = hogs(scenario("idle from the start", "fifo").cpus(2), 3, "a");
    hogs(run, 3, "b")
        .at(0, |kernel| kernel.unload())
        .at(ms(100), |kernel| kernel.set_cgroup_idle("a", true))
        .at(ms(200), |kernel| {
            kernel.load(&program("fifo"));
        })
        .at(ms(400), |kernel| {
            for (app, cgroup) in [(1, "a"), (2, "b")] {
                set_app_with(kernel, app, "vtime", (100, false), &[]);
                assign(kernel, cgroup, app);
            }
        })
        .run_for(ms(3_400))
}

/// The kernel tells a program that comes of weights only, and those of idle cgroups are as before.
#[test]
pub(crate) fn a_cgroup_that_was_idle_when_the_program_came_has_next_to_nothing() {
    let outcome = idle_when_the_program_comes().pass();
    let idle: u64 = (0..3).map(|i| outcome.task(&format!("a {i}")).ran_ns).sum();
    // A hundredth, but for 0.4 s; by the default weight a half of two CPUs.
    assert!(idle < ms(700), "it ran for {} ms", idle / ms(1));
}

use super::testing::{allowed, event};
use super::*;
use crate::dsq::DsqRef;

const STOP: What = What::Stop { runnable: true };
const REST: What = What::Stop { runnable: false };

fn figures(
    warm_up_ns: u64,
    events: impl IntoIterator<Item = (u64, usize, usize, What)>,
    end: u64,
) -> RunFigures {
    let mut figures = RunFigures::new(Machine::new(2, 1, 1, false).unwrap(), warm_up_ns);
    figures.born(TaskId(0), "web 1", "web");
    figures.born(TaskId(1), "web 2", "web");
    figures.born(TaskId(2), "batch", "");
    for task in 0..3 {
        figures.observe(&event((0, 0, task, allowed(&[0, 1]))));
    }
    events.into_iter().for_each(|e| figures.observe(&event(e)));
    figures.finish(end);
    figures
}

fn of<'a>(figures: &'a RunFigures, path: &str) -> &'a GroupFigures {
    figures.groups().find(|(p, _)| *p == path).unwrap().1
}

#[test]
fn time_waits_and_switches_are_those_of_the_stream() {
    let events = [
        (10, 0, 0, What::Wake),
        (15, 0, 0, What::Start),
        (115, 0, 0, STOP),
        (215, 0, 0, What::Start),
        (225, 0, 0, What::Sleep),
        (225, 0, 0, REST),
    ];
    let figures = figures(0, events, 300);
    let web = of(&figures, "web");
    assert_eq!((web.tasks, web.cpu_ns, web.bursts), (2, 110, 1));
    assert_eq!((web.voluntary, web.involuntary, web.switches()), (1, 1, 2));
    assert_eq!((web.waits.count(), web.waits.sum_ns(), web.waits.max_ns()), (2, 105, Some(100)));
    assert_eq!((figures.window_ns(), figures.capacity_ns()), (300, 600));
    assert_eq!(figures.all().tasks, 3);
}

#[test]
fn nothing_of_the_warm_up_counts() {
    let events = [
        (10, 0, 0, What::Wake),
        (20, 0, 0, What::Start),
        (90, 0, 0, STOP),
        (120, 0, 0, What::Start),
        (130, 1, 0, STOP),
        (140, 1, 0, What::Start),
        (150, 1, 0, What::Sleep),
        (150, 1, 0, REST),
    ];
    let figures = figures(100, events, 200);
    let web = of(&figures, "web");
    assert_eq!((web.cpu_ns, web.bursts, web.switches()), (20, 1, 2));
    // The wait from 90 to 120 began before.
    assert_eq!((web.waits.count(), web.waits.max_ns()), (1, Some(10)));
    assert_eq!(figures.window_ns(), 100);
}

#[test]
fn who_never_runs_is_seen_in_the_waits() {
    let figures = figures(0, [(10, 0, 2, What::Wake)], 1_000);
    assert_eq!(of(&figures, "").waits.max_ns(), Some(990));
}

#[test]
fn time_in_which_cpu_max_keeps_a_task_off_is_no_wait() {
    let queue = DsqRef::Throttled;
    let events = [
        (10, 0, 0, What::Wake),
        (15, 0, 0, What::Insert(queue)),
        (95, 0, 0, What::Remove(queue)),
        (98, 0, 0, What::Start),
        (100, 0, 0, STOP),
        (100, 0, 0, What::Insert(queue)),
    ];
    let figures = figures(0, events, 150);
    let web = of(&figures, "web");
    assert_eq!((web.throttled_ns, web.cpu_ns), (80 + 50, 2));
    assert_eq!((web.waits.count(), web.waits.sum_ns(), web.waits.max_ns()), (2, 8, Some(8)));
}

#[test]
fn time_of_cpus_that_are_off_line_is_not_there() {
    let cpu = |at, what| Observed { at, cpu: 1, task: None, what };
    let mut figures = RunFigures::new(Machine::new(2, 1, 1, false).unwrap(), 100);
    figures.observe(&cpu(50, What::Offline));
    figures.observe(&cpu(150, What::Online));
    figures.observe(&cpu(180, What::Offline));
    figures.finish(200);
    assert_eq!((figures.window_ns(), figures.capacity_ns()), (100, 130));
}

#[test]
fn only_a_task_that_has_run_migrates() {
    let events = [
        (1, 0, 0, What::Wake),
        (1, 1, 0, What::Migrate),
        (2, 1, 0, What::Start),
        (3, 1, 0, STOP),
        (4, 0, 0, What::Migrate),
        (5, 0, 0, What::Start),
    ];
    let figures = figures(0, events, 10);
    let web = of(&figures, "web");
    assert_eq!((web.migrations, web.across_llcs, web.across_nodes), (1, 0, 0));
}

#[test]
fn idle_time_counts_while_somebody_waits_and_no_more_than_he_could_use() {
    let events = [
        (0, 0, 0, What::Idle),
        (0, 1, 0, What::Idle),
        (100, 0, 0, What::Wake),
        (130, 0, 1, What::Wake),
        (140, 0, 0, What::Busy),
        (140, 0, 0, What::Start),
        (160, 1, 1, What::Busy),
        (160, 1, 1, What::Start),
        (900, 0, 2, What::Wake),
    ];
    // One task for 30, two for 10, one for 20, and none beside the busy machine.
    assert_eq!(figures(0, events.clone(), 1_000).idle_beside_work_ns(), 30 + 20 + 20);
    assert_eq!(figures(150, events, 1_000).idle_beside_work_ns(), 10);
}

#[test]
fn a_task_that_changes_its_cgroup_is_charged_to_each_for_its_time_there() {
    let mut figures = figures(0, [(0, 0, 0, What::Wake), (0, 0, 0, What::Start)], 0);
    figures.moved(60, TaskId(0), "other");
    figures.observe(&event((100, 0, 0, REST)));
    figures.finish(100);
    assert_eq!((of(&figures, "web").cpu_ns, of(&figures, "other").cpu_ns), (60, 40));
    assert_eq!(of(&figures, "other").voluntary, 1);
}

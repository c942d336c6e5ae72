use super::*;
use crate::replayable::testing::file;
use metasched_scenario::ms;

fn replayed(text: &str) -> Result<Replayed> {
    let text = format!("duration = \"150ms\"\nwarm_up = \"30ms\"\n{text}");
    let file = file(&text);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let replayable = Replayable::of(&file, None, cpus)?;
    let replay = Replay::without_cgroups(&replayable);
    let replayed = replay.run(1, &Interrupt::default())?;
    assert!(replayed.window_ns >= ms(100), "{replayed:?}");
    replay.remove()?;
    Ok(replayed)
}

#[test]
fn a_hog_runs_and_a_sleeper_sleeps() {
    let replayed = replayed(
        "[[task]]\nname = \"hog\"\ncgroup = \"hogs\"\nsteps = [\"run 10ms\"]\n\
         [[task]]\nname = \"sleeper\"\ncgroup = \"sleepers\"\nsteps = [\"run 100us\", \"sleep 5ms\"]",
    )
    .unwrap();
    let (hogs, sleepers) = (&replayed.groups["hogs"], &replayed.groups["sleepers"]);
    assert_eq!((hogs.tasks, hogs.voluntary), (1, 0));
    // Half of what there was, however much else this machine does.
    assert!(hogs.cpu_ns > replayed.window_ns / 4, "{hogs:?}");
    assert!(sleepers.cpu_ns < hogs.cpu_ns / 2 && sleepers.voluntary >= 5, "{sleepers:?}");
    assert!(hogs.waits.is_none() && replayed.no_waits.is_some(), "waits were not traced");
}

#[test]
fn messages_locks_barriers_and_forks_are_the_real_things() {
    let replayed = replayed(
        r#"
        [[pipe]]
        name = "p"
        [[lock]]
        name = "l"
        [[barrier]]
        name = "b"
        [[task]]
        name = "client"
        cgroup = "chain"
        steps = ["begin", "write p", "wait answer", "run 10us", "sleep 1ms"]
        [[task]]
        name = "server"
        cgroup = "chain"
        steps = ["read p", "run 50us", "end", "wake answer"]
        [[task]]
        name = "party"
        count = 3
        cgroup = "parties"
        steps = ["lock l", "run 20us", "unlock l", "barrier b", "done"]
        [[task]]
        name = "parent"
        cgroup = "family"
        steps = ["fork child 2", "join", "done", "sleep 1ms"]
        [[task]]
        name = "child"
        cgroup = "family"
        steps = ["run 20us"]
        "#,
    )
    .unwrap();
    let chain = &replayed.groups["chain"];
    assert!(chain.done >= 5 && chain.responses.count() == chain.done, "{chain:?}");
    let response_ns = chain.responses.percentile_ns(0.5).unwrap();
    assert!((50_000..ms(100)).contains(&response_ns), "{response_ns}");
    let parties = &replayed.groups["parties"];
    assert!(parties.done >= 9 && parties.voluntary >= 9, "{parties:?}");
    let family = &replayed.groups["family"];
    assert!(family.done >= 2 && family.tasks >= 2 * family.done, "{family:?}");
}

#[test]
fn requests_arrive_when_they_are_said_to_and_are_answered() {
    let replayed = replayed(
        r#"
        [[arrivals]]
        name = "http"
        every = "4ms"
        [[task]]
        name = "server"
        count = 2
        steps = ["accept http", "run 100us", "end"]
        "#,
    )
    .unwrap();
    let all = &replayed.groups[""];
    assert!((10..=31).contains(&all.done), "{all:?}");
    assert!(all.responses.percentile_ns(0.5).unwrap() >= 100_000, "{all:?}");
}

#[test]
fn a_task_that_does_what_it_must_not_ends_the_replay() {
    let error = replayed(
        "[[lock]]\nname = \"l\"\n[[task]]\nname = \"twice\"\nsteps = [\"lock l\", \"lock l\", \"unlock l\"]",
    )
    .unwrap_err();
    assert!(error.to_string().contains("takes lock 'l' and has it already"), "{error}");
}

//! Scenario files: those of the examples run, what they say happens, and what is wrong in one
//! is told with its line.

use metasched_base::Kind;
use metasched_scenario::file::{KernelThread, MachineSpec, ScenarioFile};
use metasched_sim::metasched::{POLICIES, lanes, scenario};
use metasched_sim::{Costs, Outcome, Scenario, ms, us};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("examples/")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    paths.sort();
    assert!(paths.len() >= 5, "{paths:?}");
    paths
}

fn parse(text: &str) -> metasched_base::Result<ScenarioFile> {
    ScenarioFile::parse(Path::new("s.toml"), text)
}

fn json(text: &str) -> metasched_base::Result<ScenarioFile> {
    ScenarioFile::parse(Path::new("s.json"), text)
}

/// A run of the file as the metascheduler would do it, with its lanes.
fn of(file: &ScenarioFile, policy: &str) -> Scenario {
    let run = scenario(file.name.clone(), policy).cpus(file.machine.cpus);
    run.run_for(file.duration_ns).with_file(file).with_lanes(&file.lanes)
}

fn run(text: &str) -> Outcome {
    of(&parse(text).unwrap_or_else(|e| panic!("{e}")), "vtime").pass()
}

fn run_json(text: &str) -> Outcome {
    of(&json(text).unwrap_or_else(|e| panic!("{e}")), "vtime").pass()
}

#[test]
fn every_example_runs_under_every_policy() {
    for path in examples() {
        let file = ScenarioFile::load(&path).unwrap_or_else(|e| panic!("{e}"));
        for policy in POLICIES {
            let outcome = of(&file, policy).pass();
            let mut ran: BTreeMap<&str, u64> = BTreeMap::new();
            for ((_, figures), (group, _)) in outcome.all().zip(outcome.belongings()) {
                // What works once and is done before the warm-up ends shows nothing.
                *ran.entry(group).or_default() += figures.ran_ns + figures.exited_ns.unwrap_or(0);
            }
            assert!(ran.values().all(|ns| *ns > 0), "{path:?} under {policy}: {ran:?}");
            let most = ran.keys().map(|group| outcome.done(group)).max();
            assert!(most > Some(100), "{path:?} under {policy} does little: {most:?}");
            for (queue, left) in outcome.unanswered() {
                assert!(left < 200, "{path:?} under {policy}: {left} of '{queue}' unanswered");
            }
        }
    }
}

#[test]
fn the_first_example_is_short_enough_to_be_written_from_memory() {
    let text = std::fs::read_to_string(examples().last().expect("examples/"));
    let text = text.expect("webserver.toml");
    assert!(text.starts_with("# A web server beside a batch job"));
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    assert!(lines.count() <= 25);
}

#[test]
fn a_file_gives_the_same_bytes_twice() {
    for path in examples() {
        let trace = |seed| {
            let file = ScenarioFile::load(&path).unwrap_or_else(|e| panic!("{e}"));
            let short = of(&file, "vtime").seed(seed).run_for(ms(600));
            let outcome = short.traced().pass();
            let responses: Vec<_> =
                outcome.belongings().map(|(group, _)| outcome.responses_ns(group)).collect();
            (outcome.trace, responses)
        };
        let first = trace(3);
        assert!(first.0.lines().count() > 1_000, "{path:?}");
        assert!(first == trace(3), "{path:?} differs from itself");
        assert!(first.0 != trace(4).0, "{path:?} does not depend on the seed");
    }
}

#[test]
fn what_a_file_leaves_out_has_defaults() {
    let file = parse("[[task]]\nname = \"a\"\nsteps = [\"run 1ms\"]").unwrap();
    assert_eq!((file.name.as_str(), file.about.as_str()), ("s", ""));
    assert_eq!((file.duration_ns, file.warm_up_ns, file.seed), (ms(10_000), 0, None));
    assert_eq!(file.machine, MachineSpec { cpus: 4, ..MachineSpec::default() });
    assert!(file.lanes.is_empty());
}

#[test]
fn what_a_file_says_is_read() {
    let file = parse(
        r#"
        name = "n"
        about = "a"
        duration = "2s"
        warm_up = "1s"
        seed = 7
        [machine]
        cpus = 64
        llcs = 8
        nodes = 2
        smt = true
        hz = 1000
        base_slice = "100ms"
        costs = { switch = "1900ns", group_level = "1us", group_queued = "2us", ipi = "3us..9us", tick_strays = 50 }
        [[machine.kernel_thread]]
        name = "kworker/3:0"
        cpu = 3
        every = "1s"
        run = "200us"
        [cgroups."a/b"]
        weight = 300
        lane = { policy = "vtime", weight = 50, options = { slice = "5ms" } }
        [cgroups.c]
        lane = "fifo"
        [[task]]
        name = "t"
        steps = ["run 1ms"]
        "#,
    )
    .unwrap();
    assert_eq!((file.name.as_str(), file.about.as_str()), ("n", "a"));
    assert_eq!((file.duration_ns, file.warm_up_ns, file.seed), (ms(2_000), ms(1_000), Some(7)));
    let (ipi_least_ns, ipi_most_ns) = (us(3), us(9));
    let costs = Costs {
        switch_ns: 1_900,
        group_level_ns: us(1),
        group_queued_ns: us(2),
        tick_strays: 50,
        ipi_least_ns,
        ipi_most_ns,
        ..Costs::default()
    };
    let name = "kworker/3:0".to_owned();
    let thread = KernelThread { name, cpu: Some(3), every_ns: ms(1_000), run_ns: us(200) };
    let kernel_threads = vec![thread];
    let machine = MachineSpec {
        cpus: 64,
        llcs: 8,
        nodes: 2,
        smt: true,
        hz: 1000,
        base_slice_ns: Some(ms(100)),
        costs,
        kernel_threads,
    };
    assert_eq!(file.machine, machine);
    assert_eq!(file.machine.machine().unwrap().tick_ns(), ms(1));
    let [first, second] = &file.lanes[..] else { panic!("{:?}", file.lanes) };
    assert_eq!((first.app, first.cgroup.as_str(), first.policy.as_str()), (1, "a/b", "vtime"));
    assert_eq!((first.weight, &first.options["slice"]), (Some(50), &"5ms".to_owned()));
    assert_eq!((second.app, second.policy.as_str(), second.weight), (2, "fifo", None));
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_what_to_write() {
    let task = |line: &str| format!("[[task]]\nname = \"t\"\nsteps = [\"run 1ms\"]\n{line}\n");
    let steps = |steps: &str| format!("[[task]]\nname = \"t\"\nsteps = [\n{steps}\n]\n");
    for (text, line, said) in [
        (task("weigth = 3"), 4, "did you mean 'weight'?"),
        (task("weight = 0"), 4, "write 1 to 10000"),
        (task("weight = 3\nnice = 1"), 5, "not both"),
        (task("nice = 20"), 4, "-20 to 19"),
        (task("count = -1"), 4, "write 0 to 1000000"),
        (task("affinity = \"3-1\""), 4, "write it like \"0-3,8\""),
        (task("arrives = \"exp(1ms)\""), 4, "0ms..100ms"),
        (task("cgroup = \"/a\""), 4, "without a '/' first"),
        (task("rounds = 0"), 4, "write 1 to"),
        (task("[[task]]\nname = \"t\"\nsteps = []"), 5, "s.toml:2 already"),
        (task("[[task]]\nname = \"a b\"\nsteps = []"), 5, "without spaces"),
        (task("[[task]]\nname = \"u\"\nsteps = []"), 6, "it does nothing"),
        (steps("\"run 1ms\",\n\"runn 1ms\""), 5, "did you mean 'run'?"),
        (steps("\"run 1\""), 4, "1800ms"),
        (steps("\"run 1ms\",\n7"), 5, "not a integer"),
        (steps("{ repeat = 0, steps = [\"yield\"] }"), 4, "it is no loop"),
        (steps("{ repeat = 2, step = [\"yield\"] }"), 4, "did you mean 'steps'?"),
        (steps("\"yield\""), 2, "takes no time"),
        (steps("\"run 1ms\",\n\"fork u\""), 5, "there is no task 'u'"),
        (steps("\"run 1ms\",\n\"fork t\""), 2, "fork itself without end"),
        (steps("\"io disk\""), 4, "add a [[device]]"),
        (steps("\"write p\"") + "[[pipe]]\nname = \"p\"", 4, "\"read p\""),
        (steps("\"write q\"") + "[[pipe]]\nname = \"pipe\"", 4, "there are pipe"),
        (steps("\"lock m\"") + "[[lock]]\nname = \"m\"", 4, "\"unlock m\""),
        (steps("\"wait x\""), 4, "\"wake x\""),
        (task("[[arrivals]]\nname = \"a\"\nrate = 5"), 5, "nobody accepts 'a'"),
        (task("[[arrivals]]\nname = \"a\"\nrate = 0"), 6, "requests per second"),
        (task("[[arrivals]]\nname = \"a\""), 5, "write one of: rate;"),
        (task("[[arrivals]]\nname = \"a\"\nrate = 5\nevery = \"1ms\""), 7, "remove one"),
        (task("[[arrivals]]\nname = \"a\"\nclients = []"), 6, "no samples"),
        (task("[[arrivals]]\nname = \"a\"\nclients = [1, -1]"), 6, "write 0 to"),
        (task("[[arrivals]]\nname = \"a\"\nclients = 3\nsample = \"1s\""), 7, "write a list"),
        (task("[[arrivals]]\nname = \"a\"\nclients = [3]\nsample = \"0s\""), 7, "\"1s\""),
        (task("[machine]\nbase_slice = \"1us\""), 5, "\"100us\" to"),
        (task("[[arrivals]]\nname = \"a\"\nat = [\"2ms\",\n\"1ms\"]"), 7, "sort them"),
        (task("[[device]]\nname = \"d\"\ndepth = 0\ntime = \"1ms\""), 6, "write 1 to"),
        (task("[[barrier]]\nname = \"b\"\nspin = 3"), 6, "true, false, or a time"),
        (task("[machine]\ncpus = 4\nllcs = 5"), 6, "write 1 to 4"),
        (task("[machine]\ncpus = 2000"), 5, "write 1 to 1024"),
        (task("[cgroups.a]\nlane = \"vtiem\""), 5, "did you mean 'vtime'?"),
        (task("[cgroups.a]\nlane = { policy = \"fifo\", options = { slise = 1 } }"), 5, "slice_ns"),
        (
            task("[cgroups.a]\nlane = { policy = \"fifo\", options = { slice = 1 } }"),
            5,
            "100000 to",
        ),
        (task("[cgroups.a]\nquota = \"1us\""), 5, "40ms/100ms"),
        (task("[cgroups.a]\nburst = \"1ms\""), 5, "there is none"),
        (task("[[event]]\nat = \"1s\"\ntask = \"u\"\nweight = 3"), 6, "there is no task 'u'"),
        (task("[[event]]\nat = \"1s\"\ntask = \"t\"\nquota = \"1ms\""), 4, "of a cgroup"),
        (task("[[event]]\nat = \"1s\"\ntask = \"t\""), 4, "weight, nice, affinity"),
        (task("[[event]]\nat = \"1s\"\ntask = \"t\"\ncgroup = \"a\"\nweight = 1"), 4, "one thing"),
        (task("[[event]]\nat = \"1s\"\ncgroup = \"a\"\nlane = \"none\""), 7, "no lane of its own"),
        (task("[[event]]\nat = \"1s\"\ncpu = 4\nonline = false"), 6, "write 0 to 3"),
        ("duration = \"1s\"\nwarm_up = \"1s\"\n".to_owned() + &task(""), 2, "a longer duration"),
        ("name = \"empty\"\n".to_owned(), 2, "add a [[task]]"),
        ("name = \n".to_owned(), 1, "docs/simulator.md"),
    ] {
        let Err(e) = parse(&text) else { panic!("it is taken:\n{text}") };
        assert_eq!(e.kind, Kind::BadInput, "{e}");
        assert!(e.to_string().contains(said), "{text}{e}");
        assert!(e.to_string().contains(&format!("s.toml:{line}: ")), "{text}{e}");
        assert!(!e.remedy.is_empty(), "{e}");
    }
    let Err(e) = ScenarioFile::load(Path::new("/no/such.toml")) else { panic!("it is there") };
    assert!(e.to_string().contains("read the scenario '/no/such.toml'"), "{e}");
}

#[test]
fn steps_do_what_they_say() {
    let outcome = run(r#"
        duration = "1s"
        [[lock]]
        name = "m"
        [[barrier]]
        name = "b"
        [[task]]
        name = "a"
        rounds = 10
        steps = ["every 50ms", "begin", "run 1ms", "end", "barrier b", "wake go 2", "lock m", "broadcast c", "unlock m"]
        [[task]]
        name = "b"
        rounds = 5
        steps = [{ repeat = 2, steps = ["barrier b", "wait go", "wait go", "run 1ms"] }, "fork c 2", "join", "done 3"]
        [[task]]
        name = "c"
        steps = ["run 2ms", "yield", "run 2ms"]
        [[task]]
        name = "d"
        rounds = 2
        steps = ["lock m", "await c m", "unlock m", "done"]
    "#);
    let end =
        |name: &str| outcome.task(name).exited_ns.unwrap_or_else(|| panic!("'{name}' is there"));
    assert!((ms(500)..ms(502)).contains(&end("a")), "{}", end("a"));
    assert!((ms(500)..ms(510)).contains(&end("b")), "{}", end("b"));
    assert_eq!((outcome.done("a"), outcome.done("b"), outcome.done("d")), (10, 15, 2));
    assert_eq!(outcome.all().filter(|(name, _)| *name == "c").count(), 10);
    assert!(outcome.responses_ns("a").iter().all(|ns| (ms(1)..ms(1) + us(50)).contains(ns)));
}

#[test]
fn tasks_have_the_weights_cpus_and_times_that_they_are_given() {
    let outcome = run(r#"
        duration = "2s"
        [machine]
        cpus = 2
        [[task]]
        name = "light"
        affinity = "1"
        steps = ["run 1s"]
        [[task]]
        name = "heavy"
        affinity = "1"
        weight = 300
        steps = ["run 1s"]
        [[task]]
        name = "late"
        count = 4
        affinity = "0"
        arrives = "100ms..500ms"
        rounds = 1
        steps = ["run 1ms"]
    "#);
    let share = outcome.task("heavy").ran_ns as f64 / outcome.task("light").ran_ns as f64;
    assert!((2.7..3.3).contains(&share), "{share}");
    for (i, due) in [100, 200, 300, 400].into_iter().enumerate() {
        let ran = outcome.task(&format!("late {i}")).first_run_ns.expect("it ran");
        assert!((ms(due)..ms(due) + us(20)).contains(&ran), "late {i} runs at {ran} ns");
    }
}

#[test]
fn cgroups_have_their_quotas_and_events_change_them() {
    let outcome = run(r#"
        duration = "2s"
        [machine]
        cpus = 2
        [cgroups.a]
        quota = "20ms/100ms"
        [[task]]
        name = "limited"
        cgroup = "a"
        steps = ["run 1s"]
        [[task]]
        name = "moves"
        cgroup = "b"
        affinity = "0"
        steps = ["run 1s"]
        [[event]]
        at = "1s"
        cgroup = "a"
        quota = "80ms/100ms"
        [[event]]
        at = "1s"
        task = "moves"
        affinity = "1"
        move_to = "c"
    "#);
    let limited = outcome.task("limited").ran_ns;
    assert!((ms(900)..ms(1_100)).contains(&limited), "200 ms and 800 ms are {limited} ns");
    assert!(outcome.task("moves").migrations > 0);
    assert!(outcome.belongings().any(|at| at == ("moves", "c")));
}

#[test]
fn lanes_of_cgroups_are_made_replaced_and_taken_away() {
    let text = r#"
        duration = "2s"
        [machine]
        cpus = 1
        [cgroups.a]
        weight = 300
        lane = "fifo"
        [[task]]
        name = "in-lane"
        cgroup = "a"
        steps = ["run 1s"]
        [[task]]
        name = "rest"
        count = 3
        steps = ["run 1s"]
        [[event]]
        at = "1s"
        cgroup = "a"
        lane = { policy = "vtime", weight = 100, options = { slice = "5ms" } }
        [[event]]
        at = "1500ms"
        cgroup = "a"
        lane = "none"
        [[event]]
        at = "1600ms"
        lane = "fifo"
    "#;
    let file = parse(text).unwrap();
    let outcome = of(&file, "vtime")
        .at(ms(500), |kernel| expect_app(kernel, Some(("fifo", 300))))
        .at(ms(1_200), |kernel| expect_app(kernel, Some(("vtime", 100))))
        .at(ms(1_700), |kernel| expect_app(kernel, None))
        .pass();
    // Three quarters of a second, half of half a second, a quarter of half a second.
    let ran = outcome.task("in-lane").ran_ns;
    assert!((ms(1_090)..ms(1_160)).contains(&ran), "{ran} ns");
}

fn expect_app(kernel: &mut metasched_sim::kernel::Kernel, wanted: Option<(&str, u32)>) {
    let lane = lanes(kernel).into_iter().find(|lane| lane.is_apps());
    let got = lane.map(|lane| (POLICIES[lane.policy as usize], lane.weight));
    if got != wanted {
        kernel.fail("expectation", format!("the application's lane is {got:?}, not {wanted:?}"));
    }
}

#[test]
fn requests_arrive_at_recorded_times_from_a_file_beside_the_scenario() {
    let folder = std::env::temp_dir().join(format!("metasched-list-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("recorded.toml");
    let text = r#"
        duration = "1s"
        [[arrivals]]
        name = "a"
        list = "times.txt"
        from = "100ms"
        [[task]]
        name = "server"
        steps = ["accept a", "run 20ms", "end"]
    "#;
    let load = |times: &str| {
        std::fs::write(folder.join("times.txt"), times).expect("a file");
        ScenarioFile::parse(&path, text)
    };
    let outcome = of(&load("5ms\n10ms\n10ms\n").unwrap(), "fifo").pass();
    let whole: Vec<u64> = outcome.responses_ns("server").iter().map(|ns| ns / ms(1)).collect();
    // The second waits for 15 ms, the third for 35 ms.
    assert_eq!(whole, [20, 35, 55]);
    for (times, line, said) in [("5ms\n\n", 2, "1800ms"), ("5ms\n4ms\n", 2, "sort them")] {
        let Err(e) = load(times) else { panic!("it is taken: {times}") };
        assert!(e.to_string().contains(&format!("times.txt:{line}: ")), "{e}");
        assert!(e.to_string().contains(said), "{e}");
    }
    std::fs::remove_dir_all(&folder).expect("it is ours");
    let Err(e) = ScenarioFile::parse(&path, text) else { panic!("it is gone") };
    assert!(e.to_string().contains("recorded.toml:5: "), "{e}");
}

#[test]
fn an_affinity_without_a_cpu_of_the_machine_fails_the_run() {
    let text = r#"
        [[task]]
        name = "t"
        steps = ["run 1s"]
        [[event]]
        at = "1ms"
        task = "t"
        affinity = "9"
    "#;
    let Err(failure) = of(&parse(text).unwrap(), "fifo").run() else { panic!("it passes") };
    assert!(failure.message.contains("'t' may run on no CPU"), "{}", failure.message);
}

#[test]
fn an_rt_app_file_runs() {
    let outcome = run_json(
        r#"{
        /* as in its own examples: keys come twice, and commas where none belongs */
        "global": { "duration": 1, "default_policy": "SCHED_OTHER", "logdir": "./", "ftrace": false },
        "tasks": {
            "periodic": {
                "instance": 2, "loop": 50, "cpus": [0, 1],
                "run": 1000,
                "timer": { "ref": "unique", "period": 10000, "mode": "absolute" },
            },
            "phased": {
                "loop": 2, "priority": -5, "taskgroup": "/tg1",
                "phases": {
                    "light": { "loop": 10, "run": 1000, "sleep": 1000 },
                    "heavy": { "loop": 2, "run1": 5000, "sleep1": 1000, "run2": 5000, "sleep2": 1000 },
                },
            },
            "first": { "loop": 3, "lock": "m", "wait": { "ref": "c", "mutex": "m" }, "unlock": "m", "run": 2000 },
            "second": { "loop": 3, "sleep": 20000, "lock": "m", "broad": "c", "unlock": "m", "resume": "third" },
            "third": { "loop": 2, "suspend": "third", "runtime": 100 },
            "meets": { "instance": 3, "loop": 4, "run": 500, "barrier": "b", "yield": "" },
            "parent": { "loop": 1, "delay": 30000, "fork": "child", "mem": 10000, "iorun": 1000 },
            "child": { "instance": 0, "loop": 1, "run": 3000 },
        },
    }"#,
    );
    let end =
        |name: &str| outcome.task(name).exited_ns.unwrap_or_else(|| panic!("'{name}' is there"));
    assert!((ms(500)..ms(502)).contains(&end("periodic 1")), "{}", end("periodic 1"));
    assert!((ms(88)..ms(100)).contains(&end("phased")), "{}", end("phased"));
    assert!((ms(62)..ms(64)).contains(&end("first")), "{}", end("first"));
    assert!((ms(40)..ms(42)).contains(&end("third")), "{}", end("third"));
    assert!((ms(2)..ms(5)).contains(&end("meets 2")), "{}", end("meets 2"));
    assert!((ms(33)..ms(35)).contains(&end("child")), "{}", end("child"));
    assert!(outcome.belongings().any(|at| at == ("phased", "tg1")));
}

#[test]
fn what_of_rt_app_is_not_modelled_is_refused_by_its_name() {
    let task = |body: &str| format!("{{\n\"tasks\": {{\n\"t\": {{ \"run\": 5,\n{body} }} }} }}");
    for (text, line, said) in [
        (task("\"policy\": \"SCHED_FIFO\""), 4, "SCHED_FIFO"),
        (task("\"dl-runtime\": 5"), 4, "'dl-runtime' is not modelled"),
        (task("\"util_min\": 5"), 4, "'util_min' is not modelled"),
        (task("\"slep\": 5"), 4, "did you mean 'sleep'?"),
        (task("\"runner\": 5"), 4, "'runner' is not modelled"),
        (task("\"sleep\": \"5\""), 4, "without quotes"),
        (task("\"sleep\": -5"), 4, "from 0 on"),
        (task("\"loop\": 0"), 4, "-1 for no end"),
        (task("\"cpus\": 1"), 4, "[0, 1]"),
        (task("\"priority\": 50"), 4, "-20 to 19"),
        (task("\"wait\": \"c\""), 4, "no mutex"),
        (task("\"instance\": 2, \"timer\": { \"ref\": \"tick\", \"period\": 5 }"), 4, "unique"),
        (task("\"timer\": { \"ref\": \"unique\", \"period\": 5, \"mode\": \"x\" }"), 4, "absolute"),
        (task("\"phases\": { \"p\": { \"cpus\": [1], \"run\": 5 } }"), 4, "'cpus' is not modelled"),
        (task("\"fork\": \"u\""), 4, "no task 'u'"),
        ("{ \"tasks\": {} }".to_owned(), 1, "it has no task"),
        ("{ \"global\": { \"pi_enabled\": true } }".to_owned(), 1, "priority inheritance"),
        ("{ \"global\": { \"default_policy\": \"SCHED_RR\" } }".to_owned(), 1, "SCHED_RR"),
        ("{ \"golbal\": {} }".to_owned(), 1, "did you mean 'global'?"),
        ("{\n\"tasks\": { 5 }".to_owned(), 2, "correct that line"),
    ] {
        let Err(e) = json(&text) else { panic!("it is taken:\n{text}") };
        assert_eq!(e.kind, Kind::BadInput, "{e}");
        assert!(e.to_string().contains(said), "{text}\n{e}");
        assert!(e.to_string().contains(&format!("s.json:{line}: ")), "{text}\n{e}");
    }
}

/// One in a hundred requests took 6.1 ms, longer than a tick of 4 ms: a lane was charged only when
/// a run of its tasks ended, and asked for a CPU only when one of them woke.
#[test]
fn requests_to_a_busy_server_beside_hogs_wait_for_no_tick() {
    const MOST_NS: u64 = ms(3);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/redis.toml");
    let file = ScenarioFile::load(&path).unwrap_or_else(|e| panic!("{e}"));
    let machine = file.machine.machine().unwrap_or_else(|e| panic!("{e}"));
    let run = scenario(file.name.clone(), "vtime").machine(machine).run_for(file.duration_ns);
    let outcome = run.with_file(&file).with_lanes(&file.lanes).pass();
    let mut responses = outcome.responses_ns("clients").to_vec();
    responses.sort_unstable();
    let p99 = responses[responses.len() * 99 / 100];
    assert!(responses.len() > 30_000, "{} requests", responses.len());
    assert!(p99 < MOST_NS, "p99 of {} requests: {p99} ns", responses.len());
}

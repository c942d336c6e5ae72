//! Parallel programs in virtual machines: how their threads wait, and how many there are.

use metasched_base::Kind;
use metasched_scenario::file::ScenarioFile;
use metasched_sim::metasched::scenario;
use metasched_sim::{Scenario, ms, us};
use std::path::Path;

/// The kernel's own class, the policy that is like it, and one with a CPU that decides for all.
const SCHEDULERS: [&str; 3] = ["eevdf", "fair", "central"];
/// CPUs of the host, and virtual CPUs of the machine.
const CPUS: usize = 8;
const SPINS: &str = "wait = \"spin\"";
const BLOCKS: &str = "wait = \"block\"";
const ADAPTS: &str = "wait = \"spin\"\nadapt = true";

fn parse(text: &str) -> metasched_base::Result<ScenarioFile> {
    ScenarioFile::parse(Path::new("s.toml"), text)
}

fn of(text: &str, scheduler: &str) -> Scenario {
    let file = parse(text).unwrap_or_else(|e| panic!("{e}"));
    let run = match scheduler {
        "eevdf" => Scenario::eevdf("a team"),
        policy => scenario("a team", policy),
    };
    // Threads that spin keep whole CPUs from others, as they do in reality.
    let run = run.waits_at_most(file.duration_ns).idle_at_most(file.duration_ns);
    run.cpus(file.machine.cpus).run_for(file.duration_ns).with_file(&file)
}

/// A program of `threads` threads, with 200 us for each of eight from one barrier to the next.
fn program(threads: usize, way: &str, regions: u64) -> String {
    format!(
        "duration = \"20s\"\n[machine]\ncpus = {CPUS}\n[[team]]\nname = \"ua\"\nthreads = {threads}\n\
         regions = {regions}\nbarriers = 8\nwork = \"1600us\"\nimbalance = 0.1\n{way}\n"
    )
}

fn hogs(count: usize) -> String {
    match count {
        0 => String::new(),
        _ => format!("[[task]]\nname = \"hog\"\ncount = {count}\nsteps = [\"run 1s\"]\n"),
    }
}

/// How long it runs beside so many hogs, ns.
fn ran_ns(scheduler: &str, way: &str, count: usize) -> u64 {
    let text = program(CPUS, way, 150) + &hogs(count);
    let outcome = of(&text, scheduler).until_teams_end().pass();
    let ran_ns = outcome.team("ua").ran_ns();
    ran_ns.unwrap_or_else(|| panic!("{way}, {count} hogs: it does not end under {scheduler}"))
}

#[test]
fn spinning_is_faster_on_an_idle_host_and_loses_that_where_virtual_cpus_wait() {
    for scheduler in SCHEDULERS {
        let [spins, blocks] = [SPINS, BLOCKS].map(|way| ran_ns(scheduler, way, 0) as f64);
        assert!(blocks > 1.15 * spins, "{scheduler}, idle: {spins} and {blocks} ns");
        let [spins_late, blocks_late] = [SPINS, BLOCKS].map(|way| ran_ns(scheduler, way, 4) as f64);
        // A thread whose virtual CPU waits holds up all others, which burn their CPUs meanwhile.
        assert!(spins_late > 3.0 * spins, "{scheduler}: {spins} and {spins_late} ns");
        let (idle, loaded) = (blocks / spins, blocks_late / spins_late);
        assert!(loaded < 0.9 * idle, "{scheduler}: {idle:.2} idle, {loaded:.2} overloaded");
    }
}

#[test]
fn an_adapting_program_has_as_many_threads_as_there_are_cpus_free() {
    for scheduler in SCHEDULERS {
        for count in [2, 4, 6] {
            let text = program(CPUS, ADAPTS, 400) + &hogs(count);
            let outcome = of(&text, scheduler).until_teams_end().pass();
            let team = outcome.team("ua");
            let ended_ns = team.ended_ns.unwrap_or_else(|| panic!("{scheduler}: {team:?}"));
            let size = team.mean_size(ended_ns / 2, ended_ns);
            let free = (CPUS - count) as f64;
            assert!((size - free).abs() < 1.5, "{scheduler}, {count} hogs: {size:.2} threads");
        }
    }
}

#[test]
fn an_adapting_program_has_threads_for_the_cpus_that_it_may_use() {
    let text = program(CPUS, ADAPTS, 200) + "affinity = \"2-4\"";
    let outcome = of(&text, "eevdf").until_teams_end().pass();
    let team = outcome.team("ua");
    let size = team.mean_size(ms(200), team.ended_ns.expect("it ends"));
    assert!((size - 3.0).abs() < 0.2, "{size:.2} threads");
}

#[test]
fn adapting_costs_nothing_where_nobody_is_in_the_way() {
    for scheduler in SCHEDULERS {
        let [fixed, adapts] = [SPINS, ADAPTS].map(|way| ran_ns(scheduler, way, 0) as f64);
        let ratio = adapts / fixed;
        assert!((0.98..1.02).contains(&ratio), "{scheduler}: {ratio:.3} of the time");
    }
}

#[test]
fn adapting_gains_where_the_host_is_overloaded() {
    for scheduler in SCHEDULERS {
        let [fixed, adapts] = [SPINS, ADAPTS].map(|way| ran_ns(scheduler, way, 4) as f64);
        assert!(fixed > 1.5 * adapts, "{scheduler}: {fixed} and {adapts} ns");
    }
}

#[test]
fn as_much_work_is_done_as_the_file_says_whatever_else_happens() {
    let whole = |text: &str, scheduler| of(text, scheduler).until_teams_end().pass();
    for scheduler in SCHEDULERS {
        for (threads, way, count) in
            [(CPUS, SPINS, 0), (CPUS, BLOCKS, 3), (CPUS, ADAPTS, 5), (3, ADAPTS, 7), (1, SPINS, 0)]
        {
            let outcome = whole(&(program(threads, way, 50) + &hogs(count)), scheduler);
            let team = outcome.team("ua");
            assert_eq!(team.work_ns, 50 * 8 * us(1_600), "{scheduler}: {threads} threads, {way}");
            assert_eq!((team.regions, outcome.done("ua")), (50, 50), "{scheduler}");
        }
    }
    // What is drawn is drawn alike.
    let drawn = |scheduler, threads, way: &str| {
        let text = program(threads, way, 50).replace("\"1600us\"", "\"exp(1600us)\"");
        whole(&(text + &hogs(4)), scheduler).team("ua").work_ns
    };
    assert_eq!(drawn("eevdf", CPUS, SPINS), drawn("central", 5, ADAPTS));
    assert_ne!(drawn("fair", CPUS, BLOCKS), 50 * 8 * us(1_600));
}

/// Time on CPUs is work, what blocking costs, and no more: a thread that sleeps uses none.
#[test]
fn threads_that_block_use_no_cpu_time_but_for_work_and_what_blocking_costs() {
    const EXIT_NS: u64 = us(20);
    for scheduler in ["eevdf", "fair"] {
        let cpu_ns = |costs: &str| {
            let outcome = of(&program(4, &format!("{BLOCKS}\n{costs}"), 20), scheduler).pass();
            outcome.all().map(|(_, figures)| figures.ran_ns).sum::<u64>()
        };
        let free = cpu_ns("halt = \"0s\"\nwake = \"0s\"\nresume = \"0s\"");
        assert_eq!(free, 20 * 8 * us(1_600) + 4 * EXIT_NS, "{scheduler}");
        // Of 159 barriers and the first one each wakes three threads, if all of them sleep by then.
        let dear = cpu_ns("halt = \"1us\"\nwake = \"3us\"\nresume = \"10us\"") - free;
        assert!((160 * us(30)..=160 * us(43)).contains(&dear), "{scheduler}: {dear} ns");
    }
}

#[test]
fn a_team_of_one_never_waits() {
    for way in [SPINS, BLOCKS, ADAPTS] {
        for scheduler in SCHEDULERS {
            let outcome = of(&program(1, way, 10), scheduler).pass();
            let (team, thread) = (outcome.team("ua"), outcome.task("ua 0"));
            assert_eq!(team.ran_ns(), Some(10 * 8 * us(1_600)), "{scheduler}, {way}");
            assert_eq!((team.sizes.len(), thread.waits), (1, 1), "{scheduler}, {way}");
        }
    }
}

#[test]
fn a_program_with_more_threads_than_there_are_cpus_ends_whatever_they_do() {
    for scheduler in SCHEDULERS {
        let ran = |way: &str, regions| {
            let outcome = of(&program(2 * CPUS, way, regions), scheduler).until_teams_end().pass();
            let ran_ns = outcome.team("ua").ran_ns();
            ran_ns.unwrap_or_else(|| panic!("{scheduler}, {way}: it does not end")) / regions
        };
        let [spins, blocks, adapts] =
            [(SPINS, 5), (BLOCKS, 100), (ADAPTS, 400)].map(|(way, regions)| ran(way, regions));
        assert!(blocks < spins && adapts < spins, "{scheduler}: {spins}, {blocks}, {adapts} ns");
    }
}

#[test]
fn how_long_a_program_runs_is_the_response_of_its_group() {
    let text = program(4, SPINS, 10) + "arrives = \"5ms\"\ncgroup = \"vm\"\nnice = 3";
    let outcome = of(&text, "eevdf").pass();
    let team = outcome.team("ua");
    let (began_ns, ended_ns) = (team.began_ns.unwrap(), team.ended_ns.unwrap());
    assert!((ms(5)..ms(5) + us(20)).contains(&began_ns), "{began_ns}");
    assert_eq!(outcome.responses_ns("ua"), [ended_ns - ms(5)]);
    assert!(outcome.belongings().all(|belongs| belongs == ("ua", "vm")));
    assert_eq!(outcome.simulated_ns, ms(20_000));
    assert_eq!(of(&text, "eevdf").until_teams_end().pass().simulated_ns, ended_ns);
    // One without an end counts regions.
    let endless = text.replace("regions = 10", "").replace("20s", "100ms");
    let outcome = of(&endless, "eevdf").pass();
    assert!((25..32).contains(&outcome.done("ua")), "{} regions", outcome.done("ua"));
    assert_eq!(outcome.team("ua").ran_ns(), None);
    assert_eq!(outcome.responses_ns("ua"), Vec::<u64>::new());
}

#[test]
fn a_run_gives_the_same_bytes_twice_and_beside_others() {
    let text = program(CPUS, ADAPTS, 20)
        + "[[task]]\nname = \"hog\"\ncount = 4\nsteps = [\"every 20ms\", \"busy 10ms\"]\n";
    let trace = |seed| of(&text, "fair").seed(seed).run_for(ms(100)).traced().pass().trace;
    let alone = trace(3);
    let beside: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| trace(3))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it passes")).collect()
    });
    assert!(alone.lines().count() > 1_000);
    assert!(beside.iter().all(|other| *other == alone));
    assert!(trace(4) != alone, "it does not depend on the seed");
}

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Machines that adapt, each in a cgroup of its own: virtual CPUs, and what else is to be said.
fn machines(all: &[(usize, &str)]) -> String {
    let machine = |(name, (threads, more)): (&str, &(usize, &str))| {
        format!(
            "[[team]]\nname = \"{name}\"\nthreads = {threads}\nbarriers = 8\nwork = \"1600us\"\n\
             imbalance = 0.1\ncgroup = \"{name}\"\n{ADAPTS}\n{more}\n"
        )
    };
    let host = format!("[machine]\ncpus = {CPUS}\n");
    host + &NAMES.into_iter().zip(all).map(machine).collect::<String>()
}

/// They do not fight: they come to rest with a thread for each CPU. By the published formula alone who
/// has how many of them is left to chance, since nothing tells a machine of its fair share.
#[test]
fn two_machines_that_adapt_divide_the_host_and_rest() {
    let text = format!("duration = \"2s\"\n{}", machines(&[(CPUS, "owed = false"); 2]));
    for scheduler in SCHEDULERS {
        let outcome = of(&text, scheduler).pass();
        let teams = ["a", "b"].map(|name| outcome.team(name));
        let sizes = teams.map(|team| team.mean_size(ms(1_000), ms(2_000)));
        let threads: f64 = sizes.iter().sum();
        assert!((threads - CPUS as f64).abs() < 1.0, "{scheduler}: {sizes:.2?} threads");
        let late = teams.map(|team| team.sizes.iter().filter(|(at, _)| *at > ms(1_000)).count());
        assert!(late.iter().all(|changes| *changes < 50), "{scheduler}: {late:?} changes");
    }
}

#[test]
fn machines_that_adapt_come_to_their_fair_shares_and_rest() {
    /// Who comes later comes then, ms.
    const LATER: &str = "arrives = \"500ms\"";
    /// What is below a thread is not owed.
    const LEAST: f64 = 1.0;
    let weights = "[cgroups.a]\nweight = 100\n[cgroups.b]\nweight = 300\n";
    let third = "[cgroups.c]\nweight = 200\n";
    let two_hogs = hogs(2);
    for (what, all, more, fair) in [
        ("both at once", &[(8, ""), (8, "")][..], "", &[4.0, 4.0][..]),
        ("one after the other", &[(8, ""), (8, LATER)], "", &[4.0, 4.0]),
        ("with fewer virtual CPUs", &[(8, ""), (2, "")], "", &[6.0, 2.0]),
        ("by weight", &[(8, ""), (8, "")], weights, &[2.0, 6.0]),
        ("by weight, the heavier one later", &[(8, ""), (8, LATER)], weights, &[2.0, 6.0]),
        ("by weight, the lighter one later", &[(8, LATER), (8, "")], weights, &[2.0, 6.0]),
        ("three", &[(8, ""), (8, LATER), (8, "")], third, &[2.0, 2.0, 4.0]),
        ("on CPUs that they share", &[(4, "affinity = \"0-3\""), (8, LATER)], "", &[2.0, 6.0]),
        ("beside others' work", &[(8, ""), (8, LATER)], &two_hogs, &[3.0, 3.0]),
    ] {
        let text = format!("duration = \"3s\"\n{}{more}", machines(all));
        for scheduler in SCHEDULERS {
            let outcome = of(&text, scheduler).pass();
            let teams = || NAMES.into_iter().take(all.len()).map(|name| outcome.team(name));
            let sizes: Vec<f64> =
                teams().map(|team| team.mean_size(ms(2_000), ms(3_000))).collect();
            let least = sizes.iter().zip(fair).all(|(size, fair)| *size > fair - LEAST);
            assert!(least, "{what}, {scheduler}: {sizes:.2?} threads, not {fair:?}");
            // All CPUs have a thread, and hardly one has two. Hogs have what the scheduler gives them.
            let threads = sizes.iter().sum::<f64>();
            let wanted = fair.iter().sum::<f64>() - LEAST..CPUS as f64 + LEAST;
            assert!(wanted.contains(&threads), "{what}, {scheduler}: {sizes:.2?} threads");
            let late: Vec<usize> = teams()
                .map(|team| team.sizes.iter().filter(|(at, _)| *at > ms(2_000)).count())
                .collect();
            println!("{what}, {scheduler}: {sizes:.2?} threads, {late:?} changes");
            assert!(
                late.iter().all(|changes| *changes < 50),
                "{what}, {scheduler}: {late:?} changes"
            );
        }
    }
}

#[test]
fn a_machine_alone_is_owed_nothing() {
    for scheduler in SCHEDULERS {
        let [with, without] = ["owed = true", "owed = false"].map(|owed| {
            let text = program(CPUS, &format!("{ADAPTS}\n{owed}"), 100) + &hogs(3);
            of(&text, scheduler).traced().until_teams_end().pass().trace
        });
        assert!(with == without, "{scheduler}: it runs otherwise");
    }
}

#[test]
fn busy_tasks_compute_and_sleep_together_however_few_cpus_there_are() {
    let text = "duration = \"2s\"\n[machine]\ncpus = 2\n[[task]]\nname = \"hog\"\ncount = 4\n\
                steps = [\"every 100ms\", \"busy 40ms\"]\n";
    for scheduler in ["eevdf", "fair", "fifo"] {
        let outcome = of(text, scheduler).pass();
        let ran_ns: u64 = outcome.all().map(|(_, figures)| figures.ran_ns).sum();
        // Both CPUs, 19 times; who has no CPU when it is over still has to see that.
        let wanted = 19 * 2 * ms(40);
        assert!(ran_ns.abs_diff(wanted) < ms(1), "{scheduler}: {ran_ns}, not {wanted} ns");
    }
    let late = of(&text.replace("busy 40ms", "run 50ms\", \"busy 40ms\", \"sleep 1ms"), "eevdf");
    assert!(late.pass().task("hog 0").ran_ns > ms(500));
}

#[test]
fn what_is_wrong_about_a_team_is_told_with_its_line_and_what_to_write() {
    let team =
        |more: &str| format!("[[team]]\nname = \"ua\"\nthreads = 4\nwork = \"1ms\"\n{more}\n");
    for (text, line, said) in [
        (team("").replace("= 4", "= 0"), 3, "write 1 to 1024"),
        (team("").replace("threads = 4\n", ""), 1, "docs/simulator.md"),
        (team("").replace("\"1ms\"", "\"0s\""), 4, "as \"9ms\""),
        (team("").replace("\"1ms\"", "\"1\""), 4, "1800ms"),
        (team("wait = \"spinn\""), 5, "did you mean 'spin'?"),
        (team("wait = \"always\""), 5, "there are spin, block"),
        (team("wiat = \"spin\""), 5, "did you mean 'wait'?"),
        (team("barriers = 0"), 5, "write 1 to"),
        (team("regions = 0"), 5, "write 1 to"),
        (team("imbalance = 2.5"), 5, "write 0 to 2"),
        (team("window = \"4ms\""), 5, "write adapt = true"),
        (team("adapt = true\nwindow = \"0s\""), 6, "write \"4ms\""),
        (team("owed = false"), 5, "write adapt = true"),
        (team("affinity = \"3-1\""), 5, "write it like \"0-3,8\""),
        (team("cgroup = \"/a\""), 5, "without a '/' first"),
        (team("weight = 3\nnice = 1"), 6, "not both"),
        (team("halt = \"5\""), 5, "1800ms"),
        (team(&team("")), 6, "s.toml:2 already"),
        (team("[[task]]\nname = \"ua\"\nsteps = [\"run 1ms\"]"), 2, "s.toml:6 already"),
        (team("[[event]]\nat = \"1s\"\ntask = \"ub\"\nweight = 3"), 7, "there is no task 'ub'"),
        ("name = \"empty\"\n".to_owned(), 2, "a [[team]]"),
    ] {
        let Err(e) = parse(&text) else { panic!("it is taken:\n{text}") };
        assert_eq!(e.kind, Kind::BadInput, "{e}");
        assert!(e.to_string().contains(said), "{text}{e}");
        assert!(e.to_string().contains(&format!("s.toml:{line}: ")), "{text}{e}");
    }
    let event = team("[[event]]\nat = \"1ms\"\ntask = \"ua\"\nweight = 300");
    assert!(parse(&event).is_ok(), "an event may be of a team's tasks");
}

/// A machine whose threads do not fit on the CPUs that are left has some of them sleep.
#[test]
fn an_affinity_that_changes_changes_how_many_threads_there_are() {
    let text = program(CPUS, ADAPTS, 300)
        + "[[event]]\nat = \"300ms\"\ntask = \"ua\"\naffinity = \"0-3\"\n";
    let outcome = of(&text, "eevdf").until_teams_end().pass();
    let team = outcome.team("ua");
    let (before, after) = (team.mean_size(ms(50), ms(300)), team.mean_size(ms(500), ms(800)));
    assert!((before - 8.0).abs() < 0.1 && (after - 4.0).abs() < 0.5, "{before:.2}, {after:.2}");
    let last_ns = outcome.task("ua 7").ran_ns;
    assert!(last_ns < ms(400), "{last_ns} ns");
}

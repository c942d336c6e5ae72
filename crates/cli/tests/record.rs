//! `metasched record`, as a user calls it. What traces this machine needs root and tracefs, and
//! so runs in the guest: `make test-guest`.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use metasched_host::process::run_first;
use metasched_scenario::file::ScenarioFile;
use metasched_sim::{Outcome, policy};

/// What modern perf prints: `sched_waking` and no `sched_wakeup`.
const PERF: &str = "\
         swapper     0 [000]   100.000010: sched:sched_waking: comm=web pid=11 prio=120 target_cpu=000
         swapper     0 [000]   100.000020: sched:sched_switch: swapper/0:0 [120] R ==> web:11 [120]
             web    11 [000]   100.002020: sched:sched_waking: comm=db pid=12 prio=125 target_cpu=001
         swapper     0 [001]   100.002030: sched:sched_switch: swapper/1:0 [120] R ==> db:12 [125]
             web    11 [000]   100.003020: sched:sched_switch: web:11 [120] S ==> swapper/0:0 [120]
              db    12 [001]   100.007030: sched:sched_switch: db:12 [125] S ==> swapper/1:0 [120]
         swapper     0 [000]   100.010010: sched:sched_waking: comm=web pid=11 prio=120 target_cpu=000
         swapper     0 [000]   100.010020: sched:sched_switch: swapper/0:0 [120] R ==> web:11 [120]
             web    11 [000]   100.012020: sched:sched_waking: comm=db pid=12 prio=125 target_cpu=001
         swapper     0 [001]   100.012030: sched:sched_switch: swapper/1:0 [120] R ==> db:12 [125]
             web    11 [000]   100.013020: sched:sched_switch: web:11 [120] S ==> swapper/0:0 [120]
              db    12 [001]   100.017030: sched:sched_switch: db:12 [125] S ==> swapper/1:0 [120]
         swapper     0 [000]   100.020000: sched:sched_waking: comm=none pid=13 prio=120 target_cpu=000
";

fn metasched(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_metasched"));
    command.args(args).current_dir(folder).stdin(Stdio::null());
    command
}

fn run(folder: &Path, args: &[&str]) -> Output {
    metasched(folder, args).output().unwrap()
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn refused(folder: &Path, args: &[&str]) -> (i32, String) {
    let output = run(folder, args);
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn what_perf_printed_becomes_a_scenario_that_can_be_compared() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("perf.txt"), PERF).unwrap();
    let said = succeeded(&run(folder.path(), &["record", "--perf", "perf.txt"]));
    let text = fs::read_to_string(folder.path().join("recorded.toml")).unwrap();
    for told in ["nice = 5", "\"wake db", "\"wait db\"", "cpus = 2", "30.0 % of a CPU"] {
        assert!(text.contains(told), "{told}:\n{text}");
    }
    let next = said.lines().last().unwrap().strip_prefix("next: metasched ").unwrap();
    assert!(text.contains(&format!("# Next: metasched {next}\n")), "{text}");
    let compared = succeeded(&run(folder.path(), &next.split(' ').collect::<Vec<_>>()));
    assert!(compared.contains("vtime") && compared.contains("fifo"), "{compared}");
    // It may be recorded anew, and what is not ours stays.
    succeeded(&run(folder.path(), &["record", "--perf", "perf.txt"]));
    let args = ["record", "--perf", "perf.txt", "--out", "perf.txt"];
    let (code, said) = refused(folder.path(), &args);
    assert!(code == 3 && said.contains("--out"), "{said}");
    assert_eq!(fs::read_to_string(folder.path().join("perf.txt")).unwrap(), PERF);
}

#[test]
fn what_is_wrong_is_refused_with_what_would_be_right() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("empty.txt"), "# nothing\n").unwrap();
    fs::write(folder.path().join("bad.txt"), "a 1 [000] 1.5: sched:sched_switch: x\n").unwrap();
    for (args, status, said) in [
        (["--perf", "none.txt"], 3, "none.txt"),
        (["--perf", "empty.txt"], 3, "no thread runs"),
        (["--perf", "bad.txt"], 3, "bad.txt:1: this sched_switch"),
        (["--for", "10"], 2, "1800ms"),
        (["--buffer", "big"], 2, "512M"),
    ] {
        let (code, stderr) = refused(folder.path(), &[&["record"], &args[..]].concat());
        assert_eq!(code, status, "{args:?}: {stderr}");
        assert!(stderr.contains(said), "{args:?}: {stderr}");
    }
    assert!(!folder.path().join("recorded.toml").exists());
}

/// CPU time of a thread of this process so far, s, and how often it went to sleep.
fn used_by(tid: i32) -> (f64, f64) {
    let read = |name| fs::read_to_string(format!("/proc/self/task/{tid}/{name}")).unwrap();
    let ran: f64 = read("schedstat").split(' ').next().unwrap().parse().unwrap();
    let status = read("status");
    let slept = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    (ran / 1e9, slept.unwrap().trim().parse().unwrap())
}

/// Takes so much CPU time, however long others have the CPU meanwhile.
fn spin(time: Duration) {
    let used = || {
        let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
        Duration::from(nix::time::clock_gettime(clock).unwrap())
    };
    let began = used();
    while used() - began < time {
        std::hint::spin_loop();
    }
}

/// Threads of this process with a load that is known.
struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<(&'static str, i32)>,
    handles: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (send, receive) = std::sync::mpsc::channel();
        let (ask, asked) = sync_channel::<()>(1);
        let mut handles = Vec::new();
        let mut add = |name: &'static str, mut round: Box<dyn FnMut() -> bool + Send>| {
            let (stop, send) = (stop.clone(), send.clone());
            let thread = move || {
                send.send((name, nix::unistd::gettid().as_raw())).unwrap();
                while !stop.load(Ordering::Relaxed) && round() {}
            };
            handles.push(std::thread::Builder::new().name(name.into()).spawn(thread).unwrap());
        };
        let rest = |ms| std::thread::sleep(Duration::from_millis(ms));
        for _ in 0..2 {
            add(
                "duty",
                Box::new(move || {
                    spin(Duration::from_millis(2));
                    rest(18);
                    true
                }),
            );
        }
        add(
            "asks",
            Box::new(move || {
                spin(Duration::from_millis(1));
                let asked = ask.send(()).is_ok();
                rest(19);
                asked
            }),
        );
        add(
            "answers",
            Box::new(move || {
                let answers = asked.recv().is_ok();
                spin(Duration::from_millis(4));
                answers
            }),
        );
        drop(send);
        Load { stop, threads: receive.into_iter().take(4).collect(), handles }
    }

    /// CPU time and sleeps of the threads of each name.
    fn used(&self) -> Used {
        let mut used = Used::new();
        for (name, tid) in &self.threads {
            let (ran, slept) = used_by(*tid);
            let all = used.entry(*name).or_default();
            *all = (all.0 + ran, all.1 + slept);
        }
        used
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.handles.drain(..).for_each(|handle| handle.join().unwrap());
    }
}

/// The same of a recording of so many seconds, as the file tells of it: "was: 23.1 % of a CPU,
/// 94.3 wake-ups/s".
fn told(text: &str, group: &str, length: f64) -> (f64, f64) {
    let (before, _) = text.split_once(&format!("\nname = \"{group}\"\n")).unwrap();
    let was = before.rsplit("# was: ").next().unwrap();
    let number = |part: &str| part.trim().split(' ').next().unwrap().parse::<f64>().unwrap();
    let (share, rest) = was.split_once(',').unwrap();
    let wakes = rest.trim().split('/').next().unwrap();
    (number(share) / 100.0 * length, number(wakes) * length)
}

/// How many times as long as the recording the simulated run is: what is drawn in it evens out.
const LENGTHS: u64 = 10;

/// CPU time of a group of tasks in a run, s, and how often they went to sleep.
fn simulated(outcome: &Outcome, group: &str) -> (f64, f64) {
    let all = outcome.all().zip(outcome.belongings());
    all.filter(|(_, (of, _))| *of == group).fold((0.0, 0.0), |(ran, slept), ((_, figures), _)| {
        (ran + figures.ran_ns as f64 / 1e9, slept + figures.voluntary_switches as f64)
    })
}

fn instances() -> Vec<PathBuf> {
    let places = ["/sys/kernel/tracing/instances", "/sys/kernel/debug/tracing/instances"];
    let entries = places.iter().flat_map(fs::read_dir).flatten().flatten();
    let ours = |entry: &DirEntry| entry.file_name().to_string_lossy().starts_with("metasched-");
    entries.filter(ours).map(|entry| entry.path()).collect()
}

/// Waits until the command records, or does so no more.
fn wait_until_it_records(command: &mut Child, records: bool) {
    let is_one = |file: PathBuf| fs::read_to_string(file).is_ok_and(|text| text.trim() == "1");
    // A new instance is on for a moment, without any events.
    let on = |place: &PathBuf| {
        is_one(place.join("events/sched/sched_switch/enable")) && is_one(place.join("tracing_on"))
    };
    while instances().iter().any(on) != records {
        assert!(!records || command.try_wait().unwrap().is_none(), "it ended before it recorded");
        // Seldom, next to what the load does: who looks goes before it.
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// CPU time and sleeps of the load's threads of each name.
type Used = BTreeMap<&'static str, (f64, f64)>;

/// What the load used while the command recorded, and how long that was, s: as it starts and
/// writes it takes CPU time from the load, which then runs otherwise.
fn used_as_it_records(command: &mut Child, load: &Load) -> (Used, f64) {
    let look = || {
        // Who looks must not have to wait for the load, or for the command.
        run_first(2).unwrap();
        wait_until_it_records(command, true);
        let (before, began) = (load.used(), Instant::now());
        wait_until_it_records(command, false);
        let (mut used, took) = (load.used(), began.elapsed().as_secs_f64());
        for (name, (ran, slept)) in &mut used {
            *ran -= before[name].0;
            *slept -= before[name].1;
        }
        (used, took)
    };
    std::thread::scope(|scope| scope.spawn(look).join().unwrap())
}

#[test]
#[ignore = "needs root and tracefs: run by make test-guest"]
fn a_recorded_load_takes_in_the_simulator_the_cpu_time_that_it_took_here() {
    let folder = tempfile::tempdir().unwrap();
    let load = Load::start();
    std::thread::sleep(Duration::from_millis(200));
    let mut command = metasched(folder.path(), &["record", "--for", "3s", "--json"]);
    let mut command = command.stdout(Stdio::piped()).spawn().unwrap();
    let (here, took) = used_as_it_records(&mut command, &load);
    let out = succeeded(&command.wait_with_output().unwrap());
    drop(load);
    assert!(instances().is_empty(), "an instance is left: {:?}", instances());

    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let length = report["length_ns"].as_f64().unwrap() / 1e9;
    assert!((2.5..3.5).contains(&length), "{report:#}");
    assert_eq!(report["events_lost"], 0, "{report:#}");
    let path = folder.path().join("recorded.toml");
    let text = fs::read_to_string(&path).unwrap();
    println!("{text}");
    // The wake-ups come from the other thread, and from timers.
    assert!(text.contains("\"wait answers\"") && text.contains("\"wake answers"), "{text}");
    assert!(!text.contains("\"wait duty\"") && !text.contains("\"wait asks\""), "{text}");

    let file = ScenarioFile::load(&path).unwrap();
    let machine = metasched_sim::Machine::new(
        file.machine.cpus,
        file.machine.llcs,
        file.machine.nodes,
        file.machine.smt,
    );
    let run_ns = LENGTHS * file.duration_ns;
    let run = policy("recorded", "vtime").machine(machine.unwrap()).run_for(run_ns);
    // How busy this machine was is nobody's fault.
    let run = run.waits_at_most(run_ns).idle_at_most(run_ns);
    let outcome = run.with_file(&file).pass();
    for group in ["duty", "asks", "answers"] {
        let (ran, slept) = simulated(&outcome, group);
        let (ran, slept) = (ran / LENGTHS as f64, slept / LENGTHS as f64);
        let (ran_here, slept_here) = here[group];
        let (ran_here, slept_here) = (ran_here * length / took, slept_here * length / took);
        let (ran_told, slept_told) = told(&text, group, length);
        println!(
            "{group}: {ran_here:.3} s, {slept_here:.0} sleeps; recorded {ran_told:.3} s, \
             {slept_told:.0}; simulated {ran:.3} s, {slept:.0}"
        );
        for (what, ratio, within) in [
            ("CPU time simulated, of what it was", ran / ran_here, 0.8..1.25),
            ("sleeps simulated, of what there were", slept / slept_here, 0.8..1.25),
            ("CPU time simulated, of what was recorded", ran / ran_told, 0.85..1.18),
            ("sleeps simulated, of what were recorded", slept / slept_told, 0.85..1.18),
        ] {
            assert!(within.contains(&ratio), "{group}, {what}: {ratio:.2}\n{text}");
        }
    }
}

#[test]
#[ignore = "needs root and tracefs: run by make test-guest"]
fn a_command_is_recorded_until_it_ends_and_a_signal_ends_it_earlier() {
    let folder = tempfile::tempdir().unwrap();
    let busy = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.2";
    let out = succeeded(&run(folder.path(), &["record", "--json", "--", "sh", "-c", busy]));
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(report["ended"].as_str().unwrap().contains("exit status: 0"), "{report:#}");
    let text = fs::read_to_string(folder.path().join("recorded.toml")).unwrap();
    assert!(text.contains("name = \"sh"), "{text}");

    let began = Instant::now();
    let child = metasched(folder.path(), &["record", "--for", "100s", "--out", "short.toml"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    std::thread::sleep(Duration::from_secs(2));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let said = succeeded(&child.wait_with_output().unwrap());
    assert!(said.contains("a signal ended it"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(60));
    assert!(folder.path().join("short.toml").exists());
    assert!(instances().is_empty(), "an instance is left: {:?}", instances());
}

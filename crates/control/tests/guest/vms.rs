//! What `metasched vms` tells of machines. They are made up: processes with threads of the names of virtual CPUs.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use metasched_base::Kind;
use metasched_host::cgroup::Cgroup;
use serde_json::Value;

use crate::latency::document;
use crate::machine::TestMachine;
use crate::page::{OTHERS, mean, number, page, page_of, row, waited, whole, windows_of};
use crate::schema;
use crate::support::{Beside, FEW, Run, compile, eventually};

/// How far a mean may be off.
const OFF: f64 = 0.02;
/// What this test program plays: whether its virtual CPUs compute, and how many they are.
const PLAY: &str = "METASCHED_TEST_MACHINE";
const PLAYER: &str =
    "vms::machines_are_listed_with_their_phantoms_and_idle_cpus_under_any_scheduler";

/// A virtual CPU that rests computes for so long, and sleeps for so long.
const PART: Duration = Duration::from_millis(7);

/// Plays a machine, for ever.
fn play(said: &str) {
    let (work, count) = said.split_once(' ').unwrap();
    for number in 0..count.parse::<u32>().unwrap() {
        let work = work.to_owned();
        std::thread::spawn(move || {
            let name = std::ffi::CString::new(format!("CPU {number}/TCG")).unwrap();
            nix::sys::prctl::set_name(&name).unwrap();
            loop {
                match work.as_str() {
                    "computes" => std::hint::spin_loop(),
                    "rests" => {
                        let began = Instant::now();
                        while began.elapsed() < PART {}
                        std::thread::sleep(PART);
                    }
                    _ => std::thread::sleep(Duration::from_secs(1000)),
                }
            }
        });
    }
    std::thread::sleep(Duration::from_secs(1000));
}

/// Such a process, which ends with the test.
pub struct Made(Child);

impl Made {
    pub fn up(name: &str, work: &str, vcpus: usize) -> Self {
        let exe = std::env::current_exe().unwrap();
        // What comes after -- are names of tests to it, none of which there is.
        let guest = format!("guest={name},debug-threads=on");
        let child = Command::new(exe)
            .args(["--exact", PLAYER, "--ignored", "--nocapture", "--", "-name", &guest])
            .env(PLAY, format!("{work} {vcpus}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let made = Self(child);
        eventually("its virtual CPUs are there", || made.vcpus().len() == vcpus);
        made
    }

    /// The threads of its virtual CPUs.
    pub fn vcpus(&self) -> Vec<u32> {
        let folder = PathBuf::from(format!("/proc/{}/task", self.0.id()));
        let threads = fs::read_dir(&folder).unwrap().flatten();
        let tids = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
        let comm = |tid: &u32| fs::read_to_string(folder.join(format!("{tid}/comm")));
        tids.filter(|tid| comm(tid).is_ok_and(|comm| comm.starts_with("CPU "))).collect()
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The names of all pages that are there.
fn pages() -> Vec<String> {
    let files = fs::read_dir("/dev/shm").unwrap().flatten();
    let names = files.filter_map(|file| file.file_name().into_string().ok());
    names.filter(|name| name.starts_with("metasched-paravirt")).collect()
}

/// How long its virtual CPUs waited for a CPU so far, by the kernel's books, in seconds.
fn vcpus_waited(made: &Made) -> f64 {
    made.vcpus()
        .iter()
        .map(|tid| waited(Path::new(&format!("/proc/{}/task/{tid}", made.pid()))))
        .sum()
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn machines_are_listed_with_their_phantoms_and_idle_cpus_under_any_scheduler() {
    if let Ok(said) = std::env::var(PLAY) {
        play(&said);
    }
    let _machine = TestMachine::take();
    let sleeps = Made::up("sleeps", "sleeps", 3);
    for scheduler in ["eevdf", "vtime"] {
        if scheduler != "eevdf" {
            let (code, said) = Run::start(&["start", scheduler, FEW[0], FEW[1]]).finish();
            assert_eq!(code, Some(0), "{said}");
        }
        let look = || document("vms", &["vms", "--for", "3s", "--json"]);
        let idle = look();
        println!("{scheduler}: {idle}");
        let own = row(&idle, "sleeps");
        assert!(number(own, "phantoms") < OFF, "{own}");
        assert_eq!((own["vcpus"].as_u64(), own["cpus"].as_u64()), (Some(3), Some(2)));
        assert_eq!(own["pid"], sleeps.pid());
        // The guest's own work: of an emulated one that is more.
        assert!(number(own, "idle_cpus") > 1.5, "{own}");
        let computes = Made::up("computes", "computes", 4);
        let busy = look();
        println!("{scheduler}: {busy}");
        let own = row(&busy, "computes");
        let four_on_two = 2.0 - 2.0 * OFF..2.0 + OTHERS;
        assert!(four_on_two.contains(&number(own, "phantoms")), "four on two CPUs: {own}");
        assert!(number(own, "idle_cpus") < OFF, "{own}");
        assert!(number(row(&busy, "sleeps"), "phantoms") < OFF, "{busy:#}");
        // Half of the CPUs would be its fair share, and the other one holds them.
        let owed = number(row(&busy, "sleeps"), "owed_cpus");
        assert!((owed - 1.0).abs() < OTHERS && number(own, "owed_cpus") < OFF, "{busy:#}");
        // It does not want them.
        assert!(number(own, "owing_cpus") < OFF, "{busy:#}");
        assert!(number(&busy["overhead"], "runs") > 10.0, "{busy:#}");
        drop(computes);
        if scheduler != "eevdf" {
            assert_eq!(Run::start(&["stop"]).finish().0, Some(0));
        }
    }
    for (arguments, words) in [
        (&["vms", "serve", "none"][..], "there is none of that name; there are: sleeps"),
        (&["vms", "serve", "--cgroup", "../.."], "it leaves the hierarchy"),
        (&["vms", "serve", "sleeps", "--page", "/proc/page"], "not on a file system in memory"),
        (&["vms", "detach", "none"], "there is none"),
        (&["vms", "attach", "a/b"], "--page"),
    ] {
        let (code, said) = Run::start(arguments).finish();
        assert_eq!(code, Some(i32::from(Kind::BadInput.exit_code())), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_page_has_each_window_and_ends_with_its_machine() {
    /// 250 are to come. Where CPUs are emulated and the host is busy, a thread that is late writes fewer, longer ones:
    /// then 94 came.
    const PER_SECOND: std::ops::RangeInclusive<f64> = 20.0..=251.0;
    let _machine = TestMachine::take();
    let path = page_of("computes");
    for scheduler in ["eevdf", "vtime"] {
        if scheduler != "eevdf" {
            let (code, said) = Run::start(&["start", scheduler, FEW[0], FEW[1]]).finish();
            assert_eq!(code, Some(0), "{said}");
        }
        let made = Made::up("computes", "computes", 4);
        // Of long windows none is missed, so their mean is that of all the time.
        let long = Run::start(&["vms", "serve", "computes", "--window", "200ms"]);
        eventually("the page is written", || page(&path).is_some());
        let (books, began) = (vcpus_waited(&made), Instant::now());
        let seen = windows_of(&path);
        let by_books = (vcpus_waited(&made) - books) / began.elapsed().as_secs_f64();
        let phantoms = mean(&seen, |window| window.phantoms_milli);
        let idle = mean(&seen, |window| window.idle_cpus_milli);
        println!(
            "{scheduler}: {phantoms:.4} phantoms, {by_books:.4} by the kernel; {idle:.4} CPUs idle"
        );
        // More than two wait while this test or the command has a CPU.
        assert!(phantoms > 2.0 - OFF, "{phantoms}");
        // And so much may the books be of another time.
        assert!((phantoms - by_books).abs() < OTHERS, "{phantoms}, {by_books} by the kernel");
        assert!(idle < OFF, "{idle}");
        long.interrupt();
        assert!(!path.exists());

        let serving = Run::start(&["--json", "vms", "serve", "computes"]);
        eventually("the page is written", || page(&path).is_some());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let windows = windows_of(&path);
        let (first, last) = (windows[0], windows[windows.len() - 1]);
        let seconds = (last.ended_ns - first.ended_ns) as f64 / 1e9;
        let rate = (last.windows - first.windows) as f64 / seconds;
        println!("{scheduler}: {rate:.1} windows a second, {} of them seen", windows.len());
        assert!(PER_SECOND.contains(&rate), "{rate}");
        assert_eq!((last.vcpus, last.cpus, last.window_ns), (4, 2, 4_000_000));
        // One that is being read.
        let reader = File::open(&path).unwrap();
        drop(made);
        let (code, said) = serving.finish();
        assert_eq!(code, Some(0), "{said}");
        assert!(!path.exists(), "{said}");
        let mut bytes = vec![0; 8];
        std::os::unix::fs::FileExt::read_exact_at(&reader, &mut bytes, 0).unwrap();
        assert_eq!(bytes, [0; 8], "who has it sees that nobody writes");
        for line in said.lines().filter(|line| line.starts_with('{')) {
            schema::check("vms-serve", &serde_json::from_str(line).unwrap());
        }
        if scheduler != "eevdf" {
            assert_eq!(Run::start(&["stop"]).finish().0, Some(0));
        }
    }
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn whoever_spoils_a_page_spoils_only_that_one() {
    let _machine = TestMachine::take();
    let others = pages();
    let good = Made::up("good", "sleeps", 2);
    let names = ["cut", "removed", "replaced", "killed"];
    let mut bad: Vec<Made> = names.iter().map(|name| Made::up(name, "sleeps", 1)).collect();
    let serving = Run::start(&["--json", "vms", "serve", "--all"]);
    eventually("all pages are written", || {
        names.iter().chain(&["good"]).all(|name| page(&page_of(name)).is_some())
    });
    let advances = || {
        let before = whole(&page_of("good")).windows;
        eventually("the good one's windows go on", || {
            page(&page_of("good")).is_some_and(|now| now.windows > before + 200)
        });
    };
    File::options().write(true).open(page_of("cut")).unwrap().set_len(10).unwrap();
    advances();
    fs::remove_file(page_of("removed")).unwrap();
    advances();
    fs::write("/dev/shm/metasched-test-other", "theirs").unwrap();
    fs::rename("/dev/shm/metasched-test-other", page_of("replaced")).unwrap();
    advances();
    drop(bad.pop());
    advances();
    assert!(!page_of("killed").exists());
    assert_eq!(fs::read_to_string(page_of("replaced")).unwrap(), "theirs");
    // Many come and go meanwhile.
    for number in 0..20 {
        drop(Made::up(&format!("short-{number}"), "sleeps", 2));
    }
    let late = Made::up("late", "sleeps", 2);
    eventually("one that came later is told", || page(&page_of("late")).is_some());
    advances();
    let id = serving.id();
    assert!(id.signal(nix::sys::signal::Signal::SIGINT));
    let (code, said) = serving.finish();
    assert_eq!(code, Some(0), "{said}");
    for (name, words) in [
        ("cut", "changed its length"),
        ("removed", "removed it"),
        ("replaced", "another file in its place"),
        ("killed", "it is gone"),
        ("good", "it was asked to stop"),
    ] {
        let ended = said
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .find(|event| event["event"] == "ended" && event["name"] == name);
        let why = ended.unwrap_or_else(|| panic!("{name}: {said}"))["why"].to_string();
        assert!(why.contains(words), "{name}: {why}");
    }
    let left: Vec<String> = pages().into_iter().filter(|page| !others.contains(page)).collect();
    assert_eq!(left, ["metasched-paravirt-replaced"]);
    fs::remove_file(page_of("replaced")).unwrap();
    drop((good, late, bad));
}

/// Processes are looked at each 250 ms, and these live for 100.
#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_cgroup_is_told_of_processes_that_live_for_less_than_the_time_between_two_scans() {
    const SHORT: &str = "while :; do for i in 1 2 3 4; do timeout 0.1 sh -c 'while :; do :; done' & \
                         done; wait; done";
    let _machine = TestMachine::take();
    let cgroup = Cgroup::create("metasched-test/short").unwrap();
    let path = page_of("cgroup:metasched-test:short");
    let serving =
        Run::start(&["vms", "serve", "--cgroup", "metasched-test/short", "--window", "10ms"]);
    eventually("its page is written", || page(&path).is_some());
    let parent = Beside::start("sh", &["-c", SHORT]);
    cgroup.add(parent.pid()).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let wait = mean(&windows_of(&path), |window| window.phantoms_milli);
    println!("{wait:.4} of four processes on two CPUs wait");
    assert!(wait > 1.0, "{wait}");
    drop(parent);
    cgroup.kill().unwrap();
    serving.interrupt();
    cgroup.remove().unwrap();
    Cgroup::open(Path::new("/sys/fs/cgroup/metasched-test")).unwrap().remove().unwrap();
}

/// A thread has one slot. Where two cgroups had it, one of them kept what it did as it came, for ever.
#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_process_that_moves_between_two_cgroups_counts_for_where_it_is() {
    // They are born in the first one and move to the second one, at any time between two scans.
    const MOVES: &str = "for i in $(seq 60); do \
                         sh -c 'echo $$ >$0 && i=0 && while [ $i -lt 2000 ]; do i=$((i+1)); done; \
                                exec sleep 1000' \"$0\" & \
                         sleep 0.03; done; wait";
    let _machine = TestMachine::take();
    let names = ["metasched-test/from", "metasched-test/to"];
    let [from, to] = names.map(|name| Cgroup::create(name).unwrap());
    let path = page_of("cgroup:metasched-test:to");
    let serving = Run::start(&["vms", "serve", "--cgroup", names[0], "--cgroup", names[1]]);
    eventually("its page is written", || page(&path).is_some());
    let procs = to.path().join("cgroup.procs");
    let shell = ["-c", "echo $$ >\"$1\" && exec sh -c \"$2\" \"$3\"", "sh"];
    let into = from.path().join("cgroup.procs");
    let [into, procs] = [&into, &procs].map(|path| path.to_str().unwrap());
    let parent = Beside::start("sh", &[&shell[..], &[into, MOVES, procs]].concat());
    let sleeps = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == "sleep\n")
    };
    eventually("all have come", || {
        let pids = to.pids().unwrap();
        pids.len() == 60 && pids.iter().all(sleeps)
    });
    // Some scans later.
    std::thread::sleep(Duration::from_secs(2));
    let wait = mean(&windows_of(&path), |window| window.phantoms_milli);
    println!("{wait:.4} of 60 processes that sleep wait for a CPU");
    assert!(wait < OFF, "{wait}");
    serving.interrupt();
    to.kill().unwrap();
    from.kill().unwrap();
    drop(parent);
    [from, to].iter().for_each(|cgroup| cgroup.remove().unwrap());
    Cgroup::open(Path::new("/sys/fs/cgroup/metasched-test")).unwrap().remove().unwrap();
}

/// Who had one of its number before is gone, and the slot with it.
#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_process_of_the_number_of_one_that_has_ended_is_watched() {
    let _machine = TestMachine::take();
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "reborn");
    let cgroup = Cgroup::create("metasched-test/reborn").unwrap();
    let path = page_of("cgroup:metasched-test:reborn");
    let serving =
        Run::start(&["vms", "serve", "--cgroup", "metasched-test/reborn", "--window", "50ms"]);
    eventually("its page is written", || page(&path).is_some());
    let into = cgroup.path().join("cgroup.procs");
    let words = [into.to_str().unwrap(), program.to_str().unwrap()];
    let enter = ["-c", "echo $$ >\"$1\" && exec \"$2\"", "sh"];
    let parent = Beside::start("sh", &[&enter[..], &words].concat());
    // The first ones have ended then.
    std::thread::sleep(Duration::from_secs(3));
    let wait = mean(&windows_of(&path), |window| window.phantoms_milli);
    println!("{wait:.4} of four processes on two CPUs wait");
    assert!(wait > 1.5, "{wait}");
    drop(parent);
    cgroup.kill().unwrap();
    serving.interrupt();
    cgroup.remove().unwrap();
    Cgroup::open(Path::new("/sys/fs/cgroup/metasched-test")).unwrap().remove().unwrap();
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn more_cgroups_are_told_than_files_may_be_open_at_first() {
    const CGROUPS: usize = 80;
    let _machine = TestMachine::take();
    let names: Vec<String> = (0..CGROUPS).map(|at| format!("metasched-test/{at}")).collect();
    let cgroups: Vec<Cgroup> = names.iter().map(|name| Cgroup::create(name).unwrap()).collect();
    let program = Run::program();
    let limited = "ulimit -S -n 64 && exec \"$0\" vms serve --window 100ms \"$@\"";
    let mut words = vec!["-c", limited, program.to_str().unwrap()];
    names.iter().for_each(|name| words.extend(["--cgroup", name]));
    let serving = Beside::start("sh", &words);
    eventually("all pages are written", || {
        (0..CGROUPS).all(|at| page(&page_of(&format!("cgroup:metasched-test:{at}"))).is_some())
    });
    drop(serving);
    assert!(pages().iter().all(|page| !page.contains("metasched-test")), "{:?}", pages());
    cgroups.iter().for_each(|cgroup| cgroup.remove().unwrap());
    Cgroup::open(Path::new("/sys/fs/cgroup/metasched-test")).unwrap().remove().unwrap();
}

/// libvirt makes such cgroups for the virtual CPUs of a machine.
#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_cgroup_whose_threads_are_moved_singly_is_told_of_them_and_so_is_a_threaded_one() {
    let _machine = TestMachine::take();
    let whole = Cgroup::create("metasched-test/whole").unwrap();
    let made = Made::up("computes", "computes", 3);
    whole.add(made.pid().cast_signed()).unwrap();
    let told = |cgroup: &str| {
        let path = page_of(&format!("cgroup:{}", cgroup.replace('/', ":")));
        let serving = Run::start(&["vms", "serve", "--cgroup", cgroup, "--window", "100ms"]);
        eventually("its page is written", || page(&path).is_some());
        (serving, path)
    };
    let (serving, path) = told("metasched-test/whole");
    fs::create_dir(whole.path().join("part")).unwrap();
    let part = Cgroup::open(&whole.path().join("part")).unwrap();
    part.make_threaded().unwrap();
    part.add_thread(made.vcpus()[0].cast_signed()).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let wait = mean(&windows_of(&path), |window| window.phantoms_milli);
    println!("{wait:.4} of three threads that compute on two CPUs wait, one in a threaded cgroup");
    assert!(wait > 1.0 - OFF, "{wait}");
    let stop = |serving: Run| {
        serving.interrupt();
    };
    stop(serving);
    let (serving, path) = told("metasched-test/whole/part");
    let seen = windows_of(&path);
    let wait = mean(&seen, |window| window.phantoms_milli);
    println!("{wait:.4} of one of these threads waits");
    assert!(wait > 0.1 && wait < 1.0, "{wait}");
    assert!(seen.iter().all(|window| (window.vcpus, window.cpus) == (0, 2)));
    stop(serving);
    drop(made);
    whole.remove().unwrap();
    Cgroup::open(Path::new("/sys/fs/cgroup/metasched-test")).unwrap().remove().unwrap();
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn of_two_machines_of_one_name_the_second_one_is_told_when_the_first_one_ends() {
    let _machine = TestMachine::take();
    let path = page_of("twin");
    let serving = Run::start(&["--json", "vms", "serve", "--all"]);
    let first = Made::up("twin", "sleeps", 1);
    eventually("its page is written", || page(&path).is_some());
    let second = Made::up("twin", "sleeps", 2);
    // Some scans later it was refused.
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(whole(&path).vcpus, 1);
    drop(first);
    eventually("the second one is told", || page(&path).is_some_and(|now| now.vcpus == 2));
    drop(second);
    let said = serving.interrupt();
    assert_eq!(said.matches("somebody writes it already").count(), 1, "it is said once: {said}");
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_cgroup_is_told_of_all_its_threads_and_a_page_that_was_attached_stays() {
    let _machine = TestMachine::take();
    let cgroup = Cgroup::create("metasched-test/told").unwrap();
    let hogs: Vec<Beside> =
        (0..3).map(|_| Beside::start("sh", &["-c", "while :; do :; done"])).collect();
    hogs.iter().for_each(|hog| cgroup.add(hog.pid()).unwrap());
    let path = page_of("cgroup:metasched-test:told");
    let serving =
        Run::start(&["vms", "serve", "--cgroup", "metasched-test/told", "--window", "100ms"]);
    eventually("its page is written", || page(&path).is_some());
    // Any user's programs read it.
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
    // Some windows later none has the beginning in it.
    std::thread::sleep(Duration::from_secs(2));
    // More than one of three waits while this test or the command has one of the two CPUs: so the kernel's books
    // are asked.
    let books = || -> f64 {
        hogs.iter().map(|hog| waited(Path::new(&format!("/proc/{}", hog.pid())))).sum()
    };
    let (before, began) = (books(), Instant::now());
    let seen = windows_of(&path);
    let by_books = (books() - before) / began.elapsed().as_secs_f64();
    let wait = mean(&seen, |window| window.phantoms_milli);
    println!("{wait:.4} of three hogs on two CPUs wait, {by_books:.4} by the kernel");
    assert!(wait > 0.9 && (wait - by_books).abs() < OTHERS, "{wait}, {by_books}");
    assert!(seen.iter().all(|window| (window.vcpus, window.cpus) == (0, 2)));
    drop(hogs);
    eventually("nobody waits any more", || page(&path).is_some_and(|now| now.phantoms_milli == 0));
    serving.interrupt();
    assert!(!path.exists());
    cgroup.remove().unwrap();
    Cgroup::open(Path::new("/sys/fs/cgroup/metasched-test")).unwrap().remove().unwrap();

    let view = document("vms-attach", &["vms", "attach", "web", "--json"]);
    let said = view["arguments"].to_string();
    assert!(said.contains("mem-path=/dev/shm/metasched-paravirt-web,size=4096"), "{said}");
    let made = Made::up("web", "sleeps", 2);
    let serving = Run::start(&["vms", "serve", "web"]);
    eventually("its page is written", || page(&page_of("web")).is_some());
    let (code, said) = Run::start(&["vms", "detach", "web"]).finish();
    assert_eq!(code, Some(i32::from(Kind::Busy.exit_code())), "{said}");
    drop(made);
    assert_eq!(serving.finish().0, Some(0));
    assert_eq!(fs::read(page_of("web")).unwrap()[..8], [0; 8], "it is there for the next time");
    let (code, said) = Run::start(&["vms", "detach", "web"]).finish();
    assert_eq!(code, Some(0), "{said}");
    assert!(!page_of("web").exists());
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn who_has_less_than_its_fair_share_is_told_what_another_one_holds_beyond_its_own() {
    let _machine = TestMachine::take();
    let names = ["metasched-test/rich", "metasched-test/poor"];
    let [rich, poor] = names.map(|name| Cgroup::create(name).unwrap());
    let start = |cgroup: &Cgroup, command: &[&str]| -> Vec<Beside> {
        let two: Vec<Beside> = (0..2).map(|_| Beside::start(command[0], &command[1..])).collect();
        two.iter().for_each(|process| cgroup.add(process.pid()).unwrap());
        two
    };
    let hogs = start(&rich, &["sh", "-c", "while :; do :; done"]);
    // They could use both CPUs, and do not.
    let sleepers = start(&poor, &["sleep", "1000"]);
    let pages = ["rich", "poor"].map(|name| page_of(&format!("cgroup:metasched-test:{name}")));
    let serve = |more: &[&str]| {
        let mut arguments = vec!["vms", "serve", "--window", "100ms"];
        names.iter().for_each(|name| arguments.extend(["--cgroup", name]));
        let serving = Run::start(&[&arguments[..], more].concat());
        eventually("both pages are written", || pages.iter().all(|path| page(path).is_some()));
        // Some windows later none has the beginning in it.
        std::thread::sleep(Duration::from_secs(2));
        serving
    };
    let owed = || pages.each_ref().map(|path| mean(&windows_of(path), |now| now.owed_cpus_milli));
    let stop = |serving: Run| {
        serving.interrupt();
    };
    let serving = serve(&["--no-owed"]);
    assert_eq!(owed(), [0.0, 0.0]);
    stop(serving);
    let serving = serve(&[]);
    let [to_rich, to_poor] = owed();
    println!("of the same weight: {to_rich:.4} and {to_poor:.4} CPUs are owed");
    assert!(to_rich < OFF && (to_poor - 1.0).abs() < OTHERS, "{to_rich}, {to_poor}");
    rich.set("cpu.weight", "300").unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let [to_rich, to_poor] = owed();
    println!("of a third of the weight: {to_rich:.4} and {to_poor:.4} CPUs are owed");
    assert!(to_rich < OFF && (to_poor - 0.5).abs() < OTHERS / 2.0, "{to_rich}, {to_poor}");
    drop(hogs);
    eventually("idle CPUs come first", || {
        page(&pages[1]).is_some_and(|now| now.owed_cpus_milli == 0 && now.idle_cpus_milli > 0)
    });
    stop(serving);
    drop(sleepers);
    [rich, poor].iter().for_each(|cgroup| cgroup.remove().unwrap());
    Cgroup::open(Path::new("/sys/fs/cgroup/metasched-test")).unwrap().remove().unwrap();
}

//! Phantoms and idle CPUs, beside the kernel's own books.

use std::fs;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use metasched_host::process::run_first;
use metasched_loader::{ParavirtReading, ParavirtState, ParavirtTracer, WatchedThread};

use crate::load::Hog;
use crate::support::{assert_alive, load, wait_until};

/// How far a mean over some seconds may be off, of a CPU or of a thread.
const OFF: f64 = 0.02;
const LENGTH: Duration = Duration::from_secs(3);
/// How far the kernel's books may be off: they have a wait when it has ended. So at either end two waits, of some
/// 10 ms each, are of another time.
const BOOKS: f64 = 0.06;
/// What others take of the CPUs, where these are emulated on a busy host: as many more threads wait, and as much less is
/// idle.
const OTHERS: f64 = 0.2;
/// The kernel does not count a CPU as idle while it serves an interrupt that came when it was. Where CPUs are emulated
/// that was 0.05 of one.
const INTERRUPTS: f64 = 0.2;
/// The kernel counts idle time in hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// A process that sleeps.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Self(Command::new("sleep").arg("1000").spawn().unwrap())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How long it waited for a CPU so far, by the kernel's books, in seconds.
fn waited(pid: u32) -> f64 {
    books(pid, 1)
}

/// How long it ran so far, likewise.
fn ran(pid: u32) -> f64 {
    books(pid, 0)
}

fn books(pid: u32, at: usize) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    text.split_whitespace().nth(at).unwrap().parse::<f64>().unwrap() / 1e9
}

/// How long all CPUs were idle so far, likewise.
fn idle() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap();
    let fields: Vec<f64> = text
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .skip(1)
        .map(|n| n.parse().unwrap())
        .collect();
    (fields[3] + fields[4]) / TICKS_PER_SECOND
}

fn state(tracer: &ParavirtTracer, thread: &WatchedThread) -> ParavirtState {
    tracer.read(std::iter::once(thread)).threads[0].state
}

/// Means of some time, in CPUs.
struct Means {
    phantoms: f64,
    idle: f64,
    /// On how many the threads ran.
    used: f64,
}

/// The means of some time, by us and by the kernel. Both must be read at once: where an emulator has lost its own
/// CPU between them it is done again.
fn means(tracer: &ParavirtTracer, threads: &[WatchedThread]) -> (Means, Means) {
    const AT_ONCE: Duration = Duration::from_millis(30);
    const TRIES: usize = 6;
    for _ in 0..TRIES {
        let (ours, books, apart) = means_apart(tracer, threads);
        if apart < AT_ONCE {
            return (ours, books);
        }
        println!("the kernel's books were read {apart:?} later");
    }
    panic!("the kernel's books were never read at once");
}

/// The same, and by how much the two were read one after the other.
fn means_apart(tracer: &ParavirtTracer, threads: &[WatchedThread]) -> (Means, Means, Duration) {
    let books = || {
        let of = |books: fn(u32) -> f64| threads.iter().map(|thread| books(thread.tid())).sum();
        [of(waited), idle(), of(ran)]
    };
    let sums = |reading: &ParavirtReading| {
        let waited: i64 = reading.threads.iter().map(|thread| thread.waited_ns).sum();
        let ran: i64 = reading.threads.iter().map(|thread| thread.ran_ns).sum();
        let idle: i64 = reading.idle_ns.iter().sum();
        [waited, idle, ran].map(|ns| ns as f64 / 1e9)
    };
    let read = || {
        let began = Instant::now();
        (tracer.read(threads.iter()), books(), began.elapsed())
    };
    let (before, books_before, apart_before) = read();
    std::thread::sleep(LENGTH);
    let (after, books_after, apart_after) = read();
    let seconds = (after.at_ns - before.at_ns) as f64 / 1e9;
    assert!(seconds >= LENGTH.as_secs_f64(), "{seconds} s");
    let of = |after: [f64; 3], before: [f64; 3]| {
        let [phantoms, idle, used] = [0, 1, 2].map(|at| (after[at] - before[at]) / seconds);
        Means { phantoms, idle, used }
    };
    let apart = apart_before.max(apart_after);
    (of(sums(&after), sums(&before)), of(books_after, books_before), apart)
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn phantoms_and_idle_cpus_are_those_of_the_kernels_books_under_any_scheduler() {
    // What looks must not wait for the load, or the two would be read at different times.
    run_first(1).unwrap();
    for policy in [None, Some("vtime")] {
        let program = policy.map(load);
        let mut tracer = ParavirtTracer::attach().unwrap();
        let mut watch = |pid: u32| tracer.watch(pid).unwrap().expect("it is alive");
        let sleepers: Vec<Sleeper> = (0..4).map(|_| Sleeper::start()).collect();
        let hogs: Vec<Hog> = (0..4).map(|_| Hog::start(&[], 0)).collect();
        // Before and after they begin.
        std::thread::sleep(Duration::from_millis(200));
        let sleeping: Vec<WatchedThread> = sleepers.iter().map(|s| watch(s.0.id())).collect();
        let hogging: Vec<WatchedThread> = hogs.iter().map(|hog| watch(hog.pid())).collect();
        let (ours, books) = means(&tracer, &hogging);
        let (phantoms, by_books) = (ours.phantoms, books.phantoms);
        println!("{policy:?}: {phantoms:.4} phantoms, {by_books:.4} by the kernel");
        println!("{policy:?}: {:.4} CPUs idle, {:.4} by the kernel", ours.idle, books.idle);
        println!("{policy:?}: {:.4} CPUs used, {:.4} by the kernel", ours.used, books.used);
        let four_on_two = 2.0 - BOOKS..2.0 + OTHERS;
        assert!(four_on_two.contains(&phantoms), "four on two CPUs: {phantoms}");
        assert!((phantoms - by_books).abs() < BOOKS, "{phantoms}, {by_books}");
        assert!(ours.idle < OFF && books.idle < OFF, "{}, {}", ours.idle, books.idle);
        // They wait or run.
        assert!((phantoms + ours.used - 4.0).abs() < OFF, "{phantoms}, {} used", ours.used);
        assert!((ours.used - books.used).abs() < BOOKS, "{}, {}", ours.used, books.used);
        let (asleep, _) = means(&tracer, &sleeping);
        assert!(asleep.phantoms < OFF && asleep.used < OFF, "they sleep: {}", asleep.phantoms);
        drop(hogs);
        wait_until("they are gone", || {
            hogging.iter().all(|thread| state(&tracer, thread) == ParavirtState::Gone)
        });
        let one = Hog::start(&[0], 0);
        std::thread::sleep(Duration::from_millis(500));
        let (ours, books) = means(&tracer, &[]);
        let (idle, idle_by_books) = (ours.idle, books.idle);
        println!("{policy:?}: one hog: {idle:.4} CPUs idle, {idle_by_books:.4} by the kernel");
        assert!((1.0 - OTHERS..=1.0 + OFF).contains(&idle), "one hog on two CPUs: {idle}");
        let more = idle - idle_by_books;
        assert!((-OFF..INTERRUPTS).contains(&more), "{idle}, {idle_by_books} by the kernel");
        drop(one);
        if let Some(program) = program {
            assert_alive(&program);
            program.unload().unwrap();
        }
    }
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn a_thread_that_is_watched_has_its_state_from_the_first_moment() {
    run_first(1).unwrap();
    let mut tracer = ParavirtTracer::attach().unwrap();
    let sleeper = Sleeper::start();
    // One that was started may not have come to sleep.
    std::thread::sleep(Duration::from_millis(300));
    let hogs: Vec<Hog> = (0..3).map(|_| Hog::start(&[1], 0)).collect();
    std::thread::sleep(Duration::from_millis(300));
    for round in 0..50 {
        let own = tracer.watch(nix::unistd::gettid().as_raw().cast_unsigned()).unwrap().unwrap();
        assert_eq!(state(&tracer, &own), ParavirtState::Running, "round {round}");
        let asleep = tracer.watch(sleeper.0.id()).unwrap().unwrap();
        assert_eq!(state(&tracer, &asleep), ParavirtState::Blocked, "round {round}");
        let waiting: Vec<WatchedThread> =
            hogs.iter().map(|hog| tracer.watch(hog.pid()).unwrap().unwrap()).collect();
        let states = |of| {
            let reading = tracer.read(waiting.iter());
            reading.threads.iter().filter(|thread| thread.state == of).count()
        };
        // A switch may come in between.
        let waits = states(ParavirtState::Counted);
        assert!((1..=3).contains(&waits), "round {round}: {waits} of three on a CPU wait");
        let known = 3 - states(ParavirtState::Unknown) - states(ParavirtState::Blocked);
        assert_eq!(known, 3, "round {round}");
        for thread in waiting.into_iter().chain([own, asleep]) {
            tracer.unwatch(thread).unwrap();
        }
    }
    // No such thread.
    assert!(tracer.watch(4_194_304).unwrap().is_none());
    let watched = tracer.watch(sleeper.0.id()).unwrap().unwrap();
    drop(sleeper);
    wait_until("it is gone", || state(&tracer, &watched) == ParavirtState::Gone);
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn births_of_watched_threads_are_told_and_no_others() {
    let tid = || nix::unistd::gettid().as_raw().cast_unsigned();
    let mut tracer = ParavirtTracer::attach().unwrap();
    std::thread::spawn(|| ()).join().unwrap();
    assert_eq!(tracer.born().unwrap(), []);
    let own = tracer.watch(tid()).unwrap().unwrap();
    let thread = std::thread::spawn(tid).join().unwrap();
    let process = Sleeper::start();
    assert_eq!(tracer.born().unwrap(), [(tid(), thread), (tid(), process.0.id())]);
    assert_eq!(tracer.born().unwrap(), []);
    // There is no room for all of them, and then for new ones again.
    let many = ParavirtTracer::BORN_MAX + 10;
    let threads: Vec<u32> = (0..many).map(|_| std::thread::spawn(tid).join().unwrap()).collect();
    let born: Vec<u32> = tracer.born().unwrap().into_iter().map(|(_, child)| child).collect();
    assert_eq!(born, threads[..ParavirtTracer::BORN_MAX]);
    let thread = std::thread::spawn(tid).join().unwrap();
    assert_eq!(tracer.born().unwrap(), [(tid(), thread)]);
    tracer.unwatch(own).unwrap();
    std::thread::spawn(|| ()).join().unwrap();
    assert_eq!(tracer.born().unwrap(), []);
}

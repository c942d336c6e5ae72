//! How exact a page is, by the kernel's own trace of the same time, and how old what stands in it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use metasched_abi::MetaschedParavirtPage as Layout;
use metasched_host::process::run_first;
use metasched_host::tracefs::Tracefs;
use metasched_scenario::record::{Event, Formats, NAMES, Pages, What};
use nix::time::{ClockId, clock_gettime};

use crate::machine::TestMachine;
use crate::page::{page, page_of, whole};
use crate::support::{FEW, Run, eventually};
use crate::vms::Made;

const LENGTH: Duration = Duration::from_secs(3);
/// How far the means of all windows may be off, of what the trace says.
const OFF: f64 = 0.02;
/// And those of one window, in CPUs, in the mean over all windows.
const OFF_EACH: f64 = 0.03;
/// How old a window of 4 ms may be in half and in all but a hundredth of all readings. Where CPUs are emulated on a
/// busy host the thread that writes is late, as is the one that reads.
const OLD_MS: [f64; 2] = [20.0, 200.0];

/// A trace of the scheduler's events while something goes on, in the order of time.
fn traced(run: impl FnOnce()) -> Vec<Event> {
    const BUFFER_KIB: u64 = 8192;
    let tracefs = Tracefs::open().unwrap();
    let formats: Vec<_> = NAMES.iter().map(|name| (*name, tracefs.format(name).unwrap())).collect();
    let formats = Formats::parse(&tracefs.read("events/header_page").unwrap(), &formats).unwrap();
    let mut instance = tracefs.instance(BUFFER_KIB).unwrap();
    instance.start(&NAMES).unwrap();
    run();
    instance.stop().unwrap();
    let (bytes, mut read, mut events) = (formats.page_bytes(), Pages::new(formats), Vec::new());
    let each = |cpu, page: &[u8]| read.read(cpu, page, &mut events).unwrap();
    instance.pages(bytes, each).unwrap();
    assert_eq!(instance.lost().unwrap(), 0);
    events.sort_by_key(|event| event.at_ns);
    events
}

/// Since when something is so, and when it was so: from when, until when.
#[derive(Default)]
struct Spans {
    since_ns: Option<u64>,
    /// When it was first known whether it is so.
    known_ns: Option<u64>,
    spans: Vec<(u64, u64)>,
}

impl Spans {
    fn is(&mut self, so: bool, now_ns: u64) {
        self.known_ns.get_or_insert(now_ns);
        match (so, self.since_ns) {
            (true, None) => self.since_ns = Some(now_ns),
            (false, Some(since_ns)) => {
                self.spans.push((since_ns, now_ns));
                self.since_ns = None;
            }
            _ => {}
        }
    }

    /// For what part of a window it was so.
    fn share(&self, window: &Layout) -> f64 {
        let last = self.since_ns.map(|since_ns| (since_ns, u64::MAX));
        let within = |(from, to): &(u64, u64)| {
            (*to).min(window.ended_ns).saturating_sub((*from).max(window.began_ns))
        };
        let ns: u64 = self.spans.iter().chain(&last).map(within).sum();
        ns as f64 / (window.ended_ns - window.began_ns) as f64
    }
}

/// What a trace says: when threads waited for a CPU, and when CPUs were idle.
struct Said {
    threads: BTreeMap<u32, Spans>,
    cpus: BTreeMap<usize, Spans>,
    ended_ns: u64,
}

impl Said {
    fn of(events: &[Event], tids: &[u32]) -> Self {
        let mut threads: BTreeMap<u32, Spans> =
            tids.iter().map(|tid| (*tid, Spans::default())).collect();
        let mut cpus: BTreeMap<usize, Spans> = BTreeMap::new();
        let mut runs: BTreeMap<u32, bool> = BTreeMap::new();
        for Event { at_ns, cpu, what, .. } in events {
            match what {
                What::Switch { from, runnable, to, .. } => {
                    if let Some(thread) = threads.get_mut(&from.pid) {
                        thread.is(*runnable, *at_ns);
                        runs.insert(from.pid, false);
                    }
                    if let Some(thread) = threads.get_mut(&to.pid) {
                        thread.is(false, *at_ns);
                        runs.insert(to.pid, true);
                    }
                    cpus.entry(*cpu).or_default().is(to.pid == 0, *at_ns);
                }
                // One that runs may be woken on its way to sleep.
                What::Wakeup(woken) if runs.get(&woken.pid) == Some(&false) => {
                    threads.get_mut(&woken.pid).expect("it is one of them").is(true, *at_ns);
                }
                _ => {}
            }
        }
        let ended_ns = events.last().map_or(0, |event| event.at_ns);
        Self { threads, cpus, ended_ns }
    }

    /// Whether it tells of all threads and CPUs for the whole of a window.
    fn knows(&self, window: &Layout) -> bool {
        let mut all = self.threads.values().chain(self.cpus.values());
        let known = |spans: &Spans| spans.known_ns.is_some_and(|ns| ns <= window.began_ns);
        window.ended_ns <= self.ended_ns && all.all(known)
    }

    /// The phantoms and the idle CPUs of a window.
    fn means(&self, window: &Layout) -> [f64; 2] {
        let phantoms = self.threads.values().map(|thread| thread.share(window)).sum();
        [phantoms, self.cpus.values().map(|cpu| cpu.share(window)).sum()]
    }
}

/// The windows of a page that are seen in some time.
fn seen_in(path: &Path, length: Duration) -> Vec<Layout> {
    let (mut windows, began) = (vec![whole(path)], Instant::now());
    while began.elapsed() < length {
        std::thread::sleep(Duration::from_millis(3));
        let last = windows[windows.len() - 1].windows;
        windows.extend(page(path).filter(|now| now.windows != last));
    }
    windows
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_page_has_what_a_trace_of_the_same_time_says() {
    let _machine = TestMachine::take();
    // Three virtual CPUs on two CPUs, each of which wants one half of the time.
    let made = Made::up("rests", "rests", 3);
    let path = page_of("rests");
    for scheduler in ["eevdf", "vtime"] {
        if scheduler != "eevdf" {
            let (code, said) = Run::start(&["start", scheduler, FEW[0], FEW[1]]).finish();
            assert_eq!(code, Some(0), "{said}");
        }
        // So long that a thread that looks often sees all of them.
        let serving = Run::start(&["vms", "serve", "rests", "--window", "20ms"]);
        eventually("the page is written", || page(&path).is_some());
        let mut windows = Vec::new();
        let events = traced(|| windows = seen_in(&path, LENGTH));
        serving.interrupt();
        if scheduler != "eevdf" {
            assert_eq!(Run::start(&["stop"]).finish().0, Some(0));
        }
        let said = Said::of(&events, &made.vcpus());
        assert_eq!((said.threads.len(), said.cpus.len()), (3, 2));
        windows.retain(|window| said.knows(window));
        assert!(windows.len() > 20, "{} windows", windows.len());
        let count = windows.len() as f64;
        for (at, what) in ["phantoms", "CPUs idle"].into_iter().enumerate() {
            let by_page = |window: &Layout| {
                f64::from([window.phantoms_milli, window.idle_cpus_milli][at]) / 1000.0
            };
            let mean = windows.iter().map(by_page).sum::<f64>() / count;
            let traced = windows.iter().map(|window| said.means(window)[at]).sum::<f64>() / count;
            let off: Vec<f64> = windows
                .iter()
                .map(|window| (by_page(window) - said.means(window)[at]).abs())
                .collect();
            let each = off.iter().sum::<f64>() / count;
            let worst = off.iter().copied().fold(0.0, f64::max);
            println!(
                "{scheduler}: {mean:.4} {what}, {traced:.4} by the trace: {:.2} % apart; of {count} \
                 windows each {each:.4} in the mean, {worst:.4} at most",
                (mean / traced - 1.0) * 100.0
            );
            assert!(traced > 0.05, "too few to be compared: {traced} {what}");
            assert!((mean / traced - 1.0).abs() < OFF, "{mean} {what}, {traced} by the trace");
            assert!(each < OFF_EACH, "{what}: {each}");
        }
    }
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn what_stands_in_a_page_is_a_window_old() {
    /// Readings are at all times of a window, as it is no multiple of that.
    const BETWEEN: Duration = Duration::from_micros(2_700);
    let _machine = TestMachine::take();
    // The program in the container reads it as soon as it wants, also beside hogs.
    let _made = Made::up("computes", "computes", 4);
    run_first(1).unwrap();
    let path = page_of("computes");
    let serving = Run::start(&["vms", "serve", "computes"]);
    eventually("the page is written", || page(&path).is_some());
    let (mut ages, began) = (Vec::new(), Instant::now());
    while began.elapsed() < LENGTH {
        std::thread::sleep(BETWEEN);
        ages.extend(page(&path).map(|page| now_ns().saturating_sub(page.ended_ns) as f64 / 1e6));
    }
    serving.interrupt();
    ages.sort_by(f64::total_cmp);
    let part = |part: f64| ages[((ages.len() - 1) as f64 * part) as usize];
    let [half, most] = [part(0.5), part(0.99)];
    println!(
        "{} readings: {:.2} ms old at least, {half:.2} in half of them, {:.2} in 90 %, {most:.2} in \
         99 %, {:.2} at most",
        ages.len(),
        part(0.0),
        part(0.9),
        part(1.0)
    );
    assert!(ages.len() > 50, "{} readings", ages.len());
    assert!(half < OLD_MS[0] && most < OLD_MS[1], "{half} ms, {most} ms");
}

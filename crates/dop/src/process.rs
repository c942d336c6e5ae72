//! The state of this process, and what is done when it starts, forks and ends.

use std::cell::Cell;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use crate::follow::{Follower, whole};
use crate::log::{know_stderr, say};
use crate::real::Runtime;
use crate::settings::Settings;
use crate::source::Source;

/// How often the page is looked at, ns, if windows are not so short that it must be more often,
/// until there is a new window; then not before the next one can be there. A look takes a few
/// microseconds, so this is less than 0.5 % of one CPU however many regions begin.
const LOOK_NS: u64 = 1_000_000;
/// How many looks a window gets at least.
const LOOKS_PER_WINDOW: u64 = 4;
/// How often it is looked for where there is none, ns.
const SEARCH_NS: u64 = 100_000_000;

/// What is known of this process. A fork has one of its own.
static PROCESS: AtomicPtr<Process> = AtomicPtr::new(ptr::null_mut());

/// All threads of a process share it, since what a page tells is of all of them together. A thread
/// that is not the main one and starts a region follows the same number, and starts where others
/// are.
pub(crate) struct Process {
    settings: &'static Settings,
    following: Mutex<Following>,
    /// [`Follower::room`], as bits, for threads that find another one looking.
    room: AtomicU64,
    /// How many threads that live have started outermost regions. That is more than those that
    /// have one now, so the numbers rather follow too slowly than swing.
    starters: AtomicU32,
    regions: AtomicU64,
    /// Regions that got fewer threads than they would have.
    adapted: AtomicU64,
    /// Regions that were left as their clause says.
    clauses: AtomicU64,
    /// Regions that began while there was no page to follow.
    alone: AtomicU64,
    /// The threads of all regions.
    threads: AtomicU64,
}

struct Following {
    source: Source,
    follower: Follower,
    began: Instant,
    looked_ns: u64,
    next_look_ns: u64,
}

impl Following {
    fn new(settings: &Settings) -> Following {
        let mut following = Following {
            source: Source::new(&settings.page, settings.named),
            follower: Follower::new(),
            began: Instant::now(),
            looked_ns: 0,
            next_look_ns: 0,
        };
        // The page is followed once it was seen to change. From here to the first region most
        // programs take longer than a window.
        following.look();
        following
    }

    /// Nanoseconds of the monotonic clock.
    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn look(&mut self) {
        if self.now_ns() < self.next_look_ns {
            return;
        }
        let read = self.source.read();
        // After that, so that a page is rather taken for too old than for too new if our CPU is
        // taken away in between.
        let now_ns = self.now_ns();
        let windows = self.follower.windows();
        self.follower.look(read, now_ns);
        let window_ns = self.follower.window_ns();
        let pause_ns =
            window_ns.map_or(SEARCH_NS, |window_ns| LOOK_NS.min(window_ns / LOOKS_PER_WINDOW));
        self.next_look_ns = now_ns.saturating_add(pause_ns);
        if self.follower.windows() != windows {
            // This window was written after the last look, and the next one comes a window later.
            let next_ns = self.looked_ns.saturating_add(pause_ns * LOOKS_PER_WINDOW);
            self.next_look_ns = self.next_look_ns.max(next_ns);
        }
        self.looked_ns = now_ns;
    }
}

thread_local! {
    static STARTER: Starter = const { Starter(Cell::new(None)) };
    /// How many threads this thread's last outermost region had.
    static LAST: Cell<u32> = const { Cell::new(1) };
}

/// The process in which this thread is counted as one that starts regions.
struct Starter(Cell<Option<&'static Process>>);

impl Drop for Starter {
    fn drop(&mut self) {
        if let Some(process) = self.0.get() {
            process.starters.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Process {
    fn new(settings: &'static Settings) -> Process {
        Process {
            settings,
            following: Mutex::new(Following::new(settings)),
            room: AtomicU64::new(f64::INFINITY.to_bits()),
            starters: AtomicU32::new(0),
            regions: AtomicU64::new(0),
            adapted: AtomicU64::new(0),
            clauses: AtomicU64::new(0),
            alone: AtomicU64::new(0),
            threads: AtomicU64::new(0),
        }
    }

    /// Makes it this process's. It is never freed, as others may have a reference.
    fn install(self) {
        PROCESS.store(Box::into_raw(Box::new(self)), Ordering::Release);
    }

    /// Nothing before the library was started.
    fn this() -> Option<&'static Process> {
        // SAFETY: what is stored there is a whole process that is never freed.
        unsafe { PROCESS.load(Ordering::Acquire).as_ref() }
    }

    /// How many threads an outermost region gets that would have `n`, if that is another number.
    fn region(&'static self, n: u32, has_clause: bool) -> Option<u32> {
        let counted = |counter: &AtomicU64, more: u32| {
            counter.fetch_add(u64::from(more), Ordering::Relaxed);
        };
        counted(&self.regions, 1);
        if has_clause && !self.settings.adapt_clauses {
            counted(&self.clauses, 1);
            counted(&self.threads, n);
            return None;
        }
        self.count_as_starter();
        // Nobody waits: who has the lock may have lost its CPU, which is what this is about. And
        // where a process forked by itself while it was held, nobody gives it back.
        let room = match self.following.try_lock() {
            Ok(mut following) => {
                following.look();
                let starters = self.starters.load(Ordering::Relaxed);
                let threads = following.follower.threads(n, starters);
                let room = following.follower.room();
                self.room.store(room.to_bits(), Ordering::Relaxed);
                debug_assert_eq!(threads, whole(room, n));
                room
            }
            Err(_) => f64::from_bits(self.room.load(Ordering::Relaxed)),
        };
        let threads = whole(room, n);
        counted(&self.alone, u32::from(room.is_infinite()));
        counted(&self.adapted, u32::from(threads < n));
        counted(&self.threads, threads);
        (threads != n).then_some(threads)
    }

    fn count_as_starter(&'static self) {
        // A thread that ends may have lost its variables already.
        let _ = STARTER.try_with(|starter| {
            if !starter.0.get().is_some_and(|process| ptr::eq(process, self)) {
                starter.0.set(Some(self));
                self.starters.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    /// What it did, in a line.
    fn summary(&self) -> String {
        let number = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let regions = number(&self.regions);
        let (windows, why) = self.following.try_lock().map_or((0, None), |following| {
            (following.follower.windows(), following.follower.why())
        });
        format!(
            "pid={} regions={regions} adapted={} clauses={} alone={} windows={windows} \
             threads_mean={:.2} why={}",
            std::process::id(),
            number(&self.adapted),
            number(&self.clauses),
            number(&self.alone),
            number(&self.threads) as f64 / regions.max(1) as f64,
            why.map_or("-".to_string(), |why| why.to_string()),
        )
    }
}

/// How many threads the region gets that begins now, if that is another number than without us.
/// `clause` is the number of its `num_threads` clause.
///
/// Regions within one that has several threads are left as they are. Those within one that has one
/// thread are the first that start any, so they count as outermost: a region that is adapted down
/// to one thread would else let its inner regions have all.
pub(crate) fn adapted(runtime: &Runtime, clause: Option<u32>) -> Option<u32> {
    let process = Process::this()?;
    if runtime.is_parallel() {
        return None;
    }
    let n = clause.unwrap_or_else(|| runtime.max_threads()).min(runtime.thread_limit()).max(1);
    let threads = process.region(n, clause.is_some());
    let last = LAST.replace(threads.unwrap_or(n));
    if threads == Some(1) && last > 1 && process.settings.spins {
        // Else they would take the CPUs that are to be left to others, and no CPU would ever be
        // idle for this process to grow again.
        runtime.end_threads();
    }
    threads
}

/// Called when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    know_stderr();
    let (settings, complaint) = Settings::new(|name| std::env::var_os(name));
    if let Some(complaint) = complaint {
        say(&complaint);
    }
    Process::new(Box::leak(Box::new(settings))).install();
    // SAFETY: both functions may be called at any time after this, and the library is never
    // unloaded. Where one cannot be registered its line, or its books, are missed, and no more.
    unsafe {
        libc::atexit(at_exit);
        libc::pthread_atfork(None, None, Some(in_child));
    }
}

/// The child has one thread, books of its own, and locks that others may have held.
extern "C" fn in_child() {
    if let Some(process) = Process::this() {
        Process::new(process.settings).install();
    }
}

/// A process without regions has nothing to say: a shell that starts the program has the library,
/// too.
extern "C" fn at_exit() {
    let Some(process) = Process::this() else { return };
    if process.regions.load(Ordering::Relaxed) == 0 {
        return;
    }
    if let Some(log) = &process.settings.log {
        log.write(&process.summary());
    }
}

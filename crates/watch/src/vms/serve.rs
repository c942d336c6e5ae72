//! Writes each window of machines and cgroups to their pages.
//!
//! A thread of ours writes, and not the kernel's side. A map of BPF's cannot be the file behind a device of QEMU's;
//! and nothing newer than Linux 6.12 is needed so. An average is right also where the thread comes
//! late, since it is that of the time until then.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TryRecvError, channel, sync_channel,
};
use std::time::{Duration, Instant};

use metasched_base::{Error, Interrupt, Kind, Result};
use metasched_host::process::Prompt;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::machines::Scanner;
use super::observer::{Observed, Observer, THREADS_MAX, Window};
use super::page::Page;
use super::whose::{Whose, are_apart};

/// So often it is looked which machines and threads there are.
const SCAN_EACH: Duration = Duration::from_millis(250);

/// What is served, and how.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// These; all machines that there are and that will come, if there are none.
    pub whose: Vec<Whose>,
    /// How long a window is.
    pub window: Duration,
    /// The page of the only one; else each has its own by default.
    pub page: Option<PathBuf>,
    /// Whether those who have less than their fair shares are told what others hold beyond theirs.
    pub owed: bool,
    /// What is told of others is rounded down to a multiple of so many CPUs; nothing: to a thousandth.
    pub step: Option<f64>,
}

impl ServeOptions {
    /// What a guest is told of a window. Its own phantoms are never rounded.
    fn told(&self, window: Window) -> Window {
        let step = |cpus: f64| self.step.map_or(cpus, |step| (cpus / step).floor() * step);
        let owed = |cpus: f64| if self.owed { step(cpus) } else { 0.0 };
        Window {
            idle_cpus: step(window.idle_cpus),
            owed_cpus: owed(window.owed_cpus),
            owing_cpus: owed(window.owing_cpus),
            ..window
        }
    }
}

/// What is told while it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// A page is written from now on.
    Began {
        /// Whose it is.
        name: String,
        /// Where it is.
        page: PathBuf,
    },
    /// And no more.
    Ended {
        /// Whose it was.
        name: String,
        /// Why, in a sentence without its end.
        why: String,
    },
}

/// Serves until somebody asks it to stop, or until all that were asked for are gone.
///
/// # Errors
/// As [`are_apart`], [`Observer::begin`] and [`Page::prepare`]. Where one of several loses its page the others are still served; the
/// error comes when none is left.
pub fn serve(
    options: &ServeOptions,
    interrupt: &Interrupt,
    tell: &mut impl FnMut(&Served),
) -> Result<()> {
    are_apart(&options.whose)?;
    allow_many_files();
    // What scans the processes is no such thread: it works for longer, and may be late.
    let _prompt = Prompt::new();
    let mut server = Server {
        options,
        observer: Observer::begin()?,
        serving: BTreeMap::new(),
        lost: BTreeSet::new(),
        busy: BTreeSet::new(),
        failed: None,
        has_begun: false,
        tell,
    };
    let (stop, stopped) = channel::<()>();
    let (send, found) = sync_channel(1);
    std::thread::scope(|scope| {
        scope.spawn(move || scan(&options.whose, &send, &stopped));
        let served = server.serve(&found, interrupt);
        // Which ends the scanner: at its next look, or as it sends.
        drop((stop, found));
        server.end_all("it was asked to stop");
        served
    })
}

/// Each page is an open file, and shells and services begin with few that may be open. Where more are not
/// allowed, those who come too late are told that there are too many.
fn allow_many_files() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// What a scan finds, by its keys.
type Found = BTreeMap<String, (Whose, Observed)>;

/// Scans again and again, until nobody listens.
fn scan(asked: &[Whose], send: &SyncSender<Found>, stopped: &Receiver<()>) {
    let root = Path::new("/");
    let mut scanner = Scanner::new(root);
    // All processes are looked at for machines, which takes a CPU for milliseconds.
    let machine = |whose: &Whose| matches!(whose, Whose::Machine(_));
    let wants_machines = asked.is_empty() || asked.iter().any(machine);
    loop {
        let machines = if wants_machines { scanner.scan() } else { BTreeMap::new() };
        let all = || machines.values().cloned().map(Whose::Machine).collect();
        let whose: Vec<Whose> = if asked.is_empty() { all() } else { asked.to_vec() };
        let found = whose
            .into_iter()
            .filter_map(|whose| {
                let observed = whose.observed(root, &machines)?;
                Some((whose.key(), (whose, observed)))
            })
            .collect();
        if send.send(found).is_err()
            || stopped.recv_timeout(SCAN_EACH) != Err(RecvTimeoutError::Timeout)
        {
            return;
        }
    }
}

/// When the window ends that follows the one of `end`, which was written from `woke` to `now`.
///
/// Windows end at even distances. But this thread comes before all others of its CPU, and what it writes
/// may take longer than a window, with short ones and thousands of threads. So it rests for as long as it
/// worked, and takes half of a CPU at most; windows are longer then. And where it woke so late that the next
/// one would have less than half of its length, distances begin anew: too short a time tells nothing.
fn next_end(end: Instant, window: Duration, woke: Instant, now: Instant) -> Instant {
    let even = end + window;
    let next = if even < woke + window / 2 { woke + window } else { even };
    next.max(now + (now - woke))
}

struct Server<'a, T> {
    options: &'a ServeOptions,
    observer: Observer,
    serving: BTreeMap<String, (String, Page)>,
    /// Those that lost their pages: they are not tried again.
    lost: BTreeSet<String>,
    /// Those whose pages others write, which was said: they are tried until these have ended.
    busy: BTreeSet<String>,
    failed: Option<Error>,
    /// Whether it was looked once who is there.
    has_begun: bool,
    tell: &'a mut T,
}

impl<T: FnMut(&Served)> Server<'_, T> {
    fn serve(&mut self, found: &Receiver<Found>, interrupt: &Interrupt) -> Result<()> {
        let window = self.options.window;
        let window_ns = window.as_nanos() as u64;
        let mut end = Instant::now() + window;
        // In a long window, too, it is taken what the scans find.
        while interrupt.sleep_until(end.min(Instant::now() + SCAN_EACH)) {
            let woke = Instant::now();
            match found.try_recv() {
                Ok(now) => self.take(now)?,
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => {
                    return Err(Error::new(Kind::Failed, "serve pages", "the scan has ended"));
                }
            }
            if self.is_done() {
                return self.failed.take().map_or(Ok(()), Err);
            }
            if woke < end {
                continue;
            }
            self.observer.follow_births()?;
            for (key, window) in self.observer.window() {
                let Some((_, page)) = self.serving.get_mut(&key) else { continue };
                if let Err(error) = page.write(&self.options.told(window), window_ns) {
                    self.lose(&key, error);
                }
            }
            end = next_end(end, window, woke, Instant::now());
        }
        Ok(())
    }

    /// Whether all that were asked for are gone.
    fn is_done(&self) -> bool {
        self.has_begun && !self.options.whose.is_empty() && self.serving.is_empty()
    }

    /// Begins with those that have come, and ends those that have gone or have lost their pages.
    fn take(&mut self, found: Found) -> Result<()> {
        let gone: Vec<String> =
            self.serving.keys().filter(|key| !found.contains_key(*key)).cloned().collect();
        for key in gone {
            self.lost.insert(key.clone());
            self.end(&key, "it is gone");
        }
        let checked: Vec<(String, Result<()>)> =
            self.serving.iter().map(|(key, (_, page))| (key.clone(), page.check())).collect();
        for (key, checked) in checked {
            if let Err(error) = checked {
                self.lose(&key, error);
            }
        }
        self.lost.retain(|key| found.contains_key(key) || !self.options.whose.is_empty());
        self.busy.retain(|key| found.contains_key(key));
        let mut wanted = BTreeMap::new();
        for (key, (whose, observed)) in found {
            if self.lost.contains(&key) {
                continue;
            }
            if !self.serving.contains_key(&key) {
                match self.prepare(&whose) {
                    Ok(page) => {
                        let name = whose.name();
                        let path = page.path().to_owned();
                        (self.tell)(&Served::Began { name: name.clone(), page: path });
                        self.busy.remove(&key);
                        self.serving.insert(key.clone(), (name, page));
                    }
                    // Of those that come by themselves one may be as it likes.
                    Err(error) if self.options.whose.is_empty() => {
                        let is_busy = error.kind == Kind::Busy;
                        let refused = if is_busy { &mut self.busy } else { &mut self.lost };
                        if refused.insert(key) {
                            let why = error.to_string();
                            (self.tell)(&Served::Ended { name: whose.name(), why });
                        }
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            wanted.insert(key, observed);
        }
        self.has_begun = true;
        for (key, threads) in self.observer.observe(&wanted)? {
            let cause = format!(
                "it has {threads} threads, and all that are served have more than {THREADS_MAX}"
            );
            let error = Error::new(Kind::BadInput, "watch its threads", cause)
                .remedy("serve fewer machines or cgroups at a time");
            self.lose(&key, error);
        }
        Ok(())
    }

    fn prepare(&self, whose: &Whose) -> Result<Page> {
        let path = match &self.options.page {
            Some(path) => path.clone(),
            None => whose.page()?,
        };
        let (owner, public) = whose.owner();
        Page::prepare(&path, owner, public)
    }

    /// Its page is not to be used any more: the others go on.
    fn lose(&mut self, key: &str, error: Error) {
        self.lost.insert(key.to_owned());
        self.end(key, &error.to_string());
        self.failed = Some(error);
    }

    fn end(&mut self, key: &str, why: &str) {
        if let Some((name, page)) = self.serving.remove(key) {
            page.end();
            (self.tell)(&Served::Ended { name, why: why.to_owned() });
        }
    }

    fn end_all(&mut self, why: &str) {
        let keys: Vec<String> = self.serving.keys().cloned().collect();
        keys.iter().for_each(|key| self.end(key, why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_end_at_even_distances_and_what_is_slow_rests_for_as_long_as_it_works() {
        let ms = Duration::from_millis;
        let (end, window) = (Instant::now(), ms(4));
        // From when to when the window was written, and when the next one ends, after `end`.
        for (woke, written, next) in
            [(0, 0, 4), (1, 3, 5), (2, 2, 4), (3, 4, 7), (0, 6, 12), (9, 9, 13)]
        {
            let next_end = next_end(end, window, end + ms(woke), end + ms(written));
            assert_eq!(next_end - end, ms(next), "{woke} {written}");
        }
    }

    #[test]
    fn what_is_told_of_others_is_as_coarse_as_the_operator_wants() {
        let options = |owed, step| ServeOptions {
            whose: Vec::new(),
            window: Duration::from_millis(4),
            page: None,
            owed,
            step,
        };
        let window = Window {
            phantoms: 1.7,
            idle_cpus: 3.9,
            owed_cpus: 2.6,
            owing_cpus: 0.4,
            ..Window::default()
        };
        let told = |owed, step| {
            let told = options(owed, step).told(window);
            assert!((told.phantoms - 1.7).abs() < 1e-9);
            [told.idle_cpus, told.owed_cpus, told.owing_cpus]
        };
        assert_eq!(told(true, None), [3.9, 2.6, 0.4]);
        assert_eq!(told(true, Some(1.0)), [3.0, 2.0, 0.0]);
        assert_eq!(told(true, Some(2.5)), [2.5, 2.5, 0.0]);
        assert_eq!(told(false, Some(0.5)), [3.5, 0.0, 0.0]);
    }
}

//! Averages over windows of time, of sums that the kernel's side keeps.
//!
//! What is read twice is a sum, up to the moment of the reading. So an average is that of just the time between
//! two readings, and is right however late the second one is.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use metasched_abi::ParavirtState;
use metasched_base::{Result, parse_cpu_list};
use metasched_loader::{ParavirtReading, ParavirtTracer, Runs, WatchedThread};
use metasched_stats::{Claim, FairShares, Had, parts_by_cgroup};

/// How many threads can be observed at a time, of those that were asked for. As many may be born meanwhile.
pub const THREADS_MAX: usize = ParavirtTracer::THREADS_MAX / 2;

/// What is observed of a machine or a cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Threads, each of which is a phantom while it waits for a CPU.
    pub threads: BTreeSet<u32>,
    /// The CPUs that these may use.
    pub cpus: BTreeSet<u32>,
    /// How many virtual CPUs they are; 0 for a cgroup.
    pub vcpus: u32,
    /// The cgroups that they are in, from below the root down, with what `cpu.weight` of each says.
    pub cgroups: Vec<(String, u32)>,
}

/// What came out for a machine or a cgroup over some time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    /// When it began, ns of CLOCK_MONOTONIC.
    pub began_ns: u64,
    /// When it ended.
    pub ended_ns: u64,
    /// How many threads waited for a CPU, in the mean over the time.
    pub phantoms: f64,
    /// How many of the CPUs that it may use were idle, likewise.
    pub idle_cpus: f64,
    /// How many CPUs others that are observed hold beyond their fair shares, as far as it has less than its own.
    pub owed_cpus: f64,
    /// How many it holds beyond its own, as far as threads of such others wait for a CPU.
    pub owing_cpus: f64,
    /// How many virtual CPUs there are; 0 for a cgroup.
    pub vcpus: u32,
    /// How many CPUs of the host it may use, of those that are on line.
    pub cpus: u32,
}

/// Observes machines and cgroups, each of which has a key of the caller's.
pub struct Observer {
    tracer: ParavirtTracer,
    subjects: BTreeMap<String, Subject>,
    /// What each of them is to have of the CPUs, in their order.
    shares: FairShares,
    online: BTreeSet<u32>,
    /// The reading at which the window began.
    at_ns: u64,
    idle_ns: Vec<i64>,
}

struct Subject {
    threads: BTreeMap<u32, Thread>,
    cpus: BTreeSet<u32>,
    vcpus: u32,
    /// Whether it was observed since the window began.
    whole: bool,
}

struct Thread {
    watched: WatchedThread,
    /// How long it had waited at the last reading, or when it came.
    waited_ns: i64,
    /// How long it had run then.
    ran_ns: i64,
    /// Whether it was born since it was last said what is to be observed.
    is_new: bool,
    /// Whether it had ended at the last reading. Its number may be another thread's by now.
    is_gone: bool,
}

impl Subject {
    /// Has a thread watched, if it has not ended meanwhile.
    fn watch(&mut self, tracer: &mut ParavirtTracer, tid: u32, is_new: bool) -> Result<()> {
        if let Some(watched) = tracer.watch(tid)? {
            let now = tracer.read(std::iter::once(&watched)).threads[0];
            let (waited_ns, ran_ns, is_gone) = (now.waited_ns, now.ran_ns, false);
            self.threads.insert(tid, Thread { watched, waited_ns, ran_ns, is_new, is_gone });
        }
        Ok(())
    }

    /// Has it watched no more.
    fn unwatch(&mut self, tracer: &mut ParavirtTracer, tid: u32) -> Result<()> {
        self.threads.remove(&tid).map_or(Ok(()), |thread| tracer.unwatch(thread.watched))
    }
}

impl Observer {
    /// Observes nothing yet.
    ///
    /// # Errors
    /// As [`ParavirtTracer::attach`].
    pub fn begin() -> Result<Self> {
        let tracer = ParavirtTracer::attach()?;
        let ParavirtReading { at_ns, idle_ns, .. } = tracer.read(std::iter::empty());
        Ok(Self {
            tracer,
            subjects: BTreeMap::new(),
            shares: FairShares::default(),
            online: online(Path::new("/")),
            at_ns,
            idle_ns,
        })
    }

    /// Observes these from now on, and nothing else. The first window of a new one is left out, since it was not
    /// observed for all of it.
    ///
    /// Where all of them have more threads than can be watched, those with the most threads are left out. They are
    /// returned, by their keys with how many threads they have.
    ///
    /// A thread counts for one of them only, since it has one slot. One that moves from a cgroup to another while
    /// somebody looks at both may be seen in either: until the next time it stays where it was.
    ///
    /// # Errors
    /// As [`ParavirtTracer::watch`].
    pub fn observe(
        &mut self,
        wanted: &BTreeMap<String, Observed>,
    ) -> Result<BTreeMap<String, usize>> {
        let left_out = too_many(wanted);
        let wanted: BTreeMap<&String, &Observed> =
            wanted.iter().filter(|(key, _)| !left_out.contains_key(*key)).collect();
        self.online = online(Path::new("/"));
        // Those that are gone first: their slots are free then.
        let gone: Vec<String> =
            self.subjects.keys().filter(|key| !wanted.contains_key(*key)).cloned().collect();
        for key in gone {
            let subject = self.subjects.remove(&key).expect("it is one of them");
            for thread in subject.threads.into_values() {
                self.tracer.unwatch(thread.watched)?;
            }
        }
        for (key, observed) in &wanted {
            let new = || Subject {
                threads: BTreeMap::new(),
                cpus: BTreeSet::new(),
                vcpus: 0,
                whole: false,
            };
            let subject = self.subjects.entry((*key).clone()).or_insert_with(new);
            subject.cpus.clone_from(&observed.cpus);
            subject.vcpus = observed.vcpus;
            // Who asks may not have known of those that are new.
            let ended = subject.threads.iter_mut().filter_map(|(tid, thread)| {
                let was_new = std::mem::replace(&mut thread.is_new, false);
                (thread.is_gone || !observed.threads.contains(tid) && !was_new).then_some(*tid)
            });
            for tid in ended.collect::<Vec<u32>>() {
                subject.unwatch(&mut self.tracer, tid)?;
            }
        }
        let threads = self.subjects.values().flat_map(|subject| subject.threads.keys());
        let mut watched: HashSet<u32> = threads.copied().collect();
        for (key, observed) in &wanted {
            let subject = self.subjects.get_mut(*key).expect("it has just been put there");
            for tid in &observed.threads {
                if watched.insert(*tid) {
                    subject.watch(&mut self.tracer, *tid, false)?;
                }
            }
        }
        self.claim(&wanted);
        Ok(left_out)
    }

    /// Observes what was born of a cgroup's threads since the last call, too: they belong to it from
    /// their first moment on, and do not wait until somebody has looked at all of its threads. While many
    /// are born they are left out, so that there is room for all that may be asked for.
    ///
    /// # Errors
    /// As [`ParavirtTracer::watch`] and [`ParavirtTracer::born`].
    pub fn follow_births(&mut self) -> Result<()> {
        for (parent, tid) in self.tracer.born()? {
            let of = |subject: &&mut Subject| {
                subject.vcpus == 0 && subject.threads.contains_key(&parent)
            };
            if self.tracer.free() <= THREADS_MAX {
                break;
            }
            let mut subjects = self.subjects.values_mut();
            if let Some(subject) = subjects.find(|subject| subject.threads.contains_key(&tid)) {
                // It was found already, or one of its number has ended, perhaps a moment ago.
                let known = std::iter::once(&subject.threads[&tid].watched);
                if self.tracer.read(known).threads[0].state != ParavirtState::Gone {
                    continue;
                }
                subject.unwatch(&mut self.tracer, tid)?;
            }
            if let Some(subject) = self.subjects.values_mut().find(of) {
                subject.watch(&mut self.tracer, tid, true)?;
            }
        }
        Ok(())
    }

    /// Has the CPUs divided among these, by the weights of their cgroups.
    fn claim(&mut self, wanted: &BTreeMap<&String, &Observed>) {
        let lines: Vec<_> = wanted.values().map(|observed| observed.cgroups.clone()).collect();
        let claims = wanted.values().zip(parts_by_cgroup(&lines)).map(|(observed, weight)| Claim {
            cpus: observed.cpus.intersection(&self.online).copied().collect(),
            weight,
            most: observed.threads.len() as f64,
        });
        let claims: Vec<Claim> = claims.collect();
        if claims != self.shares.claims() {
            self.shares = FairShares::of(claims);
        }
    }

    /// Ends the window and begins the next one: what came out, by the keys.
    pub fn window(&mut self) -> BTreeMap<String, Window> {
        let threads = || self.subjects.values().flat_map(|subject| subject.threads.values());
        let reading = self.tracer.read(threads().map(|thread| &thread.watched));
        let began_ns = self.at_ns;
        let length_ns = reading.at_ns.saturating_sub(began_ns).max(1) as f64;
        let idle = |cpu: &u32| {
            let now = reading.idle_ns.get(*cpu as usize).copied().unwrap_or(0);
            let before = self.idle_ns.get(*cpu as usize).copied().unwrap_or(0);
            share(now - before, length_ns)
        };
        let (mut windows, mut had) = (Vec::new(), Vec::new());
        let mut readings = reading.threads.iter();
        for (key, subject) in &mut self.subjects {
            let (mut phantoms, mut used) = (0.0, 0.0);
            for thread in subject.threads.values_mut() {
                let now = readings.next().expect("as many as were read");
                phantoms += share(now.waited_ns - thread.waited_ns, length_ns);
                used += share(now.ran_ns - thread.ran_ns, length_ns);
                (thread.waited_ns, thread.ran_ns) = (now.waited_ns, now.ran_ns);
                thread.is_gone = now.state == ParavirtState::Gone;
            }
            let cpus = subject.cpus.intersection(&self.online);
            let window = Window {
                began_ns,
                ended_ns: reading.at_ns,
                phantoms,
                idle_cpus: cpus.clone().map(idle).sum(),
                owed_cpus: 0.0,
                owing_cpus: 0.0,
                vcpus: subject.vcpus,
                cpus: cpus.count() as u32,
            };
            had.push(Had { used, idle: window.idle_cpus, phantoms });
            let whole = std::mem::replace(&mut subject.whole, true);
            windows.push(whole.then(|| (key.clone(), window)));
        }
        let debts = self.shares.debts(&had);
        let windows = windows.into_iter().zip(debts).filter_map(|(window, debt)| {
            let (key, window) = window?;
            Some((key, Window { owed_cpus: debt.owed, owing_cpus: debt.owing, ..window }))
        });
        let windows = windows.collect();
        self.at_ns = reading.at_ns;
        self.idle_ns = reading.idle_ns;
        windows
    }

    /// The CPUs that are on line.
    pub fn online(&self) -> &BTreeSet<u32> {
        &self.online
    }

    /// How often looking ran and for how long: see [`ParavirtTracer::runs`].
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn runs(&self) -> Result<Runs> {
        self.tracer.runs()
    }
}

/// Those with the most threads, if all have more than can be observed, with how many they have.
fn too_many(wanted: &BTreeMap<String, Observed>) -> BTreeMap<String, usize> {
    let mut all: usize = wanted.values().map(|observed| observed.threads.len()).sum();
    let mut by_threads: Vec<(&String, usize)> =
        wanted.iter().map(|(key, observed)| (key, observed.threads.len())).collect();
    by_threads.sort_by_key(|(_, threads)| std::cmp::Reverse(*threads));
    let mut left_out = BTreeMap::new();
    for (key, threads) in by_threads {
        if all <= THREADS_MAX {
            break;
        }
        all -= threads;
        left_out.insert(key.clone(), threads);
    }
    left_out
}

/// For what part of the time it was so. The clocks of two CPUs may differ by a little.
fn share(ns: i64, of_ns: f64) -> f64 {
    (ns as f64 / of_ns).clamp(0.0, 1.0)
}

fn online(root: &Path) -> BTreeSet<u32> {
    let list = std::fs::read_to_string(root.join("sys/devices/system/cpu/online"));
    list.ok().and_then(|list| parse_cpu_list(list.trim())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_threads_are_too_many_those_who_have_most_are_left_out() {
        let wanted = |counts: &[usize]| -> BTreeMap<String, Observed> {
            let observed = |(at, count): (usize, &usize)| {
                let threads = (0..*count as u32).collect();
                (at.to_string(), Observed { threads, ..Observed::default() })
            };
            counts.iter().enumerate().map(observed).collect()
        };
        let left_out = |counts: &[usize]| -> Vec<(String, usize)> {
            too_many(&wanted(counts)).into_iter().collect()
        };
        assert_eq!(left_out(&[]), []);
        assert_eq!(left_out(&[1, THREADS_MAX - 1]), []);
        assert_eq!(left_out(&[2, THREADS_MAX - 1]), [("1".to_owned(), THREADS_MAX - 1)]);
        assert_eq!(left_out(&[THREADS_MAX + 1]), [("0".to_owned(), THREADS_MAX + 1)]);
        let both = [("1".to_owned(), THREADS_MAX), ("2".to_owned(), THREADS_MAX + 5)];
        assert_eq!(left_out(&[7, THREADS_MAX, THREADS_MAX + 5]), both);
    }
}

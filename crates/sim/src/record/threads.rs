//! What each thread of a trace did: bursts of CPU time and the sleeps between them, who woke
//! it, and who bore it.

use super::events::{Event, What};
use std::collections::BTreeMap;

/// One thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub comm: String,
    /// CPU time from one sleep to the next, ns.
    pub bursts: Vec<u64>,
    /// From the beginning of a sleep to the wake-up, ns.
    pub sleeps: Vec<u64>,
    /// How often each thread woke it; 0 stands for interrupts on CPUs that had nothing to run.
    pub woken_by: BTreeMap<u32, u64>,
    /// Who bore it, if that was seen.
    pub parent: Option<u32>,
    pub exited: bool,
    pub priority: Option<u32>,
    /// All its CPU time, ns.
    pub ran_ns: u64,
    running_since: Option<u64>,
    burst: u64,
    asleep_since: Option<u64>,
}

impl Seen {
    fn stops(&mut self, now: u64) {
        if let Some(since) = self.running_since.take() {
            self.burst += now - since;
            self.ran_ns += now - since;
        }
    }

    fn wakes(&mut self, now: u64) {
        if let Some(since) = self.asleep_since.take() {
            self.sleeps.push(now - since);
        }
    }
}

/// Every thread of the trace, by its id, as it was when the trace ended.
pub(super) fn threads(events: &[Event]) -> BTreeMap<u32, Seen> {
    let mut threads: BTreeMap<u32, Seen> = BTreeMap::new();
    let mut seen = |pid: u32, comm: Option<&str>, act: &mut dyn FnMut(&mut Seen)| {
        // What a CPU runs when it has nothing to run is no thread.
        if pid != 0 {
            let thread = threads.entry(pid).or_default();
            if let Some(comm) = comm {
                thread.comm = comm.to_owned();
            }
            act(thread);
        }
    };
    for Event { at_ns: now, current, what, .. } in events {
        let now = *now;
        match what {
            What::Wakeup(woken) => seen(woken.pid, Some(&woken.comm), &mut |thread| {
                if thread.asleep_since.is_some() {
                    *thread.woken_by.entry(*current).or_default() += 1;
                }
                thread.wakes(now);
            }),
            What::Switch { from, runnable, to, priority } => {
                seen(from.pid, Some(&from.comm), &mut |thread| {
                    // What it did before the trace began is not known.
                    let whole = thread.running_since.is_some();
                    thread.stops(now);
                    if !runnable {
                        let burst = std::mem::take(&mut thread.burst);
                        if whole {
                            thread.bursts.push(burst);
                        }
                        thread.asleep_since = Some(now);
                    }
                });
                seen(to.pid, Some(&to.comm), &mut |thread| {
                    // Its wake-up was lost.
                    thread.wakes(now);
                    thread.priority = priority.or(thread.priority);
                    thread.running_since = Some(now);
                });
            }
            What::Fork(child) => seen(child.pid, Some(&child.comm), &mut |thread| {
                // A number that is used again is another thread.
                *thread = Seen { comm: child.comm.clone(), ..Seen::default() };
                thread.parent = Some(*current);
            }),
            What::Exit(pid) => seen(*pid, None, &mut |thread| thread.exited = true),
        }
    }
    let end = events.last().map_or(0, |event| event.at_ns);
    for thread in threads.values_mut() {
        thread.stops(end);
    }
    threads
}

#[cfg(test)]
mod tests {
    use super::super::events::Thread;
    use super::*;

    fn thread(pid: u32) -> Thread {
        Thread { pid, comm: format!("t{pid}") }
    }

    fn switch(at_ns: u64, from: u32, runnable: bool, to: u32) -> Event {
        let what =
            What::Switch { from: thread(from), runnable, to: thread(to), priority: Some(120) };
        Event { at_ns, cpu: 0, current: from, what }
    }

    fn wakeup(at_ns: u64, current: u32, pid: u32) -> Event {
        Event { at_ns, cpu: 0, current, what: What::Wakeup(thread(pid)) }
    }

    #[test]
    fn bursts_go_on_through_preemption_and_sleeps_end_with_the_wake_up() {
        let seen = threads(&[
            switch(0, 0, true, 1),
            switch(10, 1, true, 2),
            switch(30, 2, false, 1),
            switch(35, 1, false, 0),
            wakeup(50, 0, 1),
            switch(60, 0, true, 1),
            wakeup(62, 1, 2),
            switch(70, 1, false, 2),
        ]);
        assert_eq!(seen[&1].bursts, [15, 10]);
        assert_eq!(seen[&1].sleeps, [15]);
        assert_eq!(seen[&1].woken_by, [(0, 1)].into());
        assert_eq!(seen[&2].sleeps, [32]);
        assert_eq!(seen[&2].woken_by, [(1, 1)].into());
        assert_eq!((seen[&1].ran_ns, seen[&2].ran_ns), (25, 20));
        assert!(!seen.contains_key(&0));
    }

    #[test]
    fn a_burst_that_began_before_the_trace_is_not_counted() {
        let seen =
            threads(&[switch(10, 1, false, 0), switch(20, 0, true, 1), switch(25, 1, false, 0)]);
        assert_eq!((seen[&1].bursts.as_slice(), seen[&1].ran_ns), ([5].as_slice(), 5));
    }

    #[test]
    fn a_thread_has_the_name_that_it_has_last() {
        let fork = Event { at_ns: 5, cpu: 0, current: 1, what: What::Fork(thread(9)) };
        let exec = Event {
            at_ns: 7,
            cpu: 0,
            current: 9,
            what: What::Switch {
                from: Thread { pid: 9, comm: "cc1".into() },
                runnable: true,
                to: thread(1),
                priority: None,
            },
        };
        let exit = Event { at_ns: 8, cpu: 0, current: 9, what: What::Exit(9) };
        let seen = threads(&[fork, exec, exit]);
        assert_eq!(
            (seen[&9].comm.as_str(), seen[&9].parent, seen[&9].exited),
            ("cc1", Some(1), true)
        );
    }
}

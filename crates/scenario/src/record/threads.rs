//! What each thread of a trace did: bursts of CPU time and the sleeps between them, how long it
//! waited for a CPU, who woke it, and who bore it.

use super::events::{Context, Event, What};
use std::collections::BTreeMap;
use std::rc::Rc;

/// One thread. What it was at when the trace began or ended is a burst or a sleep as well, though
/// not all of it was seen: so all its time is in one of them, or in a wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub comm: Rc<str>,
    /// CPU time from one sleep to the next, ns.
    pub bursts: Vec<u64>,
    /// From the beginning of a sleep to the wake-up, ns.
    pub sleeps: Vec<u64>,
    /// From runnable to running, ns.
    pub waits: Vec<u64>,
    /// How often each thread woke it; 0 stands for interrupts.
    pub woken_by: BTreeMap<u32, u64>,
    /// Its parent, if the trace has the fork.
    pub parent: Option<u32>,
    /// When it was born or first seen, and when it ended or the trace did.
    pub from_ns: u64,
    pub to_ns: u64,
    pub exited: bool,
    pub priority: Option<u32>,
    /// All its CPU time, ns.
    pub ran_ns: u64,
    running_since: Option<u64>,
    burst: u64,
    asleep_since: Option<u64>,
    runnable_since: Option<u64>,
    /// The thread that has begun to wake it.
    waker: Option<u32>,
    known: bool,
}

impl Seen {
    fn runs(&mut self, now: u64) {
        self.waker = None;
        self.running_since = Some(now);
        if let Some(since) = self.runnable_since.take() {
            self.waits.push(now.saturating_sub(since));
        }
    }

    fn stops(&mut self, now: u64) {
        if let Some(since) = self.running_since.take() {
            let ran = now.saturating_sub(since);
            self.burst += ran;
            self.ran_ns += ran;
        }
    }

    fn ends_burst(&mut self) {
        match std::mem::take(&mut self.burst) {
            0 => {}
            burst => self.bursts.push(burst),
        }
    }

    fn wakes(&mut self, now: u64) {
        if let Some(since) = self.asleep_since.take() {
            self.sleeps.push(now.saturating_sub(since));
            self.runnable_since = Some(now);
        }
    }
}

/// All threads as the trace goes by.
struct Watch {
    begin: u64,
    threads: BTreeMap<u32, Seen>,
    /// The thread that each CPU runs, as far as that is known.
    running: BTreeMap<usize, u32>,
    /// When each CPU's latest event was.
    latest: BTreeMap<usize, u64>,
}

impl Watch {
    /// A thread; what a CPU runs when it has nothing to run is none.
    fn thread(&mut self, pid: u32, comm: Option<&Rc<str>>) -> Option<&mut Seen> {
        if pid == 0 {
            return None;
        }
        let begin = self.begin;
        let thread =
            self.threads.entry(pid).or_insert_with(|| Seen { from_ns: begin, ..Seen::default() });
        if let Some(comm) = comm {
            thread.comm = comm.clone();
        }
        Some(thread)
    }

    /// The first event of a CPU tells who has run there since the trace began; a later one may
    /// tell that others were lost.
    fn runs_here(&mut self, cpu: usize, pid: u32, now: u64) {
        let before = self.running.insert(cpu, pid);
        let latest = self.latest.insert(cpu, now).unwrap_or(now);
        if before == Some(pid) {
            return;
        }
        let begin = self.begin;
        match before {
            None => {
                if let Some(thread) = self.thread(pid, None)
                    && !thread.known
                {
                    thread.known = true;
                    thread.running_since = Some(begin);
                }
            }
            // Kernels tell of most switches from idle, not of all. The CPU was waiting for
            // work, so the thread has run since it was woken.
            Some(0) => {
                if let Some(thread) = self.thread(pid, None)
                    && thread.running_since.is_none()
                {
                    thread.wakes(latest);
                    let woken = thread.runnable_since.unwrap_or(latest).max(latest);
                    thread.runs(woken);
                }
            }
            // Since when it does not run is not known.
            Some(other) => {
                if let Some(other) = self.thread(other, None) {
                    other.running_since = None;
                }
            }
        }
    }

    fn event(&mut self, event: &Event) {
        let Event { at_ns: now, cpu, current, context, what } = event;
        let (now, begin) = (*now, self.begin);
        let by = match context {
            Context::Interrupt => 0,
            _ => *current,
        };
        self.runs_here(*cpu, *current, now);
        match what {
            What::Waking(woken) | What::Wakeup(woken) => {
                let begins = matches!(what, What::Waking(_));
                let Some(thread) = self.thread(woken.pid, Some(&woken.comm)) else { return };
                if !thread.known {
                    thread.asleep_since = Some(begin);
                }
                thread.known = true;
                if begins {
                    thread.waker = Some(by);
                }
                if thread.asleep_since.is_some() {
                    *thread.woken_by.entry(thread.waker.unwrap_or(by)).or_default() += 1;
                    thread.wakes(now);
                }
            }
            What::Switch { from, runnable, to, priority } => {
                if let Some(thread) = self.thread(from.pid, Some(&from.comm)) {
                    thread.known = true;
                    thread.stops(now);
                    if *runnable {
                        thread.runnable_since = Some(now);
                    } else {
                        thread.ends_burst();
                        thread.asleep_since = Some(now);
                    }
                }
                if let Some(thread) = self.thread(to.pid, Some(&to.comm)) {
                    thread.known = true;
                    // Its wake-up was lost.
                    thread.wakes(now);
                    thread.priority = priority.or(thread.priority);
                    thread.runs(now);
                }
                self.running.insert(*cpu, to.pid);
            }
            What::Fork(child) => {
                let born = Seen {
                    comm: child.comm.clone(),
                    parent: Some(*current),
                    from_ns: now,
                    runnable_since: Some(now),
                    known: true,
                    ..Seen::default()
                };
                // A number that is used again is another thread.
                self.threads.insert(child.pid, born);
            }
            What::Exit(pid) => {
                if let Some(thread) = self.thread(*pid, None) {
                    (thread.exited, thread.to_ns) = (true, now);
                }
            }
        }
    }
}

/// Every thread of the trace, by its id, as it was when the trace ended.
pub(super) fn threads(events: &[Event]) -> BTreeMap<u32, Seen> {
    let begin = events.first().map_or(0, |event| event.at_ns);
    let end = events.last().map_or(0, |event| event.at_ns);
    let mut watch = Watch {
        begin,
        threads: BTreeMap::new(),
        running: BTreeMap::new(),
        latest: BTreeMap::new(),
    };
    events.iter().for_each(|event| watch.event(event));
    for thread in watch.threads.values_mut() {
        thread.stops(end);
        thread.ends_burst();
        if !thread.exited {
            thread.to_ns = end;
            let asleep = thread.asleep_since.map(|since| end.saturating_sub(since));
            thread.sleeps.extend(asleep.filter(|ns| *ns > 0));
            // A thread that has waited for long and never ran is seen.
            thread.waits.extend(thread.runnable_since.map(|since| end.saturating_sub(since)));
        }
    }
    watch.threads
}

#[cfg(test)]
mod tests {
    use super::super::events::Thread;
    use super::*;

    fn thread(pid: u32) -> Thread {
        Thread { pid, comm: format!("t{pid}").into() }
    }

    fn event(at_ns: u64, current: u32, what: What) -> Event {
        Event { at_ns, cpu: 0, current, context: Context::Thread, what }
    }

    fn switch(at_ns: u64, from: u32, runnable: bool, to: u32) -> Event {
        let (from, to) = (thread(from), thread(to));
        event(at_ns, from.pid, What::Switch { from, runnable, to, priority: Some(120) })
    }

    fn wakeup(at_ns: u64, current: u32, pid: u32) -> Event {
        event(at_ns, current, What::Wakeup(thread(pid)))
    }

    #[test]
    fn who_comes_to_an_idle_cpu_without_a_word_has_run_since_it_was_woken() {
        let seen = threads(&[
            switch(0, 1, false, 0),
            wakeup(10, 0, 2),
            switch(30, 2, false, 0),
            wakeup(50, 0, 2),
            switch(80, 2, false, 0),
        ]);
        assert_eq!((seen[&2].ran_ns, seen[&2].bursts.as_slice()), (50, [20, 30].as_slice()));
        assert_eq!(seen[&2].sleeps, [10, 20]);
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
            switch(80, 2, false, 0),
        ]);
        assert_eq!(seen[&1].bursts, [15, 10]);
        // The last one was not seen to end.
        assert_eq!((&seen[&1].sleeps[..], &seen[&2].sleeps[..]), (&[15, 10][..], &[32][..]));
        assert_eq!((&seen[&1].waits[..], &seen[&2].waits[..]), (&[20, 10][..], &[8][..]));
        assert_eq!((&seen[&1].woken_by, &seen[&2].woken_by), (&[(0, 1)].into(), &[(1, 1)].into()));
        assert_eq!((seen[&1].ran_ns, seen[&2].ran_ns), (25, 30));
        assert!(!seen.contains_key(&0));
    }

    #[test]
    fn what_was_at_work_or_asleep_when_the_trace_began_is_counted_from_there() {
        let seen = threads(&[wakeup(10, 3, 2), wakeup(40, 3, 1), switch(50, 3, false, 1)]);
        assert_eq!((seen[&3].bursts.as_slice(), seen[&3].ran_ns), ([40].as_slice(), 40));
        assert_eq!((seen[&1].sleeps.as_slice(), seen[&1].waits.as_slice()), (&[30][..], &[10][..]));
    }

    #[test]
    fn a_switch_that_was_lost_leaves_nobody_running_twice() {
        let seen = threads(&[switch(0, 0, true, 1), switch(90, 2, false, 0), wakeup(100, 0, 5)]);
        assert_eq!((seen[&1].ran_ns, seen[&2].ran_ns), (0, 0));
    }

    #[test]
    fn the_waker_is_who_begins_to_wake_and_not_who_is_interrupted_by_it() {
        let waking = |context| Event { context, ..event(20, 7, What::Waking(thread(1))) };
        let wakeup = Event { context: Context::Interrupt, ..event(21, 9, What::Wakeup(thread(1))) };
        let sleeps = switch(10, 1, false, 0);
        let woken_by = |events: &[Event]| threads(events)[&1].woken_by.clone();
        let by_thread = [sleeps.clone(), waking(Context::Thread), wakeup.clone()];
        assert_eq!(woken_by(&by_thread), [(7, 1)].into());
        let by_timer = [sleeps.clone(), waking(Context::Interrupt), wakeup.clone()];
        assert_eq!(woken_by(&by_timer), [(0, 1)].into());
        // The waker may be ahead of the one that is about to sleep.
        let starts = switch(5, 0, true, 1);
        let early = [starts, waking(Context::Thread), switch(20, 1, false, 0), wakeup];
        assert_eq!(woken_by(&early), [(7, 1)].into());
    }

    #[test]
    fn a_thread_has_the_name_that_it_has_last() {
        let exec = What::Switch {
            from: Thread { pid: 9, comm: "cc1".into() },
            runnable: true,
            to: thread(1),
            priority: None,
        };
        let seen = threads(&[
            event(5, 1, What::Fork(thread(9))),
            event(7, 9, exec),
            event(8, 9, What::Exit(9)),
        ]);
        let nine = &seen[&9];
        assert_eq!((&*nine.comm, nine.parent, nine.exited), ("cc1", Some(1), true));
        assert_eq!((nine.from_ns, nine.to_ns), (5, 8));
    }
}

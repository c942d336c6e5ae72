//! What a scheduling trace tells, read from the text of `perf script`, with its tracepoints as
//! libtraceevent or the kernel itself prints them. What the kernel's buffers hold is read in
//! `pages.rs`.

use metasched_base::{Place, Result};
use std::rc::Rc;

/// What errors say was attempted.
pub(super) const ATTEMPT: &str = "turn the trace into a scenario";

/// A thread, as a trace names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its id; 0 is what a CPU runs when it has nothing to run.
    pub pid: u32,
    /// Its name, 15 bytes at most.
    pub comm: Rc<str>,
}

/// The context of an event: whether the task that ran there caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// The trace does not tell.
    Unknown,
    /// The thread that ran did it.
    Thread,
    /// A softirq: a timer or the network, whose packets may be those of the thread that ran.
    SoftInterrupt,
    /// An interrupt, which has nothing to do with the thread that ran.
    Interrupt,
}

/// One event of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, ns on the trace's clock.
    pub at_ns: u64,
    /// On which CPU.
    pub cpu: usize,
    /// The task that ran there.
    pub current: u32,
    /// In what.
    pub context: Context,
    /// What.
    pub what: What,
}

/// Kinds of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Somebody begins to wake a thread: this is told where the waker runs.
    Waking(Thread),
    /// A thread became runnable: this is told where it will run, maybe by an interrupt there.
    Wakeup(Thread),
    /// A CPU goes from one thread to another.
    Switch {
        /// The task that ran.
        from: Thread,
        /// Whether it still wants to.
        runnable: bool,
        /// The task that runs now.
        to: Thread,
        /// Its priority, as the kernel counts: 120 is nice 0.
        priority: Option<u32>,
    },
    /// A thread bore another one.
    Fork(Thread),
    /// A thread ended.
    Exit(u32),
}

/// Reads a trace. Lines of other events are passed over, as are those that begin with '#'.
///
/// # Errors
/// `BadInput`, with the line, when one of the events of a scheduler cannot be read.
pub fn read(place: Place) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    let mut offset = 0;
    for line in place.text.split_inclusive('\n') {
        if let Some((head, name, rest)) = split(line) {
            let event = event(head, name, rest).ok_or_else(|| {
                let cause = match prev_state(rest).filter(|state| wants_to_run(state).is_none()) {
                    Some(state) => format!("whether a thread in state '{state}' runs is not known"),
                    None => format!("this {name} cannot be read"),
                };
                place
                    .error(ATTEMPT, offset, cause)
                    .remedy("record with 'perf sched record', print with 'perf script'")
            })?;
            events.push(event);
        }
        offset += line.len();
    }
    // Buffers of several CPUs may be printed one after the other.
    events.sort_by_key(|event| event.at_ns);
    Ok(events)
}

/// The events that are read.
pub const NAMES: [&str; 6] = [
    "sched_switch",
    "sched_waking",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_process_fork",
    "sched_process_exit",
];

/// What stands before an event's name, the name, and what stands behind it.
fn split(line: &str) -> Option<(&str, &'static str, &str)> {
    if line.starts_with('#') {
        return None;
    }
    NAMES.iter().find_map(|name| {
        let (head, rest) = line.split_once(&format!("{name}: "))?;
        let head = head.strip_suffix("sched:").unwrap_or(head);
        head.ends_with(' ').then_some((head, *name, rest.trim()))
    })
}

fn event(head: &str, name: &str, rest: &str) -> Option<Event> {
    let (before, after) = head.rsplit_once('[')?;
    let (cpu, rest_of_head) = after.split_once(']')?;
    let mut words = rest_of_head.split_whitespace().rev();
    let at_ns = time_ns(words.next()?.strip_suffix(':')?)?;
    let context = words.next().map_or(Context::Unknown, context);
    // perf has "comm pid" or "comm pid/tid", ftrace "comm-pid".
    let current = before.trim().rsplit([' ', '/', '-']).next()?.parse().ok()?;
    let what = match name {
        "sched_switch" => switch(rest)?,
        "sched_process_fork" => What::Fork(Thread {
            pid: field(rest, "child_pid=")?.parse().ok()?,
            comm: between(rest, "child_comm=", " child_pid=")?,
        }),
        "sched_process_exit" => What::Exit(field(rest, " pid=")?.parse().ok()?),
        "sched_waking" => What::Waking(woken(rest)?),
        _ => What::Wakeup(woken(rest)?),
    };
    Some(Event { at_ns, cpu: cpu.trim().parse().ok()?, current, context, what })
}

/// From the kernel's flags of an event, `d.h2.`: the third one is of interrupts.
fn context(flags: &str) -> Context {
    match flags.chars().nth(2) {
        Some('h' | 'H' | 'z' | 'Z') => Context::Interrupt,
        Some('s') => Context::SoftInterrupt,
        Some('.') => Context::Thread,
        _ => Context::Unknown,
    }
}

fn woken(rest: &str) -> Option<Thread> {
    match between(rest, "comm=", " pid=") {
        Some(comm) => Some(Thread { pid: field(rest, " pid=")?.parse().ok()?, comm }),
        None => Some(thread(rest)?.0),
    }
}

/// `1234.567890`, or with nine digits.
fn time_ns(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let fraction = format!("{fraction:0<9}").get(..9)?.parse::<u64>().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// The word behind `key`.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.split_once(key)?.1.split_whitespace().next()
}

fn between(text: &str, begin: &str, end: &str) -> Option<Rc<str>> {
    Some(text.split_once(begin)?.1.split_once(end)?.0.into())
}

/// `comm:pid [prio] rest`: the thread, its priority, and the rest.
fn thread(text: &str) -> Option<(Thread, u32, &str)> {
    let (name, rest) = text.trim().split_once(" [")?;
    let (comm, pid) = name.rsplit_once(':')?;
    let (priority, rest) = rest.split_once(']')?;
    let thread = Thread { pid: pid.parse().ok()?, comm: comm.into() };
    Some((thread, priority.trim().parse().ok()?, rest))
}

/// In which state a switch leaves the thread that ran.
fn prev_state(rest: &str) -> Option<&str> {
    let (from, _) = rest.split_once("==>")?;
    match from.contains("prev_comm=") {
        true => field(from, "prev_state="),
        false => Some(thread(from)?.2.trim()),
    }
}

/// The states of threads that do not want to run, in include/trace/events/sched.h of kernels since
/// 4.14, and of those before.
const NOT_RUNNABLE: &str = "SDTtXZPIxKWN";

/// Whether a thread in that state, such as `R+` or `D|K`, wants to run; none where nobody knows it.
fn wants_to_run(state: &str) -> Option<bool> {
    let sleeps = |part: &str| part.len() == 1 && NOT_RUNNABLE.contains(part);
    match state {
        "R" | "R+" => Some(true),
        state => state.split('|').all(sleeps).then_some(false),
    }
}

fn switch(rest: &str) -> Option<What> {
    let (from, to) = rest.split_once("==>")?;
    let runnable = wants_to_run(prev_state(rest)?)?;
    if from.contains("prev_comm=") {
        return Some(What::Switch {
            from: Thread {
                pid: field(from, "prev_pid=")?.parse().ok()?,
                comm: between(from, "prev_comm=", " prev_pid=")?,
            },
            runnable,
            to: Thread {
                pid: field(to, "next_pid=")?.parse().ok()?,
                comm: between(to, "next_comm=", " next_pid=")?,
            },
            priority: field(to, "next_prio=").and_then(|priority| priority.parse().ok()),
        });
    }
    let (to, priority, _) = thread(to)?;
    Some(What::Switch { from: thread(from)?.0, runnable, to, priority: Some(priority) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Event {
        let events = read(Place { path: "trace", text: line }).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(events.len(), 1, "{line}");
        events[0].clone()
    }

    fn named(comm: &str, pid: u32) -> Thread {
        Thread { comm: comm.into(), pid }
    }

    #[test]
    fn a_switch_is_read_in_either_form() {
        for (line, context) in [
            (
                " Web Content  123 [002]  7.000005: sched:sched_switch: Web Content:123 [120] S \
                 ==> kworker/0:1:5 [100]",
                Context::Unknown,
            ),
            (
                " Web Content-123 [002] d..2. 7.000005: sched_switch: prev_comm=Web Content \
                 prev_pid=123 prev_prio=120 prev_state=S ==> next_comm=kworker/0:1 next_pid=5 \
                 next_prio=100",
                Context::Thread,
            ),
            (
                " Web Content  100/123 [002]  7.000005000: sched:sched_switch: \
                 prev_comm=Web Content prev_pid=123 prev_prio=120 prev_state=S ==> \
                 next_comm=kworker/0:1 next_pid=5 next_prio=100",
                Context::Unknown,
            ),
        ] {
            let wanted = Event {
                at_ns: 7_000_005_000,
                cpu: 2,
                current: 123,
                context,
                what: What::Switch {
                    from: named("Web Content", 123),
                    runnable: false,
                    to: named("kworker/0:1", 5),
                    priority: Some(100),
                },
            };
            assert_eq!(one(line), wanted, "{line}");
        }
    }

    #[test]
    fn a_preempted_thread_still_wants_to_run() {
        for state in ["R", "R+"] {
            let line =
                format!("a 1 [000] 1.5: sched:sched_switch: a:1 [120] {state} ==> b:2 [120]");
            assert!(matches!(one(&line).what, What::Switch { runnable: true, .. }));
        }
    }

    #[test]
    fn a_state_that_nobody_knows_is_no_sleep() {
        for state in ["S", "D", "I", "D|K"] {
            let line =
                format!("a 1 [000] 1.5: sched:sched_switch: a:1 [120] {state} ==> b:2 [120]");
            assert!(matches!(one(&line).what, What::Switch { runnable: false, .. }), "{state}");
        }
        for line in [
            "a 1 [000] 1.5: sched:sched_switch: a:1 [120] Q ==> b:2 [120]",
            "a-1 [000] d..2. 1.5: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=Q \
             ==> next_comm=b next_pid=2 next_prio=120",
        ] {
            let e = read(Place { path: "trace", text: line }).unwrap_err();
            assert!(e.to_string().contains("trace:1: whether a thread in state 'Q' runs"), "{e}");
        }
    }

    #[test]
    fn wake_ups_forks_and_exits_are_read() {
        for (rest, wanted) in [
            ("sched_wakeup: b:2 [120] success=1 CPU:003", What::Wakeup(named("b", 2))),
            ("sched_wakeup: comm=b pid=2 prio=120 target_cpu=003", What::Wakeup(named("b", 2))),
            ("sched_wakeup_new: comm=b c pid=2 prio=120", What::Wakeup(named("b c", 2))),
            ("sched_waking: comm=b pid=2 prio=120 target_cpu=003", What::Waking(named("b", 2))),
            (
                "sched_process_fork: comm=make pid=1 child_comm=make child_pid=9",
                What::Fork(named("make", 9)),
            ),
            ("sched_process_exit: comm=make pid=9 prio=120", What::Exit(9)),
        ] {
            assert_eq!(one(&format!("a 1 [000] 1.5: sched:{rest}")).what, wanted, "{rest}");
        }
    }

    #[test]
    fn the_kernel_tells_interrupts_from_what_a_thread_does() {
        for (flags, wanted) in [
            ("d..2. ", Context::Thread),
            ("dNh3. ", Context::Interrupt),
            ("dNH3. ", Context::Interrupt),
            ("d.s4. ", Context::SoftInterrupt),
            ("", Context::Unknown),
        ] {
            let line = format!("<idle>-0 [000] {flags}1.5: sched_wakeup: comm=b pid=2 prio=120");
            assert_eq!(one(&line).context, wanted, "{flags}");
        }
    }

    #[test]
    fn other_events_are_passed_over_and_bad_ones_are_told_with_their_line() {
        let text = "# comment\na 1 [000] 1.5: irq:irq_handler_entry: irq=5\n\n";
        assert_eq!(read(Place { path: "trace", text }).unwrap(), []);
        let text = format!("{text}a 1 [000] 1.5: sched:sched_switch: nonsense\n");
        let e = read(Place { path: "trace", text: &text }).unwrap_err();
        assert!(e.to_string().contains("trace:4: this sched_switch cannot be read"), "{e}");
    }

    #[test]
    fn events_are_put_into_the_order_of_their_times() {
        let text = "a 1 [000] 2.0: sched:sched_process_exit: comm=a pid=1 prio=120\n\
                    b 2 [001] 1.0: sched:sched_process_exit: comm=b pid=2 prio=120\n";
        let events = read(Place { path: "trace", text }).unwrap();
        assert_eq!(events.iter().map(|event| event.cpu).collect::<Vec<_>>(), [1, 0]);
    }
}

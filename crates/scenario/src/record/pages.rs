//! Scheduling events from the kernel's own trace buffers, page by page, as
//! `per_cpu/cpuN/trace_pipe_raw` of tracefs gives them. Where a field is, is read from the `format`
//! files beside them: it differs between kernels.

use super::events::{ATTEMPT, Context, Event, Thread, What};
use metasched_base::{Error, Kind, Result};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Bits of the word `commit` that tell how many bytes of a page are used; those above are flags.
const USED_BITS: u64 = 0xf_ffff;
/// Kinds of entries of a page (`enum ring_buffer_type`); what is less is a length.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Bits of the time that an entry's head has; what is longer is in an entry of its own.
const DELTA_BITS: u32 = 27;
/// The bits of the time that an absolute one lacks.
const ABSOLUTE_BITS: u64 = (1 << 59) - 1;
/// Of an event's flags: it happened in an interrupt or an NMI; in a softirq.
const IN_INTERRUPT: u8 = 0x08 | 0x40;
const IN_SOFT_INTERRUPT: u8 = 0x10;
/// The states in which a task does not want to run (TASK_REPORT and TASK_REPORT_IDLE), and that of
/// one that was preempted (TASK_REPORT_MAX).
const NOT_RUNNABLE: u64 = 0xff;
const PREEMPTED: u64 = 0x100;

/// Where something is in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    offset: usize,
    size: usize,
    /// It says where the text is, in the same event.
    located: bool,
}

/// Which of the events it is, and where its parts are.
#[derive(Clone, Debug)]
enum Layout {
    Switch { from: [Field; 2], state: Field, to: [Field; 2], priority: Field },
    Waking([Field; 2]),
    Wakeup([Field; 2]),
    Fork([Field; 2]),
    Exit(Field),
}

/// What tracefs says of its pages and of the events in them.
#[derive(Clone, Debug)]
pub struct Formats {
    used: Field,
    data: Field,
    layouts: BTreeMap<u16, Layout>,
}

impl Formats {
    /// From the file `events/header_page`, and from the `format` file of each event of
    /// [`super::NAMES`], by its name.
    ///
    /// # Errors
    /// `Unsupported`, when something that is needed is not in them.
    pub fn parse(header_page: &str, formats: &[(&str, String)]) -> Result<Formats> {
        let mut layouts = BTreeMap::new();
        for (name, text) in formats {
            let id = text.lines().find_map(|line| line.strip_prefix("ID: ")?.trim().parse().ok());
            let id = id.ok_or_else(|| lacks(name, "ID"))?;
            layouts.insert(id, layout(name, text)?);
        }
        let field = |field| field_of("header_page", header_page, field);
        Ok(Formats { used: field("commit")?, data: field("data")?, layouts })
    }

    /// How long a page is, in bytes.
    pub fn page_bytes(&self) -> usize {
        self.data.offset + self.data.size
    }

    /// How much of a page is used, its head included, in bytes.
    pub fn used_bytes(&self, page: &[u8]) -> usize {
        let used = number(page, self.used).unwrap_or(0) & USED_BITS;
        (self.data.offset + used as usize).min(page.len())
    }
}

fn lacks(name: &str, field: &str) -> Error {
    let cause = format!("'{field}' is not in the format of {name}");
    Error::new(Kind::Unsupported, ATTEMPT, cause)
        .remedy("record with 'perf sched record' instead, and use --perf")
}

fn layout(name: &str, text: &str) -> Result<Layout> {
    let field = |field: &str| field_of(name, text, field);
    let thread = |comm: &str, pid: &str| Ok([field(comm)?, field(pid)?]);
    Ok(match name {
        "sched_switch" => Layout::Switch {
            from: thread("prev_comm", "prev_pid")?,
            state: field("prev_state")?,
            to: thread("next_comm", "next_pid")?,
            priority: field("next_prio")?,
        },
        "sched_process_fork" => Layout::Fork(thread("child_comm", "child_pid")?),
        "sched_process_exit" => Layout::Exit(field("pid")?),
        "sched_waking" => Layout::Waking(thread("comm", "pid")?),
        _ => Layout::Wakeup(thread("comm", "pid")?),
    })
}

/// A line such as `field:char comm[16];  offset:8;  size:16;  signed:0;`, with tabs between.
fn field_of(name: &str, text: &str, wanted: &str) -> Result<Field> {
    let found = text.lines().find_map(|line| {
        let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
        let declared = parts.next()?.trim();
        let own = declared.split_whitespace().next_back()?.split('[').next()?;
        let mut value = |key: &str| parts.next()?.strip_prefix(key)?.parse().ok();
        let (offset, size) = (value("offset:")?, value("size:")?);
        let located = declared.starts_with("__data_loc");
        (own == wanted).then_some(Field { offset, size, located })
    });
    found.ok_or_else(|| lacks(name, wanted))
}

/// The number in a field, of 4 or 8 bytes; those of other lengths are cut or filled up.
fn number(bytes: &[u8], field: Field) -> Option<u64> {
    let bytes = bytes.get(field.offset..field.offset + field.size)?;
    match bytes.len() {
        4 => Some(u64::from(u32::from_ne_bytes(bytes.try_into().ok()?))),
        8 => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
}

/// Reads pages, and keeps each name once.
pub struct Pages {
    formats: Formats,
    names: BTreeMap<Vec<u8>, Rc<str>>,
    /// A state of a thread that is none of those above.
    unknown_state: Option<u64>,
}

impl Pages {
    /// Reads pages of these formats.
    pub fn new(formats: Formats) -> Self {
        Pages { formats, names: BTreeMap::new(), unknown_state: None }
    }

    /// Adds what is in a page of a CPU's buffer. Other events are passed over.
    ///
    /// # Errors
    /// `Failed`, when the page is not as the kernel writes one; `Unsupported`, when a thread is in
    /// a state that is not known.
    pub fn read(&mut self, cpu: usize, page: &[u8], events: &mut Vec<Event>) -> Result<()> {
        self.entries(cpu, page, events).ok_or_else(|| {
            let (kind, cause) = match self.unknown_state.take() {
                Some(state) => {
                    let cause = format!("whether a thread in state {state:#x} runs is not known");
                    (Kind::Unsupported, cause)
                }
                None => (Kind::Failed, format!("a page of CPU {cpu}'s buffer is damaged")),
            };
            Error::new(kind, ATTEMPT, cause)
                .remedy("record again; if it stays, use 'perf sched record' and --perf")
        })
    }

    fn entries(&mut self, cpu: usize, page: &[u8], events: &mut Vec<Event>) -> Option<()> {
        let mut now = u64::from_ne_bytes(page.get(..8)?.try_into().ok()?);
        let end = self.formats.used_bytes(page);
        let mut at = self.formats.data.offset;
        while at + 4 <= end {
            let head = word(page, at)?;
            let (kind, delta) = (head & 0x1f, u64::from(head >> 5));
            match kind {
                PADDING if delta == 0 => break,
                PADDING => at += 4 + word(page, at + 4)? as usize,
                TIME_EXTEND => {
                    now += (u64::from(word(page, at + 4)?) << DELTA_BITS) + delta;
                    at += 8;
                }
                TIME_STAMP => {
                    let time = (u64::from(word(page, at + 4)?) << DELTA_BITS) + delta;
                    now = (now & !ABSOLUTE_BITS) | (time & ABSOLUTE_BITS);
                    at += 8;
                }
                _ => {
                    now += delta;
                    let (begin, next) = match kind {
                        0 => (at + 8, at + 4 + word(page, at + 4)? as usize),
                        words => (at + 4, at + 4 + 4 * words as usize),
                    };
                    self.event(now, cpu, page.get(begin..next)?, events)?;
                    at = next;
                }
            }
        }
        Some(())
    }

    fn event(
        &mut self,
        at_ns: u64,
        cpu: usize,
        record: &[u8],
        events: &mut Vec<Event>,
    ) -> Option<()> {
        let id = u16::from_ne_bytes(record.get(..2)?.try_into().ok()?);
        let Some(layout) = self.formats.layouts.get(&id).cloned() else { return Some(()) };
        let context = match *record.get(2)? {
            flags if flags & IN_INTERRUPT != 0 => Context::Interrupt,
            flags if flags & IN_SOFT_INTERRUPT != 0 => Context::SoftInterrupt,
            _ => Context::Thread,
        };
        let what = match layout {
            Layout::Switch { from, state, to, priority } => What::Switch {
                from: self.thread(record, from)?,
                runnable: self.runnable(number(record, state)?)?,
                to: self.thread(record, to)?,
                priority: Some(number(record, priority)? as u32),
            },
            Layout::Waking(thread) => What::Waking(self.thread(record, thread)?),
            Layout::Wakeup(thread) => What::Wakeup(self.thread(record, thread)?),
            Layout::Fork(thread) => What::Fork(self.thread(record, thread)?),
            Layout::Exit(pid) => What::Exit(number(record, pid)? as u32),
        };
        events.push(Event { at_ns, cpu, current: word(record, 4)?, context, what });
        Some(())
    }

    fn runnable(&mut self, state: u64) -> Option<bool> {
        match state {
            0 | PREEMPTED => Some(true),
            state if state & !NOT_RUNNABLE == 0 => Some(false),
            state => {
                self.unknown_state = Some(state);
                None
            }
        }
    }

    fn thread(&mut self, record: &[u8], [comm, pid]: [Field; 2]) -> Option<Thread> {
        let (mut offset, mut size) = (comm.offset, comm.size);
        if comm.located {
            let place = word(record, comm.offset)?;
            (offset, size) = ((place & 0xffff) as usize, (place >> 16) as usize);
        }
        let bytes = record.get(offset..offset + size)?;
        let bytes = &bytes[..bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len())];
        if !self.names.contains_key(bytes) {
            self.names.insert(bytes.to_vec(), String::from_utf8_lossy(bytes).into());
        }
        Some(Thread { pid: number(record, pid)? as u32, comm: self.names[bytes].clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                          \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                          \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
                          \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
    /// As of Linux 6.18, where names of forks are elsewhere in the event.
    const FORK: &str = "name: sched_process_fork\nID: 366\nformat:\n\
                        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                        \n\
                        \tfield:__data_loc char[] parent_comm;\toffset:8;\tsize:4;\tsigned:0;\n\
                        \tfield:pid_t parent_pid;\toffset:12;\tsize:4;\tsigned:1;\n\
                        \tfield:__data_loc char[] child_comm;\toffset:16;\tsize:4;\tsigned:0;\n\
                        \tfield:pid_t child_pid;\toffset:20;\tsize:4;\tsigned:1;\n";
    const WAKING: &str = "name: sched_waking\nID: 375\nformat:\n\
                          \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
                          \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n";

    const SWITCH: &str = "name: sched_switch\nID: 377\nformat:\n\
                          \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
                          \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
                          \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
                          \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
                          \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\
                          \tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n";

    fn pages() -> Pages {
        let formats = [
            ("sched_process_fork", FORK.to_owned()),
            ("sched_waking", WAKING.to_owned()),
            ("sched_switch", SWITCH.to_owned()),
        ];
        Pages::new(Formats::parse(HEADER, &formats).unwrap())
    }

    /// A page with these entries, at 1000 ns.
    fn page(entries: &[Vec<u8>]) -> Vec<u8> {
        let data = entries.concat();
        let missed = 1u64 << 31;
        let mut page = 1_000u64.to_ne_bytes().to_vec();
        page.extend((data.len() as u64 | missed).to_ne_bytes());
        page.extend(data);
        page
    }

    fn head(kind: u32, delta: u32) -> Vec<u8> {
        (kind | delta << 5).to_ne_bytes().to_vec()
    }

    fn waking(delta: u32, flags: u8, pid: u32) -> Vec<u8> {
        let mut entry = head(28 / 4, delta);
        entry.extend(375u16.to_ne_bytes());
        entry.extend([flags, 0]);
        entry.extend(7u32.to_ne_bytes());
        entry.extend(b"a worker\0\0\0\0\0\0\0\0");
        entry.extend(pid.to_ne_bytes());
        entry
    }

    fn switch(state: u64) -> Vec<u8> {
        let mut entry = head(64 / 4, 1);
        entry.extend(377u16.to_ne_bytes());
        entry.resize(4 + 32, 0);
        entry.extend(state.to_ne_bytes());
        entry.resize(4 + 64, 0);
        entry
    }

    fn read(entries: &[Vec<u8>]) -> Vec<Event> {
        let mut events = Vec::new();
        pages().read(3, &page(entries), &mut events).unwrap();
        events
    }

    #[test]
    fn an_event_has_its_time_its_thread_and_who_ran() {
        let events = read(&[waking(5, 0, 9), waking(20, 0x08, 10), waking(0, 0x10, 11)]);
        let wanted = |at_ns, context, pid| Event {
            at_ns,
            cpu: 3,
            current: 7,
            context,
            what: What::Waking(Thread { pid, comm: "a worker".into() }),
        };
        let wanted = [
            wanted(1_005, Context::Thread, 9),
            wanted(1_025, Context::Interrupt, 10),
            wanted(1_025, Context::SoftInterrupt, 11),
        ];
        assert_eq!(events, wanted);
    }

    #[test]
    fn long_times_have_entries_of_their_own_and_padding_has_none() {
        let mut extended = head(TIME_EXTEND, 7);
        extended.extend(2u32.to_ne_bytes());
        let mut absolute = head(TIME_STAMP, 1);
        absolute.extend(4u32.to_ne_bytes());
        let mut discarded = head(PADDING, 1);
        discarded.extend(8u32.to_ne_bytes());
        discarded.extend([0; 4]);
        let entries =
            [extended, waking(1, 0, 9), discarded, waking(2, 0, 9), absolute, waking(0, 0, 9)];
        let times: Vec<u64> = read(&entries).iter().map(|event| event.at_ns).collect();
        let first = 1_000 + (2 << 27) + 7 + 1;
        assert_eq!(times, [first, first + 2, (4 << 27) + 1]);
        assert_eq!(read(&[waking(1, 0, 9), head(PADDING, 0), waking(1, 0, 9)]).len(), 1);
    }

    #[test]
    fn a_name_may_stand_elsewhere_in_the_event_and_an_entry_may_be_long() {
        // Longer entries than 112 bytes have their length in a word of its own.
        let mut record = 366u16.to_ne_bytes().to_vec();
        record.extend([0, 0]);
        record.extend(7u32.to_ne_bytes());
        record.extend([0; 8]);
        record.extend((24u32 | 5 << 16).to_ne_bytes());
        record.extend(42u32.to_ne_bytes());
        record.extend(b"make\0");
        record.resize(160, 0);
        let mut entry = head(0, 1);
        entry.extend((record.len() as u32 + 4).to_ne_bytes());
        entry.extend(record);
        let events = read(&[entry, waking(1, 0, 9)]);
        assert_eq!(events[0].what, What::Fork(Thread { pid: 42, comm: "make".into() }));
        assert_eq!(events.len(), 2);
    }

    #[test]
    fn a_state_that_nobody_knows_is_no_sleep() {
        for (state, wants) in [(0, true), (PREEMPTED, true), (1, false), (0x80, false)] {
            let What::Switch { runnable, .. } = read(&[switch(state)])[0].what else { panic!() };
            assert_eq!(runnable, wants, "{state:#x}");
        }
        let e = pages().read(3, &page(&[switch(0x200)]), &mut Vec::new()).unwrap_err();
        assert_eq!(e.kind, Kind::Unsupported);
        assert!(e.to_string().contains("a thread in state 0x200"), "{e}");
    }

    #[test]
    fn what_does_not_fit_into_its_page_is_told() {
        let mut events = Vec::new();
        let mut page = page(&[waking(1, 0, 9)]);
        page.truncate(page.len() - 4);
        assert!(pages().read(0, &page, &mut events).is_err());
        let e = Formats::parse(HEADER, &[("sched_waking", FORK.to_owned())]).unwrap_err();
        assert!(e.to_string().contains("'comm' is not in the format of sched_waking"), "{e}");
    }
}

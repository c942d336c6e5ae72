//! The tracks of a trace: each is described when the first event goes to it, so that what
//! does nothing in the window is not there.

use super::messages::{
    CounterDescriptor, EXPLICIT_ORDER, EventName, EventType, Fields, INCREMENTAL_STATE_CLEARED,
    InternedData, NEEDS_INCREMENTAL_STATE, PACKET, ProcessDescriptor, ThreadDescriptor,
    TracePacket, TrackDescriptor, TrackEvent,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// Everything comes from one writer.
const SEQUENCE: u32 = 1;
/// Cgroups are shown as processes; their pids begin where those of tasks cannot be
/// (PID_MAX_LIMIT).
const FIRST_PROCESS: i32 = 1 << 22;

/// A row of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Track {
    /// What the scenario does.
    Scenario,
    /// What a CPU runs.
    Cpu(usize),
    /// What becomes of a task: its number, and that of its cgroup.
    Task(usize, usize),
    /// How many stand in a queue: the number that its name has.
    Queue(usize),
    /// How many tasks wait.
    Waiting,
    /// How many CPUs are idle beside tasks that could use them.
    IdleBesideWork,
}

/// The parents of tracks, and tracks of which there is one.
const CPUS: u64 = 1;
const QUEUES: u64 = 2;
const SCENARIO: u64 = 3;
const WAITING: u64 = 4;
const IDLE_BESIDE_WORK: u64 = 5;

impl Track {
    fn uuid(self) -> u64 {
        let of = |kind: u64, number: usize| kind << 32 | number as u64;
        match self {
            Track::Scenario => SCENARIO,
            Track::Waiting => WAITING,
            Track::IdleBesideWork => IDLE_BESIDE_WORK,
            Track::Cpu(cpu) => of(1, cpu),
            Track::Task(task, _) => of(2, task),
            Track::Queue(queue) => of(3, queue),
        }
    }
}

fn group_uuid(group: usize) -> u64 {
    4 << 32 | group as u64
}

/// Writes packets, each name and each track the first time that it is used.
pub struct Tracks<W> {
    pub(super) out: W,
    error: Option<io::Error>,
    buffer: Vec<u8>,
    described: BTreeSet<u64>,
    names: BTreeMap<String, u64>,
}

impl<W: Write> Tracks<W> {
    pub fn new(out: W) -> Self {
        let mut tracks = Tracks {
            out,
            error: None,
            buffer: Vec::new(),
            described: BTreeSet::new(),
            names: BTreeMap::new(),
        };
        tracks.write(TracePacket {
            sequence_flags: Some(INCREMENTAL_STATE_CLEARED),
            ..Default::default()
        });
        tracks
    }

    /// Flushes, and says what went wrong first.
    pub fn end(&mut self) -> io::Result<()> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }

    /// A slice named `name` begins.
    pub fn begin(&mut self, at: u64, track: Track, name: &str, named: &dyn Names) {
        self.event(at, track, EventType::SliceBegin, Some(name), None, named);
    }

    /// The slice that began last ends.
    pub fn end_slice(&mut self, at: u64, track: Track, named: &dyn Names) {
        self.event(at, track, EventType::SliceEnd, None, None, named);
    }

    /// Something without a length happens.
    pub fn instant(&mut self, at: u64, track: Track, name: &str, named: &dyn Names) {
        self.event(at, track, EventType::Instant, Some(name), None, named);
    }

    /// A counter has a new value.
    pub fn count(&mut self, at: u64, track: Track, value: usize, named: &dyn Names) {
        self.event(at, track, EventType::Counter, None, Some(value as i64), named);
    }

    fn event(
        &mut self,
        at: u64,
        track: Track,
        kind: EventType,
        name: Option<&str>,
        counter_value: Option<i64>,
        named: &dyn Names,
    ) {
        self.describe(track, named);
        let (name_iid, interned_data) = name.map(|n| self.intern(n)).unwrap_or_default();
        self.write(TracePacket {
            timestamp: Some(at),
            sequence_flags: Some(NEEDS_INCREMENTAL_STATE),
            interned_data,
            track_event: Some(TrackEvent {
                kind,
                name_iid,
                track_uuid: track.uuid(),
                counter_value,
            }),
            ..Default::default()
        });
    }

    /// The number of a name, and what tells the reader of it where it is new.
    fn intern(&mut self, name: &str) -> (Option<u64>, Option<InternedData>) {
        if let Some(iid) = self.names.get(name) {
            return (Some(*iid), None);
        }
        let iid = self.names.len() as u64 + 1;
        self.names.insert(name.to_owned(), iid);
        let event_name = EventName { iid, name: name.to_owned() };
        (Some(iid), Some(InternedData { event_name }))
    }

    fn describe(&mut self, track: Track, named: &dyn Names) {
        let uuid = track.uuid();
        if !self.described.insert(uuid) {
            return;
        }
        let counter = Some(CounterDescriptor);
        let mut descriptor = TrackDescriptor { uuid, ..Default::default() };
        match track {
            Track::Scenario => descriptor.name = Some("scenario".to_owned()),
            Track::Waiting => {
                descriptor.name = Some("tasks that wait".to_owned());
                descriptor.counter = counter;
            }
            Track::IdleBesideWork => {
                descriptor.name = Some("CPUs idle beside work".to_owned());
                descriptor.counter = counter;
            }
            Track::Cpu(cpu) => {
                self.parent(CPUS, "CPUs");
                descriptor.name = Some(format!("CPU {cpu}"));
                descriptor.parent_uuid = Some(CPUS);
                descriptor.sibling_order_rank = Some(cpu as i32);
            }
            Track::Queue(queue) => {
                self.parent(QUEUES, "dispatch queues");
                descriptor.name = Some(named.queue(queue));
                descriptor.parent_uuid = Some(QUEUES);
                descriptor.sibling_order_rank = Some(queue as i32);
                descriptor.counter = counter;
            }
            Track::Task(task, group) => {
                let pid = FIRST_PROCESS + group as i32;
                if self.described.insert(group_uuid(group)) {
                    let process_name = named.group(group);
                    self.write_descriptor(TrackDescriptor {
                        uuid: group_uuid(group),
                        process: Some(ProcessDescriptor { pid, process_name }),
                        ..Default::default()
                    });
                }
                let thread_name = named.task(task);
                let tid = task as i32 + 1;
                descriptor.thread = Some(ThreadDescriptor { pid, tid, thread_name });
                descriptor.parent_uuid = Some(group_uuid(group));
            }
        }
        self.write_descriptor(descriptor);
    }

    fn parent(&mut self, uuid: u64, name: &str) {
        if self.described.insert(uuid) {
            self.write_descriptor(TrackDescriptor {
                uuid,
                name: Some(name.to_owned()),
                child_ordering: Some(EXPLICIT_ORDER),
                ..Default::default()
            });
        }
    }

    fn write_descriptor(&mut self, descriptor: TrackDescriptor) {
        self.write(TracePacket { track_descriptor: Some(descriptor), ..Default::default() });
    }

    fn write(&mut self, packet: TracePacket) {
        if self.error.is_some() {
            return;
        }
        let packet = TracePacket { trusted_packet_sequence_id: Some(SEQUENCE), ..packet };
        self.buffer.clear();
        Fields::new(&mut self.buffer).message(PACKET, Some(&packet));
        self.error = self.out.write_all(&self.buffer).err();
    }
}

/// What the tracks are called, asked for when they are described.
pub trait Names {
    fn task(&self, task: usize) -> String;
    fn group(&self, group: usize) -> String;
    fn queue(&self, queue: usize) -> String;
}

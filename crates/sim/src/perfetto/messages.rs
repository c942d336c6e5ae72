//! What of Perfetto's trace format is written, by the field numbers of its `.proto` files
//! (protos/perfetto/trace). Every field is optional there.

use quick_protobuf::Writer;

/// The field of a `Trace` that its packets are. A trace can be written packet by packet: a
/// message that is made up of repeated fields is the concatenation of its parts.
pub const PACKET: u32 = 1;

/// The wire type of numbers.
const VARINT: u32 = 0;
/// The wire type of texts and of messages.
const LENGTH_DELIMITED: u32 = 2;

/// A message of the format.
pub trait Message {
    /// Writes the fields that are there, in the order of their numbers.
    fn write(&self, to: &mut Fields);
}

/// Where the fields of a message are written.
pub struct Fields<'a>(Writer<&'a mut Vec<u8>>);

impl<'a> Fields<'a> {
    /// At the end of `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Fields(Writer::new(out))
    }

    /// A field that is a message.
    pub fn message(&mut self, field: u32, value: Option<&impl Message>) {
        let Some(value) = value else { return };
        let mut bytes = Vec::new();
        value.write(&mut Fields::new(&mut bytes));
        self.0
            .write_with_tag(field << 3 | LENGTH_DELIMITED, |w| w.write_bytes(&bytes))
            .expect(IN_MEMORY);
    }

    fn text(&mut self, field: u32, value: Option<&String>) {
        let Some(value) = value else { return };
        self.0
            .write_with_tag(field << 3 | LENGTH_DELIMITED, |w| w.write_string(value))
            .expect(IN_MEMORY);
    }

    fn number(&mut self, field: u32, value: Option<u64>) {
        let Some(value) = value else { return };
        self.0.write_with_tag(field << 3 | VARINT, |w| w.write_varint(value)).expect(IN_MEMORY);
    }

    fn signed(&mut self, field: u32, value: Option<i64>) {
        self.number(field, value.map(|value| value as u64));
    }
}

const IN_MEMORY: &str = "memory takes all that is written";

#[derive(Default)]
pub struct TracePacket {
    pub timestamp: Option<u64>,
    pub trusted_packet_sequence_id: Option<u32>,
    pub track_event: Option<TrackEvent>,
    pub interned_data: Option<InternedData>,
    pub sequence_flags: Option<u32>,
    pub track_descriptor: Option<TrackDescriptor>,
}

impl Message for TracePacket {
    fn write(&self, to: &mut Fields) {
        to.number(8, self.timestamp);
        to.number(10, self.trusted_packet_sequence_id.map(u64::from));
        to.message(11, self.track_event.as_ref());
        to.message(12, self.interned_data.as_ref());
        to.number(13, self.sequence_flags.map(u64::from));
        to.message(60, self.track_descriptor.as_ref());
    }
}

/// `TracePacket.SequenceFlags`.
pub const INCREMENTAL_STATE_CLEARED: u32 = 1;
/// The packet uses names that were interned before it.
pub const NEEDS_INCREMENTAL_STATE: u32 = 2;

pub struct TrackEvent {
    pub kind: EventType,
    pub name_iid: Option<u64>,
    pub track_uuid: u64,
    pub counter_value: Option<i64>,
}

impl Message for TrackEvent {
    fn write(&self, to: &mut Fields) {
        to.number(9, Some(self.kind as u64));
        to.number(10, self.name_iid);
        to.number(11, Some(self.track_uuid));
        to.signed(30, self.counter_value);
    }
}

/// `TrackEvent.Type`.
#[derive(Clone, Copy)]
pub enum EventType {
    SliceBegin = 1,
    SliceEnd = 2,
    Instant = 3,
    Counter = 4,
}

/// The name of events, told before the first that has it.
pub struct InternedData {
    pub event_name: EventName,
}

impl Message for InternedData {
    fn write(&self, to: &mut Fields) {
        to.message(2, Some(&self.event_name));
    }
}

pub struct EventName {
    pub iid: u64,
    pub name: String,
}

impl Message for EventName {
    fn write(&self, to: &mut Fields) {
        to.number(1, Some(self.iid));
        to.text(2, Some(&self.name));
    }
}

#[derive(Default)]
pub struct TrackDescriptor {
    pub uuid: u64,
    pub name: Option<String>,
    pub process: Option<ProcessDescriptor>,
    pub thread: Option<ThreadDescriptor>,
    pub parent_uuid: Option<u64>,
    pub counter: Option<CounterDescriptor>,
    /// `ChildTracksOrdering`, of the track's children.
    pub child_ordering: Option<i32>,
    pub sibling_order_rank: Option<i32>,
}

impl Message for TrackDescriptor {
    fn write(&self, to: &mut Fields) {
        to.number(1, Some(self.uuid));
        to.text(2, self.name.as_ref());
        to.message(3, self.process.as_ref());
        to.message(4, self.thread.as_ref());
        to.number(5, self.parent_uuid);
        to.message(8, self.counter.as_ref());
        to.signed(11, self.child_ordering.map(i64::from));
        to.signed(12, self.sibling_order_rank.map(i64::from));
    }
}

/// `ChildTracksOrdering.EXPLICIT`: by `sibling_order_rank`.
pub const EXPLICIT_ORDER: i32 = 3;

pub struct ProcessDescriptor {
    pub pid: i32,
    pub process_name: String,
}

impl Message for ProcessDescriptor {
    fn write(&self, to: &mut Fields) {
        to.signed(1, Some(i64::from(self.pid)));
        to.text(6, Some(&self.process_name));
    }
}

pub struct ThreadDescriptor {
    pub pid: i32,
    pub tid: i32,
    pub thread_name: String,
}

impl Message for ThreadDescriptor {
    fn write(&self, to: &mut Fields) {
        to.signed(1, Some(i64::from(self.pid)));
        to.signed(2, Some(i64::from(self.tid)));
        to.text(5, Some(&self.thread_name));
    }
}

/// A track with this is one of a counter.
pub struct CounterDescriptor;

impl Message for CounterDescriptor {
    fn write(&self, _to: &mut Fields) {}
}

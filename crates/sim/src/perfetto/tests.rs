use super::messages::EventType;
use super::*;
use crate::figures::RunFigures;
use crate::machine::Machine;
use crate::metasched::replace_root;
use crate::{TaskSpec, between, ms, policy, us};
use quick_protobuf::BytesReader;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A message as its reader finds it: the numbers of its fields, and what they are.
struct Fields<'a>(Vec<(u32, Value<'a>)>);

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Fields<'a> {
    fn read(bytes: &'a [u8]) -> Self {
        let (mut reader, mut fields) = (BytesReader::from_bytes(bytes), Vec::new());
        while !reader.is_eof() {
            let tag = reader.next_tag(bytes).unwrap();
            let value = match tag & 7 {
                0 => Value::Number(reader.read_uint64(bytes).unwrap()),
                2 => Value::Bytes(reader.read_bytes(bytes).unwrap()),
                wire => panic!("wire type {wire} is never written"),
            };
            fields.push((tag >> 3, value));
        }
        Fields(fields)
    }

    fn number(&self, field: u32) -> Option<u64> {
        self.0.iter().find_map(|(number, value)| match value {
            Value::Number(n) if *number == field => Some(*n),
            _ => None,
        })
    }

    fn all(&self, field: u32) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter_map(move |(number, value)| match value {
            Value::Bytes(bytes) if *number == field => Some(*bytes),
            _ => None,
        })
    }

    fn message(&self, field: u32) -> Option<Fields<'a>> {
        self.all(field).next().map(Fields::read)
    }

    fn text(&self, field: u32) -> Option<String> {
        self.all(field).next().map(|bytes| String::from_utf8(bytes.to_owned()).unwrap())
    }
}

/// A trace as its reader sees it: for each track the name, and what happened on it.
#[derive(Default)]
struct Read {
    tracks: BTreeMap<u64, String>,
    /// (track, from, to, name).
    slices: Vec<(u64, u64, u64, String)>,
    instants: Vec<(u64, u64, String)>,
    counters: BTreeMap<u64, Vec<(u64, i64)>>,
}

/// Decodes a trace, and checks that each slice ends and that time goes forward.
fn read(bytes: &[u8]) -> Read {
    let (mut read, mut names) = (Read::default(), BTreeMap::new());
    let mut open: BTreeMap<u64, Vec<(u64, String)>> = BTreeMap::new();
    let mut now = 0;
    for packet in Fields::read(bytes).all(1).map(Fields::read) {
        if let Some(d) = packet.message(60) {
            let name = d.text(2).or(d.message(4).and_then(|thread| thread.text(5)));
            let name = name.or(d.message(3).and_then(|process| process.text(6))).unwrap();
            assert_eq!(read.tracks.insert(d.number(1).unwrap(), name), None, "described twice");
            continue;
        }
        if let Some(name) = packet.message(12).and_then(|interned| interned.message(2)) {
            names.insert(name.number(1).unwrap(), name.text(2).unwrap());
        }
        let Some(event) = packet.message(11) else { continue };
        let (at, track) = (packet.number(8).unwrap(), event.number(11).unwrap());
        assert!(at >= now, "time goes back to {at}");
        now = at;
        assert!(read.tracks.contains_key(&track), "track {track} is used before it is described");
        let name = event.number(10).map(|iid| names[&iid].clone());
        let kind = event.number(9).unwrap();
        match kind {
            _ if kind == EventType::SliceBegin as u64 => {
                open.entry(track).or_default().push((at, name.unwrap()));
            }
            _ if kind == EventType::SliceEnd as u64 => {
                let (from, name) = open.get_mut(&track).and_then(Vec::pop).expect("it began");
                read.slices.push((track, from, at, name));
            }
            _ if kind == EventType::Instant as u64 => {
                read.instants.push((track, at, name.unwrap()));
            }
            _ if kind == EventType::Counter as u64 => {
                let value = event.number(30).unwrap() as i64;
                read.counters.entry(track).or_default().push((at, value));
            }
            _ => panic!("an event of type {kind}"),
        }
        assert!(open.values().all(|slices| slices.len() <= 1), "two slices at once on a track");
    }
    assert!(open.values().all(Vec::is_empty), "a slice does not end");
    read
}

/// A machine with more work than CPUs, whose policy changes; its trace and its figures.
fn traced(from: u64, to: u64) -> (Vec<u8>, RunFigures) {
    let bytes = Rc::new(RefCell::new(Perfetto::new(Vec::new(), from, to)));
    let machine = Machine::new(2, 1, 1, false).unwrap();
    let figures = Rc::new(RefCell::new(RunFigures::new(machine, from)));
    policy("traced", "vtime")
        .cpus(2)
        .seed(7)
        .tasks(2, |i| TaskSpec::hog(format!("hog {i}")).in_cgroup("batch"))
        .tasks(3, |i| {
            TaskSpec::named(format!("sleeper {i}"))
                .run(between(us(50), ms(2)))
                .sleep(between(us(100), ms(10)))
                .for_ever()
        })
        .at(ms(60), |kernel| replace_root(kernel, "fifo"))
        .read_by(&bytes)
        .read_by(&figures)
        .run_for(to)
        .pass();
    let bytes = Rc::into_inner(bytes).unwrap().into_inner().tracks.out;
    (bytes, Rc::into_inner(figures).unwrap().into_inner())
}

#[test]
fn a_trace_holds_what_the_figures_say() {
    for (from, to) in [(0, ms(100)), (ms(33), ms(90))] {
        let (bytes, figures) = traced(from, to);
        let read = read(&bytes);
        let on = |kind: &str| -> Vec<_> {
            read.slices.iter().filter(|(track, ..)| read.tracks[track].starts_with(kind)).collect()
        };
        assert!(read.slices.iter().all(|(_, a, b, _)| (from..=to).contains(a) && b <= &to));
        let ran: u64 = on("CPU ").iter().map(|(_, a, b, _)| b - a).sum();
        assert_eq!(ran, figures.all().cpu_ns);
        let hogs: u64 = on("hog").iter().filter(|s| s.3 != "waits").map(|(_, a, b, _)| b - a).sum();
        let batch = figures.groups().find(|(path, _)| *path == "batch").unwrap().1;
        assert_eq!(hogs, batch.cpu_ns);
        // Nobody runs on two CPUs, and no CPU runs two: slices on a track never overlap.
        let mut last = BTreeMap::new();
        for (track, begin, end, _) in &read.slices {
            let before = last.insert(track, end).copied().unwrap_or(0);
            assert!(*begin >= before, "track {} runs two at {begin}", read.tracks[track]);
        }
        let beside = read.counters.iter().find(|(t, _)| read.tracks[t] == "CPUs idle beside work");
        let mut idle = 0;
        for pair in beside.unwrap().1.windows(2) {
            idle += (pair[1].0 - pair[0].0) * pair[0].1 as u64;
        }
        assert_eq!(idle, figures.idle_beside_work_ns());
    }
}

#[test]
fn wake_ups_kicks_changes_of_lanes_and_queues_are_in_the_trace() {
    let (bytes, _) = traced(0, ms(100));
    let read = read(&bytes);
    let happens = |track: &str, name: &str| {
        read.instants.iter().any(|(t, _, n)| read.tracks[t].starts_with(track) && n == name)
    };
    assert!(happens("sleeper", "wakes"));
    assert!(happens("scenario", "replace the root lane: fifo"));
    let queue = read.counters.iter().find(|(t, _)| read.tracks[t].starts_with("made by"));
    let (_, lengths) = queue.expect("the policy's own queue");
    assert!(lengths.iter().any(|(_, n)| *n > 1) && lengths.iter().all(|(_, n)| *n >= 0));
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    assert!(traced(0, ms(50)).0 == traced(0, ms(50)).0);
}

#[test]
fn what_cannot_be_written_is_told() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut trace = Perfetto::new(Full, 0, 100);
    trace.finish(100);
    assert_eq!(trace.written().unwrap_err().kind(), io::ErrorKind::StorageFull);
}

use super::messages::{EventType, TracePacket};
use super::*;
use crate::figures::Figures;
use crate::machine::Machine;
use crate::metasched::replace_root;
use crate::{TaskSpec, between, ms, policy, us};
use prost::Message;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A whole trace, for its reader.
#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
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
    let trace = Trace::decode(bytes).unwrap();
    let (mut read, mut names) = (Read::default(), BTreeMap::new());
    let mut open: BTreeMap<u64, Vec<(u64, String)>> = BTreeMap::new();
    let mut now = 0;
    for packet in trace.packet {
        if let Some(d) = packet.track_descriptor {
            let name = d.name.or(d.thread.and_then(|t| t.thread_name));
            let name = name.or(d.process.and_then(|p| p.process_name)).unwrap();
            assert_eq!(read.tracks.insert(d.uuid.unwrap(), name), None, "described twice");
            continue;
        }
        for name in packet.interned_data.into_iter().flat_map(|d| d.event_names) {
            names.insert(name.iid.unwrap(), name.name.unwrap());
        }
        let Some(event) = packet.track_event else { continue };
        let (at, track) = (packet.timestamp.unwrap(), event.track_uuid.unwrap());
        assert!(at >= now, "time goes back to {at}");
        now = at;
        assert!(read.tracks.contains_key(&track), "track {track} is used before it is described");
        let name = event.name_iid.map(|iid| names[&iid].clone());
        match EventType::try_from(event.r#type.unwrap()).unwrap() {
            EventType::SliceBegin => open.entry(track).or_default().push((at, name.unwrap())),
            EventType::SliceEnd => {
                let (from, name) = open.get_mut(&track).and_then(Vec::pop).expect("it began");
                read.slices.push((track, from, at, name));
            }
            EventType::Instant => read.instants.push((track, at, name.unwrap())),
            EventType::Counter => {
                read.counters.entry(track).or_default().push((at, event.counter_value.unwrap()));
            }
            EventType::Unspecified => panic!("an event without a type"),
        }
        assert!(open.values().all(|slices| slices.len() <= 1), "two slices at once on a track");
    }
    assert!(open.values().all(Vec::is_empty), "a slice does not end");
    read
}

/// A machine with more work than CPUs, whose policy changes; its trace and its figures.
fn traced(from: u64, to: u64) -> (Vec<u8>, Figures) {
    let bytes = Rc::new(RefCell::new(Perfetto::new(Vec::new(), from, to)));
    let machine = Machine::new(2, 1, 1, false).unwrap();
    let figures = Rc::new(RefCell::new(Figures::new(machine, from)));
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

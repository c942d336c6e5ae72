//! What the program takes of the kernel's memory.

use std::collections::BTreeMap;
use std::fs;

use metasched_base::Kind;
use metasched_loader::{APPS, ASSIGNED_MAX, LaneSpec};

use crate::support::{assert_alive, load_all};

/// A BPF map of this process.
#[derive(Debug)]
struct Map {
    kind: u32,
    bytes: u64,
}

/// Every map that this process holds, by its number in the kernel.
fn maps() -> BTreeMap<u64, Map> {
    let mut maps = BTreeMap::new();
    for entry in fs::read_dir("/proc/self/fdinfo").unwrap().flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let word = |name: &str| -> Option<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim_start_matches(':').trim().parse().ok()
        };
        if let (Some(id), Some(kind), Some(bytes)) =
            (word("map_id"), word("map_type"), word("memlock"))
        {
            maps.insert(id, Map { kind: kind as u32, bytes });
        }
    }
    maps
}

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn every_lane_and_4096_cgroups_take_less_than_32_mib_on_16_cpus() {
    const CPUS: u64 = 16;
    const MOST: u64 = 32 << 20;
    // BPF_MAP_TYPE_PERCPU_HASH, _PERCPU_ARRAY and _LRU_PERCPU_HASH.
    const PER_CPU: [u32; 3] = [5, 6, 10];
    let before = maps();
    let mut program = load_all("vtime");
    for app in 1..=APPS {
        program.set_app(app, &LaneSpec::of("vtime"), 100).unwrap();
    }
    // Nobody is in them, so any number will do for a cgroup.
    let id = |i: usize| (1 << 40) + i as u64;
    for i in 0..ASSIGNED_MAX {
        program.assign(id(i), 1 + i as u32 % APPS).unwrap();
    }
    let error = program.assign(id(ASSIGNED_MAX), 1).unwrap_err();
    assert_eq!(error.kind, Kind::Busy, "{error}");

    let here = std::thread::available_parallelism().unwrap().get() as u64;
    let ours: Vec<Map> =
        maps().into_iter().filter(|(id, _)| !before.contains_key(id)).map(|(_, map)| map).collect();
    assert!(ours.len() >= 5, "the maps were not found: {ours:?}");
    let bytes = |map: &Map| {
        if PER_CPU.contains(&map.kind) { map.bytes * CPUS / here } else { map.bytes }
    };
    let total: u64 = ours.iter().map(bytes).sum();
    println!("{} maps, {} KiB on {CPUS} CPUs", ours.len(), total >> 10);
    assert!(total > 0 && total < MOST, "{total} bytes: {ours:?}");
    assert_alive(&program);
}

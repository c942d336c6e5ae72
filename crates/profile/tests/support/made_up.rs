//! A store filled with made-up measurements, for tests and for looking at the page.
//! Nothing here was ever measured.

use std::collections::BTreeMap;
use std::path::Path;

use metasched_control::{Mechanism, SwitchRecord};
use metasched_profile::{
    Composition, Declared, Environment, Failure, LoadFigures, NewMeasurement, PartFigures, RunKind,
    SeriesKey, Store, Subject, TurnShare,
};
use metasched_stats::{RunLengths, WaitHistogram};

/// A generator of noise that needs no crate (splitmix64).
pub struct Noise(u64);

impl Noise {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Uniform on 0..1.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A factor near 1, with a deviation of `sigma`.
    pub fn factor(&mut self, sigma: f64) -> f64 {
        let normal: f64 = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
        (sigma * normal).exp()
    }
}

/// Form, then scheduler, then throughput and p99 against the default.
pub const EFFECTS: [(&str, &str, f64, f64); 15] = [
    ("front", "fifo", 1.066, 0.85),
    ("front", "vtime", 1.01, 1.02),
    ("front", "scx_bpfland", 1.03, 0.93),
    ("front", "scx_rusty", 0.99, 1.05),
    ("front", "scx_rustland", 0.62, 2.9),
    ("back", "fifo", 0.97, 1.10),
    ("back", "vtime", 1.029, 0.80),
    ("back", "scx_bpfland", 1.00, 0.98),
    ("back", "scx_rusty", 1.04, 0.97),
    ("back", "scx_rustland", 0.85, 1.6),
    ("full", "fifo", 1.012, 0.99),
    ("full", "vtime", 1.0, 0.98),
    ("full", "scx_bpfland", 1.024, 0.958),
    ("full", "scx_rusty", 1.0, 1.01),
    ("full", "scx_rustland", 0.7, 2.1),
];

/// What the manifests of the made-up workload and of the made-up pair say.
pub fn declared(workload: &str) -> Declared {
    let (parts, whole) = match workload {
        PAIR => (["service", "job"], "both"),
        _ => (["front", "back"], "full"),
    };
    let composition =
        Composition { parts: parts.map(String::from).into(), whole: Some(whole.into()) };
    Declared { composition: Some(composition), ..Declared::default() }
}

pub fn scheduler(name: &str) -> Subject {
    Subject::Scheduler { name: name.into(), version: "1.0".into(), options: Vec::new() }
}

pub fn strategy(name: &str, mechanism: Mechanism, base_slice_ms: u64) -> Subject {
    let turn = |app: &str, scheduler: &str| TurnShare {
        app: app.into(),
        scheduler: scheduler.into(),
        version: "1.0".into(),
        weight: 0.5,
        cgroups: Vec::new(),
    };
    Subject::Strategy {
        strategy: name.into(),
        mechanism,
        base_slice_ms,
        turns: vec![turn("front", "fifo"), turn("back", "vtime")],
    }
}

/// Both parts on lanes, beside each other.
pub fn lanes(name: &str) -> Subject {
    let Subject::Strategy { strategy, turns, .. } = strategy(name, Mechanism::Lane, 0) else {
        unreachable!("it was just made")
    };
    let of = |turn: TurnShare| {
        let cgroup = format!("metasched/qa/{}", turn.app);
        turn.cgroups(vec![cgroup])
    };
    let lanes = turns.into_iter().map(of).collect();
    Subject::Lanes { strategy: Some(strategy), default: ("vtime".into(), "1.0".into()), lanes }
}

pub fn key(form: &str) -> SeriesKey {
    SeriesKey {
        environment: Environment {
            machine: "0123456789ab".into(),
            facts: serde_json::json!({
                "cpu_model": "Made-up CPU <with & brackets>", "cpus": 2, "smt": false,
                "llcs": 1, "nodes": 1, "memory_bytes": 4_u64 << 30, "hypervisor": "TCG",
                "emulated": true, "kernel_release": "7.2.13-test", "os": "Test OS 1",
            }),
            kernel: "7.2.13-test".into(),
            metasched: "0.1.0".into(),
            cpus: 2,
            emulated: true,
        },
        workload: "qa".into(),
        form: form.into(),
        unit: if form == "back" { "queries" } else { "requests" }.into(),
        params: BTreeMap::from([("encoder".into(), "lsa".into())]),
        workload_hash: "feedface".into(),
        duration_s: 20.0,
        warmup_s: 3.0,
    }
}

/// Writes to a store, as the tool that measures does.
pub struct Writer<'a> {
    pub store: &'a mut Store,
    pub session: i64,
    pub noise: Noise,
    /// How long each load is said to have run.
    pub duration_s: f64,
}

impl Writer<'_> {
    pub fn run(
        &mut self,
        form: &str,
        round: u32,
        subject: &Subject,
        kind: RunKind,
        throughput: f64,
        p99: f64,
    ) {
        let level = match form {
            "front" => 900.0,
            "back" => 70.0,
            _ => 65.0,
        };
        let throughput_per_s = level * throughput * self.noise.factor(0.015);
        let p99_us = 3e7 / level * p99 * self.noise.factor(0.03);
        let traced = kind == RunKind::Traced;
        let waits_about = |power: f64| -> Vec<u64> {
            (0..32)
                .map(|i| (2e4 * (-((i as f64 - power - p99).powi(2)) / 9.0).exp()) as u64)
                .collect()
        };
        let runs_of = |count: u64, ns: u64| {
            let mut runs = WaitHistogram::default();
            (0..count).for_each(|i| runs.add(ns + i * ns / count));
            runs
        };
        let figures = LoadFigures {
            throughput_per_s,
            requests: (throughput_per_s * 20.0) as u64,
            duration_s: 20.0,
            mean_us: 2e7 / throughput_per_s,
            p50_us: p99_us / 3.0,
            p95_us: p99_us / 1.5,
            p99_us,
            p999_us: p99_us * 1.5,
            max_us: p99_us * 2.0,
            wait_histogram: traced.then(|| waits_about(12.0)),
            load_wait_histogram: traced.then(|| waits_about(10.0)),
            runs: traced.then(|| RunLengths {
                slept: runs_of(900, 200_000),
                stopped: runs_of(100, 20_000_000),
            }),
            cpu_s: Some(30.0),
            user_s: Some(12.0),
            nvcsw_per_s: Some(2.0 * throughput_per_s),
            nivcsw_per_s: Some(120.0),
            ..LoadFigures::default()
        };
        let parts = BTreeMap::from([("front".to_owned(), PartFigures::default())]);
        let key = SeriesKey { duration_s: self.duration_s, ..key(form) };
        let series = self.store.series_id(&key).unwrap();
        self.store
            .add(&NewMeasurement {
                series,
                session: self.session,
                round,
                order: 0,
                kind,
                subject,
                started_at: "2026-01-02T03:04:05Z",
                figures: &figures,
                parts: &parts,
            })
            .unwrap();
    }
}

/// A folder for a store: in memory where there is such a place, because every
/// measurement of a store is synced to the disk, and a fixture writes hundreds.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// A store as `metasched profile` and `metasched tune` would leave it.
pub fn full_store(path: &Path, rounds: u32) -> Store {
    let mut store = Store::open(path).unwrap();
    profile_only(&mut store, rounds);
    let session = store.begin_session("boot", 8, "metasched tune --budget 10m").unwrap();
    let mut writer = Writer { store: &mut store, session, noise: Noise::new(8), duration_s: 20.0 };
    for round in 100..100 + rounds {
        writer.run("full", round, &scheduler("eevdf"), RunKind::Measured, 1.0, 1.0);
        writer.run("full", round, &scheduler("scx_bpfland"), RunKind::Measured, 1.024, 0.96);
        for (s, name) in ["round-robin", "delta", "benefit", "delta-benefit"].iter().enumerate() {
            for (m, mechanism) in [Mechanism::Swap, Mechanism::Lane].into_iter().enumerate() {
                for slice in [450, 900, 1800, 3300] {
                    let off = (slice as f64 / 1800.0).ln();
                    let gain = 0.01 + 0.01 * s as f64 + 0.01 * m as f64 - 0.02 * off * off;
                    let subject = strategy(name, mechanism, slice);
                    let p99 = 1.0 - 1.4 * gain;
                    writer.run("full", round, &subject, RunKind::Measured, 1.0 + gain, p99);
                }
            }
            let gain = 0.08 + 0.01 * s as f64;
            let subject = lanes(name);
            writer.run("full", round, &subject, RunKind::Measured, 1.0 + gain, 1.0 - 2.0 * gain);
        }
    }
    store
}

/// A store as `metasched profile` alone would leave it.
pub fn profile_only(store: &mut Store, rounds: u32) {
    let session = store.begin_session("boot", 7, "metasched profile qa --rounds 6").unwrap();
    let mut writer = Writer { store, session, noise: Noise::new(7), duration_s: 20.0 };
    for form in ["front", "back", "full"] {
        for round in 1..=rounds {
            writer.run(form, round, &scheduler("eevdf"), RunKind::Measured, 1.0, 1.0);
            writer.run(form, round, &scheduler("eevdf"), RunKind::Control, 1.002, 1.0);
            for (_, name, throughput, p99) in EFFECTS.iter().filter(|e| e.0 == form) {
                writer.run(form, round, &scheduler(name), RunKind::Measured, *throughput, *p99);
            }
        }
        writer.run(form, 1, &scheduler("eevdf"), RunKind::Traced, 1.0, 1.0);
        for (_, name, throughput, p99) in EFFECTS.iter().filter(|e| e.0 == form) {
            writer.run(form, 1, &scheduler(name), RunKind::Traced, *throughput, *p99);
        }
    }
    for i in 0..12_u64 {
        let noise = |base: u64| base + base * (i * 37 % 11) / 40;
        for (from, to, start, stop) in [
            ("scx_rusty", "scx_bpfland", 1_580_000_000, 181_000_000),
            ("scx_bpfland", "scx_rusty", 2_843_000_000, 908_000_000),
        ] {
            let (start, stop) = (noise(start), noise(stop));
            let record = SwitchRecord {
                from: from.into(),
                to: to.into(),
                mechanism: Mechanism::Swap,
                stop_ns: Some(stop),
                start_ns: Some(start),
                write_ns: None,
                total_ns: start + stop + 20_000_000,
            };
            store.add_switches(session, &[record]).unwrap();
        }
        for (from, to) in [("fifo", "vtime"), ("vtime", "fifo")] {
            let write = noise(40_000);
            let record = SwitchRecord {
                from: from.into(),
                to: to.into(),
                mechanism: Mechanism::Lane,
                stop_ns: None,
                start_ns: None,
                write_ns: Some(write),
                total_ns: write + 20_000,
            };
            store.add_switches(session, &[record]).unwrap();
        }
    }
    let series = store.series_id(&key("full")).unwrap();
    let failure = Failure {
        session,
        series,
        subject: scheduler("scx_lavd"),
        at: "2026-01-02T03:04:05Z".into(),
        error: "cannot start 'scx_lavd': it exited with status 1; see <its log>".into(),
    };
    store.add_failure(&failure).unwrap();
}

/// The name of the made-up pair.
pub const PAIR: &str = "service+job";

/// What each of a made-up pair has while both run: the subject, then throughput and p99 of the
/// service, then throughput of the job, which has no latencies.
fn pair_effects() -> Vec<(Subject, (f64, f64), f64)> {
    vec![
        (scheduler("fifo"), (1.01, 1.0), 0.995),
        (scheduler("scx_bpfland"), (1.8, 0.42), 0.86),
        (strategy("round-robin", Mechanism::Lane, 1800), (1.2, 0.9), 0.97),
        (lanes("delta-benefit"), (1.7, 0.45), 0.93),
    ]
}

/// A store as `metasched profile service+job` would leave it: each alone, and both at once.
pub fn pair_store(path: &Path, rounds: u32) -> Store {
    let mut store = Store::open(path).unwrap();
    let session = store.begin_session("boot", 9, "metasched profile service+job").unwrap();
    let mut noise = Noise::new(9);
    for form in ["service", "job", "both"] {
        let key = SeriesKey { workload: PAIR.into(), ..key(form) };
        let series = store.series_id(&key).unwrap();
        for round in 1..=rounds {
            let mut load = |throughput: f64, p99_us: f64| LoadFigures {
                throughput_per_s: 900.0 * throughput * noise.factor(0.015),
                requests: (18_000.0 * throughput) as u64,
                duration_s: 20.0,
                mean_us: p99_us / 4.0,
                p99_us: p99_us * noise.factor(0.03),
                ..LoadFigures::default()
            };
            let mut add = |subject: &Subject, (throughput, p99): (f64, f64), of_job: f64| {
                let service = load(throughput, 4_000.0 * p99);
                let job = load(of_job, 0.0);
                let part = |f: &LoadFigures| PartFigures {
                    load: Some(Box::new(f.clone())),
                    ..PartFigures::default()
                };
                let parts = match form {
                    "both" => [("service", part(&service)), ("job", part(&job))]
                        .map(|(name, part)| (name.to_owned(), part))
                        .into(),
                    _ => BTreeMap::new(),
                };
                let figures = if form == "job" { &job } else { &service };
                store
                    .add(&NewMeasurement {
                        series,
                        session,
                        round,
                        order: 0,
                        kind: RunKind::Measured,
                        subject,
                        started_at: "2026-01-02T03:04:05Z",
                        figures,
                        parts: &parts,
                    })
                    .unwrap();
            };
            add(&scheduler("eevdf"), (1.0, 1.0), 1.0);
            for (subject, of_service, of_job) in pair_effects() {
                let single = matches!(subject, Subject::Scheduler { .. });
                if single || form == "both" {
                    add(&subject, of_service, of_job);
                }
            }
        }
    }
    store
}

/// Keeps the made-up workload and the made-up pair in the file that `METASCHED_TEST_STORE` names, to try
/// commands on and to look at the page: `cargo test -p metasched-report made_up`.
#[test]
fn a_made_up_store_can_be_kept_for_looking_at() {
    let folder = folder();
    let path = match std::env::var_os("METASCHED_TEST_STORE") {
        Some(path) => path.into(),
        None => folder.path().join("store.db"),
    };
    drop(full_store(&path, 6));
    drop(pair_store(&path, 6));
    assert!(Store::open(&path).unwrap().sessions().unwrap().len() >= 3);
}

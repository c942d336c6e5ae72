use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;

use metasched_base::Kind;
use metasched_control::{Mechanism, SwitchRecord};

use super::*;
use crate::{Environment, Failure, LoadFigures, Parts, RunKind, SeriesKey, Subject, TurnShare};

fn key(form: &str) -> SeriesKey {
    SeriesKey {
        environment: Environment {
            machine: "m1".into(),
            facts: serde_json::json!({"cpu": "one"}),
            kernel: "7.2".into(),
            metasched: "0.1".into(),
            cpus: 2,
            emulated: true,
        },
        workload: "qa".into(),
        form: form.into(),
        unit: "requests".into(),
        params: BTreeMap::from([("encoder".into(), "lsa".into())]),
        workload_hash: "h".into(),
        duration_s: 8.0,
        warmup_s: 1.5,
    }
}

fn scheduler(name: &str) -> Subject {
    Subject::Scheduler { name: name.into(), version: "1".into(), options: vec![] }
}

fn figures(throughput: f64) -> LoadFigures {
    LoadFigures {
        throughput_per_s: throughput,
        requests: 10,
        histogram: Some(vec![(1, 2), (3, 4)]),
        wait_mean_us: Some(0.1 + 0.2),
        ..LoadFigures::default()
    }
}

fn add(
    store: &mut Store,
    series: i64,
    session: i64,
    round: u32,
    kind: RunKind,
    name: &str,
    throughput: f64,
) {
    store
        .add(&NewMeasurement {
            series,
            session,
            round,
            order: 0,
            kind,
            subject: &scheduler(name),
            started_at: &now(),
            figures: &figures(throughput),
            parts: &Parts::new(),
        })
        .unwrap();
}

#[test]
fn what_is_written_is_read_back_by_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/er/store.db");
    let mut store = Store::open(&path).unwrap();
    let series = store.series_id(&key("front")).unwrap();
    let session = store.begin_session("boot", u64::MAX, "metasched profile qa").unwrap();
    add(&mut store, series, session, 1, RunKind::Measured, "eevdf", 100.0);
    let failure = Failure {
        session,
        series,
        subject: scheduler("scx_x"),
        at: now(),
        error: "cannot x: y".into(),
    };
    store.add_failure(&failure).unwrap();
    let switch = SwitchRecord {
        from: "eevdf".into(),
        to: "fifo".into(),
        mechanism: Mechanism::Lane,
        stop_ns: None,
        start_ns: None,
        write_ns: Some(7),
        total_ns: 9,
    };
    store.add_switches(session, std::slice::from_ref(&switch)).unwrap();
    drop(store);

    let mut store = Store::open(&path).unwrap();
    assert_eq!(store.series_id(&key("front")).unwrap(), series);
    let all = store.measurements(&Query::default()).unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].figures, figures(100.0));
    assert_eq!(all[0].subject, scheduler("eevdf"));
    let listed = store.series(&Query::default()).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].key, key("front"));
    assert_eq!(listed[0].measured, 1);
    assert_eq!(store.sessions().unwrap()[0].seed, u64::MAX);
    assert_eq!(store.environments().unwrap(), vec![key("front").environment]);
    assert_eq!(store.failures(series).unwrap(), vec![failure]);
    assert_eq!(store.switches().unwrap(), vec![(session, switch)]);
}

#[test]
fn runs_pair_up_only_within_a_round_of_the_same_series_and_session() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path().join("s.db")).unwrap();
    let front = store.series_id(&key("front")).unwrap();
    let back = store.series_id(&key("back")).unwrap();
    let one = store.begin_session("boot", 1, "").unwrap();
    let two = store.begin_session("boot", 2, "").unwrap();
    add(&mut store, front, one, 1, RunKind::Measured, "eevdf", 100.0);
    add(&mut store, front, one, 1, RunKind::Measured, "fifo", 110.0);
    // None of these has a partner.
    add(&mut store, front, one, 2, RunKind::Measured, "fifo", 1.0);
    add(&mut store, front, two, 1, RunKind::Measured, "fifo", 2.0);
    add(&mut store, back, one, 1, RunKind::Measured, "fifo", 3.0);
    add(&mut store, back, two, 1, RunKind::Measured, "eevdf", 4.0);
    // Runs of other kinds are not for ratios.
    add(&mut store, front, one, 1, RunKind::Traced, "vtime", 5.0);
    add(&mut store, front, one, 3, RunKind::Traced, "eevdf", 6.0);
    add(&mut store, front, one, 1, RunKind::Control, "eevdf", 7.0);
    add(&mut store, front, two, 1, RunKind::Control, "eevdf", 8.0);
    let pairs = store.pairs(&Query::default()).unwrap();
    assert_eq!(pairs.len(), 1);
    assert_eq!(pairs[0].baseline.throughput_per_s, 100.0);
    assert_eq!(pairs[0].figures.throughput_per_s, 110.0);
    assert_eq!(pairs[0].subject, scheduler("fifo"));
    let controls = store.controls(&Query::default()).unwrap();
    assert_eq!(controls.len(), 1);
    assert_eq!((controls[0].0.throughput_per_s, controls[0].1.throughput_per_s), (7.0, 100.0));
}

#[test]
fn different_durations_kernels_and_parameters_are_different_series() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path().join("s.db")).unwrap();
    let mut keys = vec![key("front")];
    keys.push(SeriesKey { duration_s: 4.0, ..key("front") });
    keys.push(SeriesKey { workload_hash: "other".into(), ..key("front") });
    keys.push(SeriesKey { params: BTreeMap::new(), ..key("front") });
    let mut other = key("front");
    other.environment.kernel = "7.3".into();
    keys.push(other);
    let ids: BTreeSet<i64> = keys.iter().map(|key| store.series_id(key).unwrap()).collect();
    assert_eq!(ids.len(), keys.len());
}

#[test]
fn superseded_runs_are_kept_but_not_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path().join("s.db")).unwrap();
    let series = store.series_id(&key("front")).unwrap();
    let session = store.begin_session("boot", 1, "").unwrap();
    add(&mut store, series, session, 1, RunKind::Measured, "eevdf", 1.0);
    assert_eq!(store.supersede(series).unwrap(), 1);
    assert!(store.measurements(&Query::of_series(series)).unwrap().is_empty());
    let all = Query { superseded: true, ..Query::of_series(series) };
    assert_eq!(store.measurements(&all).unwrap().len(), 1);
    assert_eq!(store.last_round(series, session).unwrap(), 1);
}

/// A store of each schema there was, as the program of that time left it. They never change; a new
/// schema has one more.
const RECORDED: [&str; 2] =
    [include_str!("fixtures/schema-1.sql"), include_str!("fixtures/schema-2.sql")];

/// Puts the recorded store of a schema where nothing is.
fn recorded(path: &std::path::Path, version: usize) {
    Connection::open(path).unwrap().execute_batch(RECORDED[version - 1]).unwrap();
}

/// What there is of tables and indices in a file, as SQL, and its marks.
fn tables(path: &std::path::Path) -> (Vec<String>, i32, i32) {
    let db = Connection::open(path).unwrap();
    let mut all =
        db.prepare("SELECT sql FROM sqlite_schema WHERE sql NOT NULL ORDER BY name").unwrap();
    let all = all.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let plain = |sql: String| sql.split_whitespace().collect::<Vec<_>>().join(" ");
    let mark = |name: &str| db.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)).unwrap();
    (all.map(|sql| plain(sql.unwrap())).collect(), mark("application_id"), mark("user_version"))
}

#[test]
fn a_store_of_each_schema_is_read_with_its_figures_and_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    for version in 1..=RECORDED.len() {
        let path = folder.path().join(format!("{version}.db"));
        recorded(&path, version);
        assert_eq!(tables(&path).2, version as i32);
        let mut store = Store::open(&path).unwrap();
        assert_eq!(store.series_id(&key("front")).unwrap(), 1, "schema {version}");
        let all = store.measurements(&Query { superseded: true, ..Query::of_series(1) }).unwrap();
        let first = &all[0];
        assert_eq!((&first.subject, first.kind), (&scheduler("eevdf"), RunKind::Measured));
        assert_eq!(first.figures.p99_us, 2500.0, "schema {version}");
        assert_eq!(first.figures.throughput_per_s, 101.0, "schema {version}");
        let session = &store.sessions().unwrap()[0];
        assert_eq!((&*session.command, session.seed), ("metasched profile qa", u64::MAX));
        // Whatever was read, it can be added to.
        add(&mut store, 1, 1, 9, RunKind::Measured, "fifo", 1.0);
        drop(store);
        let new = folder.path().join("new.db");
        drop(Store::open(&new).unwrap());
        assert_eq!(tables(&path), tables(&new), "schema {version}");
    }
}

#[test]
fn a_store_of_the_present_schema_is_recorded_with_all_that_it_can_hold() {
    assert_eq!(RECORDED.len() as i32, schema::CURRENT, "record a store of the new schema");
    let folder = tempfile::tempdir().unwrap();
    let (path, new) = (folder.path().join("s.db"), folder.path().join("new.db"));
    recorded(&path, RECORDED.len());
    drop(Store::open(&new).unwrap());
    assert_eq!(tables(&path), tables(&new), "a released schema never changes: add a step");
    let store = Store::open(&path).unwrap();
    let kept = store.measurements(&Query::of_series(1)).unwrap();
    let all = store.measurements(&Query { superseded: true, ..Query::of_series(1) }).unwrap();
    assert_eq!((kept.len(), all.len()), (3, 4));
    let lane = TurnShare {
        app: "front".into(),
        scheduler: "fifo".into(),
        version: "1".into(),
        weight: 0.75,
        cgroups: vec!["qa/front".into()],
    };
    let lanes = Subject::Lanes {
        strategy: Some("delta".into()),
        default: ("vtime".into(), "2".into()),
        lanes: vec![lane],
    };
    assert_eq!(kept[0].subject, lanes);
    assert!(matches!(&kept[1].subject, Subject::Strategy { base_slice_ms: 300, .. }));
    let kinds: Vec<RunKind> = all.iter().map(|run| run.kind).collect();
    use RunKind::{Control, Measured, Traced};
    assert_eq!(kinds, [Measured, Measured, Control, Traced]);
    let LoadFigures { histogram, wait_histogram, nvcsw_per_s, .. } = &kept[0].figures;
    assert_eq!(*histogram, Some(vec![(1, 2), (3, 4)]));
    assert_eq!((wait_histogram, *nvcsw_per_s), (&Some(vec![0, 3, 7]), Some(1200.5)));
    assert_eq!(kept[0].parts["front"].timeslices, Some(900));
    assert_eq!(store.failures(1).unwrap()[0].error, "cannot x: y");
    assert_eq!(store.switches().unwrap()[0].1.total_ns, 9);
}

#[test]
fn a_newer_store_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    recorded(&path, RECORDED.len());
    let db = Connection::open(&path).unwrap();
    db.pragma_update(None, "user_version", schema::CURRENT + 1).unwrap();
    drop(db);
    let before = fs::read(&path).unwrap();
    let e = Store::open(&path).unwrap_err();
    assert_eq!(e.kind, Kind::BadInput);
    let schemas =
        format!("schema {}; this one knows up to {}", schema::CURRENT + 1, schema::CURRENT);
    assert!(e.cause.contains("newer metasched") && e.cause.contains(&schemas), "{e}");
    assert!(e.remedy.contains("use that metasched"), "{e}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    fs::write(&path, "a shopping list\n".repeat(100)).unwrap();
    let before = fs::read(&path).unwrap();
    let e = Store::open(&path).unwrap_err();
    assert_eq!(e.kind, Kind::BadInput);
    assert!(e.cause.contains("not a SQLite database"), "{e}");
    assert!(e.remedy.contains("--store"), "{e}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn the_database_of_another_program_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE cookies (id)").unwrap();
    let e = Store::open(&path).unwrap_err();
    assert_eq!(e.kind, Kind::BadInput);
    assert!(e.cause.contains("another program"), "{e}");
}

#[test]
fn damaged_and_truncated_stores_are_refused_with_a_way_to_save_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let mut store = Store::open(&path).unwrap();
    let series = store.series_id(&key("front")).unwrap();
    let session = store.begin_session("boot", 1, "").unwrap();
    for round in 0..100 {
        add(&mut store, series, session, round, RunKind::Measured, "eevdf", 1.0);
    }
    drop(store);
    let whole = fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    for byte in &mut damaged[4096..8192] {
        *byte = 0xa5;
    }
    for bytes in [&whole[..whole.len() / 2], &damaged[..]] {
        fs::write(&path, bytes).unwrap();
        let e = Store::open(&path).unwrap_err();
        assert_eq!(e.kind, Kind::BadInput, "{e}");
        assert!(e.cause.contains("damaged"), "{e}");
        assert!(e.remedy.contains(".recover"), "{e}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
}

#[test]
fn a_folder_a_missing_right_and_a_full_disk_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let e = Store::open(folder.path()).unwrap_err();
    assert_eq!((e.kind, e.cause.as_str()), (Kind::BadInput, "it is a folder"));

    let e = Store::open("/proc/nothing/store.db").unwrap_err();
    assert!(e.cause.contains("folder cannot be made"), "{e}");

    // Every write to it fails as on a full disk.
    let e = Store::open("/dev/full").unwrap_err();
    assert_eq!((e.kind, e.cause.as_str()), (Kind::Failed, "no space is left on its disk"), "{e}");

    // Root may write everywhere, so this one is only for other users.
    if !nix::unistd::geteuid().is_root() {
        let path = folder.path().join("s.db");
        drop(Store::open(&path).unwrap());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert_eq!(Store::open(&path).unwrap_err().kind, Kind::Denied);
    }
}

#[test]
fn a_store_that_cannot_grow_keeps_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let mut store = Store::open(&path).unwrap();
    let series = store.series_id(&key("front")).unwrap();
    let session = store.begin_session("boot", 1, "").unwrap();
    add(&mut store, series, session, 1, RunKind::Measured, "eevdf", 1.0);
    // What SQLite answers at this limit is what it answers on a full disk.
    let pages: i64 = store.connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    store.connection.pragma_update(None, "max_page_count", pages).unwrap();
    let mut full = None;
    for round in 2..1000 {
        let run = NewMeasurement {
            series,
            session,
            round,
            order: 0,
            kind: RunKind::Measured,
            subject: &scheduler("eevdf"),
            started_at: "",
            figures: &figures(1.0),
            parts: &Parts::new(),
        };
        if let Err(e) = store.add(&run) {
            full = Some((round, e));
            break;
        }
    }
    let (round, e) = full.expect("the limit was reached");
    assert!(e.cause.contains("no space"), "{e}");
    drop(store);
    let store = Store::open(&path).unwrap();
    let kept = store.measurements(&Query::of_series(series)).unwrap();
    assert_eq!(kept.len(), usize::try_from(round).unwrap() - 1);
}

#[test]
fn two_processes_may_write_one_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let mut first = Store::open(&path).unwrap();
    let series = first.series_id(&key("front")).unwrap();
    let session = first.begin_session("boot", 1, "").unwrap();
    let writer = std::thread::spawn({
        let path = path.clone();
        move || {
            let mut second = Store::open(&path).unwrap();
            for round in 0..20 {
                add(&mut second, series, session, round, RunKind::Measured, "fifo", 1.0);
            }
        }
    });
    for round in 0..20 {
        add(&mut first, series, session, round, RunKind::Measured, "eevdf", 1.0);
    }
    writer.join().unwrap();
    assert_eq!(first.pairs(&Query::of_series(series)).unwrap().len(), 20);
}

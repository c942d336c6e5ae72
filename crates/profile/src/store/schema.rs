//! The tables, as the steps that lead to them.

/// Marks a SQLite file as ours: "msch" in ASCII.
pub(super) const APPLICATION_ID: i32 = 0x6d73_6368;

/// Step n brings a store from schema n to schema n + 1; a new store takes all of
/// them, an older one those that it lacks. A step never changes once released.
///
/// Schema 1 holds measurements. Schema 2 adds what else the sessions saw: runs
/// that failed, changes of scheduler, and which measurements were set aside when
/// a user asked to measure afresh.
pub(super) const STEPS: [&str; 2] = [
    "CREATE TABLE environments (
        id INTEGER PRIMARY KEY,
        machine TEXT NOT NULL, facts TEXT NOT NULL, kernel TEXT NOT NULL,
        metasched TEXT NOT NULL, cpus INTEGER NOT NULL, emulated INTEGER NOT NULL,
        UNIQUE (machine, kernel, metasched, cpus, emulated)
    );
    CREATE TABLE series (
        id INTEGER PRIMARY KEY,
        environment INTEGER NOT NULL REFERENCES environments (id),
        workload TEXT NOT NULL, form TEXT NOT NULL, unit TEXT NOT NULL,
        params TEXT NOT NULL, workload_hash TEXT NOT NULL,
        duration_ms INTEGER NOT NULL, warmup_ms INTEGER NOT NULL,
        UNIQUE (environment, workload, form, params, workload_hash, duration_ms, warmup_ms)
    );
    CREATE TABLE sessions (
        id INTEGER PRIMARY KEY,
        boot_id TEXT NOT NULL, started_at TEXT NOT NULL, seed TEXT NOT NULL, command TEXT NOT NULL
    );
    CREATE TABLE measurements (
        id INTEGER PRIMARY KEY,
        series INTEGER NOT NULL REFERENCES series (id),
        session INTEGER NOT NULL REFERENCES sessions (id),
        round INTEGER NOT NULL, position INTEGER NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('measured', 'traced', 'control')),
        subject TEXT NOT NULL, started_at TEXT NOT NULL,
        figures TEXT NOT NULL, parts TEXT NOT NULL
    );
    CREATE INDEX measurements_by_round ON measurements (series, session, round);",
    "ALTER TABLE measurements ADD COLUMN superseded INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE failures (
        id INTEGER PRIMARY KEY,
        series INTEGER NOT NULL REFERENCES series (id),
        session INTEGER NOT NULL REFERENCES sessions (id),
        subject TEXT NOT NULL, at TEXT NOT NULL, error TEXT NOT NULL
    );
    CREATE TABLE switches (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions (id),
        at TEXT NOT NULL, record TEXT NOT NULL
    );",
];

/// The schema that this program reads and writes.
pub(super) const CURRENT: i32 = STEPS.len() as i32;

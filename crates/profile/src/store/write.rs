use metasched_base::Result;
use metasched_control::SwitchRecord;
use rusqlite::{OptionalExtension, params};

use super::{Store, now};
use crate::{Failure, LoadFigures, Parts, RunKind, SeriesKey, Subject};

/// A finished run, to be kept.
#[derive(Clone, Debug)]
pub struct NewMeasurement<'a> {
    /// The series that it belongs to.
    pub series: i64,
    /// The session that made it.
    pub session: i64,
    /// The round within session and series.
    pub round: u32,
    /// Its place in the order of the round.
    pub order: u32,
    /// Why it was made.
    pub kind: RunKind,
    /// What it was measured under.
    pub subject: &'a Subject,
    /// When it began.
    pub started_at: &'a str,
    /// The figures of the whole.
    pub figures: &'a LoadFigures,
    /// The figures of each cgroup.
    pub parts: &'a Parts,
}

const ATTEMPT: &str = "write to the store";

impl Store {
    /// Begins a session; gives its number.
    pub fn begin_session(&mut self, boot_id: &str, seed: u64, command: &str) -> Result<i64> {
        self.connection
            .execute(
                "INSERT INTO sessions (boot_id, started_at, seed, command) VALUES (?1, ?2, ?3, ?4)",
                // SQLite's integers are signed: a seed is kept as text.
                params![boot_id, now(), seed.to_string(), command],
            )
            .map_err(|e| self.failure(ATTEMPT, &e))?;
        Ok(self.connection.last_insert_rowid())
    }

    /// The number of the series with this key; it is made where there is none.
    pub fn series_id(&mut self, key: &SeriesKey) -> Result<i64> {
        self.find_or_make_series(key).map_err(|e| self.failure(ATTEMPT, &e))
    }

    fn find_or_make_series(&mut self, key: &SeriesKey) -> rusqlite::Result<i64> {
        let change = self.connection.transaction()?;
        let at = &key.environment;
        change.execute(
            "INSERT OR IGNORE INTO environments (machine, facts, kernel, metasched, cpus, emulated)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                at.machine,
                at.facts.to_string(),
                at.kernel,
                at.metasched,
                at.cpus,
                at.emulated
            ],
        )?;
        let environment: i64 = change.query_row(
            "SELECT id FROM environments
             WHERE machine = ?1 AND kernel = ?2 AND metasched = ?3 AND cpus = ?4 AND emulated = ?5",
            params![at.machine, at.kernel, at.metasched, at.cpus, at.emulated],
            |row| row.get(0),
        )?;
        // Keys of a BTreeMap come sorted, so equal parameters give equal text.
        let parameters = serde_json::json!(key.params).to_string();
        let duration_ms = milliseconds(key.duration_s);
        let warmup_ms = milliseconds(key.warmup_s);
        let found = change
            .query_row(
                "SELECT id FROM series WHERE environment = ?1 AND workload = ?2 AND form = ?3
                 AND params = ?4 AND workload_hash = ?5 AND duration_ms = ?6 AND warmup_ms = ?7",
                params![
                    environment,
                    key.workload,
                    key.form,
                    parameters,
                    key.workload_hash,
                    duration_ms,
                    warmup_ms
                ],
                |row| row.get(0),
            )
            .optional()?;
        let id = match found {
            Some(id) => id,
            None => {
                change.execute(
                    "INSERT INTO series (environment, workload, form, unit, params,
                     workload_hash, duration_ms, warmup_ms)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                    params![
                        environment,
                        key.workload,
                        key.form,
                        key.unit,
                        parameters,
                        key.workload_hash,
                        duration_ms,
                        warmup_ms
                    ],
                )?;
                change.last_insert_rowid()
            }
        };
        change.commit()?;
        Ok(id)
    }

    /// Keeps a finished run; gives its number. Once this returns, it is on the disk.
    pub fn add(&mut self, run: &NewMeasurement) -> Result<i64> {
        self.connection
            .execute(
                "INSERT INTO measurements
                 (series, session, round, position, kind, subject, started_at, figures, parts)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![
                    run.series,
                    run.session,
                    run.round,
                    run.order,
                    run.kind.name(),
                    run.subject.canonical(),
                    run.started_at,
                    serde_json::json!(run.figures).to_string(),
                    serde_json::json!(run.parts).to_string(),
                ],
            )
            .map_err(|e| self.failure(ATTEMPT, &e))?;
        Ok(self.connection.last_insert_rowid())
    }

    /// Keeps what a run that failed said.
    pub fn add_failure(&mut self, failure: &Failure) -> Result<()> {
        self.connection
            .execute(
                "INSERT INTO failures (series, session, subject, at, error)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
                params![
                    failure.series,
                    failure.session,
                    failure.subject.canonical(),
                    failure.at,
                    failure.error
                ],
            )
            .map_err(|e| self.failure(ATTEMPT, &e))?;
        Ok(())
    }

    /// Keeps what changes of scheduler took.
    pub fn add_switches(&mut self, session: i64, records: &[SwitchRecord]) -> Result<()> {
        self.insert_switches(session, records).map_err(|e| self.failure(ATTEMPT, &e))
    }

    /// In one transaction: a metascheduler makes many changes in one run.
    fn insert_switches(&mut self, session: i64, records: &[SwitchRecord]) -> rusqlite::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let change = self.connection.transaction()?;
        for record in records {
            change.execute(
                "INSERT INTO switches (session, at, record) VALUES (?1, ?2, ?3)",
                params![session, now(), serde_json::json!(record).to_string()],
            )?;
        }
        change.commit()
    }

    /// Sets all measurements of a series aside, so that it is measured afresh. They
    /// stay in the file, but only [`super::Query::superseded`] shows them.
    pub fn supersede(&mut self, series: i64) -> Result<usize> {
        self.connection
            .execute(
                "UPDATE measurements SET superseded = 1 WHERE series = ?1 AND superseded = 0",
                [series],
            )
            .map_err(|e| self.failure(ATTEMPT, &e))
    }
}

fn milliseconds(seconds: f64) -> i64 {
    (seconds * 1000.0).round() as i64
}

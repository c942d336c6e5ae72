use std::collections::HashMap;

use metasched_base::Result;
use metasched_control::SwitchRecord;
use rusqlite::{Row, ToSql};

use super::{Store, unreadable};
use crate::{
    Environment, Failure, LoadFigures, Measurement, PairedFigures, RunKind, Series, SeriesKey,
    Session, Subject,
};

/// Which measurements are wanted; what is not said does not matter.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Of this series.
    pub series: Option<i64>,
    /// Of this session.
    pub session: Option<i64>,
    /// Of the workload with this name.
    pub workload: Option<String>,
    /// Of this form.
    pub form: Option<String>,
    /// Of this kind.
    pub kind: Option<RunKind>,
    /// Also those that a later `--fresh` set aside.
    pub superseded: bool,
}

const ATTEMPT: &str = "read the store";

/// A condition in SQL with its values.
struct Condition(String, Vec<Box<dyn ToSql>>);

impl Query {
    /// All of one series.
    pub fn of_series(series: i64) -> Self {
        Self { series: Some(series), ..Self::default() }
    }

    /// On the tables `measurements m` and `series s`.
    fn condition(&self) -> Condition {
        let mut parts = vec!["1".to_owned()];
        let mut values: Vec<Box<dyn ToSql>> = Vec::new();
        let mut add = |column: &str, value: Box<dyn ToSql>| {
            values.push(value);
            parts.push(format!("{column} = ?{}", values.len()));
        };
        if let Some(series) = self.series {
            add("s.id", Box::new(series));
        }
        if let Some(session) = self.session {
            add("m.session", Box::new(session));
        }
        if let Some(workload) = &self.workload {
            add("s.workload", Box::new(workload.clone()));
        }
        if let Some(form) = &self.form {
            add("s.form", Box::new(form.clone()));
        }
        if let Some(kind) = self.kind {
            add("m.kind", Box::new(kind.name()));
        }
        if !self.superseded {
            parts.push("m.superseded = 0".to_owned());
        }
        Condition(parts.join(" AND "), values)
    }
}

impl Store {
    /// The series that have measurements, the one measured last first.
    pub fn series(&self, query: &Query) -> Result<Vec<Series>> {
        let Condition(condition, values) = query.condition();
        let sql = format!(
            "SELECT s.id, s.workload, s.form, s.unit, s.params, s.workload_hash, s.duration_ms,
                    s.warmup_ms, e.machine, e.facts, e.kernel, e.metasched, e.cpus, e.emulated,
                    sum(m.kind = 'measured'), max(m.started_at)
             FROM measurements m JOIN series s ON s.id = m.series
                  JOIN environments e ON e.id = s.environment
             WHERE {condition} GROUP BY s.id ORDER BY max(m.id) DESC"
        );
        self.rows(&sql, &values, |row| {
            let id: i64 = row.get(0)?;
            let params: String = row.get(4)?;
            let params = match serde_json::from_str(&params) {
                Ok(params) => params,
                Err(e) => return Ok(Err(self.unreadable("series", id, e))),
            };
            let duration_ms: i64 = row.get(6)?;
            let warmup_ms: i64 = row.get(7)?;
            Ok(Ok(Series {
                id,
                key: SeriesKey {
                    environment: environment(row, 8)?,
                    workload: row.get(1)?,
                    form: row.get(2)?,
                    unit: row.get(3)?,
                    params,
                    workload_hash: row.get(5)?,
                    duration_s: duration_ms as f64 / 1000.0,
                    warmup_s: warmup_ms as f64 / 1000.0,
                },
                measured: row.get::<_, i64>(14)?.unsigned_abs(),
                last_at: row.get(15)?,
            }))
        })
    }

    /// Finished runs, in the order in which they were made.
    pub fn measurements(&self, query: &Query) -> Result<Vec<Measurement>> {
        let Condition(condition, values) = query.condition();
        let sql = format!(
            "SELECT m.id, m.series, m.session, m.round, m.position, m.kind, m.subject,
                    m.started_at, m.figures, m.parts
             FROM measurements m JOIN series s ON s.id = m.series
             WHERE {condition} ORDER BY m.id"
        );
        self.rows(&sql, &values, |row| {
            let id: i64 = row.get(0)?;
            let kind: String = row.get(5)?;
            let (subject, figures, parts): (String, String, String) =
                (row.get(6)?, row.get(8)?, row.get(9)?);
            let measurement = |subject, figures, parts| -> rusqlite::Result<Measurement> {
                Ok(Measurement {
                    id,
                    series: row.get(1)?,
                    session: row.get(2)?,
                    round: row.get(3)?,
                    order: row.get(4)?,
                    // The table's CHECK lets no other name in.
                    kind: RunKind::from_name(&kind).unwrap_or(RunKind::Measured),
                    subject,
                    started_at: row.get(7)?,
                    figures,
                    parts,
                })
            };
            let read = || -> serde_json::Result<_> {
                Ok((
                    serde_json::from_str(&subject)?,
                    serde_json::from_str(&figures)?,
                    serde_json::from_str(&parts)?,
                ))
            };
            match read() {
                Ok((subject, figures, parts)) => Ok(Ok(measurement(subject, figures, parts)?)),
                Err(e) => Ok(Err(self.unreadable("measurements", id, e))),
            }
        })
    }

    /// Every measured run beside the default scheduler's of the same series, session
    /// and round; the baseline's own runs are not among them.
    pub fn pairs(&self, query: &Query) -> Result<Vec<PairedFigures>> {
        let query = Query { kind: Some(RunKind::Measured), ..query.clone() };
        let all = self.measurements(&query)?;
        let round = |m: &Measurement| (m.series, m.session, m.round);
        let baselines: HashMap<_, _> = all
            .iter()
            .filter(|m| m.subject.is_baseline())
            .map(|m| (round(m), m.figures.clone()))
            .collect();
        Ok(all
            .into_iter()
            .filter(|m| !m.subject.is_baseline())
            .filter_map(|m| {
                Some(PairedFigures {
                    series: m.series,
                    session: m.session,
                    round: m.round,
                    baseline: baselines.get(&round(&m))?.clone(),
                    subject: m.subject,
                    figures: m.figures,
                })
            })
            .collect())
    }

    /// Every control run and the measured run of the default scheduler in the same round.
    pub fn controls(&self, query: &Query) -> Result<Vec<(LoadFigures, LoadFigures)>> {
        let of = |kind| self.measurements(&Query { kind: Some(kind), ..query.clone() });
        let round = |m: &Measurement| (m.series, m.session, m.round);
        let measured: HashMap<_, _> = of(RunKind::Measured)?
            .into_iter()
            .filter(|m| m.subject.is_baseline())
            .map(|m| (round(&m), m.figures))
            .collect();
        Ok(of(RunKind::Control)?
            .into_iter()
            .filter_map(|m| Some((measured.get(&round(&m))?.clone(), m)))
            .map(|(measured, control)| (control.figures, measured))
            .collect())
    }

    /// All sessions, the oldest first.
    pub fn sessions(&self) -> Result<Vec<Session>> {
        let sql = "SELECT id, boot_id, started_at, seed, command FROM sessions ORDER BY id";
        self.rows(sql, &[], |row| {
            let id: i64 = row.get(0)?;
            let seed: String = row.get(3)?;
            let seed = match seed.parse() {
                Ok(seed) => seed,
                Err(e) => return Ok(Err(self.unreadable("sessions", id, e))),
            };
            Ok(Ok(Session {
                id,
                boot_id: row.get(1)?,
                started_at: row.get(2)?,
                seed,
                command: row.get(4)?,
            }))
        })
    }

    /// All environments, the oldest first.
    pub fn environments(&self) -> Result<Vec<Environment>> {
        let sql = "SELECT machine, facts, kernel, metasched, cpus, emulated
                   FROM environments ORDER BY id";
        self.rows(sql, &[], |row| Ok(Ok(environment(row, 0)?)))
    }

    /// Runs of a series that failed, the oldest first.
    pub fn failures(&self, series: i64) -> Result<Vec<Failure>> {
        let sql = "SELECT id, session, series, subject, at, error FROM failures
                   WHERE series = ?1 ORDER BY id";
        self.rows(sql, &[Box::new(series)], |row| {
            let subject: String = row.get(3)?;
            let subject: Subject = match serde_json::from_str(&subject) {
                Ok(subject) => subject,
                Err(e) => return Ok(Err(self.unreadable("failures", row.get(0)?, e))),
            };
            Ok(Ok(Failure {
                session: row.get(1)?,
                series: row.get(2)?,
                subject,
                at: row.get(4)?,
                error: row.get(5)?,
            }))
        })
    }

    /// What changes of scheduler took, with the session of each, the oldest first.
    pub fn switches(&self) -> Result<Vec<(i64, SwitchRecord)>> {
        let sql = "SELECT id, session, record FROM switches ORDER BY id";
        self.rows(sql, &[], |row| {
            let record: String = row.get(2)?;
            match serde_json::from_str(&record) {
                Ok(record) => Ok(Ok((row.get(1)?, record))),
                Err(e) => Ok(Err(self.unreadable("switches", row.get(0)?, e))),
            }
        })
    }

    /// The last round of a session in a series; 0 before the first.
    pub(crate) fn last_round(&self, series: i64, session: i64) -> Result<u32> {
        self.connection
            .query_row(
                "SELECT coalesce(max(round), 0) FROM measurements
                 WHERE series = ?1 AND session = ?2",
                [series, session],
                |row| row.get(0),
            )
            .map_err(|e| self.failure(ATTEMPT, &e))
    }

    fn rows<T>(
        &self,
        sql: &str,
        values: &[Box<dyn ToSql>],
        read: impl Fn(&Row) -> rusqlite::Result<Result<T>>,
    ) -> Result<Vec<T>> {
        let run = || -> rusqlite::Result<Vec<Result<T>>> {
            let mut statement = self.connection.prepare(sql)?;
            let rows = statement
                .query_map(rusqlite::params_from_iter(values.iter().map(|v| v.as_ref())), read)?;
            rows.collect()
        };
        run().map_err(|e| self.failure(ATTEMPT, &e))?.into_iter().collect()
    }

    fn unreadable(&self, table: &str, id: i64, cause: impl std::fmt::Display) -> crate::Error {
        unreadable(&self.path, table, id, cause)
    }
}

/// Reads an environment from the columns that begin at `first`.
fn environment(row: &Row, first: usize) -> rusqlite::Result<Environment> {
    let facts: String = row.get(first + 1)?;
    Ok(Environment {
        machine: row.get(first)?,
        // Facts are for readers; what compares environments is the other columns.
        facts: serde_json::from_str(&facts).unwrap_or(serde_json::Value::String(facts)),
        kernel: row.get(first + 2)?,
        metasched: row.get(first + 3)?,
        cpus: row.get(first + 4)?,
        emulated: row.get(first + 5)?,
    })
}

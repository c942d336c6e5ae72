//! Waits that were recorded, as they are kept and printed.

use std::fs;
use std::path::Path;

use metasched_base::{Error, Kind, Result, ResultExt, document};
use metasched_stats::{RunLengths, WaitHistogram, whole};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::bars::bars;
use crate::looking_cost::LookingCost;
use crate::whom::Whom;

/// The layout of the file; another one is refused.
const SCHEMA: u32 = 1;

/// How long the tasks of some subjects waited for a CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// The layout of the document.
    pub(crate) schema: u32,
    /// The metasched that recorded it.
    pub metasched: String,
    /// The kernel's release.
    pub kernel: String,
    /// How many CPUs the machine has.
    pub cpus: u32,
    /// Whether its CPUs are emulated in software.
    pub emulated: bool,
    /// What was in force when it began, as users name it.
    pub scheduler: String,
    /// What was in force at the end, where that is another one, or another start of it.
    pub scheduler_later: Option<String>,
    /// When it began, UTC.
    pub began: String,
    /// How long it took, nanoseconds.
    pub length_ns: u64,
    /// Whose waits, in the order in which they were asked for.
    pub subjects: Vec<Subject>,
    /// What recording took; none where nothing was traced, or the kernel does not tell.
    pub overhead: Option<LookingCost>,
}

/// One whose waits were recorded.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Subject {
    /// Who it is.
    pub whom: Whom,
    /// Its waits, cut into pieces of time.
    pub pieces: Vec<Piece>,
    /// How long it ran each time, all pieces together; none where that was not asked for.
    #[serde(default)]
    pub runs: Option<RunLengths>,
}

/// Waits that ended in a piece of the time.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// How long it is, nanoseconds.
    pub length_ns: u64,
    /// The waits.
    pub waits: WaitHistogram,
}

/// A piece in a file: of the buckets those that count something.
#[derive(Serialize, Deserialize)]
struct PieceFile {
    length_ns: u64,
    sum_ns: u64,
    max_ns: u64,
    buckets: Vec<(usize, u64)>,
}

impl Serialize for Piece {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let WaitHistogram { buckets, sum_ns, max_ns } = &self.waits;
        let filled = buckets.iter().copied().enumerate().filter(|(_, count)| *count > 0);
        PieceFile {
            length_ns: self.length_ns,
            sum_ns: *sum_ns,
            max_ns: *max_ns,
            buckets: filled.collect(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Piece {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let file = PieceFile::deserialize(deserializer)?;
        let mut waits = WaitHistogram::default();
        for (bucket, count) in file.buckets {
            let place = waits.buckets.get_mut(bucket);
            *place.ok_or_else(|| D::Error::custom(format!("there is no bucket {bucket}")))? +=
                count;
        }
        (waits.sum_ns, waits.max_ns) = (file.sum_ns, file.max_ns);
        Ok(Self { length_ns: file.length_ns, waits })
    }
}

/// What is printed of one beside its pieces follows from them.
impl Serialize for Subject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown<'a> {
            whom: &'a Whom,
            figures: Map<String, Value>,
            histogram: Vec<crate::Bar>,
            pieces: &'a [Piece],
            #[serde(skip_serializing_if = "Option::is_none")]
            runs: &'a Option<RunLengths>,
        }
        let waits = self.waits();
        Shown {
            whom: &self.whom,
            figures: document(WaitHistogram::FIGURES, &waits),
            histogram: bars(&waits),
            pieces: &self.pieces,
            runs: &self.runs,
        }
        .serialize(serializer)
    }
}

impl Subject {
    /// All of its waits.
    pub fn waits(&self) -> WaitHistogram {
        whole(self.pieces.iter().map(|piece| &piece.waits))
    }
}

impl Recording {
    /// An empty one of this machine.
    pub(crate) fn of(machine: &metasched_host::machine::HostFacts, scheduler: String) -> Self {
        Self {
            schema: SCHEMA,
            metasched: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: machine.kernel_release.clone(),
            cpus: machine.cpus,
            emulated: machine.emulated,
            scheduler,
            scheduler_later: None,
            began: metasched_base::timestamp(),
            length_ns: 0,
            subjects: Vec::new(),
            overhead: None,
        }
    }

    /// Reads one that was kept.
    ///
    /// # Errors
    /// `BadInput` where it cannot be read, or is none.
    pub fn read(path: &Path) -> Result<Self> {
        let attempt = || format!("read the recording '{}'", path.display());
        let bad = |cause: &dyn std::fmt::Display| {
            Error::new(Kind::BadInput, attempt(), cause)
                .remedy("record one with: metasched latency --for 30s --out FILE")
        };
        let text = fs::read_to_string(path).map_err(|e| bad(&e))?;
        let recording: Self = serde_json::from_str(&text).map_err(|e| bad(&e))?;
        if recording.schema != SCHEMA {
            return Err(bad(&format!("its layout is {}, not {SCHEMA}", recording.schema)));
        }
        Ok(recording)
    }

    /// An error if no recording could be kept in that file.
    pub fn may_write(path: &Path) -> Result<()> {
        let attempt = || format!("write the recording '{}'", path.display());
        if path.is_dir() {
            return Err(
                Error::new(Kind::BadInput, attempt(), "it is a folder").remedy("name a file in it")
            );
        }
        let beside = path.with_extension("part");
        fs::write(&beside, "").and_then(|()| fs::remove_file(&beside)).map_err(|e| {
            Error::new(Kind::BadInput, attempt(), e).remedy("name a file that can be written")
        })
    }

    /// Keeps it in a file, which is written beside it first: one that was there is whole until
    /// then.
    pub fn write(&self, path: &Path) -> Result<()> {
        let attempt = || format!("write the recording '{}'", path.display());
        let text = serde_json::to_string(self).attempt(Kind::Failed, attempt)?;
        let beside = path.with_extension("part");
        let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
        if written.is_err() {
            // It may not be there at all.
            let _ = fs::remove_file(&beside);
        }
        written.attempt(Kind::Failed, attempt)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// One of a second each, with as many waits of the same length in each piece.
    pub(crate) fn recording(scheduler: &str, whom: Whom, pieces: &[(u64, u64)]) -> Recording {
        let piece = |(count, wait_ns): &(u64, u64)| {
            let mut waits = WaitHistogram::default();
            (0..*count).for_each(|_| waits.add(*wait_ns));
            Piece { length_ns: 1_000_000_000, waits }
        };
        Recording {
            schema: SCHEMA,
            metasched: "0".into(),
            kernel: "7.3.4".into(),
            cpus: 2,
            emulated: true,
            scheduler: scheduler.into(),
            scheduler_later: None,
            began: String::new(),
            length_ns: pieces.len() as u64 * 1_000_000_000,
            subjects: vec![Subject {
                whom,
                pieces: pieces.iter().map(piece).collect(),
                runs: None,
            }],
            overhead: None,
        }
    }

    #[test]
    fn a_recording_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let one = recording("vtime", Whom::Cgroup("a.slice".into()), &[(3, 5_000), (0, 0)]);
        one.write(&path).unwrap();
        assert_eq!(Recording::read(&path).unwrap(), one);
        let document: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(document["subjects"][0]["figures"]["count"], 3);
        assert_eq!(document["subjects"][0]["histogram"][0]["from_us"], 4);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_is_no_recording_is_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let one = recording("vtime", Whom::System, &[(3, 5_000)]);
        let good = serde_json::to_string(&one).unwrap();
        for (text, words) in [
            ("", "EOF"),
            ("{}", "missing field `schema`"),
            (&good.replace("\"schema\":1", "\"schema\":2"), "its layout is 2"),
            (&good.replace("\"buckets\":[[", "\"buckets\":[[9"), "there is no bucket 9"),
        ] {
            fs::write(&path, text).unwrap();
            let error = Recording::read(&path).unwrap_err();
            assert_eq!(error.kind, Kind::BadInput);
            assert!(error.to_string().contains(words), "{words}: {error}");
            assert!(error.remedy.contains("metasched latency"), "{error}");
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(Recording::read(&path).unwrap_err().kind, Kind::BadInput);
        // A folder that is not there, and a folder.
        for path in [folder.path().join("no/a.json"), folder.path().to_owned()] {
            assert!(one.write(&path).is_err());
            assert_eq!(Recording::may_write(&path).unwrap_err().kind, Kind::BadInput);
        }
        Recording::may_write(&path).unwrap();
        assert!(!path.exists(), "nothing is left of the trial");
    }
}

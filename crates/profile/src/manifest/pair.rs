//! Two workloads at the same time, as `nginx+compile`: dissimilar work on one machine.
//!
//! A pair is a workload of three forms: each of the two alone, and both at once. Both have their own
//! parameters, prepared files and cgroups, as when they are measured by themselves.

use std::collections::BTreeMap;

use metasched_base::{Error, Kind, Result};
use metasched_experiment::Objective;
use sha2::{Digest, Sha256};

use super::{Form, Load, Manifest, Reader, Workload, locate};

/// Stands between the two.
const AND: char = '+';
/// Stands before a form that is not the first of its manifest.
const FORM: char = ':';
/// The form in which both run.
pub const BOTH: &str = "both";
/// Each has a port of its own by this parameter.
const PORT: &str = "port";

/// One of the two.
#[derive(Clone, Debug)]
pub struct Side {
    /// Its name in the pair, which is its workload's.
    pub name: String,
    /// The workload.
    pub workload: Workload,
    /// Which of its forms.
    pub form: String,
}

/// What users wrote of one of the two: its workload, and its form if that is said.
fn side(text: &str) -> (&str, Option<&str>) {
    match text.split_once(FORM) {
        Some((workload, form)) => (workload, Some(form)),
        None => (text, None),
    }
}

/// The two that a pair is of; none for a workload.
fn sides(text: &str) -> Option<Vec<&str>> {
    text.contains(AND).then(|| text.split(AND).collect())
}

fn wrong(text: &str, cause: impl std::fmt::Display) -> Error {
    Error::new(Kind::BadInput, format!("measure the pair '{text}'"), cause)
        .remedy("name two workloads, as in: nginx+compile, or nginx:keepalive+compile")
}

impl Manifest {
    /// The manifest of a workload, by its name or its folder; of a pair one that is made of those of
    /// the two.
    ///
    /// # Errors
    /// `BadInput` where there is no such workload, or it is not as it should be.
    pub fn find(text: &str) -> Result<Manifest> {
        match sides(text) {
            None => Manifest::read(&locate(text)?),
            Some(of) => {
                let read = |of: &&str| {
                    let (name, form) = side(of);
                    let manifest = Manifest::read(&locate(name)?)?;
                    let form = match form {
                        Some(form) => manifest.form(form)?.clone(),
                        None => manifest.forms[0].clone(),
                    };
                    Ok((manifest, form))
                };
                let both = of.iter().map(read).collect::<Result<Vec<_>>>()?;
                let [first, second] = <[_; 2]>::try_from(both)
                    .map_err(|all| wrong(text, format!("it is of {}", all.len())))?;
                if first.0.name == second.0.name {
                    return Err(wrong(text, "both are the same, and would be in each other's way"));
                }
                Ok(joined(text, &first, &second))
            }
        }
    }
}

/// The manifest of a pair.
fn joined(text: &str, first: &(Manifest, Form), second: &(Manifest, Form)) -> Manifest {
    let both = [first, second];
    let alone = |(manifest, form): &(Manifest, Form)| Form {
        name: manifest.name.clone(),
        summary: format!("{} alone: {}", manifest.name, form.summary),
        parts: Vec::new(),
        objective: Some(form.objective()),
        ..form.clone()
    };
    let together = Form {
        name: BOTH.to_owned(),
        summary: "both at the same time".to_owned(),
        unit: "mean of both".to_owned(),
        objective: Some(Objective::Parts),
        parts: both.iter().map(|(manifest, _)| manifest.name.clone()).collect(),
        processes: Vec::new(),
        // Each has its own.
        load: Load {
            command: Vec::new(),
            cgroup: "load".to_owned(),
            env: BTreeMap::new(),
            reads: Reader::Metrics,
            timeout: None,
            given: None,
        },
    };
    let params = both.iter().flat_map(|(manifest, _)| {
        let name = &manifest.name;
        manifest.params.iter().map(move |(param, of)| (format!("{name}.{param}"), of.clone()))
    });
    Manifest {
        name: text.to_owned(),
        summary: format!("{}, beside: {}", first.0.summary, second.0.summary),
        folder: first.0.folder.clone(),
        uses: Vec::new(),
        params: params.collect(),
        prepare: None,
        prepare_params: None,
        stage: None,
        forms: vec![alone(first), alone(second), together],
    }
}

impl Workload {
    /// The workload or pair, by its name or its folder, with every parameter decided. The parameters of
    /// a pair have the name of their workload before them: `nginx.port`.
    ///
    /// # Errors
    /// As [`Manifest::find`] and [`Workload::resolve`]; of a pair where both are on one port.
    pub fn find(text: &str, settings: &[(String, String)], emulated: bool) -> Result<Workload> {
        let manifest = Manifest::find(text)?;
        let Some(of) = sides(text) else { return Workload::resolve(manifest, settings, emulated) };
        let mut both = Vec::new();
        for of in of {
            let (name, form) = side(of);
            let own = Manifest::read(&locate(name)?)?;
            let before = format!("{}.", own.name);
            let own_settings: Vec<(String, String)> = settings
                .iter()
                .filter_map(|(name, value)| {
                    Some((name.strip_prefix(&before)?.to_owned(), value.clone()))
                })
                .collect();
            both.push(Side {
                name: own.name.clone(),
                form: form.map_or_else(|| own.forms[0].name.clone(), str::to_owned),
                workload: Workload::resolve(own, &own_settings, emulated)?,
            });
        }
        let known = |name: &str| manifest.params.contains_key(name);
        if let Some((name, _)) = settings.iter().find(|(name, _)| !known(name)) {
            let names: Vec<&str> = manifest.params.keys().map(String::as_str).collect();
            let attempt = format!("set '{name}' for '{text}'");
            return Err(Error::new(Kind::BadInput, attempt, "there is no such parameter")
                .remedy(metasched_base::meant(name, &names, "its parameters are")));
        }
        let port = |side: &Side| side.workload.params.get(PORT).cloned();
        if let (Some(port), true) = (port(&both[0]), port(&both[0]) == port(&both[1])) {
            return Err(wrong(text, format!("both are on port {port}")).remedy(format!(
                "give one another port, as in: --set {}.{PORT}=NUMBER",
                both[1].name
            )));
        }
        let params = both.iter().flat_map(|side| {
            let own = side.workload.params.iter();
            own.map(|(name, value)| (format!("{}.{name}", side.name), value.clone()))
        });
        let params = params.collect();
        let hash = hash(&both);
        let prepared_hash = hash.clone();
        Ok(Workload { manifest, params, emulated, hash, prepared_hash, sides: both })
    }

    /// One of the two, by its name.
    pub fn side(&self, name: &str) -> Option<&Side> {
        self.sides.iter().find(|side| side.name == name)
    }

    /// The workloads whose files are prepared and whose cgroups are made: the two of a pair, else
    /// itself.
    pub fn each(&self) -> Vec<&Workload> {
        match self.sides.as_slice() {
            [] => vec![self],
            both => both.iter().map(|side| &side.workload).collect(),
        }
    }
}

/// What makes a pair this pair: both workloads, and their forms.
fn hash(both: &[Side]) -> String {
    let mut hasher = Sha256::new();
    for side in both {
        hasher.update(side.workload.hash.as_bytes());
        hasher.update((side.form.len() as u64).to_le_bytes());
        hasher.update(side.form.as_bytes());
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::manifest::FILE_NAME;

    /// Two workloads of two forms each, in folders.
    fn two() -> (tempfile::TempDir, String) {
        let root = tempfile::tempdir().unwrap();
        for (name, port, objective) in
            [("web", 8001, ""), ("job", 8002, "objective = \"throughput\"\n")]
        {
            let folder = root.path().join(name);
            fs::create_dir(&folder).unwrap();
            let form = |form: &str| {
                format!(
                    "[form.{form}]\nsummary = \"{form}\"\n{objective}\
                     [form.{form}.load]\ncommand = [\"true\"]\nreads = \"metrics\"\n"
                )
            };
            let manifest = format!(
                "schema = 1\nname = \"{name}\"\nsummary = \"{name}\"\n[param.port]\n\
                 default = {port}\n{}{}",
                form("zeta"),
                form("alpha")
            );
            fs::write(folder.join(FILE_NAME), manifest).unwrap();
        }
        let text = format!("{0}/web+{0}/job:alpha", root.path().display());
        (root, text)
    }

    fn set(name: &str, value: &str) -> Vec<(String, String)> {
        vec![(name.to_owned(), value.to_owned())]
    }

    #[test]
    fn a_pair_is_each_alone_and_both_at_once() {
        let (_root, text) = two();
        let pair = Workload::find(&text, &set("web.port", "9000"), true).unwrap();
        let forms: Vec<&str> = pair.manifest.forms.iter().map(|form| form.name.as_str()).collect();
        assert_eq!(forms, ["web", "job", BOTH]);
        assert_eq!(pair.manifest.forms[2].parts, ["web", "job"]);
        assert_eq!(pair.manifest.forms[1].objective(), Objective::Throughput);
        assert_eq!(pair.manifest.forms[2].objective(), Objective::Parts);
        assert_eq!(pair.params["web.port"], "9000");
        assert_eq!(pair.side("job").unwrap().form, "alpha");
        assert_eq!(pair.side("web").unwrap().form, "zeta");
        assert_eq!(pair.each().len(), 2);
        // Another form or another value is another pair.
        let other = Workload::find(&text.replace(":alpha", ""), &set("web.port", "9000"), true);
        assert_ne!(other.unwrap().hash, pair.hash);
        assert_ne!(Workload::find(&text, &[], true).unwrap().hash, pair.hash);
    }

    #[test]
    fn what_is_no_pair_is_refused_with_what_to_do() {
        let (root, text) = two();
        let web = format!("{}/web", root.path().display());
        let cases = [
            (format!("{web}+{web}"), vec![], "both are the same"),
            (format!("{text}+{web}"), vec![], "it is of 3"),
            (format!("{web}+nosuch"), vec![], "find the workload 'nosuch'"),
            (format!("{web}:gamma+{web}"), vec![], "form 'gamma'"),
            (text.clone(), set("port", "1"), "no such parameter"),
            (text.clone(), set("web.port", "8002"), "--set job.port=NUMBER"),
        ];
        for (text, settings, words) in cases {
            let error = Workload::find(&text, &settings, true).unwrap_err();
            assert_eq!(error.kind, Kind::BadInput, "{error}");
            assert!(error.to_string().contains(words), "{words}: {error}");
        }
    }
}

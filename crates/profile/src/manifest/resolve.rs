use std::collections::{BTreeMap, BTreeSet};

use metasched_base::{Error, Kind, Result, nearest};

use super::{Form, Manifest, Process, Side, hash};

/// A workload ready to be measured: its manifest with every parameter decided.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The manifest.
    pub manifest: Manifest,
    /// The value of every parameter, `auto` resolved.
    pub params: BTreeMap<String, String>,
    /// Whether the CPU that it will run on is emulated in software.
    pub emulated: bool,
    /// The hash of its files and parameters: what makes it this workload.
    pub hash: String,
    /// The hash of its files and of the parameters that preparing depends on: workloads that have this
    /// in common use the same prepared and staged files.
    pub prepared_hash: String,
    /// The two that it is of, where it is a pair.
    pub sides: Vec<Side>,
}

/// Reads `name=value` as `--set` takes it.
pub fn parse_setting(text: &str) -> Result<(String, String)> {
    metasched_base::parse_pair(text, "a parameter", "--set encoder=lsa")
}

impl Workload {
    /// Decides every parameter: what `settings` say, else the default, and what
    /// `auto` stands for on an emulated or a real CPU.
    pub fn resolve(
        manifest: Manifest,
        settings: &[(String, String)],
        emulated: bool,
    ) -> Result<Workload> {
        let mut params = BTreeMap::new();
        for (name, param) in &manifest.params {
            params.insert(name.clone(), param.default.clone());
        }
        for (name, value) in settings {
            let attempt = || format!("set '{name}={value}' for '{}'", manifest.name);
            let Some(param) = manifest.params.get(name) else {
                let names: Vec<&str> = manifest.params.keys().map(String::as_str).collect();
                let remedy = match nearest(name, names.iter().copied()) {
                    Some(near) => format!("did you mean '{near}'?"),
                    None if names.is_empty() => "this workload has no parameters".to_owned(),
                    None => format!("its parameters are {}", names.join(", ")),
                };
                return Err(Error::new(Kind::BadInput, attempt(), "there is no such parameter")
                    .remedy(remedy));
            };
            if !param.choices.is_empty() && !param.choices.contains(value) {
                return Err(Error::new(Kind::BadInput, attempt(), "it cannot have that value")
                    .remedy(format!("the choices are {}", param.choices.join(", "))));
            }
            params.insert(name.clone(), value.clone());
        }
        for (name, param) in &manifest.params {
            if let (Some(auto), Some("auto")) = (&param.auto, params.get(name).map(String::as_str))
            {
                let value = if emulated { &auto.emulated } else { &auto.native };
                params.insert(name.clone(), value.clone());
            }
        }
        let hash = hash::workload(&manifest.folder, &manifest.uses, &params)?;
        let needed = |name: &String| manifest.is_prepared_for(name);
        let of_prepared = params.iter().filter(|(name, _)| needed(name));
        let of_prepared = of_prepared.map(|(name, value)| (name.clone(), value.clone())).collect();
        let prepared_hash = hash::workload(&manifest.folder, &manifest.uses, &of_prepared)?;
        Ok(Workload { manifest, params, emulated, hash, prepared_hash, sides: Vec::new() })
    }

    /// The processes of a form that these parameters ask for.
    pub fn processes<'a>(&'a self, form: &'a Form) -> impl Iterator<Item = &'a Process> {
        form.processes.iter().filter(|process| {
            process.when.iter().all(|(name, allowed)| {
                self.params.get(name).is_some_and(|value| allowed.contains(value))
            })
        })
    }

    /// The cgroups, below the workload's, in which a part of the form `whole` runs: those
    /// of the part's own form that the whole has too. Empty where it runs in none of
    /// its own, as with all parts in one process.
    pub fn part_cgroups(&self, part: &str, whole: &str) -> BTreeSet<&str> {
        let of = |name: &str| -> BTreeSet<&str> {
            let form = self.manifest.forms.iter().find(|form| form.name == name);
            let processes = form.into_iter().flat_map(|form| self.processes(form));
            processes.map(|process| process.cgroup.as_str()).collect()
        };
        of(part).intersection(&of(whole)).copied().collect()
    }

    /// The parameters as environment variables; for preparing and staging only those that these depend on.
    pub fn param_variables(&self, to_prepare: bool) -> impl Iterator<Item = (String, String)> {
        let wanted = move |name: &String| !to_prepare || self.manifest.is_prepared_for(name);
        self.params.iter().filter(move |(name, _)| wanted(name)).map(|(name, value)| {
            (format!("METASCHED_PARAM_{}", variable_part(name)), value.clone())
        })
    }
}

/// A parameter's name as part of a variable's.
pub(super) fn variable_part(param: &str) -> String {
    param.to_ascii_uppercase().replace('-', "_")
}

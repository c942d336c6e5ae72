//! From TOML to a manifest: everything that can be wrong is told with its line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use metasched_base::{Error, Result};
use nix::sys::signal::Signal;
use toml::Spanned;

use super::expand::variables;
use super::{Auto, Form, Load, Manifest, Param, Probe, Process, Reader, Ready, Step, raw};

/// The one schema of manifests so far.
const SCHEMA: i64 = 1;

/// Longer than any step that a person would wait for; keeps typing errors out.
const MAX_TIMEOUT_S: f64 = 86_400.0;

const DEFAULT_STOP_GRACE: Duration = Duration::from_secs(5);

/// Where the text is, to name lines in errors.
struct ManifestText<'a>(metasched_base::Place<'a>);

const ATTEMPT: &str = "read the manifest";

impl ManifestText<'_> {
    fn error(&self, offset: usize, cause: impl std::fmt::Display) -> Error {
        self.0.error(ATTEMPT, offset, cause)
    }

    fn command(&self, command: Spanned<Vec<String>>) -> Result<Vec<String>> {
        let at = command.span().start;
        let command = command.into_inner();
        if command.first().is_none_or(|program| program.trim().is_empty()) {
            return Err(self
                .error(at, "the command is empty")
                .remedy("write it as a list, such as command = [\"bash\", \"run.sh\"]"));
        }
        Ok(command)
    }

    fn seconds(&self, value: &Spanned<f64>, what: &str) -> Result<Duration> {
        let seconds = *value.get_ref();
        if !(seconds > 0.0 && seconds <= MAX_TIMEOUT_S) {
            return Err(self
                .error(value.span().start, format!("{what} = {seconds} is not a usable time"))
                .remedy(format!("give seconds, more than 0 and at most {MAX_TIMEOUT_S}")));
        }
        Ok(Duration::from_secs_f64(seconds))
    }

    /// Names become parts of paths and of environment variables.
    fn name(&self, name: &str, at: usize, what: &str) -> Result<String> {
        let good = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c));
        if good {
            return Ok(name.to_owned());
        }
        Err(self
            .error(at, format!("'{name}' cannot name a {what}"))
            .remedy("use lower-case letters, digits, '-' and '_', with a letter first"))
    }

    /// A value as a string, whatever simple type it was written in.
    fn scalar(&self, value: &Spanned<toml::Value>) -> Result<String> {
        match value.get_ref() {
            toml::Value::String(text) => Ok(text.clone()),
            toml::Value::Integer(number) => Ok(number.to_string()),
            toml::Value::Float(number) => Ok(number.to_string()),
            toml::Value::Boolean(truth) => Ok(truth.to_string()),
            other => Err(self
                .error(
                    value.span().start,
                    format!(
                        "a value is a string, a number, true or false, not a {}",
                        other.type_str()
                    ),
                )
                .remedy("write one value")),
        }
    }

    /// Every `$METASCHED_…` must be one that the tool sets, or a parameter's.
    fn text(&self, text: &Spanned<String>, params: &BTreeMap<String, Param>) -> Result<String> {
        for variable in variables(text.get_ref()) {
            let Some(name) = variable.strip_prefix("METASCHED_") else { continue };
            const KNOWN: [&str; 6] = ["WORKLOAD", "CACHE", "RUN", "DURATION_S", "EMULATED", "CPUS"];
            let known = KNOWN.contains(&name)
                || name.strip_prefix("PARAM_").is_some_and(|param| {
                    params.keys().any(|key| super::resolve::variable_part(key) == param)
                });
            if !known {
                return Err(self
                    .error(text.span().start, format!("there is no variable {variable}"))
                    .remedy(format!(
                        "there are METASCHED_{} and METASCHED_PARAM_NAME for every parameter",
                        KNOWN.join(", METASCHED_")
                    )));
            }
        }
        Ok(text.get_ref().clone())
    }
}

/// Reads and checks a manifest.
pub(super) fn manifest(path: &Path, text: &str, folder: PathBuf) -> Result<Manifest> {
    let place = ManifestText(metasched_base::Place { path: &path.to_string_lossy(), text });
    let raw: raw::Manifest = place.0.toml(ATTEMPT, "correct that line")?;
    if *raw.schema.get_ref() != SCHEMA {
        return Err(place
            .error(raw.schema.span().start, format!("schema {} is not known", raw.schema.get_ref()))
            .remedy(format!("this metasched reads schema = {SCHEMA}")));
    }
    let name = place.name(raw.name.get_ref(), raw.name.span().start, "workload")?;
    let uses =
        raw.uses.iter().map(|name| used(&place, &folder, name)).collect::<Result<Vec<_>>>()?;
    let mut params = BTreeMap::new();
    for (key, value) in raw.param {
        let name = place.name(key.get_ref(), key.span().start, "parameter")?;
        params.insert(name, param(&place, value)?);
    }
    let step = |command: Spanned<Vec<String>>, timeout_s: &Spanned<f64>| -> Result<Step> {
        let timeout = place.seconds(timeout_s, "timeout_s")?;
        Ok(Step { timeout, command: place.command(command)? })
    };
    let (mut prepare, mut prepare_params) = (None, None);
    if let Some(raw) = raw.prepare {
        prepare = Some(step(raw.command, &raw.timeout_s)?);
        let known = |name: Spanned<String>| -> Result<String> {
            if !params.contains_key(name.get_ref()) {
                let names: Vec<&str> = params.keys().map(String::as_str).collect();
                return Err(place
                    .error(name.span().start, format!("there is no parameter '{}'", name.get_ref()))
                    .remedy(format!("the parameters are {}", names.join(", "))));
            }
            Ok(name.into_inner())
        };
        let names =
            raw.params.map(|names| names.into_iter().map(known).collect::<Result<Vec<_>>>());
        prepare_params = names.transpose()?;
    }
    let stage = raw.stage.map(|raw| step(raw.command, &raw.timeout_s)).transpose()?;
    let mut forms = Vec::new();
    let names: Vec<String> = raw.form.keys().map(|key| key.get_ref().clone()).collect();
    for (key, value) in in_order(raw.form) {
        let own = key.get_ref();
        if let Some(part) =
            value.parts.iter().find(|p| p.get_ref() == own || !names.contains(p.get_ref()))
        {
            return Err(place
                .error(part.span().start, format!("'{}' is not another form", part.get_ref()))
                .remedy(format!("the forms are {}", names.join(", "))));
        }
        forms.push(form(&place, &key, value, &params)?);
    }
    if forms.is_empty() {
        return Err(place
            .error(text.len(), "there is no form")
            .remedy("add a table such as [form.full] with a [form.full.load]"));
    }
    Ok(Manifest {
        name,
        summary: raw.summary,
        folder,
        uses,
        params,
        prepare,
        prepare_params,
        stage,
        forms,
    })
}

/// A folder beside the workload's, by its name.
fn used(place: &ManifestText, folder: &Path, raw: &Spanned<String>) -> Result<PathBuf> {
    let at = raw.span().start;
    let name = place.name(raw.get_ref(), at, "folder")?;
    let used = folder.with_file_name(&name);
    if used.is_dir() {
        return Ok(used);
    }
    Err(place
        .error(at, format!("there is no folder '{}'", used.display()))
        .remedy("'uses' names folders that lie beside the workload's own"))
}

fn param(place: &ManifestText, raw: raw::Param) -> Result<Param> {
    let choices: Vec<String> =
        raw.choices.iter().map(|choice| place.scalar(choice)).collect::<Result<_>>()?;
    let chosen = |value: &Spanned<toml::Value>| -> Result<String> {
        let text = place.scalar(value)?;
        if !choices.is_empty() && !choices.contains(&text) {
            return Err(place
                .error(value.span().start, format!("'{text}' is not among the choices"))
                .remedy(format!("the choices are {}", choices.join(", "))));
        }
        Ok(text)
    };
    let default = chosen(&raw.default)?;
    let auto = match &raw.auto {
        None => None,
        Some(auto) => {
            let rule = Auto {
                emulated: chosen(&auto.get_ref().emulated)?,
                native: chosen(&auto.get_ref().native)?,
            };
            if rule.emulated == "auto" || rule.native == "auto" {
                return Err(place
                    .error(auto.span().start, "'auto' cannot stand for itself")
                    .remedy("name the values that it stands for"));
            }
            Some(rule)
        }
    };
    Ok(Param { default, choices, auto, help: raw.help })
}

fn form(
    place: &ManifestText,
    key: &Spanned<String>,
    raw: raw::Form,
    params: &BTreeMap<String, Param>,
) -> Result<Form> {
    let at = key.span().start;
    let name = place.name(key.get_ref(), at, "form")?;
    let mut processes = Vec::new();
    for (key, value) in in_order(raw.process) {
        processes.push(process(place, &key, value, params)?);
    }
    let load = match raw.load {
        Some(load) => Load {
            command: place.command(load.command)?,
            cgroup: cgroup(place, load.cgroup.as_ref(), "load")?,
            env: environment(place, &load.env, params)?,
            reads: load.reads,
            timeout: match &load.timeout_s {
                None => None,
                Some(timeout) => Some(place.seconds(timeout, "timeout_s")?),
            },
            given: None,
        },
        // A workload that is only a command: it is itself what is run each time.
        None if processes.len() == 1 && processes[0].ready.is_none() => {
            let only = processes.remove(0);
            Load {
                command: only.command,
                cgroup: only.cgroup,
                env: only.env,
                reads: Reader::Elapsed,
                timeout: None,
                given: None,
            }
        }
        None => {
            return Err(place
                .error(at, format!("the form '{name}' has no load"))
                .remedy(format!("add a table [form.{name}.load] with command and reads")));
        }
    };
    let parts = raw.parts.into_iter().map(Spanned::into_inner).collect();
    let objective = raw.objective.map(|said| {
        let at = said.span().start;
        said.get_ref().parse().map_err(|e| place.error(at, e))
    });
    let (summary, unit, objective) = (raw.summary, raw.unit, objective.transpose()?);
    Ok(Form { name, summary, unit, objective, parts, processes, load })
}

fn process(
    place: &ManifestText,
    key: &Spanned<String>,
    raw: raw::Process,
    params: &BTreeMap<String, Param>,
) -> Result<Process> {
    let name = place.name(key.get_ref(), key.span().start, "process")?;
    let stop = match &raw.stop {
        None => Signal::SIGTERM,
        Some(text) => Signal::from_str(text.get_ref()).map_err(|_| {
            place
                .error(text.span().start, format!("there is no signal '{}'", text.get_ref()))
                .remedy("write it like \"SIGTERM\" or \"SIGINT\"")
        })?,
    };
    let mut when = BTreeMap::new();
    for (key, value) in &raw.when {
        let (name, allowed) = condition(place, key, value, params)?;
        when.insert(name, allowed);
    }
    Ok(Process {
        cgroup: cgroup(place, raw.cgroup.as_ref(), &name)?,
        env: environment(place, &raw.env, params)?,
        ready: raw.ready.map(|ready| self::ready(place, ready, params)).transpose()?,
        stop_grace: match &raw.stop_grace_s {
            None => DEFAULT_STOP_GRACE,
            Some(grace) => place.seconds(grace, "stop_grace_s")?,
        },
        command: place.command(raw.command)?,
        name,
        when,
        stop,
    })
}

/// One entry of `when`: a parameter and the value or values that it must have.
fn condition(
    place: &ManifestText,
    key: &Spanned<String>,
    value: &Spanned<toml::Value>,
    params: &BTreeMap<String, Param>,
) -> Result<(String, Vec<String>)> {
    let Some(param) = params.get(key.get_ref()) else {
        let names: Vec<&str> = params.keys().map(String::as_str).collect();
        return Err(place
            .error(key.span().start, format!("'when' names no parameter: '{}'", key.get_ref()))
            .remedy(if names.is_empty() {
                format!("declare it in a table [param.{}]", key.get_ref())
            } else {
                format!("the parameters are {}", names.join(", "))
            }));
    };
    let values = match value.get_ref() {
        toml::Value::Array(values) => values.clone(),
        one => vec![one.clone()],
    };
    let mut allowed = Vec::new();
    for one in values {
        let text = place.scalar(&Spanned::new(value.span(), one))?;
        if !param.choices.is_empty() && !param.choices.contains(&text) {
            return Err(place
                .error(value.span().start, format!("'{}' can never be '{text}'", key.get_ref()))
                .remedy(format!("its choices are {}", param.choices.join(", "))));
        }
        allowed.push(text);
    }
    Ok((key.get_ref().clone(), allowed))
}

fn ready(
    place: &ManifestText,
    raw: Spanned<raw::Ready>,
    params: &BTreeMap<String, Param>,
) -> Result<Ready> {
    let at = raw.span().start;
    let raw = raw.into_inner();
    let timeout = place.seconds(&raw.timeout_s, "timeout_s")?;
    let probe = match (raw.http, raw.command, raw.file) {
        (Some(address), None, None) => {
            let checked = place.text(&address, params)?;
            if !checked.starts_with("http://") {
                return Err(place
                    .error(address.span().start, format!("'{checked}' is not an http address"))
                    .remedy("write it like \"http://127.0.0.1:8099/ready\""));
            }
            Probe::Http(checked)
        }
        (None, Some(command), None) => Probe::Command(place.command(command)?),
        (None, None, Some(file)) => Probe::File(place.text(&file, params)?),
        _ => {
            return Err(place
                .error(at, "'ready' needs exactly one of http, command and file")
                .remedy("keep the one that tells when the process can be used"));
        }
    };
    Ok(Ready { probe, timeout })
}

fn cgroup(place: &ManifestText, name: Option<&Spanned<String>>, default: &str) -> Result<String> {
    match name {
        None => Ok(default.to_owned()),
        Some(name) => place.name(name.get_ref(), name.span().start, "cgroup"),
    }
}

fn environment(
    place: &ManifestText,
    raw: &BTreeMap<String, Spanned<String>>,
    params: &BTreeMap<String, Param>,
) -> Result<BTreeMap<String, String>> {
    raw.iter().map(|(name, value)| Ok((name.clone(), place.text(value, params)?))).collect()
}

/// The entries of a table in the order of the file.
fn in_order<T>(table: raw::Table<T>) -> Vec<(Spanned<String>, T)> {
    let mut entries: Vec<_> = table.into_iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

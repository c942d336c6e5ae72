use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_host::process::{Child, Output, StopPlan, Watched, Woken, wait};

use super::step::{command, ended, interrupted, last_lines, outcome, quoted};
use super::{Group, Site, http};
use crate::manifest::{Form, Probe, Process, Ready, Workload, expand};

/// Between two questions whether a process is ready.
const READY_POLL: Duration = Duration::from_millis(100);

/// How long a readiness command may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// A form of a workload whose processes run.
///
/// Dropping it kills them all; [`Application::stop`] asks them first.
#[derive(Debug)]
pub struct Application<'a> {
    pub(super) workload: &'a Workload,
    pub(super) form: &'a Form,
    pub(super) site: &'a Site,
    /// Every cgroup of the form by its name, the load's too.
    pub(super) groups: BTreeMap<String, Box<dyn Group>>,
    /// In the order in which they were started.
    pub(super) running: Vec<Running>,
    pub(super) scratch: PathBuf,
}

/// A process of the application.
#[derive(Debug)]
pub(super) struct Running {
    name: String,
    pub(super) cgroup: String,
    child: Child,
    pub(super) watched: Watched,
    log: PathBuf,
    stop: StopPlan,
}

impl<'a> Application<'a> {
    /// Starts the processes of a form, each when the one before it is ready.
    ///
    /// Errors: one that ends at once or does not get ready in its time, with what it
    /// said last.
    pub fn start(workload: &'a Workload, form: &'a Form, site: &'a Site) -> Result<Self> {
        let scratch = site.scratch(workload);
        let logs = scratch.join("log").join(&form.name);
        fs::create_dir_all(&logs)
            .attempt(Kind::Failed, || format!("make the folder '{}'", logs.display()))?;
        let mut application =
            Self { workload, form, site, groups: BTreeMap::new(), running: Vec::new(), scratch };
        for process in workload.processes(form) {
            application.start_process(process, logs.join(format!("{}.log", process.name)))?;
        }
        application.group(&form.load.cgroup)?;
        Ok(application)
    }

    /// The form that runs.
    pub fn form(&self) -> &Form {
        self.form
    }

    /// An error if one of the processes has ended.
    pub fn check(&mut self) -> Result<()> {
        let place = {
            let watched: Vec<&Watched> = self.running.iter().map(|r| &r.watched).collect();
            wait(&watched, Duration::ZERO, &[])?
        };
        match place {
            Woken::Ended(place) => Err(self.died(place)),
            _ => Ok(()),
        }
    }

    /// Asks the processes to stop, the last first, then kills what is left.
    pub fn stop(mut self) -> Result<()> {
        let mut result = Ok(());
        while let Some(mut running) = self.running.pop() {
            let stopped = running.child.stop(&running.stop).map(|_| ());
            result = result.and(stopped);
        }
        result.and(self.end())
    }

    fn end(&mut self) -> Result<()> {
        self.running.clear();
        let mut result = Ok(());
        for group in std::mem::take(&mut self.groups).into_values() {
            result = result.and(group.kill());
        }
        result
    }

    pub(super) fn group(&mut self, name: &str) -> Result<&dyn Group> {
        if !self.groups.contains_key(name) {
            let group = self.site.groups.group(&self.workload.manifest.name, name)?;
            self.groups.insert(name.to_owned(), group);
        }
        Ok(self.groups[name].as_ref())
    }

    /// The variables of a command, those of the manifest's `env` among them.
    pub(super) fn variables(
        &self,
        env: &BTreeMap<String, String>,
        duration: Duration,
    ) -> Result<BTreeMap<String, String>> {
        let mut variables = self.site.variables(self.workload, duration);
        for (name, value) in env {
            let value = expand(value, |name| lookup(&variables, name))?;
            variables.insert(name.clone(), value);
        }
        Ok(variables)
    }

    fn start_process(&mut self, process: &Process, log: PathBuf) -> Result<()> {
        let variables = self.variables(&process.env, Duration::ZERO)?;
        let ready = match &process.ready {
            Some(ready) => Some((self.probe(ready, &variables)?, ready)),
            None => None,
        };
        if let Some((Probe::File(path), _)) = &ready {
            self.forget_earlier(path)?;
        }
        let spawn = command(&process.command, &self.workload.manifest.folder, &variables)
            .stdout(Output::File(log.clone()))
            .stderr(Output::Append(log.clone()));
        let child = self.group(&process.cgroup)?.place(spawn).start()?;
        self.running.push(Running {
            name: process.name.clone(),
            cgroup: process.cgroup.clone(),
            watched: Watched::new(child.pid())?,
            child,
            log,
            stop: StopPlan { steps: vec![(process.stop, process.stop_grace)] },
        });
        match ready {
            Some((probe, ready)) => self.until_ready(process, &probe, ready.timeout, &variables),
            None => Ok(()),
        }
    }

    /// Removes what an earlier start left behind, which would be taken for this one's.
    /// Outside the scratch folder nothing is ours to remove.
    fn forget_earlier(&self, path: &str) -> Result<()> {
        let path = self.workload.manifest.folder.join(path);
        if !path.starts_with(&self.scratch) {
            return Ok(());
        }
        match fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(e).attempt(Kind::Failed, || format!("remove the earlier '{}'", path.display()))
            }
            _ => Ok(()),
        }
    }

    fn until_ready(
        &mut self,
        process: &Process,
        probe: &Probe,
        timeout: Duration,
        variables: &BTreeMap<String, String>,
    ) -> Result<()> {
        let end = Instant::now() + timeout;
        loop {
            let Err(answer) = self.ask(probe, variables) else { return Ok(()) };
            let woken = {
                let watched: Vec<&Watched> = self.running.iter().map(|r| &r.watched).collect();
                wait(&watched, READY_POLL, &[&self.site.interrupt])?
            };
            match woken {
                Woken::Interrupted => {
                    return Err(interrupted(&self.attempt(&process.name)));
                }
                Woken::Ended(place) => return Err(self.died(place)),
                Woken::Timeout if Instant::now() >= end => {
                    let log = self.running.last().map(|r| r.log.clone()).unwrap_or_default();
                    return Err(Error::new(
                        Kind::Timeout,
                        self.attempt(&process.name),
                        format!(
                            "it was not ready after {} s ({answer}){}",
                            timeout.as_secs_f64(),
                            quoted(&last_lines(&log))
                        ),
                    )
                    .remedy(format!(
                        "see '{}', or raise ready.timeout_s in the manifest",
                        log.display()
                    )));
                }
                Woken::Timeout => {}
            }
        }
    }

    /// The probe with its variables replaced.
    fn probe(&self, ready: &Ready, variables: &BTreeMap<String, String>) -> Result<Probe> {
        let expand = |text: &String| expand(text, |name| lookup(variables, name));
        Ok(match &ready.probe {
            Probe::Http(address) => Probe::Http(expand(address)?),
            Probe::File(path) => Probe::File(expand(path)?),
            Probe::Command(words) => {
                Probe::Command(words.iter().map(expand).collect::<Result<_>>()?)
            }
        })
    }

    /// Whether the process is ready; the error is what it answered instead.
    fn ask(&self, probe: &Probe, variables: &BTreeMap<String, String>) -> Result<(), String> {
        let folder = &self.workload.manifest.folder;
        match probe {
            Probe::Http(address) => http::get(address),
            Probe::File(path) if folder.join(path).exists() => Ok(()),
            Probe::File(path) => Err(format!("there is no file '{path}'")),
            Probe::Command(words) => {
                let status = command(words, folder, variables)
                    .start()
                    .and_then(|mut child| child.wait(PROBE_TIMEOUT))
                    .map_err(|e| e.to_string())?;
                match status {
                    Some(status) if status.success() => Ok(()),
                    Some(status) => Err(format!("'{}': {}", words.join(" "), outcome(status))),
                    None => Err(format!("'{}' does not end", words.join(" "))),
                }
            }
        }
    }

    fn attempt(&self, process: &str) -> String {
        let name = &self.workload.manifest.name;
        format!("start '{process}' of the workload '{name}' (form '{}')", self.form.name)
    }

    /// The error that says that a process has ended.
    pub(super) fn died(&mut self, place: usize) -> Error {
        let running = &mut self.running[place];
        let how = match ended(&mut running.child) {
            Ok(status) => outcome(status),
            Err(e) => e.to_string(),
        };
        let cause = format!(
            "'{}' ended by itself with {how}{}",
            running.name,
            quoted(&last_lines(&running.log))
        );
        let remedy = format!("see '{}'", running.log.display());
        let name = &self.workload.manifest.name;
        let what = format!("keep the workload '{name}' (form '{}') running", self.form.name);
        Error::new(Kind::Failed, what, cause).remedy(remedy)
    }

    /// A file of the form's in the scratch folder.
    pub(super) fn log(&self, name: &str) -> PathBuf {
        Path::new(&self.scratch).join("log").join(&self.form.name).join(name)
    }
}

impl Drop for Application<'_> {
    fn drop(&mut self) {
        // The error has no receiver here: `stop` reports it.
        let _ = self.end();
    }
}

/// A variable that the manifest may use: ours, else the environment's.
fn lookup(variables: &BTreeMap<String, String>, name: &str) -> Option<String> {
    variables.get(name).cloned().or_else(|| std::env::var(name).ok())
}

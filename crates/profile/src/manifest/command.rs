//! A workload without a manifest: a command that the user gave.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use metasched_base::{Error, Kind, Result};
use nix::unistd::{AccessFlags, access};

use super::{Form, Load, Manifest, Reader, Workload, hash};

/// The name of its only form, and of its cgroup.
const FORM: &str = "command";

/// A run of a command that hangs has to end some time; nobody waits for longer.
const TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// So much of the hash tells commands of one program apart in the store.
const HASH_DIGITS: usize = 8;

/// Longer names of programs are cut.
const PROGRAM_CHARS: usize = 24;

/// What goes with a command that the user gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// What a shell runs before each run, uncounted.
    pub prepare: Option<String>,
    /// Whether its output is shown, instead of discarded.
    pub show_output: bool,
    /// Whether runs count that end with another exit status than 0.
    pub ignore_failure: bool,
}

/// The source of the error for a command that failed: its exit status.
#[derive(Clone, Copy, Debug)]
pub struct CommandFailed(pub ExitStatus);

impl fmt::Display for CommandFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for CommandFailed {}

impl Workload {
    /// A workload whose only form is this command (at least a program), in this folder. Its name
    /// and its hash follow from the words, the folder and what prepares a run, so that figures of
    /// different commands are never taken for each other's.
    pub fn of_command(words: &[String], folder: &Path, given: Given, emulated: bool) -> Workload {
        let mut params = BTreeMap::from([
            ("command".to_owned(), words.join(" ")),
            ("folder".to_owned(), folder.display().to_string()),
            ("ignore-failure".to_owned(), given.ignore_failure.to_string()),
        ]);
        params.extend(given.prepare.clone().map(|prepare| ("prepare".to_owned(), prepare)));
        let hash = hash::command(words, &params);
        let name = format!("{}-{}", program_name(&words[0]), &hash[..HASH_DIGITS]);
        let load = Load {
            command: words.to_vec(),
            cgroup: FORM.to_owned(),
            env: BTreeMap::new(),
            reads: Reader::Elapsed,
            timeout: Some(TIMEOUT),
            given: Some(given),
        };
        let form = Form {
            name: FORM.to_owned(),
            summary: "the command, once".to_owned(),
            unit: "runs".to_owned(),
            objective: None,
            parts: Vec::new(),
            processes: Vec::new(),
            load,
        };
        let manifest = Manifest {
            name,
            summary: words.join(" "),
            folder: folder.to_owned(),
            uses: Vec::new(),
            params: BTreeMap::new(),
            prepare: None,
            prepare_params: None,
            stage: None,
            forms: vec![form],
        };
        let prepared_hash = hash.clone();
        Workload { manifest, params, emulated, hash, prepared_hash, sides: Vec::new() }
    }

    /// Whether it is a command that the user gave.
    pub fn is_command(&self) -> bool {
        self.manifest.forms.iter().any(|form| form.load.given.is_some())
    }
}

/// The program's name as a part of a workload's, which begins with a letter.
fn program_name(program: &str) -> String {
    let file = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let name: String = file
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .skip_while(|c| !c.is_ascii_lowercase())
        .take(PROGRAM_CHARS)
        .collect();
    if name.is_empty() { FORM.to_owned() } else { name }
}

/// An error if this program cannot be executed, looked for in the folders of `path` as a shell
/// does. Known before anything is stopped or started.
pub fn check_program(program: &str, path: &OsStr) -> Result<()> {
    let places: Vec<PathBuf> = match program.contains('/') {
        true => vec![program.into()],
        false => std::env::split_paths(path).map(|folder| folder.join(program)).collect(),
    };
    let found: Vec<PathBuf> = places.into_iter().filter(|place| place.exists()).collect();
    if found.iter().any(|p| p.is_file() && access(p, AccessFlags::X_OK).is_ok()) {
        return Ok(());
    }
    let attempt = format!("run '{program}'");
    Err(match found.first() {
        None => Error::new(Kind::NoSuchCommand, attempt, "there is no such program").remedy(
            "is it installed, and on PATH? What a shell has to read is given as: -- sh -c '...'",
        ),
        Some(place) => {
            let cause = format!("'{}' cannot be executed", place.display());
            Error::new(Kind::NotExecutable, attempt, cause)
                .remedy("name a program, or make it one with: chmod +x")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn workload(words: &[&str], folder: &str, prepare: Option<&str>) -> Workload {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let given = Given { prepare: prepare.map(str::to_owned), ..Given::default() };
        Workload::of_command(&words, Path::new(folder), given, false)
    }

    #[test]
    fn a_command_is_a_workload_of_one_form_whose_figure_is_its_run_time() {
        let make = workload(&["/usr/bin/Make.real", "-j4"], "/src", None);
        assert!(make.manifest.name.starts_with("make-real-"), "{}", make.manifest.name);
        assert_eq!(make.manifest.folder, Path::new("/src"));
        let [form] = make.manifest.forms.as_slice() else { panic!("{:?}", make.manifest.forms) };
        assert_eq!(form.load.command, ["/usr/bin/Make.real", "-j4"]);
        assert_eq!((form.load.reads, form.unit.as_str()), (Reader::Elapsed, "runs"));
        assert!(make.is_command());
        assert!(workload(&["./7"], "/", None).manifest.name.starts_with("command-"));
    }

    #[test]
    fn what_differs_in_words_folder_or_preparation_differs_in_name_and_hash() {
        let one = workload(&["a", "b c"], "/src", None);
        assert_eq!(one.hash, workload(&["a", "b c"], "/src", None).hash);
        for other in [
            workload(&["a", "b", "c"], "/src", None),
            workload(&["a", "b c"], "/tmp", None),
            workload(&["a", "b c"], "/src", Some("sync")),
        ] {
            assert_ne!(one.hash, other.hash);
            assert_ne!(one.manifest.name, other.manifest.name);
        }
    }

    #[test]
    fn a_program_that_is_not_there_and_one_that_is_none_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str, mode| {
            let path = folder.path().join(name);
            std::fs::write(&path, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            path.display().to_string()
        };
        let (good, plain) = (place("good", 0o755), place("plain", 0o644));
        let kind = |program: &str| {
            check_program(program, folder.path().as_os_str()).map_err(|error| error.kind)
        };
        assert_eq!((kind("good"), kind(&good)), (Ok(()), Ok(())));
        assert_eq!(kind("plain"), Err(Kind::NotExecutable));
        assert_eq!(kind(&plain), Err(Kind::NotExecutable));
        assert_eq!(kind(&folder.path().display().to_string()), Err(Kind::NotExecutable));
        assert_eq!(kind("better"), Err(Kind::NoSuchCommand));
        assert_eq!(kind(&format!("{good}/no")), Err(Kind::NoSuchCommand));
    }
}

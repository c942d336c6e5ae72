//! What version an external scheduler is, without ever loading it.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use metasched_host::process::{Output, Spawn};
use sha2::{Digest, Sha256};

/// A scheduler that has not said its version by then is killed: it took the
/// option for something else, and might be about to load itself.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The versions that were asked for, kept between runs in a file of the cache.
pub(crate) struct Versions {
    file: PathBuf,
    known: BTreeMap<String, String>,
    changed: bool,
}

impl Versions {
    /// Reads what is known. A file that is missing or unreadable only means asking again.
    pub(crate) fn open(cache: &Path) -> Self {
        let file = cache.join("peers/versions.json");
        let known = std::fs::read_to_string(&file)
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        Self { file, known, changed: false }
    }

    /// The version of the program at `path`: what `--version` says; where it says
    /// nothing that looks like one, the beginning of its SHA-256.
    pub(crate) fn of(&mut self, path: &Path) -> String {
        let Ok(meta) = std::fs::metadata(path) else { return "unknown".to_owned() };
        let key =
            format!("{} {} {}.{:09}", path.display(), meta.len(), meta.mtime(), meta.mtime_nsec());
        if let Some(version) = self.known.get(&key) {
            return version.clone();
        }
        let version = ask(path).unwrap_or_else(|| digest(path));
        self.known.insert(key, version.clone());
        self.changed = true;
        version
    }
}

impl Drop for Versions {
    fn drop(&mut self) {
        if self.changed
            && let Ok(text) = serde_json::to_string_pretty(&self.known)
        {
            // The cache only saves time; without it the next run asks again.
            let temporary = self.file.with_extension(format!("{}", std::process::id()));
            let _ = std::fs::write(&temporary, text)
                .and_then(|()| std::fs::rename(&temporary, &self.file));
        }
    }
}

fn ask(path: &Path) -> Option<String> {
    let mut child = Spawn::new([path.to_str()?, "--version"])
        .stdout(Output::Tail(4096))
        .stderr(Output::Null)
        .start()
        .ok()?;
    if !child.wait(TIMEOUT).ok()??.success() {
        return None;
    }
    parse(&child.stdout_tail())
}

/// Finds the version in what `--version` printed: the first word that begins with a
/// digit and has a dot, without what describes the build.
fn parse(text: &str) -> Option<String> {
    let word = text
        .split_whitespace()
        .map(|word| word.trim_start_matches('v'))
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'))?;
    Some(word.trim_end_matches([',', ';', ')']).to_owned())
}

fn digest(path: &Path) -> String {
    match std::fs::read(path) {
        Ok(bytes) => {
            let hex: String =
                Sha256::digest(&bytes).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
            format!("sha256:{hex}")
        }
        Err(_) => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::script;

    #[test]
    fn the_version_is_the_first_word_that_looks_like_one() {
        assert_eq!(parse("scx_bpfland 1.1.4 x86_64-unknown-linux-gnu").as_deref(), Some("1.1.4"));
        assert_eq!(parse("scx_x version v2.0, 64 bit").as_deref(), Some("2.0"));
        assert_eq!(parse("Usage: scx_simple [-f] [-v]"), None);
    }

    #[test]
    fn a_program_that_has_no_version_is_told_apart_by_its_contents() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("peers")).unwrap();
        let path = script(folder.path(), "scx_mute", "echo usage >&2; exit 1");
        let version = Versions::open(folder.path()).of(&path);
        assert!(version.starts_with("sha256:"), "{version}");
        script(folder.path(), "scx_mute", "echo usage >&2; exit  1");
        assert_ne!(Versions::open(folder.path()).of(&path), version);
    }

    #[test]
    fn a_version_is_asked_once_and_again_when_the_program_changes() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("peers")).unwrap();
        let asked = folder.path().join("asked");
        let body = |v: &str| format!("echo x >> {}; echo scx_a {v}", asked.display());
        let path = script(folder.path(), "scx_a", &body("1.2.3"));
        for _ in 0..3 {
            assert_eq!(Versions::open(folder.path()).of(&path), "1.2.3");
        }
        assert_eq!(std::fs::read_to_string(&asked).unwrap(), "x\n");
        script(folder.path(), "scx_a", &body("1.2.30"));
        assert_eq!(Versions::open(folder.path()).of(&path), "1.2.30");
    }
}

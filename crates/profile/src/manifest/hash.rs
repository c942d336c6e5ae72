use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use metasched_base::{Kind, Result, ResultExt};
use sha2::{Digest, Sha256};

/// Folders that hold what running the workload leaves behind.
const LEFTOVERS: [&str; 2] = ["__pycache__", ".git"];

/// SHA-256 over all files of a workload's folder, of the folders that it uses, and its
/// parameters, in hexadecimal.
///
/// Names and lengths are hashed along, so that no two different folders give the
/// same stream of bytes.
pub(super) fn workload(
    folder: &Path,
    uses: &[PathBuf],
    params: &BTreeMap<String, String>,
) -> Result<String> {
    let mut hasher = Sha256::new();
    add_folder(&mut hasher, folder, "")?;
    for used in uses {
        let name = used.file_name().unwrap_or_default().to_string_lossy();
        add_folder(&mut hasher, used, &format!("../{name}/"))?;
    }
    for (name, value) in params {
        add(&mut hasher, b"param", name, value.as_bytes());
    }
    Ok(hexadecimal(hasher))
}

/// Likewise over a command's words and its parameters.
pub(super) fn command(words: &[String], params: &BTreeMap<String, String>) -> String {
    let mut hasher = Sha256::new();
    for word in words {
        add(&mut hasher, b"word", "", word.as_bytes());
    }
    for (name, value) in params {
        add(&mut hasher, b"param", name, value.as_bytes());
    }
    hexadecimal(hasher)
}

fn hexadecimal(hasher: Sha256) -> String {
    let mut text = String::new();
    for byte in hasher.finalize() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn add(hasher: &mut Sha256, kind: &[u8], name: &str, content: &[u8]) {
    hasher.update(kind);
    hasher.update((name.len() as u64).to_le_bytes());
    hasher.update(name.as_bytes());
    hasher.update((content.len() as u64).to_le_bytes());
    hasher.update(content);
}

fn add_folder(hasher: &mut Sha256, folder: &Path, prefix: &str) -> Result<()> {
    let attempt = || format!("read the workload's folder '{}'", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).attempt(Kind::BadInput, attempt)? {
        names.push(entry.attempt(Kind::BadInput, attempt)?.file_name());
    }
    names.sort();
    for name in names {
        let path = folder.join(&name);
        let name = name.to_string_lossy();
        if LEFTOVERS.contains(&name.as_ref()) || name.ends_with(".pyc") {
            continue;
        }
        let relative = format!("{prefix}{name}");
        let attempt = || format!("read '{}'", path.display());
        let kind = fs::symlink_metadata(&path).attempt(Kind::BadInput, attempt)?.file_type();
        if kind.is_dir() {
            add_folder(hasher, &path, &format!("{relative}/"))?;
        } else if kind.is_symlink() {
            let target = fs::read_link(&path).attempt(Kind::BadInput, attempt)?;
            add(hasher, b"link", &relative, target.to_string_lossy().as_bytes());
        } else if kind.is_file() {
            add(hasher, b"file", &relative, &fs::read(&path).attempt(Kind::BadInput, attempt)?);
        }
    }
    Ok(())
}

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use metasched_base::{Error, Kind, Result, nearest};

use super::{FILE_NAME, Manifest};

/// The folders that hold workloads, the first to be looked into first: `workloads`
/// here, beside the program or two levels above it (a build tree), and the system's.
fn folders() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("workloads")];
    if let Ok(program) = std::env::current_exe() {
        folders.extend(
            [1, 3].iter().filter_map(|up| Some(program.ancestors().nth(*up)?.join("workloads"))),
        );
    }
    folders.push(PathBuf::from("/usr/share/metasched/workloads"));
    folders
}

/// The folder of a workload, given its name or its path.
pub fn locate(workload: &str) -> Result<PathBuf> {
    locate_in(workload, &folders())
}

/// Every workload that can be found by its name: the name, and its manifest or what
/// is wrong with it.
pub fn available() -> BTreeMap<String, Result<Manifest>> {
    let mut found = BTreeMap::new();
    for (name, folder) in names(&folders()) {
        found.entry(name).or_insert_with(|| Manifest::read(&folder));
    }
    found
}

fn locate_in(workload: &str, folders: &[PathBuf]) -> Result<PathBuf> {
    let attempt = || format!("find the workload '{workload}'");
    if workload.contains('/') {
        let path = Path::new(workload);
        if path.file_name().is_some_and(|name| name == FILE_NAME)
            && let Some(folder) = path.parent()
        {
            return Ok(folder.to_owned());
        }
        if path.join(FILE_NAME).is_file() {
            return Ok(path.to_owned());
        }
        return Err(Error::new(Kind::BadInput, attempt(), "there is no manifest.toml in it")
            .remedy("give the folder that holds the workload's manifest.toml"));
    }
    if let Some(folder) = folders.iter().map(|f| f.join(workload)).find(|f| has_manifest(f)) {
        return Ok(folder);
    }
    let looked: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
    let known = names(folders);
    let known: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    let remedy = match nearest(workload, known.iter().copied()) {
        Some(near) => format!("did you mean '{near}'?"),
        None if known.is_empty() => "give the path of a workload's folder".to_owned(),
        None => format!("there are {}; or give the path of a workload's folder", known.join(", ")),
    };
    Err(Error::new(Kind::BadInput, attempt(), format!("it is not in {}", looked.join(", ")))
        .remedy(remedy))
}

fn has_manifest(folder: &Path) -> bool {
    folder.join(FILE_NAME).is_file()
}

/// The folders with a manifest, by name.
fn names(folders: &[PathBuf]) -> Vec<(String, PathBuf)> {
    let mut all: Vec<(String, PathBuf)> = folders
        .iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flat_map(|entries| entries.flatten())
        .filter(|entry| has_manifest(&entry.path()))
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .collect();
    // A stable sort: of two with one name, the one that is found first stays first.
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_found_by_name_and_by_path_and_a_slip_is_recognised() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("b/sleeper");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(FILE_NAME), "").unwrap();
        let folders = [root.path().join("a"), root.path().join("b")];
        assert_eq!(locate_in("sleeper", &folders).unwrap(), folder);
        let path = folder.to_str().unwrap();
        assert_eq!(locate_in(path, &[]).unwrap(), folder);
        assert_eq!(locate_in(&format!("{path}/{FILE_NAME}"), &[]).unwrap(), folder);
        let e = locate_in("sleper", &folders).unwrap_err();
        assert!(e.remedy.contains("'sleeper'"), "{e}");
        assert_eq!(locate_in("/nowhere/x", &folders).unwrap_err().kind, Kind::BadInput);
    }
}

use std::fs;
use std::path::{Path, PathBuf};

/// The entries of a folder that are named after processes that are no more: `prefix` and the
/// process's number. None where the folder cannot be read.
///
/// A process of another container is not seen in /proc, and counts as gone.
pub fn of_the_gone(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let gone = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(prefix)?.parse::<u32>().ok());
        pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(gone).map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_the_number_of_a_process_that_is_gone_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let ours = format!("metasched-{}", std::process::id());
        // The kernel gives no process so high a number.
        for name in [ours.as_str(), "metasched-4294967294", "metasched-x", "4294967294"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let found = of_the_gone(folder.path(), "metasched-");
        assert_eq!(found, [folder.path().join("metasched-4294967294")]);
        assert!(of_the_gone(&folder.path().join("none"), "metasched-").is_empty());
    }
}

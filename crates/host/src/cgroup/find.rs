//! A cgroup by what a user calls it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use metasched_base::{Error, Kind, Result};

use super::{Cgroup, MOUNT, is_plain};

/// Names of candidates that an error lists at most.
const LISTED: usize = 5;

impl Cgroup {
    /// The cgroup that a user means: a path below `/sys/fs/cgroup`, with or without
    /// that in front, or the last name of one if no other bears it, such as the name of
    /// a systemd unit. What has a '/' in it is a path, and is not searched for.
    ///
    /// # Errors
    /// `BadInput` where there is none, or more than one; `Unsupported` where it is not
    /// of cgroup v2, or its path is not UTF-8.
    pub fn find(root: &Path, name: &str) -> Result<Self> {
        let attempt = || format!("find the cgroup '{name}'");
        let mount = root.join(MOUNT);
        let inside = name
            .strip_prefix(&*mount.to_string_lossy())
            .or_else(|| name.strip_prefix("/sys/fs/cgroup"))
            .unwrap_or(name)
            .trim_matches('/');
        if !is_plain(inside) {
            return Err(Error::new(Kind::BadInput, attempt(), "it leaves the hierarchy")
                .remedy("write it like 'system.slice/nginx.service'"));
        }
        // Made of its parts: 'a//b' and 'a/./b' are no other names of 'a/b'.
        let mut path: PathBuf = mount.join(inside).components().collect();
        if !path.is_dir() && !name.contains('/') {
            let found = named(&mount, inside);
            path = match found.as_slice() {
                [only] => only.clone(),
                [] => path,
                many => {
                    let list: Vec<String> =
                        many.iter().take(LISTED).map(|path| relative(&mount, path)).collect();
                    let cause = format!("{} cgroups have that name", many.len());
                    return Err(Error::new(Kind::BadInput, attempt(), cause)
                        .remedy(format!("say which: {}", list.join(", "))));
                }
            };
        }
        if !path.is_dir() {
            return Err(Error::new(Kind::BadInput, attempt(), "there is none of that name")
                .remedy("'systemd-cgls' shows what there is; names are below /sys/fs/cgroup"));
        }
        if path.strip_prefix(&mount).unwrap_or(&path).to_str().is_none() {
            let cause = format!("the name of '{}' is not UTF-8", path.display());
            return Err(Error::new(Kind::Unsupported, attempt(), cause)
                .remedy("make it with another name, and those above it"));
        }
        if !path.join("cgroup.controllers").exists() {
            return Err(Error::new(
                Kind::Unsupported,
                attempt(),
                format!("'{}' is not of cgroup v2", path.display()),
            )
            .remedy(
                "lanes follow the unified hierarchy: boot with systemd.unified_cgroup_hierarchy=1",
            ));
        }
        Ok(Self { root: root.to_owned(), path })
    }

    /// Its path below the mount point: `system.slice/nginx.service`; empty for the root.
    /// One that was found is always called the same, however the user wrote it.
    pub fn name(&self) -> String {
        relative(&self.root.join(MOUNT), &self.path)
    }

    /// The names of cgroups by their ids, as [`Cgroup::name`] gives them; those that are
    /// there no more are left out.
    pub fn names_of(root: &Path, ids: &BTreeSet<u64>) -> BTreeMap<u64, String> {
        let mount = root.join(MOUNT);
        let mut names = BTreeMap::new();
        walk(&mount, |folder| {
            if let Ok(id) = fs::metadata(folder).map(|data| data.ino())
                && ids.contains(&id)
            {
                names.insert(id, relative(&mount, folder));
            }
            names.len() < ids.len()
        });
        names
    }

    /// Its `cpu.weight`, at least 1, which is what `cpu.idle` comes to: the kernel then
    /// gives the weight as 0. `None` where the cpu controller is not enabled for it.
    pub fn cpu_weight(&self) -> Option<u32> {
        let text = fs::read_to_string(self.path.join("cpu.weight")).ok()?;
        text.trim().parse().ok().map(|weight: u32| weight.max(1))
    }
}

/// The path below the mount point of the cgroup that a process is in, by its number or
/// `self`; `None` when that is the root, or the process or the cgroup is no more.
pub fn of_process(root: &Path, pid: &str) -> Option<String> {
    let text = fs::read_to_string(root.join("proc").join(pid).join("cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    (!path.is_empty() && !path.ends_with(" (deleted)")).then(|| path.to_owned())
}

fn relative(mount: &Path, path: &Path) -> String {
    path.strip_prefix(mount).unwrap_or(path).display().to_string()
}

/// Every folder of that name.
fn named(mount: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(mount, |folder| {
        if folder.file_name().is_some_and(|own| own == name) {
            found.push(folder.to_owned());
        }
        true
    });
    found.sort();
    found
}

/// Shows every folder below `mount`, until it is told that that is enough.
fn walk(mount: &Path, mut visit: impl FnMut(&Path) -> bool) {
    let mut open = vec![mount.to_owned()];
    while let Some(folder) = open.pop() {
        // One that vanishes meanwhile has nothing to find.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if !visit(&entry.path()) {
                    return;
                }
                open.push(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(paths: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for path in paths.iter().chain(&[""]) {
            let folder = root.path().join(MOUNT).join(path);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("cgroup.controllers"), "cpu\n").unwrap();
        }
        root
    }

    #[test]
    fn a_cgroup_is_found_by_its_path_however_it_is_written() {
        let root = tree(&["system.slice", "system.slice/nginx.service"]);
        for name in [
            "system.slice/nginx.service",
            "/system.slice/nginx.service/",
            "/sys/fs/cgroup/system.slice/nginx.service",
            "nginx.service",
            "system.slice//nginx.service",
            "system.slice/./nginx.service/.",
        ] {
            let found = Cgroup::find(root.path(), name).unwrap();
            assert_eq!(found.name(), "system.slice/nginx.service", "{name}");
        }
        assert_eq!(Cgroup::find(root.path(), "/").unwrap().name(), "");
        // A path is not searched for, however short.
        assert!(Cgroup::find(root.path(), "/nginx.service/").is_err());
    }

    #[test]
    fn ids_give_the_names_of_those_that_are_there() {
        let root = tree(&["a", "a/x", "b"]);
        let id = |name: &str| Cgroup::find(root.path(), name).unwrap().id().unwrap();
        let ids = [id("/a/x"), id("/b")].into();
        let names = Cgroup::names_of(root.path(), &ids);
        assert_eq!(names, [(id("/a/x"), "a/x".to_owned()), (id("/b"), "b".to_owned())].into());
        assert!(Cgroup::names_of(root.path(), &[1].into()).is_empty());
    }

    #[test]
    fn a_name_that_is_none_or_several_is_refused() {
        let root = tree(&["a", "a/x", "b", "b/x"]);
        let e = Cgroup::find(root.path(), "x").unwrap_err();
        assert!(e.to_string().contains("a/x, b/x"), "{e}");
        let e = Cgroup::find(root.path(), "y").unwrap_err();
        assert_eq!(e.kind, Kind::BadInput);
        assert_eq!(Cgroup::find(root.path(), "a/../..").unwrap_err().kind, Kind::BadInput);
    }

    #[test]
    fn a_cgroup_whose_path_is_not_text_is_refused() {
        use std::os::unix::ffi::OsStrExt;
        let root = tree(&["a"]);
        let parent = root.path().join(MOUNT).join(std::ffi::OsStr::from_bytes(b"p\xff"));
        fs::create_dir_all(parent.join("x")).unwrap();
        fs::write(parent.join("x/cgroup.controllers"), "cpu\n").unwrap();
        let e = Cgroup::find(root.path(), "x").unwrap_err();
        assert_eq!(e.kind, Kind::Unsupported);
        assert!(e.to_string().contains("UTF-8"), "{e}");
    }

    #[test]
    fn a_folder_of_cgroup_v1_is_named_as_such() {
        let root = tree(&["a"]);
        fs::create_dir_all(root.path().join(MOUNT).join("cpuacct")).unwrap();
        let e = Cgroup::find(root.path(), "cpuacct").unwrap_err();
        assert_eq!(e.kind, Kind::Unsupported);
        assert!(e.to_string().contains("cgroup v2"), "{e}");
    }

    #[test]
    fn a_weight_is_there_where_the_controller_is() {
        let root = tree(&["a"]);
        let cgroup = Cgroup::find(root.path(), "a").unwrap();
        assert_eq!(cgroup.cpu_weight(), None);
        fs::write(cgroup.path().join("cpu.weight"), "250\n").unwrap();
        assert_eq!(cgroup.cpu_weight(), Some(250));
        // As of one with cpu.idle.
        fs::write(cgroup.path().join("cpu.weight"), "0\n").unwrap();
        assert_eq!(cgroup.cpu_weight(), Some(1));
    }
}

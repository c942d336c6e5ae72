//! The hierarchy of cgroups, followed: what is made, removed and marked is told at once.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use metasched_base::Result;
use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};

use super::tree::{Node, Tree, child};
use super::{Cgroup, MOUNT};

/// How often events are read in one call, a hundred or more each time: whoever makes
/// cgroups without end must not keep the caller from everything else.
const READS_MAX: usize = 64;

/// A picture of the hierarchy that is kept up to date.
///
/// The kernel tells through inotify. It gives a process only so many watches; where they
/// do not suffice, [`Watch::look`] reads everything anew each time that it is called.
#[derive(Debug)]
pub struct Watch {
    mount: PathBuf,
    attributes: &'static [&'static str],
    tree: Tree,
    inotify: Option<Inotify>,
    /// The cgroup of each watch, and the other way round.
    paths: HashMap<WatchDescriptor, String>,
    watches: HashMap<String, WatchDescriptor>,
    /// Whether every cgroup is watched.
    complete: bool,
}

impl Watch {
    /// Reads the hierarchy of the system whose root directory is `root`, and follows it
    /// from then on; of each cgroup also these extended attributes.
    ///
    /// # Errors
    /// `Unsupported` where the hierarchy is not of cgroup v2.
    pub fn new(root: &Path, attributes: &'static [&'static str]) -> Result<Self> {
        // Fails where it is not of cgroup v2.
        Cgroup::find(root, "/")?;
        let mut watch = Self {
            mount: root.join(MOUNT),
            attributes,
            tree: Tree::default(),
            inotify: None,
            paths: HashMap::new(),
            watches: HashMap::new(),
            complete: false,
        };
        watch.read_anew();
        Ok(watch)
    }

    /// The hierarchy as it was when this was last asked to look.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// What becomes readable when something has changed; `None` where the kernel gives
    /// no watches, and only [`Watch::look`] helps.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// Takes in what has changed since the last call; true if anything has.
    pub fn update(&mut self) -> bool {
        let mut changed = false;
        for _ in 0..READS_MAX {
            let Some(inotify) = &self.inotify else { break };
            let events = match inotify.read_events() {
                Err(Errno::EINTR) => continue,
                // There is nothing more to read.
                Err(_) => break,
                Ok(events) => events,
            };
            if events.iter().any(|event| event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW)) {
                self.read_anew();
                return true;
            }
            for event in events {
                changed |= self.take(&event);
            }
        }
        changed
    }

    /// Reads everything anew if not every cgroup could be watched; true if anything has
    /// changed. To be called now and then.
    pub fn look(&mut self) -> bool {
        if self.complete {
            return false;
        }
        let before = std::mem::take(&mut self.tree);
        self.complete = self.inotify.is_some();
        self.add("");
        // Of a cgroup whose parent is not watched nobody told that it was removed.
        let gone: Vec<String> =
            self.watches.keys().filter(|path| !self.is_there(path)).cloned().collect();
        for path in gone {
            self.unwatch(&path);
        }
        self.tree != before
    }

    fn is_there(&self, path: &str) -> bool {
        path.is_empty() || self.tree.get(path).is_some()
    }

    fn read_anew(&mut self) {
        // Another instance: the old one ends with all of its watches and events.
        self.inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).ok();
        self.complete = self.inotify.is_some();
        self.paths.clear();
        self.watches.clear();
        self.tree = Tree::default();
        self.add("");
    }

    /// Adds a cgroup and those below it.
    fn add(&mut self, path: &str) {
        let mut open = vec![path.to_owned()];
        while let Some(path) = open.pop() {
            let folder = self.mount.join(&path);
            // Watched before it is listed: what is made in between is seen in either way.
            self.watch(&path, &folder);
            if !path.is_empty() {
                let Some(node) = Node::read(&folder, self.attributes) else {
                    self.remove(&path);
                    continue;
                };
                self.tree.insert(&path, node);
            }
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                // No rule can name what is not text.
                if entry.file_type().is_ok_and(|kind| kind.is_dir())
                    && let Some(name) = entry.file_name().to_str()
                {
                    open.push(child(&path, name));
                }
            }
        }
    }

    fn watch(&mut self, path: &str, folder: &Path) {
        let Some(inotify) = &self.inotify else { return };
        let mut events = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_ONLYDIR
            | AddWatchFlags::IN_DONT_FOLLOW;
        if !self.attributes.is_empty() {
            events |= AddWatchFlags::IN_ATTRIB;
        }
        match inotify.add_watch(folder, events) {
            Ok(watch) => {
                self.paths.insert(watch, path.to_owned());
                self.watches.insert(path.to_owned(), watch);
            }
            // One that vanished needs none.
            Err(Errno::ENOENT) => {}
            Err(_) => self.complete = false,
        }
    }

    /// Takes a cgroup out with all below it. The kernel does not end the watch of a
    /// cgroup that was removed, but keeps its folder in memory for it.
    fn remove(&mut self, path: &str) {
        for path in self.tree.remove(path) {
            self.unwatch(&path);
        }
    }

    fn unwatch(&mut self, path: &str) {
        if let (Some(watch), Some(inotify)) = (self.watches.remove(path), &self.inotify) {
            self.paths.remove(&watch);
            // It fails where the kernel has ended the watch itself.
            let _ = inotify.rm_watch(watch);
        }
    }

    /// Takes one event in; true if it changed the tree.
    fn take(&mut self, event: &InotifyEvent) -> bool {
        // Events of a watch that was ended may still be on their way.
        let Some(path) = self.paths.get(&event.wd).cloned() else { return false };
        if event.mask.contains(AddWatchFlags::IN_IGNORED) {
            self.paths.remove(&event.wd);
            return false;
        }
        let Some(name) = &event.name else {
            return self.mark(&path);
        };
        let Some(name) = name.to_str().filter(|_| event.mask.contains(AddWatchFlags::IN_ISDIR))
        else {
            return false;
        };
        let path = child(&path, name);
        if event.mask.contains(AddWatchFlags::IN_CREATE) {
            self.add(&path);
            return true;
        }
        if event.mask.contains(AddWatchFlags::IN_DELETE) {
            self.remove(&path);
            return true;
        }
        // An attribute is told to the cgroup's own watch too.
        false
    }

    /// Reads what may have changed of a cgroup that stays; true if it has.
    fn mark(&mut self, path: &str) -> bool {
        let Some(before) = self.tree.get(path) else { return false };
        let now = Node::read(&self.mount.join(path), self.attributes);
        match now {
            Some(now) if now != *before => {
                self.tree.insert(path, now);
                true
            }
            // Of one that was removed another event tells.
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounted() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let mount = root.path().join(MOUNT);
        fs::create_dir_all(mount.join("a/b")).unwrap();
        fs::write(mount.join("cgroup.controllers"), "cpu\n").unwrap();
        (root, mount)
    }

    fn paths(watch: &Watch) -> Vec<&str> {
        watch.tree().iter().map(|(path, _)| path).collect()
    }

    #[test]
    fn what_is_made_and_removed_is_told_with_all_below_it() {
        let (root, mount) = mounted();
        let mut watch = Watch::new(root.path(), &[]).unwrap();
        assert_eq!(paths(&watch), ["a", "a/b"]);
        assert!(!watch.update());
        fs::create_dir_all(mount.join("c/d/e")).unwrap();
        fs::write(mount.join("c/cgroup.procs"), "").unwrap();
        assert!(watch.update());
        assert_eq!(paths(&watch), ["a", "a/b", "c", "c/d", "c/d/e"]);
        fs::remove_dir(mount.join("a/b")).unwrap();
        fs::remove_dir_all(mount.join("c")).unwrap();
        assert!(watch.update());
        assert_eq!(paths(&watch), ["a"]);
        assert_eq!(watch.watches.len(), 2, "the root and a");
        assert_eq!(watch.watches.len(), watch.paths.len());
    }

    #[test]
    fn one_that_is_made_anew_under_its_name_has_its_new_number() {
        let (root, mount) = mounted();
        let mut watch = Watch::new(root.path(), &[]).unwrap();
        fs::remove_dir(mount.join("a/b")).unwrap();
        fs::create_dir(mount.join("a/other")).unwrap();
        fs::create_dir(mount.join("a/b")).unwrap();
        fs::create_dir(mount.join("a/b/c")).unwrap();
        assert!(watch.update());
        assert_eq!(paths(&watch), ["a", "a/b", "a/b/c", "a/other"]);
        let id = Node::read(&mount.join("a/b"), &[]).unwrap().id;
        assert_eq!(watch.tree().get("a/b").unwrap().id, id);
        fs::create_dir(mount.join("a/b/c/d")).unwrap();
        assert!(watch.update(), "what is new is watched as well");
        assert!(watch.tree().get("a/b/c/d").is_some());
    }

    #[test]
    fn without_watches_a_look_finds_what_has_changed() {
        let (root, mount) = mounted();
        let mut watch = Watch::new(root.path(), &[]).unwrap();
        fs::create_dir(mount.join("c")).unwrap();
        assert!(!watch.look(), "the kernel tells");
        watch.complete = false;
        assert!(watch.look());
        assert_eq!(paths(&watch), ["a", "a/b", "c"]);
        fs::remove_dir(mount.join("c")).unwrap();
        watch.complete = false;
        assert!(watch.look());
        assert_eq!(watch.watches.len(), 3, "the root, a and a/b");
        watch.complete = false;
        assert!(!watch.look());
    }

    #[test]
    fn a_system_without_cgroup_v2_is_refused() {
        let (root, mount) = mounted();
        fs::remove_file(mount.join("cgroup.controllers")).unwrap();
        let e = Watch::new(root.path(), &[]).unwrap_err();
        assert_eq!(e.kind, metasched_base::Kind::Unsupported);
    }
}

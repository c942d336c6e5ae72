//! The cgroup hierarchy, as far as a policy sees it: ids, levels and ancestors.

use crate::abi::{Cgroup, CssSet, KernfsNode, MAX_CGROUP_DEPTH};
use std::collections::BTreeMap;
use std::ptr;

/// The kernel gives the root of the hierarchy the inode 1.
const ROOT_ID: u64 = 1;

/// All cgroups of a run, by path; the root's is the empty one. Each stays where it is
/// in memory until the run ends, since programs hold pointers into it.
pub(crate) struct Cgroups {
    by_path: BTreeMap<String, *mut CssSet>,
    ids: u64,
    /// Those that the program has not heard of yet.
    new: Vec<*mut Cgroup>,
    /// Those that were removed.
    gone: Vec<*mut CssSet>,
}

/// The cgroup of a `css_set`.
pub(crate) fn cgroup_of(css_set: *mut CssSet) -> *mut Cgroup {
    // SAFETY: [`Cgroups::make`] has made every css_set that there is, and frees none before the
    // run is over.
    unsafe { (*css_set).dfl_cgrp }
}

/// The id of a cgroup, and that of the cgroup above it.
pub(crate) fn id_and_above(cgroup: *mut Cgroup) -> (u64, Option<u64>) {
    // SAFETY: as above. Nothing writes to it meanwhile.
    unsafe { (*cgroup).id_and_above() }
}

impl Cgroups {
    pub(crate) fn new() -> Self {
        let mut cgroups =
            Cgroups { by_path: BTreeMap::new(), ids: ROOT_ID, new: Vec::new(), gone: Vec::new() };
        cgroups.make("", ptr::null_mut());
        cgroups
    }

    /// The cgroup of that path, `a/b/c`; it and those above it are made if missing.
    ///
    /// # Panics
    /// When it lies deeper than is modelled.
    pub(crate) fn at(&mut self, path: &str) -> *mut CssSet {
        if let Some(found) = self.by_path.get(path) {
            return *found;
        }
        let above = path.rsplit_once('/').map_or("", |(above, _)| above);
        let parent = self.at(above);
        self.make(path, parent)
    }

    fn make(&mut self, path: &str, parent: *mut CssSet) -> *mut CssSet {
        let kn = Box::into_raw(Box::new(KernfsNode { id: self.ids }));
        self.ids += 1;
        let mut ancestors = [ptr::null_mut(); MAX_CGROUP_DEPTH];
        let mut level = 0;
        if !parent.is_null() {
            // SAFETY: the caller has it from this table, and nothing writes to it here.
            let parent = unsafe { &*cgroup_of(parent) };
            ancestors = parent.ancestors;
            level = parent.level as usize + 1;
            assert!(level < MAX_CGROUP_DEPTH, "'{path}' lies too deep");
        }
        let cgroup = Box::into_raw(Box::new(Cgroup {
            kn,
            level: level as i32,
            idle: 0,
            populated: 0,
            ancestors,
        }));
        // SAFETY: it was just made, and nobody else knows of it.
        unsafe { (*cgroup).ancestors[level] = cgroup };
        let css_set = Box::into_raw(Box::new(CssSet { dfl_cgrp: cgroup }));
        self.by_path.insert(path.to_owned(), css_set);
        self.new.push(cgroup);
        css_set
    }

    /// All of them, children before their parents.
    pub(crate) fn bottom_up(&self) -> Vec<*mut Cgroup> {
        let mut all: Vec<_> = self.by_path.values().map(|css_set| cgroup_of(*css_set)).collect();
        // SAFETY: each is of this table, and so is what holds its id.
        all.sort_by_key(|cgroup| unsafe { (-(**cgroup).level, (*(**cgroup).kn).id) });
        all
    }

    /// A program comes that has heard of none.
    pub(crate) fn all_are_new(&mut self) {
        self.new = self.bottom_up();
        self.new.reverse();
    }

    /// The cgroup of that path, if it is there.
    pub(crate) fn existing(&self, path: &str) -> Option<*mut CssSet> {
        self.by_path.get(path).copied()
    }

    /// Takes a cgroup out that has none below it, and gives it; none if there is no such
    /// cgroup, as with rmdir(). The caller has seen to it that no task is in it.
    pub(crate) fn remove(&mut self, path: &str) -> Option<*mut Cgroup> {
        let below = format!("{path}/");
        if path.is_empty() || self.by_path.keys().any(|other| other.starts_with(&below)) {
            return None;
        }
        let css_set = self.by_path.remove(path)?;
        self.gone.push(css_set);
        let cgroup = cgroup_of(css_set);
        // While no program is loaded nobody has heard of it.
        self.new.retain(|new| *new != cgroup);
        Some(cgroup)
    }

    /// Those that were made since this was asked last.
    pub(crate) fn take_new(&mut self) -> Vec<*mut Cgroup> {
        std::mem::take(&mut self.new)
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        for css_set in self.by_path.values().chain(&self.gone) {
            // SAFETY: make() has all three from Box::into_raw(), and each css_set stands in one
            // place. Programs and tasks have pointers to them, but the run is over.
            unsafe {
                let css_set = Box::from_raw(*css_set);
                let cgroup = Box::from_raw(css_set.dfl_cgrp);
                drop(Box::from_raw(cgroup.kn));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_knows_those_above_it() {
        let mut cgroups = Cgroups::new();
        // SAFETY: it is there as long as `cgroups`, and nothing writes to it.
        let leaf = unsafe { &*cgroup_of(cgroups.at("a/b")) };
        let middle = cgroup_of(cgroups.at("a"));
        let root = cgroup_of(cgroups.at(""));
        assert_eq!(leaf.level, 2);
        assert_eq!(leaf.ancestors[..2], [root, middle]);
        assert!(ptr::eq(leaf.ancestors[2], leaf));
        assert_eq!(id_and_above(root).0, ROOT_ID);
        assert_ne!(id_and_above(middle).0, leaf.id_and_above().0);
    }
}

//! The cgroups that there are, as a picture that rules can be compared with.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Of the value of an attribute not more than this is kept: whoever a cgroup is delegated
/// to can write any.
const VALUE_BYTES: usize = 256;

/// The hierarchy of cgroups at one moment, without its root: what is known of each one,
/// by its path below the mount point. A parent comes before those below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree(BTreeMap<String, Node>);

/// What is known of a cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The kernel's number of it.
    pub id: u64,
    /// The values of those extended attributes that were asked for and that it has.
    pub attributes: BTreeMap<&'static str, String>,
}

impl Tree {
    /// Every cgroup.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.0.iter().map(|(path, node)| (path.as_str(), node))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The cgroup of that path.
    pub fn get(&self, path: &str) -> Option<&Node> {
        self.0.get(path)
    }

    /// Adds a cgroup, or what is known of it now.
    pub fn insert(&mut self, path: &str, node: Node) {
        self.0.insert(path.to_owned(), node);
    }

    /// Takes a cgroup out, with all below it; gives their paths.
    pub fn remove(&mut self, path: &str) -> Vec<String> {
        // '0' follows '/', so this is what begins with the path and a '/'.
        let below = self.0.range(format!("{path}/")..format!("{path}0"));
        let mut gone: Vec<String> = below.map(|(path, _)| path.clone()).collect();
        gone.push(path.to_owned());
        for path in &gone {
            self.0.remove(path);
        }
        gone
    }
}

impl Node {
    /// Reads the cgroup whose folder is `path`; `None` when it was removed meanwhile.
    pub(super) fn read(path: &Path, attributes: &[&'static str]) -> Option<Self> {
        let id = fs::symlink_metadata(path).ok()?.ino();
        let value = |name: &&'static str| {
            // A file system without attributes has none that says anything.
            let value = xattr::get(path, name).ok().flatten()?;
            let value = String::from_utf8_lossy(&value[..value.len().min(VALUE_BYTES)]);
            let value = value.trim_matches(|c: char| c == '\0' || c.is_whitespace());
            Some((*name, value.to_owned()))
        };
        Some(Self { id, attributes: attributes.iter().filter_map(value).collect() })
    }
}

/// The path of what has this name in the cgroup `parent`; the root's is empty.
pub(super) fn child(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(paths: &[&str]) -> Tree {
        let mut tree = Tree::default();
        for path in paths {
            tree.insert(path, Node { id: 1, attributes: BTreeMap::new() });
        }
        tree
    }

    #[test]
    fn what_is_removed_goes_with_all_below_it_and_nothing_beside_it() {
        let mut all = tree(&["a", "a-b", "a/b", "a/b/c", "a.d", "a0"]);
        all.remove("a");
        assert_eq!(all, tree(&["a-b", "a.d", "a0"]));
    }
}

//! What the cpu controller is told of a cgroup.

use std::fs;

use super::Cgroup;

/// `cpu.max` and what belongs to it. Where the cpu controller is not enabled there is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Quota and period, us; none means "max".
    pub quota_us: Option<(u64, u64)>,
    /// `cpu.max.burst`, us.
    pub burst_us: u64,
    /// `cpu.idle`.
    pub idle: bool,
}

impl Cgroup {
    /// Its limits.
    pub fn limits(&self) -> Limits {
        let read = |name: &str| fs::read_to_string(self.path.join(name)).unwrap_or_default();
        let max = read("cpu.max");
        let quota_us = max
            .trim()
            .split_once(' ')
            .and_then(|(quota, period)| Some((quota.parse().ok()?, period.parse().ok()?)));
        Limits {
            quota_us,
            burst_us: read("cpu.max.burst").trim().parse().unwrap_or(0),
            idle: read("cpu.idle").trim() == "1",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::MOUNT;
    use super::*;

    #[test]
    fn limits_are_read_where_there_are_any() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(MOUNT).join("a");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("cgroup.controllers"), "cpu\n").unwrap();
        let cgroup = Cgroup::find(root.path(), "/a").unwrap();
        assert_eq!(cgroup.limits(), Limits::default());
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        write("cpu.max", "max 100000\n");
        assert_eq!(cgroup.limits(), Limits::default());
        write("cpu.max", "40000 100000\n");
        write("cpu.max.burst", "5000\n");
        write("cpu.idle", "1\n");
        let wanted = Limits { quota_us: Some((40_000, 100_000)), burst_us: 5_000, idle: true };
        assert_eq!(cgroup.limits(), wanted);
    }
}

//! Cgroups with a limit in `cpu.max`: how often and how long they were throttled.

use std::path::Path;

use metasched_base::brief_time;
use metasched_host::cgroup::Cgroup;
use metasched_loader::{Limit, Limits};
use serde::Serialize;

use crate::commands::table::{Column, Fit, fitted};

/// All of them. The kernel's own `cpu.stat` shows none of this: it does not enforce
/// `cpu.max` for tasks of sched_ext, our program does.
#[derive(Debug, Serialize)]
pub(super) struct LimitsView {
    limited: Vec<Limited>,
    /// How often there was no place for another limit: such a cgroup is not limited.
    refused: u64,
}

#[derive(Debug, Serialize)]
struct Limited {
    /// Its path below the mount point; `None` if it has vanished meanwhile.
    path: Option<String>,
    #[serde(flatten)]
    limit: Limit,
}

impl LimitsView {
    /// With the paths that the cgroups have on the system below `root`.
    pub(super) fn new(root: &Path, limits: &Limits) -> Self {
        let ids = limits.enforced.iter().map(|limit| limit.cgroup).collect();
        let mut names = Cgroup::names_of(root, &ids);
        let limited = limits
            .enforced
            .iter()
            .map(|limit| Limited { path: names.remove(&limit.cgroup), limit: limit.clone() });
        let mut limited: Vec<Limited> = limited.collect();
        limited.sort_by(|a, b| a.path.cmp(&b.path));
        Self { limited, refused: limits.refused }
    }

    /// Lines to be shown; none where nothing is limited.
    pub(super) fn text(&self, width: Option<usize>) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.limited.is_empty() {
            const COLUMNS: &[Column] = &[
                ("LIMITED", Fit::Names),
                ("CPU.MAX", Fit::Whole),
                ("PERIODS", Fit::Whole),
                ("THROTTLED", Fit::Whole),
                ("FOR", Fit::Whole),
                ("FORGIVEN", Fit::Whole),
            ];
            let row = |Limited { path, limit }: &Limited| {
                let time = |ns: u64| brief_time(ns as f64);
                vec![
                    path.clone().unwrap_or_else(|| format!("(cgroup {})", limit.cgroup)),
                    format!("{} in {}", time(limit.quota_ns), time(limit.period_ns)),
                    limit.nr_periods.to_string(),
                    limit.nr_throttled.to_string(),
                    time(limit.throttled_ns),
                    time(limit.forgiven_ns),
                ]
            };
            let rows: Vec<_> = self.limited.iter().map(row).collect();
            lines.push(String::new());
            lines.extend(fitted(COLUMNS, &rows, width));
        }
        if self.refused > 0 {
            lines.push(format!(
                "{} limits of cpu.max found no place in the table and are not enforced",
                self.refused
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    fn limit(cgroup: u64) -> Limit {
        Limit {
            cgroup,
            quota_ns: 40_000_000,
            period_ns: 100_000_000,
            burst_ns: 0,
            nr_periods: 50,
            nr_throttled: 49,
            throttled_ns: 2_400_000_000,
            forgiven_ns: 7_000_000,
            throttled: false,
        }
    }

    #[test]
    fn limited_cgroups_are_shown_by_their_paths() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("sys/fs/cgroup/a/b");
        fs::create_dir_all(&folder).unwrap();
        let id = fs::metadata(&folder).unwrap().ino();
        let limits = Limits { enforced: vec![limit(id), limit(1)], refused: 2 };
        let text = LimitsView::new(root.path(), &limits).text(None).join("\n");
        for words in ["a/b", "40 ms in 100 ms", "49", "2.40 s", "7 ms", "(cgroup 1)", "2 limits"] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn where_nothing_is_limited_nothing_is_shown() {
        let view = LimitsView::new(Path::new("/nowhere"), &Limits::default());
        assert_eq!(view.text(None), Vec::<String>::new());
    }
}

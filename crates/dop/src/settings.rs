//! What the environment says.

use std::ffi::OsString;
use std::path::{self, PathBuf};

use crate::log::Log;

/// Where a page is looked for that nobody named.
const DEFAULT_PAGE: &str = "/dev/shm/metasched-paravirt";

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The page: a file, or a device's memory.
    pub page: PathBuf,
    /// Whether the user named it.
    pub named: bool,
    /// Whether regions with a `num_threads` clause are adapted, too.
    pub adapt_clauses: bool,
    /// Whether threads that wait compute, for longer than a window.
    pub spins: bool,
    /// Where what was done is told at exit.
    pub log: Option<Log>,
}

impl Settings {
    /// What `variable` says, and a complaint if that cannot be used.
    pub fn new(variable: impl Fn(&str) -> Option<OsString>) -> (Settings, Option<String>) {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let named = variable("METASCHED_DOP_PAGE");
        let clauses = variable("METASCHED_DOP_CLAUSES");
        let adapt_clauses = clauses.as_ref().is_some_and(|value| value == "adapt");
        let complaint = clauses.filter(|value| value != "adapt" && value != "obey").map(|value| {
            format!(
                "cannot use METASCHED_DOP_CLAUSES={}: there are obey and adapt; clauses are obeyed",
                value.display()
            )
        });
        let log = variable("METASCHED_DOP_LOG").map(|value| match value.to_str() {
            Some("stderr") => Log::Stderr,
            _ => Log::File(absolute(value)),
        });
        let policy = variable("OMP_WAIT_POLICY");
        let active = policy.as_ref().and_then(|value| value.to_str()).is_some_and(|value| {
            // As GNU's runtime reads it.
            value.trim().eq_ignore_ascii_case("active")
        });
        let settings = Settings {
            spins: active || variable("GOMP_SPINCOUNT").is_some(),
            named: named.is_some(),
            page: named.map_or_else(|| DEFAULT_PAGE.into(), absolute),
            adapt_clauses,
            log,
        };
        (settings, complaint)
    }
}

/// The program may go to another folder.
fn absolute(path: OsString) -> PathBuf {
    path::absolute(&path).unwrap_or_else(|_| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> (Settings, Option<String>) {
        Settings::new(|name| {
            variables.iter().find(|(other, _)| *other == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn without_variables_clauses_are_obeyed_and_nothing_is_written() {
        let expected = Settings {
            page: DEFAULT_PAGE.into(),
            named: false,
            adapt_clauses: false,
            spins: false,
            log: None,
        };
        assert_eq!(of(&[("METASCHED_DOP_PAGE", "")]), (expected, None));
    }

    #[test]
    fn variables_are_used() {
        let expected = Settings {
            page: "/page".into(),
            named: true,
            adapt_clauses: true,
            spins: true,
            log: Some(Log::File("/log".into())),
        };
        let variables = [
            ("METASCHED_DOP_PAGE", "/page"),
            ("METASCHED_DOP_CLAUSES", "adapt"),
            ("METASCHED_DOP_LOG", "/log"),
            ("OMP_WAIT_POLICY", " Active"),
        ];
        assert_eq!(of(&variables), (expected, None));
        assert_eq!(of(&[("METASCHED_DOP_LOG", "stderr")]).0.log, Some(Log::Stderr));
        assert!(of(&[("GOMP_SPINCOUNT", "infinite")]).0.spins);
        assert!(!of(&[("OMP_WAIT_POLICY", "passive")]).0.spins);
    }

    #[test]
    fn a_path_is_from_where_the_program_starts() {
        let (settings, _) = of(&[("METASCHED_DOP_PAGE", "folder/page")]);
        assert_eq!(settings.page, std::env::current_dir().unwrap().join("folder/page"));
    }

    #[test]
    fn what_cannot_be_used_is_said() {
        let (settings, complaint) = of(&[("METASCHED_DOP_CLAUSES", "adopt")]);
        assert!(!settings.adapt_clauses);
        assert!(complaint.unwrap().contains("METASCHED_DOP_CLAUSES=adopt"));
        assert_eq!(of(&[("METASCHED_DOP_CLAUSES", "obey")]).1, None);
    }
}

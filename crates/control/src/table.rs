//! The one table of candidates.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use metasched_base::{Error, Kind, Result, nearest};

use crate::candidate::{Candidate, CandidateKind};
use crate::version::Versions;

/// Programs that are named like schedulers and are none.
const NOT_SCHEDULERS: [&str; 6] =
    ["scx_loader", "scx_stats", "scx_top", "scx_show_state", "scx_invariant", "scx_selftests"];

/// What the names of published schedulers begin with.
const PREFIX: &str = "scx_";

/// What is said of schedulers that are well known; others are described by their path.
const KNOWN: [(&str, &str); 16] = [
    ("scx_bpfland", "vruntime order, tasks that block often first"),
    ("scx_rusty", "one queue per cache domain, balanced from user space"),
    ("scx_rustland", "vruntime order decided in user space"),
    ("scx_lavd", "latency-critical tasks first, by which tasks wake which"),
    ("scx_simple", "one global queue: weighted vtime, or FIFO with -f"),
    ("scx_central", "one CPU decides for all"),
    ("scx_nest", "few warm cores instead of many cold ones"),
    ("scx_pair", "both CPUs of a pair run tasks of one cgroup only"),
    ("scx_qmap", "five FIFO queues by weight"),
    ("scx_flatcg", "cgroup weights flattened into one level"),
    ("scx_userland", "an example of scheduling in user space"),
    ("scx_layered", "groups of tasks in layers with their own CPUs and rules"),
    ("scx_flash", "earliest deadline first, by average run time"),
    ("scx_p2dq", "two random queues compared, per cache domain"),
    ("scx_tickless", "few ticks: CPUs that run undisturbed"),
    ("scx_cosmos", "local queues while idle CPUs are left, deadlines when not"),
];

/// Where candidates are looked for.
#[derive(Clone, Debug)]
pub struct CandidateEnv {
    /// The root of the file system, for `/proc`.
    pub root: PathBuf,
    /// The cache that `make peers` fills.
    pub cache: PathBuf,
    /// The search path, as in `PATH`.
    pub path: OsString,
}

impl CandidateEnv {
    /// This system: its cache, and `PATH`.
    pub fn system() -> Self {
        let cache = metasched_base::cache_root();
        Self { root: PathBuf::from("/"), cache, path: std::env::var_os("PATH").unwrap_or_default() }
    }
}

/// EEVDF, then our policies: those for which no folder has to be read.
fn at_hand(env: &CandidateEnv) -> Vec<Candidate> {
    let release = std::fs::read_to_string(env.root.join("proc/sys/kernel/osrelease"))
        .map(|text| text.trim().to_owned())
        .unwrap_or_else(|_| "unknown".to_owned());
    let mut table = vec![Candidate::eevdf(&release)];
    table.extend(metasched_loader::variants().map(|policy| Candidate {
        name: policy.name.to_owned(),
        kind: CandidateKind::Policy,
        summary: policy.summary.to_owned(),
        version: metasched_loader::policies_version().to_owned(),
        command: Vec::new(),
        settings: BTreeMap::new(),
    }));
    table
}

/// Every candidate that is there: EEVDF first, then our policies, then external
/// schedulers, by name. A scheduler in the cache hides one of the same name in `PATH`.
pub fn candidates(env: &CandidateEnv) -> Result<Vec<Candidate>> {
    let mut table = at_hand(env);
    let mut externals = Vec::new();
    let mut seen = BTreeSet::new();
    let mut versions = Versions::open(&env.cache);
    let folders = std::iter::once(env.cache.join("peers/bin"))
        .chain(std::env::split_paths(&env.path).filter(|folder| folder.is_absolute()));
    for folder in folders {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = entry.path();
            if name.starts_with("scx_")
                && !NOT_SCHEDULERS.contains(&name.as_str())
                && is_executable(&path)
                && seen.insert(name.clone())
            {
                externals.push(external(name, &path, &mut versions));
            }
        }
    }
    externals.sort_by(|a, b| a.name.cmp(&b.name));
    table.extend(externals);
    Ok(table)
}

/// The candidate of exactly this name. For an unknown one the error tells what there
/// is and which name is nearest.
pub fn find<'a>(candidates: &'a [Candidate], name: &str) -> Result<&'a Candidate> {
    candidates.iter().find(|c| c.name == name).ok_or_else(|| {
        let names: Vec<&str> = candidates.iter().map(|c| c.name.as_str()).collect();
        // Names are often said without what they begin with, or with it.
        let bare = |name: &'a str| name.trim_start_matches(PREFIX);
        let wanted = name.trim_start_matches(PREFIX).to_lowercase();
        let near = nearest(&wanted, names.iter().copied().map(bare));
        let hint = match names.iter().find(|name| near == Some(bare(name))) {
            Some(near) => format!("did you mean '{near}'? "),
            None => String::new(),
        };
        let peers = if candidates.iter().any(|c| c.kind == CandidateKind::External) {
            ""
        } else {
            " ('make peers' builds some external ones)"
        };
        Error::new(
            Kind::BadInput,
            format!("use the scheduler '{name}'"),
            "there is none of that name",
        )
        .remedy(format!("{hint}there are: {}{peers}", names.join(", ")))
    })
}

/// The candidate that `spec` asks for, as [`resolve`] has it. The search path is gone through
/// only where it is none of ours: a start would spend a twentieth of its time there.
pub fn resolve_in(env: &CandidateEnv, spec: &str) -> Result<Candidate> {
    let ours = at_hand(env);
    match ours.iter().any(|candidate| candidate.name == name_in(spec)) {
        true => resolve(&ours, spec),
        false => resolve(&candidates(env)?, spec),
    }
}

/// The name in a text as [`resolve`] takes it.
fn name_in(spec: &str) -> &str {
    spec.trim().split([':', ' ', '\t']).next().unwrap_or_default()
}

/// The candidate that `spec` asks for: `NAME`, `NAME:OPTIONS` or `NAME OPTIONS`, the options
/// separated by blanks; the name may also be the path of a program. Those of an external
/// scheduler are its own (`scx_simple:-f`), those of a policy of ours are as for `--set`
/// (`ioprio:slice=5ms prio_slice=10ms`). Options become part of the candidate's name, because a
/// scheduler with other options is another candidate.
pub fn resolve(candidates: &[Candidate], spec: &str) -> Result<Candidate> {
    let spec = spec.trim();
    let (name, options) = match spec.split_once([':', ' ', '\t']) {
        Some((name, options)) => (name, options.split_whitespace().collect()),
        None => (spec, Vec::new()),
    };
    let mut candidate = if name.contains('/') {
        by_path(Path::new(name))?
    } else {
        find(candidates, name)?.clone()
    };
    if options.is_empty() {
        return Ok(candidate);
    }
    match candidate.kind {
        CandidateKind::Default => {
            return Err(Error::new(
                Kind::BadInput,
                format!("give '{name}' the options '{}'", options.join(" ")),
                "the kernel's own scheduler takes none",
            )
            .remedy(format!("write '{name}' alone")));
        }
        CandidateKind::Policy => {
            let read =
                |option: &&str| option.parse().map_err(|e| Error { kind: Kind::BadInput, ..e });
            let given = options.iter().map(read).collect::<Result<Vec<_>>>()?;
            let policy = metasched_loader::variant(name)?;
            candidate.settings = policy.settings(&given)?;
            candidate.name = [name.to_owned()]
                .into_iter()
                .chain(policy.written(&candidate.settings))
                .collect::<Vec<_>>()
                .join(" ");
        }
        CandidateKind::External => {
            candidate.name = format!("{name} {}", options.join(" "));
            candidate.command.extend(options.into_iter().map(str::to_owned));
        }
    }
    Ok(candidate)
}

fn by_path(path: &Path) -> Result<Candidate> {
    let attempt = || format!("use the scheduler '{}'", path.display());
    let full = std::fs::canonicalize(path).map_err(|e| {
        Error::new(Kind::BadInput, attempt(), e).remedy("give the path of a program")
    })?;
    if !is_executable(&full) {
        return Err(Error::new(Kind::BadInput, attempt(), "it is not an executable file")
            .remedy("give the path of a program"));
    }
    // Not kept: it may be a build that changes all the time.
    let mut versions = Versions::open(Path::new("/nonexistent"));
    Ok(external(path.display().to_string(), &full, &mut versions))
}

fn external(name: String, path: &Path, versions: &mut Versions) -> Candidate {
    let summary = KNOWN
        .iter()
        .find(|(known, _)| *known == name)
        .map_or_else(|| path.display().to_string(), |(_, summary)| (*summary).to_owned());
    let command = vec![path.display().to_string()];
    Candidate { summary, version: versions.of(path), ..Candidate::external(name, command) }
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::script;

    /// A system with one scheduler in the cache and two in the path, one of them hidden.
    fn system() -> (tempfile::TempDir, CandidateEnv) {
        let root = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        std::fs::write(folder("proc/sys/kernel").join("osrelease"), "7.9.9-test\n").unwrap();
        script(&folder("cache/peers/bin"), "scx_bpfland", "echo scx_bpfland 1.1.4");
        script(&folder("bin"), "scx_bpfland", "echo scx_bpfland 0.0.1");
        script(&folder("bin"), "scx_aaa", "echo scx_aaa 0.2.0");
        script(&folder("bin"), "scx_loader", "echo scx_loader 1.0.0");
        script(&folder("bin"), "ls", "true");
        std::fs::write(folder("bin").join("scx_data"), "no program").unwrap();
        let env = CandidateEnv {
            root: root.path().to_owned(),
            cache: root.path().join("cache"),
            path: root.path().join("bin").into_os_string(),
        };
        (root, env)
    }

    #[test]
    fn the_table_begins_with_eevdf_and_prefers_the_cache_to_the_path() {
        let (_root, env) = system();
        let table = candidates(&env).unwrap();
        assert_eq!((table[0].name.as_str(), table[0].version.as_str()), ("eevdf", "7.9.9-test"));
        let externals: Vec<_> = table
            .iter()
            .filter(|c| c.kind == CandidateKind::External)
            .map(|c| (c.name.as_str(), c.version.as_str()))
            .collect();
        assert_eq!(externals, [("scx_aaa", "0.2.0"), ("scx_bpfland", "1.1.4")]);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest_and_with_all() {
        let (_root, env) = system();
        for slip in ["aab", "aaa", "scx_Aaa"] {
            let e = find(&candidates(&env).unwrap(), slip).unwrap_err();
            assert_eq!(e.kind, Kind::BadInput);
            assert!(e.remedy.starts_with("did you mean 'scx_aaa'? there are: eevdf, "), "{e}");
        }
        let e = find(&candidates(&env).unwrap(), "scx_fifo").unwrap_err();
        assert!(e.remedy.starts_with("did you mean 'fifo'?"), "{e}");
    }

    #[test]
    fn one_of_ours_is_found_without_a_look_at_the_search_path() {
        let (root, env) = system();
        // It would be asked for its version, which is kept there.
        let asked = root.path().join("asked");
        script(&root.path().join("bin"), "scx_asked", &format!("touch {}", asked.display()));
        for (spec, kind) in [(" vtime", CandidateKind::Policy), ("eevdf", CandidateKind::Default)] {
            assert_eq!(resolve_in(&env, spec).unwrap().kind, kind);
        }
        assert_eq!(resolve_in(&env, "fifo:-f").unwrap_err().kind, Kind::BadInput);
        assert!(!asked.exists());
        assert_eq!(resolve_in(&env, "scx_aaa:-s 1").unwrap().name, "scx_aaa -s 1");
        assert!(asked.exists());
    }

    #[test]
    fn options_are_part_of_the_name_and_of_the_command() {
        let (_root, env) = system();
        let table = candidates(&env).unwrap();
        for spec in ["scx_bpfland:-s 3000", "scx_bpfland  -s   3000"] {
            let c = resolve(&table, spec).unwrap();
            assert_eq!(c.name, "scx_bpfland -s 3000");
            assert_eq!(c.options(), ["-s", "3000"]);
            assert!(c.command[0].ends_with("cache/peers/bin/scx_bpfland"), "{:?}", c.command);
        }
    }

    #[test]
    fn options_of_a_policy_are_read_and_written_in_one_way() {
        let table = candidates(&system().1).unwrap();
        for spec in [
            "ioprio:prio_slice=10ms slice=5ms",
            "ioprio slice_ns=5000000 prio_slice_ns=10000000",
            "ioprio slice=5ms prio_slice=10ms",
        ] {
            let c = resolve(&table, spec).unwrap();
            assert_eq!(c.name, "ioprio slice=5ms prio_slice=10ms");
            assert_eq!(c.bare_name(), "ioprio");
            assert_eq!(c.options(), ["slice=5ms", "prio_slice=10ms"]);
            let lane = c.lane();
            assert_eq!(lane.policy, "ioprio");
            assert_eq!(lane.options["slice_ns"], 5_000_000);
            assert_eq!(lane.options["prio_slice_ns"], 10_000_000);
        }
        for (spec, said) in [
            ("ioprio:slise=5ms", "it has slice_ns"),
            ("ioprio:-s", "slice=5ms"),
            ("no-starvation:slice=1", "out of range"),
        ] {
            let e = resolve(&table, spec).unwrap_err();
            assert!(e.to_string().contains(said) || e.remedy.contains(said), "{e}");
        }
    }

    #[test]
    fn options_for_the_default_scheduler_are_refused() {
        let (_root, env) = system();
        let e = resolve(&candidates(&env).unwrap(), "eevdf:-f").unwrap_err();
        assert_eq!(e.kind, Kind::BadInput);
    }

    #[test]
    fn a_path_names_a_scheduler_that_is_in_no_folder() {
        let (root, env) = system();
        let table = candidates(&env).unwrap();
        let path = script(root.path(), "mine", "echo mine 3.1");
        let c = resolve(&table, &format!("{}:-x", path.display())).unwrap();
        assert_eq!((c.version.as_str(), c.options()), ("3.1", vec!["-x"]));
        assert_eq!(resolve(&table, "/no/such").unwrap_err().kind, Kind::BadInput);
    }
}

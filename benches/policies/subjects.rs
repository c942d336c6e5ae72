//! The schedulers that are measured: the kernel's own, every policy, and their originals.

use metasched_base::{Error, Kind, Result};
use metasched_benches::all_are_known;
use metasched_control::{Candidate, CandidateEnv, CandidateKind, candidates, find};

/// The baseline.
pub const EEVDF: &str = "eevdf";

/// A policy and the published scheduler that it is compared with: its name in tables, the
/// program, and its options. `ioprio` has none that is published; that of `nest` is in no
/// registry, see `--peer`.
const ORIGINALS: &[(&str, &str, &str, &[&str])] = &[
    ("fifo", "scx_simple -f", "scx_simple", &["-f"]),
    ("vtime", "scx_simple", "scx_simple", &[]),
    ("qmap", "scx_qmap", "scx_qmap", &[]),
    ("central", "scx_central", "scx_central", &[]),
    ("pair", "scx_pair", "scx_pair", &[]),
    ("rustland", "scx_rustland", "scx_rustland", &[]),
    ("rustland", "scx_userland", "scx_userland", &[]),
    ("rusty", "scx_rusty", "scx_rusty", &[]),
    ("bpfland", "scx_bpfland", "scx_bpfland", &[]),
    ("fair", EEVDF, "", &[]),
];

/// All schedulers that can be measured, and which are compared with which.
pub struct Subjects {
    /// In the order of the tables, the baseline first.
    pub all: Vec<Candidate>,
    /// Names: a policy, and its original.
    pub pairs: Vec<(String, String)>,
}

impl Subjects {
    /// Those of this machine.
    ///
    /// `kernel_peers` is the folder of the schedulers of the kernel's tools; without it they are
    /// not measured. `peers` are more of them: `POLICY=COMMAND` says of what policy one is the
    /// original.
    pub fn find(kernel_peers: Option<&str>, peers: &[String]) -> Result<Subjects> {
        let table = candidates(&CandidateEnv::system())?;
        let mut all = vec![find(&table, EEVDF)?.clone()];
        let ours = |candidate: &&Candidate| {
            candidate.kind == CandidateKind::Policy && !candidate.is_preset()
        };
        all.extend(table.iter().filter(ours).cloned());
        let mut pairs = Vec::new();
        for (policy, name, program, options) in ORIGINALS {
            let of_the_kernel = kernel_peers
                .map(|folder| format!("{folder}/{program}"))
                .filter(|path| !program.is_empty() && std::path::Path::new(path).exists());
            let of_the_registry = table.iter().find(|candidate| candidate.name == *program);
            let path = match (of_the_kernel, of_the_registry) {
                (Some(path), _) => path,
                (None, Some(candidate)) => candidate.command[0].clone(),
                (None, None) if *name == EEVDF => String::new(),
                (None, None) => continue,
            };
            if *name != EEVDF {
                let options = options.iter().map(|option| (*option).to_owned());
                all.push(Candidate::external(*name, [path].into_iter().chain(options).collect()));
            }
            pairs.push(((*policy).to_owned(), (*name).to_owned()));
        }
        for peer in peers {
            let (policy, original) = parse_peer(peer)?;
            find(&all, &policy)?;
            pairs.push((policy, original.name.clone()));
            all.push(original);
        }
        Ok(Subjects { all, pairs })
    }

    /// Leaves the baseline and those of these names; all if there is none.
    pub fn keep(&mut self, only: &[String]) -> Result<()> {
        let names: Vec<&str> = self.all.iter().map(|candidate| candidate.name.as_str()).collect();
        all_are_known(only, &names)?;
        let is_wanted =
            |name: &str| only.is_empty() || name == EEVDF || only.iter().any(|o| o == name);
        self.all.retain(|candidate| is_wanted(&candidate.name));
        self.pairs.retain(|(a, b)| is_wanted(a) && is_wanted(b));
        Ok(())
    }
}

/// `POLICY=COMMAND`: the original of a policy.
fn parse_peer(peer: &str) -> Result<(String, Candidate)> {
    let (policy, command) = peer.split_once('=').unwrap_or((peer, ""));
    let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    let Some(program) = command.first() else {
        let attempt = format!("measure '{peer}' as well");
        return Err(Error::new(Kind::Usage, attempt, "it names no command")
            .remedy("give --peer POLICY=COMMAND, such as nest=/tmp/scx_nest"));
    };
    let name = program.rsplit('/').next().unwrap_or(program).to_owned();
    Ok((policy.to_owned(), Candidate::external(&name, command)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_a_policy_and_a_command() {
        let (policy, original) = parse_peer("nest=/tmp/scx_nest -v").unwrap();
        assert_eq!((policy.as_str(), original.name.as_str()), ("nest", "scx_nest"));
        assert_eq!(original.options(), ["-v"]);
        for wrong in ["nest", "nest=", "nest= "] {
            assert_eq!(parse_peer(wrong).unwrap_err().kind, Kind::Usage);
        }
    }

    #[test]
    fn who_is_not_there_is_named_beside_those_who_are() {
        let mut subjects = Subjects {
            all: vec![
                Candidate::external(EEVDF, Vec::new()),
                Candidate::external("fifo", Vec::new()),
            ],
            pairs: vec![("fifo".into(), EEVDF.into())],
        };
        let said = subjects.keep(&["fiffo".to_owned()]).unwrap_err().to_string();
        assert!(said.contains("fiffo") && said.contains("eevdf, fifo"), "{said}");
        subjects.keep(&[]).unwrap();
        assert_eq!(subjects.all.len(), 2);
        subjects.keep(&["eevdf".to_owned()]).unwrap();
        assert_eq!((subjects.all.len(), subjects.pairs.len()), (1, 0));
    }
}

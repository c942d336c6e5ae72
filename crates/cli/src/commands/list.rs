//! `metasched list`.

use metasched_base::Result;
use metasched_control::{Candidate, CandidateEnv, CandidateKind, candidates};

use super::table::{Column, Fit, fitted, terminal_width};
use crate::context::Context;

/// Lists the schedulers that can be used: the default, our policies, and external ones.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Carries the command out; the value is the process's exit status.
pub fn run(_args: &Args, context: &Context) -> Result<u8> {
    let table = candidates(&CandidateEnv::system())?;
    context.print(&table, |table| text(table, terminal_width()))?;
    Ok(0)
}

fn text(candidates: &[Candidate], width: Option<usize>) -> String {
    const COLUMNS: &[Column] = &[
        ("SCHEDULER", Fit::Whole),
        ("KIND", Fit::Whole),
        ("VERSION", Fit::Names),
        ("WHAT IT IS", Fit::Prose),
    ];
    let row = |c: &Candidate| {
        vec![c.name.clone(), c.kind.to_string(), c.version.clone(), c.summary.clone()]
    };
    let mut out = fitted(COLUMNS, &candidates.iter().map(row).collect::<Vec<_>>(), width);
    if !candidates.iter().any(|c| c.kind == CandidateKind::External) {
        out.push("(no external scheduler found: 'make peers' builds some)".to_owned());
    }
    out.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_candidate_has_one_line_and_a_lack_of_peers_is_said() {
        let text = text(&[Candidate::eevdf("7.3.4")], None);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("eevdf") && lines[1].contains("7.3.4"), "{text}");
        assert!(lines[2].contains("make peers"), "{text}");
    }
}

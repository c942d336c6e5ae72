//! `metasched list`.

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use metasched_base::Result;
use metasched_control::{Candidate, CandidateEnv, CandidateKind, candidates};

use crate::context::Context;

/// Lists the schedulers that can be used: the default, our policies, and external ones.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Carries the command out; the value is the process's exit status.
pub fn run(_args: &Args, context: &Context) -> Result<u8> {
    let table = candidates(&CandidateEnv::system())?;
    context.print(&table, |table| text(table))?;
    Ok(0)
}

fn text(candidates: &[Candidate]) -> String {
    let mut table = Table::new();
    // One line each, however narrow the terminal says it is: a serial console says 1.
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header([
        "SCHEDULER",
        "KIND",
        "VERSION",
        "WHAT IT IS",
    ]);
    for c in candidates {
        table.add_row([&c.name, &c.kind.to_string(), &c.version, &c.summary]);
    }
    let mut out: Vec<String> = table.lines().map(|line| line.trim().to_owned()).collect();
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
        let text = text(&[Candidate::eevdf("7.3.4")]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("eevdf") && lines[1].contains("7.3.4"), "{text}");
        assert!(lines[2].contains("make peers"), "{text}");
    }
}

//! `metasched doctor`: facts are read, a pure function makes findings of them, and the
//! findings are printed.

mod facts;
mod findings;

use std::path::Path;

use metasched_base::{Kind, Result};
use serde::Serialize;

use crate::context::Context;
use facts::Facts;
use findings::{Finding, Level};

/// Says whether this machine can run sched_ext schedulers, and what to do where it cannot
///
/// The exit status is 0 if schedulers can be loaded here, and 4 if they cannot; the
/// testbed (`metasched vm`) may still do it.
#[derive(Debug, clap::Args)]
pub struct Args {}

#[derive(Debug, Serialize)]
struct Diagnosis {
    /// Whether a scheduler can be loaded on this machine's own kernel.
    loadable_here: bool,
    /// Whether the testbed can boot a guest that can.
    testbed: bool,
    findings: Vec<Finding>,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(_args: &Args, context: &Context) -> Result<u8> {
    let facts = Facts::gather(Path::new("/"))?;
    let findings = findings::examine(&facts);
    let diagnosis = Diagnosis {
        loadable_here: !findings.iter().any(|finding| finding.level == Level::Blocks),
        testbed: facts.testbed_tools_missing().is_empty(),
        findings,
    };
    context.print(&diagnosis, as_text)?;
    Ok(if diagnosis.loadable_here { 0 } else { Kind::Unsupported.exit_code() })
}

fn as_text(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    for finding in &diagnosis.findings {
        let mark = match finding.level {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Blocks => "NO",
        };
        text += &format!("{mark:<5} {:<11} {}\n", finding.topic, finding.text);
        if let Some(remedy) = &finding.remedy {
            text += &format!("{:<18}-> {remedy}\n", "");
        }
    }
    text += match (diagnosis.loadable_here, diagnosis.testbed) {
        (true, _) => "\nSchedulers can be loaded on this machine.",
        (false, true) => {
            "\nSchedulers cannot be loaded on this machine, but in the testbed: metasched vm -- COMMAND"
        }
        (false, false) => {
            "\nSchedulers cannot be loaded on this machine, and the testbed lacks tools: make deps"
        }
    };
    text
}

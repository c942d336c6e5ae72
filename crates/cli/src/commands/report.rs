//! `metasched report`.

use std::path::PathBuf;

use metasched_base::{Kind, Result, ResultExt};
use metasched_report::{Bench, page};

use super::plan::{ChoiceArgs, Source};
use crate::context::Context;

/// Writes what was measured as one self-contained page.
///
/// The page begins with the question which scheduler should run the workload, and the plan's
/// answer. It needs no network and no scripts. It shows what is in the store, and
/// says of the rest that it was not measured.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    choice: ChoiceArgs,
    /// The file to write; its folder is made if there is none
    #[arg(long, value_name = "FILE", default_value = "report/index.html")]
    out: PathBuf,
    /// The output of a benchmark (`make bench-switch`), to show its figures too; may
    /// be given several times
    #[arg(long = "bench", value_name = "FILE")]
    benches: Vec<PathBuf>,
}

/// What was written.
#[derive(serde::Serialize)]
struct Written {
    out: PathBuf,
    workload: String,
    bytes: usize,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let store = args.source.open()?;
    let analysis = args.source.analyse(&store)?;
    let plan = args.choice.planned(&analysis, &args.source)?;
    let benches: Vec<Bench> = args.benches.iter().map(|b| Bench::read(b)).collect::<Result<_>>()?;
    let html = page(&analysis, &plan, &benches);
    let attempt = || format!("write the report '{}'", args.out.display());
    if let Some(folder) = args.out.parent() {
        std::fs::create_dir_all(folder).attempt(Kind::Failed, attempt)?;
    }
    // Beside the old page first, so that a full disk leaves that one whole.
    let partial = args.out.with_extension("html.part");
    std::fs::write(&partial, &html)
        .and_then(|()| std::fs::rename(&partial, &args.out))
        .inspect_err(|_| drop(std::fs::remove_file(&partial)))
        .attempt(Kind::Failed, attempt)?;
    let written = Written { out: args.out.clone(), workload: analysis.workload, bytes: html.len() };
    context.print(&written, |w| format!("{}: {} KB", w.out.display(), w.bytes.div_ceil(1000)))?;
    Ok(0)
}

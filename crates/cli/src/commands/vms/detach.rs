//! `metasched vms detach`.

use metasched_base::Result;
use metasched_watch::vms::remove_page;
use serde_json::json;

use super::attach::PageArgs;
use crate::context::Context;

/// Removes the page of a machine that will not be told any more
///
/// Its guest notices at once, and goes on by itself.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The machine's name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    page: PageArgs,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let path = args.page.path(&args.name)?;
    remove_page(&path)?;
    let view = json!({ "name": args.name, "page": path });
    context.print(&view, |_| format!("'{}' is removed", path.display()))?;
    Ok(0)
}

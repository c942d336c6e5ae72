//! `metasched vms attach`.

use std::path::PathBuf;

use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_watch::vms::{Page, on_memory, page_path, qemu_arguments};
use nix::unistd::User;
use serde_json::json;

use crate::context::Context;

/// Prepares the page of a machine before it starts, and says with what QEMU is to be started
///
/// The guest then has a device through which it reads the page. Start 'metasched vms serve' when the
/// machine runs, or have 'metasched vms serve --all' run beside.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The machine's name, as QEMU's -name will have it
    #[arg(value_name = "NAME")]
    name: String,
    /// The user as whom QEMU will run, by name or number [default: root]
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    #[command(flatten)]
    page: PageArgs,
}

/// Where the page of a machine is.
#[derive(Debug, clap::Args)]
pub(super) struct PageArgs {
    /// The page [default: in /dev/shm, by the machine's name]
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

impl PageArgs {
    /// The page of the machine of that name.
    ///
    /// # Errors
    /// As [`page_path`], where no page was given.
    pub(super) fn path(&self, name: &str) -> Result<PathBuf> {
        self.page.clone().map_or_else(|| page_path(name), Ok)
    }
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let path = args.page.path(&args.name)?;
    on_memory(&path)?;
    let owner = args.user.as_deref().map_or(Ok((0, 0)), owner)?;
    // It stays when we let go of it.
    drop(Page::attach(&path, owner)?);
    let arguments = qemu_arguments(&path);
    let view = json!({ "name": args.name, "page": path, "arguments": arguments });
    // In one line, to be put into a command.
    context.print(&view, |_| arguments.join(" "))?;
    Ok(0)
}

fn owner(said: &str) -> Result<(u32, u32)> {
    let attempt = || format!("find the user '{said}'");
    let user = match said.parse() {
        Ok(number) => User::from_uid(nix::unistd::Uid::from_raw(number)),
        Err(_) => User::from_name(said),
    };
    match user.attempt(Kind::Failed, attempt)? {
        Some(user) => Ok((user.uid.as_raw(), user.gid.as_raw())),
        None => Err(Error::new(Kind::BadInput, attempt(), "there is none")
            .remedy("libvirt's machines run as 'libvirt-qemu' or 'qemu'")),
    }
}

//! `metasched man`.

use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_mangen::{Man, roff};
use metasched_base::{Kind, OURS_BESIDE_A_COMMAND, Result, ResultExt};

use crate::Cli;
use crate::context::Context;

/// Writes the manual pages, one for each command, into a folder
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder; made if it is not there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let attempt = || format!("write the manual pages into '{}'", args.out.display());
    std::fs::create_dir_all(&args.out).attempt(Kind::Failed, attempt)?;
    let mut command = Cli::command();
    command.build();
    let mut written = Vec::new();
    write_pages(&command, "metasched", &args.out, &mut written)?;
    context.print(&written, |pages| {
        pages.iter().map(|page| page.display().to_string()).collect::<Vec<_>>().join("\n")
    })?;
    Ok(0)
}

/// That of a command, and those of its own commands.
fn write_pages(
    command: &clap::Command,
    name: &str,
    folder: &Path,
    written: &mut Vec<PathBuf>,
) -> Result<()> {
    written.push(write_page(command, name, folder)?);
    // `help` is clap's own, and says nothing that --help does not.
    let wanted = |sub: &&clap::Command| !sub.is_hide_set() && sub.get_name() != "help";
    command.get_subcommands().filter(wanted).try_for_each(|sub| {
        write_pages(sub, &format!("{name}-{}", sub.get_name()), folder, written)
    })
}

fn write_page(command: &clap::Command, name: &str, folder: &Path) -> Result<PathBuf> {
    let path = folder.join(format!("{name}.1"));
    let attempt = || format!("write the manual page '{}'", path.display());
    let page = page(command, name).attempt(Kind::Failed, attempt)?;
    std::fs::write(&path, page).attempt(Kind::Failed, attempt)?;
    Ok(path)
}

fn page(command: &clap::Command, name: &str) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let man = Man::new(command.clone().version(env!("CARGO_PKG_VERSION"))).title(name);
    man.render(&mut page)?;
    let mut exit_status = roff::Roff::new();
    exit_status.control("SH", ["EXIT STATUS"]);
    let ok = (0, "everything was done");
    let failures = Kind::ALL.iter().map(|kind| (kind.exit_code(), kind.describe()));
    for (code, meaning) in std::iter::once(ok).chain(failures) {
        exit_status.control("TP", []);
        exit_status.text([roff::bold(code.to_string())]);
        exit_status.text([roff::roman(meaning)]);
    }
    if command.get_arguments().any(clap::Arg::is_last_set) {
        exit_status.control("PP", []);
        exit_status.text([roff::roman(format!(
            "The status of COMMAND is passed on; beside it a failure of ours is \
             {OURS_BESIDE_A_COMMAND}, unless it is 126, 127 or 130."
        ))]);
    }
    exit_status.to_writer(&mut page)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_the_options_and_every_exit_status() {
        let mut command = Cli::command();
        command.build();
        let doctor = command.find_subcommand("doctor").unwrap();
        let page = String::from_utf8(page(doctor, "metasched-doctor").unwrap()).unwrap();
        assert!(page.contains("\\-\\-json"), "{page}");
        for kind in Kind::ALL {
            assert!(page.contains(kind.describe()), "{page}");
        }
        assert!(!page.contains("125"), "{page}");
    }

    #[test]
    fn commands_of_commands_have_a_page_and_hidden_ones_have_none() {
        let folder = tempfile::tempdir().unwrap();
        let context = Context {
            json: true,
            verbose: false,
            interrupt: Default::default(),
            given: Default::default(),
        };
        run(&Args { out: folder.path().join("man") }, &context).unwrap();
        for name in ["metasched", "metasched-vm", "metasched-lane-assign", "metasched-lane-list"] {
            assert!(folder.path().join(format!("man/{name}.1")).is_file(), "{name}");
        }
        assert!(!folder.path().join("man/metasched-guard.1").exists());
        assert!(!folder.path().join("man/metasched-lane-help.1").exists());
    }
}

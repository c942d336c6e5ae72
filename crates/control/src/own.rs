//! Other processes of metasched's own program.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use metasched_base::{Error, Kind, Result, ResultExt};

/// The program that is running. A path of that kind says nothing in a list of processes.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// The metasched program: this one if it is that, else the `metasched` that was built beside it.
pub(crate) fn own_program() -> Result<PathBuf> {
    let attempt = || "find the metasched program".to_owned();
    let exe = std::env::current_exe().attempt(Kind::Failed, attempt)?;
    if exe.file_name().is_some_and(|name| name == "metasched") {
        // Still this very file when a new build has replaced the name.
        return Ok(PathBuf::from(OWN_PROGRAM));
    }
    // Tests and benches lie beside it, or one folder deeper.
    let beside = exe.ancestors().skip(1).take(2).map(|folder| folder.join("metasched"));
    beside.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        let cause = format!("there is none beside '{}'", exe.display());
        Error::new(Kind::Failed, attempt(), cause)
            .remedy("build it: cargo build --release -p metasched")
    })
}

/// A command of that program, out of the terminal's group: Ctrl-C is for who started it.
pub(crate) fn command_of(program: &str) -> Command {
    let mut command = Command::new(program);
    if program == OWN_PROGRAM {
        command.arg0("metasched");
    }
    command.process_group(0);
    command
}

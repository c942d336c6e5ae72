//! Other processes of metasched's own program.

use std::path::PathBuf;

use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_host::process::Spawn;

/// The program that is running. A path of that kind says nothing in a list of processes.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// The metasched program: this one if it is that, else the `metasched` that was built beside it.
pub fn own_program() -> Result<PathBuf> {
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

/// A process of that program, in a group of its own: Ctrl-C is for who started it.
pub fn spawn_own(words: &[String]) -> Spawn {
    let spawn = Spawn::new(words);
    match words.first() {
        Some(program) if program == OWN_PROGRAM => spawn.called("metasched"),
        _ => spawn,
    }
}

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metasched_control::{Candidate, CandidateEnv, SwitcherOptions, candidates, find, holder};
use metasched_host::process::{Child, Output, ProcessId, Spawn};
use nix::sys::signal::Signal;

use crate::machine::status;

/// An emulated guest under load needs most of a minute for what takes a second elsewhere.
const PATIENCE: Duration = Duration::from_secs(90);

/// Waits until something is so.
pub fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < end, "it never came about: {what}; {:?}", status());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a scheduler is in force; gives its name, and how many were enabled so far.
///
/// The kernel calls one enabled before it has counted it: in between it patches its own
/// code and prints a line, and in an emulated guest 16 of 20 starts were seen there. Last
/// of all its process gets the link, which is why that is what is waited for.
pub fn in_force() -> (String, u64) {
    eventually("a scheduler is in force, and its process has the link", || {
        status().ops.is_some_and(|ops| holder(Path::new("/"), &ops).is_some())
    });
    let status = status();
    (status.ops.unwrap_or_default(), status.enable_seq)
}

/// Of our policies those that most tests need: with all the verifier takes twice as long.
pub const FEW: [&str; 2] = ["--policies", "fifo,vtime"];

/// The same for a switcher.
pub fn few(command: &str) -> SwitcherOptions {
    let policies: Vec<String> = FEW[1].split(',').map(str::to_owned).collect();
    SwitcherOptions::new(command).policies(&policies)
}

pub fn table() -> Vec<Candidate> {
    candidates(&CandidateEnv::system()).unwrap()
}

pub fn candidate(name: &str) -> Candidate {
    find(&table(), name).unwrap().clone()
}

/// The published scheduler that tests change to and from, the smallest of the kernel's tools.
pub const PUBLISHED: &str = "scx_simple";

/// It, which is on `PATH`; a test that finds none fails.
pub fn published() -> Candidate {
    find(&table(), PUBLISHED).cloned().unwrap_or_else(|error| {
        panic!("{error}; PATH=$(scripts/kernel-peers.sh {PUBLISHED}):$PATH")
    })
}

/// This test program in the part of an external scheduler.
pub fn player(folder: &Path) -> Candidate {
    let exe = std::env::current_exe().unwrap();
    let body = format!(
        "[ \"$1\" = --version ] && echo scx_player 1.0 && exit\nexec {} --exact {} --ignored {}",
        exe.display(),
        "a_process_that_holds_the_link_is_an_external_scheduler_whatever_its_name",
        crate::PLAY,
    );
    let command = vec![script(folder, "scx_player", &body)];
    Candidate { version: "1.0".to_owned(), ..Candidate::external("scx_player", command) }
}

/// Writes an executable shell script and gives its path.
pub fn script(folder: &Path, name: &str, body: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).unwrap();
    path.display().to_string()
}

/// What a command prints, which must end with 0.
pub fn output(command: &mut std::process::Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Compiles a program of `tests/programs` into the folder.
pub fn compile(folder: &Path, name: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join(name);
    output(
        std::process::Command::new("cc")
            .args(["-O1", "-Wall", "-Werror", "-fopenmp", "-o"])
            .arg(&program)
            .arg(here.join("tests/programs").join(name).with_extension("c"))
            .arg("-I")
            .arg(here.join("../../include")),
    );
    program
}

/// A child that is ended with the test.
pub struct Beside(std::process::Child);

impl Beside {
    pub fn start(program: &str, words: &[&str]) -> Self {
        let mut command = std::process::Command::new(program);
        command.args(words).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        Self(command.spawn().unwrap_or_else(|e| panic!("'{program}', which deps.sh installs: {e}")))
    }

    pub fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid()), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

/// A `metasched` command under test.
pub struct Run(Child);

impl Run {
    /// The program under test.
    pub fn program() -> PathBuf {
        // Tests lie in a folder below the program's.
        let exe = std::env::current_exe().unwrap();
        let binary: PathBuf = exe.parent().unwrap().parent().unwrap().join("metasched");
        assert!(binary.is_file(), "build it first: cargo build --release -p metasched");
        binary
    }

    pub fn start(arguments: &[&str]) -> Self {
        let binary = Self::program();
        let command = std::iter::once(binary.to_str().unwrap()).chain(arguments.iter().copied());
        let child = Spawn::new(command)
            .stdout(Output::Tail(64 * 1024))
            .stderr(Output::Tail(64 * 1024))
            .start()
            .unwrap();
        Self(child)
    }

    /// kill -9, for it alone.
    pub fn kill(&mut self) {
        assert!(self.0.id().signal(Signal::SIGKILL), "it ended: {}", self.0.last_lines(9));
        self.0.wait(PATIENCE).unwrap().unwrap();
    }

    /// Its number and start time.
    pub fn id(&self) -> ProcessId {
        self.0.id()
    }

    /// Waits for its end; gives its exit status and all that it said.
    pub fn finish(mut self) -> (Option<i32>, String) {
        let status = self.0.wait(PATIENCE).unwrap().expect("it ends");
        (status.code(), format!("{}{}", self.0.stderr_tail(), self.0.stdout_tail()))
    }

    /// Ends it as Ctrl-C does, which it takes well; gives all that it said.
    pub fn interrupt(self) -> String {
        assert!(self.id().signal(Signal::SIGINT), "it ended: {}", self.0.last_lines(9));
        let (code, said) = self.finish();
        assert_eq!(code, Some(0), "{said}");
        said
    }
}

//! Programs that use OpenMP, the library preloaded into them, and the host that writes their page.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long a window is said to be. So long that a test on a busy machine is not taken for a host
/// that is gone: that takes two of them.
pub const WINDOW: Duration = Duration::from_secs(5);
/// Longer than the library waits between two looks at the page.
pub const A_LOOK: Duration = Duration::from_millis(20);
/// Threads that regions have without the library.
pub const THREADS: u32 = 8;

/// The library, which cargo builds for this test since it depends on its crate.
pub fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let folder = program.parent().unwrap();
    let library = folder.join("libmetasched_dop.so");
    assert!(library.is_file(), "cargo did not build {}", library.display());
    library
}

/// What a command prints, which must end with 0.
pub fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Compiles a C program of `tests/programs` into the folder.
pub fn compile(folder: &Path, compiler: &str, name: &str, options: &[&str]) -> PathBuf {
    let program = folder.join(format!("{name}-{compiler}"));
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    output(
        Command::new(compiler)
            .args(["-O1", "-Wall", "-Werror", "-o"])
            .arg(&program)
            .arg(here.join("tests/programs").join(name).with_extension("c"))
            .arg("-I")
            .arg(here.join("../../include"))
            .args(options),
    );
    program
}

/// The host: a page, and its books.
pub struct Host {
    folder: TempDir,
    began: Instant,
    windows: u64,
    sequence: u32,
    /// How long it says that a window is to be.
    pub window: Duration,
}

impl Host {
    /// It wrote one window.
    pub fn new() -> Host {
        let mut host = Host {
            folder: tempfile::tempdir().unwrap(),
            began: Instant::now(),
            windows: 0,
            sequence: 0,
            window: WINDOW,
        };
        host.make();
        host.write(0.0, 0.0);
        host
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn page(&self) -> PathBuf {
        self.folder().join("page")
    }

    /// An empty page.
    pub fn make(&self) {
        File::create(self.page()).unwrap().set_len(4096).unwrap();
    }

    pub fn remove(&self) {
        fs::remove_file(self.page()).unwrap();
    }

    pub fn truncate(&self, bytes: u64) {
        self.file().set_len(bytes).unwrap();
    }

    fn file(&self) -> File {
        OpenOptions::new().write(true).open(self.page()).unwrap()
    }

    /// Writes bytes as they are, from the start of the page.
    pub fn write_bytes(&self, bytes: &[u8]) {
        self.file().write_all_at(bytes, 0).unwrap();
    }

    /// Writes a window that ended now, by the sequence lock.
    pub fn write(&mut self, phantoms: f64, idle_cpus: f64) {
        self.write_version(1, phantoms, idle_cpus);
    }

    pub fn write_version(&mut self, version: u32, phantoms: f64, idle_cpus: f64) {
        let file = self.file();
        // It is another one each time, as with a real clock.
        let ended_ns = 1_000_000_000_000 + self.began.elapsed().as_nanos() as u64;
        self.windows += 1;
        self.sequence += 1;
        file.write_all_at(&self.sequence.to_le_bytes(), 12).unwrap();
        let mut numbers = Vec::new();
        for number in [self.windows, self.window.as_nanos() as u64, 1, ended_ns] {
            numbers.extend(number.to_le_bytes());
        }
        let milli = |count: f64| (count * 1000.0) as u32;
        for number in [milli(phantoms), milli(idle_cpus), 64, 64] {
            numbers.extend(number.to_le_bytes());
        }
        file.write_all_at(&numbers, 16).unwrap();
        file.write_all_at(b"MSCHEDPV", 0).unwrap();
        file.write_all_at(&version.to_le_bytes(), 8).unwrap();
        self.sequence += 1;
        file.write_all_at(&self.sequence.to_le_bytes(), 12).unwrap();
    }

    /// The program with the library and this page, and its log in the folder.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("LD_PRELOAD", library())
            .env("METASCHED_DOP_PAGE", self.page())
            .env("METASCHED_DOP_LOG", self.log())
            .env_remove("METASCHED_DOP_CLAUSES")
            .env("OMP_NUM_THREADS", THREADS.to_string())
            .env("OMP_WAIT_POLICY", "passive")
            .env("OMP_DYNAMIC", "false");
        command
    }

    fn log(&self) -> PathBuf {
        self.folder().join("log")
    }

    /// The lines that programs wrote as they ended.
    pub fn logged(&self) -> Vec<String> {
        let log = fs::read_to_string(self.log()).unwrap();
        log.lines().map(str::to_string).collect()
    }
}

/// A number of a line of the log.
pub fn figure(line: &str, name: &str) -> f64 {
    let word = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    word.unwrap_or_else(|| panic!("no {name} in {line}")).parse().unwrap()
}

/// `programs/regions.c`, which runs a region for each line that it reads and tells how many threads
/// that had.
pub struct Regions {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Regions {
    /// It has started, and so has the library looked at the page.
    pub fn start(command: &mut Command) -> Regions {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut regions = Regions { child, to, from };
        assert_eq!(regions.line(), "ready");
        thread::sleep(A_LOOK);
        regions
    }

    /// What it says next; empty if it is gone.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line.trim_end().to_string()
    }

    /// The answer to a line; it is empty if the program is gone.
    pub fn ask(&mut self, line: &str) -> String {
        writeln!(self.to.as_mut().unwrap(), "{line}").unwrap();
        self.line()
    }

    /// How many threads a region of this kind has.
    pub fn threads(&mut self, kind: &str) -> u32 {
        let answer = self.ask(kind);
        answer.parse().unwrap_or_else(|_| panic!("{kind}: {answer:?}"))
    }

    /// How many threads the program has, those that wait for a region too.
    pub fn all_threads(&self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap().count()
    }

    /// The host writes a window, and a region begins after that.
    pub fn after(&mut self, host: &mut Host, phantoms: f64, idle_cpus: f64) -> u32 {
        host.write(phantoms, idle_cpus);
        thread::sleep(A_LOOK);
        self.threads("plain")
    }

    /// The program ends as it reads no more, with 0.
    pub fn end(mut self) {
        drop(self.to.take());
        assert!(self.child.wait().unwrap().success());
    }
}

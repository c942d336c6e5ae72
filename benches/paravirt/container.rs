//! The program on this machine: in a cgroup, as in a container, beside a periodic overload in
//! another one, and with a page that `metasched vms serve` writes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_benches::beside::{OVERLOAD_PERIOD, Play, wait_for_phase};
use metasched_benches::rounds::version_of;
use metasched_benches::{number_after, output_of};
use metasched_host::cgroup::{Cgroup, controllers};
use metasched_host::process::{Child, Output, Spawn, StopPlan};
use metasched_profile::manifest::Workload;
use metasched_profile::runner::{Prepared, Site, prepare};

use crate::program::Way;

/// The workload, and how long it is: about a second where CPUs are emulated, and four periods of the
/// overload beside that.
const WORKLOAD: &str = "ua";
pub const STEPS: &str = "180";
/// Each run comes after a short one of its kind: an emulated CPU translates anew what the kernel has
/// changed of itself as the server came or went.
const WARM_UP_STEPS: &str = "30";
/// The page that is served.
const PAGE: &str = "/dev/shm/metasched-bench-paravirt";
/// How long a window is: as published, and where CPUs are emulated as much longer as they are slower about.
const WINDOW: &str = "4ms";
const WINDOW_EMULATED: &str = "20ms";
/// A container's first process lives as long as it. This ends by itself if we do not end it.
const FIRST_PROCESS: [&str; 2] = ["sleep", "86400"];
/// Until a page is written: a BPF program is loaded before.
const SERVES_WITHIN: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(10);
/// In these the page has been seen by several scans.
const SETTLES: Duration = Duration::from_millis(300);
/// Of the overload's period, by how much each round begins later than the one before: the golden
/// ratio spreads any number of rounds evenly.
const PHASE_STEP: f64 = 0.618_034;

/// The files that a run needs.
pub struct Files {
    program: PathBuf,
    cells: String,
    /// What one thread computes.
    sum: String,
    library: PathBuf,
    metasched: PathBuf,
    window: &'static str,
    _prepared: Prepared,
}

impl Files {
    /// Compiles the program if that was not done, and finds what was built beside this bench.
    ///
    /// # Errors
    /// When the program cannot be prepared, or something was not built.
    pub fn find(site: &Site) -> Result<Self> {
        let settings = [("steps".to_owned(), STEPS.to_owned())];
        let workload = Workload::find(WORKLOAD, &settings, site.machine.emulated)?;
        let _prepared = prepare(&workload, site)?;
        let cache = site.cache(&workload);
        let attempt = || format!("read what the workload '{WORKLOAD}' prepared");
        let sum = std::fs::read_to_string(cache.join("sum")).attempt(Kind::Failed, attempt)?;
        let variables = site.preparing_variables(&workload);
        let cells = variables.get("METASCHED_PARAM_CELLS").cloned().unwrap_or_default();
        let built = |name: &str| {
            let attempt = || format!("find '{name}' beside this bench");
            let bench = std::env::current_exe().attempt(Kind::Failed, attempt)?;
            let path = bench.with_file_name(name);
            match path.is_file() {
                true => Ok(path),
                false => Err(Error::new(Kind::Failed, attempt(), "it was not built")
                    .remedy("run make build")),
            }
        };
        Ok(Self {
            program: cache.join("ua"),
            cells,
            sum: sum.trim().to_owned(),
            library: built("libmetasched_dop.so")?,
            metasched: built("metasched")?,
            window: if site.machine.emulated { WINDOW_EMULATED } else { WINDOW },
            _prepared,
        })
    }

    /// Which builds of ours take part, beside this bench.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn versions(&self) -> Result<String> {
        let (library, metasched) = (version_of(&self.library)?, version_of(&self.metasched)?);
        Ok(format!("library {library}, metasched {metasched}"))
    }
}

/// Cgroups of equal weight: the program's, and that of what runs beside it.
pub struct Container<'a> {
    files: &'a Files,
    cpus: usize,
    own: Cgroup,
    beside: Cgroup,
    first: Child,
}

/// A cgroup of the bench's own. Beside a hierarchy of v1 there is no cpu controller for it: there
/// each task has the same weight, and not each cgroup.
fn make(name: &str) -> Result<Cgroup> {
    let name = format!("metasched/bench-paravirt/{name}");
    if controllers(Path::new("/"))?.iter().any(|controller| controller == "cpu") {
        return Cgroup::create(&name);
    }
    let path = Path::new("/sys/fs/cgroup").join(name);
    std::fs::create_dir_all(&path)
        .attempt(Kind::Failed, || format!("make the cgroup '{}'", path.display()))?;
    Cgroup::open(&path)
}

/// What a run of the program came to.
#[derive(Clone, Copy, Debug)]
pub struct Ran {
    /// By its own clock, s.
    pub seconds: f64,
    /// CPU time of its container, s.
    pub cpu_s: f64,
    /// How many threads regions had in the mean, and how many windows were used; of one that
    /// adapts.
    pub adapted: Option<(f64, f64)>,
}

impl<'a> Container<'a> {
    /// Makes both cgroups. The program will have a thread for each of `cpus`.
    ///
    /// # Errors
    /// When they cannot be made.
    pub fn new(files: &'a Files, cpus: usize) -> Result<Self> {
        let own = make("container")?;
        let first = Spawn::new(FIRST_PROCESS).cgroup(&own).start()?;
        let beside = make("beside")?;
        Ok(Self { files, cpus, own, beside, first })
    }

    /// Its cgroup.
    pub fn cgroup(&self) -> &Cgroup {
        &self.own
    }

    /// The cgroup of what runs beside it.
    pub fn beside(&self) -> &Cgroup {
        &self.beside
    }

    /// Ends all that is in them, and removes them.
    ///
    /// # Errors
    /// When somebody else is in them.
    pub fn remove(self) -> Result<()> {
        drop(self.first);
        for cgroup in [self.own, self.beside] {
            cgroup.kill()?;
            cgroup.remove()?;
        }
        Ok(())
    }

    /// Writes the container's page until what is returned is dropped or stopped.
    ///
    /// # Errors
    /// When `metasched vms serve` fails, or does not begin.
    pub fn serve(&self) -> Result<Server> {
        let attempt = || format!("serve the cgroup '{}'", self.own.name());
        let page = Path::new(PAGE);
        let metasched = self.files.metasched.display().to_string();
        let cgroup = self.own.name();
        let serve = [&metasched, "vms", "serve", "--json", "--cgroup", &cgroup, "--page", PAGE];
        let command = [&serve[..], &["--window", self.files.window]].concat();
        let mut child = Spawn::new(command)
            .stdout(Output::Tail(1 << 12))
            .stderr(Output::Tail(1 << 12))
            .start()?;
        let since = Instant::now();
        while !child.stdout_tail().contains("began") || !page.exists() {
            if child.poll()?.is_some() {
                return Err(Error::new(Kind::Failed, attempt(), child.last_lines(3)));
            }
            if since.elapsed() > SERVES_WITHIN {
                let cause = format!("no page is written after {SERVES_WITHIN:?}");
                return Err(Error::new(Kind::Timeout, attempt(), cause));
            }
            std::thread::sleep(LOOK);
        }
        std::thread::sleep(SETTLES);
        Ok(Server(child))
    }

    /// Starts so many tasks that compute together for half of each period.
    ///
    /// # Errors
    /// When they cannot be started.
    pub fn overload(&self, hogs: usize) -> Result<Option<Child>> {
        (hogs > 0).then(|| Play::periodic(hogs).start(&self.beside)).transpose()
    }

    /// Runs the program once. All runs of a round begin at the same point of the overload's period.
    ///
    /// # Errors
    /// When the program or the server fails, or a result is wrong.
    pub fn run(&self, way: Way, round: u64) -> Result<Ran> {
        let Files { program, cells, sum, library, .. } = self.files;
        let server = way.adapts().then(|| self.serve()).transpose()?;
        let program = program.display().to_string();
        let spawn = |arguments: &[&str]| {
            let mut spawn = Spawn::new([&[&*program], arguments].concat())
                .env("OMP_WAIT_POLICY", way.policy())
                .env("OMP_NUM_THREADS", self.cpus.to_string())
                .cgroup(&self.own);
            if way.adapts() {
                spawn = spawn
                    .env("LD_PRELOAD", library.display().to_string())
                    .env("METASCHED_DOP_PAGE", PAGE)
                    .env("METASCHED_DOP_LOG", "stderr");
            }
            spawn
        };
        let attempt = || format!("run '{WORKLOAD}' {}", way.name());
        output_of(spawn(&[cells, WARM_UP_STEPS]), attempt)?;
        wait_for_phase(OVERLOAD_PERIOD.mul_f64((round as f64 * PHASE_STEP).fract()));
        let before = self.own.cpu_stat()?;
        let said = output_of(spawn(&[cells, STEPS, sum]), attempt)?;
        let used_us = self.own.cpu_stat()?.usage_usec - before.usage_usec;
        server.map_or(Ok(()), Server::stop)?;
        let number = |marker: &str| number_after(&said, marker).attempt(Kind::Failed, attempt);
        let adapted =
            || -> Result<(f64, f64)> { Ok((number("threads_mean=")?, number("windows=")?)) };
        Ok(Ran {
            seconds: number("took ")?,
            cpu_s: used_us as f64 / 1e6,
            adapted: way.adapts().then(adapted).transpose()?,
        })
    }
}

/// `metasched vms serve`, which is killed when this is dropped.
pub struct Server(Child);

impl Server {
    /// Ends it as Ctrl-C does.
    ///
    /// # Errors
    /// When it had ended before, or fails at its end.
    pub fn stop(mut self) -> Result<()> {
        let stopped = self.0.stop(&StopPlan::default())?;
        let attempt = || "serve a page to the end of a run".to_owned();
        match stopped.signal {
            Some(_) if stopped.status.success() => Ok(()),
            _ => Err(Error::new(Kind::Failed, attempt(), self.0.last_lines(3))),
        }
    }
}

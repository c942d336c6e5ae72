//! The machines that run, and what their CPUs did.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use metasched_base::{Figure, Result, Unit};
use metasched_loader::{CountRuns, Runs};
use nix::sys::stat::{major, minor};

use super::machines::{Machine, Scanner};
use super::observer::{Observed, Observer, Window};
use super::page::read_page;
use super::whose::Whose;
use crate::looking_cost::LookingCost;

/// A machine, over the time of a look.
#[derive(Clone, Debug)]
pub struct MachineRow {
    /// The machine.
    pub machine: Machine,
    /// What came out; none for one that came only now.
    pub window: Option<Window>,
    /// Its page, if there is one.
    pub page: Option<PathBuf>,
    /// Whether somebody wrote the page while it was looked.
    pub served: bool,
    /// Whether the machine has the page: one that was started without it does not learn what is written.
    pub has_page: bool,
}

/// What is told of a machine, in tables and documents.
pub const MACHINE_FIGURES: &[Figure<MachineRow>] = &[
    Figure {
        name: "vcpus",
        title: "VCPUS",
        unit: Unit::Count,
        help: "how many virtual CPUs it has",
        of: |row| Some(row.machine.vcpus.len() as f64),
    },
    Figure {
        name: "phantoms",
        title: "PHANTOMS",
        unit: Unit::Number,
        help: "how many of its virtual CPUs waited for a CPU, in the mean",
        of: |row| row.window.map(|window| window.phantoms),
    },
    Figure {
        name: "idle_cpus",
        title: "IDLE CPUS",
        unit: Unit::Number,
        help: "how many of the CPUs that it may use were idle, in the mean",
        of: |row| row.window.map(|window| window.idle_cpus),
    },
    Figure {
        name: "owed_cpus",
        title: "OWED",
        unit: Unit::Number,
        help: "how many CPUs other machines held beyond their fair shares and owed to it, in the mean",
        of: |row| row.window.map(|window| window.owed_cpus),
    },
    Figure {
        name: "owing_cpus",
        title: "OWING",
        unit: Unit::Number,
        help: "how many CPUs it held beyond its fair share that others to whom they are owed waited for, in the mean",
        of: |row| row.window.map(|window| window.owing_cpus),
    },
    Figure {
        name: "cpus",
        title: "CPUS",
        unit: Unit::Count,
        help: "how many CPUs of the host it may use, of those that are on line",
        of: |row| row.window.map(|window| f64::from(window.cpus)),
    },
];

/// What was seen in a look.
#[derive(Clone, Debug)]
pub struct MachineLook {
    /// How long it was, ns.
    pub length_ns: u64,
    /// How many CPUs of the host are on line.
    pub cpus: u32,
    /// How many of them were idle, in the mean.
    pub idle_cpus: f64,
    /// The machines, by their names.
    pub rows: Vec<MachineRow>,
    /// What looking took; none where the kernel does not tell.
    pub overhead: Option<LookingCost>,
}

/// Looks at all machines again and again.
pub struct MachineLooks {
    scanner: Scanner,
    observer: Observer,
    machines: BTreeMap<i32, Machine>,
    /// How many windows each page had when the look began.
    pages: BTreeMap<PathBuf, u64>,
    counting: Option<CountRuns>,
    ran: Runs,
}

/// The key of the host itself, which no machine has.
const HOST: &str = "";

impl MachineLooks {
    /// Begins the first look.
    ///
    /// # Errors
    /// As [`Observer::begin`].
    pub fn begin() -> Result<Self> {
        let mut looks = Self {
            scanner: Scanner::new(Path::new("/")),
            observer: Observer::begin()?,
            machines: BTreeMap::new(),
            pages: BTreeMap::new(),
            counting: CountRuns::start().ok(),
            ran: Runs::default(),
        };
        looks.begin_next()?;
        Ok(looks)
    }

    /// Ends a look and begins the next one.
    ///
    /// # Errors
    /// Where a machine that has come cannot be observed.
    pub fn look(&mut self) -> Result<MachineLook> {
        let windows = self.observer.window();
        let host = windows.get(HOST).copied().unwrap_or_default();
        let length_ns = host.ended_ns - host.began_ns;
        let ran = self.observer.runs()?;
        let overhead = self.counting.as_ref();
        let overhead =
            overhead.map(|_| LookingCost::new(ran.since(&self.ran), length_ns, host.cpus));
        let row = |machine: &Machine| {
            let whose = Whose::Machine(machine.clone());
            let page = whose.page().ok().filter(|page| page.exists());
            let wrote = |page: &PathBuf| {
                let now = read_page(page)?.windows;
                Some(self.pages.get(page).is_some_and(|before| *before != now))
            };
            MachineRow {
                machine: machine.clone(),
                window: windows.get(&whose.key()).copied(),
                served: page.as_ref().and_then(wrote).unwrap_or(false),
                has_page: page.as_ref().is_some_and(|page| has_mapped(machine.id.pid, page)),
                page,
            }
        };
        let mut rows: Vec<MachineRow> = self.machines.values().map(row).collect();
        rows.sort_by(|a, b| a.machine.name.cmp(&b.machine.name));
        self.begin_next()?;
        Ok(MachineLook { length_ns, cpus: host.cpus, idle_cpus: host.idle_cpus, rows, overhead })
    }

    fn begin_next(&mut self) -> Result<()> {
        self.machines = self.scanner.scan();
        let all = self.machines.values().cloned().map(Whose::Machine);
        self.pages = all
            .clone()
            .filter_map(|whose| {
                let page = whose.page().ok()?;
                let windows = read_page(&page)?.windows;
                Some((page, windows))
            })
            .collect();
        let root = Path::new("/");
        let mut wanted: BTreeMap<String, Observed> = all
            .filter_map(|whose| Some((whose.key(), whose.observed(root, &self.machines)?)))
            .collect();
        let cpus = self.observer.online().clone();
        wanted.insert(HOST.to_owned(), Observed { cpus, ..Observed::default() });
        self.observer.observe(&wanted)?;
        self.ran = self.observer.runs()?;
        // From here on the look is whole for those that have just come, too.
        self.observer.window();
        Ok(())
    }
}

/// Whether a process has a file in its memory: the same one, and not one that stood there before.
fn has_mapped(pid: i32, file: &Path) -> bool {
    let (Ok(data), Ok(maps)) = (fs::metadata(file), fs::read(format!("/proc/{pid}/maps"))) else {
        return false;
    };
    // Of a range the device comes fourth, and then the file's number there. Its name may be any bytes.
    let device = format!("{:02x}:{:02x}", major(data.dev()), minor(data.dev()));
    String::from_utf8_lossy(&maps).lines().any(|line| {
        let mut words = line.split_ascii_whitespace().skip(3);
        words.next() == Some(&*device)
            && words.next().and_then(|number| number.parse().ok()) == Some(data.ino())
    })
}

#[cfg(test)]
mod tests {
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

    use super::*;

    #[test]
    fn a_process_has_the_file_that_it_maps_and_no_other() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let [page, other] = ["page", "other"].map(|name| folder.path().join(name));
        for path in [&page, &other] {
            fs::write(path, [0; 4096]).unwrap();
        }
        let file = fs::File::open(&page).unwrap();
        let pid = std::process::id().cast_signed();
        assert!(!has_mapped(pid, &page));
        // SAFETY: the kernel chooses where, and nobody reads it.
        let at = unsafe {
            mmap(std::ptr::null_mut(), 4096, ProtFlags::READ, MapFlags::SHARED, &file, 0).unwrap()
        };
        assert!(has_mapped(pid, &page) && !has_mapped(pid, &other));
        // What has come in its place is another one.
        fs::rename(&other, &page).unwrap();
        assert!(!has_mapped(pid, &page));
        // SAFETY: it was mapped above, and nobody has kept it.
        unsafe { munmap(at, 4096).unwrap() };
        assert!(!has_mapped(pid, &page) && !has_mapped(pid, Path::new("/nowhere")));
    }
}

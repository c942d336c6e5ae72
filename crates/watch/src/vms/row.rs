//! The machines that run, and what their CPUs did.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use metasched_base::{Figure, Result, Unit};
use metasched_loader::{CountRuns, Runs};

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

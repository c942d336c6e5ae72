//! A calibration as a scenario file has it.

use std::fmt::Write;

use metasched_host::machine::Sharing;
use metasched_scenario::file::KernelThread;

use super::ticks::Lateness;
use super::{Calibration, Measured};

impl Calibration {
    /// `[machine]` and `[machine.costs]`, with the intervals as comments. What was not measured
    /// is a comment, too.
    pub fn to_toml(&self) -> String {
        let machine = &self.machine;
        let mut out = format!(
            "# {} on {}, under {}.\n# Costs are medians; 95 % intervals of them stand beside.\n",
            machine.cpu_model, machine.kernel_release, self.scheduler
        );
        self.notes.iter().for_each(|note| add(&mut out, &format!("# Not measured: {note}.")));
        add(&mut out, "\n[machine]");
        add(&mut out, &format!("cpus = {}", machine.cpus));
        add(&mut out, &format!("llcs = {}", machine.llcs));
        add(&mut out, &format!("nodes = {}", machine.nodes));
        add(&mut out, &format!("smt = {}", machine.smt));
        if let Some(hz) = self.hz {
            add(&mut out, &format!("hz = {hz}"));
        }
        add(&mut out, "\n[machine.costs]");
        let figures = [
            ("switch", self.switch),
            ("call", self.call),
            ("wake", self.wake),
            ("tell", self.tell),
            ("sleep", self.sleep),
            ("timer", self.timer),
            ("tick_late", self.tick_late),
        ];
        for (key, measured) in figures {
            measured.into_iter().for_each(|measured| add(&mut out, &line(key, &measured)));
        }
        if let Some(Lateness { jitter_ns, strays, stray_ns }) = self.ticks {
            add(&mut out, &format!("tick_jitter = \"{jitter_ns}ns\""));
            add(&mut out, &format!("tick_strays = {strays}"));
            add(&mut out, &format!("tick_stray = \"{stray_ns}ns\""));
        }
        for (key, range) in [("ipi", self.ipi_ns), ("own", self.own_ns)] {
            if let Some((least_ns, most_ns)) = range {
                add(&mut out, &format!("{key} = \"{least_ns}ns..{most_ns}ns\""));
            }
        }
        for (share, measured) in &self.migrations {
            let key = match share {
                Sharing::Core => "migration_core",
                Sharing::Llc => "migration_llc",
                Sharing::Node => "migration_node",
                Sharing::Machine => "migration_across",
            };
            add(&mut out, &line(key, measured));
        }
        for thread in &self.kernel_threads {
            let KernelThread { name, cpu, every_ns, run_ns } = thread;
            add(&mut out, "\n[[machine.kernel_thread]]");
            add(&mut out, &format!("name = {name:?}"));
            cpu.iter().for_each(|cpu| add(&mut out, &format!("cpu = {cpu}")));
            add(&mut out, &format!("every = \"{every_ns}ns\""));
            add(&mut out, &format!("run = \"{run_ns}ns\""));
        }
        out
    }
}

fn add(out: &mut String, line: &str) {
    writeln!(out, "{line}").expect("a String takes everything");
}

fn line(key: &str, measured: &Measured) -> String {
    let Measured { median_ns, low_ns, high_ns, repeats } = measured;
    format!("{key} = \"{median_ns:.0}ns\" # {low_ns:.0} to {high_ns:.0}, {repeats} repeats")
}

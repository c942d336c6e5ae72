//! A process and all that it forks, under whatever scheduler is in force.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags};
use metasched_abi::{FollowOther, FollowOtherKey, FollowProcess, FromBytes, IntoBytes};
use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_stats::WaitHistogram;

use crate::capture::Capture;
use crate::refusal::{self, Stage};
use crate::run_stats::Runs;
use crate::skel::follow::{FollowSkel, FollowSkelBuilder};
use crate::stored::Stored;

/// Follows processes and what they fork. Its cost falls on every wake-up and every switch of the
/// machine. Dropping it detaches it.
pub struct Follower {
    skel: Stored<FollowSkel<'static>>,
}

/// A process that is followed, all of its threads together, since it was first seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowedProcess {
    /// Its number.
    pub pid: u32,
    /// Who forked it; none for those that were there.
    pub parent: Option<u32>,
    /// What it is called: the program's name once it has executed one.
    pub name: String,
    /// How long its threads ran, nanoseconds; a run that goes on is not in it.
    pub ran_ns: u64,
    /// How often a thread began to run.
    pub runs: u64,
    /// How often one had to stop and could have gone on.
    pub preemptions: u64,
    /// How often one began on another CPU than it ran on before.
    pub moves: u64,
    /// The CPUs that it ran on.
    pub cpus: Vec<u32>,
    /// How long its threads waited for a CPU.
    pub waits: WaitHistogram,
    /// Who had the CPU that a thread waited for, by the name of the thread; empty for an idle one.
    pub others: BTreeMap<String, OtherTask>,
}

/// One that ran while a thread of a followed process did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OtherTask {
    /// Waits that ended when it stopped, on its CPU.
    pub waits: u64,
    /// The part of these waits in which it ran, nanoseconds.
    pub wait_ns: u64,
    /// How often it took the CPU from a thread of the process.
    pub preemptions: u64,
}

fn attempt() -> String {
    "follow processes".to_owned()
}

impl Follower {
    /// Follows each of these processes, with its name, and from now on all that they fork.
    ///
    /// # Errors
    /// As for loading any BPF program.
    pub fn attach(processes: &BTreeMap<u32, String>) -> Result<Self> {
        let capture = Capture::start();
        let refused = |stage: Stage, error: &libbpf_rs::Error| {
            refusal::explain(attempt(), stage, error, &capture.text(), None)
        };
        let skel = Stored::new(|storage| {
            let builder = FollowSkelBuilder::default();
            let open = builder.open(storage).map_err(|e| refused(Stage::Open, &e))?;
            let mut skel = open.load().map_err(|e| refused(Stage::Load, &e))?;
            // Before it is attached: what they fork from then on is seen.
            for (pid, name) in processes {
                let mut process = FollowProcess { tgid: *pid, ..Default::default() };
                let last = process.name.len() - 1;
                for (to, from) in process.name[..last].iter_mut().zip(name.bytes()) {
                    *to = from as std::ffi::c_char;
                }
                skel.maps
                    .processes
                    .update(&pid.to_ne_bytes(), process.as_bytes(), MapFlags::ANY)
                    .attempt(Kind::Failed, attempt)?;
            }
            skel.attach().map_err(|e| refused(Stage::Attach, &e))?;
            Ok::<_, Error>(skel)
        })?;
        Ok(Self { skel })
    }

    /// Every process that was followed so far, by its number, those that have ended too.
    pub fn read(&self) -> Result<BTreeMap<u32, FollowedProcess>> {
        let maps = &self.skel.get().maps;
        let attempt = || "read what was followed".to_owned();
        let size = |_| Error::new(Kind::Failed, attempt(), "it has another size");
        let mut processes = BTreeMap::new();
        for key in maps.processes.keys() {
            let value = maps.processes.lookup(&key, MapFlags::ANY);
            // One that was replaced meanwhile is found the next time.
            let Some(bytes) = value.attempt(Kind::Failed, attempt)? else { continue };
            let kept = FollowProcess::read_from_bytes(&bytes).map_err(|_| size(()))?;
            processes.insert(kept.tgid, FollowedProcess::of(&kept));
        }
        for key in maps.others.keys() {
            let Some(bytes) =
                maps.others.lookup(&key, MapFlags::ANY).attempt(Kind::Failed, attempt)?
            else {
                continue;
            };
            let key = FollowOtherKey::read_from_bytes(&key).map_err(|_| size(()))?;
            let kept = FollowOther::read_from_bytes(&bytes).map_err(|_| size(()))?;
            if let Some(process) = processes.get_mut(&key.tgid) {
                let FollowOther { waits, wait_ns, preemptions } = kept;
                let other = OtherTask { waits, wait_ns, preemptions };
                process.others.insert(text(&key.name), other);
            }
        }
        Ok(processes)
    }

    /// How many processes there was no room for.
    pub fn missed(&self) -> u64 {
        let variables = self.skel.get().maps.bss_data.as_deref();
        variables.map_or(0, |variables| variables.nr_missed)
    }

    /// How often it ran and for how long, since counting began: see [`CountRuns`](crate::CountRuns).
    pub fn runs(&self) -> Result<Runs> {
        let programs = &self.skel.get().progs;
        Runs::of([
            programs.follow_wakeup.as_fd(),
            programs.follow_new.as_fd(),
            programs.follow_switch.as_fd(),
            programs.follow_fork.as_fd(),
            programs.follow_exec.as_fd(),
        ])
    }
}

// SAFETY: the raw pointers inside are to mapped variables and to libbpf's object,
// neither of which is tied to a thread.
unsafe impl Send for Follower {}

/// A name up to its NUL; what is no text in it is shown as such.
fn text(name: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = name.iter().map(|c| *c as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl FollowedProcess {
    fn of(kept: &FollowProcess) -> Self {
        let bits = |(word, bits): (usize, &u64)| {
            let bits = *bits;
            (0..u64::BITS)
                .filter(move |bit| bits >> bit & 1 == 1)
                .map(move |bit| word as u32 * u64::BITS + bit)
        };
        Self {
            pid: kept.tgid,
            parent: (kept.parent != 0).then_some(kept.parent),
            name: text(&kept.name),
            ran_ns: kept.ran_ns,
            runs: kept.runs,
            preemptions: kept.preemptions,
            moves: kept.moves,
            cpus: kept.cpus.iter().enumerate().flat_map(bits).collect(),
            waits: (&kept.waits).into(),
            others: BTreeMap::new(),
        }
    }
}

impl FollowedProcess {
    /// Adds what another one did; it keeps its own number and name.
    pub fn merge(&mut self, other: &Self) {
        self.ran_ns += other.ran_ns;
        self.runs += other.runs;
        self.preemptions += other.preemptions;
        self.moves += other.moves;
        self.cpus.extend(&other.cpus);
        self.cpus.sort_unstable();
        self.cpus.dedup();
        self.waits.merge(&other.waits);
        for (name, theirs) in &other.others {
            let mine = self.others.entry(name.clone()).or_default();
            mine.waits += theirs.waits;
            mine.wait_ns += theirs.wait_ns;
            mine.preemptions += theirs.preemptions;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_keeps_is_read_as_it_was_meant() {
        let mut kept = FollowProcess { tgid: 7, ran_ns: 5, ..Default::default() };
        kept.cpus[0] = 0b101;
        kept.cpus[1] = 1;
        for (to, from) in kept.name.iter_mut().zip(b"make\0rest") {
            *to = *from as std::ffi::c_char;
        }
        let process = FollowedProcess::of(&kept);
        assert_eq!((process.name.as_str(), process.ran_ns, process.parent), ("make", 5, None));
        assert_eq!(process.cpus, [0, 2, 64]);
    }
}

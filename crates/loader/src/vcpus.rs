//! Which threads run virtual CPUs of KVM's.

use std::io::Read;
use std::os::fd::AsFd;

use libbpf_rs::Iter;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use metasched_abi::{FromBytes, VcpuThread};
use metasched_base::{Error, Kind, Result, ResultExt};

use crate::capture::Capture;
use crate::refusal::{self, Stage};
use crate::skel::vcpus::{VcpusSkel, VcpusSkelBuilder};
use crate::stored::Stored;
use crate::syscalls::run_program;

/// Finds the threads of virtual CPUs by KVM's own structures. KVM must be there when it is loaded. It costs
/// nothing until it is asked, and then a look at each thread of the machine.
pub struct VcpuFinder {
    skel: Stored<VcpusSkel<'static>>,
}

fn attempt() -> String {
    "look for virtual CPUs in KVM".to_owned()
}

impl VcpuFinder {
    /// Loads it.
    ///
    /// # Errors
    /// `Unsupported` where the kernel does not describe KVM's structures, or has others; as for loading any BPF
    /// program.
    pub fn load() -> Result<Self> {
        refusal::check_may_trace(&attempt())?;
        let capture = Capture::start();
        let refused = |stage: Stage, error: &libbpf_rs::Error| {
            refusal::explain(attempt(), stage, error, &capture.text(), None)
        };
        let skel = Stored::new(|storage| {
            let open = VcpusSkelBuilder::default().open(storage);
            let open = open.map_err(|e| refused(Stage::Open, &e))?;
            let mut skel = open.load().map_err(|e| refused(Stage::Load, &e))?;
            skel.attach().map_err(|e| refused(Stage::Attach, &e))?;
            Ok::<_, Error>(skel)
        })?;
        let known = run_program(skel.get().progs.vcpus_are_known.as_fd(), &[]);
        if known.attempt(Kind::Failed, attempt)? == 0 {
            let cause = "the kernel does not say what KVM's structures are, or has others";
            return Err(Error::new(Kind::Unsupported, attempt(), cause)
                .remedy("boot a kernel with CONFIG_DEBUG_INFO_BTF_MODULES=y"));
        }
        Ok(Self { skel })
    }

    /// The threads that are inside of KVM at this moment, also those whose guest sleeps. One whose program
    /// handles what its guest did is not among them, and mostly is the next time.
    ///
    /// # Errors
    /// `Failed` where the kernel does not tell.
    pub fn find(&self) -> Result<Vec<VcpuThread>> {
        let link = self.skel.get().links.vcpus_of_threads.as_ref().expect("load() attaches it");
        let mut bytes = Vec::new();
        Iter::new(link)
            .map_err(std::io::Error::other)
            .and_then(|mut iter| iter.read_to_end(&mut bytes))
            .attempt(Kind::Failed, attempt)?;
        let records = bytes.chunks_exact(size_of::<VcpuThread>());
        Ok(records.filter_map(|record| VcpuThread::read_from_bytes(record).ok()).collect())
    }
}

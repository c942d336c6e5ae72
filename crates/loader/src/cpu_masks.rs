//! Tells the program where the kernel has its sets of CPUs.

use std::io;
use std::thread::{Builder, JoinHandle};

use libbpf_rs::{MapCore, MapFlags};
use metasched_abi::{CpuMaskAddresses, IntoBytes};
use metasched_host::kallsyms;
use metasched_host::process::Prompt;

/// The search for them, in a thread of its own: the verifier takes longer.
pub(crate) struct CpuMasks(JoinHandle<io::Result<[u64; 2]>>);

impl CpuMasks {
    /// Begins it.
    ///
    /// # Errors
    /// Where there can be no thread.
    pub(crate) fn find() -> io::Result<Self> {
        let search = || {
            let _prompt = Prompt::new();
            kallsyms::addresses(["__cpu_online_mask", "__cpu_active_mask"])
        };
        Builder::new().name("symbols".into()).spawn(search).map(Self)
    }

    /// Waits for its end and tells the program, which does without what was not found: what waits for a
    /// CPU on its way off line then waits until the kernel tells of that.
    ///
    /// # Errors
    /// Where the map cannot be written.
    pub(crate) fn tell(self, cpu_masks: &impl MapCore) -> libbpf_rs::Result<()> {
        let Ok(Ok([online, active])) = self.0.join() else { return Ok(()) };
        let found = CpuMaskAddresses { online, active };
        cpu_masks.update(&0u32.to_ne_bytes(), found.as_bytes(), MapFlags::ANY)
    }
}

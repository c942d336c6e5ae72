//! Tells the program where the kernel has its sets of CPUs.

use std::io;
use std::thread::Builder;

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use metasched_abi::{CpuMaskAddresses, IntoBytes};
use metasched_host::kallsyms;

/// Finds them in a thread of its own, since the program runs without them: what waits for a CPU on its
/// way off line then waits until the kernel tells of that.
pub(crate) fn find(cpu_masks: MapHandle) -> io::Result<()> {
    Builder::new().name("symbols".into()).spawn(move || {
        // Without them it is as on a kernel that does not tell them.
        if let Ok([online, active]) =
            kallsyms::addresses(["__cpu_online_mask", "__cpu_active_mask"])
        {
            let found = CpuMaskAddresses { online, active };
            let _ = cpu_masks.update(&0u32.to_ne_bytes(), found.as_bytes(), MapFlags::ANY);
        }
    })?;
    Ok(())
}

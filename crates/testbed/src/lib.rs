//! Boots a kernel with sched_ext and runs a command in it.
//!
//! The guest is QEMU with a kernel of our choice and a first file system that we
//! put together: no image, no daemon. Its root is a copy-on-write view of the
//! host's own files, so that what is built and installed here is there too; what
//! it writes is lost with it, except in folders that were named.

mod console;
mod cpio;
pub mod guest;
mod initramfs;
pub mod kernels;
mod modules;
mod options;
mod pin;
pub mod qemu;
mod session;
pub mod spec;
pub mod terminal;
mod tsc;
mod vm;

pub use options::{Accel, Llc, Thread, Topology, VmOptions, parse_memory};
pub use session::{Outcome, Streams};
pub use vm::{Vm, kvm_opens, run};

//! Virtual machines and cgroups, and what their host knows of their CPUs: how many of a machine's virtual
//! CPUs are phantoms, which could run and wait for a CPU of the host, and how many of the host's CPUs
//! are idle that it may use.
//!
//! A [`Scanner`] finds machines by what KVM says, and by their threads. An [`Observer`] averages over windows of time, and
//! [`serve()`] writes each window to a page that the guest reads.

mod kvm;
mod machines;
mod observer;
mod page;
mod row;
mod serve;
mod whose;

pub use machines::{Machine, RecognisedBy, Scanner, qemu_arguments};
pub use observer::{Observed, Observer, Window};
pub use page::{PAGES, Page, PageFigures, on_memory, page_path, read_page, remove_page};
pub use row::{MACHINE_FIGURES, MachineLook, MachineLooks, MachineRow};
pub use serve::{ServeOptions, Served, serve};
pub use whose::{Whose, machine_of};

//! The threads of virtual CPUs, as KVM itself tells of them.

use std::path::Path;
use std::sync::Once;

use metasched_base::{Error, Kind};
use metasched_loader::{VcpuFinder, VcpuThread};

/// Asks KVM, once it is there: it may be a module that is loaded with the first machine.
#[derive(Default)]
pub(super) enum Kvm {
    #[default]
    NotSeen,
    Asked(Box<VcpuFinder>),
    /// It cannot be asked, and that was said.
    Refused,
}

impl Kvm {
    /// The threads that are inside of KVM now, on the system below `root`; none where KVM is not there or
    /// cannot be asked.
    pub(super) fn threads(&mut self, root: &Path) -> Vec<VcpuThread> {
        if matches!(self, Self::NotSeen) && root.join("sys/module/kvm").exists() {
            let loaded = VcpuFinder::load().map(Box::new);
            *self = loaded.map_or_else(|error| Self::refused(&error), Self::Asked);
        }
        let Self::Asked(finder) = self else { return Vec::new() };
        finder.find().unwrap_or_else(|error| {
            *self = Self::refused(&error);
            Vec::new()
        })
    }

    fn refused(error: &Error) -> Self {
        static SAID: Once = Once::new();
        // Without the privileges nothing can be observed at all, which is said then.
        if error.kind != Kind::Denied {
            SAID.call_once(|| {
                eprintln!(
                    "metasched: machines are known by the names of their threads alone: {error}"
                );
            });
        }
        Self::Refused
    }
}

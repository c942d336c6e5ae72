//! How often BPF programs ran and for how long, as the kernel counts it.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys::{BPF_STATS_RUN_TIME, bpf_enable_stats, bpf_prog_get_info_by_fd};
use metasched_base::{Error, Kind, Result};

/// The kernel counts for all BPF programs of the machine while this lives, also in a process that
/// is killed: it then reads its clock twice for each run of a program.
#[derive(Debug)]
pub struct CountRuns {
    _counting: OwnedFd,
}

impl CountRuns {
    /// Begins to count.
    ///
    /// # Errors
    /// `Denied` or `Unsupported` where the kernel does not let us.
    pub fn start() -> Result<Self> {
        // SAFETY: the call takes a number, and gives a new descriptor or a negative error.
        let fd = unsafe { bpf_enable_stats(BPF_STATS_RUN_TIME) };
        if fd < 0 {
            let cause = std::io::Error::from_raw_os_error(-fd);
            let kind = match cause.kind() {
                std::io::ErrorKind::PermissionDenied => Kind::Denied,
                _ => Kind::Unsupported,
            };
            return Err(Error::new(kind, "count what BPF programs take", cause));
        }
        // SAFETY: it is new, and nobody else has it.
        Ok(Self { _counting: unsafe { OwnedFd::from_raw_fd(fd) } })
    }
}

/// Runs of BPF programs, summed over all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Runs {
    /// How often they ran.
    pub count: u64,
    /// For how long, nanoseconds: of the two readings of the clock about one is in it, and
    /// the way to the program and back is not.
    pub ns: u64,
}

impl Runs {
    /// Of these programs, since each was loaded and was counted.
    pub(crate) fn of<'a>(programs: impl IntoIterator<Item = BorrowedFd<'a>>) -> Result<Self> {
        let mut runs = Self::default();
        for program in programs {
            let mut info = libbpf_rs::libbpf_sys::bpf_prog_info::default();
            let mut length = size_of_val(&info) as u32;
            // SAFETY: the kernel writes no more than `length` bytes into `info`, and follows no
            // pointer in it, as all lengths in it are zero.
            let error =
                unsafe { bpf_prog_get_info_by_fd(program.as_raw_fd(), &mut info, &mut length) };
            if error != 0 {
                let cause = std::io::Error::from_raw_os_error(-error);
                return Err(Error::new(Kind::Failed, "read how often a BPF program ran", cause));
            }
            runs.count += info.run_cnt;
            runs.ns += info.run_time_ns;
        }
        Ok(runs)
    }

    /// What came after `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            count: self.count.saturating_sub(earlier.count),
            ns: self.ns.saturating_sub(earlier.ns),
        }
    }
}

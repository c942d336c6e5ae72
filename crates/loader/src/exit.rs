//! Why the kernel ended the program.

use metasched_base::{Error, Kind};

/// What the kernel said when it ended the program.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ExitRecord {
    /// `enum scx_exit_kind` of the kernel.
    pub kind: u32,
    /// The kind as a word.
    pub kind_name: &'static str,
    /// The kernel's reason.
    pub reason: String,
    /// What went wrong in particular; may be empty.
    pub message: String,
    /// The kernel's dump of the tasks that were queued; may be empty.
    pub dump: String,
}

impl ExitRecord {
    /// The error of a call that finds the program gone.
    pub(crate) fn error(&self, attempt: String) -> Error {
        let message = if self.message.is_empty() { &self.reason } else { &self.message };
        Error::new(
            Kind::SchedulerExit,
            attempt,
            format!("the kernel has ended the program ({}): {message}", self.kind_name),
        )
    }

    /// Whether it ended because somebody wanted it to: we, or an operator.
    pub fn was_asked_for(&self) -> bool {
        self.kind < FIRST_ERROR
    }

    /// Whether an operator stopped it with SysRq-S. That must not be answered by
    /// a restart.
    pub fn was_sysrq(&self) -> bool {
        self.kind == 67
    }
}

/// From here on a kind is an error.
const FIRST_ERROR: u32 = 1024;

/// `enum scx_exit_kind`, as far as the kernels up to 7.3 have it.
pub(crate) fn kind_name(kind: u32) -> &'static str {
    match kind {
        0 => "none",
        1 => "done",
        64 => "unregistered",
        65 => "unregistered by BPF",
        66 => "unregistered by the kernel",
        67 => "SysRq-S",
        68 | 69 => "ended with its parent",
        1024 => "runtime error",
        1025 => "error raised by BPF",
        1026 => "stalled task",
        1027 => "task requeued without end",
        1028 => "rescue failed",
        _ => "unknown",
    }
}

/// Text of a C buffer, up to its first zero byte.
pub(crate) fn c_text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32) -> ExitRecord {
        ExitRecord {
            kind,
            kind_name: kind_name(kind),
            reason: String::new(),
            message: String::new(),
            dump: String::new(),
        }
    }

    #[test]
    fn an_operators_stop_is_no_error_and_a_stall_is_one() {
        assert!(record(67).was_asked_for() && record(67).was_sysrq());
        assert!(record(64).was_asked_for() && !record(64).was_sysrq());
        assert!(!record(1026).was_asked_for());
        assert_eq!(record(1026).kind_name, "stalled task");
    }

    #[test]
    fn text_ends_at_the_first_zero() {
        assert_eq!(c_text(b"stall\0old rest"), "stall");
        assert_eq!(c_text(b"full"), "full");
    }
}

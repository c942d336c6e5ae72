//! What this process may do.

use std::fs;
use std::path::Path;

/// What loading a scheduler takes, for messages.
pub const TO_LOAD_SCHEDULERS: &str = "CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN";

// Bits of the kernel's include/uapi/linux/capability.h.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// What /proc/self/ns/user says in the user namespace that the kernel itself makes.
const INITIAL_USER_NAMESPACE: &str = "user:[4026531837]";

/// Whether this process may load schedulers. The kernel wants CAP_BPF of whoever loads anything but
/// a filter, and CAP_PERFMON beside it for struct_ops and tracing (kernel/bpf/syscall.c); it takes
/// CAP_SYS_ADMIN for either. All of them count in the initial user namespace alone. Who the user is
/// does not count.
pub fn may_load_schedulers(root: &Path) -> bool {
    let status = fs::read_to_string(root.join("proc/self/status")).unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    let has = |capability: u32| effective & (1 << capability) != 0;
    let elsewhere = fs::read_link(root.join("proc/self/ns/user"))
        .is_ok_and(|name| name != Path::new(INITIAL_USER_NAMESPACE));
    !elsewhere && (has(CAP_SYS_ADMIN) || has(CAP_BPF) && has(CAP_PERFMON))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(capabilities: &[u32], namespace: &str) -> bool {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("proc/self");
        fs::create_dir_all(own.join("ns")).unwrap();
        let mask: u64 = capabilities.iter().map(|bit| 1 << bit).sum();
        fs::write(own.join("status"), format!("Name:\tx\nCapEff:\t{mask:016x}\n")).unwrap();
        std::os::unix::fs::symlink(namespace, own.join("ns/user")).unwrap();
        may_load_schedulers(root.path())
    }

    #[test]
    fn capabilities_decide_and_not_the_user() {
        let here = INITIAL_USER_NAMESPACE;
        assert!(with(&[CAP_SYS_ADMIN], here) && with(&[CAP_BPF, CAP_PERFMON], here));
        assert!(!with(&[], here) && !with(&[CAP_BPF], here) && !with(&[CAP_PERFMON], here));
    }

    #[test]
    fn capabilities_in_a_namespace_of_users_are_worth_nothing() {
        assert!(!with(&[CAP_SYS_ADMIN, CAP_BPF, CAP_PERFMON], "user:[4026532000]"));
    }
}

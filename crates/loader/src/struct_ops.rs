//! What a struct_ops map is for: schedulers are not the only tables of callbacks that BPF fills.

use std::os::fd::AsFd;

use libbpf_rs::btf::types::Struct;
use libbpf_rs::btf::{Btf, TypeId};
use libbpf_rs::{MapHandle, MapInfo};

/// How the kernel calls the value of a map that holds a scheduler.
const SCHEDULER: &str = "bpf_struct_ops_sched_ext_ops";

/// Whether the struct_ops map of this id holds a scheduler, and not, say, a congestion control of
/// TCP; `None` if the kernel does not say, as to those who are not root.
pub fn holds_scheduler(map_id: u32) -> Option<bool> {
    let map = MapHandle::from_map_id(map_id).ok()?;
    let info = MapInfo::new(map.as_fd()).ok()?.info;
    let btf = Btf::from_vmlinux().ok()?;
    // A type of a module's is beyond those of the kernel itself, to which a scheduler belongs.
    let value: Option<Struct<'_>> = btf.type_by_id(TypeId::from(info.btf_vmlinux_value_type_id));
    Some(value.is_some_and(|value| value.name().is_some_and(|name| name == SCHEDULER)))
}

//! Calls about maps.

use super::{K, kernel};
use crate::kernel::Kernel;
use crate::maps::{Here, MapType};
use std::ptr;
use std::slice;

/// A key or a value of the policy's.
fn bytes<'a>(at: *const u8, size: u32) -> &'a [u8] {
    // SAFETY: the macros of seam.h take the size from the type of the map, and the verifier refuses
    // a policy that has less than that there. It is the policy's memory, which rests until we
    // return.
    unsafe { slice::from_raw_parts(at, size as usize) }
}

impl Kernel {
    fn map_type(&mut self, kind: u32, max_entries: u32, value_size: u32) -> Option<MapType> {
        let of = MapType { kind, max_entries, value_size };
        if !of.is_modelled() {
            self.fail("refused", format!("maps of type {kind} are not modelled"));
            return None;
        }
        Some(of)
    }
}

pub(super) extern "C" fn map_lookup(
    k: K,
    map: K,
    kind: u32,
    max_entries: u32,
    key_size: u32,
    value_size: u32,
    key: *const u8,
    cpu: i32,
) -> K {
    let kernel = kernel(k);
    let Some(of) = kernel.map_type(kind, max_entries, value_size) else { return ptr::null_mut() };
    let cpu = if cpu < 0 { kernel.calls.context.cpu } else { cpu as usize };
    let cpus = kernel.cpus.len();
    if cpu >= cpus {
        if cpu < cpus + kernel.machine.numbers_without_cpu() {
            kernel.fail("memory", format!("a map's value of CPU {cpu}, which there is not"));
        }
        return ptr::null_mut();
    }
    let key = bytes(key, key_size);
    kernel.program.maps.lookup(map, of, key, Here { cpu, cpus })
}

pub(super) extern "C" fn map_update(
    k: K,
    map: K,
    kind: u32,
    max_entries: u32,
    key_size: u32,
    value_size: u32,
    key: *const u8,
    value: *const u8,
    flags: u64,
) -> i64 {
    let kernel = kernel(k);
    let Some(of) = kernel.map_type(kind, max_entries, value_size) else { return -1 };
    let key = bytes(key, key_size);
    let value = bytes(value, value_size);
    let here = Here { cpu: kernel.calls.context.cpu, cpus: kernel.cpus.len() };
    kernel.program.maps.update(map, of, key, value, flags, here)
}

pub(super) extern "C" fn map_delete(k: K, map: K, kind: u32, key_size: u32, key: *const u8) -> i64 {
    let kernel = kernel(k);
    if kernel.map_type(kind, 0, 0).is_none() {
        return -1;
    }
    let key = bytes(key, key_size);
    kernel.program.maps.delete(map, key)
}

//! BPF maps. What becomes of the memory of deleted values is in `memory.rs`.

use crate::memory::{Memory, Value};
use rustc_hash::FxHashMap;
use std::ffi::c_void;

/// `BPF_MAP_TYPE_*` of the modelled kinds.
pub const HASH: u32 = 1;
/// An array.
pub const ARRAY: u32 = 2;
/// A hash with a value per CPU.
pub const PERCPU_HASH: u32 = 5;
/// An array with a value per CPU.
pub const PERCPU_ARRAY: u32 = 6;

const NOEXIST: u64 = 1;
const EXIST: u64 = 2;
const ENOENT: i64 = 2;
const E2BIG: i64 = 7;
const EEXIST: i64 = 17;
const EINVAL: i64 = 22;

/// A map as its definition in C describes it.
#[derive(Clone, Copy)]
pub struct MapType {
    /// `BPF_MAP_TYPE_*`.
    pub kind: u32,
    /// Keys at most, or the length of an array.
    pub max_entries: u32,
    /// Bytes of a value.
    pub value_size: u32,
}

impl MapType {
    /// Whether this kind is modelled.
    pub fn is_modelled(&self) -> bool {
        [HASH, ARRAY, PERCPU_HASH, PERCPU_ARRAY].contains(&self.kind)
    }

    fn is_array(&self) -> bool {
        [ARRAY, PERCPU_ARRAY].contains(&self.kind)
    }

    fn is_per_cpu(&self) -> bool {
        [PERCPU_ARRAY, PERCPU_HASH].contains(&self.kind)
    }

    fn words(&self) -> usize {
        self.value_size.div_ceil(8) as usize
    }
}

/// From where a map is looked at.
#[derive(Clone, Copy)]
pub struct Here {
    /// The CPU whose value is meant, in a per-CPU map.
    pub cpu: usize,
    /// How many CPUs the machine has.
    pub cpus: usize,
}

/// The values of a map; those of all CPUs side by side.
enum Values {
    /// By index; what nobody has looked up yet is not there. Of an array none is ever deleted.
    Array(Vec<Option<Box<[u64]>>>),
    Hash(FxHashMap<Box<[u8]>, Value>),
}

impl Values {
    fn of(map: MapType) -> Values {
        match map.is_array() {
            true => Values::Array(vec![None; map.max_entries as usize]),
            false => Values::Hash(FxHashMap::default()),
        }
    }

    /// The value of a key. An array has every key from the start.
    fn get(&mut self, of: MapType, key: &[u8], cpus: usize) -> Option<&mut [u64]> {
        match self {
            Values::Array(values) => {
                let value = values.get_mut(index(key)?)?;
                Some(value.get_or_insert_with(|| vec![0; of.all_words(cpus)].into()))
            }
            Values::Hash(values) => values.get_mut(key).map(Value::words_mut),
        }
    }
}

/// The index that a key of an array is.
fn index(key: &[u8]) -> Option<usize> {
    key.try_into().map(|key| u32::from_ne_bytes(key) as usize).ok()
}

/// Every map of one kernel, by the address of its definition.
#[derive(Default)]
pub struct Maps {
    maps: FxHashMap<usize, Values>,
    pub(crate) memory: Memory,
}

impl Maps {
    /// The address of a value, or null. An array has every key from the start.
    pub fn lookup(&mut self, map: *mut c_void, of: MapType, key: &[u8], here: Here) -> *mut c_void {
        let values = self.maps.entry(map as usize).or_insert_with(|| Values::of(of));
        let Some(value) = values.get(of, key, here.cpus) else { return std::ptr::null_mut() };
        let first = if of.is_per_cpu() { here.cpu * of.words() } else { 0 };
        value[first..].as_mut_ptr().cast()
    }

    /// Writes a value; 0, or an error as the system call gives it. A new key of a
    /// per-CPU hash gets the value on every CPU, as from user space.
    pub fn update(
        &mut self,
        map: *mut c_void,
        of: MapType,
        key: &[u8],
        new: &[u8],
        flags: u64,
        here: Here,
    ) -> i64 {
        let values = self.maps.entry(map as usize).or_insert_with(|| Values::of(of));
        let there = values.get(of, key, here.cpus).is_some();
        if there && flags == NOEXIST {
            return -EEXIST;
        }
        if !there && flags == EXIST {
            return -ENOENT;
        }
        if !there {
            let Values::Hash(all) = values else { return -E2BIG };
            if all.len() >= of.max_entries as usize {
                return -E2BIG;
            }
            all.insert(key.into(), self.memory.value(of.all_words(here.cpus)));
        }
        let value = values.get(of, key, here.cpus).expect("just made sure");
        let copies = if !of.is_per_cpu() {
            0..1
        } else if there {
            here.cpu..here.cpu + 1
        } else {
            0..here.cpus
        };
        for copy in copies {
            let at = value[copy * of.words()..].as_mut_ptr().cast::<u8>();
            // SAFETY: `new` is value_size bytes of the caller's, which may be this very value. From
            // `at` on there are words() words, which are as many bytes or more.
            unsafe { std::ptr::copy(new.as_ptr(), at, new.len()) };
        }
        0
    }

    /// Takes a key out; 0 or an error. An array keeps all its keys.
    pub fn delete(&mut self, map: *mut c_void, key: &[u8]) -> i64 {
        match self.maps.get_mut(&(map as usize)) {
            None => -ENOENT,
            Some(Values::Array(_)) => -EINVAL,
            Some(Values::Hash(values)) => match values.remove(key) {
                Some(value) => {
                    self.memory.delete(map, value);
                    0
                }
                None => -ENOENT,
            },
        }
    }

    /// The value of a key as user space sees it: those of all CPUs side by side. None if
    /// nobody has looked it up yet.
    pub fn words(&mut self, map: *mut c_void, key: &[u8]) -> Option<&mut [u64]> {
        match self.maps.get_mut(&(map as usize))? {
            Values::Array(values) => values.get_mut(index(key)?)?.as_deref_mut(),
            Values::Hash(values) => values.get_mut(key).map(Value::words_mut),
        }
    }

    /// The index of an array's value, by its address.
    pub fn index_of(&self, map: *mut c_void, value: *mut c_void) -> Option<u32> {
        let Values::Array(values) = self.maps.get(&(map as usize))? else { return None };
        let is_it = |words: &Option<Box<[u64]>>| {
            words
                .as_ref()
                .is_some_and(|words| words.as_ptr().cast::<c_void>() == value.cast_const())
        };
        values.iter().position(is_it).map(|at| at as u32)
    }

    /// The map of whose deleted values that address is part, by its definition's address.
    pub fn deleted_of(&self, address: u64) -> Option<usize> {
        self.memory.deleted_of(address as usize)
    }
}

impl MapType {
    fn all_words(&self, cpus: usize) -> usize {
        let copies = if self.is_per_cpu() { cpus } else { 1 };
        self.words() * copies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Here = Here { cpu: 0, cpus: 1 };
    const MAP: *mut c_void = 64 as *mut c_void;

    fn map(kind: u32) -> MapType {
        MapType { kind, max_entries: 2, value_size: 8 }
    }

    #[test]
    fn an_array_has_all_its_keys_and_no_more() {
        let mut maps = Maps::default();
        let mut at = |key: u32| maps.lookup(MAP, map(ARRAY), &key.to_ne_bytes(), HERE);
        assert!(!at(1).is_null());
        assert_eq!(at(1), at(1));
        assert!(at(2).is_null());
        assert_eq!(maps.delete(MAP, &1_u32.to_ne_bytes()), -EINVAL);
    }

    #[test]
    fn every_cpu_has_its_own_value() {
        let mut maps = Maps::default();
        let mut at =
            |cpu| maps.lookup(MAP, map(PERCPU_ARRAY), &[0; 4], Here { cpu, cpus: 3 }).cast::<u64>();
        // SAFETY: a value stays where it is, and has eight bytes.
        unsafe { *at(1) = 7 };
        // SAFETY: as above.
        assert_eq!(unsafe { [*at(0), *at(1), *at(2)] }, [0, 7, 0]);
    }

    #[test]
    fn a_hash_has_only_what_was_put_there() {
        let mut maps = Maps::default();
        let (key, of) = ([1, 2], map(HASH));
        assert!(maps.lookup(MAP, of, &key, HERE).is_null());
        assert_eq!(maps.update(MAP, of, &key, &9_u64.to_ne_bytes(), EXIST, HERE), -ENOENT);
        assert_eq!(maps.update(MAP, of, &key, &9_u64.to_ne_bytes(), 0, HERE), 0);
        assert_eq!(maps.update(MAP, of, &key, &8_u64.to_ne_bytes(), NOEXIST, HERE), -EEXIST);
        let at = maps.lookup(MAP, of, &key, HERE).cast::<u64>();
        // SAFETY: a value stays until it is deleted, and has eight bytes.
        assert_eq!(unsafe { *at }, 9);
        assert_eq!(maps.update(MAP, of, &[3, 3], &[0; 8], 0, HERE), 0);
        assert_eq!(maps.update(MAP, of, &[4, 4], &[0; 8], 0, HERE), -E2BIG);
        assert_eq!(maps.delete(MAP, &key), 0);
        assert!(maps.lookup(MAP, of, &key, HERE).is_null());
    }
}

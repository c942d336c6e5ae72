//! Memory of map values. It lives at fixed addresses for the whole run, as the verifier lets
//! a policy assume for as long as it holds RCU, which is until its callback is over. A read
//! of a deleted value after that would find another value in the kernel: here the memory has been
//! taken away, and the run fails by name.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr;

/// So many values have a page each, which is taken away when they are deleted. More of them
/// would cost more than they tell: a page each in the CPU's tables. Others are overwritten, and
/// checked later: that finds writes to them; reads find nothing of use.
const PAGES: usize = 512;
const PAGE_BYTES: usize = 4096;
const PAGE_WORDS: usize = PAGE_BYTES / 8;
/// Values start in other places of their pages, else all would compete for the same few
/// lines of the CPU's cache.
const STAGGER_WORDS: usize = 8;
/// So many deleted values stay out of use before their memory is given to others.
const DELETED: usize = 256;
/// What a deleted value holds: as a number it is absurd, as a pointer it leads nowhere.
const POISON: u64 = 0x6b6b_6b6b_6b6b_6b6b;

/// The memory of one value.
pub(crate) enum Value {
    Page { page: usize, at: *mut u64, words: usize },
    Heap(Box<[u64]>),
}

impl Value {
    pub fn words(&self) -> &[u64] {
        match self {
            // SAFETY: on_page() gave it so many words of a page of its own, all written. The page
            // can be read but for the time that a deleted value rests, from grace_period() to
            // reuse(), and nobody asks it then. A kernel has values no longer than their memory.
            Value::Page { at, words, .. } => unsafe { std::slice::from_raw_parts(*at, *words) },
            Value::Heap(words) => words,
        }
    }

    pub fn words_mut(&mut self) -> &mut [u64] {
        match self {
            // SAFETY: as above; it can be written to as well. C has the address too, but it writes
            // in callbacks only, which have the whole kernel.
            Value::Page { at, words, .. } => unsafe { std::slice::from_raw_parts_mut(*at, *words) },
            Value::Heap(words) => words,
        }
    }

    fn holds(&self, address: usize) -> bool {
        match self {
            Value::Page { at, .. } => *at as usize / PAGE_BYTES == address / PAGE_BYTES,
            Value::Heap(words) => words.as_ptr_range().contains(&(address as *const u64)),
        }
    }
}

/// A value that was deleted, and the map that it was of.
struct Deleted {
    map: usize,
    value: Value,
}

/// All of it, for one kernel.
#[derive(Default)]
pub(crate) struct Memory {
    /// Where the pages are; none are there until the first value is made.
    pages: Option<ptr::NonNull<c_void>>,
    free: Vec<usize>,
    /// Deleted in the present callback: code that holds RCU may still read them.
    leaving: Vec<Deleted>,
    deleted: VecDeque<Deleted>,
}

impl Memory {
    /// Memory for a value that may be deleted, all zero.
    pub fn value(&mut self, words: usize) -> Value {
        if self.pages.is_none() {
            self.reserve();
        }
        match self.free.pop() {
            Some(page) if words <= PAGE_WORDS => self.on_page(page, words),
            other => {
                self.free.extend(other);
                Value::Heap(vec![0; words].into())
            }
        }
    }

    /// A value is deleted: [`Memory::grace_period`] takes it away.
    pub fn delete(&mut self, map: *mut c_void, value: Value) {
        self.leaving.push(Deleted { map: map as usize, value });
    }

    /// Whether anything waits for the end of a grace period.
    pub fn waits(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Nobody holds RCU any more.
    ///
    /// # Errors
    /// The map of which a value was written to after an earlier one.
    pub fn grace_period(&mut self) -> Result<(), usize> {
        for mut deleted in std::mem::take(&mut self.leaving) {
            deleted.value.words_mut().fill(POISON);
            if let Value::Page { page, .. } = deleted.value {
                self.protect(page, libc::PROT_NONE);
            }
            self.deleted.push_back(deleted);
        }
        while self.deleted.len() > DELETED {
            self.reuse()?;
        }
        Ok(())
    }

    /// The run is over: what was written to too late is found even so.
    ///
    /// # Errors
    /// The map of which a value was written to after it was deleted.
    pub fn finish(&mut self) -> Result<(), usize> {
        self.grace_period()?;
        while !self.deleted.is_empty() {
            self.reuse()?;
        }
        Ok(())
    }

    /// The map of whose deleted values that address is part.
    pub fn deleted_of(&self, address: usize) -> Option<usize> {
        self.deleted.iter().find(|deleted| deleted.value.holds(address)).map(|of| of.map)
    }

    /// The oldest deleted value's memory can be had again.
    fn reuse(&mut self) -> Result<(), usize> {
        let Some(Deleted { map, value }) = self.deleted.pop_front() else { return Ok(()) };
        if let Value::Page { page, .. } = value {
            self.protect(page, libc::PROT_READ | libc::PROT_WRITE);
            self.free.push(page);
        }
        if value.words().iter().any(|word| *word != POISON) {
            return Err(map);
        }
        Ok(())
    }

    fn reserve(&mut self) {
        let (all, kind) = (PAGES * PAGE_BYTES, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a mapping of its own, anywhere.
        let at = unsafe { libc::mmap(ptr::null_mut(), all, access, kind, -1, 0) };
        if at != libc::MAP_FAILED {
            self.pages = ptr::NonNull::new(at);
            self.free = (0..PAGES).rev().collect();
        }
    }

    fn on_page(&self, page: usize, words: usize) -> Value {
        let room = (PAGE_WORDS - words) / STAGGER_WORDS;
        let first = page * PAGE_WORDS + page % (room + 1) * STAGGER_WORDS;
        let pages = self.pages.expect("a page was free").cast::<u64>();
        // SAFETY: within the pages, which are there as long as `self`.
        let at = unsafe { pages.as_ptr().add(first) };
        let mut value = Value::Page { page, at, words };
        value.words_mut().fill(0);
        value
    }

    fn protect(&self, page: usize, access: i32) {
        let pages = self.pages.expect("it has a page").as_ptr();
        // SAFETY: one of our pages. Where the system refuses, the poison is still there.
        unsafe { libc::mprotect(pages.byte_add(page * PAGE_BYTES), PAGE_BYTES, access) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(pages) = self.pages {
            // SAFETY: mapped by us, and no value is used after its kernel's memory.
            unsafe { libc::munmap(pages.as_ptr(), PAGES * PAGE_BYTES) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: *mut c_void = 64 as *mut c_void;

    #[test]
    fn a_deleted_value_stays_until_the_grace_period_is_over() {
        let mut memory = Memory::default();
        let mut value = memory.value(2);
        value.words_mut()[1] = 7;
        let at = value.words().as_ptr();
        memory.delete(MAP, value);
        assert!(memory.waits() && memory.deleted_of(at as usize).is_none());
        // SAFETY: as a callback that looked it up before.
        assert_eq!(unsafe { *at.add(1) }, 7);
        memory.grace_period().unwrap();
        assert_eq!(memory.deleted_of(at as usize), Some(MAP as usize));
        assert!(!memory.waits());
    }

    #[test]
    fn memory_comes_back_zeroed_and_not_at_once() {
        let mut memory = Memory::default();
        let first = memory.value(4);
        let at = first.words().as_ptr();
        memory.delete(MAP, first);
        memory.grace_period().unwrap();
        let mut others = Vec::new();
        for _ in 0..PAGES + 10 {
            let mut value = memory.value(4);
            assert_ne!(value.words().as_ptr(), at);
            assert_eq!(value.words(), [0; 4]);
            value.words_mut().fill(1);
            others.push(value);
        }
        for value in others {
            memory.delete(MAP, value);
        }
        memory.grace_period().unwrap();
        assert_eq!(memory.value(4).words(), [0; 4]);
        memory.finish().unwrap();
    }

    #[test]
    fn a_write_to_a_deleted_value_without_a_page_is_found_at_the_end() {
        let mut memory = Memory::default();
        let mut value = memory.value(PAGE_WORDS + 1);
        let at = value.words_mut().as_mut_ptr();
        memory.delete(MAP, value);
        memory.grace_period().unwrap();
        // SAFETY: its memory is kept.
        unsafe { *at = 1 };
        assert_eq!(memory.finish(), Err(MAP as usize));
    }
}

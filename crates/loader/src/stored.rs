//! A skeleton that owns what it borrows from.

use std::mem::MaybeUninit;

use libbpf_rs::OpenObject;

/// A skeleton with its storage.
pub(crate) struct Stored<S> {
    skel: Option<S>,
    storage: *mut MaybeUninit<OpenObject>,
}

impl<S> Stored<S> {
    /// Makes the skeleton in a new storage.
    pub(crate) fn new<E>(
        make: impl FnOnce(&'static mut MaybeUninit<OpenObject>) -> Result<S, E>,
    ) -> Result<Self, E> {
        let storage = Box::into_raw(Box::new(MaybeUninit::uninit()));
        let mut stored = Self { skel: None, storage };
        // SAFETY: the storage lives until drop(), which drops the skeleton first.
        stored.skel = Some(make(unsafe { &mut *storage })?);
        Ok(stored)
    }

    pub(crate) fn get(&self) -> &S {
        self.skel.as_ref().expect("only drop() takes it")
    }

    pub(crate) fn get_mut(&mut self) -> &mut S {
        self.skel.as_mut().expect("only drop() takes it")
    }
}

impl<S> Drop for Stored<S> {
    fn drop(&mut self) {
        self.skel = None;
        // SAFETY: it came from Box::into_raw, and its only borrower is gone.
        drop(unsafe { Box::from_raw(self.storage) });
    }
}

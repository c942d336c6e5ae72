//! The kernel program as it was compiled: its file, and the policies in it.

use std::sync::OnceLock;

use metasched_abi::{POLICIES, PolicyInfo};

/// A compiled program.
#[derive(Debug)]
pub struct Object {
    /// The ELF file.
    pub bytes: &'static [u8],
    /// The policies that it was compiled with, by their numbers.
    pub policies: &'static [PolicyInfo],
}

static OURS: Object = Object {
    bytes: include_bytes!(concat!(env!("OUT_DIR"), "/metasched.bpf.o")),
    policies: POLICIES,
};

static INSTEAD: OnceLock<Object> = OnceLock::new();

/// Has this process load another program than ours: for tests of policies that are for tests. The
/// first one stays. It must have the same variables and maps, which is for its build to see to.
pub fn load_instead(object: Object) {
    INSTEAD.get_or_init(|| object);
}

/// What this process loads.
pub(crate) fn object() -> &'static Object {
    INSTEAD.get().unwrap_or(&OURS)
}

//! The kernel program with the policies of `crates/sim/faults/policies`, for tests in the guest.

use metasched_abi::FAULTY_POLICIES;
use metasched_base::Result;
use metasched_loader::{LoadOptions, Object, Program, load_instead};

/// Loads it in place of the one that users have.
///
/// # Errors
/// As of [`Program::load`].
pub fn load(options: &LoadOptions) -> Result<Program> {
    load_instead(Object {
        bytes: include_bytes!(concat!(env!("OUT_DIR"), "/metasched.bpf.o")),
        policies: FAULTY_POLICIES,
    });
    Program::load(options)
}

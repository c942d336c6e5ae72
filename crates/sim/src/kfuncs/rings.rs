//! The call that puts a message into a ring.

use super::{K, kernel};
use std::slice;

pub(super) extern "C" fn ring_output(k: K, map: K, size: u32, data: *const u8, bytes: u64) -> i64 {
    // SAFETY: the verifier refuses a policy that has fewer bytes there than it says. It is the
    // policy's memory, which rests until we return.
    let message = unsafe { slice::from_raw_parts(data, bytes as usize) };
    kernel(k).ring_output(map, size as usize, message)
}

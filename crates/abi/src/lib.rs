//! What the kernel program and user space share: constants, enums, arguments of its
//! programs, and its policies with their options and counters.
//!
//! All of it is declared once, in C: `meta/types.h`, `meta/bounds.h`, `bpf/lane.h`,
//! `bpf/wait.h`, `policies/policies.def` and each policy's `options.h`. The build takes it
//! from there, so a field that is added or moved there is so here. It needs neither the
//! kernel nor the program itself: the simulator stands on it as the loader does.

mod asked;
mod declared;
mod policies;

pub use asked::{
    DEFAULT_POLICY, DEFAULT_WEIGHT, EEVDF, LaneTurn, Setting, WEIGHTS, check_weight, cycle_args,
    known_variant,
};
pub use declared::*;
pub use policies::{
    CounterInfo, FAULTY_POLICIES, OptionInfo, POLICIES, POLICY_NAMES, PRESETS, PolicyInfo,
    by_number, variant,
};
/// Structs from bytes and as bytes: every one that is declared here can.
pub use zerocopy::{FromBytes, IntoBytes};

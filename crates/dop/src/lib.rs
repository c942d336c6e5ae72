//! How many threads a parallel region gets, by what the host tells.
//!
//! `libmetasched_dop.so` is preloaded into an OpenMP program. It stands before every entry point of
//! GNU's and LLVM's runtime that starts a parallel region, and has outermost regions start with as
//! many threads as can really run. `docs/paravirt-guest.md` says how to use it,
//! `docs/paravirt-page.md` what the host tells.
//!
//! From the pure to what touches the program: [`page`] reads a page from bytes, [`follow`] decides
//! by pages, `source` gets at the bytes, `process` has the state of this process, `real` finds the
//! runtime's own functions, `gomp` and `kmp` stand before them.
//!
//! Whatever is wrong with a page, a region starts as it would without this library.

pub mod follow;
pub mod page;

mod gomp;
#[cfg(target_arch = "x86_64")]
mod kmp;
mod log;
mod process;
mod real;
mod settings;
mod source;

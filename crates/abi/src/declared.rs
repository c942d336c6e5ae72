//! What bindgen makes of the headers; names and documentation are theirs.

#![allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks)]

include!(concat!(env!("OUT_DIR"), "/declarations.rs"));

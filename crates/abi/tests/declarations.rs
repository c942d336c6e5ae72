//! The Rust types follow the headers: tried with changed copies of them.

#[path = "../build/declarations.rs"]
mod declarations;

use std::fs;
use std::path::{Path, PathBuf};

use metasched_abi::{AppArgs, FromBytes, IntoBytes, LANES_MAX, LaneState, OPTION_DEFAULT};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// What is generated where `meta/types.h` has `to` in place of `from`; without white space.
fn generated(from: &str, to: &str) -> String {
    let copy = tempfile::tempdir().unwrap();
    let types = fs::read_to_string(root().join("meta/types.h")).unwrap();
    assert_eq!(types.matches(from).count(), 1, "meta/types.h: {from}");
    fs::write(copy.path().join("types.h"), types.replace(from, to)).unwrap();
    let folders =
        ["crates/abi/c", "bpf", "include", "meta", "policies"].map(|folder| root().join(folder));
    let folders = [&[copy.path().to_owned()], &folders[..]].concat();
    let text = declarations::generate(&root().join("crates/abi/c/abi.h"), &folders);
    text.split_whitespace().collect()
}

/// Whether the build refuses the type unless the field lies there.
fn asserts(text: &str, field: &str, offset: usize) -> bool {
    let (of, name) = field.split_once("::").unwrap();
    text.contains(&format!("offset_of!({of},{name})-{offset}usize"))
}

#[test]
fn a_field_that_moves_in_the_header_moves_in_rust() {
    const FIELDS: &str = "\tu32 weight;\n\tu32 weight_fixed;\n\tu64 options";
    const SWAPPED: &str = "\tu32 weight_fixed;\n\tu32 weight;\n\tu64 options";
    let before = generated(FIELDS, FIELDS);
    assert!(
        asserts(&before, "AppArgs::weight", 8) && asserts(&before, "AppArgs::weight_fixed", 12)
    );
    let after = generated(FIELDS, SWAPPED);
    assert!(asserts(&after, "AppArgs::weight_fixed", 8) && asserts(&after, "AppArgs::weight", 12));
}

#[test]
fn a_struct_a_constant_and_a_state_that_are_new_in_the_header_are_there_in_rust() {
    let guard = "#endif\n";
    let text = generated(
        guard,
        "#define TRIES_MAX (2 * LANES_MAX)\n\
         enum try_state { TRY_BEGUN, TRY_OVER = 7 };\n\
         struct a_try { u64 at_ns; u32 state; };\n#endif\n",
    );
    let tries_max = format!("TRIES_MAX:usize={}", 2 * LANES_MAX);
    assert!(text.contains(&tries_max), "{text}");
    assert!(text.contains("7=>Ok(Self::Over)"), "{text}");
    // The hole at its end is a field, so that its bytes are known.
    assert!(text.contains("pubstructATry{pubat_ns:u64,pubstate:u32,pub__bindgen_padding_0"));
}

#[test]
fn arguments_cross_as_the_bytes_of_their_fields() {
    let mut args = AppArgs { app: 3, variant: 1, weight: 250, ..Default::default() };
    args.options.fill(OPTION_DEFAULT);
    args.options[0] = 5_000_000;
    let bytes = args.as_bytes();
    assert_eq!(bytes.len(), size_of::<AppArgs>());
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(word(std::mem::offset_of!(AppArgs, weight)), 250);
    let back = AppArgs::read_from_bytes(bytes).unwrap();
    assert_eq!((back.app, back.variant, back.options[0]), (3, 1, 5_000_000));
}

#[test]
fn a_state_is_known_by_the_number_that_the_header_gives_it() {
    assert_eq!(LaneState::try_from(0), Ok(LaneState::Free));
    assert_eq!(LaneState::try_from(LaneState::Resting as u32), Ok(LaneState::Resting));
    assert_eq!(LaneState::try_from(99), Err(99));
}

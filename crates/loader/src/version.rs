//! Which version of the policies this is.

use std::fmt::Write;
use std::sync::LazyLock;

use ::object::{File, Object as _, ObjectSection as _};
use sha2::{Digest, Sha256};

use crate::object::object;

/// The version of all our policies: metasched's own and, as in `0.1.0+1a2b3c4d`, a hash of
/// the kernel program that they are compiled into. Figures of a policy that was changed
/// are thus told from those of the policy before.
pub fn policies_version() -> &'static str {
    static VERSION: LazyLock<String> =
        LazyLock::new(|| format!("{}+{}", env!("CARGO_PKG_VERSION"), hash(object().bytes)));
    &VERSION
}

/// The beginning of a SHA-256, in hexadecimal, over what the kernel is given: code, data,
/// relocations and types. Left out is from which line of the source each instruction
/// comes, so that a comment changes nothing.
fn hash(object: &[u8]) -> String {
    const BYTES: usize = 4;
    let mut hasher = Sha256::new();
    let file = File::parse(object).expect("the compiler's own output");
    for section in file.sections() {
        let (name, contents) = (section.name_bytes(), section.data());
        let (name, contents) = (name.expect("it has one"), contents.expect("the file holds it"));
        if name.ends_with(b".BTF.ext") {
            continue;
        }
        // With lengths, so that no two files give the same stream of bytes.
        for part in [name, contents] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    hasher.finalize().iter().take(BYTES).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program with one byte of a section changed.
    fn changed_in(name: &[u8]) -> Vec<u8> {
        let file = File::parse(object().bytes).unwrap();
        let contents = file.section_by_name_bytes(name).unwrap().data().unwrap();
        let at = contents.as_ptr() as usize - object().bytes.as_ptr() as usize;
        let mut object = object().bytes.to_vec();
        object[at + contents.len() / 2] ^= 1;
        object
    }

    #[test]
    fn another_instruction_constant_or_type_is_another_version_and_another_line_is_not() {
        for name in [&b".text"[..], b".rodata", b".relsyscall", b".BTF"] {
            assert_ne!(hash(&changed_in(name)), hash(object().bytes), "{}", name.escape_ascii());
        }
        assert_eq!(hash(&changed_in(b".BTF.ext")), hash(object().bytes));
    }

    #[test]
    fn the_version_does_not_depend_on_where_the_sources_lie() {
        let folder = env!("CARGO_MANIFEST_DIR").trim_end_matches("crates/loader").as_bytes();
        assert!(
            folder.len() > 1 && !object().bytes.windows(folder.len()).any(|bytes| bytes == folder)
        );
        assert!(policies_version().starts_with(concat!(env!("CARGO_PKG_VERSION"), "+")));
    }
}

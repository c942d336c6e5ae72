//! Which version of the policies this is.

use std::fmt::Write;
use std::sync::LazyLock;

use metasched_host::elf;
use sha2::{Digest, Sha256};

use crate::skel::metasched::OBJECT;

/// The version of all our policies: metasched's own and, as in `0.1.0+1a2b3c4d`, a hash of
/// the kernel program that they are compiled into. Figures of a policy that was changed
/// are thus told from those of the policy before.
pub fn policies_version() -> &'static str {
    static VERSION: LazyLock<String> =
        LazyLock::new(|| format!("{}+{}", env!("CARGO_PKG_VERSION"), hash(OBJECT)));
    &VERSION
}

/// The beginning of a SHA-256, in hexadecimal, over what the kernel is given: code, data,
/// relocations and types. Left out is from which line of the source each instruction
/// comes, so that a comment changes nothing.
fn hash(object: &[u8]) -> String {
    const BYTES: usize = 4;
    let mut hasher = Sha256::new();
    let sections = elf::sections(object).expect("the compiler's own output");
    for section in sections.iter().filter(|section| !section.name.ends_with(b".BTF.ext")) {
        // With lengths, so that no two files give the same stream of bytes.
        for part in [section.name, section.contents] {
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
        let sections = elf::sections(OBJECT).unwrap();
        let section = sections.iter().find(|section| section.name == name).unwrap();
        let at = section.contents.as_ptr() as usize - OBJECT.as_ptr() as usize;
        let mut object = OBJECT.to_vec();
        object[at + section.contents.len() / 2] ^= 1;
        object
    }

    #[test]
    fn another_instruction_constant_or_type_is_another_version_and_another_line_is_not() {
        for name in [&b".text"[..], b".rodata", b".relsyscall", b".BTF"] {
            assert_ne!(hash(&changed_in(name)), hash(OBJECT), "{}", name.escape_ascii());
        }
        assert_eq!(hash(&changed_in(b".BTF.ext")), hash(OBJECT));
    }

    #[test]
    fn the_version_does_not_depend_on_where_the_sources_lie() {
        let folder = env!("CARGO_MANIFEST_DIR").trim_end_matches("crates/loader").as_bytes();
        assert!(folder.len() > 1 && !OBJECT.windows(folder.len()).any(|bytes| bytes == folder));
        assert!(policies_version().starts_with(concat!(env!("CARGO_PKG_VERSION"), "+")));
    }
}

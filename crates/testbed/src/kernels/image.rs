//! The kernel's ELF file out of its boot image.
//!
//! QEMU boots it as it is (by the entry point for paravirtual guests). That spares
//! the guest to unpack itself, which takes a second of emulated time, and it works
//! from the first instruction with acceleration that cannot emulate all of the
//! unpacking code.

use std::fs;
use std::path::Path;

use metasched_base::{Error, Kind, Result, ResultExt};

/// Where the fields stand: the kernel's `Documentation/arch/x86/boot.rst`.
const SETUP_SECTORS_AT: usize = 0x1f1;
const MAGIC_AT: usize = 0x202;
const PAYLOAD_OFFSET_AT: usize = 0x248;
const PAYLOAD_LENGTH_AT: usize = 0x24c;
const SECTOR_BYTES: usize = 512;
const ZSTD_MAGIC: &[u8] = b"\x28\xb5\x2f\xfd";

/// Unpacks a boot image. Only zstd is known, which Debian uses since 6.12.
pub fn unpack(path: &Path) -> Result<Vec<u8>> {
    let attempt = || format!("unpack the kernel {}", path.display());
    let image = fs::read(path).attempt(Kind::BadInput, attempt)?;
    let payload = payload(&image)
        .ok_or_else(|| Error::new(Kind::BadInput, attempt(), "it is no boot image for x86"))?;
    if !payload.starts_with(ZSTD_MAGIC) {
        return Err(Error::new(Kind::Unsupported, attempt(), "it is not compressed with zstd"));
    }
    let mut decoder = zstd::stream::read::Decoder::new(payload)
        .attempt(Kind::BadInput, attempt)?
        // The unpacked size follows the frame, and is no part of it.
        .single_frame();
    let mut elf = Vec::new();
    std::io::copy(&mut decoder, &mut elf).attempt(Kind::BadInput, attempt)?;
    Ok(elf)
}

fn payload(image: &[u8]) -> Option<&[u8]> {
    let number = |at: usize| -> Option<usize> {
        Some(u32::from_le_bytes(image.get(at..at + 4)?.try_into().ok()?) as usize)
    };
    if image.get(MAGIC_AT..MAGIC_AT + 4)? != b"HdrS" {
        return None;
    }
    let sectors = match image[SETUP_SECTORS_AT] {
        0 => 4,
        n => usize::from(n),
    };
    let start = (sectors + 1) * SECTOR_BYTES + number(PAYLOAD_OFFSET_AT)?;
    image.get(start..start + number(PAYLOAD_LENGTH_AT)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A boot image of one setup sector whose payload stands 16 bytes into the rest.
    fn boot_image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 2 * SECTOR_BYTES + 16];
        image[SETUP_SECTORS_AT] = 1;
        image[MAGIC_AT..MAGIC_AT + 4].copy_from_slice(b"HdrS");
        image[PAYLOAD_OFFSET_AT] = 16;
        image[PAYLOAD_LENGTH_AT..PAYLOAD_LENGTH_AT + 4]
            .copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image.extend_from_slice(payload);
        image.extend_from_slice(b"what follows");
        image
    }

    #[test]
    fn a_boot_image_gives_what_was_packed_into_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut payload = zstd::encode_all(&b"\x7fELF and so on"[..], 3).unwrap();
        payload.extend_from_slice(&14u32.to_le_bytes());
        fs::write(file.path(), boot_image(&payload)).unwrap();
        assert_eq!(unpack(file.path()).unwrap(), b"\x7fELF and so on");
    }

    #[test]
    fn what_is_no_boot_image_or_cut_short_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), b"hello").unwrap();
        assert!(unpack(file.path()).unwrap_err().to_string().contains("no boot image"));
        let mut image = boot_image(b"\x1f\x8bgzip");
        fs::write(file.path(), &image).unwrap();
        assert!(unpack(file.path()).unwrap_err().to_string().contains("zstd"));
        image.truncate(2 * SECTOR_BYTES);
        fs::write(file.path(), &image).unwrap();
        assert!(unpack(file.path()).unwrap_err().to_string().contains("no boot image"));
    }
}

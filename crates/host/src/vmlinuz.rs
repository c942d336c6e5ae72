//! The kernel's ELF file out of its boot image.
//!
//! It is a header and one compressed stream, so there is little that a library could do, and none
//! that is kept reads the payload of a boot image.

use std::io::Read;

use metasched_base::{Kind, Result, ResultExt};

const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];

/// Unpacks a boot image for x86 (a bzImage) whose payload is compressed with zstd or gzip.
///
/// The error is of kind [`Kind::BadInput`] where it is no such image or not a whole one,
/// of kind [`Kind::Unsupported`] where it cannot be decompressed.
pub fn unpack(image: &[u8]) -> Result<Vec<u8>> {
    let attempt = || "unpack the kernel".to_owned();
    let payload = payload(image).attempt(Kind::BadInput, attempt)?;
    decompress(payload).attempt(Kind::Unsupported, attempt)
}

/// The compressed kernel inside. Offsets are those of the "Linux/x86 Boot Protocol",
/// Documentation/arch/x86/boot.rst; payload fields exist since protocol 2.08.
fn payload(image: &[u8]) -> Result<&[u8], String> {
    const SETUP_SECTS: usize = 0x1f1;
    const HEADER_MAGIC: usize = 0x202;
    const VERSION: usize = 0x206;
    const PAYLOAD_OFFSET: usize = 0x248;
    const PAYLOAD_LENGTH: usize = 0x24c;
    const SECTOR_BYTES: usize = 512;

    if image.get(HEADER_MAGIC..HEADER_MAGIC + 4) != Some(b"HdrS".as_slice()) {
        return Err("it is neither an x86 kernel image nor an ELF file".into());
    }
    let version = u16::from_le_bytes(bytes_at(image, VERSION)?);
    if version < 0x0208 {
        return Err(format!("its boot protocol {version:#06x} is older than 2.08"));
    }
    // 0 stands for 4, says the protocol.
    let setup_sectors = match image[SETUP_SECTS] {
        0 => 4,
        n => usize::from(n),
    };
    let start = (setup_sectors + 1) * SECTOR_BYTES
        + u32::from_le_bytes(bytes_at(image, PAYLOAD_OFFSET)?) as usize;
    let length = u32::from_le_bytes(bytes_at(image, PAYLOAD_LENGTH)?) as usize;
    image
        .get(start..start.saturating_add(length))
        .ok_or_else(|| "the image is cut short: its compressed part ends after the file".into())
}

fn bytes_at<const N: usize>(image: &[u8], at: usize) -> Result<[u8; N], String> {
    let bytes = image.get(at..).and_then(<[u8]>::first_chunk);
    bytes.copied().ok_or_else(|| format!("the image is cut short at byte {at}"))
}

fn decompress(payload: &[u8]) -> Result<Vec<u8>, String> {
    let mut elf = Vec::new();
    let unpacked = if payload.starts_with(ZSTD_MAGIC) {
        // A single frame: the kernel's build appends the unpacked size, which is no frame.
        zstd::stream::read::Decoder::new(payload)
            .map(zstd::stream::read::Decoder::single_frame)
            .and_then(|mut decoder| decoder.read_to_end(&mut elf))
    } else if payload.starts_with(GZIP_MAGIC) {
        flate2::read::GzDecoder::new(payload).read_to_end(&mut elf)
    } else {
        let first: Vec<String> = payload.iter().take(4).map(|b| format!("{b:02x}")).collect();
        return Err(format!(
            "its compressed part, which begins with '{}', is neither zstd nor gzip",
            first.join(" ")
        ));
    };
    unpacked.map_err(|cause| format!("its compressed part does not unpack: {cause}"))?;
    Ok(elf)
}

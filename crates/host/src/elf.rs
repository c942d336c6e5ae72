//! The sections of a 64-bit little-endian ELF file.

/// What every ELF file begins with.
pub const MAGIC: &[u8] = b"\x7fELF";

/// A section of an ELF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// What the file holds of it: nothing of one that is all zeros.
    pub contents: &'a [u8],
}

/// Every section, in the order of the file. The error is what is wrong with the file.
pub fn sections(elf: &[u8]) -> Result<Vec<Section<'_>>, String> {
    const CLASS_64_LITTLE: [u8; 2] = [2, 1];
    const HEADER_BYTES: usize = 64;
    const NOBITS: u32 = 8;

    if !elf.starts_with(MAGIC) || elf.get(4..6) != Some(&CLASS_64_LITTLE) {
        return Err("what it holds is not a 64-bit little-endian ELF file".into());
    }
    let headers = u64_at(elf, 0x28)? as usize;
    let count = usize::from(u16_at(elf, 0x3c)?);
    let names_index = usize::from(u16_at(elf, 0x3e)?);
    let header = |index: usize| headers.saturating_add(index * HEADER_BYTES);
    let contents = |index: usize| -> Result<&[u8], String> {
        let at = header(index);
        if u32_at(elf, at.saturating_add(4))? == NOBITS {
            return Ok(&[]);
        }
        let offset = u64_at(elf, at.saturating_add(0x18))? as usize;
        let size = u64_at(elf, at.saturating_add(0x20))? as usize;
        elf.get(offset..offset.saturating_add(size))
            .ok_or_else(|| "the ELF file is cut short".to_string())
    };
    let names = contents(names_index)?;
    (0..count)
        .map(|index| {
            let tail = names.get(u32_at(elf, header(index))? as usize..).unwrap_or_default();
            let name = tail.split(|byte| *byte == 0).next().unwrap_or_default();
            Ok(Section { name, contents: contents(index)? })
        })
        .collect()
}

fn bytes_at<const N: usize>(data: &[u8], at: usize) -> Result<[u8; N], String> {
    data.get(at..at.saturating_add(N))
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| format!("the file is cut short at byte {at}"))
}

pub(crate) fn u16_at(data: &[u8], at: usize) -> Result<u16, String> {
    bytes_at(data, at).map(u16::from_le_bytes)
}

pub(crate) fn u32_at(data: &[u8], at: usize) -> Result<u32, String> {
    bytes_at(data, at).map(u32::from_le_bytes)
}

fn u64_at(data: &[u8], at: usize) -> Result<u64, String> {
    bytes_at(data, at).map(u64::from_le_bytes)
}

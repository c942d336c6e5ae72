//! The kernel's BTF: read out of a kernel image, and judged.
//!
//! Some builds of 7.1 and 7.2 carry BTF in which a part of the sched_ext kfuncs has
//! lost its `bpf_kfunc` tag. Such a kernel looks fine until a scheduler is loaded;
//! libbpf then fails with `func_proto incompatible with vmlinux`. So a kernel is
//! judged by its BTF before anybody boots it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::Read;
use std::path::Path;

use btf_rs::{Btf, BtfType, Type};
use metasched_base::{Kind, Result, ResultExt};
use serde::Serialize;

/// The kfuncs without which no scheduler of ours, nor of the usual collections, can be
/// loaded. All of them are in 7.0 to 7.3.
const NEEDED: &[&str] = &[
    "__scx_bpf_dsq_insert_vtime",
    "__scx_bpf_select_cpu_and",
    "scx_bpf_create_dsq",
    "scx_bpf_destroy_dsq",
    "scx_bpf_dsq_insert___v2",
    "scx_bpf_dsq_move_to_local",
    "scx_bpf_dsq_nr_queued",
    "scx_bpf_error_bstr",
    "scx_bpf_kick_cpu",
    "scx_bpf_now",
    "scx_bpf_nr_cpu_ids",
    "scx_bpf_select_cpu_dfl",
    "scx_bpf_task_set_slice",
    "scx_bpf_test_and_clear_cpu_idle",
];

/// Whether BPF schedulers can be loaded against this BTF.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BtfVerdict {
    /// Nothing is missing.
    pub sound: bool,
    /// The kfuncs that are absent or have lost their tag, by name.
    pub missing: Vec<String>,
}
/// Judges whether BPF schedulers can be loaded against this BTF.
///
/// Two signs of a broken build are looked for: a kfunc that every scheduler needs is
/// absent or is not tagged `bpf_kfunc`; and any other sched_ext function that takes the
/// hidden `struct bpf_prog_aux *` (kernels from 7.1 on) is neither tagged nor has the
/// `_impl` twin that the kernel's build makes of a tagged one.
pub fn soundness(btf: &[u8]) -> Result<BtfVerdict> {
    const ATTEMPT: &str = "judge the kernel's BTF";
    let failed = || ATTEMPT.to_string();
    let btf = Btf::from_bytes(btf).attempt(Kind::BadInput, failed)?;
    let functions = Functions::read(&btf).attempt(Kind::BadInput, failed)?;

    let mut missing: BTreeSet<String> = NEEDED
        .iter()
        .filter(|&&name| !functions.is_kfunc(name))
        .map(|&name| name.to_string())
        .collect();
    for (name, &id) in &functions.ids {
        let twin = format!("{name}_impl");
        if !functions.is_kfunc(name)
            && !name.ends_with("_impl")
            && !functions.ids.contains_key(&twin)
            && takes_hidden_argument(&btf, id).attempt(Kind::BadInput, failed)?
        {
            missing.insert(name.clone());
        }
    }
    Ok(BtfVerdict { sound: missing.is_empty(), missing: missing.into_iter().collect() })
}

/// The sched_ext functions of a kernel, and which of its functions are kfuncs.
struct Functions {
    ids: HashMap<String, u32>,
    kfuncs: HashSet<u32>,
}

impl Functions {
    fn read(btf: &Btf) -> Result<Self, btf_rs::Error> {
        let mut ids = HashMap::new();
        let mut kfuncs = HashSet::new();
        let (first, last) = btf.base().type_id_range();
        for id in first..=last {
            match btf.resolve_type_by_id(id)? {
                Type::Func(function) => {
                    let name = btf.resolve_name(&function)?;
                    if name.contains("scx_bpf_") || name.starts_with("bpf_iter_scx_") {
                        ids.insert(name, id);
                    }
                }
                // A component index would make it a tag of an argument.
                Type::DeclTag(tag)
                    if tag.component_index().is_none()
                        && btf.resolve_name(&tag)? == "bpf_kfunc" =>
                {
                    kfuncs.extend(tag.get_type_id());
                }
                _ => {}
            }
        }
        Ok(Self { ids, kfuncs })
    }

    fn is_kfunc(&self, name: &str) -> bool {
        self.ids.get(name).is_some_and(|id| self.kfuncs.contains(id))
    }
}

/// Whether the last argument is a `struct bpf_prog_aux *`, which the verifier supplies.
fn takes_hidden_argument(btf: &Btf, function: u32) -> Result<bool, btf_rs::Error> {
    let Type::Func(function) = btf.resolve_type_by_id(function)? else { return Ok(false) };
    let Type::FuncProto(prototype) = btf.resolve_chained_type(&function)? else {
        return Ok(false);
    };
    let Some(argument) = prototype.parameters.last().filter(|p| !p.is_variadic()) else {
        return Ok(false);
    };
    for ty in btf.chained_type_iter(argument) {
        match ty {
            Type::Ptr(_) | Type::Const(_) => {}
            Type::Struct(structure) => return Ok(btf.resolve_name(&structure)? == "bpf_prog_aux"),
            _ => return Ok(false),
        }
    }
    Ok(false)
}

/// Reads the BTF out of a kernel image: an x86 bzImage whose payload is compressed with
/// zstd or gzip, or a plain ELF `vmlinux`.
pub fn from_vmlinuz(path: &Path) -> Result<Vec<u8>> {
    let attempt = || format!("read the BTF of '{}'", path.display());
    let image = std::fs::read(path).attempt(Kind::BadInput, attempt)?;
    let elf = if image.starts_with(ELF_MAGIC) {
        image
    } else {
        let payload = bzimage_payload(&image).attempt(Kind::BadInput, attempt)?;
        decompress(payload).attempt(Kind::Unsupported, attempt)?
    };
    elf_section(&elf, ".BTF").map(<[u8]>::to_vec).attempt(Kind::Unsupported, attempt)
}

const ELF_MAGIC: &[u8] = b"\x7fELF";
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];

/// The compressed kernel inside a bzImage. Offsets are those of the "Linux/x86 Boot
/// Protocol", Documentation/arch/x86/boot.rst; payload fields exist since protocol 2.08.
fn bzimage_payload(image: &[u8]) -> Result<&[u8], String> {
    const SETUP_SECTS: usize = 0x1f1;
    const HEADER_MAGIC: usize = 0x202;
    const VERSION: usize = 0x206;
    const PAYLOAD_OFFSET: usize = 0x248;
    const PAYLOAD_LENGTH: usize = 0x24c;
    const SECTOR_BYTES: usize = 512;

    if image.get(HEADER_MAGIC..HEADER_MAGIC + 4) != Some(b"HdrS".as_slice()) {
        return Err("it is neither an x86 kernel image nor an ELF file".into());
    }
    let version = u16_at(image, VERSION)?;
    if version < 0x0208 {
        return Err(format!("its boot protocol {version:#06x} is older than 2.08"));
    }
    // 0 stands for 4, says the protocol.
    let setup_sectors = match image[SETUP_SECTS] {
        0 => 4,
        n => usize::from(n),
    };
    let start = (setup_sectors + 1) * SECTOR_BYTES + u32_at(image, PAYLOAD_OFFSET)? as usize;
    let length = u32_at(image, PAYLOAD_LENGTH)? as usize;
    image
        .get(start..start.saturating_add(length))
        .ok_or_else(|| "the image is cut short: its compressed part ends after the file".into())
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

/// The contents of a section of a 64-bit little-endian ELF file.
fn elf_section<'a>(elf: &'a [u8], name: &str) -> Result<&'a [u8], String> {
    const CLASS_64_LITTLE: [u8; 2] = [2, 1];
    const SECTION_HEADER_BYTES: usize = 64;

    if !elf.starts_with(ELF_MAGIC) || elf.get(4..6) != Some(&CLASS_64_LITTLE) {
        return Err("what it holds is not a 64-bit little-endian ELF file".into());
    }
    let headers = u64_at(elf, 0x28)? as usize;
    let count = usize::from(u16_at(elf, 0x3c)?);
    let names_index = usize::from(u16_at(elf, 0x3e)?);
    // Offset and size of the section's contents, and the offset of its name.
    let header = |index: usize| -> Result<(usize, usize, usize), String> {
        let at = headers.saturating_add(index * SECTION_HEADER_BYTES);
        Ok((
            u64_at(elf, at.saturating_add(0x18))? as usize,
            u64_at(elf, at.saturating_add(0x20))? as usize,
            u32_at(elf, at)? as usize,
        ))
    };
    let contents = |offset: usize, size: usize| {
        elf.get(offset..offset.saturating_add(size))
            .ok_or_else(|| "the ELF file is cut short".to_string())
    };
    let (names_at, names_size, _) = header(names_index)?;
    let names = contents(names_at, names_size)?;
    for index in 0..count {
        let (offset, size, name_at) = header(index)?;
        let tail = names.get(name_at..).unwrap_or_default();
        if tail.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0)) {
            return contents(offset, size);
        }
    }
    Err(format!("it has no section {name}: the kernel was built without CONFIG_DEBUG_INFO_BTF"))
}

fn bytes_at<const N: usize>(data: &[u8], at: usize) -> Result<[u8; N], String> {
    data.get(at..at.saturating_add(N))
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| format!("the file is cut short at byte {at}"))
}

fn u16_at(data: &[u8], at: usize) -> Result<u16, String> {
    bytes_at(data, at).map(u16::from_le_bytes)
}

fn u32_at(data: &[u8], at: usize) -> Result<u32, String> {
    bytes_at(data, at).map(u32::from_le_bytes)
}

fn u64_at(data: &[u8], at: usize) -> Result<u64, String> {
    bytes_at(data, at).map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests;

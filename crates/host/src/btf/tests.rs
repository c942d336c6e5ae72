use super::*;

/// Writes a small BTF section: just the kinds that a verdict looks at.
struct BtfWriter {
    types: Vec<u8>,
    strings: Vec<u8>,
    next_id: u32,
    prototype: u32,
    prototype_with_aux: u32,
}

const KIND_PTR: u32 = 2;
const KIND_STRUCT: u32 = 4;
const KIND_FUNC: u32 = 12;
const KIND_FUNC_PROTO: u32 = 13;
const KIND_DECL_TAG: u32 = 17;

impl BtfWriter {
    fn new() -> Self {
        let mut writer = Self {
            types: vec![],
            strings: vec![0],
            next_id: 1,
            prototype: 0,
            prototype_with_aux: 0,
        };
        let aux = writer.ty("bpf_prog_aux", KIND_STRUCT, 0, 0, &[]);
        let pointer = writer.ty("", KIND_PTR, 0, aux, &[]);
        writer.prototype = writer.ty("", KIND_FUNC_PROTO, 0, 0, &[]);
        writer.prototype_with_aux = writer.ty("", KIND_FUNC_PROTO, 1, 0, &[0, pointer]);
        writer
    }

    fn ty(&mut self, name: &str, kind: u32, vlen: u32, reference: u32, extra: &[u32]) -> u32 {
        let name_at = if name.is_empty() { 0 } else { self.strings.len() as u32 };
        if !name.is_empty() {
            self.strings.extend(name.as_bytes());
            self.strings.push(0);
        }
        for word in [name_at, kind << 24 | vlen, reference].iter().chain(extra) {
            self.types.extend(word.to_le_bytes());
        }
        self.next_id += 1;
        self.next_id - 1
    }

    fn untagged(&mut self, name: &str, hidden_argument: bool) -> u32 {
        let prototype = if hidden_argument { self.prototype_with_aux } else { self.prototype };
        self.ty(name, KIND_FUNC, 0, prototype, &[])
    }

    fn kfunc(&mut self, name: &str) {
        let id = self.untagged(name, false);
        self.ty("bpf_kfunc", KIND_DECL_TAG, 0, id, &[u32::MAX]);
    }

    fn finish(&self) -> Vec<u8> {
        const HEADER_BYTES: u32 = 24;
        let mut out = vec![0x9f, 0xeb, 1, 0];
        let types = self.types.len() as u32;
        for word in [HEADER_BYTES, 0, types, types, self.strings.len() as u32] {
            out.extend(word.to_le_bytes());
        }
        out.extend(&self.types);
        out.extend(&self.strings);
        out
    }
}

fn sound() -> BtfWriter {
    let mut writer = BtfWriter::new();
    for name in NEEDED {
        writer.kfunc(name);
        writer.untagged(&format!("{name}_impl"), true);
    }
    writer
}

#[test]
fn a_kernel_with_all_its_tags_is_sound() {
    let verdict = soundness(&sound().finish()).unwrap();
    assert_eq!(verdict, BtfVerdict { sound: true, missing: vec![] });
}

#[test]
fn a_kfunc_that_lost_its_tag_is_named() {
    let mut writer = BtfWriter::new();
    for &name in NEEDED {
        if name == "scx_bpf_kick_cpu" {
            writer.untagged(name, true);
        } else {
            writer.kfunc(name);
        }
    }
    let verdict = soundness(&writer.finish()).unwrap();
    assert_eq!(verdict, BtfVerdict { sound: false, missing: vec!["scx_bpf_kick_cpu".into()] });
}

#[test]
fn a_kernel_without_sched_ext_misses_every_needed_kfunc() {
    let verdict = soundness(&BtfWriter::new().finish()).unwrap();
    assert_eq!(verdict.missing.len(), NEEDED.len());
}

#[test]
fn an_optional_kfunc_with_a_hidden_argument_and_neither_tag_nor_twin_is_named() {
    let mut writer = sound();
    writer.untagged("scx_bpf_dsq_peek", true);
    let verdict = soundness(&writer.finish()).unwrap();
    assert_eq!(verdict.missing, ["scx_bpf_dsq_peek"]);
}

#[test]
fn an_internal_function_that_only_bears_the_name_is_not_taken_for_a_kfunc() {
    let mut writer = sound();
    writer.untagged("__scx_bpf_helper", false);
    assert!(soundness(&writer.finish()).unwrap().sound);
}

#[test]
fn bytes_that_are_no_btf_are_refused() {
    assert_eq!(soundness(b"not BTF at all").unwrap_err().kind, Kind::BadInput);
}

/// An ELF file with the section names and one more section.
fn elf_with(name: &str, contents: &[u8]) -> Vec<u8> {
    use object::elf::{SHT_PROGBITS, SHT_STRTAB};
    let mut names = vec![0];
    names.extend(name.as_bytes());
    names.push(0);
    let mut elf = vec![0u8; 64];
    elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    let contents_at = elf.len() as u64;
    elf.extend(contents);
    let names_at = elf.len() as u64;
    elf.extend(&names);
    let headers_at = elf.len() as u64;
    let section = |name_at: u32, kind: u32, offset: u64, size: usize| {
        let mut header = vec![0u8; 64];
        header[4..8].copy_from_slice(&kind.to_le_bytes());
        header[..4].copy_from_slice(&name_at.to_le_bytes());
        header[0x18..0x20].copy_from_slice(&offset.to_le_bytes());
        header[0x20..0x28].copy_from_slice(&(size as u64).to_le_bytes());
        header
    };
    elf.extend(section(1, SHT_PROGBITS.0, contents_at, contents.len()));
    elf.extend(section(0, SHT_STRTAB.0, names_at, names.len()));
    elf[0x28..0x30].copy_from_slice(&headers_at.to_le_bytes());
    elf[0x3a..0x3c].copy_from_slice(&64u16.to_le_bytes());
    elf[0x3c..0x3e].copy_from_slice(&2u16.to_le_bytes());
    elf[0x3e..0x40].copy_from_slice(&1u16.to_le_bytes());
    elf
}

/// A bzImage of boot protocol 2.15 with one setup sector.
fn bzimage_of(payload: &[u8]) -> Vec<u8> {
    let mut image = vec![0u8; 1024];
    image[0x1f1] = 1;
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x206..0x208].copy_from_slice(&0x020fu16.to_le_bytes());
    image[0x248..0x24c].copy_from_slice(&16u32.to_le_bytes());
    image[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    image.extend([0u8; 16]);
    image.extend(payload);
    image
}

fn written(image: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), image).unwrap();
    file
}

#[test]
fn the_section_is_read_out_of_a_zstd_bzimage() {
    let mut payload = zstd::bulk::compress(&elf_with(".BTF", b"the types"), 1).unwrap();
    // As the kernel's build does: the unpacked size follows the frame.
    payload.extend(9u32.to_le_bytes());
    let file = written(&bzimage_of(&payload));
    assert_eq!(from_vmlinuz(file.path()).unwrap(), b"the types");
}

#[test]
fn the_section_is_read_out_of_a_gzip_bzimage() {
    use std::io::Write;
    let mut gz = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    gz.write_all(&elf_with(".BTF", b"the types")).unwrap();
    let file = written(&bzimage_of(&gz.finish().unwrap()));
    assert_eq!(from_vmlinuz(file.path()).unwrap(), b"the types");
}

#[test]
fn the_section_is_read_out_of_a_plain_vmlinux() {
    let file = written(&elf_with(".BTF", b"the types"));
    assert_eq!(from_vmlinuz(file.path()).unwrap(), b"the types");
}

#[test]
fn another_compression_is_refused_by_name() {
    let file = written(&bzimage_of(b"\xfd7zXZ\0"));
    let e = from_vmlinuz(file.path()).unwrap_err();
    assert_eq!(e.kind, Kind::Unsupported);
    assert!(e.to_string().contains("'fd 37 7a 58', is neither zstd nor gzip"), "{e}");
}

#[test]
fn a_kernel_without_btf_says_which_option_it_lacks() {
    let file = written(&elf_with(".text", b""));
    let e = from_vmlinuz(file.path()).unwrap_err();
    assert!(e.to_string().contains("CONFIG_DEBUG_INFO_BTF"), "{e}");
}

#[test]
fn a_truncated_image_is_refused_at_every_length() {
    let payload = zstd::bulk::compress(&elf_with(".BTF", b"the types"), 1).unwrap();
    let image = bzimage_of(&payload);
    for length in 0..image.len() {
        let file = written(&image[..length]);
        assert!(from_vmlinuz(file.path()).is_err(), "{length} of {} bytes", image.len());
    }
}

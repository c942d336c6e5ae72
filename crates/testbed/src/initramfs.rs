//! The guest's first file system: busybox, the modules that the root file system
//! needs, the script that starts everything, and the guest's orders.

use std::fs;
use std::path::{Path, PathBuf};

use metasched_base::{Error, Kind, Result, ResultExt};
use object::Endianness;
use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader as _, ProgramHeader as _};

use crate::cpio::Archive;
use crate::modules::{self, ModuleTable};
use crate::spec::Spec;

const INIT: &str = include_str!("../../../testbed/init.sh");
/// Where the script mounts things.
const MOUNT_POINTS: [&str; 3] = ["lower", "writes", "root"];
const INSTALL: &str = "install it with `make install` (the package busybox-static)";

/// Puts the first file system together, for the kernel whose modules folder is `modules`.
pub fn build(modules: &Path, agent: &Path, spec: &Spec) -> Result<Vec<u8>> {
    let attempt = || "build the guest's first file system".to_owned();
    let mut archive = Archive::new();
    for directory in ["bin", "modules", "dev", "proc", "sys"].iter().chain(&MOUNT_POINTS) {
        archive.directory(directory);
    }
    archive.file("bin/busybox", 0o755, &busybox()?);
    archive.file("init", 0o755, INIT.as_bytes());
    let order = ModuleTable::read(modules)?.load_order(&modules::NEEDED).map_err(|cause| {
        Error::new(Kind::Unsupported, attempt(), cause)
            .remedy("choose another kernel; `metasched vm --list-kernels` shows what there is")
    })?;
    for (number, path) in order.iter().enumerate() {
        let name = path.rsplit('/').next().and_then(|f| f.split(".ko").next()).unwrap_or("module");
        let bytes = modules::read_module(&modules.join(path))?;
        archive.file(&format!("modules/{number:02}-{name}.ko"), 0o644, &bytes);
    }
    archive.file("agent", 0o644, format!("{}\n", agent.display()).as_bytes());
    let spec = serde_json::to_vec(spec).attempt(Kind::Failed, attempt)?;
    archive.file("spec.json", 0o600, &spec);
    Ok(archive.finish())
}

/// The bytes of a busybox that needs no libraries.
fn busybox() -> Result<Vec<u8>> {
    let attempt = || "build the guest's first file system".to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let fixed = ["/bin", "/usr/bin"].map(PathBuf::from);
    for dir in std::env::split_paths(&path).chain(fixed) {
        let file = dir.join("busybox");
        if !file.is_file() {
            continue;
        }
        let bytes = fs::read(&file).attempt(Kind::Failed, || format!("read {}", file.display()))?;
        if is_static(&bytes) {
            return Ok(bytes);
        }
    }
    Err(Error::new(Kind::Unsupported, attempt(), "there is no statically linked busybox")
        .remedy(INSTALL))
}

/// Whether a 64-bit ELF program names no interpreter, and so needs no libraries.
fn is_static(program: &[u8]) -> bool {
    let read = || -> object::Result<bool> {
        let header = FileHeader64::<Endianness>::parse(program)?;
        let endian = header.endian()?;
        let mut parts = header.program_headers(endian, program)?.iter();
        Ok(parts.all(|part| part.p_type(endian) != PT_INTERP))
    };
    read().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_an_interpreter_is_not_static() {
        assert!(!is_static(&fs::read("/bin/sh").unwrap()));
        assert!(!is_static(b"#!/bin/sh\n"));
        assert!(!is_static(b"\x7fELF\x02"));
    }
}

//! The guest's first file system: busybox, the modules that the root file system
//! needs, the script that starts everything, and the guest's orders.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use metasched_base::{Error, Kind, Result, ResultExt};
use object::Endianness;
use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader as _, ProgramHeader as _};

use crate::cpio::Archive;
use crate::modules::{self, ModuleTable};
use crate::spec::{SPEC_PATH, Spec};

const INIT: &str = include_str!("../../../testbed/init.sh");
/// Where the script mounts things.
const MOUNT_POINTS: [&str; 3] = ["lower", "writes", "root"];
const INSTALL: &str = "install it with `make deps` (the package busybox-static)";

/// Puts the first file system together, for the kernel whose modules folder is `modules`. The guest gets the
/// module `more` too.
pub fn build(modules: &Path, more: Option<&str>, agent: &Path, spec: &Spec) -> Result<Vec<u8>> {
    let attempt = || "build the guest's first file system".to_owned();
    let mut archive = Archive::new();
    for directory in ["bin", "modules", "dev", "proc", "sys"].iter().chain(&MOUNT_POINTS) {
        archive.directory(directory);
    }
    archive.file("bin/busybox", 0o755, &busybox()?);
    archive.file("init", 0o755, INIT.as_bytes());
    let wanted: Vec<&str> = modules::NEEDED.into_iter().chain(more).collect();
    let order = ModuleTable::read(modules)?.load_order(&wanted).map_err(|cause| {
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

/// The first file system of a guest that has no other: its first process and these programs, with
/// the libraries that they need, where they are on this machine.
pub fn build_alone(programs: &[PathBuf], agent: &Path, spec: &Spec) -> Result<Vec<u8>> {
    let attempt = || "build the guest's only file system".to_owned();
    let mut archive = Archive::new();
    let mut there = BTreeSet::new();
    // Many a script and program says /bin or /lib64 where that is a link.
    for (link, target) in ["bin", "lib", "lib64", "sbin"].iter().filter_map(|link| {
        Some((link, fs::read_link(Path::new("/").join(link)).ok()?.display().to_string()))
    }) {
        archive.link(link, &target);
    }
    for folder in ["dev", "proc", "root", "run/lock", "sys", "tmp", &spec.cwd[1..]] {
        folders(&mut archive, Path::new(folder), &mut there);
    }
    for program in programs.iter().map(PathBuf::as_path).chain([agent]) {
        for file in libraries(program)?.into_iter().chain([program.to_owned()]) {
            let place = file.parent().unwrap_or(Path::new("/")).canonicalize();
            let place = place.attempt(Kind::BadInput, attempt)?;
            let place = place.join(file.file_name().unwrap_or_default());
            let place = place.strip_prefix("/").unwrap_or(&place);
            if there.insert(place.to_owned()) {
                folders(&mut archive, place.parent().unwrap_or(place), &mut there);
                let bytes = fs::read(&file)
                    .attempt(Kind::BadInput, || format!("read {}", file.display()))?;
                archive.file(&place.display().to_string(), 0o755, &bytes);
            }
        }
    }
    let orders = Path::new(SPEC_PATH.trim_start_matches('/'));
    folders(&mut archive, orders.parent().unwrap_or(orders), &mut there);
    let spec = serde_json::to_vec(spec).attempt(Kind::Failed, attempt)?;
    archive.file(&orders.display().to_string(), 0o600, &spec);
    Ok(archive.finish())
}

/// Adds a folder and those above it, unless they are there.
fn folders(archive: &mut Archive, path: &Path, there: &mut BTreeSet<PathBuf>) {
    let above: Vec<&Path> = path.ancestors().filter(|path| *path != Path::new("")).collect();
    for folder in above.into_iter().rev() {
        if there.insert(folder.to_owned()) {
            archive.directory(&folder.display().to_string());
        }
    }
}

/// What the dynamic linker would load for a program: nothing for one that needs none.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output();
    let output = output.attempt(Kind::Unsupported, || format!("run ldd {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(paths.map(|word| PathBuf::from(word.trim_end_matches(':'))).collect())
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

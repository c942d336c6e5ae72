//! Which kernel modules the guest's first file system needs, and in which order.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use metasched_base::{Error, Kind, Result, ResultExt};

/// What the guest needs before it can see the host's files and talk to us. What
/// of this is built into the kernel is left out.
pub const NEEDED: [&str; 5] = ["virtio_pci", "virtio_console", "9p", "9pnet_virtio", "overlay"];

/// The module of the virtualisation that QEMU emulates.
pub const EMULATED_KVM: &str = "kvm_amd";

/// The module of KVM on the system below `root`, if guests that have KVM from it can have it too.
pub fn nested_kvm(root: &Path) -> Option<&'static str> {
    ["kvm_intel", "kvm_amd"].into_iter().find(|name| {
        let path = root.join(format!("sys/module/{name}/parameters/nested"));
        fs::read_to_string(path).is_ok_and(|nested| matches!(nested.trim(), "Y" | "1"))
    })
}

/// `modules.dep` and `modules.builtin` of one kernel.
#[derive(Debug, Default)]
pub struct ModuleTable {
    /// Name → path below the modules folder, and the paths of what it needs.
    modules: BTreeMap<String, (String, Vec<String>)>,
    builtin: Vec<String>,
}

/// The name that a module bears in the kernel: `kernel/fs/9p/9p.ko.xz` → `9p`.
fn module_name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split(".ko").next().unwrap_or(file).replace('-', "_")
}

impl ModuleTable {
    /// Reads the tables of the kernel whose modules folder is `dir`.
    pub fn read(dir: &Path) -> Result<Self> {
        let read = |name: &str| {
            let path = dir.join(name);
            fs::read_to_string(&path)
                .attempt(Kind::BadInput, || format!("read {}", path.display()))
                .map_err(|e| {
                    e.remedy("run depmod for this kernel, or choose another with --kernel")
                })
        };
        Ok(Self::parse(&read("modules.dep")?, &read("modules.builtin")?))
    }

    /// Reads the text of the two files.
    pub fn parse(dep: &str, builtin: &str) -> Self {
        let modules = dep
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(path, needs)| {
                let needs = needs.split_whitespace().map(str::to_owned).collect();
                (module_name(path), (path.to_owned(), needs))
            })
            .collect();
        Self { modules, builtin: builtin.lines().map(module_name).collect() }
    }

    /// Paths of the modules to load for `wanted`, each after what it needs. A name
    /// that is neither a module nor built in is an error that names it.
    pub fn load_order(&self, wanted: &[&str]) -> Result<Vec<String>, String> {
        let mut order: Vec<String> = Vec::new();
        for name in wanted {
            if self.builtin.iter().any(|b| b == name) {
                continue;
            }
            let (path, needs) = self
                .modules
                .get(*name)
                .ok_or_else(|| format!("the kernel has no module '{name}'"))?;
            // depmod lists all that a module needs, the last of them to be loaded first.
            for path in needs.iter().rev().chain([path]) {
                if !order.contains(path) {
                    order.push(path.clone());
                }
            }
        }
        Ok(order)
    }
}

/// The module's ELF bytes, decompressed by the tool that its suffix asks for.
pub fn read_module(path: &Path) -> Result<Vec<u8>> {
    let attempt = || format!("read the kernel module {}", path.display());
    let file = fs::File::open(path).attempt(Kind::BadInput, attempt)?;
    let mut bytes = Vec::new();
    match path.extension().and_then(|e| e.to_str()) {
        Some("ko") => {
            std::io::BufReader::new(file)
                .read_to_end(&mut bytes)
                .attempt(Kind::BadInput, attempt)?;
        }
        Some("zst") => {
            bytes = zstd::stream::decode_all(file).attempt(Kind::BadInput, attempt)?;
        }
        // busybox is in the guest anyway, so it is there to decompress with.
        Some(suffix @ ("xz" | "gz")) => {
            let applet = if suffix == "xz" { "xzcat" } else { "zcat" };
            let output = Command::new("busybox")
                .arg(applet)
                .stdin(file)
                .output()
                .attempt(Kind::Unsupported, || format!("run busybox {applet}"))?;
            if !output.status.success() {
                return Err(Error::new(
                    Kind::BadInput,
                    attempt(),
                    String::from_utf8_lossy(&output.stderr).trim(),
                ));
            }
            bytes = output.stdout;
        }
        _ => return Err(Error::new(Kind::BadInput, attempt(), "its compression is not known")),
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEP: &str = "\
kernel/fs/netfs/netfs.ko.xz:
kernel/net/9p/9pnet.ko.xz: kernel/fs/netfs/netfs.ko.xz
kernel/net/9p/9pnet_virtio.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz
kernel/fs/9p/9p.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz
kernel/drivers/char/hw_random/virtio-rng.ko.xz:
";

    #[test]
    fn modules_load_after_what_they_need_and_once() {
        let table = ModuleTable::parse(DEP, "kernel/drivers/virtio/virtio_pci.ko\n");
        let order = table.load_order(&["virtio_pci", "9p", "9pnet_virtio", "virtio_rng"]).unwrap();
        let names: Vec<_> = order.iter().map(|p| module_name(p)).collect();
        assert_eq!(names, ["netfs", "9pnet", "9p", "9pnet_virtio", "virtio_rng"]);
    }

    #[test]
    fn kvm_is_nested_where_its_module_says_so() {
        let root = tempfile::tempdir().unwrap();
        let parameters = root.path().join("sys/module/kvm_intel/parameters");
        assert_eq!(nested_kvm(root.path()), None);
        fs::create_dir_all(&parameters).unwrap();
        for (said, module) in [("N\n", None), ("Y\n", Some("kvm_intel")), ("0\n", None)] {
            fs::write(parameters.join("nested"), said).unwrap();
            assert_eq!(nested_kvm(root.path()), module, "{said}");
        }
    }

    #[test]
    fn a_module_that_is_nowhere_is_named() {
        let table = ModuleTable::parse(DEP, "");
        assert_eq!(
            table.load_order(&["overlay"]).unwrap_err(),
            "the kernel has no module 'overlay'"
        );
    }
}

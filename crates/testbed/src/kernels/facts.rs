//! Whether a kernel is sound for a guest, and why not. What was found out is kept,
//! since it takes a second or two.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use metasched_base::{Kind, Result, ResultExt};
use metasched_host::{btf, kernel, vmlinuz};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Goes up whenever a kernel could be judged differently from before.
const CHECKS_VERSION: u32 = 1;

/// What the guest needs of the kernel's configuration beyond what schedulers need,
/// built in or as a module.
const GUEST_OPTIONS: [&str; 6] = [
    "CONFIG_9P_FS",
    "CONFIG_NET_9P_VIRTIO",
    "CONFIG_OVERLAY_FS",
    "CONFIG_VIRTIO_PCI",
    "CONFIG_VIRTIO_CONSOLE",
    "CONFIG_DEVTMPFS",
];

/// How many names of kfuncs a message lists.
const NAMES_SHOWN: usize = 3;

/// What there is to say against a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// One sentence for each thing that is wrong; nothing for a sound kernel.
    pub problems: Vec<String>,
}

impl Verdict {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    /// All that is wrong, on one line.
    pub fn summary(&self) -> String {
        self.problems.join("; ")
    }
}

/// What a verdict is made of.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The judgement over its BTF, or why that could not be read.
    pub btf: Result<btf::BtfVerdict, String>,
    /// The text of its configuration, where it was found.
    pub config: Option<&'a str>,
}

/// Judges a kernel by facts.
pub fn judge(facts: &Facts) -> Verdict {
    let mut problems = Vec::new();
    match &facts.btf {
        Err(cause) => problems.push(format!("its BTF cannot be read ({cause})")),
        Ok(btf) if !btf.sound => {
            let names = btf.missing.iter().take(NAMES_SHOWN).cloned().collect::<Vec<_>>();
            let more = match btf.missing.len().saturating_sub(NAMES_SHOWN) {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            problems.push(format!(
                "its BTF lacks kernel functions that schedulers call, or their tags: {}{more}",
                names.join(", ")
            ));
        }
        Ok(_) => {}
    }
    match facts.config {
        None => problems.push("its configuration is not there".into()),
        Some(text) => {
            let config = kernel::Config::parse(Path::new(""), text);
            let mut missing: Vec<&str> = kernel::missing_options(&config);
            missing.extend(GUEST_OPTIONS.iter().filter(|o| !config.is_available(o)));
            if !missing.is_empty() {
                problems.push(format!("its configuration lacks {}", missing.join(", ")));
            }
        }
    }
    Verdict { problems }
}

/// What is kept about one kernel.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
}

impl Store {
    /// The place for what is known about the kernel with that image: another image
    /// of the same release is another kernel.
    pub fn of_image(root: &Path, release: &str, image: &Path) -> Result<Self> {
        let attempt = || format!("read the kernel {}", image.display());
        let meta = fs::metadata(image).attempt(Kind::BadInput, attempt)?;
        let path = image.canonicalize().attempt(Kind::BadInput, attempt)?;
        let identity = format!("{} {} {}", path.display(), meta.len(), meta.mtime());
        Ok(Self::of_identity(root, release, &identity))
    }

    /// The place for what is known about a package that is not unpacked here.
    pub fn of_identity(root: &Path, release: &str, identity: &str) -> Self {
        let digest = Sha256::digest(format!("{CHECKS_VERSION} {identity}").as_bytes());
        let short: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        Self { dir: root.join("kernel-facts").join(format!("{release}-{short}")) }
    }

    /// The verdict that is kept, if there is one.
    pub fn verdict(&self) -> Option<Verdict> {
        serde_json::from_slice(&fs::read(self.dir.join("verdict.json")).ok()?).ok()
    }

    /// Keeps a verdict. That it cannot be kept costs only time.
    pub fn keep(&self, verdict: &Verdict) {
        if let Ok(bytes) = serde_json::to_vec_pretty(verdict) {
            let _ = self.write("verdict.json", &bytes);
        }
    }

    /// The verdict over a kernel that is here, from its files if it is not kept.
    pub fn verdict_of(&self, image: &Path, config: Option<&Path>) -> Verdict {
        if let Some(verdict) = self.verdict() {
            return verdict;
        }
        let btf = btf::from_vmlinuz(image).and_then(|bytes| btf::soundness(&bytes));
        // A file that could not be read now may be readable another time.
        let is_lasting = !btf.as_ref().is_err_and(|e| e.kind != Kind::Unsupported);
        let config = config.and_then(|path| fs::read_to_string(path).ok());
        let facts = Facts { btf: btf.map_err(|e| e.cause), config: config.as_deref() };
        let verdict = judge(&facts);
        if is_lasting {
            self.keep(&verdict);
        }
        verdict
    }

    /// What to boot: the kernel's ELF file, unpacked and kept; the image itself where
    /// that is not possible.
    ///
    /// QEMU boots it as it is (by the entry point for paravirtual guests). That spares
    /// the guest to unpack itself, which takes a second of emulated time, and it works
    /// from the first instruction with acceleration that cannot emulate all of the
    /// unpacking code.
    pub fn bootable(&self, image: &Path) -> PathBuf {
        let unpacked = self.dir.join("vmlinux");
        if unpacked.is_file() {
            return unpacked;
        }
        let elf = fs::read(image).ok().and_then(|bytes| vmlinuz::unpack(&bytes).ok());
        match elf.map(|elf| self.write("vmlinux", &elf)) {
            Some(Ok(())) => unpacked,
            _ => image.to_owned(),
        }
    }

    /// Why KVM does not boot it, as was found out since this machine booted; `Some("")`
    /// if it does.
    pub fn kvm_verdict(&self, boot_id: &str) -> Option<String> {
        let text = fs::read_to_string(self.dir.join("kvm")).ok()?;
        let (id, cause) = text.split_once('\n')?;
        (id == boot_id).then(|| cause.to_owned())
    }

    /// Keeps whether KVM boots it.
    pub fn keep_kvm_verdict(&self, boot_id: &str, cause: &str) {
        let _ = self.write("kvm", format!("{boot_id}\n{cause}").as_bytes());
    }

    /// Writes a file whole or not at all.
    fn write(&self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.dir)?;
        file.write_all(bytes)?;
        file.persist(self.dir.join(name))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good_config() -> String {
        kernel::NEEDED_OPTIONS
            .iter()
            .chain(&GUEST_OPTIONS)
            .map(|option| format!("{option}=y\n"))
            .collect()
    }

    fn sound() -> Result<btf::BtfVerdict, String> {
        Ok(btf::BtfVerdict { sound: true, missing: Vec::new() })
    }

    #[test]
    fn a_kernel_with_everything_is_sound() {
        let config = good_config();
        assert!(judge(&Facts { btf: sound(), config: Some(&config) }).is_sound());
    }

    #[test]
    fn lost_tags_are_named_but_not_all_of_them() {
        let missing: Vec<String> = ["a", "b", "c", "d", "e"].map(String::from).into();
        let config = good_config();
        let btf = Ok(btf::BtfVerdict { sound: false, missing });
        let verdict = judge(&Facts { btf, config: Some(&config) });
        assert!(!verdict.is_sound());
        assert!(verdict.summary().ends_with("a, b, c and 2 more"), "{}", verdict.summary());
    }

    #[test]
    fn a_kernel_for_the_cloud_lacks_the_shared_root() {
        let config = good_config().replace("CONFIG_9P_FS=y", "# CONFIG_9P_FS is not set");
        let verdict = judge(&Facts { btf: sound(), config: Some(&config) });
        assert_eq!(verdict.problems, ["its configuration lacks CONFIG_9P_FS"]);
        let verdict = judge(&Facts { btf: sound(), config: None });
        assert_eq!(verdict.problems, ["its configuration is not there"]);
    }

    #[test]
    fn what_is_kept_is_forgotten_when_the_image_changes() {
        let root = tempfile::tempdir().unwrap();
        let image = root.path().join("vmlinuz");
        fs::write(&image, b"one").unwrap();
        let store = Store::of_image(root.path(), "7.2", &image).unwrap();
        assert_eq!(store.verdict(), None);
        let verdict = Verdict { problems: vec!["bad".into()] };
        store.keep(&verdict);
        assert_eq!(store.verdict(), Some(verdict));
        fs::write(&image, b"three").unwrap();
        assert_eq!(Store::of_image(root.path(), "7.2", &image).unwrap().verdict(), None);
    }

    #[test]
    fn a_verdict_on_kvm_holds_until_the_next_boot() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::of_identity(root.path(), "7.2", "x");
        assert_eq!(store.kvm_verdict("boot 1"), None);
        store.keep_kvm_verdict("boot 1", "it hangs");
        assert_eq!(store.kvm_verdict("boot 1").as_deref(), Some("it hangs"));
        assert_eq!(store.kvm_verdict("boot 2"), None);
    }
}

//! Kernels for the guest: which there are, which are sound, and where to get one.

mod archive;
mod facts;
mod version;

use std::fs;
use std::path::{Path, PathBuf};

use metasched_base::{Error, Kind, Result, ResultExt, cache_root};

pub use archive::Offer;
pub use facts::{Store, Verdict};

/// A kernel that is unpacked somewhere on this machine.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Kernel {
    /// Its release, as `uname -r` gives it.
    pub version: String,
    /// The image to boot.
    pub image: PathBuf,
    /// The folder of its modules; `None` where there is its image alone.
    pub modules: Option<PathBuf>,
    /// Its configuration.
    pub config: Option<PathBuf>,
}

impl Kernel {
    /// The kernel whose modules are in `modules`, if its image is there too, or in
    /// the /boot of the tree that the folder belongs to.
    pub fn in_modules_folder(modules: &Path) -> Option<Self> {
        let version = modules.file_name()?.to_str()?.to_owned();
        if !modules.join("modules.dep").is_file() {
            return None;
        }
        // .../usr/lib/modules/VERSION or .../lib/modules/VERSION
        let above = modules.ancestors().nth(3)?;
        let tree = if above.ends_with("usr") { above.parent()? } else { above };
        let boot = tree.join("boot");
        let first = |paths: [PathBuf; 3]| paths.into_iter().find(|p| p.is_file());
        let image = first([
            modules.join("vmlinuz"),
            modules.join("vmlinuz.unsigned"),
            boot.join(format!("vmlinuz-{version}")),
        ])?;
        let config = first([
            modules.join("config"),
            boot.join(format!("config-{version}")),
            modules.join("build/.config"),
        ]);
        Some(Self { version, image, modules: Some(modules.to_owned()), config })
    }

    /// The kernel of which there is this image and nothing else.
    pub fn image_alone(path: &str) -> Result<Self> {
        let attempt = || format!("use the kernel {path}");
        let image = Path::new(path).canonicalize().attempt(Kind::BadInput, attempt)?;
        let version = image.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { version, image, modules: None, config: None })
    }

    /// The kernel that a path stands for: its image, its modules folder, or the
    /// root of the tree that it was unpacked to.
    pub fn at(path: &Path) -> Result<Self> {
        let fail = |cause: &str| {
            Error::new(Kind::BadInput, format!("use the kernel {}", path.display()), cause).remedy(
                "name a folder like /usr/lib/modules/VERSION that holds vmlinuz and modules.dep",
            )
        };
        let path = path.canonicalize().map_err(|e| fail(&e.to_string()))?;
        if path.is_file() {
            return path
                .parent()
                .and_then(Self::in_modules_folder)
                .ok_or_else(|| fail("its modules are not beside it"));
        }
        if let Some(kernel) = Self::in_modules_folder(&path) {
            return Ok(kernel);
        }
        let found = Self::below(&path.join("usr/lib/modules"));
        found.into_iter().next().ok_or_else(|| fail("there is no kernel"))
    }

    /// Every kernel with a modules folder in `dir`, newest first.
    pub fn below(dir: &Path) -> Vec<Self> {
        let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
        let mut found: Vec<Self> =
            entries.flatten().filter_map(|e| Self::in_modules_folder(&e.path())).collect();
        found.sort_by(|a, b| version::compare(&b.version, &a.version));
        found
    }

    /// The place for what is known about it.
    pub fn store(&self) -> Result<Store> {
        Store::of_image(&cache_root(), &self.version, &self.image)
    }

    /// What to boot: the kernel's ELF file where it can be entered directly, else its
    /// image.
    pub fn bootable(&self) -> Result<PathBuf> {
        let config = self.config.as_ref().and_then(|path| fs::read_to_string(path).ok());
        let direct = config.is_some_and(|text| text.lines().any(|l| l == "CONFIG_PVH=y"));
        Ok(if direct { self.store()?.bootable(&self.image) } else { self.image.clone() })
    }

    /// Whether it is sound, and why not.
    pub fn verdict(&self) -> Result<Verdict> {
        Ok(self.store()?.verdict_of(&self.image, self.config.as_deref()))
    }
}

/// Where a kernel comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelOrigin {
    /// Installed on this machine.
    Host,
    /// Fetched before.
    Cache,
    /// In Debian's archive, not fetched yet.
    Archive,
}

impl std::fmt::Display for KernelOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            KernelOrigin::Host => "host",
            KernelOrigin::Cache => "cache",
            KernelOrigin::Archive => "archive",
        })
    }
}

/// A kernel that a guest could boot, with what is known about it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Candidate {
    /// Its release.
    pub version: String,
    /// Where it comes from.
    pub place: KernelOrigin,
    /// Its image, where it is on this machine.
    pub image: Option<PathBuf>,
    /// What is wrong with it; `None` as long as that is not known, which it is once
    /// its image has been fetched.
    pub verdict: Option<Verdict>,
    /// Bytes to fetch.
    pub size_bytes: Option<u64>,
    #[serde(skip)]
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Here(Kernel),
    There(Offer),
}

impl Candidate {
    fn here(kernel: Kernel, place: KernelOrigin) -> Self {
        Self {
            version: kernel.version.clone(),
            place,
            image: Some(kernel.image.clone()),
            verdict: None,
            size_bytes: None,
            source: Source::Here(kernel),
        }
    }

    fn there(offer: Offer) -> Self {
        Self {
            version: offer.release.clone(),
            place: KernelOrigin::Archive,
            image: None,
            verdict: offer.store(&cache_root()).verdict(),
            size_bytes: Some(offer.size_bytes),
            source: Source::There(offer),
        }
    }

    /// Fetches the kernel if it is not here, and judges it.
    fn obtain(&self) -> Result<std::result::Result<Kernel, Verdict>> {
        match &self.source {
            Source::Here(kernel) => {
                let verdict = kernel.verdict()?;
                Ok(if verdict.is_sound() { Ok(kernel.clone()) } else { Err(verdict) })
            }
            Source::There(offer) => archive::fetch(offer, &cache_root()),
        }
    }
}

/// Kernels that are on this machine, newest first.
fn local() -> Vec<Candidate> {
    let cached = fs::read_dir(cache_root().join("kernels"))
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'))
        .flat_map(|entry| Kernel::below(&entry.path().join("usr/lib/modules")))
        .map(|kernel| Candidate::here(kernel, KernelOrigin::Cache));
    let installed = Kernel::below(Path::new("/usr/lib/modules"))
        .into_iter()
        .map(|kernel| Candidate::here(kernel, KernelOrigin::Host));
    let mut found: Vec<Candidate> = cached.chain(installed).collect();
    sort(&mut found);
    found
}

/// Kernels that can be fetched and are not here, newest first.
fn remote(local: &[Candidate]) -> Vec<Candidate> {
    archive::offers()
        .into_iter()
        .filter(|offer| local.iter().all(|c| c.version != offer.release))
        .map(Candidate::there)
        .collect()
}

/// Newest first; what is in our cache before what is installed.
fn sort(candidates: &mut [Candidate]) {
    candidates.sort_by(|a, b| {
        version::compare(&b.version, &a.version)
            .then((a.place == KernelOrigin::Host).cmp(&(b.place == KernelOrigin::Host)))
    });
}

/// Every kernel that a guest could boot, newest first, those on this machine judged.
pub fn list() -> Result<Vec<Candidate>> {
    let mut candidates = local();
    for candidate in &mut candidates {
        if let Source::Here(kernel) = &candidate.source {
            candidate.verdict = Some(kernel.verdict()?);
        }
    }
    candidates.extend(remote(&candidates));
    sort(&mut candidates);
    Ok(candidates)
}

/// The kernel that the user asked for, or the newest sound one: of those that are on
/// this machine if one of them is sound, else of those in the archive.
///
/// A kernel that was named by its path is taken as it is.
pub fn choose(wanted: Option<&str>) -> Result<Kernel> {
    if let Some(path) = wanted.filter(|w| w.contains('/')) {
        return Kernel::at(Path::new(path));
    }
    let matches = |c: &Candidate| wanted.is_none_or(|w| is_version(&c.version, w));
    let local = local();
    let mut refused = Vec::new();
    let near = local.iter().filter(|c| matches(c)).cloned().collect::<Vec<_>>();
    if let Some(kernel) = first_sound(near, &mut refused)? {
        return Ok(kernel);
    }
    let remote = remote(&local);
    let archive_is_empty = remote.is_empty();
    let far = remote.into_iter().filter(matches).collect();
    if let Some(kernel) = first_sound(far, &mut refused)? {
        return Ok(kernel);
    }
    Err(none_sound(wanted, &refused, archive_is_empty))
}

/// Whether the user means that release by `wanted`: all of it, or whole parts from
/// its beginning (`7.2` is not `7.20`).
fn is_version(release: &str, wanted: &str) -> bool {
    release
        .strip_prefix(wanted)
        .is_some_and(|rest| rest.chars().next().is_none_or(|c| !c.is_ascii_alphanumeric()))
}

/// Goes through the candidates in order; what is wrong with those that were passed
/// over is added to `refused`.
fn first_sound(candidates: Vec<Candidate>, refused: &mut Vec<String>) -> Result<Option<Kernel>> {
    for candidate in candidates {
        match candidate.obtain()? {
            Ok(kernel) => return Ok(Some(kernel)),
            Err(verdict) => refused.push(format!(
                "{} ({}): {}",
                candidate.version,
                candidate.place,
                verdict.summary()
            )),
        }
    }
    Ok(None)
}

fn none_sound(wanted: Option<&str>, refused: &[String], archive_is_empty: bool) -> Error {
    let attempt = match wanted {
        Some(wanted) => format!("find the kernel {wanted}"),
        None => "find a kernel for the guest".to_owned(),
    };
    let cause = match (refused.is_empty(), wanted) {
        (false, _) => format!("none is sound:\n  {}", refused.join("\n  ")),
        (true, Some(_)) => "there is none of that version".to_owned(),
        (true, None) => "there is none on this machine".to_owned(),
    };
    let remedy = if archive_is_empty {
        "`make deps` adds the package sources that offer kernels with sched_ext"
    } else if wanted.is_some() {
        "`metasched vm --list-kernels` shows what there is; a path is taken as it is"
    } else {
        "name a kernel of your own with --kernel PATH"
    };
    Error::new(Kind::Unsupported, attempt, cause).remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with a kernel in it, as Debian's packages unpack.
    fn tree(release: &str, image: &str) -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        let modules = tree.path().join("usr/lib/modules").join(release);
        fs::create_dir_all(&modules).unwrap();
        fs::create_dir(tree.path().join("boot")).unwrap();
        fs::write(tree.path().join(image), "image").unwrap();
        fs::write(modules.join("modules.dep"), "").unwrap();
        tree
    }

    #[test]
    fn a_kernel_is_found_by_its_tree_its_folder_or_its_image() {
        let tree = tree("7.2.1-amd64", "usr/lib/modules/7.2.1-amd64/vmlinuz.unsigned");
        let modules = tree.path().join("usr/lib/modules/7.2.1-amd64");
        for path in [tree.path(), &modules, &modules.join("vmlinuz.unsigned")] {
            let kernel = Kernel::at(path).unwrap();
            assert_eq!(kernel.version, "7.2.1-amd64");
            assert!(kernel.image.ends_with("vmlinuz.unsigned"));
        }
        let e = Kernel::at(&tree.path().join("boot")).unwrap_err();
        assert!(e.to_string().contains("there is no kernel"), "{e}");
    }

    #[test]
    fn an_installed_kernels_image_is_in_boot() {
        let tree = tree("6.1.0-amd64", "boot/vmlinuz-6.1.0-amd64");
        fs::write(tree.path().join("boot/config-6.1.0-amd64"), "").unwrap();
        let kernel = Kernel::below(&tree.path().join("usr/lib/modules")).pop().unwrap();
        assert!(kernel.image.ends_with("boot/vmlinuz-6.1.0-amd64"));
        assert!(kernel.config.unwrap().ends_with("boot/config-6.1.0-amd64"));
    }

    #[test]
    fn a_version_is_meant_by_its_beginning_in_whole_parts() {
        assert!(is_version("7.2.13+deb14-amd64", "7.2"));
        assert!(is_version("7.2.13+deb14-amd64", "7.2.13+deb14-amd64"));
        assert!(!is_version("7.20.1+deb14-amd64", "7.2"));
        assert!(!is_version("7.2.13+deb14-amd64", "7.3"));
    }

    #[test]
    fn when_none_is_sound_each_is_named_with_what_is_wrong() {
        let refused = ["7.3 (cache): no tags".to_owned(), "7.2 (archive): no config".to_owned()];
        let text = none_sound(None, &refused, false).to_string();
        assert!(text.contains("7.3 (cache): no tags\n  7.2 (archive): no config"), "{text}");
        assert!(text.contains("--kernel PATH"), "{text}");
        let text = none_sound(None, &[], true).to_string();
        assert!(text.contains("make deps"), "{text}");
    }
}

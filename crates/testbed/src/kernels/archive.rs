//! Kernels that Debian's archive offers, as apt knows it.
//!
//! A kernel there is three packages: `linux-binary-RELEASE` (or `-unsigned-`), the
//! image; `linux-modules-RELEASE`; and `linux-base-RELEASE` with its configuration.
//! They are only unpacked into our cache, never installed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use metasched_base::{Error, Kind, Progress, Result, ResultExt};
use nix::fcntl::{Flock, FlockArg};

use super::facts::{Store, Verdict};
use super::{Kernel, version};

/// Debian's kernels before this one are built without sched_ext.
const OLDEST: (u32, u32) = (7, 0);
const IMAGE_PREFIXES: [&str; 2] = ["linux-binary-", "linux-binary-unsigned-"];
const MODULES_PREFIX: &str = "linux-modules-";
const BASE_PREFIX: &str = "linux-base-";

/// Where a kernel is unpacked before it is whole.
const PARTIAL_PREFIX: &str = ".partial-";

/// A kernel in the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its release, as `uname -r` will give it.
    pub release: String,
    /// The version of its packages.
    pub version: String,
    /// The package with the image.
    pub image: String,
    /// Bytes to fetch: image and configuration, and modules.
    pub size_bytes: u64,
}

impl Offer {
    /// The place for what is known about it.
    pub fn store(&self, root: &Path) -> Store {
        Store::of_identity(root, &self.release, &format!("{} {}", self.image, self.version))
    }

    fn package(&self, prefix: &str) -> String {
        format!("{prefix}{}={}", self.release, self.version)
    }
}

/// Every kernel for PCs that the archive offers, newest first. A machine without
/// apt is offered none.
pub fn offers() -> Vec<Offer> {
    let output = Command::new("apt-cache")
        .args(["search", "--names-only", "--full", "^linux-(binary|modules|base)-.*-amd64$"])
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    output.map_or_else(|_| Vec::new(), |output| parse(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads the descriptions of packages as apt prints them.
fn parse(text: &str) -> Vec<Offer> {
    let mut packages: BTreeMap<(String, String), u64> = BTreeMap::new();
    for stanza in text.split("\n\n") {
        let field = |name: &str| {
            stanza.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        };
        if let (Some(package), Some(version)) = (field("Package"), field("Version")) {
            let size = field("Size").and_then(|s| s.parse().ok()).unwrap_or(0);
            packages.insert((package.to_owned(), version.to_owned()), size);
        }
    }
    let size = |package: String, version: &str| packages.get(&(package, version.to_owned()));
    let mut offers: Vec<Offer> = Vec::new();
    for (package, version) in packages.keys() {
        let Some(release) = package.strip_prefix(MODULES_PREFIX) else { continue };
        if !is_plain(release) || version::major_minor(release).is_none_or(|v| v < OLDEST) {
            continue;
        }
        let image = IMAGE_PREFIXES.iter().find_map(|prefix| {
            let name = format!("{prefix}{release}");
            size(name.clone(), version).map(|bytes| (name, bytes))
        });
        let base = size(format!("{BASE_PREFIX}{release}"), version);
        let modules = size(package.clone(), version);
        if let (Some((image, bytes)), Some(base), Some(modules)) = (image, base, modules) {
            offers.push(Offer {
                release: release.to_owned(),
                version: version.clone(),
                image,
                size_bytes: bytes + base + modules,
            });
        }
    }
    offers.sort_by(|a, b| {
        version::compare(&b.release, &a.release).then(version::compare(&b.version, &a.version))
    });
    offers.dedup_by(|a, b| a.release == b.release);
    offers
}

/// Whether it is the kernel for PCs: those for the cloud lack 9p, real-time ones
/// schedule differently.
fn is_plain(release: &str) -> bool {
    release.strip_suffix("-amd64").is_some_and(|version| !version.contains('-'))
}

/// Fetches a kernel into `root/kernels` and unpacks it, unless its image or its
/// configuration show that it is not sound: then the rest is not fetched, and the
/// verdict is kept.
pub fn fetch(offer: &Offer, root: &Path) -> Result<std::result::Result<Kernel, Verdict>> {
    let store = offer.store(root);
    if let Some(verdict) = store.verdict().filter(|v| !v.is_sound()) {
        return Ok(Err(verdict));
    }
    let kernels = root.join("kernels");
    let attempt = || format!("make {}", kernels.display());
    fs::create_dir_all(&kernels).attempt(Kind::Denied, attempt)?;
    let _lock = lock(&kernels)?;
    remove_leftovers(&kernels);
    let target = kernels.join(&offer.release);
    if let Some(kernel) = Kernel::below(&target.join("usr/lib/modules")).pop() {
        return Ok(Ok(kernel));
    }

    let progress = Progress::new(format!("kernel {}", offer.release), 4);
    let megabytes = offer.size_bytes.div_ceil(1_000_000);
    progress.message(format!(
        "fetching it from Debian's archive, {megabytes} MB, unpacked in {} and not installed",
        kernels.display()
    ));
    let partial = tempfile::Builder::new()
        .prefix(PARTIAL_PREFIX)
        .tempdir_in(&kernels)
        .attempt(Kind::Denied, attempt)?;
    let tree = partial.path().join("tree");
    let packages = partial.path().join("packages");
    let image = format!("{}={}", offer.image, offer.version);
    download(&packages, &[image, offer.package(BASE_PREFIX)])?;
    unpack(&packages, &tree)?;
    progress.step();

    progress.message("judging its BTF and its configuration");
    let modules = tree.join("usr/lib/modules").join(&offer.release);
    // There is no modules.dep yet, which a kernel must have to count as one.
    fs::write(modules.join("modules.dep"), "").attempt(Kind::Failed, attempt)?;
    let kernel = Kernel::in_modules_folder(&modules).ok_or_else(|| {
        Error::new(Kind::Failed, format!("unpack {}", offer.image), "there is no image in it")
    })?;
    let verdict = store.verdict_of(&kernel.image, kernel.config.as_deref());
    if !verdict.is_sound() {
        return Ok(Err(verdict));
    }
    progress.step();

    progress.message("fetching its modules");
    download(&packages, &[offer.package(MODULES_PREFIX)])?;
    progress.step();
    progress.message("unpacking its modules");
    unpack(&packages, &tree)?;
    depmod(&tree, &offer.release)?;
    fs::rename(&tree, &target)
        .attempt(Kind::Failed, || format!("put the kernel at {}", target.display()))?;
    progress.step();
    Kernel::below(&target.join("usr/lib/modules")).pop().map(Ok).ok_or_else(|| {
        Error::new(Kind::Failed, format!("unpack {}", offer.image), "modules or image are missing")
    })
}

/// Removes what a fetch left that was killed. Call it with the lock held.
fn remove_leftovers(kernels: &Path) {
    for entry in fs::read_dir(kernels).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PARTIAL_PREFIX) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// One at a time: several guests may be started at once.
fn lock(kernels: &Path) -> Result<Flock<fs::File>> {
    let path = kernels.join(".lock");
    let attempt = || format!("lock {}", path.display());
    let file = fs::File::create(&path).attempt(Kind::Denied, attempt)?;
    Flock::lock(file, FlockArg::LockExclusive)
        .map_err(|(_, errno)| Error::new(Kind::Failed, attempt(), errno.desc()))
}

/// Downloads packages into a folder that is empty afterwards but for them. apt
/// checks them against the archive's signatures.
fn download(dir: &Path, packages: &[String]) -> Result<()> {
    let attempt = || format!("fetch {}", packages.join(" and "));
    let _ = fs::remove_dir_all(dir);
    fs::create_dir_all(dir).attempt(Kind::Failed, attempt)?;
    // apt downloads as its own user, who must be able to write there.
    if let Ok(Some(user)) = nix::unistd::User::from_name("_apt")
        && nix::unistd::geteuid().is_root()
    {
        for path in [dir.parent(), Some(dir)].into_iter().flatten() {
            std::os::unix::fs::chown(path, Some(user.uid.as_raw()), None)
                .attempt(Kind::Failed, attempt)?;
        }
    }
    let output = Command::new("apt-get")
        .args(["-q", "download"])
        .args(packages)
        .current_dir(dir)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .attempt(Kind::Unsupported, attempt)?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let cause = text.lines().filter(|l| l.starts_with("E:")).collect::<Vec<_>>().join(" ");
        return Err(Error::new(Kind::Failed, attempt(), cause)
            .remedy("try `apt-get update`: the archive drops old packages when new ones come"));
    }
    Ok(())
}

/// Unpacks every package in a folder, and removes it.
fn unpack(packages: &Path, tree: &Path) -> Result<()> {
    let attempt = || format!("unpack the packages in {}", packages.display());
    let entries = fs::read_dir(packages).attempt(Kind::Failed, attempt)?;
    let debs: Vec<PathBuf> = entries
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension() == Some("deb".as_ref()))
        .collect();
    for deb in debs {
        run(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(tree), attempt)?;
        fs::remove_file(&deb).attempt(Kind::Failed, attempt)?;
    }
    Ok(())
}

fn depmod(tree: &Path, release: &str) -> Result<()> {
    let attempt = || format!("list the modules of {release}");
    // depmod looks below lib, the packages unpack below usr/lib.
    std::os::unix::fs::symlink("usr/lib", tree.join("lib")).attempt(Kind::Failed, attempt)?;
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    run(Command::new("depmod").env("PATH", path).arg("-b").arg(tree).arg(release), attempt)
}

fn run(command: &mut Command, attempt: impl Fn() -> String) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|e| {
        Error::new(Kind::Unsupported, attempt(), format!("{program}: {e}"))
            .remedy("install what is missing with `make deps`")
    })?;
    if !output.status.success() {
        let cause = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::new(Kind::Failed, attempt(), format!("{program}: {cause}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stanza(package: &str, version: &str) -> String {
        format!("Package: {package}\nSource: linux\nVersion: {version}\nSize: 10\n\n")
    }

    fn whole(release: &str, image: &str, version: &str) -> String {
        stanza(&format!("{image}{release}"), version)
            + &stanza(&format!("linux-modules-{release}"), version)
            + &stanza(&format!("linux-base-{release}"), version)
    }

    #[test]
    fn offers_are_whole_kernels_for_pcs_newest_first() {
        let text = whole("7.2.9+deb13-amd64", "linux-binary-", "7.2.9-1~bpo13+1")
            + &whole("7.3.4+deb13-amd64", "linux-binary-unsigned-", "7.3.4-1~bpo13+1")
            + &whole("7.2.13+deb14-amd64", "linux-binary-", "7.2.13-1")
            + &whole("7.3.4+deb13-cloud-amd64", "linux-binary-", "7.3.4-1~bpo13+1")
            + &whole("6.19.14+deb13-amd64", "linux-binary-", "6.19.14-1")
            // Its modules are gone from the archive.
            + &stanza("linux-binary-7.4.1+deb14-amd64", "7.4.1-1");
        let offers = parse(&text);
        let releases: Vec<_> = offers.iter().map(|o| o.release.as_str()).collect();
        assert_eq!(releases, ["7.3.4+deb13-amd64", "7.2.13+deb14-amd64", "7.2.9+deb13-amd64"]);
        assert_eq!(offers[0].image, "linux-binary-unsigned-7.3.4+deb13-amd64");
        assert_eq!(offers[0].size_bytes, 30);
    }

    #[test]
    fn packages_of_different_versions_make_no_kernel() {
        let text = stanza("linux-binary-7.2.9+deb13-amd64", "7.2.9-2")
            + &stanza("linux-modules-7.2.9+deb13-amd64", "7.2.9-1")
            + &stanza("linux-base-7.2.9+deb13-amd64", "7.2.9-1");
        assert_eq!(parse(&text), []);
    }

    #[test]
    fn what_a_killed_fetch_left_is_removed_and_nothing_else() {
        let kernels = tempfile::tempdir().unwrap();
        for name in [".partial-x1", "7.3.4+deb13-amd64"] {
            fs::create_dir_all(kernels.path().join(name).join("usr")).unwrap();
        }
        remove_leftovers(kernels.path());
        assert!(!kernels.path().join(".partial-x1").exists());
        assert!(kernels.path().join("7.3.4+deb13-amd64/usr").exists());
    }

    #[test]
    fn no_text_is_no_offer() {
        assert_eq!(parse(""), []);
    }
}

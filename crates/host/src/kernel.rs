//! The kernel's release and its configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use metasched_base::{Error, Kind, Result, ResultExt};
use serde::{Serialize, Serializer};

use crate::{below, read_trimmed};

/// A kernel's release, such as `7.2.13+deb14-amd64`; it sorts by its numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// Major, minor and patch; a number that is not written is 0.
    pub version: (u32, u32, u32),
    /// As `uname -r` says it.
    pub text: String,
}

impl Release {
    /// Reads a release; None if it does not begin with a major and a minor number.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let numbers =
            &text[..text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len())];
        let mut parts = numbers.split('.').map(str::parse::<u32>);
        let major = parts.next()?.ok()?;
        let minor = parts.next()?.ok()?;
        let patch = parts.next().and_then(Result::ok).unwrap_or(0);
        Some(Self { version: (major, minor, patch), text: text.to_string() })
    }

    /// Whether it is this version or a later one.
    pub fn is_at_least(&self, major: u32, minor: u32) -> bool {
        (self.version.0, self.version.1) >= (major, minor)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Release {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// The release of the running kernel.
pub fn release(root: &Path) -> Result<Release> {
    const PATH: &str = "/proc/sys/kernel/osrelease";
    let attempt = || format!("read the kernel's release from {PATH}");
    let text = std::fs::read_to_string(below(root, PATH)).attempt(Kind::Unsupported, attempt)?;
    Release::parse(&text).ok_or_else(|| {
        Error::new(Kind::Unsupported, attempt(), format!("'{}' is no release", text.trim()))
    })
}

/// A kernel's configuration as it was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The file that it was read from.
    pub path: PathBuf,
    values: BTreeMap<String, String>,
}

impl Config {
    /// Reads the text of a configuration file.
    pub fn parse(path: &Path, text: &str) -> Self {
        let values = text
            .lines()
            .filter(|line| line.starts_with("CONFIG_"))
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.to_string(), value.trim_matches('"').to_string()))
            .collect();
        Self { path: path.to_path_buf(), values }
    }

    /// The value of an option, `y`, `m`, a number or a text; None if it is not set.
    pub fn value(&self, option: &str) -> Option<&str> {
        self.values.get(option).map(String::as_str)
    }

    /// Ticks per second.
    pub fn hz(&self) -> Option<u32> {
        self.value("CONFIG_HZ")?.parse().ok()
    }

    /// Whether an option is built into the kernel.
    pub fn is_built_in(&self, option: &str) -> bool {
        self.value(option) == Some("y")
    }

    /// Whether an option is built in or built as a module.
    pub fn is_available(&self, option: &str) -> bool {
        matches!(self.value(option), Some("y" | "m"))
    }
}

/// The options without which a BPF scheduler cannot run.
pub const NEEDED_OPTIONS: &[&str] =
    &["CONFIG_BPF_SYSCALL", "CONFIG_BPF_JIT", "CONFIG_DEBUG_INFO_BTF", "CONFIG_SCHED_CLASS_EXT"];

/// The options of [`NEEDED_OPTIONS`] that a configuration does not build in.
pub fn missing_options(config: &Config) -> Vec<&'static str> {
    NEEDED_OPTIONS.iter().copied().filter(|option| !config.is_built_in(option)).collect()
}

/// The configuration of a kernel, from the first of `/proc/config.gz` (if it is the running
/// kernel's), `/boot/config-RELEASE` and `/usr/lib/modules/RELEASE/config`; None if there is none.
///
/// libbpf looks for the first two only, so a scheduler that asks for configuration
/// values fails to load where just the third is there.
pub fn config(root: &Path, release: &str) -> Result<Option<Config>> {
    let of_running = "/proc/config.gz";
    let mut candidates = vec![
        format!("/boot/config-{release}"),
        format!("/usr/lib/modules/{release}/config"),
        format!("/lib/modules/{release}/config"),
    ];
    if read_trimmed(root, "/proc/sys/kernel/osrelease").as_deref() == Some(release) {
        candidates.insert(0, of_running.to_string());
    }
    for candidate in candidates {
        let path = below(root, &candidate);
        if !path.is_file() {
            continue;
        }
        let attempt = || format!("read the kernel's configuration '{}'", path.display());
        let bytes = std::fs::read(&path).attempt(Kind::BadInput, attempt)?;
        let mut text = String::new();
        if candidate == of_running {
            flate2::read::GzDecoder::new(bytes.as_slice())
                .read_to_string(&mut text)
                .attempt(Kind::BadInput, attempt)?;
        } else {
            text = String::from_utf8_lossy(&bytes).into_owned();
        }
        return Ok(Some(Config::parse(&path, &text)));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn host(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, contents) in files {
            let path = below(root.path(), path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, contents).unwrap();
        }
        root
    }

    #[test]
    fn releases_sort_by_their_numbers_and_not_by_their_letters() {
        let mut releases: Vec<Release> = ["7.10.1-amd64", "7.2.13+deb14-amd64", "6.12", "7.2.9"]
            .iter()
            .map(|text| Release::parse(text).unwrap())
            .collect();
        releases.sort();
        let texts: Vec<String> = releases.iter().map(Release::to_string).collect();
        assert_eq!(texts, ["6.12", "7.2.9", "7.2.13+deb14-amd64", "7.10.1-amd64"]);
        assert!(releases[1].is_at_least(7, 2) && !releases[1].is_at_least(7, 3));
        assert!(Release::parse("linux").is_none());
    }

    #[test]
    fn the_running_kernels_own_configuration_comes_first() {
        let mut gz = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        gz.write_all(b"CONFIG_SCHED_CLASS_EXT=y\n").unwrap();
        let root = host(&[
            ("/proc/sys/kernel/osrelease", b"7.2.13-x\n"),
            ("/proc/config.gz", &gz.finish().unwrap()),
            ("/boot/config-7.2.13-x", b"# CONFIG_SCHED_CLASS_EXT is not set\n"),
            ("/boot/config-7.0.1-x", b"# CONFIG_SCHED_CLASS_EXT is not set\n"),
        ]);
        let running = config(root.path(), "7.2.13-x").unwrap().unwrap();
        assert!(running.is_built_in("CONFIG_SCHED_CLASS_EXT"));
        let other = config(root.path(), "7.0.1-x").unwrap().unwrap();
        assert!(!other.is_available("CONFIG_SCHED_CLASS_EXT"));
        assert_eq!(other.path, root.path().join("boot/config-7.0.1-x"));
    }

    #[test]
    fn debians_newer_place_is_found_and_absence_is_no_error() {
        let root = host(&[("/usr/lib/modules/7.3.4-x/config", b"CONFIG_HZ=250\nCONFIG_KVM=m\n")]);
        let found = config(root.path(), "7.3.4-x").unwrap().unwrap();
        assert_eq!((found.value("CONFIG_HZ"), found.hz()), (Some("250"), Some(250)));
        assert!(found.is_available("CONFIG_KVM") && !found.is_built_in("CONFIG_KVM"));
        assert_eq!(config(root.path(), "6.1.0-x").unwrap(), None);
    }

    #[test]
    fn options_that_are_off_are_named() {
        let text = "CONFIG_BPF_SYSCALL=y\nCONFIG_BPF_JIT=y\nCONFIG_DEBUG_INFO_BTF=y\n\
                    # CONFIG_SCHED_CLASS_EXT is not set\n";
        let config = Config::parse(Path::new("config"), text);
        assert_eq!(missing_options(&config), ["CONFIG_SCHED_CLASS_EXT"]);
    }
}

use std::path::PathBuf;

/// Where prepared things are kept: `METASCHED_CACHE_ROOT`, else a folder that is there for all
/// users where we are root, else the user's own.
pub fn cache_root() -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("METASCHED_CACHE_ROOT").unwrap_or_else(|| {
        if nix::unistd::geteuid().is_root() {
            return PathBuf::from("/var/cache/metasched");
        }
        set("XDG_CACHE_HOME")
            .or_else(|| set("HOME").map(|home| home.join(".cache")))
            .unwrap_or_else(std::env::temp_dir)
            .join("metasched")
    })
}

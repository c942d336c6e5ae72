//! `metasched-dop-open`, on folders that look like /sys and /dev.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A machine with devices: their names, numbers, and how long their memory is, in bytes.
fn machine(devices: &[(&str, &str, u64)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("dev/shm")).unwrap();
    for (name, number, bytes) in devices {
        let folder = memory(root.path(), name).parent().unwrap().to_owned();
        fs::create_dir_all(&folder).unwrap();
        let (vendor, model) = number.split_once(':').unwrap();
        fs::write(folder.join("vendor"), format!("{vendor}\n")).unwrap();
        fs::write(folder.join("device"), format!("{model}\n")).unwrap();
        let file = fs::File::create(folder.join("resource2")).unwrap();
        file.set_len(*bytes).unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
    }
    root
}

fn memory(root: &Path, device: &str) -> PathBuf {
    root.join("sys/bus/pci/devices").join(device).join("resource2")
}

fn link(root: &Path) -> PathBuf {
    root.join("dev/shm/metasched-paravirt")
}

fn run(root: &Path, arguments: &[&str]) -> Output {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("metasched-dop-open"))
        .arg("--root")
        .arg(root)
        .args(arguments)
        .output()
        .unwrap()
}

/// That it fails with this status, and says so.
fn fails(root: &Path, arguments: &[&str], status: i32, says: &str) {
    let output = run(root, arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(said.starts_with("metasched-dop-open: cannot ") && said.contains(says), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

fn mode(file: &Path) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

const PAGE: &str = "0x1af4:0x1110";
const ONE: &str = "0000:00:04.0";
const OTHER: &str = "0000:00:05.0";

#[test]
fn the_only_page_is_opened_and_closed_and_other_memory_is_left() {
    let root = machine(&[
        ("0000:00:01.0", "0x8086:0x1110", 4096),
        ("0000:00:02.0", PAGE, 1 << 20),
        (ONE, PAGE, 4096),
    ]);
    let (root, page) = (root.path(), memory(root.path(), ONE));
    // Again, as after a start of the machine that failed in between.
    for _ in 0..2 {
        let output = run(root, &[]);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        assert_eq!((mode(&page), fs::read_link(link(root)).unwrap()), (0o644, page.clone()));
    }
    assert_eq!(mode(&memory(root, "0000:00:02.0")), 0o600);
    for _ in 0..2 {
        let output = run(root, &["--close"]);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        assert!(mode(&page) == 0o600 && fs::symlink_metadata(link(root)).is_err());
    }
}

#[test]
fn one_of_several_is_to_be_named() {
    let root = machine(&[(ONE, PAGE, 4096), (OTHER, PAGE, 4096)]);
    let root = root.path();
    fails(root, &[], 1, &format!("there are several devices: {ONE} {OTHER}; name one"));
    assert!(run(root, &[OTHER]).status.success());
    let modes = [ONE, OTHER].map(|device| mode(&memory(root, device)));
    assert_eq!((modes, fs::read_link(link(root)).unwrap()), ([0o600, 0o644], memory(root, OTHER)));
    // The link leads to another one than what is closed.
    assert!(run(root, &["--close", ONE]).status.success());
    assert!(link(root).exists());
}

#[test]
fn a_group_alone_may_read_it() {
    let root = machine(&[(ONE, PAGE, 4096)]);
    // Any user is in a group, which has a number.
    let group = Command::new("id").arg("-g").output().unwrap().stdout;
    let group = String::from_utf8(group).unwrap();
    assert!(run(root.path(), &["--group", group.trim()]).status.success());
    assert_eq!(mode(&memory(root.path(), ONE)), 0o640);
    // It is chgrp that says what is wrong with another one.
    let output = run(root.path(), &["--group", "no-such-group"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("no-such-group"), "{said}");
}

#[test]
fn what_cannot_be_done_is_said() {
    let root = machine(&[("0000:00:02.0", PAGE, 8192)]);
    let root = root.path();
    fails(root, &[], 1, "no device 1af4:1110 has a memory of 4096 bytes; start the machine");
    fails(root, &["0000:00:02.0"], 1, "cannot open the page of '0000:00:02.0'");
    fails(root, &["../../.."], 1, "cannot open the page of '../../..'");
    fails(root, &["--opne"], 2, "there is no option '--opne'");
    fails(root, &["--group"], 2, "--group needs a value");
    fails(root, &["a", "b"], 2, "there are several devices");
    let help = run(root, &["--help"]);
    assert!(help.status.success() && help.stdout.starts_with(b"Opens to this guest's programs"));
}

#[test]
fn what_stands_where_the_link_is_to_be_is_left_unless_it_is_a_link() {
    let root = machine(&[(ONE, PAGE, 4096)]);
    let root = root.path();
    fs::write(link(root), "somebody's").unwrap();
    fails(root, &[], 1, "is there, and is no link; remove it");
    assert_eq!(fs::read(link(root)).unwrap(), b"somebody's");
    fs::remove_file(link(root)).unwrap();
    symlink("/nowhere", link(root)).unwrap();
    assert!(run(root, &[]).status.success());
    assert_eq!(fs::read_link(link(root)).unwrap(), memory(root, ONE));
}

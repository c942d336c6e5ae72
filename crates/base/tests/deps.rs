//! What `scripts/deps.sh` makes of what apt answers. The answers in `apt/` are recorded ones, of
//! Debian 12.15; the first line of each is what apt was asked.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use metasched_base::Kind;

const REFUSED: Kind = Kind::Busy;
const UNMET: Kind = Kind::Unsupported;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn recorded(answer: &str) -> PathBuf {
    here().join("tests/apt").join(answer).with_extension("txt")
}

/// Nothing, or what sort of failure it is; and a line for each package.
fn decide_on(id: &str, version_id: &str, answer: &str) -> (Option<Kind>, Vec<String>) {
    let path = recorded(answer);
    let output = Command::new(here().join("../../scripts/deps.sh"))
        .args(["--decide", id, version_id])
        .stdin(File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{answer}");
    let status = output.status.code().unwrap();
    let kind = Kind::ALL.into_iter().find(|kind| i32::from(kind.exit_code()) == status);
    assert!(kind.is_some() || status == 0, "{answer}: exit status {status}");
    let lines = String::from_utf8(output.stdout).unwrap();
    (kind, lines.lines().map(str::to_string).collect())
}

/// On the release that the answers are from.
fn assert_decision(answer: &str, kind: Option<Kind>, lines: &[&str]) {
    let decision = decide_on("debian", "12", answer);
    assert_eq!(decision.1, lines, "{answer}");
    assert_eq!(decision.0, kind, "{answer}");
}

#[test]
fn where_all_is_there_nothing_is_done() {
    assert_decision("nothing", None, &[]);
}

#[test]
fn what_is_new_is_installed() {
    assert_decision(
        "new",
        None,
        &["new fortunes-min", "new libluajit-5.1-common", "new libluajit-5.1-2", "new wrk"],
    );
}

#[test]
fn a_version_that_is_in_several_suites_is_of_the_release_if_one_of_them_is() {
    assert_decision("several-suites", None, &["new xbitmaps"]);
}

/// `make demo` ended at this, on a root that knew the main archive only.
#[test]
fn a_security_update_comes_along_and_is_no_new_package() {
    let liblzma = "upgraded liblzma5 (5.4.1-1+deb12u1 -> 5.4.1-1+deb12u2, \
                   Debian-Security:12/oldstable-security)";
    assert_decision("security", None, &[liblzma, "new xz-utils"]);
}

#[test]
fn the_security_update_of_another_release_or_vendor_does_not_come_along() {
    for (id, version_id) in [("debian", "13"), ("debian", "1"), ("debian", ""), ("ubuntu", "12")] {
        let (kind, lines) = decide_on(id, version_id, "security");
        assert_eq!(kind, Some(REFUSED), "{id} {version_id}: {lines:?}");
        assert!(lines[0].starts_with("refused liblzma5 would be upgraded"), "{lines:?}");
    }
}

#[test]
fn what_would_be_removed_is_refused_whatever_is_new() {
    assert_decision(
        "removal",
        Some(REFUSED),
        &["refused busybox would be removed", "new busybox-static"],
    );
}

#[test]
fn what_would_be_downgraded_is_refused_though_it_is_of_the_release() {
    let change = "would be downgraded (7.88.1-10+deb12u15 -> 7.88.1-10+deb12u5, \
                  Debian-Security:12/oldstable-security)";
    let lines = ["curl", "libcurl4"].map(|package| format!("refused {package} {change}"));
    assert_decision("downgrade", Some(REFUSED), &lines.each_ref().map(String::as_str));
}

const TO_BACKPORTS: &str = "(7.88.1-10+deb12u15 -> 8.14.1-2+deb13u2~bpo13+1, \
                            Debian Backports:oldstable-backports)";

#[test]
fn what_is_asked_for_by_suite_is_taken_from_there() {
    assert_decision("asked-by-suite", None, &["new bpftool", "new seabios"]);
    let lines = ["curl", "libcurl4"].map(|package| format!("upgraded {package} {TO_BACKPORTS}"));
    assert_decision("asked-by-suite-upgrade", None, &lines.each_ref().map(String::as_str));
}

#[test]
fn what_only_goes_with_what_is_asked_for_by_suite_is_not_upgraded_from_there() {
    let curl = format!("upgraded curl {TO_BACKPORTS}");
    let libcurl = format!("refused libcurl4 would be upgraded from another suite {TO_BACKPORTS}");
    assert_decision("wanted-by-suite-upgrade", Some(REFUSED), &[&curl, &libcurl]);
}

#[test]
fn what_is_held_is_refused_though_it_is_asked_for() {
    let curl = format!("refused curl is held, and would be upgraded {TO_BACKPORTS}");
    let libcurl = format!("upgraded libcurl4 {TO_BACKPORTS}");
    assert_decision("held", Some(REFUSED), &[&curl, &libcurl]);
}

#[test]
fn nothing_is_taken_from_a_suite_that_was_not_named() {
    let tzdata = "refused tzdata would be upgraded from another suite \
                  (2026b-0+deb12u1 -> 2026f-1, Debian:unstable)";
    assert_decision("other-suite-upgrade", Some(REFUSED), &[tzdata]);
    // A low pin keeps apt from upgrades, and not from what is nowhere else.
    let linux_base = "refused linux-base-7.2.12+deb13-amd64 would come from another suite \
                      (7.2.12-1~bpo13+1, Debian Backports:stable-backports)";
    assert_decision("other-suite-new", Some(REFUSED), &[linux_base]);
}

#[test]
fn what_cannot_be_had_is_said_in_the_words_of_apt() {
    assert_decision(
        "unmet",
        Some(UNMET),
        &[
            "unmet qemu-system-x86 : Depends: qemu-system-common \
             (= 1:10.0.2+ds-2+deb13u1~bpo12+1) but 1:7.2+dfsg-7+deb12u18+b3 is to be installed",
            "unmet Depends: qemu-system-data (> 1:10.0.2+ds~) but 1:7.2+dfsg-7+deb12u18 is to be \
             installed",
            "unmet Depends: seabios (> 1.16.3-1~) but 1.16.2-1 is to be installed",
            "unmet Unable to correct problems, you have held broken packages.",
        ],
    );
    assert_decision("unknown", Some(UNMET), &["unmet Unable to locate package no-such-package"]);
}

#[test]
fn every_recorded_answer_is_used() {
    let source = fs::read_to_string(here().join("tests/deps.rs")).unwrap();
    for entry in fs::read_dir(here().join("tests/apt")).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(source.contains(&format!("\"{name}\"")), "tests/apt/{name}.txt: use or delete it");
    }
}

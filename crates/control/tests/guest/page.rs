//! What stands in pages, and in the kernel's books beside them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metasched_abi::{FromBytes, METASCHED_PARAVIRT_MAGIC, MetaschedParavirtPage as Layout};
use serde_json::Value;

use crate::support::eventually;

/// What others take of the CPUs, where these are emulated on a busy host: as many more threads wait.
pub const OTHERS: f64 = 0.2;

/// The page of the machine of that name.
pub fn page_of(name: &str) -> PathBuf {
    Path::new("/dev/shm").join(format!("metasched-paravirt-{name}"))
}

/// What stands in a page, if it was not being written.
pub fn page(path: &Path) -> Option<Layout> {
    let read = || {
        let bytes = fs::read(path).ok()?;
        Layout::read_from_bytes(&bytes).ok()
    };
    let (before, page, after) = (read()?, read()?, read()?);
    let whole = before.sequence == after.sequence && page.sequence & 1 == 0;
    (whole && page.magic == METASCHED_PARAVIRT_MAGIC).then_some(page)
}

/// One that was written whole.
pub fn whole(path: &Path) -> Layout {
    let mut found = None;
    eventually("a page is whole", || {
        found = page(path);
        found.is_some()
    });
    found.unwrap()
}

/// How long a process or thread, by its folder in /proc, waited for a CPU so far, by the kernel's books, in
/// seconds.
pub fn waited(folder: &Path) -> f64 {
    let books = fs::read_to_string(folder.join("schedstat")).unwrap();
    books.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1e9
}

/// What is told of the machine of that name.
pub fn row<'a>(view: &'a Value, name: &str) -> &'a Value {
    let rows = view["machines"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}: {view:#}"))
}

/// The number that a document has there.
pub fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no number '{key}': {value}"))
}

/// For so long a page is looked at.
const SEEN_FOR: Duration = Duration::from_secs(4);

/// How long a window was, ns.
fn length(window: &Layout) -> f64 {
    (window.ended_ns - window.began_ns) as f64
}

/// The mean by time of a figure that is in thousandths.
pub fn mean(windows: &[Layout], of: fn(&Layout) -> u32) -> f64 {
    let milli: f64 = windows.iter().map(|window| f64::from(of(window)) * length(window)).sum();
    milli / windows.iter().map(length).sum::<f64>() / 1000.0
}

/// The windows that were seen in a page, each once.
pub fn windows_of(path: &Path) -> Vec<Layout> {
    let (mut windows, began) = (vec![whole(path)], Instant::now());
    while began.elapsed() < SEEN_FOR {
        std::thread::sleep(Duration::from_millis(5));
        let last = windows[windows.len() - 1];
        let Some(now) = page(path).filter(|now| now.windows != last.windows) else { continue };
        assert!(now.windows > last.windows && now.sequence > last.sequence);
        assert!(now.began_ns < now.ended_ns);
        if now.windows == last.windows + 1 {
            assert_eq!(now.began_ns, last.ended_ns, "no time is lost between windows");
        }
        windows.push(now);
    }
    assert!(windows.len() > 10, "{} windows", windows.len());
    windows
}

/// How long CPUs ran threads so far, by the kernel's books, in seconds.
pub fn busy() -> f64 {
    let text = fs::read_to_string("/proc/schedstat").unwrap();
    let cpus = text.lines().filter(|line| line.starts_with("cpu"));
    let ns = |line: &str| line.split_whitespace().nth(7).unwrap().parse::<f64>().unwrap();
    cpus.map(ns).sum::<f64>() / 1e9
}

//! `metasched top` in a real terminal.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use metasched_host::cgroup::Cgroup;

use crate::latency::document;
use crate::machine::{TestMachine, status};
use crate::support::{Beside, FEW, Run, eventually};

/// A terminal of 150 columns in which a command runs. Ends with the test.
struct Terminal(tempfile::TempDir);

impl Terminal {
    fn start(command: &str) -> Self {
        let terminal = Self(tempfile::tempdir().unwrap());
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x150", "-y40", command]);
        terminal
    }

    fn tmux(&self, words: &[&str]) -> String {
        let output = Command::new("tmux")
            .arg("-S")
            .arg(self.0.path().join("socket"))
            .args(words)
            .env("TERM", "xterm")
            .env("LC_ALL", "C.UTF-8")
            .output()
            .unwrap_or_else(|e| panic!("'tmux', which deps.sh installs: {e}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn shows(&self, words: &str) {
        let mut last = String::new();
        eventually(&format!("the screen shows '{words}'"), || {
            last = self.tmux(&["capture-pane", "-p"]);
            last.contains(words)
        });
        println!("{last}");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let socket = self.0.path().join("socket");
        let _ = Command::new("tmux").arg("-S").arg(socket).arg("kill-server").output();
    }
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn lanes_are_seen_and_changed_by_keys_and_the_terminal_is_as_it_was() {
    let _machine = TestMachine::take();
    let ok = |arguments: &[&str]| {
        let (code, said) = Run::start(arguments).finish();
        assert_eq!(code, Some(0), "{arguments:?}: {said}");
        said
    };
    let cgroup = Cgroup::create("metasched-test/front").unwrap();
    let busy = Beside::start("sh", &["-c", "while :; do :; done"]);
    cgroup.add(busy.pid()).unwrap();
    ok(&["start", "vtime", FEW[0], FEW[1]]);
    ok(&["lane", "assign", "metasched-test/front", "vtime"]);
    let looks = document("top", &["top", "--json", "--count", "1"]);
    let names = looks["rows"].as_array().unwrap().iter().map(|row| row["name"].clone());
    assert!(names.into_iter().any(|name| name == "metasched-test/front"), "{looks:#}");
    let program = Run::program();
    let exit = "echo; echo ended with $?; stty -a | grep -o ' icanon'; sleep 600";
    let terminal = Terminal::start(&format!("{} top; {exit}", program.display()));
    terminal.shows("metasched-test/front");
    terminal.press(&["Down", "Enter"]);
    // Its only task, and a counter of its policy.
    terminal.shows("sh ");
    terminal.shows("/s  queued: ");
    terminal.press(&["Escape"]);
    std::thread::sleep(Duration::from_secs(1));
    terminal.press(&["p", "Up", "Enter"]);
    terminal.shows("is on a lane of 'fifo'");
    let lanes = ok(&["lane", "list"]);
    assert!(lanes.contains("fifo"), "{lanes}");
    terminal.press(&["u"]);
    terminal.shows("taken back: ");
    let lanes = ok(&["lane", "list"]);
    assert!(!lanes.contains("fifo"), "{lanes}");
    terminal.press(&["w", "2", "5", "0", "Enter"]);
    terminal.shows("is 250");
    // Another scheduler comes meanwhile, and goes: it goes on with what there is.
    ok(&["stop"]);
    terminal.shows("eevdf  ");
    terminal.press(&["q"]);
    terminal.shows("ended with 0");
    terminal.shows("icanon");
    drop((terminal, busy));
    assert!(status().is_default());
    cgroup.remove().unwrap();
    Cgroup::open(Path::new("/sys/fs/cgroup/metasched-test")).unwrap().remove().unwrap();
}

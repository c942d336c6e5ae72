//! A real machine of KVM's, whose guest runs an OpenMP program. The guest that these tests run in is its host.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::latency::document;
use crate::machine::TestMachine;
use crate::page::{OTHERS, busy, mean, page, page_of, row, waited, windows_of};
use crate::support::{Beside, Run, compile, eventually, output};

const NAME: &str = "second";
/// How far a mean may be off, of a CPU or of a thread.
const OFF: f64 = 0.05;
/// So many hogs leave little of a CPU to a virtual one.
const HOGS: usize = 3;

/// The guest's script. Root opens the page, and the program is an ordinary user's.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
mkdir -p /dev/shm /etc
mount -t proc proc /proc
mount -t sysfs sys /sys
echo 'nobody:x:65534:65534::/:/bin/sh' >/etc/passwd
sh /metasched-dop-open
exec su nobody -c 'LD_PRELOAD=/libmetasched_dop.so exec /follower /dev/shm/metasched-paravirt'
"#;

/// Puts the guest's file system together in the folder: the program, the library that it follows the page by, and
/// what they need.
fn file_system(folder: &Path) -> PathBuf {
    let root = folder.join("root");
    for name in ["bin", "dev", "proc", "sys"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    let program = compile(&root, "follower");
    // Cargo builds it for this test, which depends on its crate.
    let library = std::env::current_exe().unwrap().with_file_name("libmetasched_dop.so");
    fs::copy(&library, root.join("libmetasched_dop.so")).unwrap();
    let opens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dop/metasched-dop-open");
    fs::copy(opens, root.join("metasched-dop-open")).unwrap();
    let needed = output(Command::new("ldd").args([&program, &library]));
    let words = needed.split_whitespace().filter(|word| word.starts_with('/'));
    for file in words.filter(|word| !word.ends_with(':')) {
        let to = root.join(&file[1..]);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(file, to).unwrap();
    }
    let busybox = output(Command::new("sh").args(["-c", "command -v busybox"]));
    fs::copy(busybox.trim(), root.join("bin/busybox")).unwrap();
    fs::write(root.join("init"), INIT).unwrap();
    fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755)).unwrap();
    let archive = folder.join("initramfs");
    let pack = "cd \"$1\" && find . | cpio --quiet -o -H newc >\"$2\"";
    output(Command::new("sh").args(["-c", pack, "sh"]).arg(&root).arg(&archive));
    archive
}

/// What is told of a machine: its virtual CPUs by KVM's numbers, and their threads.
fn known_by_kvm(name: &str) -> Vec<(u64, u64)> {
    let view = document("vms", &["vms", "--for", "300ms", "--json"]);
    let own = row(&view, name);
    assert_eq!(own["recognised_by"], "kvm", "{own}");
    let threads = own["vcpu_threads"].as_array().unwrap();
    let number = |thread: &Value, key: &str| thread[key].as_u64().unwrap();
    threads.iter().map(|thread| (number(thread, "vcpu_id"), number(thread, "tid"))).collect()
}

/// A machine of two virtual CPUs with KVM, whose threads have no names.
struct Second {
    qemu: Child,
    /// What its guest said, in lines.
    said: Arc<Mutex<Vec<String>>>,
    _folder: TempDir,
}

impl Second {
    /// Boots it with the page that is attached to its name.
    fn boot(page: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let release = output(Command::new("uname").arg("-r"));
        let kernel = metasched_testbed::kernels::choose(Some(release.trim())).unwrap();
        let line = "console=ttyS0 loglevel=4 panic=-1 tsc=reliable mitigations=off no_timer_check";
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio"])
            .args(["-name", NAME, "-accel", "kvm", "-cpu", "host", "-smp", "2", "-m", "256M"])
            .arg("-kernel")
            .arg(kernel.bootable().unwrap())
            .arg("-initrd")
            .arg(file_system(folder.path()))
            .args(["-append", line])
            .args(page["arguments"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut qemu = qemu.spawn().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let (lines, heard) = (BufReader::new(qemu.stdout.take().unwrap()).lines(), said.clone());
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| heard.lock().unwrap().push(line));
        });
        Self { qemu, said, _folder: folder }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.qemu.id().cast_signed())
    }

    /// How many threads the program's regions had in the mean, second for second.
    fn threads(&self) -> Vec<f64> {
        let said = self.said.lock().unwrap();
        let of = |line: &String| {
            let (mean, _) = line.strip_prefix("follower: ")?.split_once(" threads")?;
            mean.parse().ok()
        };
        said.iter().filter_map(of).collect()
    }

    /// Waits until regions have about so many threads for two seconds.
    fn comes_to(&self, wanted: f64, when: &str) {
        // The second that goes on now is of both.
        let from = self.threads().len() + 1;
        eventually(&format!("{wanted} threads when {when}"), || {
            let threads = self.threads();
            let last = threads.get(from..).unwrap_or_default().last_chunk();
            last.is_some_and(|last: &[f64; 2]| last.iter().all(|now| (now - wanted).abs() < 0.5))
        });
        println!("when {when}: {:?} threads", &self.threads()[from..]);
    }

    /// How long virtual CPUs waited for a CPU so far, by the kernel's books, in seconds.
    fn waited(&self, vcpus: &[u64]) -> f64 {
        let thread = |tid: &u64| waited(Path::new(&format!("/proc/{}/task/{tid}", self.pid())));
        vcpus.iter().map(thread).sum()
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
        if std::thread::panicking() {
            println!("its guest said: {:#?}", self.said.lock().unwrap());
        }
    }
}

fn hogs(cpu: &str) -> Vec<Beside> {
    let hog = || Beside::start("taskset", &["-c", cpu, "sh", "-c", "while :; do :; done"]);
    std::iter::repeat_with(hog).take(HOGS).collect()
}

#[test]
#[ignore = "needs a host of KVM with sched_ext: make test-guest"]
fn a_machine_of_any_program_is_known_with_kvms_number_of_its_virtual_cpu() {
    let _machine = TestMachine::take();
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "vmm");
    let vmm = Beside::start(program.to_str().unwrap(), &[]);
    let name = vmm.pid().to_string();
    eventually("it is there", || {
        let (code, said) = Run::start(&["vms", "--for", "100ms"]).finish();
        assert_eq!(code, Some(0), "{said}");
        said.contains(&name)
    });
    // Its only thread runs it.
    assert_eq!(known_by_kvm(&name), [(3, vmm.pid() as u64)]);
}

#[test]
#[ignore = "needs a host of KVM with sched_ext: make test-guest"]
fn a_machine_is_known_by_kvms_structures_and_its_program_follows_the_page() {
    let _machine = TestMachine::take();
    assert!(Path::new("/dev/kvm").exists(), "run it in 'metasched vm --kvm-host'");
    let attached = document("vms-attach", &["vms", "attach", NAME, "--json"]);
    let began = Instant::now();
    let second = Second::boot(&attached);
    let path = page_of(NAME);
    // So long that emulated CPUs that are late are not taken for a host that is gone.
    eventually("the machine is there", || {
        let (code, said) = Run::start(&["vms", "--for", "100ms"]).finish();
        assert_eq!(code, Some(0), "{said}");
        said.contains(NAME)
    });
    let mut serving = Run::start(&["vms", "serve", NAME, "--window", "100ms"]);
    second.comes_to(2.0, "nobody else wants a CPU");
    println!("its guest was there after {} s at most", began.elapsed().as_secs());

    let (ids, tids): (Vec<u64>, Vec<u64>) = known_by_kvm(NAME).into_iter().unzip();
    assert_eq!(ids, [0, 1]);
    let view = document("vms", &["vms", "--for", "300ms", "--json"]);
    let own = row(&view, NAME);
    assert_eq!((&own["has_page"], &own["served"]), (&true.into(), &true.into()), "{own}");
    for tid in &tids {
        let comm = fs::read_to_string(format!("/proc/{}/task/{tid}/comm", second.pid())).unwrap();
        assert!(comm.starts_with("qemu"), "it has no other name: {comm}");
    }

    let taken = hogs("1");
    second.comes_to(1.0, "one CPU is taken");
    let both = hogs("0");
    // Nothing is of the time before.
    std::thread::sleep(Duration::from_millis(300));
    let (books, from) = (second.waited(&tids), Instant::now());
    let seen = windows_of(&path);
    let by_books = (second.waited(&tids) - books) / from.elapsed().as_secs_f64();
    let phantoms = mean(&seen, |window| window.phantoms_milli);
    println!("both CPUs are taken: {phantoms:.4} phantoms, {by_books:.4} by the kernel");
    assert!(phantoms > 0.4, "{phantoms}");
    assert!((phantoms - by_books).abs() < OTHERS, "{phantoms}, {by_books} by the kernel");
    assert!(seen.iter().all(|window| (window.vcpus, window.cpus) == (2, 2)));
    drop(both);

    serving.kill();
    second.comes_to(2.0, "nobody tells any more, and the CPU is still taken");
    drop(taken);

    // A machine that is stopped has no phantoms, and leaves its CPUs.
    let serving = Run::start(&["vms", "serve", NAME, "--window", "100ms"]);
    let before = page(&path).map(|page| page.windows);
    eventually("the page goes on", || page(&path).map(|page| page.windows) > before);
    kill(second.pid(), Signal::SIGSTOP).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let (books, from) = (busy(), Instant::now());
    let seen = windows_of(&path);
    let by_books = 2.0 - (busy() - books) / from.elapsed().as_secs_f64();
    let idle_cpus = mean(&seen, |window| window.idle_cpus_milli);
    let phantoms = mean(&seen, |window| window.phantoms_milli);
    println!(
        "stopped: {phantoms:.4} phantoms, {idle_cpus:.4} CPUs idle, {by_books:.4} by the kernel"
    );
    assert!(phantoms < OFF, "{phantoms}");
    assert!(idle_cpus > 1.0, "{idle_cpus}");
    assert!((idle_cpus - by_books).abs() < OFF, "{idle_cpus}, {by_books} by the kernel");
    drop(second);
    let (code, said) = serving.finish();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(Run::start(&["vms", "detach", NAME]).finish().0, Some(0));
    println!("it took {} s", began.elapsed().as_secs());
}

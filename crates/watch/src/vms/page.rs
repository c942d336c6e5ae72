//! The page by which a machine learns of its CPUs: `include/metasched_paravirt.h` says what is in it.
//!
//! It is written by calls and not through a mapping. Who owns the file may cut it short at any time, and the
//! next access to a mapping would then end this process, and with it the pages of all other machines.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use metasched_abi::{
    FromBytes, IntoBytes, METASCHED_PARAVIRT_BYTES, METASCHED_PARAVIRT_MAGIC,
    METASCHED_PARAVIRT_VERSION, MetaschedParavirtPage as Layout,
};
use metasched_base::{Error, Kind, Result, ResultExt};
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};

use super::observer::Window;

/// The folder where pages are by default: files in memory.
pub const PAGES: &str = "/dev/shm";
const PREFIX: &str = "metasched-paravirt-";

const BYTES: u64 = METASCHED_PARAVIRT_BYTES as u64;
/// What is written of it; the rest is 0.
const USED: usize = offset_of!(Layout, reserved);
const SEQUENCE_AT: usize = offset_of!(Layout, sequence);
/// What changes with each window.
const CHANGES_AT: usize = offset_of!(Layout, windows);

/// A page that is being written. Whoever holds it is its only writer.
#[derive(Debug)]
pub struct Page {
    path: PathBuf,
    file: Flock<File>,
    /// Whether it was not there before.
    is_new: bool,
    written: Layout,
}

/// What stands in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFigures {
    /// How many windows were written so far.
    pub windows: u64,
    /// How long a window is to be, ns.
    pub window_ns: u64,
    /// When the last one began and ended, ns of CLOCK_MONOTONIC.
    pub began_ns: u64,
    /// See there.
    pub ended_ns: u64,
    /// Virtual CPUs that waited, in thousandths.
    pub phantoms_milli: u32,
    /// CPUs that were idle, in thousandths.
    pub idle_cpus_milli: u32,
    /// How many virtual CPUs there are.
    pub vcpus: u32,
    /// How many CPUs the machine may use.
    pub cpus: u32,
    /// CPUs that are owed to it, in thousandths.
    pub owed_cpus_milli: u32,
    /// CPUs that it owes, in thousandths.
    pub owing_cpus_milli: u32,
}

/// Where the page of a machine of that name is.
///
/// # Errors
/// `BadInput` for a name that cannot be part of a file's.
pub fn page_path(name: &str) -> Result<PathBuf> {
    // The kernel takes names of 255 bytes.
    const LONGEST: usize = 200;
    // systemd writes what is special to it by backslashes in the names of cgroups: `\x2d` for '-'.
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-+@:\\".contains(c);
    if name.is_empty() || name.len() > LONGEST || !name.chars().all(plain) {
        let attempt = format!("name the page of '{name}'");
        let cause =
            "its name holds more than letters, digits and any of '._-+@:\\', or is too long";
        return Err(Error::new(Kind::BadInput, attempt, cause)
            .remedy(format!("give the page's file by --page, such as {PAGES}/page")));
    }
    Ok(Path::new(PAGES).join(format!("{PREFIX}{name}")))
}

/// Refuses a page that would not be in memory: it is written hundreds of times a second.
///
/// # Errors
/// `BadInput` for a file on a disk, or in a folder that is not there.
pub fn on_memory(path: &Path) -> Result<()> {
    let attempt = || format!("keep a page in '{}'", path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let kind = statfs(folder.unwrap_or(Path::new("."))).attempt(Kind::BadInput, attempt)?;
    if kind.filesystem_type() == TMPFS_MAGIC {
        return Ok(());
    }
    Err(Error::new(Kind::BadInput, attempt(), "it is not on a file system in memory")
        .remedy(format!("give a file in {PAGES}, or on another tmpfs")))
}

fn opening() -> OpenOptions {
    let mut options = OpenOptions::new();
    // In a folder where everybody may write a link could lead anywhere, and a pipe would make us wait.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    options.read(true).custom_flags(flags.bits());
    options
}

impl Page {
    /// Makes the page, or takes the one that is there: a machine that has it already goes on with it.
    ///
    /// It belongs to `owner`, a user and a group. Of a machine it is private. Others may read it where `public`.
    /// One that is there must be that user's already: anybody may start a process that looks like a machine, and
    /// name it like another one.
    ///
    /// # Errors
    /// `Busy` where somebody else writes it; `BadInput` where what is there is no page of that user.
    pub fn prepare(path: &Path, owner: (u32, u32), public: bool) -> Result<Self> {
        Self::take(path, owner, public, &[owner.0])
    }

    /// The same for a machine that has not started yet. It may be given what is there of root's, too.
    ///
    /// # Errors
    /// As [`Page::prepare`].
    pub fn attach(path: &Path, owner: (u32, u32)) -> Result<Self> {
        Self::take(path, owner, false, &[owner.0, 0, nix::unistd::geteuid().as_raw()])
    }

    /// What is there may be of these users.
    fn take(path: &Path, owner: (u32, u32), public: bool, users: &[u32]) -> Result<Self> {
        let attempt = || format!("prepare the page '{}'", path.display());
        let mode = if public { 0o644 } else { 0o600 };
        let mut is_new = false;
        let file = match opening().write(true).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                is_new = true;
                opening().write(true).create_new(true).mode(mode).open(path)
            }
            opened => opened,
        };
        let file = file.attempt(Kind::Failed, attempt)?;
        let data = file.metadata().attempt(Kind::Failed, attempt)?;
        let refused = |cause: String| {
            let remedy = "see who has put it there, and remove it; 'metasched vms attach --user' makes one of a user";
            Err(Error::new(Kind::BadInput, attempt(), cause).remedy(remedy))
        };
        // One that was just made is ours, and is given to the owner below.
        let is_theirs = is_new || users.contains(&data.uid());
        if !data.is_file() || data.nlink() != 1 || !is_theirs {
            let user = owner.0;
            return refused(format!(
                "what is there is no file of user {user}, or has another name too"
            ));
        }
        // What was made and not yet given its length is empty.
        if ![0, BYTES].contains(&data.len()) {
            return refused(format!("what is there has {} bytes, and a page {BYTES}", data.len()));
        }
        let file =
            Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(
                |(_, errno)| match errno {
                    nix::errno::Errno::EWOULDBLOCK => Error::new(
                        Kind::Busy,
                        attempt(),
                        "somebody writes it already",
                    )
                    .remedy(
                        "end the other 'metasched vms serve', or the other machine of that name",
                    ),
                    errno => Error::new(Kind::Failed, attempt(), errno),
                },
            )?;
        let done = file
            .set_len(BYTES)
            .and_then(|()| file.set_permissions(PermissionsExt::from_mode(mode)))
            .and_then(|()| {
                if owner == (data.uid(), data.gid()) {
                    Ok(())
                } else {
                    fchown(&*file, Some(owner.0), Some(owner.1))
                }
            });
        done.attempt(Kind::Failed, attempt)?;
        let mut page = Self { path: path.to_owned(), file, is_new, written: Layout::default() };
        // It goes on from what a writer before us left, perhaps in the middle.
        if let Ok(left) = layout(&page.file) {
            page.written.sequence = left.sequence.wrapping_add(left.sequence & 1);
            page.written.windows = left.windows;
        }
        page.written.version = METASCHED_PARAVIRT_VERSION;
        Ok(page)
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a window. A reader sees all of it or nothing.
    ///
    /// # Errors
    /// `Failed` where there is no memory.
    pub fn write(&mut self, window: &Window, window_ns: u64) -> Result<()> {
        let page = &mut self.written;
        page.magic = METASCHED_PARAVIRT_MAGIC;
        page.windows = page.windows.wrapping_add(1);
        page.window_ns = window_ns;
        page.began_ns = window.began_ns;
        page.ended_ns = window.ended_ns;
        page.phantoms_milli = milli(window.phantoms);
        page.idle_cpus_milli = milli(window.idle_cpus);
        page.vcpus = window.vcpus;
        page.cpus = window.cpus;
        page.owed_cpus_milli = milli(window.owed_cpus);
        page.owing_cpus_milli = milli(window.owing_cpus);
        self.put().attempt(Kind::Failed, || format!("write the page '{}'", self.path.display()))
    }

    /// In three calls, each of which the kernel has ended before the next one begins.
    fn put(&mut self) -> io::Result<()> {
        self.written.sequence = self.written.sequence.wrapping_add(1);
        // What stands before the number changes as the first window comes, and is put back where somebody
        // else has written there.
        self.file.write_all_at(&self.written.as_bytes()[..CHANGES_AT], 0)?;
        self.file.write_all_at(&self.written.as_bytes()[CHANGES_AT..USED], CHANGES_AT as u64)?;
        self.written.sequence = self.written.sequence.wrapping_add(1);
        self.file.write_all_at(&self.written.sequence.to_le_bytes(), SEQUENCE_AT as u64)
    }

    /// Whether it is still what the machine reads: the same file, as long, and in its place.
    ///
    /// # Errors
    /// `Failed` where it was removed, replaced or cut short.
    pub fn check(&self) -> Result<()> {
        let attempt = || format!("keep the page '{}'", self.path.display());
        let lost = |cause: &str| {
            Err(Error::new(Kind::Failed, attempt(), cause)
                .remedy("end the machine before you serve it again: it has the page that is lost"))
        };
        let own = self.file.metadata().attempt(Kind::Failed, attempt)?;
        match self.is_in_place(&own) {
            Some(true) if own.len() == BYTES => Ok(()),
            Some(true) => lost("somebody has changed its length"),
            Some(false) => lost("somebody has put another file in its place"),
            None => lost("somebody has removed it"),
        }
    }

    /// Whether the file of that name is this one; none where there is no such file.
    fn is_in_place(&self, own: &Metadata) -> Option<bool> {
        let there = std::fs::symlink_metadata(&self.path).ok()?;
        Some((there.dev(), there.ino()) == (own.dev(), own.ino()))
    }

    /// Empties it, so that its readers see at once that nobody writes any more; and removes it if it
    /// was not there before. One that a machine was started with stays for the next time.
    pub fn end(mut self) {
        // What cannot be emptied stands still, and readers go by that.
        let _ = self.empty();
        let in_place = self.file.metadata().is_ok_and(|own| self.is_in_place(&own) == Some(true));
        if self.is_new && in_place {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    fn empty(&mut self) -> io::Result<()> {
        let Layout { sequence, windows, .. } = self.written;
        self.written = Layout { sequence, windows, ..Layout::default() };
        self.put()
    }
}

/// Empties the page of a machine and removes it.
///
/// # Errors
/// As [`Page::prepare`], and `BadInput` where there is none.
pub fn remove_page(path: &Path) -> Result<()> {
    let attempt = || format!("remove the page '{}'", path.display());
    let data = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Error::new(Kind::BadInput, attempt(), "there is none")
                .remedy("'metasched vms' shows which there are"));
        }
        data => data.attempt(Kind::Failed, attempt)?,
    };
    let mut page = Page::prepare(path, (data.uid(), data.gid()), data.mode() & 0o044 != 0)?;
    page.is_new = true;
    page.end();
    Ok(())
}

fn milli(cpus: f64) -> u32 {
    (cpus * 1000.0).round().clamp(0.0, f64::from(u32::MAX)) as u32
}

fn layout(file: &File) -> io::Result<Layout> {
    let mut bytes = [0; METASCHED_PARAVIRT_BYTES as usize];
    file.read_exact_at(&mut bytes[..USED], 0)?;
    Ok(Layout::read_from_bytes(&bytes).expect("it is as long"))
}

/// What stands in a page; none where nobody has written one, or it cannot be read.
pub fn read_page(path: &Path) -> Option<PageFigures> {
    // A writer is done in microseconds.
    const TRIES: u32 = 100;
    let file = opening().open(path).ok()?;
    for _ in 0..TRIES {
        let (before, page, after) = (layout(&file).ok()?, layout(&file).ok()?, layout(&file).ok()?);
        let whole = before.sequence == after.sequence && before.sequence & 1 == 0;
        if !whole {
            continue;
        }
        let known = (METASCHED_PARAVIRT_MAGIC, METASCHED_PARAVIRT_VERSION);
        return ((page.magic, page.version) == known).then_some(PageFigures {
            windows: page.windows,
            window_ns: page.window_ns,
            began_ns: page.began_ns,
            ended_ns: page.ended_ns,
            phantoms_milli: page.phantoms_milli,
            idle_cpus_milli: page.idle_cpus_milli,
            vcpus: page.vcpus,
            cpus: page.cpus,
            owed_cpus_milli: page.owed_cpus_milli,
            owing_cpus_milli: page.owing_cpus_milli,
        });
    }
    None
}

#[cfg(test)]
mod tests {
    use std::ptr;
    use std::sync::atomic::{AtomicBool, Ordering, fence};

    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

    use super::*;

    fn own() -> (u32, u32) {
        (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw())
    }

    fn prepare(path: &Path) -> Result<Page> {
        Page::prepare(path, own(), false)
    }

    /// The window of that number: all of it follows from that.
    fn window(number: u64) -> Window {
        let milli = (number % 64_000) as f64 / 1000.0;
        Window {
            began_ns: number * 1000,
            ended_ns: (number + 1) * 1000,
            phantoms: milli,
            idle_cpus: 64.0 - milli,
            owed_cpus: milli / 2.0,
            owing_cpus: milli / 4.0,
            vcpus: (number % 97) as u32,
            cpus: (number % 89) as u32,
        }
    }

    /// A page as a guest has it.
    struct Mapped(*const Layout);

    impl Mapped {
        fn of(path: &Path) -> Self {
            let file = File::open(path).unwrap();
            // SAFETY: a new mapping, of a file that is as long.
            let at = unsafe {
                mmap(ptr::null_mut(), BYTES as usize, ProtFlags::READ, MapFlags::SHARED, &file, 0)
            };
            Self(at.unwrap().cast())
        }

        /// What stands in it, if nobody wrote meanwhile.
        fn read(&self) -> Option<Layout> {
            // SAFETY: it is mapped, and plain numbers whatever is written.
            let sequence = || unsafe { ptr::read_volatile(&raw const (*self.0).sequence) };
            let before = sequence();
            fence(Ordering::SeqCst);
            // SAFETY: the same. No more than what is used: a copy of it all lasts longer than the
            // time between two windows of a writer that does not pause.
            let used = unsafe { ptr::read_volatile(self.0.cast::<[u8; USED]>()) };
            fence(Ordering::SeqCst);
            if before & 1 != 0 || sequence() != before {
                return None;
            }
            let mut whole = [0; BYTES as usize];
            whole[..USED].copy_from_slice(&used);
            Layout::read_from_bytes(&whole).ok()
        }
    }

    impl Drop for Mapped {
        fn drop(&mut self) {
            // SAFETY: it was mapped so.
            let _ = unsafe { munmap(self.0.cast_mut().cast(), BYTES as usize) };
        }
    }

    #[test]
    fn who_has_the_page_mapped_never_sees_a_part_of_a_window() {
        const READS: usize = 100_000;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        let mut page = prepare(&path).unwrap();
        page.write(&window(1), 1000).unwrap();
        let (stop, mapped) = (AtomicBool::new(false), Mapped::of(&path));
        let (mut read, mut different, mut last) = (0, 0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut number = 2;
                while !stop.load(Ordering::Relaxed) {
                    page.write(&window(number), 1000).unwrap();
                    number += 1;
                    // Else a reader with a CPU of its own would hardly ever find it at rest.
                    (0..200).for_each(|_| std::hint::spin_loop());
                }
            });
            while read < READS || different < 100 {
                let Some(seen) = mapped.read() else { continue };
                let wanted = window(seen.windows);
                let is_whole = seen.began_ns == wanted.began_ns
                    && seen.ended_ns == wanted.ended_ns
                    && seen.phantoms_milli == milli(wanted.phantoms)
                    && seen.idle_cpus_milli == milli(wanted.idle_cpus)
                    && seen.owed_cpus_milli == milli(wanted.owed_cpus)
                    && seen.owing_cpus_milli == milli(wanted.owing_cpus)
                    && (seen.vcpus, seen.cpus) == (wanted.vcpus, wanted.cpus);
                if !is_whole {
                    // Or the other thread would never end.
                    stop.store(true, Ordering::Relaxed);
                    panic!("window {}: {wanted:?}, read after {read}", seen.windows);
                }
                read += 1;
                different += usize::from(seen.windows != last);
                last = seen.windows;
            }
            stop.store(true, Ordering::Relaxed);
        });
        println!("{read} reads, {different} of another window than the one before");
    }

    #[test]
    fn a_new_page_is_private_has_one_writer_and_goes_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        let mut page = prepare(&path).unwrap();
        let data = std::fs::metadata(&path).unwrap();
        assert_eq!((data.len(), data.mode() & 0o777), (4096, 0o600));
        assert_eq!(read_page(&path), None, "nobody has written it yet");
        let busy = prepare(&path).unwrap_err();
        assert_eq!(busy.kind, Kind::Busy, "{busy}");
        page.write(&Window { phantoms: 1.2345, cpus: 2, ..window(7) }, 4_000_000).unwrap();
        let figures = read_page(&path).unwrap();
        assert_eq!((figures.windows, figures.phantoms_milli, figures.cpus), (1, 1235, 2));
        assert_eq!((figures.window_ns, figures.began_ns), (4_000_000, 7000));
        assert_eq!((figures.owed_cpus_milli, figures.owing_cpus_milli), (4, 2));
        page.check().unwrap();
        let mapped = Mapped::of(&path);
        assert_eq!(mapped.read().unwrap().magic, METASCHED_PARAVIRT_MAGIC);
        page.end();
        assert!(!path.exists());
        // Who has it mapped sees that too.
        assert_eq!(mapped.read().unwrap().magic, 0);
    }

    #[test]
    fn a_page_that_was_there_stays_and_goes_on_where_a_writer_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        let mut page = prepare(&path).unwrap();
        (1..4).for_each(|number| page.write(&window(number), 1000).unwrap());
        // In the middle of a window.
        page.file.write_all_at(&7u32.to_le_bytes(), SEQUENCE_AT as u64).unwrap();
        drop(page);
        assert_eq!(read_page(&path), None, "it is being written for ever");
        let mut page = prepare(&path).unwrap();
        page.write(&window(4), 1000).unwrap();
        assert_eq!(read_page(&path).unwrap().windows, 4);
        page.end();
        assert!(path.exists(), "a machine may have it");
        assert_eq!(read_page(&path), None);
        remove_page(&path).unwrap();
        assert!(!path.exists());
        assert_eq!(remove_page(&path).unwrap_err().kind, Kind::BadInput);
    }

    #[test]
    fn a_page_that_is_cut_removed_or_replaced_is_lost_and_nothing_worse() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        let lose = |how: &dyn Fn(), words: &str| {
            let mut page = prepare(&path).unwrap();
            page.write(&window(1), 1000).unwrap();
            how();
            page.write(&window(2), 1000).unwrap();
            let error = page.check().unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
            page.end();
        };
        let cut = || File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        lose(&cut, "changed its length");
        assert!(!path.exists());
        lose(&|| std::fs::remove_file(&path).unwrap(), "removed it");
        let replace = || {
            std::fs::write(folder.path().join("other"), "theirs").unwrap();
            std::fs::rename(folder.path().join("other"), &path).unwrap();
        };
        lose(&replace, "another file in its place");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "theirs");
    }

    #[test]
    fn what_a_guest_writes_into_its_page_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        let mut page = prepare(&path).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        for seed in 0..200u64 {
            let rubbish: Vec<u8> =
                (0..BYTES).map(|at| (seed.wrapping_mul(0x9e37_79b9) >> (at % 31)) as u8).collect();
            file.write_all_at(&rubbish, 0).unwrap();
            page.write(&window(seed), 1000).unwrap();
            let figures = read_page(&path).unwrap();
            assert_eq!((figures.windows, figures.began_ns), (seed + 1, seed * 1000));
        }
        page.check().unwrap();
    }

    #[test]
    fn what_is_no_page_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = (folder.path().join("page"), folder.path().join("target"));
        std::fs::write(&target, "precious").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(prepare(&path).is_err());
        std::fs::remove_file(&path).unwrap();
        std::fs::hard_link(&target, &path).unwrap();
        let error = prepare(&path).unwrap_err();
        assert!(error.to_string().contains("another name"), "{error}");
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "precious");
        assert!(prepare(folder.path()).is_err());
        std::fs::remove_file(&path).unwrap();
        // A user may name any file, to be written or to be removed.
        for refused in [prepare(&target).map(drop), remove_page(&target)] {
            let error = refused.unwrap_err();
            assert!(error.to_string().contains("has 8 bytes, and a page 4096"), "{error}");
        }
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "precious");
    }

    #[test]
    fn a_page_of_another_user_is_left_to_that_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        drop(prepare(&path).unwrap());
        let (uid, gid) = own();
        let other = (uid + 1, gid);
        let error = Page::prepare(&path, other, false).unwrap_err();
        assert!(error.to_string().contains(&format!("no file of user {}", uid + 1)), "{error}");
        assert_eq!(std::fs::metadata(&path).unwrap().uid(), uid);
        // Only root can give it away.
        if uid == 0 {
            drop(Page::attach(&path, other).unwrap());
            assert_eq!(std::fs::metadata(&path).unwrap().uid(), other.0);
            assert!(Page::prepare(&path, other, false).is_ok());
            assert!(Page::attach(&path, (other.0 + 1, gid)).is_err());
        }
    }

    #[test]
    fn a_page_has_the_name_of_its_machine_if_a_file_can() {
        let path = page_path("web-1.scope").unwrap();
        assert_eq!(path, Path::new("/dev/shm/metasched-paravirt-web-1.scope"));
        let path = page_path(r"cgroup:machine.slice:machine-qemu\x2d1\x2dweb.scope").unwrap();
        assert!(
            path.ends_with(
                r"metasched-paravirt-cgroup:machine.slice:machine-qemu\x2d1\x2dweb.scope"
            )
        );
        for name in ["", "a/b", "../x", "a b", &"n".repeat(201)] {
            let error = page_path(name).unwrap_err();
            assert_eq!(error.kind, Kind::BadInput);
            assert!(error.to_string().contains("--page"), "{error}");
        }
    }

    #[test]
    fn a_page_is_kept_in_memory_only() {
        on_memory(&Path::new(PAGES).join("page")).unwrap();
        let error = on_memory(Path::new("/proc/page")).unwrap_err();
        assert!(error.to_string().contains("not on a file system in memory"), "{error}");
    }
}

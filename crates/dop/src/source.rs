//! The bytes of the page: a file that the host's daemon writes, or the memory of a PCI device.
//!
//! Whatever happens to either while it is read, the program must not end by it.

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};

use crate::page::{Alone, PAGE_BYTES, Page};

/// Where the page is.
pub(crate) struct Source {
    path: PathBuf,
    /// Whether it may be anybody's.
    trusted: bool,
    /// A device's memory stays mapped.
    mapping: Option<Mapping>,
}

impl Source {
    pub fn new(path: &Path, trusted: bool) -> Source {
        Source { path: path.to_path_buf(), trusted, mapping: None }
    }

    /// Reads the page.
    ///
    /// A file is opened for each look, a thousand times a second at most, and read by system calls,
    /// so that one that gets shorter is an error and no SIGBUS. So also one that was removed is
    /// missed at once, its successor is found, programs that close all descriptors and then
    /// open others do not have us read those, and a fork has nothing to map anew.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or as [`Page::from_bytes`].
    pub fn read(&mut self) -> Result<Page, Alone> {
        if self.mapping.is_none() {
            let file = self.open()?;
            if !is_in_sysfs(&file)? {
                return Page::read(|offset, to| {
                    file.read_exact_at(to, offset as u64).map_err(|e| unreadable(&e))
                });
            }
            self.mapping = Some(Mapping::new(&file)?);
        }
        let Some(mapping) = &self.mapping else { return Err(Alone::NoFile) };
        let read = Page::read(|offset, to| mapping.copy(offset, to));
        if matches!(read, Err(Alone::Unreadable(_))) {
            self.mapping = None;
        }
        read
    }

    fn open(&self) -> Result<File, Alone> {
        // Where it is a pipe or a terminal nothing waits for it.
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let open = OpenOptions::new().read(true).custom_flags(flags).open(&self.path);
        let file = open.map_err(|e| unreadable(&e))?;
        let data = file.metadata().map_err(|e| unreadable(&e))?;
        // SAFETY: it takes nothing and cannot fail.
        let us = unsafe { libc::geteuid() };
        if !data.is_file() {
            Err(Alone::NoFile)
        } else if !self.trusted && ![0, us].contains(&data.uid()) {
            Err(Alone::OfAnother)
        } else if data.len() < PAGE_BYTES as u64 {
            Err(Alone::Short)
        } else {
            Ok(file)
        }
    }
}

fn unreadable(error: &io::Error) -> Alone {
    error.raw_os_error().map_or(Alone::Short, Alone::Unreadable)
}

fn last_error() -> Alone {
    unreadable(&io::Error::last_os_error())
}

/// Whether it is a device's memory, as `/sys/bus/pci/devices/*/resource2`: the kernel lets that be
/// mapped and not be read.
fn is_in_sysfs(file: &File) -> Result<bool, Alone> {
    // SAFETY: all numbers may be zero.
    let mut data: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, and `data` is ours for the call.
    if unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut data) } != 0 {
        return Err(last_error());
    }
    Ok(data.f_type == libc::SYSFS_MAGIC)
}

/// A page in our memory. It may go away: the device is unplugged, a file is made shorter.
struct Mapping(NonNull<c_void>);

// SAFETY: it is memory of the process, which nobody writes here and `&mut` alone unmaps.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(file: &File) -> Result<Mapping, Alone> {
        // SAFETY: the kernel chooses where, and so nothing else is replaced.
        let at = unsafe {
            libc::mmap(
                ptr::null_mut(),
                PAGE_BYTES,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(last_error());
        }
        NonNull::new(at).map(Mapping).ok_or(Alone::NoFile)
    }

    /// Fills `to` with what begins at the byte `offset`, which must be within the page.
    ///
    /// The kernel copies, from this process to itself. So a page that is gone is an error, where a
    /// load would end the program by SIGBUS.
    fn copy(&self, offset: usize, to: &mut [u8]) -> Result<(), Alone> {
        debug_assert!(offset + to.len() <= PAGE_BYTES);
        let from =
            libc::iovec { iov_base: self.0.as_ptr().wrapping_byte_add(offset), iov_len: to.len() };
        let into = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
        // SAFETY: the kernel checks both ranges, and writes to `to` only, which is ours for the
        // call.
        let copied = unsafe {
            libc::process_vm_writev(libc::getpid(), &raw const from, 1, &raw const into, 1, 0)
        };
        match usize::try_from(copied) {
            Ok(copied) if copied == to.len() => Ok(()),
            Ok(_) => Err(Alone::Unreadable(libc::EFAULT)),
            Err(_) => Err(last_error()),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nobody else knows of it.
        unsafe { libc::munmap(self.0.as_ptr(), PAGE_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::{a_page, bytes_of};
    use std::fs;
    use tempfile::TempDir;

    fn folder_with_page() -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        let mut page = vec![0; PAGE_BYTES];
        let head = bytes_of(&a_page());
        page[..head.len()].copy_from_slice(&head);
        fs::write(&path, page).unwrap();
        (folder, path)
    }

    #[test]
    fn a_page_that_gets_shorter_or_goes_is_an_error() {
        let (_folder, path) = folder_with_page();
        let mut source = Source::new(&path, true);
        assert_eq!(source.read(), Ok(a_page()));
        OpenOptions::new().write(true).open(&path).unwrap().set_len(20).unwrap();
        assert_eq!(source.read(), Err(Alone::Short));
        fs::remove_file(&path).unwrap();
        assert_eq!(source.read(), Err(Alone::Unreadable(libc::ENOENT)));
    }

    #[test]
    fn a_file_that_gets_shorter_between_two_reads_is_an_error() {
        let (_folder, path) = folder_with_page();
        let file = File::open(&path).unwrap();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(20).unwrap();
        let read = Page::read(|offset, to| {
            file.read_exact_at(to, offset as u64).map_err(|e| unreadable(&e))
        });
        assert_eq!(read, Err(Alone::Short));
    }

    #[test]
    fn a_mapped_page_that_goes_is_an_error() {
        let (_folder, path) = folder_with_page();
        let mapping = Mapping::new(&File::open(&path).unwrap()).unwrap();
        assert_eq!(Page::read(|offset, to| mapping.copy(offset, to)), Ok(a_page()));
        OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
        let read = Page::read(|offset, to| mapping.copy(offset, to));
        assert_eq!(read, Err(Alone::Unreadable(libc::EFAULT)));
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
        // SAFETY: the name ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert_eq!(Source::new(&pipe, true).read(), Err(Alone::NoFile));
        assert_eq!(Source::new(folder.path(), true).read(), Err(Alone::NoFile));
    }

    #[test]
    fn a_page_that_nobody_named_must_be_ones_own_or_roots() {
        let (_folder, path) = folder_with_page();
        assert_eq!(Source::new(&path, false).read(), Ok(a_page()));
        // Only root can give it away.
        if std::os::unix::fs::chown(&path, Some(12_345), None).is_ok() {
            assert_eq!(Source::new(&path, false).read(), Err(Alone::OfAnother));
            assert_eq!(Source::new(&path, true).read(), Ok(a_page()));
        }
    }

    #[test]
    fn what_is_in_sysfs_is_told_apart() {
        let (_folder, path) = folder_with_page();
        assert_eq!(is_in_sysfs(&File::open(&path).unwrap()), Ok(false));
        assert_eq!(is_in_sysfs(&File::open("/sys/kernel").unwrap()), Ok(true));
    }
}

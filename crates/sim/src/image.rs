//! A private copy of natively compiled C: its own globals, its own address.
//!
//! BPF globals become plain C globals, and a process runs many simulated kernels
//! at once. So each of them loads its own copy of the shared object, from an
//! anonymous file: the loader tells objects apart by path and inode, so every copy
//! gets fresh `.data` and `.bss`, and nothing has to be reset or locked.

use crate::abi::{LAYOUT, Ops};
use crate::trap::{Watched, watch};
use libc::{dladdr, dlclose, dlerror, dlopen, dlsym, memfd_create, mprotect, sysconf};
use metasched_base::{Error, Kind, Result};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_void};
use std::fs::File;

/// The bytes of level 1 with every policy of `policies.def`.
pub fn metasched() -> &'static [u8] {
    include_bytes!(concat!(env!("OUT_DIR"), "/libmetasched-native.so"))
}

/// The bytes of level 1 with every policy, and after those the ones that are for tests.
pub fn faulty() -> &'static [u8] {
    include_bytes!(concat!(env!("OUT_DIR"), "/faulty/libfaulty-native.so"))
}

/// The signature through which every callback is called; see `seam_call()`.
pub type Trampoline = unsafe extern "C" fn(*const c_void, u64, u64, u64, u64) -> u64;

/// One loaded copy.
pub struct Image {
    handle: *mut c_void,
    /// Kept open: the path by which the loader knows this copy holds the number of
    /// its descriptor, and must not become another copy's.
    _file: File,
    /// Calls a function of the image so that a fault in it comes back here.
    pub trampoline: Trampoline,
    /// Where symbols are that were looked for: some are with every event of a timer.
    found: RefCell<FxHashMap<Box<str>, *mut c_void>>,
    /// Goes before the code does.
    watched: Option<Watched>,
}

impl Image {
    /// Loads a fresh copy.
    ///
    /// # Errors
    /// When the loader refuses it, or its structs differ from the engine's.
    pub fn open(bytes: &[u8]) -> Result<Image> {
        use std::io::Write;
        use std::os::fd::{AsRawFd, FromRawFd};

        let failed = |cause: String| Error::new(Kind::Failed, "load native policies", cause);
        // SAFETY: the name ends with a zero, and the call only reads it.
        let fd = unsafe { memfd_create(c"metasched-native".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(failed(std::io::Error::last_os_error().to_string()));
        }
        // SAFETY: the descriptor is new, and nobody else's.
        let mut file = unsafe { File::from_raw_fd(fd) };
        file.write_all(bytes).map_err(|e| failed(e.to_string()))?;
        let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("no zero");
        // SAFETY: the path ends with a zero. The object was compiled from this repository's C,
        // which has nothing that runs as it is loaded.
        let handle = unsafe { dlopen(path.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            // SAFETY: dlopen() has just failed on this thread, so there is a text, which ends with
            // a zero and stays until the next such call here.
            let why = unsafe { CStr::from_ptr(dlerror()) };
            return Err(failed(why.to_string_lossy().into_owned()));
        }
        let mut image = Image {
            handle,
            _file: file,
            trampoline: unconnected,
            found: RefCell::default(),
            watched: None,
        };
        let call = image.required("seam_call")?;
        // SAFETY: seam.c declares it so.
        image.trampoline = unsafe { std::mem::transmute::<*mut c_void, Trampoline>(call) };
        image.check_layout()?;
        let trap = image.required("seam_trap")?;
        // SAFETY: seam.c declares it as `Trap` mirrors it. drop() ends the watch before the image.
        image.watched = Some(unsafe { watch(trap.cast()) });
        Ok(image)
    }

    fn check_layout(&self) -> Result<()> {
        let theirs = self.required("seam_layout")?.cast::<u64>();
        // SAFETY: in C it has an entry for each of LAYOUT, and a zero behind them.
        let theirs: Vec<usize> =
            (0..=LAYOUT.len()).map(|i| unsafe { *theirs.add(i) } as usize).collect();
        if theirs[..LAYOUT.len()] == LAYOUT && theirs[LAYOUT.len()] == 0 {
            return Ok(());
        }
        Err(Error::new(
            Kind::Failed,
            "load native policies",
            format!("struct layouts differ: C has {theirs:?}, the engine {LAYOUT:?}"),
        )
        .remedy("bring src/abi.rs in line with seam/vmlinux.h"))
    }

    /// The address of a symbol, if the image has it.
    pub fn symbol(&self, name: &str) -> Option<*mut c_void> {
        if let Some(address) = self.found.borrow().get(name) {
            return Some(*address);
        }
        let text = CString::new(name).ok()?;
        // SAFETY: the object is open until drop(), and the name ends with a zero.
        let address = unsafe { dlsym(self.handle, text.as_ptr()) };
        if address.is_null() {
            return None;
        }
        self.found.borrow_mut().insert(name.into(), address);
        Some(address)
    }

    /// The address of a symbol that must be there.
    ///
    /// # Errors
    /// When the image lacks it.
    pub fn required(&self, name: &str) -> Result<*mut c_void> {
        self.symbol(name).ok_or_else(|| {
            Error::new(Kind::BadInput, format!("find '{name}'"), "the C code does not define it")
        })
    }

    /// What the global is called that is at that address; its number where it has no name.
    pub(crate) fn name_of(&self, address: usize) -> String {
        // SAFETY: it is of pointers and numbers, and zeros are such.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: the call looks an address up without following it, and writes to `info` alone.
        let known = unsafe { dladdr(address as *const c_void, &mut info) } != 0;
        if !known || info.dli_sname.is_null() || info.dli_saddr as usize != address {
            return format!("{address:#x}");
        }
        // SAFETY: the name is there, ends with a zero, and stays as long as the object that has it.
        unsafe { CStr::from_ptr(info.dli_sname) }.to_string_lossy().into_owned()
    }

    /// The table of callbacks of that name.
    ///
    /// # Errors
    /// When the image lacks it.
    pub fn ops(&self, name: &str) -> Result<*const Ops> {
        Ok(self.required(name)?.cast_const().cast())
    }

    /// Writes a global before anything runs, as the loader writes `.rodata`
    /// before it loads the program.
    ///
    /// # Errors
    /// When the image lacks it.
    ///
    /// # Safety
    /// The global must have the type `T`.
    pub unsafe fn set<T: Copy>(&self, name: &str, value: T) -> Result<()> {
        let at = self.required(name)?;
        // SAFETY: the call takes a number.
        let page = unsafe { sysconf(libc::_SC_PAGESIZE) } as usize;
        let start = at as usize & !(page - 1);
        let length = at as usize + size_of::<T>() - start;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the pages are those on which a global of the image lies, and stay readable. Code
        // that shared one would trap, and not run as something else.
        if unsafe { mprotect(start as *mut c_void, length, access) } != 0 {
            let why = std::io::Error::last_os_error();
            return Err(Error::new(Kind::Failed, format!("write the constant '{name}'"), why));
        }
        // SAFETY: the caller says that it is a `T`, and by now it can be written to. Nothing of the
        // image runs.
        unsafe { at.cast::<T>().write(value) };
        Ok(())
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        self.watched = None;
        // SAFETY: the handle is dlopen()'s, and closed once. Whoever lets the image go calls
        // nothing of it any more.
        unsafe { dlclose(self.handle) };
    }
}

unsafe extern "C" fn unconnected(_: *const c_void, _: u64, _: u64, _: u64, _: u64) -> u64 {
    unreachable!("replaced before open() returns")
}

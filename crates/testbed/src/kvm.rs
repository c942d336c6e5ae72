//! Whether KVM works here, found out by running one instruction with it.
//!
//! A `/dev/kvm` says little: in containers it may not be ours to open, and on
//! some virtual machines it opens and makes virtual machines that never run.
//! The interface is described in the kernel's `Documentation/virt/kvm/api.rst`.

use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

use nix::errno::Errno;
use nix::libc;

const KVM_GET_API_VERSION: libc::c_ulong = 0xAE00;
const KVM_CREATE_VM: libc::c_ulong = 0xAE01;
const KVM_GET_VCPU_MMAP_SIZE: libc::c_ulong = 0xAE04;
const KVM_CREATE_VCPU: libc::c_ulong = 0xAE41;
const KVM_RUN: libc::c_ulong = 0xAE80;
const KVM_SET_USER_MEMORY_REGION: libc::c_ulong = 0x4020_AE46;
const KVM_SET_REGS: libc::c_ulong = 0x4090_AE82;
const KVM_GET_SREGS: libc::c_ulong = 0x8138_AE83;
const KVM_SET_SREGS: libc::c_ulong = 0x4138_AE84;

/// The only version of the interface since 2007.
const API_VERSION: i32 = 12;
const KVM_EXIT_HLT: u32 = 5;
const PAGE: usize = 4096;
/// `hlt`.
const CODE: u8 = 0xF4;
/// A real-mode address away from zero.
const CODE_AT: u64 = 0x1000;

/// `Ok` if KVM ran an instruction, else why it could not.
pub fn works(device: &Path) -> Result<(), String> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(device)
        .map_err(|e| format!("{}: {e}", device.display()))?;
    let version = ioctl(file.as_raw_fd(), KVM_GET_API_VERSION, 0, "ask for KVM's version")?;
    if version != API_VERSION {
        return Err(format!("KVM's interface is version {version}, not {API_VERSION}"));
    }
    let vm = own(ioctl(file.as_raw_fd(), KVM_CREATE_VM, 0, "make a virtual machine")?);
    let size = ioctl(file.as_raw_fd(), KVM_GET_VCPU_MMAP_SIZE, 0, "ask for the CPU's size")?;
    let memory = Mapping::new(PAGE, libc::MAP_ANONYMOUS | libc::MAP_SHARED, -1)?;
    // SAFETY: the mapping is a page long and writable.
    unsafe { *memory.address.cast::<u8>() = CODE };
    // struct kvm_userspace_memory_region: slot and flags, then three 64-bit fields.
    let region: [u64; 4] = [0, CODE_AT, PAGE as u64, memory.address as u64];
    let set = |fd, request, data: *const u8, what| ioctl(fd, request, data as usize, what);
    set(
        vm.as_raw_fd(),
        KVM_SET_USER_MEMORY_REGION,
        region.as_ptr().cast(),
        "give the virtual machine memory",
    )?;
    let vcpu = own(ioctl(vm.as_raw_fd(), KVM_CREATE_VCPU, 0, "make a virtual CPU")?);
    let run = Mapping::new(size as usize, libc::MAP_SHARED, vcpu.as_raw_fd())?;

    // struct kvm_sregs: cs comes first, its base is the first field, its selector at 12.
    let mut sregs = [0u64; 312 / 8];
    let sregs_at = sregs.as_mut_ptr() as usize;
    ioctl(vcpu.as_raw_fd(), KVM_GET_SREGS, sregs_at, "read the CPU's state")?;
    sregs[0] = 0;
    sregs[1] &= 0xFFFF_0000_FFFF_FFFF;
    set(vcpu.as_raw_fd(), KVM_SET_SREGS, sregs.as_ptr().cast(), "set the CPU's state")?;
    // struct kvm_regs: 16 registers, then rip and rflags, whose bit 1 is always set.
    let mut regs = [0u64; 18];
    regs[16] = CODE_AT;
    regs[17] = 2;
    set(vcpu.as_raw_fd(), KVM_SET_REGS, regs.as_ptr().cast(), "set the CPU's registers")?;
    ioctl(vcpu.as_raw_fd(), KVM_RUN, 0, "run an instruction")?;
    // struct kvm_run: the reason for the exit stands at 8.
    // SAFETY: the mapping is far longer than that, and KVM does not run now.
    let reason = unsafe { run.address.cast::<u32>().add(2).read_volatile() };
    if reason != KVM_EXIT_HLT {
        return Err(format!("a virtual CPU stopped for reason {reason} instead of a hlt"));
    }
    Ok(())
}

fn ioctl(fd: RawFd, request: libc::c_ulong, argument: usize, what: &str) -> Result<i32, String> {
    // SAFETY: every caller passes 0 or the address of a structure of the request's size.
    let status = unsafe { libc::ioctl(fd, request as _, argument) };
    Errno::result(status).map_err(|e| format!("cannot {what}: {}", e.desc()))
}

fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: the kernel has just made it for us.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Memory that is unmapped when it is no longer used.
struct Mapping {
    address: *mut libc::c_void,
    length: usize,
}

impl Mapping {
    fn new(length: usize, flags: i32, fd: RawFd) -> Result<Self, String> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at a place of the kernel's choice touches nothing of ours.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, fd, 0) };
        if address == libc::MAP_FAILED {
            return Err(format!("cannot map memory: {}", Errno::last().desc()));
        }
        Ok(Self { address, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with that length, and nobody else holds it.
        unsafe { libc::munmap(self.address, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_kvm_is_not_taken_for_it() {
        assert!(works(Path::new("/nonexistent")).unwrap_err().contains("No such file"));
        assert!(works(Path::new("/dev/null")).unwrap_err().contains("ask for KVM's version"));
    }
}

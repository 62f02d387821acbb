//! System calls that no dependency offers in a safe form, each behind a safe function.
//!
//! The only file of the confinement with unsafe code. It decides nothing.

use std::ffi::{CString, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `CLONE_NEW…`: the namespaces of mounts, cgroups, host names, IPC, users, processes, and the network.
pub(super) const NEW_MOUNTS: c_int = 0x0002_0000;
pub(super) const NEW_CGROUPS: c_int = 0x0200_0000;
pub(super) const NEW_HOST_NAME: c_int = 0x0400_0000;
pub(super) const NEW_IPC: c_int = 0x0800_0000;
pub(super) const NEW_USERS: c_int = 0x1000_0000;
pub(super) const NEW_PROCESSES: c_int = 0x2000_0000;
pub(super) const NEW_NETWORK: c_int = 0x4000_0000;

/// `MOUNT_ATTR_…`: attributes of a mount.
pub(super) const READ_ONLY: u64 = 0x1;
pub(super) const NO_SET_ID: u64 = 0x2;
pub(super) const NO_DEVICES: u64 = 0x4;
pub(super) const NO_PROGRAMS: u64 = 0x8;

/// `MS_…`: the same for a new mount, and how it spreads.
const MS_NOSUID: c_ulong = 0x2;
const MS_NODEV: c_ulong = 0x4;
const MS_REC: c_ulong = 0x4000;
const MS_PRIVATE: c_ulong = 0x4_0000;

/// Calls with the same number on every architecture.
const SYS_OPEN_TREE: c_long = 428;
const SYS_MOVE_MOUNT: c_long = 429;
const SYS_CLOSE_RANGE: c_long = 436;
const SYS_MOUNT_SETATTR: c_long = 442;

#[cfg(target_arch = "x86_64")]
const SYS_CAPSET: Option<c_long> = Some(126);
#[cfg(target_arch = "aarch64")]
const SYS_CAPSET: Option<c_long> = Some(91);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const SYS_CAPSET: Option<c_long> = None;

/// `_LINUX_CAPABILITY_VERSION_3`, with two sets of 32 bits each.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

const AT_FDCWD: c_int = -100;
const AT_EMPTY_PATH: c_uint = 0x1000;
const AT_RECURSIVE: c_uint = 0x8000;
const OPEN_TREE_CLONE: c_uint = 1;
const O_CLOEXEC: c_uint = 0o2_000_000;
const MOVE_MOUNT_F_EMPTY_PATH: c_uint = 0x4;
const MNT_DETACH: c_int = 2;
const CLOSE_RANGE_CLOEXEC: c_uint = 4;

/// The first descriptor that is not a standard one.
const FIRST_EXTRA: c_uint = 3;

#[expect(unsafe_code, reason = "the C library, declared as in its manual")]
unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn prctl(option: c_int, ...) -> c_int;
    fn unshare(flags: c_int) -> c_int;
    fn mount(
        source: *const c_char,
        target: *const c_char,
        kind: *const c_char,
        flags: c_ulong,
        data: *const c_void,
    ) -> c_int;
    fn umount2(target: *const c_char, flags: c_int) -> c_int;
}

/// Moves this process, which must have one thread, into new namespaces.
#[expect(unsafe_code, reason = "rustix offers it under a feature that is off")]
pub(super) fn enter_namespaces(flags: c_int) -> io::Result<()> {
    // SAFETY: takes a number. No descriptor table is unshared, which is what could break other code of this process.
    checked(unsafe { unshare(flags) }.into()).map(drop)
}

/// Keeps mounts of this namespace from spreading to the one it came from.
pub(super) fn keep_mounts_private() -> io::Result<()> {
    mount_with("none", Path::new("/"), MS_REC | MS_PRIVATE, "")
}

/// Mounts a file system in memory, with the options of `tmpfs(5)`.
pub(super) fn mount_memory(at: &Path, options: &str) -> io::Result<()> {
    mount_with("tmpfs", at, MS_NOSUID | MS_NODEV, options)
}

/// Mounts the processes of this namespace.
pub(super) fn mount_processes(at: &Path) -> io::Result<()> {
    mount_with("proc", at, MS_NOSUID | MS_NODEV, "")
}

/// Unmounts a tree with all mounts below it, as soon as it is unused.
#[expect(unsafe_code, reason = "rustix offers it under a feature that is off")]
pub(super) fn detach(at: &Path) -> io::Result<()> {
    let at = c_string(at.as_os_str().as_bytes())?;
    // SAFETY: the string lives through the call, which does not keep it.
    checked(unsafe { umount2(at.as_ptr(), MNT_DETACH) }.into()).map(drop)
}

/// A copy of what is at this path, with everything mounted below it, that is mounted nowhere yet.
#[expect(unsafe_code, reason = "rustix offers it under a feature that is off")]
pub(super) fn copy_tree(path: &Path) -> io::Result<OwnedFd> {
    let path = c_string(path.as_os_str().as_bytes())?;
    let flags = OPEN_TREE_CLONE | AT_RECURSIVE | O_CLOEXEC;
    // SAFETY: the string lives through the call, which does not keep it.
    let fd = checked(unsafe { syscall(SYS_OPEN_TREE, AT_FDCWD, path.as_ptr(), flags) })?;
    let fd = RawFd::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just opened this descriptor for us, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Adds attributes to a tree of mounts; to all of it when `with_below`.
#[expect(unsafe_code, reason = "rustix does not have it")]
pub(super) fn add_attributes(tree: &OwnedFd, attributes: u64, with_below: bool) -> io::Result<()> {
    #[repr(C)]
    struct MountAttr {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }
    let asked = MountAttr {
        set: attributes,
        clear: 0,
        propagation: 0,
        user_namespace: 0,
    };
    let flags = AT_EMPTY_PATH | if with_below { AT_RECURSIVE } else { 0 };
    // SAFETY: the structure is the kernel's `mount_attr`, lives through the call, and its size goes with it.
    checked(unsafe {
        syscall(
            SYS_MOUNT_SETATTR,
            tree.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const asked,
            size_of::<MountAttr>(),
        )
    })
    .map(drop)
}

#[expect(unsafe_code, reason = "rustix offers it under a feature that is off")]
pub(super) fn attach(tree: &OwnedFd, at: &Path) -> io::Result<()> {
    let at = c_string(at.as_os_str().as_bytes())?;
    // SAFETY: both strings live through the call, which does not keep them.
    checked(unsafe {
        syscall(
            SYS_MOVE_MOUNT,
            tree.as_raw_fd(),
            c"".as_ptr(),
            AT_FDCWD,
            at.as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH,
        )
    })
    .map(drop)
}

/// Marks every descriptor but the standard ones as not to be handed on to other programs.
#[expect(unsafe_code, reason = "the dependencies that are there do not have it")]
pub(super) fn keep_descriptors() -> io::Result<()> {
    let last = c_uint::MAX;
    // SAFETY: takes numbers, and closes nothing in this process.
    checked(unsafe { syscall(SYS_CLOSE_RANGE, FIRST_EXTRA, last, CLOSE_RANGE_CLOEXEC) }).map(drop)
}

/// `prctl` with options that take one number.
pub(super) fn ask_of_process(option: c_int, argument: c_ulong) -> io::Result<()> {
    prctl_with(option, argument, 0)
}

#[expect(unsafe_code, reason = "the dependencies that are there do not have it")]
fn prctl_with(option: c_int, first: c_ulong, second: c_ulong) -> io::Result<()> {
    let none: c_ulong = 0;
    // SAFETY: used for options that take numbers only and change nothing but this thread's own rights.
    checked(unsafe { prctl(option, first, second, none, none) }.into()).map(drop)
}

/// Gives up all capabilities of this thread but these, none of which is inherited.
pub(super) fn keep_capabilities(capabilities: &[c_ulong]) -> io::Result<()> {
    set_capabilities(set_of(capabilities), 0)
}

/// Gives up all capabilities but these, and hands them on to what is started, also by who is not root in this namespace.
pub(super) fn hand_on_capabilities(capabilities: &[c_ulong]) -> io::Result<()> {
    let set = set_of(capabilities);
    set_capabilities(set, set)?;
    for capability in capabilities {
        prctl_with(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, *capability)?;
    }
    Ok(())
}

/// `PR_CAP_AMBIENT` with `PR_CAP_AMBIENT_RAISE`.
const PR_CAP_AMBIENT: c_int = 47;
const PR_CAP_AMBIENT_RAISE: c_ulong = 2;

fn set_of(capabilities: &[c_ulong]) -> u32 {
    capabilities.iter().fold(0, |set, one| set | 1 << one)
}

/// Sets the effective and permitted capabilities of this thread, and those that are inherited; all below 32.
#[expect(unsafe_code, reason = "rustix offers it under a feature that is off")]
fn set_capabilities(set: u32, inherited: u32) -> io::Result<()> {
    let Some(number) = SYS_CAPSET else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let header = [CAPABILITY_VERSION, 0];
    // The same three for the lower and the upper half.
    let sets = [set, set, inherited, 0, 0, 0];
    // SAFETY: both arrays have the size that this version says, and live through the call.
    checked(unsafe { syscall(number, header.as_ptr(), sets.as_ptr()) }).map(drop)
}

#[expect(unsafe_code, reason = "rustix offers it under a feature that is off")]
fn mount_with(kind: &str, at: &Path, flags: c_ulong, options: &str) -> io::Result<()> {
    let at = c_string(at.as_os_str().as_bytes())?;
    let kind = c_string(kind.as_bytes())?;
    let options = c_string(options.as_bytes())?;
    // A file system that is on no disk has its kind for its source.
    let source = kind.as_ptr();
    let data = options.as_ptr().cast();
    // SAFETY: the strings live through the call, which does not keep them; the file systems that are mounted here take
    // their options as a string.
    checked(unsafe { mount(source, at.as_ptr(), kind.as_ptr(), flags, data) }.into()).map(drop)
}

fn c_string(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(io::Error::other)
}

fn checked(result: c_long) -> io::Result<c_long> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

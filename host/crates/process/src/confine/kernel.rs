//! Wraps system calls for which rustix has no safe function in safe functions.
//!
//! This is the only file of the confinement with unsafe code. It makes no policy decisions, and it
//! must not depend on the program that is confined.

use std::ffi::{CString, c_int, c_long, c_uint};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::mount::MountAttrFlags;
use rustix::process::Signal;
use rustix::thread::UnshareFlags;

/// Numbers of system calls, equal on x86_64 and aarch64.
const SYS_CLOSE_RANGE: c_long = 436;
const SYS_MOUNT_SETATTR: c_long = 442;
const SYS_LANDLOCK_CREATE_RULESET: c_long = 444;

const AT_EMPTY_PATH: c_uint = 0x1000;
const AT_RECURSIVE: c_uint = 0x8000;
const CLOSE_RANGE_CLOEXEC: c_uint = 4;
const LANDLOCK_CREATE_RULESET_VERSION: c_uint = 1;

/// First descriptor after standard input, output and error.
const FIRST_NON_STDIO_DESCRIPTOR: c_uint = 3;

#[expect(unsafe_code, reason = "the C library, declared as in its manual")]
unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn kill(process: c_int, signal: c_int) -> c_int;
}

/// Kills every other process to which this process may send signals. The kernel holds the lock that
/// `fork` needs meanwhile, so no process can escape by forking.
///
/// Call this only in a signal domain (Landlock) that contains only this process and its
/// descendants. Otherwise the call would kill every process of the user.
#[expect(unsafe_code, reason = "rustix does not have it")]
pub(super) fn kill_all_signalable_processes() {
    // SAFETY: the call passes only numbers.
    let _ = unsafe { kill(-1, Signal::KILL.as_raw()) };
}

/// Moves this process, which must be single-threaded, into new namespaces.
#[expect(unsafe_code, reason = "not every flag is safe")]
pub(super) fn enter_namespaces(flags: UnshareFlags) -> io::Result<()> {
    // `UnshareFlags::FILES` separates the descriptor table. It is the only flag that can break
    // other code of this process.
    let flags = flags.difference(UnshareFlags::FILES);
    // SAFETY: the flags do not contain `FILES`, the only flag that can break other code.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// Adds attributes to the mount `tree` and, if `with_below`, also to all mounts below it.
#[expect(unsafe_code, reason = "rustix does not have it")]
pub(super) fn add_mount_attributes(
    tree: &OwnedFd,
    attributes: MountAttrFlags,
    with_below: bool,
) -> io::Result<()> {
    #[repr(C)]
    struct MountAttr {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }
    let asked = MountAttr {
        set: attributes.bits().into(),
        clear: 0,
        propagation: 0,
        user_namespace: 0,
    };
    let flags = AT_EMPTY_PATH | if with_below { AT_RECURSIVE } else { 0 };
    // SAFETY: the struct has the layout of the kernel's `mount_attr`, lives through the call, and
    // its size is passed along.
    check_syscall_result(unsafe {
        syscall(
            SYS_MOUNT_SETATTR,
            tree.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const asked,
            size_of::<MountAttr>(),
        )
    })
}

/// Checks that the kernel supports Landlock. The error code distinguishes missing support from
/// other failures.
#[expect(unsafe_code, reason = "rustix does not have it")]
pub(super) fn check_landlock_support() -> io::Result<()> {
    let no_rules = std::ptr::null::<u8>();
    let flags = LANDLOCK_CREATE_RULESET_VERSION;
    // SAFETY: with this flag the kernel reads no memory and creates nothing.
    check_syscall_result(unsafe { syscall(SYS_LANDLOCK_CREATE_RULESET, no_rules, 0_usize, flags) })
}

/// Sets close-on-exec on every file descriptor except the three standard ones.
#[expect(unsafe_code, reason = "rustix does not have it")]
pub(super) fn set_close_on_exec_on_all_fds() -> io::Result<()> {
    let last = c_uint::MAX;
    // SAFETY: the call passes only numbers, and closes no descriptor of this process.
    check_syscall_result(unsafe {
        syscall(
            SYS_CLOSE_RANGE,
            FIRST_NON_STDIO_DESCRIPTOR,
            last,
            CLOSE_RANGE_CLOEXEC,
        )
    })
}

/// Enables the loopback interface in the network namespace of this process.
#[expect(unsafe_code, reason = "rustix does not have it")]
pub(super) fn enable_loopback() -> io::Result<()> {
    const SIOCSIFFLAGS: Opcode = 0x8914;
    /// Flags `IFF_UP` and `IFF_RUNNING` of a network interface.
    const INTERFACE_UP_AND_RUNNING_FLAGS: i16 = 0x41;
    /// The kernel's `ifreq`: a name, and a union of 24 bytes that starts with the flags.
    #[repr(C)]
    struct NetworkInterfaceRequest {
        name: [u8; 16],
        flags: i16,
        rest: [u8; 22],
    }
    let mut name = [0; 16];
    name[..2].copy_from_slice(b"lo");
    let mut request = NetworkInterfaceRequest {
        name,
        flags: INTERFACE_UP_AND_RUNNING_FLAGS,
        rest: [0; 22],
    };
    // Any socket in the namespace can be used for this request.
    let socket = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // SAFETY: the struct has the layout that the kernel reads for this request, and lives through
    // the call.
    unsafe {
        ioctl(
            &socket,
            Updater::<SIOCSIFFLAGS, NetworkInterfaceRequest>::new(&mut request),
        )?;
    }
    Ok(())
}

/// Process attributes that are set between fork and exec.
#[derive(Default)]
pub(super) struct ProcessStartAttributes {
    /// Whether the process starts a new session of processes (`setsid`), without a controlling
    /// terminal.
    pub(super) session: bool,
    /// Number that is added to the niceness of the process, which lowers its CPU priority.
    pub(super) niceness: i32,
    /// Path of `cgroup.procs` of the control group that the process joins.
    pub(super) cgroup: Option<CString>,
}

/// Makes `command` start its program with the attributes in `start`. Failures to set an attribute
/// are ignored. This process must be single-threaded.
#[expect(unsafe_code, reason = "what runs between fork and exec is unsafe")]
pub(super) fn set_session_niceness_and_cgroup_at_start(
    command: &mut Command,
    start: ProcessStartAttributes,
) {
    let prepare = move || {
        if start.session {
            let _ = rustix::process::setsid();
        }
        if start.niceness != 0 {
            let _ = rustix::process::nice(start.niceness);
        }
        if let Some(path) = &start.cgroup
            && let Ok(file) =
                rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
        {
            let _ = rustix::io::write(&file, b"0");
        }
        Ok(())
    };
    // SAFETY: `prepare` makes only system calls and does not allocate, and this process has no
    // other thread that could hold a lock.
    unsafe {
        command.pre_exec(prepare);
    }
}

fn check_syscall_result(result: c_long) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

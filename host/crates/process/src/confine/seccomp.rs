//! Filters the system calls of a confined program with seccomp. Refuses calls for sockets, for
//! access to other processes, for set-id modes, and all calls that could change the machine or undo
//! the confinement.
//!
//! System call numbers differ between architectures. The tables contain those of
//! `uapi/asm/unistd_64.h` (x86_64) and `uapi/asm-generic/unistd.h` (aarch64). Other architectures
//! have no filter, and therefore no confinement. Start from [`restrict_system_calls`].

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::policy::SocketAccess;

const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

const AF_UNIX: u64 = 1;
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
/// Family of netlink sockets. Name lookup uses one to ask the kernel for local addresses.
const AF_NETLINK: u64 = 16;

const NETLINK_ROUTE: u64 = 0;
const IPPROTO_TCP: u64 = 6;
const IPPROTO_UDP: u64 = 17;
/// Mask for the type in the type argument of `socket`, which also contains flags.
const SOCK_TYPE_MASK: u64 = 0xf;
/// Refused socket types: raw, reliable datagrams, sequenced packets, DCCP, packets.
const REFUSED_SOCKET_TYPES: &[u64] = &[3, 4, 5, 6, 10];

/// Ioctls that inject input into a terminal as if the user had typed it.
const TERMINAL_INPUT_INJECTION_IOCTLS: [u64; 2] = [0x5412, 0x541C];

/// Flags of `clone` that create a namespace: mounts, cgroups, hostname, IPC, users, PIDs, network.
/// Inside a new user namespace, a program could reach kernel interfaces that only root may use.
const CLONE_NEW_NAMESPACE_FLAGS: [u64; 7] = [
    0x0002_0000,
    0x0200_0000,
    0x0400_0000,
    0x0800_0000,
    0x1000_0000,
    0x2000_0000,
    0x4000_0000,
];

/// Name of a system call, and its number on x86_64 and aarch64; `None` if the architecture does not
/// have the call.
type SyscallNumbersRow = (&'static str, Option<i64>, Option<i64>);

/// System calls that are always refused, with any arguments.
const ALWAYS_REFUSED_SYSCALLS: &[SyscallNumbersRow] = &[
    // Calls that access the memory and descriptors of other processes.
    ("ptrace", Some(101), Some(117)),
    ("process_vm_readv", Some(310), Some(270)),
    ("process_vm_writev", Some(311), Some(271)),
    ("process_madvise", Some(440), Some(440)),
    ("kcmp", Some(312), Some(272)),
    ("pidfd_getfd", Some(438), Some(438)),
    // Calls that read or change the user's keyrings in the kernel.
    ("add_key", Some(248), Some(217)),
    ("request_key", Some(249), Some(218)),
    ("keyctl", Some(250), Some(219)),
    // System calls that load programs into the kernel, and io_uring, whose operations bypass the
    // seccomp filter.
    ("bpf", Some(321), Some(280)),
    ("userfaultfd", Some(323), Some(282)),
    ("perf_event_open", Some(298), Some(241)),
    ("io_uring_setup", Some(425), Some(425)),
    ("io_uring_enter", Some(426), Some(426)),
    ("io_uring_register", Some(427), Some(427)),
    // Calls that change mounts or namespaces, and those that open files in ways that bypass
    // Landlock.
    ("mount", Some(165), Some(40)),
    ("umount2", Some(166), Some(39)),
    ("pivot_root", Some(155), Some(41)),
    ("chroot", Some(161), Some(51)),
    ("unshare", Some(272), Some(97)),
    ("setns", Some(308), Some(268)),
    ("open_tree", Some(428), Some(428)),
    ("move_mount", Some(429), Some(429)),
    ("fsopen", Some(430), Some(430)),
    ("fsconfig", Some(431), Some(431)),
    ("fsmount", Some(432), Some(432)),
    ("fspick", Some(433), Some(433)),
    ("mount_setattr", Some(442), Some(442)),
    ("open_tree_attr", Some(467), Some(467)),
    ("open_by_handle_at", Some(304), Some(265)),
    ("fanotify_init", Some(300), Some(262)),
    // Calls that change the machine itself, such as its kernel, clock or swap.
    ("kexec_load", Some(246), Some(104)),
    ("kexec_file_load", Some(320), Some(294)),
    ("init_module", Some(175), Some(105)),
    ("finit_module", Some(313), Some(273)),
    ("delete_module", Some(176), Some(106)),
    ("reboot", Some(169), Some(142)),
    ("swapon", Some(167), Some(224)),
    ("swapoff", Some(168), Some(225)),
    ("acct", Some(163), Some(89)),
    ("quotactl", Some(179), Some(60)),
    ("quotactl_fd", Some(443), Some(443)),
    ("settimeofday", Some(164), Some(170)),
    ("clock_settime", Some(227), Some(112)),
    ("sethostname", Some(170), Some(161)),
    ("setdomainname", Some(171), Some(162)),
    ("syslog", Some(103), Some(116)),
    ("vhangup", Some(153), Some(58)),
    ("iopl", Some(172), None),
    ("ioperm", Some(173), None),
    // Calls of this table that have a different number in the x32 ABI.
    ("x32 ptrace", Some(X32_SYSCALL_NUMBER_OFFSET + 521), None),
    (
        "x32 process_vm_readv",
        Some(X32_SYSCALL_NUMBER_OFFSET + 539),
        None,
    ),
    (
        "x32 process_vm_writev",
        Some(X32_SYSCALL_NUMBER_OFFSET + 540),
        None,
    ),
    (
        "x32 kexec_load",
        Some(X32_SYSCALL_NUMBER_OFFSET + 528),
        None,
    ),
];

/// System calls that are refused with any arguments if processes of other programs are visible:
/// shared memory, semaphores and queues outside the file system, and the memory layout of a
/// process.
const SYSCALLS_REFUSED_IF_OTHER_PROCESSES_VISIBLE: &[SyscallNumbersRow] = &[
    ("shmget", Some(29), Some(194)),
    ("shmat", Some(30), Some(196)),
    ("shmctl", Some(31), Some(195)),
    ("shmdt", Some(67), Some(197)),
    ("semget", Some(64), Some(190)),
    ("semop", Some(65), Some(193)),
    ("semctl", Some(66), Some(191)),
    ("semtimedop", Some(220), Some(192)),
    ("msgget", Some(68), Some(186)),
    ("msgsnd", Some(69), Some(189)),
    ("msgrcv", Some(70), Some(188)),
    ("msgctl", Some(71), Some(187)),
    ("mq_open", Some(240), Some(180)),
    ("mq_unlink", Some(241), Some(181)),
    ("mq_timedsend", Some(242), Some(182)),
    ("mq_timedreceive", Some(243), Some(183)),
    ("mq_notify", Some(244), Some(184)),
    ("mq_getsetattr", Some(245), Some(185)),
    ("x32 mq_notify", Some(X32_SYSCALL_NUMBER_OFFSET + 527), None),
    ("migrate_pages", Some(256), Some(238)),
    ("move_pages", Some(279), Some(239)),
    (
        "x32 move_pages",
        Some(X32_SYSCALL_NUMBER_OFFSET + 533),
        None,
    ),
    ("process_mrelease", Some(448), Some(448)),
];

/// System calls that change limits, priority, scheduling or CPU affinity of a process. A program
/// may use them only on itself: the argument with the process id, whose index is in the row, must
/// be 0, which means the caller. If the call accepts other kinds of ids as well, argument 0 must
/// have the value in the last column, which means a process id; other kinds are refused.
const OWN_PROCESS_ONLY_SYSCALLS: &[(SyscallNumbersRow, u8, Option<u64>)] = &[
    (("prlimit64", Some(302), Some(261)), 0, None),
    (("setpriority", Some(141), Some(140)), 1, Some(0)),
    (("ioprio_set", Some(251), Some(30)), 1, Some(1)),
    (("sched_setparam", Some(142), Some(118)), 0, None),
    (("sched_setscheduler", Some(144), Some(119)), 0, None),
    (("sched_setaffinity", Some(203), Some(122)), 0, None),
    (("sched_setattr", Some(314), Some(274)), 0, None),
];

/// System calls that set the mode of a file, each with the index of the mode argument and the
/// condition under which this argument is used.
const FILE_MODE_SYSCALLS: &[(SyscallNumbersRow, u8, FileModeArgumentCondition)] = &[
    (
        ("chmod", Some(90), None),
        1,
        FileModeArgumentCondition::Always,
    ),
    (
        ("fchmod", Some(91), Some(52)),
        1,
        FileModeArgumentCondition::Always,
    ),
    (
        ("fchmodat", Some(268), Some(53)),
        2,
        FileModeArgumentCondition::Always,
    ),
    (
        ("fchmodat2", Some(452), Some(452)),
        2,
        FileModeArgumentCondition::Always,
    ),
    (
        ("mknod", Some(133), None),
        1,
        FileModeArgumentCondition::Always,
    ),
    (
        ("mknodat", Some(259), Some(33)),
        2,
        FileModeArgumentCondition::Always,
    ),
    (
        ("creat", Some(85), None),
        1,
        FileModeArgumentCondition::Always,
    ),
    (
        ("open", Some(2), None),
        2,
        FileModeArgumentCondition::Created,
    ),
    (
        ("openat", Some(257), Some(56)),
        3,
        FileModeArgumentCondition::Created,
    ),
];

/// Condition under which the kernel uses an argument as the mode of a file.
#[derive(Clone, Copy)]
enum FileModeArgumentCondition {
    Always,
    /// The argument is a mode only if the argument before it contains `O_CREAT` or `O_TMPFILE`;
    /// otherwise the kernel ignores it.
    Created,
}

/// Set-uid and set-gid bits of a file mode.
const SETUID_SETGID_MODE_BITS: [u64; 2] = [0o4000, 0o2000];

/// Flag bits with which `open` creates a file: `O_CREAT`, and the bit that occurs only in
/// `O_TMPFILE`.
const FILE_CREATING_OPEN_FLAGS: [u64; 2] = [0o100, 0o20_000_000];

const SOCKET_SYSCALL: SyscallNumbersRow = ("socket", Some(41), Some(198));
const IOCTL_SYSCALL: SyscallNumbersRow = ("ioctl", Some(16), Some(29));
const X32_IOCTL_SYSCALL: SyscallNumbersRow =
    ("x32 ioctl", Some(X32_SYSCALL_NUMBER_OFFSET + 514), None);
const CLONE_SYSCALL: SyscallNumbersRow = ("clone", Some(56), Some(220));
const CLONE3_SYSCALL: SyscallNumbersRow = ("clone3", Some(435), Some(435));
const OPENAT2_SYSCALL: SyscallNumbersRow = ("openat2", Some(437), Some(437));

/// Number that is added to an x86_64 call number to get its x32 variant.
const X32_SYSCALL_NUMBER_OFFSET: i64 = 0x4000_0000;

type SyscallFilterRules = BTreeMap<i64, Vec<SeccompRule>>;

/// Permanently filters the system calls of this thread, which must be the only one of the process,
/// and of every process that it starts. `shares_processes` is whether processes and IPC objects of
/// other programs are visible.
pub(super) fn restrict_system_calls(
    network: SocketAccess,
    unix_sockets: bool,
    shares_processes: bool,
) -> Result<(), String> {
    let failed = |error: seccompiler::Error| format!("cannot set the system call filter: {error}");
    for (rules, errno) in [
        (
            refused_syscall_rules(network, unix_sockets, shares_processes)?,
            EPERM,
        ),
        (build_enosys_syscall_rules(), ENOSYS),
    ] {
        let program = compile_seccomp_filter(rules, errno)?;
        seccompiler::apply_filter(&program).map_err(failed)?;
    }
    Ok(())
}

fn compile_seccomp_filter(rules: SyscallFilterRules, errno: u32) -> Result<BpfProgram, String> {
    let arch = if cfg!(target_arch = "x86_64") {
        TargetArch::x86_64
    } else if cfg!(target_arch = "aarch64") {
        TargetArch::aarch64
    } else {
        return Err(missing_syscall_numbers_error());
    };
    SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(errno),
        arch,
    )
    .and_then(BpfProgram::try_from)
    .map_err(seccomp_filter_error)
}

fn refused_syscall_rules(
    network: SocketAccess,
    unix_sockets: bool,
    shares_processes: bool,
) -> Result<SyscallFilterRules, String> {
    let mut rules = SyscallFilterRules::new();
    for row in ALWAYS_REFUSED_SYSCALLS {
        add_syscall_refusal_rules(&mut rules, row, Vec::new());
    }
    for (row, argument, when) in FILE_MODE_SYSCALLS {
        add_syscall_refusal_rules(&mut rules, row, build_setuid_bit_rules(*argument, *when)?);
    }
    if shares_processes {
        for row in SYSCALLS_REFUSED_IF_OTHER_PROCESSES_VISIBLE {
            add_syscall_refusal_rules(&mut rules, row, Vec::new());
        }
        for (row, argument, kind) in OWN_PROCESS_ONLY_SYSCALLS {
            let mut of_others = vec![single_condition_rule(build_argument_condition(
                *argument,
                SeccompCmpOp::Ne,
                0,
            ))?];
            if let Some(kind) = kind {
                of_others.push(single_condition_rule(build_argument_condition(
                    0,
                    SeccompCmpOp::Ne,
                    *kind,
                ))?);
            }
            add_syscall_refusal_rules(&mut rules, row, of_others);
        }
    }
    let mut families = Vec::new();
    if network != SocketAccess::Off {
        families.extend([AF_INET, AF_INET6, AF_NETLINK]);
    }
    if unix_sockets {
        families.push(AF_UNIX);
    }
    let is_other = |family: &u64| build_argument_condition(0, SeccompCmpOp::Ne, *family);
    let others: Vec<SeccompCondition> = families.iter().map(is_other).collect::<Result<_, _>>()?;
    let mut socket = Vec::new();
    if !others.is_empty() {
        socket.push(SeccompRule::new(others).map_err(seccomp_filter_error)?);
        if network == SocketAccess::Loopback {
            socket.extend(build_non_loopback_socket_rules()?);
        }
    }
    add_syscall_refusal_rules(&mut rules, &SOCKET_SYSCALL, socket);
    let typing: Vec<SeccompRule> = TERMINAL_INPUT_INJECTION_IOCTLS
        .iter()
        .map(|code| single_condition_rule(build_argument_condition(1, SeccompCmpOp::Eq, *code)))
        .collect::<Result<_, _>>()?;
    add_syscall_refusal_rules(&mut rules, &IOCTL_SYSCALL, typing.clone());
    add_syscall_refusal_rules(&mut rules, &X32_IOCTL_SYSCALL, typing);
    let namespaces: Vec<SeccompRule> = CLONE_NEW_NAMESPACE_FLAGS
        .iter()
        .map(|flag| {
            single_condition_rule(build_argument_condition(
                0,
                SeccompCmpOp::MaskedEq(*flag),
                *flag,
            ))
        })
        .collect::<Result<_, _>>()?;
    add_syscall_refusal_rules(&mut rules, &CLONE_SYSCALL, namespaces);
    if rules.is_empty() {
        return Err(missing_syscall_numbers_error());
    }
    Ok(rules)
}

/// Returns rules that refuse sockets that a server and its clients on loopback do not need and that
/// expose much kernel code: types other than streams and datagrams, protocols other than TCP and
/// UDP, and netlink except for routes.
fn build_non_loopback_socket_rules() -> Result<Vec<SeccompRule>, String> {
    let is = |argument, value| build_argument_condition(argument, SeccompCmpOp::Eq, value);
    let is_not = |argument, value| build_argument_condition(argument, SeccompCmpOp::Ne, value);
    let mut rules = vec![
        SeccompRule::new(vec![is(0, AF_NETLINK)?, is_not(2, NETLINK_ROUTE)?])
            .map_err(seccomp_filter_error)?,
    ];
    for family in [AF_INET, AF_INET6] {
        let mut protocol = vec![is(0, family)?];
        for allowed in [0, IPPROTO_TCP, IPPROTO_UDP] {
            protocol.push(is_not(2, allowed)?);
        }
        rules.push(SeccompRule::new(protocol).map_err(seccomp_filter_error)?);
        for kind in REFUSED_SOCKET_TYPES {
            let is_kind =
                build_argument_condition(1, SeccompCmpOp::MaskedEq(SOCK_TYPE_MASK), *kind)?;
            rules.push(
                SeccompRule::new(vec![is(0, family)?, is_kind]).map_err(seccomp_filter_error)?,
            );
        }
    }
    Ok(rules)
}

fn build_setuid_bit_rules(
    argument: u8,
    when: FileModeArgumentCondition,
) -> Result<Vec<SeccompRule>, String> {
    let mut rules = Vec::new();
    for bit in SETUID_SETGID_MODE_BITS {
        let has_bit = || build_argument_condition(argument, SeccompCmpOp::MaskedEq(bit), bit);
        match when {
            FileModeArgumentCondition::Always => rules.push(single_condition_rule(has_bit())?),
            FileModeArgumentCondition::Created => {
                for flag in FILE_CREATING_OPEN_FLAGS {
                    let makes =
                        build_argument_condition(argument - 1, SeccompCmpOp::MaskedEq(flag), flag)?;
                    rules.push(
                        SeccompRule::new(vec![makes, has_bit()?]).map_err(seccomp_filter_error)?,
                    );
                }
            }
        }
    }
    Ok(rules)
}

/// Returns rules for the calls that fail with ENOSYS: `clone3` and `openat2`. Their flags and modes
/// are in memory, which a filter cannot read. Programs fall back to `clone` and `openat`.
fn build_enosys_syscall_rules() -> SyscallFilterRules {
    let mut rules = SyscallFilterRules::new();
    for row in [&CLONE3_SYSCALL, &OPENAT2_SYSCALL] {
        add_syscall_refusal_rules(&mut rules, row, Vec::new());
    }
    rules
}

/// Adds rules for the call in a row of the tables. The call is refused if one of `when` matches; if
/// `when` is empty, it is always refused.
fn add_syscall_refusal_rules(
    rules: &mut SyscallFilterRules,
    (_, x86_64, aarch64): &SyscallNumbersRow,
    when: Vec<SeccompRule>,
) {
    if cfg!(target_arch = "x86_64") {
        if let Some(number) = x86_64 {
            rules.insert(*number, when.clone());
            rules.insert(number | X32_SYSCALL_NUMBER_OFFSET, when);
        }
    } else if cfg!(target_arch = "aarch64")
        && let Some(number) = aarch64
    {
        rules.insert(*number, when);
    }
}

/// Returns a condition on the lower 32 bits of an argument. The kernel ignores the upper bits of
/// these arguments.
fn build_argument_condition(
    argument: u8,
    how: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, String> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, value)
        .map_err(seccomp_filter_error)
}

fn single_condition_rule(
    condition: Result<SeccompCondition, String>,
) -> Result<SeccompRule, String> {
    SeccompRule::new(vec![condition?]).map_err(seccomp_filter_error)
}

fn seccomp_filter_error(error: seccompiler::BackendError) -> String {
    format!("cannot build the system call filter: {error}")
}

fn missing_syscall_numbers_error() -> String {
    "cannot build the system call filter: the call numbers of this kind of processor are unknown"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_compiles_in_every_mode() {
        for network in [SocketAccess::Off, SocketAccess::Loopback, SocketAccess::All] {
            for mode in 0..4 {
                let [unix_sockets, shares_processes] = [1, 2].map(|bit| mode & bit != 0);
                let rules = refused_syscall_rules(network, unix_sockets, shares_processes).unwrap();
                compile_seccomp_filter(rules, EPERM).unwrap();
            }
        }
        compile_seccomp_filter(build_enosys_syscall_rules(), ENOSYS).unwrap();
    }

    #[test]
    fn no_number_stands_for_two_calls() {
        let single = [
            &SOCKET_SYSCALL,
            &IOCTL_SYSCALL,
            &X32_IOCTL_SYSCALL,
            &CLONE_SYSCALL,
            &CLONE3_SYSCALL,
            &OPENAT2_SYSCALL,
        ];
        let rows = || {
            let of_process = OWN_PROCESS_ONLY_SYSCALLS.iter().map(|(row, ..)| row);
            let of_mode = FILE_MODE_SYSCALLS.iter().map(|(row, ..)| row);
            let whole = ALWAYS_REFUSED_SYSCALLS
                .iter()
                .chain(SYSCALLS_REFUSED_IF_OTHER_PROCESSES_VISIBLE);
            whole.chain(of_process).chain(of_mode).chain(single)
        };
        for of in [
            |row: &SyscallNumbersRow| row.1,
            |row: &SyscallNumbersRow| row.2,
        ] {
            let mut seen: Vec<i64> = rows().filter_map(of).collect();
            let n = seen.len();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), n);
        }
    }
}

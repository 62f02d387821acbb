//! Restricts files, network and scopes with Landlock, as far as the kernel supports it.
//!
//! Kernels below a minimum version are refused; restrictions that were added later are best effort.
//! Start from [`restrict_files_and_tcp`].

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::io::Errno;

use super::kernel;
use super::obstacle::ConfinementFailureReason;
use super::policy::ConfinedFileAccess;
use super::system::SAFE_DEVICE_PATHS;

/// Newest version of the Landlock interface (ABI) to request. Older kernels enforce the subset that
/// they support.
const NEWEST_REQUESTED_LANDLOCK_ABI: ABI = ABI::V9;

/// First ABI version (Linux 6.2) that prevents `truncate` on files outside the allowed directories.
const MIN_LANDLOCK_ABI: i32 = 3;

/// First ABI version (Linux 7.1) that distinguishes Unix sockets in the allowed directories from
/// others.
const MIN_LANDLOCK_ABI_FOR_UNIX_SOCKETS: i32 = 9;

pub(super) struct EnforcedLandlockRights {
    pub(super) abi: u32,
    pub(super) unix_sockets: bool,
}

/// Permanently restricts this thread, which must be the only one of the process, and every process
/// that it starts. If `tcp`, TCP is allowed on all ports; otherwise it is refused on all.
pub(super) fn restrict_files_and_tcp(
    files: &ConfinedFileAccess,
    tcp: bool,
) -> Result<EnforcedLandlockRights, ConfinementFailureReason> {
    check_landlock_available()?;
    let status = build_landlock_ruleset(files, tcp)
        .and_then(|rules| rules.restrict_self().map_err(|error| error.to_string()))?;
    let abi = match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi as i32,
        // Cannot happen: the kernel has just reported support.
        _ => {
            return Err(ConfinementFailureReason::Failed(
                "Landlock was not enforced".to_owned(),
            ));
        }
    };
    if abi < MIN_LANDLOCK_ABI || status.ruleset == RulesetStatus::NotEnforced {
        return Err(ConfinementFailureReason::Missing(format!(
            "this kernel's Landlock is too old: it has version {abi}, and {MIN_LANDLOCK_ABI} is needed (Linux 6.2)"
        )));
    }
    Ok(EnforcedLandlockRights {
        abi: abi.unsigned_abs(),
        unix_sockets: abi >= MIN_LANDLOCK_ABI_FOR_UNIX_SOCKETS,
    })
}

/// Moves this process, which must be single-threaded, and its descendants into their own signal
/// domain. Returns whether it is certain that these processes cannot signal processes outside of
/// the domain (Linux 6.12 or newer).
pub(super) fn confine_signals_to_descendants() -> bool {
    let Some(parent) = rustix::process::getppid() else {
        return false;
    };
    // The parent runs as the same user. Therefore, if this process can signal it before but not
    // after the restriction, the new domain is the cause.
    if rustix::process::test_kill_process(parent).is_err() {
        return false;
    }
    let Ok(root) = PathFd::new("/") else {
        return false;
    };
    // Every Landlock domain forbids linking and moving files between directories unless a rule
    // allows it, so add a rule that allows it everywhere.
    let status = Ruleset::default()
        .handle_access(AccessFs::Refer)
        .and_then(|rules| rules.scope(Scope::Signal))
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rule(PathBeneath::new(root, AccessFs::Refer)))
        .and_then(RulesetCreated::restrict_self);
    status.is_ok_and(|status| status.ruleset == RulesetStatus::FullyEnforced)
        && rustix::process::test_kill_process(parent) == Err(Errno::PERM)
}

/// Checks that the kernel supports Landlock. The `landlock` crate does not help here: it treats
/// every error as missing support.
fn check_landlock_available() -> Result<(), ConfinementFailureReason> {
    kernel::check_landlock_support().map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NOSYS) => {
            ConfinementFailureReason::Missing("this kernel has no Landlock".to_owned())
        }
        Some(Errno::OPNOTSUPP) => {
            ConfinementFailureReason::Missing("Landlock is switched off in this kernel".to_owned())
        }
        _ => ConfinementFailureReason::from_system_error("Landlock", &error),
    })
}

fn build_landlock_ruleset(files: &ConfinedFileAccess, tcp: bool) -> Result<RulesetCreated, String> {
    let said = |error: landlock::RulesetError| error.to_string();
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST_REQUESTED_LANDLOCK_ABI))
        .map_err(said)?;
    if !tcp {
        let tcp = AccessNet::BindTcp | AccessNet::ConnectTcp;
        rules = rules.handle_access(tcp).map_err(said)?;
    }
    let mut rules = rules
        .scope(Scope::AbstractUnixSocket | Scope::Signal)
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rules(path_beneath_rules(&files.read, landlock_read_rights())))
        .and_then(|rules| {
            rules.add_rules(path_beneath_rules(
                SAFE_DEVICE_PATHS,
                landlock_device_rights(),
            ))
        })
        .map_err(said)?;
    for path in &files.write {
        let found = PathFd::new(path).map_err(|error| error.to_string())?;
        let access = if path.is_dir() {
            landlock_write_rights()
        } else {
            landlock_write_rights() & AccessFs::from_file(NEWEST_REQUESTED_LANDLOCK_ABI)
        };
        rules = rules
            .add_rule(PathBeneath::new(found, access))
            .map_err(said)?;
    }
    Ok(rules)
}

fn landlock_read_rights() -> BitFlags<AccessFs> {
    AccessFs::from_read(NEWEST_REQUESTED_LANDLOCK_ABI)
}

/// Returns all rights to write files and directories, except those for device files: with them,
/// root could create a device node for a disk, or control a device with an ioctl.
fn landlock_write_rights() -> BitFlags<AccessFs> {
    AccessFs::from_all(NEWEST_REQUESTED_LANDLOCK_ABI)
        & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev)
}

fn landlock_device_rights() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate
}

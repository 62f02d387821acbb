//! Checks the confinement of `bash` commands.

use super::{DoctorCheck, broken_settings_check};
use rind_lib::tool::builtin::CommandConfinementMode;
use rind_lib::tool::process::ParentCgroup;
use rind_lib::tool::process::confine::{ConfinementMechanism, ConfinementReport, Limits};
use rind_lib::tool::sandbox::SandboxRequirement;
use rind_operator::confinement::{self, CommandConfinement};
use rind_operator::setup::OperatorWorkspaceSetup;

/// Features of Landlock, each with the ABI version that introduced it.
const LANDLOCK_FEATURES_BY_ABI_VERSION: [(u32, &str); 5] = [
    (3, "files"),
    (4, "TCP ports"),
    (5, "device commands"),
    (6, "signals"),
    (9, "Unix sockets"),
];

pub(super) async fn bash_confinement_checks(setup: &OperatorWorkspaceSetup) -> Vec<DoctorCheck> {
    let sandbox = match confinement::find_command_confinement(setup).await {
        Ok(sandbox) => sandbox,
        Err(error) => return vec![broken_settings_check(&error)],
    };
    let mut checks = vec![check_bash_confinement(&sandbox).with_name("commands")];
    let Ok(detected) = &sandbox.detected else {
        return checks;
    };
    let report = &detected.report;
    let mechanism = &detected.confinement.mechanism;
    let filtered = if mechanism.hides_outside_files_and_processes() {
        "mounts, namespaces, tracing, kernel modules and keys, io_uring, set-id modes, typing into terminals"
    } else {
        "the same as in namespaces, and besides limits, priority and scheduling of other processes, and shared memory, \
         semaphores and queues"
    };
    checks.push(
        check_process_isolation(mechanism, detected.passed_over.as_deref()).with_name("namespaces"),
    );
    checks.extend(report.landlock.map(check_landlock));
    checks.extend([
        DoctorCheck::new_passed(format!("filtered: {filtered}")).with_name("system calls"),
        check_command_resource_limits(&detected.confinement.limits, mechanism, report)
            .with_name("limits of bash"),
        check_cgroup_available(report).with_name("group of bash"),
        check_network_isolation(detected.confinement.network, report).with_name("network of bash"),
        check_signal_isolation(report).with_name("signals"),
        check_not_running_as_root().with_name("user"),
    ]);
    checks
}

fn check_bash_confinement(sandbox: &CommandConfinement) -> DoctorCheck {
    let free = "a command of bash can do everything that you can: read your keys, write your files, use the network";
    let way = "allow user namespaces, or install bubblewrap (the program `bwrap`), or use Linux 6.2 or newer with Landlock \
     switched on";
    let unconfined = "or set `bash = \"when-possible\"` in [sandbox] of config.toml, which runs commands with all your rights on \
                      this machine";
    match (
        sandbox.command_environment_without_warning().confining,
        &sandbox.detected,
    ) {
        (CommandConfinementMode::Confined(_), Ok(detected)) => {
            let by = match &detected.confinement.mechanism {
                ConfinementMechanism::Namespaces => "namespaces of its own".to_owned(),
                ConfinementMechanism::Landlock => "Landlock".to_owned(),
                ConfinementMechanism::Bwrap(path) => path.display().to_string(),
            };
            DoctorCheck::new_passed(format!("commands of bash are confined by {by} and a system call filter"))
            .with_consequence_text("its commands write only in the workspace and a temporary folder, and read only these, the system and its tools")
        }
        (CommandConfinementMode::Refused(why), _) => DoctorCheck::new_missing_required_part(why)
            .with_consequence_text("bash is refused: its commands must run confined")
            .with_advice(format!("{way}; {unconfined}")),
        (CommandConfinementMode::RetryingConfinement(_), _) => {
            let why = sandbox.refusal_reason().unwrap_or_default();
            let todo = if why.contains("overlaps") {
                "work in another folder, or put Rind's own elsewhere with RIND_HOME"
            } else {
                "remove the cause (free disk space, raise a limit, correct [sandbox] of config.toml); if it stays, choose \
                 another `mechanism` in [sandbox]"
            };
            DoctorCheck::new_missing_required_part(format!(
                "the commands of bash cannot be confined: {why}"
            ))
            .with_consequence_text(
                "bash is refused until its commands can be confined; each call tries again",
            )
            .with_advice(todo)
        }
        _ if sandbox.config.sandbox_requirement() == SandboxRequirement::Off => {
            DoctorCheck::new_for_weaker_protection("`bash = \"off\"` in [sandbox] of config.toml")
                .with_consequence_text(free)
                .with_advice("take that line out")
        }
        _ => {
            let why = sandbox.refusal_reason().unwrap_or_default();
            DoctorCheck::new_for_weaker_protection(format!("bash runs unconfined: {why}"))
                .with_consequence_text(free)
                .with_advice(way)
        }
    }
}

/// Reports which mechanism isolates commands from other processes and personal files and, for a
/// weaker mechanism, what it does not protect.
fn check_process_isolation(
    mechanism: &ConfinementMechanism,
    passed_over: Option<&str>,
) -> DoctorCheck {
    if mechanism.hides_outside_files_and_processes() {
        let by = match mechanism {
            ConfinementMechanism::Bwrap(path) => format!("made by {}", path.display()),
            _ => "made by rind".to_owned(),
        };
        let why = passed_over.map_or_else(String::new, |why| format!(" ({why})"));
        return DoctorCheck::new_passed(format!(
            "{by}: a command sees no other processes and no personal files, and its processes end with the call{why}"
        ));
    }
    let why = passed_over.unwrap_or("`mechanism = \"landlock\"` in [sandbox] of config.toml");
    DoctorCheck::new_for_weaker_protection(format!("none: {why}"))
        .with_consequence_text(
            "a command sees that other files and processes exist, can change permissions and times of your files elsewhere (not their content), and can write the repository's settings and hooks, which are checked only afterwards",
        )
        .with_advice("allow user namespaces (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns), or \
         install bubblewrap")
}

fn check_command_resource_limits(
    limits: &Limits,
    mechanism: &ConfinementMechanism,
    report: &ConfinementReport,
) -> DoctorCheck {
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let (processes, temporary) = if mechanism.hides_outside_files_and_processes() {
        (
            format!("{} processes", limits.processes),
            format!(", {} in its temporary folder", mib(limits.temporary_bytes)),
        )
    } else {
        let most = limits.per_user_process_limit();
        (
            format!("{most} processes, counted together with your other processes"),
            String::new(),
        )
    };
    let found = format!(
        "a command has {} of memory, {processes}, {} a file, {} of a disk{temporary}, and a lower priority than other programs; no core dumps, and no inherited descriptors",
        mib(limits.memory_bytes),
        mib(limits.file_bytes),
        mib(limits.disk_bytes),
    );
    if !report.bounds_processes {
        return DoctorCheck::new_for_weaker_protection(found)
            .with_consequence_text("the limit of processes does not apply to root: a command can start as many as the machine allows")
            .with_advice("run rind as an ordinary user, or use Linux 6.14 or newer with namespaces that Rind creates itself");
    }
    DoctorCheck::new_passed(found)
}

/// Reports whether commands run in control groups. If they do not, other mechanisms enforce the
/// limits, so this is no weakness.
fn check_cgroup_available(report: &ConfinementReport) -> DoctorCheck {
    let place = match ParentCgroup::find_usable() {
        Ok(_) if !report.cgroup => Err("a command could not be moved into a cgroup"),
        place => place,
    };
    match place {
        Ok(place) if place.controllers.is_empty() => DoctorCheck::new_passed(
            "all processes of a command are ended together, by its cgroup; the controllers for memory, processes and CPU are not delegated, so other mechanisms enforce these limits",
        ),
        Ok(place) => DoctorCheck::new_passed(format!(
            "all processes of a command are ended together, by its cgroup, which also limits {}",
            place.controllers.join(", ")
        )),
        Err(why) => DoctorCheck::new_passed(format!("commands run without a cgroup of their own: {why}"))
            .with_consequence_text("limits of commands are checked four times a second, and their processes are ended one by one"),
    }
}

fn check_landlock(version: u32) -> DoctorCheck {
    let named = |wanted: bool| {
        let parts = LANDLOCK_FEATURES_BY_ABI_VERSION
            .iter()
            .filter(|(since, _)| (*since <= version) == wanted);
        parts.map(|(_, part)| *part).collect::<Vec<_>>().join(", ")
    };
    let mut found = format!("version {version}: {}", named(true));
    let without = named(false);
    if !without.is_empty() {
        found.push_str(&format!("; not {without}"));
    }
    DoctorCheck::new_passed(found).with_name("landlock")
}

fn check_network_isolation(is_on: bool, report: &ConfinementReport) -> DoctorCheck {
    if is_on {
        return DoctorCheck::new_for_weaker_protection(
            "on: `network = true` in [sandbox] of config.toml",
        )
        .with_consequence_text("a command can send everything that it reads to any host")
        .with_advice("take that line out");
    }
    let unix = if report.unix_sockets {
        "Unix sockets only in the workspace"
    } else {
        "and no Unix sockets"
    };
    let loopback = if report.loopback {
        "off; a command reaches its own servers on 127.0.0.1 and no other"
    } else {
        "off, loopback included"
    };
    DoctorCheck::new_passed(format!("{loopback}, {unix}"))
}

fn check_signal_isolation(report: &ConfinementReport) -> DoctorCheck {
    if report.can_signal {
        return DoctorCheck::new_for_weaker_protection(
            "a confined command can end your other programs",
        )
        .with_consequence_text("it cannot read or change these programs")
        .with_advice("use Linux 6.12 or newer");
    }
    DoctorCheck::new_passed("a confined command reaches no process outside")
}

fn check_not_running_as_root() -> DoctorCheck {
    if rustix::process::geteuid().is_root() {
        return DoctorCheck::new_for_weaker_protection("root")
            .with_consequence_text(
                "commands may read the system, including files that only root may read, such as /etc/shadow",
            )
            .with_advice("run rind as an ordinary user");
    }
    DoctorCheck::new_passed("not root")
}

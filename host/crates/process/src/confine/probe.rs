//! Tests the confinement on this machine: the helper confines itself, then tries actions that the
//! confinement must prevent.
//!
//! A mechanism counts as working only if each forbidden action was refused and each allowed action
//! succeeded inside the confinement. Start from [`detect_confinement`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::helper::TEST_CONFINEMENT_ARGUMENT;
use super::obstacle::ConfinementFailureReason;
use super::policy::ConfinementTrialRequest;
use super::{ConfinementMechanism, ConfinementPermissions, HIDDEN_HELPER_SUBCOMMAND};
use crate::{OutputPipeMode, ParentCgroup, ProcessEndReason, ProcessSpec};
use rind_base::disk::{TemporaryFolder, create_private_folder};

/// Timeout of a trial, which takes milliseconds unless the machine is very busy.
const CONFINEMENT_TRIAL_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum number of bytes of the helper's output that are kept.
const MAX_HELPER_OUTPUT_BYTES: usize = 16 * 1024;

/// Report on a confined process: the restrictions in force, and the actions that were possible
/// although they are forbidden.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfinementReport {
    /// Landlock ABI version, if Landlock restricts the process.
    pub landlock: Option<u32>,
    /// Whether a seccomp filter refuses some system calls of the process.
    pub seccomp: bool,
    /// Whether the process can open Unix sockets. This is no hole if only sockets in its own
    /// directories can be reached.
    pub unix_sockets: bool,
    /// Descriptions of forbidden actions that succeeded. If empty, the confinement works.
    pub holes: Vec<String>,
    /// Descriptions of actions that the confinement allows but that failed nevertheless.
    pub lacks: Vec<String>,
    /// Whether the process could signal a process outside of the confinement. Older kernels cannot
    /// prevent this.
    pub can_signal: bool,
    /// Whether the number of processes that the command starts is limited.
    pub bounds_processes: bool,
    /// Whether the process can connect to its own server on the loopback interface, in a network
    /// namespace that contains nothing else.
    pub loopback: bool,
    /// Whether the command runs in a control group of its own, which can limit all its processes.
    pub cgroup: bool,
}

/// Confinement that works on this machine, found by trying the mechanisms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetectedConfinement {
    /// Confinement that uses the first mechanism that works.
    pub confinement: ConfinementPermissions,
    /// Report of the trial of the mechanism that `confinement` uses.
    pub report: ConfinementReport,
    /// Reasons why the mechanisms that are preferred to this one were skipped.
    pub passed_over: Option<String>,
}

/// Finds the first mechanism that works: namespaces created by the helper, then `bwrap` if
/// installed, then Landlock alone. If `only_that`, tries only the mechanism in `confinement`.
/// `forbidden` is one of Rind's own directories, in which a file is created to prove that it is
/// inaccessible.
///
/// A mechanism is skipped only if it is missing on this machine. A mechanism that failed ends the
/// search, because the cause of the failure must not lead to a weaker confinement.
///
/// # Errors
/// Returns the reasons why no mechanism works.
pub async fn detect_confinement(
    mut confinement: ConfinementPermissions,
    bwrap: Option<&Path>,
    only_that: bool,
    forbidden: &Path,
) -> Result<DetectedConfinement, ConfinementFailureReason> {
    let mut mechanisms = vec![ConfinementMechanism::Namespaces];
    mechanisms.extend(bwrap.map(|bwrap| ConfinementMechanism::Bwrap(bwrap.to_owned())));
    mechanisms.push(ConfinementMechanism::Landlock);
    if only_that {
        mechanisms = vec![confinement.mechanism.clone()];
    }
    let mut passed_over = Vec::new();
    for mechanism in mechanisms {
        let name = match &mechanism {
            ConfinementMechanism::Namespaces => "namespaces",
            ConfinementMechanism::Bwrap(_) => "bwrap",
            ConfinementMechanism::Landlock => "Landlock",
        };
        confinement.mechanism = mechanism;
        match test_confinement(&confinement, forbidden).await {
            Ok(report) => {
                return Ok(DetectedConfinement {
                    confinement,
                    report,
                    passed_over: (!passed_over.is_empty()).then(|| passed_over.join("; ")),
                });
            }
            Err(ConfinementFailureReason::Missing(why)) => {
                passed_over.push(format!("{name}: {why}"))
            }
            Err(failed @ ConfinementFailureReason::Failed(_)) => {
                return Err(failed.with_failed_step(name));
            }
        }
    }
    if bwrap.is_none() && !only_that {
        passed_over.push("and bwrap is not installed".to_owned());
    }
    Err(ConfinementFailureReason::Missing(passed_over.join("; ")))
}

/// Returns the path of the first file called `name` in `folders`. Relative folders are skipped.
#[must_use]
pub fn find_program_in_folders(
    name: &str,
    folders: impl IntoIterator<Item = PathBuf>,
) -> Option<PathBuf> {
    folders
        .into_iter()
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// Tests one confinement: the helper runs as the confined program and tries actions that the
/// confinement must prevent.
///
/// # Errors
/// Reason why the confinement does not work or could not be tested.
pub async fn test_confinement(
    confinement: &ConfinementPermissions,
    forbidden: &Path,
) -> Result<ConfinementReport, ConfinementFailureReason> {
    let broken = |error: std::io::Error| {
        ConfinementFailureReason::Failed(format!(
            "the confinement of commands cannot be tested: {error}"
        ))
    };
    create_private_folder(forbidden).map_err(broken)?;
    let outside = TemporaryFolder::new_in("canary-", forbidden).map_err(broken)?;
    std::fs::write(outside.path().join("canary"), "sings").map_err(broken)?;
    let bait = ServersForbiddenInTrial::new();
    let trial = ConfinementTrialRequest {
        forbidden: outside.path().to_owned(),
        host: std::process::id(),
        network: confinement.network,
        host_port: bait.tcp_port(),
        host_socket: bait.socket_name.clone(),
        is_apart: confinement.mechanism.hides_outside_files_and_processes(),
        processes: confinement.limits.processes,
        is_counted: ParentCgroup::find_usable().is_ok_and(ParentCgroup::can_limit_process_count),
        report: ConfinementReport::default(),
    };
    let trial = serde_json::to_string(&trial).map_err(|error| broken(error.into()))?;
    let process = ProcessSpec {
        program: confinement.helper.clone().into(),
        args: [HIDDEN_HELPER_SUBCOMMAND, TEST_CONFINEMENT_ARGUMENT, &trial]
            .map(OsString::from)
            .to_vec(),
        cwd: PathBuf::from("/"),
        env: Vec::new(),
        stdin: None,
        deadline: CONFINEMENT_TRIAL_TIMEOUT,
        streams: OutputPipeMode::Separate,
        capture_bytes: MAX_HELPER_OUTPUT_BYTES,
        on_line: None,
        on_bytes: None,
        confine: Some(confinement.clone()),
        keeper: None,
    };
    let finished = process
        .run(&CancellationToken::new())
        .await
        .map_err(|error| error.to_string())?;
    if finished.ending != ProcessEndReason::Exited(0) {
        let said = finished.stderr.text();
        let said = said.trim().trim_start_matches("rind: ");
        return Err(match finished.ending {
            ProcessEndReason::Deadline => ConfinementFailureReason::Failed(format!(
                "the test of the confinement of commands took more than {} s",
                CONFINEMENT_TRIAL_TIMEOUT.as_secs()
            )),
            ProcessEndReason::Exited(code) if !said.is_empty() => {
                ConfinementFailureReason::from_helper_failure(code, said.to_owned())
            }
            ending if said.is_empty() => ConfinementFailureReason::Failed(format!(
                "the helper process that confines commands failed ({ending:?})"
            )),
            ending => ConfinementFailureReason::Failed(format!(
                "the helper process that confines commands failed ({ending:?}): {said}"
            )),
        });
    }
    let report: ConfinementReport =
        serde_json::from_str(finished.stdout.text().trim()).map_err(|error| {
            format!(
                "the report of the helper process that confines commands cannot be parsed: {error}"
            )
        })?;
    let canary = std::fs::read(outside.path().join("canary"));
    let is_kept = match canary {
        Ok(text) => text == b"sings",
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        Err(error) => return Err(broken(error)),
    };
    match (report.holes.is_empty() && is_kept, report.lacks.is_empty()) {
        (false, _) if report.holes.is_empty() => Err(ConfinementFailureReason::Missing(
            "a confined command could still change files outside its folders".to_owned(),
        )),
        (false, _) => Err(ConfinementFailureReason::Missing(format!(
            "a confined command could still {}",
            report.holes.join(", ")
        ))),
        (_, false) => Err(ConfinementFailureReason::Failed(format!(
            "a confined command could not {}",
            report.lacks.join(", ")
        ))),
        _ => Ok(report),
    }
}

/// Servers that the host runs during a trial and that a confined program must not reach.
struct ServersForbiddenInTrial {
    tcp: Option<std::net::TcpListener>,
    socket_name: String,
    #[cfg(target_os = "linux")]
    _socket: Option<std::os::unix::net::UnixListener>,
}

impl ServersForbiddenInTrial {
    fn new() -> Self {
        let socket_name = format!("rind-canary-{}", rind_base::clock::new_uuid_v7());
        Self {
            tcp: std::net::TcpListener::bind("127.0.0.1:0").ok(),
            #[cfg(target_os = "linux")]
            _socket: {
                use std::os::linux::net::SocketAddrExt;
                use std::os::unix::net::{SocketAddr, UnixListener};
                let address = SocketAddr::from_abstract_name(&socket_name);
                address.and_then(|at| UnixListener::bind_addr(&at)).ok()
            },
            socket_name,
        }
    }

    fn tcp_port(&self) -> u16 {
        let address = self.tcp.as_ref().and_then(|tcp| tcp.local_addr().ok());
        address.map_or(0, |address| address.port())
    }
}

/// Whether this machine has a route to an address reserved for documentation (RFC 5737, RFC 3849),
/// and thus to a network. Sends no packet.
fn has_network_route() -> bool {
    use std::net::UdpSocket;
    [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")]
        .iter()
        .any(|(own, other)| UdpSocket::bind(own).is_ok_and(|socket| socket.connect(other).is_ok()))
}

#[cfg(target_os = "linux")]
fn connect_abstract_socket(name: &str) -> bool {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixStream};
    let address = SocketAddr::from_abstract_name(name);
    address.is_ok_and(|at| UnixStream::connect_addr(&at).is_ok())
}

#[cfg(not(target_os = "linux"))]
fn connect_abstract_socket(_name: &str) -> bool {
    false
}

impl ConfinementTrialRequest {
    /// Tries in this process, which is confined, to do what the confinement must prevent, and
    /// returns the report.
    pub(super) fn run_trial(self) -> ConfinementReport {
        use std::fs;
        use std::net::{TcpListener, TcpStream, UdpSocket};
        let mut report = self.report;
        let canary = self.forbidden.join("canary");
        let mut hole = |is_open: bool, what: &str| {
            if is_open {
                report.holes.push(what.to_owned());
            }
        };
        hole(fs::read(&canary).is_ok(), "read files outside its folders");
        hole(
            fs::OpenOptions::new().append(true).open(&canary).is_ok(),
            "write files outside its folders",
        );
        hole(
            fs::write(self.forbidden.join("new"), "").is_ok(),
            "make files outside its folders",
        );
        hole(
            fs::remove_file(&canary).is_ok(),
            "remove files outside its folders",
        );
        hole(
            fs::read_dir(&self.forbidden).is_ok(),
            "list folders outside its own",
        );
        let environ = fs::read(format!("/proc/{}/environ", self.host));
        hole(
            environ.is_ok_and(|environ| !environ.is_empty()),
            "read the environment of its host",
        );
        if !self.network {
            let listener = TcpListener::bind("127.0.0.1:0");
            let udp = UdpSocket::bind("127.0.0.1:0");
            if report.loopback {
                let connected =
                    listener.and_then(|server| TcpStream::connect(server.local_addr()?));
                report.loopback = connected.is_ok();
            } else {
                hole(listener.is_ok(), "open network connections");
                hole(udp.is_ok(), "send UDP packets");
            }
            let host = self.host_port;
            let is_reached = host != 0 && TcpStream::connect(("127.0.0.1", host)).is_ok();
            hole(is_reached, "reach servers on this machine");
            hole(has_network_route(), "send to other machines");
            let is_reached = connect_abstract_socket(&self.host_socket);
            hole(is_reached, "reach programs through abstract Unix sockets");
        }
        if self.is_apart {
            hole(self.forbidden.exists(), "see files outside its folders");
            hole(
                count_visible_processes() > MAX_PROCESSES_VISIBLE_IN_TRIAL_NAMESPACE,
                "see processes outside",
            );
        }
        if tempfile::tempfile().is_err() {
            report
                .lacks
                .push("write to its own temporary folder".to_owned());
        }
        // In a PID namespace, the host's process id would name a different process, so a signal to
        // that id would prove nothing.
        report.can_signal = !self.is_apart && can_signal_process(self.host);
        report.bounds_processes = !is_running_as_root()
            || (self.is_apart && is_process_count_limited(self.processes))
            || (report.cgroup && self.is_counted);
        report
    }
}

/// Maximum number of processes that are visible inside a PID namespace during the trial: its first
/// process, and the trial itself.
const MAX_PROCESSES_VISIBLE_IN_TRIAL_NAMESPACE: usize = 2;

fn count_visible_processes() -> usize {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().parse::<u32>());
    names.filter(Result::is_ok).count()
}

/// Whether the PID namespace limits the number of processes and threads, also for root, to
/// `processes` or to the smallest limit that the kernel accepts.
#[cfg(target_os = "linux")]
fn is_process_count_limited(processes: u64) -> bool {
    let most = std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
    let least = super::namespaces::MIN_PID_NAMESPACE_PROCESS_LIMIT;
    most.trim()
        .parse()
        .is_ok_and(|most: u64| most <= processes.max(least))
}

#[cfg(not(target_os = "linux"))]
fn is_process_count_limited(_processes: u64) -> bool {
    false
}

/// Whether this process runs as root, to which rlimits on the number of processes do not apply.
fn is_running_as_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(target_os = "linux")]
fn can_signal_process(process: u32) -> bool {
    let process = i32::try_from(process)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    process.is_some_and(|process| rustix::process::test_kill_process(process).is_ok())
}

#[cfg(not(target_os = "linux"))]
fn can_signal_process(_process: u32) -> bool {
    true
}

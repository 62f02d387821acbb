//! Tests of commands that the kernel confines: forbidden actions fail, and all else works as
//! before.
//!
//! Each case runs under every mechanism. `bwrap` is skipped with a message if it is not installed.

#![allow(clippy::print_stderr, reason = "a test that cannot run here says why")]

use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rind::tool::ToolOutput;
use rind::tool::builtin::{self, CommandConfinementMode};
use rind::tool::process::confine::{
    ConfinementFailureReason, ConfinementMechanism, ConfinementPermissions, Limits,
    detect_confinement, find_program_in_folders, list_tool_folders_in_home, readable_system_paths,
    test_confinement,
};
use rind::tool::registry::ToolRegistry;
use rind::tool::workspace::Workspace;
use rind_tests::cli::program;
use serde_json::json;

use super::{Fixture, until_lines};

pub(crate) fn confinement(fixture: &Fixture) -> ConfinementPermissions {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let mut read = readable_system_paths();
    read.extend(list_tool_folders_in_home(&home));
    ConfinementPermissions {
        helper: program().to_owned(),
        mechanism: ConfinementMechanism::Namespaces,
        write: vec![fixture.inside("")],
        read,
        hidden: Vec::new(),
        network: false,
        limits: Limits::default(),
        git_settings: String::new(),
        records: None,
    }
}

/// Returns the mechanisms. Namespaces and Landlock must work where these tests run; `bwrap` need
/// not be installed.
pub(crate) fn mechanisms() -> Vec<ConfinementMechanism> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut mechanisms = vec![
        ConfinementMechanism::Namespaces,
        ConfinementMechanism::Landlock,
    ];
    match find_program_in_folders("bwrap", std::env::split_paths(&path)) {
        Some(bwrap) => mechanisms.push(ConfinementMechanism::Bwrap(bwrap)),
        None => eprintln!("skipped: there is no bwrap"),
    }
    mechanisms
}

/// Creates a workspace whose commands this mechanism confines, beside a folder that they must not
/// touch.
pub(crate) async fn confined_by(
    mechanism: &ConfinementMechanism,
    change: impl FnOnce(&mut ConfinementPermissions),
) -> Fixture {
    let mut fixture = Fixture::new();
    let mut confinement = confinement(&fixture);
    confinement.mechanism = mechanism.clone();
    change(&mut confinement);
    if let Err(why) = test_confinement(&confinement, &fixture.outside("")).await {
        panic!("{mechanism:?}: {why}");
    }
    fixture.tools = tools(&fixture, CommandConfinementMode::Confined(confinement));
    fixture
}

pub(crate) fn tools(fixture: &Fixture, commands: CommandConfinementMode) -> ToolRegistry {
    let workspace = Arc::new(Workspace::open_root_folder(&fixture.inside("")).unwrap());
    let mut tools = ToolRegistry::default();
    for tool in builtin::built_in_tools(&workspace, commands) {
        tools.add(tool).unwrap();
    }
    tools
}

impl Fixture {
    pub(crate) async fn bash(&self, command: &str) -> ToolOutput {
        self.call("bash", json!({ "command": command })).await
    }

    /// Runs a command that must fail because an action is refused, and returns its output.
    pub(crate) async fn refused(&self, command: &str) -> String {
        let output = self.bash(command).await;
        let text = &output.content.to_string();
        let is_refused = [
            "ermission denied",
            "not permitted",
            "cross-device link",
            // Errors for files and processes that the command's view of the system lacks.
            "No such file or directory",
            "No such process",
            "Read-only file system",
        ]
        .iter()
        .any(|words| text.contains(words));
        assert!(output.is_error && is_refused, "{command}: {text}");
        output.content.to_string()
    }
}

#[tokio::test]
async fn files_outside_cannot_be_read_changed_made_or_removed() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        let outside = fixture.outside("");
        let outside = outside.display();
        for command in [
            "cat OUT/secret.txt",
            "ls OUT",
            "echo x >> OUT/secret.txt",
            ": > OUT/secret.txt",
            "truncate -s 0 OUT/secret.txt",
            "echo x > OUT/new.txt",
            "mkdir OUT/folder",
            "rm OUT/secret.txt",
            "mv OUT/secret.txt here.txt",
            "ln OUT/secret.txt here.txt",
            "ln -s OUT/secret.txt link; cat link",
            "cd OUT && cat secret.txt",
            "cat /proc/self/cwd/../outside/secret.txt",
            "echo x > /etc/rind-test",
            "echo x > /proc/sys/kernel/core_pattern",
        ] {
            let said = fixture
                .refused(&command.replace("OUT", &outside.to_string()))
                .await;
            assert!(!said.contains("the secret"), "{command}: {said}");
        }
        let shared = fixture
            .bash("ls -A /tmp /dev/shm")
            .await
            .content
            .to_string();
        for name in ["canary", "systemd", "bash_", "tmp."] {
            assert!(!shared.contains(name), "{mechanism:?}: {shared}");
        }
        let secret = fs::read_to_string(fixture.outside("secret.txt"));
        assert_eq!(secret.unwrap(), "the secret\n");
        assert_eq!(fs::read_dir(fixture.outside("")).unwrap().count(), 1);
    }
}

#[tokio::test]
async fn the_workspace_and_a_temporary_folder_can_be_written() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        let output = fixture
        .ok(
            "bash",
            json!({"command": "set -e; echo text > a; mkdir b; mv a b/c; ln b/c d; ln -s d e; mkfifo f; rm f; chmod +x b/c; \
                               cat < e; echo temporary > $TMPDIR/x; mv $TMPDIR/x y; mktemp >/dev/null; \
                               echo > /dev/null; head -c 2 /dev/urandom | wc -c; diff <(echo 1) <(echo 1); echo $TMPDIR"}),
        )
        .await;
        let lines: Vec<&str> = output.lines().collect();
        let ["text", "2", temporary, "[exit code 0]"] = lines[..] else {
            panic!("{output}")
        };
        assert_eq!(fixture.text("y"), "temporary\n");
        assert!(temporary.contains("/rind-"), "{temporary}");
        assert!(!PathBuf::from(temporary).exists(), "it is removed");
    }
}

#[tokio::test]
async fn there_is_no_network_not_even_on_this_machine() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let unix = UnixListener::bind(fixture.outside("socket")).unwrap();
        for listening in [tcp.set_nonblocking(true), udp.set_nonblocking(true)] {
            listening.unwrap();
        }
        unix.set_nonblocking(true).unwrap();
        let (tcp_port, udp_port) = (
            tcp.local_addr().unwrap().port(),
            udp.local_addr().unwrap().port(),
        );
        for command in [
            format!("exec 3<>/dev/tcp/127.0.0.1/{tcp_port}"),
            format!("echo x > /dev/udp/127.0.0.1/{udp_port}"),
            format!(
                "perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0) or die $!; connect(S, sockaddr_un(\"{}\")) or die $!'",
                fixture.outside("socket").display()
            ),
        ] {
            let output = fixture.bash(&command).await;
            // Sending a datagram succeeds in a network namespace, although nobody receives it.
            let is_sent =
                mechanism.hides_outside_files_and_processes() && command.contains("/dev/udp");
            assert!(
                output.is_error || is_sent,
                "{mechanism:?} {command}: {}",
                output.content
            );
        }
        let none = |error: std::io::Error| error.kind() == ErrorKind::WouldBlock;
        assert!(tcp.accept().is_err_and(none));
        assert!(udp.recv(&mut [0; 8]).is_err_and(none));
        assert!(unix.accept().is_err_and(none));
    }
}

#[tokio::test]
async fn the_network_is_there_when_it_is_allowed() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |confinement| confinement.network = true).await;
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        fixture
            .ok(
                "bash",
                json!({ "command": format!("exec 3<>/dev/tcp/127.0.0.1/{port}") }),
            )
            .await;
        tcp.accept().unwrap();
    }
}

#[tokio::test]
async fn what_could_undo_the_confinement_or_reach_other_processes_is_refused() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        let host = std::process::id();
        for command in [
            format!("cat /proc/{host}/environ"),
            "cat /proc/$PPID/environ".to_owned(),
            format!("cat /proc/{host}/mem"),
            format!("ls -l /proc/{host}/fd/"),
            format!("cat /proc/{host}/root/etc/hostname"),
            "unshare -Ur true".to_owned(),
            "unshare -m true".to_owned(),
            "mount -t tmpfs none .".to_owned(),
            "mknod disk b 8 0".to_owned(),
            // System calls by number: ptrace, io_uring_setup, keyctl, bpf, process_vm_readv.
            syscall("101, 0, 0, 0, 0"),
            syscall("425, 1, 0"),
            syscall("250, 0, 0"),
            syscall("321, 0, 0, 0"),
            syscall("310, $$, 0, 0, 0, 0, 0"),
            // The x32 variant of ptrace, and clone with a flag for a new namespace.
            syscall("0x40000000 + 101, 0, 0, 0, 0"),
            syscall("56, 0x10000000 + 17, 0, 0, 0, 0"),
        ] {
            if !cfg!(target_arch = "x86_64") && command.starts_with("perl") {
                continue;
            }
            fixture.refused(&command).await;
        }
    }
}

fn syscall(arguments: &str) -> String {
    format!("perl -e 'syscall({arguments}) >= 0 or die $!'")
}

#[tokio::test]
async fn processes_outside_cannot_be_signalled() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        let host = std::process::id();
        fixture.refused(&format!("kill -0 {host}")).await;
        fixture
            .refused("kill -9 $PPID; kill -0 $PPID && kill -0 99999")
            .await;
        fixture
            .ok(
                "bash",
                json!({"command": "sleep 60 & kill $!; wait $!; true"}),
            )
            .await;
    }
}

#[tokio::test]
async fn tools_still_work() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        for command in [
            "ls -la && pwd",
            "git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git log | cat",
            "cargo --version",
            "perl -e 'print 1'",
            "echo 'int main() { return 0; }' > a.c && (! command -v cc || (cc a.c -o a && ./a))",
            "seq 1000000 | head -n 1",
            "id && df . && ps > /dev/null",
        ] {
            let output = fixture.bash(command).await;
            assert!(!output.is_error, "{command}: {}", output.content);
        }
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_and_one_that_may_not_be_read_are_told_apart() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        let program = fixture.outside("program");
        fs::write(&program, "#!/bin/sh\necho ran\n").unwrap();
        fs::set_permissions(
            &program,
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        let said = fixture.refused(program.to_str().unwrap()).await;
        // A mechanism with its own view of the file system hides the program; the other refuses to
        // run it.
        let code = if mechanism.hides_outside_files_and_processes() {
            127
        } else {
            126
        };
        assert!(said.ends_with(&format!("[exit code {code}]")), "{said}");
        let said = fixture.bash("no-such-program").await;
        assert!(
            said.content.text().ends_with("[exit code 127]"),
            "{}",
            said.content
        );
    }
}

/// Creates a workspace whose commands are not confined.
pub(crate) fn unconfined() -> Fixture {
    Fixture::new()
}

/// Creates a workspace whose commands are not confined, but run below a keeper that ends all their
/// processes.
pub(crate) fn kept() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.tools = tools(&fixture, CommandConfinementMode::Kept(program().to_owned()));
    fixture
}

/// Returns a number of seconds that is unique to the fixture. As an argument of `sleep` it
/// identifies leftover processes, whose ids differ in a namespace.
pub(crate) fn some_time(fixture: &Fixture) -> String {
    let name = fixture.inside("").display().to_string();
    let digits: u64 = name
        .bytes()
        .map(u64::from)
        .fold(7, |sum, byte| sum.wrapping_mul(31) + byte);
    format!("60.{:09}", digits % 1_000_000_000)
}

/// Counts the processes of the machine that have this argument.
pub(crate) fn n_with(argument: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    let has = |line: &Vec<u8>| {
        line.split(|byte| *byte == 0)
            .any(|word| word == argument.as_bytes())
    };
    lines.filter(has).count()
}

#[tokio::test]
async fn a_deadline_stops_the_whole_confined_tree() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        let time = some_time(&fixture);
        let command = format!(
            "sleep {time} & (sleep {time} & wait) & timeout 60 sleep {time} & (setsid sh -c 'exec sleep {time}' &); \
             (setsid env -i sleep {time} &); bash -c 'trap \"\" TERM; while :; do sleep 1; done' x {time} & \
             sleep 0.5; touch all; wait"
        );
        let started = Instant::now();
        let call = fixture.error("bash", json!({"command": command, "timeout_seconds": 3}));
        let all = fixture.inside("all");
        let seen = async {
            while !all.exists() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            n_with(&time)
        };
        let (output, seen) = tokio::join!(call, seen);
        assert!(
            output.ends_with("[stopped: it ran longer than 3 s]"),
            "{mechanism:?}: {output}"
        );
        assert!(seen >= 6, "{mechanism:?}: {seen}");
        assert!(started.elapsed() < Duration::from_secs(30));
        assert_eq!(n_with(&time), 0, "{mechanism:?}");
    }
}

#[tokio::test]
async fn what_a_confined_command_hides_in_the_background_is_stopped_and_said() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        let time = some_time(&fixture);
        let command = format!("setsid env -i sleep {time} >/dev/null 2>&1 & sleep 0.2; echo done");
        let output = fixture.ok("bash", json!({ "command": command })).await;
        assert_eq!(
            output, "done\n[exit code 0; processes left in the background were stopped]",
            "{mechanism:?}"
        );
        assert_eq!(n_with(&time), 0, "{mechanism:?}");
        assert_eq!(
            fixture
                .ok("bash", json!({"command": "sleep 0.01 & wait"}))
                .await,
            "[exit code 0]"
        );
    }
}

#[tokio::test]
async fn a_confined_command_whose_future_is_dropped_is_stopped_and_its_folder_removed() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        let time = some_time(&fixture);
        let command = format!(
            "echo $TMPDIR > folder; sleep {time} & echo > pids; bash -c 'trap \"\" TERM; echo >> pids; \
             while :; do touch $TMPDIR/x; sleep 0.1; done' x {time}"
        );
        let pids = fixture.inside("pids");
        tokio::select! {
            output = fixture.bash(&command) => panic!("{}", output.content),
            () = until_lines(&pids, 2) => {}
        }
        let folder = PathBuf::from(fixture.text("folder").trim());
        for _ in 0..200 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if !folder.exists() {
                break;
            }
        }
        assert_eq!(n_with(&time), 0, "{mechanism:?}");
        assert!(!folder.exists(), "{mechanism:?}: {folder:?}");
    }
}

#[tokio::test]
async fn a_helper_that_cannot_confine_is_found_out() {
    let fixture = Fixture::new();
    let outside = fixture.outside("");
    for (helper, why) in [
        // A helper that ignores its arguments.
        (
            "/bin/true",
            "the report of the helper process that confines commands cannot be parsed",
        ),
        (
            "/bin/false",
            "the helper process that confines commands failed",
        ),
        ("/no/such/helper", "cannot run `/no/such/helper`"),
    ] {
        let mut confinement = confinement(&fixture);
        confinement.helper = PathBuf::from(helper);
        let error = detect_confinement(confinement, None, true, &outside)
            .await
            .unwrap_err();
        assert!(
            matches!(error, ConfinementFailureReason::Failed(_)),
            "{helper}: {error:?}"
        );
        assert!(error.reason_text().contains(why), "{helper}: {error}");
    }
    // A helper that reports success, but lets commands read the canary file.
    let mut confinement = confinement(&fixture);
    confinement.read.push(outside.clone());
    if let Err(error) = detect_confinement(confinement, None, true, &outside).await {
        let known = ["read files outside its folders", "Landlock"];
        assert!(
            known
                .iter()
                .any(|words| error.reason_text().contains(words)),
            "{error}"
        );
        assert!(
            matches!(error, ConfinementFailureReason::Missing(_)),
            "{error:?}"
        );
    } else {
        panic!("it was not found out");
    }
    let left: Vec<_> = fs::read_dir(outside).unwrap().collect();
    assert_eq!(left.len(), 1, "no canary is left: {left:?}");
}

#[tokio::test]
async fn bash_is_refused_by_name_or_says_that_nothing_confines_it() {
    let mut fixture = Fixture::new();
    fixture.tools = tools(
        &fixture,
        CommandConfinementMode::Refused("there is no way".to_owned()),
    );
    let said = fixture
        .error("bash", json!({"command": "touch made"}))
        .await;
    assert!(
        said.contains("`bash` is refused") && said.contains("there is no way"),
        "{said}"
    );
    assert!(said.contains("rind doctor"), "{said}");
    assert!(!fixture.inside("made").exists());

    fixture.tools = tools(
        &fixture,
        CommandConfinementMode::Unconfined {
            why: "there is no way".to_owned(),
            keeper: None,
        },
    );
    fixture.ok("bash", json!({"command": "touch made"})).await;
    let may = |tools: &ToolRegistry, tool: &str| tools.get(tool).unwrap().may.join("; ");
    let said = may(&fixture.tools, "bash");
    assert!(
        said.contains("nothing confines it") && said.contains("there is no way"),
        "{said}"
    );
    assert_eq!(may(&fixture.tools, "write_file"), "");
    let free = tools(&fixture, CommandConfinementMode::Free);
    assert_eq!(may(&free, "bash"), "");
}

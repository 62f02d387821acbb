//! Commands that the kernel confines: what they cannot do, and that everything else about them stays as it is.
//!
//! Where the kernel cannot confine anything, these tests say so and check nothing.

#![allow(clippy::print_stderr, reason = "a test that cannot run here says why")]

use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rind::tool::ToolOutput;
use rind::tool::builtin::{self, Commands};
use rind::tool::process::confine::{
    Confinement, Detected, Mechanism, attempt, bwrap_in, detect, system_folders, tool_folders,
};
use rind::tool::registry::ToolRegistry;
use rind::tool::workspace::Workspace;
use rind_tests::cli::program;
use serde_json::json;

use super::{Fixture, assert_all_gone, until_lines};

fn confinement(fixture: &Fixture) -> Confinement {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let mut read = system_folders();
    read.extend(tool_folders(&home));
    Confinement {
        helper: program().to_owned(),
        mechanism: Mechanism::Landlock,
        write: vec![fixture.inside("")],
        read,
        network: false,
    }
}

async fn detected(confinement: Confinement, fixture: &Fixture) -> Option<Detected> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let bwrap = bwrap_in(std::env::split_paths(&path));
    match detect(confinement, bwrap.as_deref(), &fixture.outside("")).await {
        Ok(detected) => Some(detected),
        Err(why) => {
            eprintln!("skipped: {why}");
            None
        }
    }
}

/// A workspace whose commands run confined, beside a folder that they must not touch.
async fn confined(change: impl FnOnce(&mut Confinement)) -> Option<Fixture> {
    let mut fixture = Fixture::new();
    let mut confinement = confinement(&fixture);
    change(&mut confinement);
    let detected = detected(confinement, &fixture).await?;
    fixture.tools = tools(&fixture, Commands::Confined(detected.confinement));
    Some(fixture)
}

fn tools(fixture: &Fixture, commands: Commands) -> ToolRegistry {
    let workspace = Arc::new(Workspace::open(&fixture.inside("")).unwrap());
    let mut tools = ToolRegistry::default();
    for tool in builtin::all_with(&workspace, commands) {
        tools.add(tool).unwrap();
    }
    tools
}

impl Fixture {
    async fn bash(&self, command: &str) -> ToolOutput {
        self.call("bash", json!({ "command": command })).await
    }

    /// Runs a command that must be refused what it tries.
    async fn refused(&self, command: &str) -> String {
        let output = self.bash(command).await;
        let text = &output.content;
        let is_refused = ["ermission denied", "not permitted", "cross-device link"]
            .iter()
            .any(|words| text.contains(words));
        assert!(output.is_error && is_refused, "{command}: {text}");
        output.content
    }
}

#[tokio::test]
async fn files_outside_cannot_be_read_changed_made_or_removed() {
    let Some(fixture) = confined(|_| {}).await else {
        return;
    };
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
        "ls /tmp",
        "ls /dev/shm",
        "echo x > /etc/rind-test",
        "echo x > /proc/sys/kernel/core_pattern",
    ] {
        let said = fixture
            .refused(&command.replace("OUT", &outside.to_string()))
            .await;
        assert!(!said.contains("the secret"), "{command}: {said}");
    }
    let secret = fs::read_to_string(fixture.outside("secret.txt"));
    assert_eq!(secret.unwrap(), "the secret\n");
    assert_eq!(fs::read_dir(fixture.outside("")).unwrap().count(), 1);
}

#[tokio::test]
async fn the_workspace_and_a_temporary_folder_can_be_written() {
    let Some(fixture) = confined(|_| {}).await else {
        return;
    };
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

#[tokio::test]
async fn there_is_no_network_not_even_on_this_machine() {
    let Some(fixture) = confined(|_| {}).await else {
        return;
    };
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
        fixture.refused(&command).await;
    }
    let none = |error: std::io::Error| error.kind() == ErrorKind::WouldBlock;
    assert!(tcp.accept().is_err_and(none));
    assert!(udp.recv(&mut [0; 8]).is_err_and(none));
    assert!(unix.accept().is_err_and(none));
}

#[tokio::test]
async fn the_network_is_there_when_it_is_allowed() {
    let Some(fixture) = confined(|confinement| confinement.network = true).await else {
        return;
    };
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

#[tokio::test]
async fn what_could_undo_the_confinement_or_reach_other_processes_is_refused() {
    let Some(fixture) = confined(|_| {}).await else {
        return;
    };
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
        // The same through the form with short pointers, and making a namespace with clone.
        syscall("0x40000000 + 101, 0, 0, 0, 0"),
        syscall("56, 0x10000000 + 17, 0, 0, 0, 0"),
    ] {
        if !cfg!(target_arch = "x86_64") && command.starts_with("perl") {
            continue;
        }
        fixture.refused(&command).await;
    }
}

fn syscall(arguments: &str) -> String {
    format!("perl -e 'syscall({arguments}) >= 0 or die $!'")
}

#[tokio::test]
async fn processes_outside_cannot_be_signalled_where_the_kernel_knows_how() {
    let fixture = Fixture::new();
    let confinement = confinement(&fixture);
    let Some(detected) = detected(confinement, &fixture).await else {
        return;
    };
    if detected.report.can_signal {
        eprintln!("skipped: this kernel cannot keep processes from it");
        return;
    }
    let mut fixture = fixture;
    fixture.tools = tools(&fixture, Commands::Confined(detected.confinement));
    let host = std::process::id();
    fixture.refused(&format!("kill -0 {host}")).await;
    fixture.refused("kill -0 $PPID").await;
    fixture
        .ok(
            "bash",
            json!({"command": "sleep 60 & kill $!; wait $!; true"}),
        )
        .await;
}

#[tokio::test]
async fn tools_still_work() {
    let Some(fixture) = confined(|_| {}).await else {
        return;
    };
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

#[tokio::test]
async fn a_program_that_is_not_there_and_one_that_may_not_be_read_are_told_apart() {
    let Some(fixture) = confined(|_| {}).await else {
        return;
    };
    let program = fixture.outside("program");
    fs::write(&program, "#!/bin/sh\necho ran\n").unwrap();
    fs::set_permissions(
        &program,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let said = fixture.refused(program.to_str().unwrap()).await;
    assert!(said.ends_with("[exit code 126]"), "{said}");
    let said = fixture.bash("no-such-program").await;
    assert!(
        said.content.ends_with("[exit code 127]"),
        "{}",
        said.content
    );
}

#[tokio::test]
async fn a_deadline_stops_the_whole_confined_tree() {
    let Some(fixture) = confined(|_| {}).await else {
        return;
    };
    let command = "sleep 60 & echo $!; (sleep 60 & echo $!; wait) & timeout 60 sleep 60 & echo $!; \
                   (setsid sh -c 'echo $$; exec sleep 60' &) ; \
                   bash -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & wait";
    let started = Instant::now();
    let output = fixture
        .error("bash", json!({"command": command, "timeout_seconds": 2}))
        .await;
    assert!(
        output.ends_with("[stopped: it ran longer than 2 s]"),
        "{output}"
    );
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_all_gone(&output, 5);
}

#[tokio::test]
async fn a_confined_command_whose_future_is_dropped_is_stopped_and_its_folder_removed() {
    let Some(fixture) = confined(|_| {}).await else {
        return;
    };
    let command = "echo $TMPDIR > folder; sleep 60 & echo $! > pids; bash -c 'trap \"\" TERM; echo $$ >> pids; \
                   while :; do touch $TMPDIR/x; sleep 0.1; done'";
    let pids = fixture.inside("pids");
    tokio::select! {
        output = fixture.bash(command) => panic!("{}", output.content),
        () = until_lines(&pids, 2) => {}
    }
    let folder = PathBuf::from(fixture.text("folder").trim());
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if !folder.exists() {
            break;
        }
    }
    assert_all_gone(&fixture.text("pids"), 2);
    assert!(!folder.exists(), "{folder:?}");
}

#[tokio::test]
async fn bwrap_does_the_same_where_it_works() {
    let mut fixture = Fixture::new();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(bwrap) = bwrap_in(std::env::split_paths(&path)) else {
        return eprintln!("skipped: there is no bwrap");
    };
    let confinement = Confinement {
        mechanism: Mechanism::Bwrap(bwrap),
        ..confinement(&fixture)
    };
    if let Err(why) = attempt(&confinement, &fixture.outside("")).await {
        return eprintln!("skipped: {why}");
    }
    fixture.tools = tools(&fixture, Commands::Confined(confinement));
    let outside = fixture.outside("");
    let secret = outside.join("secret.txt");
    let said = fixture.bash(&format!("cat {}", secret.display())).await;
    assert!(
        said.is_error && !said.content.contains("the secret"),
        "{}",
        said.content
    );
    fixture
        .bash(&format!(
            "echo x > {}; mkdir -p {}",
            secret.display(),
            outside.join("x").display()
        ))
        .await;
    assert_eq!(fs::read_to_string(&secret).unwrap(), "the secret\n");
    assert_eq!(fs::read_dir(outside).unwrap().count(), 1);
    let output = fixture
        .ok(
            "bash",
            json!({"command": "pwd; echo x > made && cp made $TMPDIR && git --version"}),
        )
        .await;
    assert!(output.contains("/workspace\n"), "{output}");
    assert_eq!(fixture.text("made"), "x\n");
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    fixture
        .refused(&format!("exec 3<>/dev/tcp/127.0.0.1/{port}"))
        .await;
    let output = fixture
        .error("bash", json!({"command": "sleep 60 & setsid sleep 60 & touch here; wait", "timeout_seconds": 2}))
        .await;
    assert!(output.contains("longer than 2 s"), "{output}");
}

#[tokio::test]
async fn a_helper_that_cannot_confine_is_found_out() {
    let fixture = Fixture::new();
    let outside = fixture.outside("");
    for (helper, why) in [
        // It does nothing of what it is asked.
        ("/bin/true", "the helper did not answer"),
        ("/bin/false", "the helper did not work"),
        ("/no/such/helper", "cannot run `/no/such/helper`"),
    ] {
        let mut confinement = confinement(&fixture);
        confinement.helper = PathBuf::from(helper);
        let error = detect(confinement, None, &outside).await.unwrap_err();
        assert!(
            error.contains(why) && error.contains("there is no bwrap"),
            "{helper}: {error}"
        );
    }
    // One that claims to, but lets the canary be read.
    let mut confinement = confinement(&fixture);
    confinement.read.push(outside.clone());
    if let Err(error) = detect(confinement, None, &outside).await {
        let known = ["read files outside its folders", "Landlock"];
        assert!(known.iter().any(|words| error.contains(words)), "{error}");
    } else {
        panic!("it was not found out");
    }
    let left: Vec<_> = fs::read_dir(outside).unwrap().collect();
    assert_eq!(left.len(), 1, "no canary is left: {left:?}");
}

#[tokio::test]
async fn bash_is_refused_by_name_or_says_that_nothing_confines_it() {
    let mut fixture = Fixture::new();
    fixture.tools = tools(&fixture, Commands::Refused("there is no way".to_owned()));
    let said = fixture
        .error("bash", json!({"command": "touch made"}))
        .await;
    assert!(
        said.contains("`bash` is refused") && said.contains("there is no way"),
        "{said}"
    );
    assert!(said.contains("rind doctor"), "{said}");
    assert!(!fixture.inside("made").exists());

    fixture.tools = tools(&fixture, Commands::Unconfined("there is no way".to_owned()));
    fixture.ok("bash", json!({"command": "touch made"})).await;
    let may = |tools: &ToolRegistry, tool: &str| tools.get(tool).unwrap().may.join("; ");
    let said = may(&fixture.tools, "bash");
    assert!(
        said.contains("nothing confines it") && said.contains("there is no way"),
        "{said}"
    );
    assert_eq!(may(&fixture.tools, "write_file"), "");
    let free = tools(&fixture, Commands::Free);
    assert_eq!(may(&free, "bash"), "");
}

//! Tests of servers that a command starts and connects to, and of servers of other processes.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use serde_json::json;

use crate::tool::confine::{confined_by, mechanisms};

/// Returns a command that runs a server and its client over this address family and address.
fn server_and_client(family: &str, address: &str) -> String {
    format!(
        "/usr/bin/python3 -c 'import os, socket
s = socket.socket(socket.{family}); s.bind((\"{address}\", 0)); s.listen()
if os.fork() == 0:
    c = s.accept()[0]; c.sendall(b\"hello\"); os._exit(0)
print(socket.create_connection(s.getsockname()[:2]).recv(9).decode())'"
    )
}

#[tokio::test]
async fn a_command_in_namespaces_reaches_a_server_of_its_own() {
    let has_ipv6 = TcpListener::bind("[::1]:0").is_ok();
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        for (family, address) in [("AF_INET", "127.0.0.1"), ("AF_INET6", "::1")] {
            if address == "::1" && !has_ipv6 {
                continue;
            }
            let output = fixture.bash(&server_and_client(family, address)).await;
            let text = output.content.to_string();
            if mechanism.hides_outside_files_and_processes() {
                assert_eq!(text, "hello\n[exit code 0]", "{mechanism:?} {address}");
            } else {
                assert!(text.contains("not permitted"), "{address}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn servers_of_the_machine_and_other_machines_are_out_of_reach_of_a_command_with_loopback() {
    let tcp = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    let name = format!("rind-test-{port}");
    let unix = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    tcp.set_nonblocking(true).unwrap();
    unix.set_nonblocking(true).unwrap();
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        let python = |code: &str| {
            format!(
                "/usr/bin/python3 -c 'import socket as s, struct, fcntl\n{code}\nprint(\"done\")'"
            )
        };
        let connect = |family: &str, address: &str| {
            python(&format!(
                "s.socket(s.{family}, s.SOCK_STREAM).connect({address})"
            ))
        };
        for command in [
            connect("AF_INET", &format!("(\"127.0.0.1\", {port})")),
            connect("AF_INET", &format!("(\"0.0.0.0\", {port})")),
            connect("AF_INET6", &format!("(\"::ffff:127.0.0.1\", {port})")),
            connect("AF_INET", "(\"192.0.2.1\", 9)"),
            connect("AF_INET6", "(\"2001:db8::1\", 9)"),
            connect("AF_UNIX", &format!("\"\\0{name}\"")),
            python("s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b\"x\", (\"192.0.2.1\", 9))"),
            // Kinds of sockets that no server needs: raw, packet, SCTP, ICMP, vsock, and netlink
            // families other than the one that lists addresses.
            python("s.socket(s.AF_INET, s.SOCK_RAW, 1)"),
            python("s.socket(s.AF_PACKET, s.SOCK_RAW)"),
            python("s.socket(s.AF_INET, s.SOCK_STREAM, 132)"),
            python("s.socket(s.AF_INET, s.SOCK_SEQPACKET, 132)"),
            python("s.socket(s.AF_INET, s.SOCK_DGRAM, 1)"),
            python("s.socket(s.AF_NETLINK, s.SOCK_RAW, 9)"),
            python("s.socket(s.AF_VSOCK, s.SOCK_STREAM)"),
            // Attempts to configure an interface or to create another one or another network
            // namespace.
            python("fcntl.ioctl(s.socket(), 0x8914, struct.pack(\"16sh22x\", b\"lo\", 0))"),
            "ip link add dummy0 type dummy".to_owned(),
            "unshare -n true".to_owned(),
        ] {
            let output = fixture.bash(&command).await;
            assert!(
                output.is_error,
                "{mechanism:?} {command}: {}",
                output.content
            );
        }
        let none = |error: std::io::Error| error.kind() == ErrorKind::WouldBlock;
        assert!(tcp.accept().is_err_and(none), "{mechanism:?}");
        assert!(unix.accept().is_err_and(none), "{mechanism:?}");
        if mechanism.hides_outside_files_and_processes() {
            let output = fixture
                .ok(
                    "bash",
                    json!({"command": "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"}),
                )
                .await;
            let others = output.lines().filter(|line| !line.starts_with('['));
            // The kernel adds tunnel interfaces to every network namespace; they are down.
            let is_down = |name: &str| {
                ["sit", "tunl", "gre", "erspan", "ip"]
                    .iter()
                    .any(|kind| name.starts_with(kind))
            };
            assert!(others.clone().any(|name| name == "lo"), "{output}");
            assert!(
                others.clone().all(|name| name == "lo" || is_down(name)),
                "{output}"
            );
        }
    }
}

#[tokio::test]
async fn a_server_of_one_command_is_out_of_reach_of_another() {
    for mechanism in mechanisms()
        .iter()
        .filter(|mechanism| mechanism.hides_outside_files_and_processes())
    {
        let fixture = confined_by(mechanism, |_| {}).await;
        let serve = "/usr/bin/python3 -c 'import socket, time
s = socket.socket(); s.bind((\"127.0.0.1\", 0)); s.listen()
open(\"port\", \"w\").write(str(s.getsockname()[1])); open(\"ready\", \"w\"); time.sleep(60)'";
        let connect = async {
            while !fixture.inside("ready").exists() {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            fixture.bash("exec 3<>/dev/tcp/127.0.0.1/$(cat port)").await
        };
        tokio::select! {
            output = fixture.bash(serve) => panic!("{}", output.content),
            output = connect => {
                let text = output.content.to_string();
                assert!(text.contains("Connection refused"), "{mechanism:?}: {text}");
            }
        }
        std::fs::remove_file(fixture.inside("ready")).unwrap();
    }
}

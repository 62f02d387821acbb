//! Tests of processes that try to outlive their command, of a command's priority and control group,
//! and of the limits that its result names.

use std::time::{Duration, Instant};

use rind::tool::process::confine::{ConfinementMechanism, Limits};
use serde_json::json;

use crate::tool::confine::{confined_by, kept, mechanisms, n_with, some_time};

/// Perl script of processes that each start a successor and end, for at most 30 s.
const CHAIN: &str = "use POSIX; my $end = time + 30;
for (1 .. 3) {
    next if fork;
    while (time < $end) { exit if fork; LEAVE; }
    exit;
}
sleep 40;";

#[tokio::test]
async fn processes_that_start_others_and_end_do_not_outlive_the_deadline() {
    let mut fixtures = vec![("off".to_owned(), kept())];
    for mechanism in mechanisms() {
        let limit = |limits: &mut Limits| limits.processes = 200;
        let fixture = confined_by(&mechanism, |confine| limit(&mut confine.limits)).await;
        fixtures.push((format!("{mechanism:?}"), fixture));
    }
    for (name, fixture) in fixtures {
        for leave in ["1", "POSIX::setsid()"] {
            let mark = some_time(&fixture);
            fixture.put("chain.pl", CHAIN.replace("LEAVE", leave));
            let command = format!("perl chain.pl {mark}");
            let call = json!({"command": command, "timeout_seconds": 1});
            let started = Instant::now();
            let output = fixture.error("bash", call).await;
            let took = started.elapsed();
            assert!(output.contains("longer than 1 s"), "{name}: {output}");
            assert_eq!(n_with(&mark), 0, "{name} {leave}");
            // An idle machine takes 1.3 s.
            assert!(took < Duration::from_secs(10), "{name} {leave}: {took:?}");
        }
    }
}

#[tokio::test]
async fn a_command_that_starts_as_many_processes_as_it_may_ends_with_its_deadline() {
    for mechanism in [ConfinementMechanism::Namespaces] {
        let fixture = confined_by(&mechanism, |confine| confine.limits.processes = 310).await;
        let mark = some_time(&fixture);
        // A fork bomb that ends by itself after 20 s.
        fixture.put(
            "bomb.pl",
            "my $end = time + 20; while (time < $end) { fork; select(undef, undef, undef, 0.01); }",
        );
        let call = json!({"command": format!("perl bomb.pl {mark}"), "timeout_seconds": 1});
        let output = fixture.error("bash", call).await;
        assert!(output.ends_with("longer than 1 s]"), "{output}");
        assert_eq!(n_with(&mark), 0);
    }
}

#[tokio::test]
async fn a_killed_keeper_leaves_nothing_behind() {
    let fixture = kept();
    let mark = some_time(&fixture);
    let command = format!("sleep {mark} & kill -9 $PPID; sleep {mark}");
    let output = fixture.bash(&command).await;
    assert!(output.is_error, "{}", output.content);
    assert_eq!(n_with(&mark), 0);
}

#[tokio::test]
async fn a_command_has_a_lower_priority_and_cannot_raise_it() {
    let niceness = "cut -d' ' -f19 /proc/self/stat";
    let own = std::fs::read_to_string("/proc/self/stat").unwrap();
    let own: i32 = own
        .rsplit_once(") ")
        .unwrap()
        .1
        .split(' ')
        .nth(16)
        .unwrap()
        .parse()
        .unwrap();
    let expected = format!("{}\n", (own + 5).min(19));
    let output = kept().ok("bash", json!({ "command": niceness })).await;
    assert!(output.starts_with(&expected), "{output}");
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        let output = fixture.ok("bash", json!({ "command": niceness })).await;
        assert!(output.starts_with(&expected), "{mechanism:?}: {output}");
        for command in ["renice -n 0 -p $$", "chrt -f -p 1 $$", "chrt -r -p 1 $$"] {
            let output = fixture.bash(command).await;
            assert!(
                output.is_error,
                "{mechanism:?} {command}: {}",
                output.content
            );
        }
    }
}

#[tokio::test]
async fn a_command_cannot_leave_its_control_group_or_change_it() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        for command in [
            "for f in $(find /sys/fs/cgroup -name cgroup.procs); do (echo $$ > $f) && echo left; done; false",
            "for f in $(find /sys/fs/cgroup -name 'pids.max' -o -name 'cpu.weight'); do (echo 100 > $f) && echo changed; done; false",
            "for f in $(find /sys/fs/cgroup -type d); do mkdir $f/own && echo made; done; false",
        ] {
            let output = fixture.bash(command).await.content.to_string();
            let is_done = |word: &str| output.lines().any(|line| line == word);
            assert!(
                !["left", "changed", "made"].into_iter().any(is_done),
                "{mechanism:?}: {output}"
            );
        }
    }
}

#[tokio::test]
async fn a_command_that_fails_for_its_confinement_is_told_the_setting() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |confine| confine.network = false).await;
        let lookup = "import socket; socket.getaddrinfo('example.com', 80)";
        let rows = [
            (
                format!("/usr/bin/python3 -c \"{lookup}\""),
                "`network = true`",
            ),
            (
                "touch /usr/share/planted".to_owned(),
                "`write` in [sandbox]",
            ),
            ("cat /srv/none/data.csv".to_owned(), "`read` in [sandbox]"),
        ];
        for (command, setting) in rows {
            let output = fixture.error("bash", json!({ "command": command })).await;
            assert!(
                output.contains("[sandbox: ") && output.contains(setting),
                "{mechanism:?} {command}: {output}"
            );
        }
        let output = fixture
            .error("bash", json!({"command": "cat none.txt"}))
            .await;
        assert!(!output.contains("[sandbox: "), "{mechanism:?}: {output}");
    }
}

#[tokio::test]
async fn a_command_that_fails_at_a_limit_is_told_its_setting() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |confine| {
            confine.limits.file_bytes = 1 << 20;
            confine.limits.temporary_bytes = 2 << 20;
            confine.limits.processes = 310;
        })
        .await;
        for command in [
            "head -c 3000000 /dev/zero > a",
            "exec head -c 3000000 /dev/zero > a",
            "/usr/bin/python3 -c 'open(\"a\", \"wb\").write(bytes(3000000))'",
        ] {
            let output = fixture.error("bash", json!({ "command": command })).await;
            assert!(
                output.contains("1 MiB (`file_mb` in [sandbox]"),
                "{mechanism:?} {command}: {output}"
            );
        }
        if mechanism.hides_outside_files_and_processes() {
            let command = "for i in 1 2 3; do head -c 900000 /dev/zero > /tmp/$i || exit; done";
            let output = fixture.error("bash", json!({ "command": command })).await;
            assert!(
                output.contains("2 MiB (`temporary_mb`"),
                "{mechanism:?}: {output}"
            );
        }
        if mechanism == ConfinementMechanism::Namespaces {
            let command = "perl -e 'for (1 .. 400) { my $p = fork; defined $p or die \"fork: $!\"; $p or sleep(9), exit }'";
            let output = fixture.error("bash", json!({ "command": command })).await;
            assert!(
                output.contains("310 processes and threads (`processes`"),
                "{output}"
            );
        }
        let output = fixture
            .error("bash", json!({"command": "echo fork; exit 3"}))
            .await;
        assert_eq!(output, "fork\n[exit code 3]");
    }
}

#[tokio::test]
async fn a_dropped_call_ends_processes_that_start_others() {
    let fixture = kept();
    let mark = some_time(&fixture);
    fixture.put("chain.pl", CHAIN.replace("LEAVE", "POSIX::setsid()"));
    let command = format!("touch ready; perl chain.pl {mark}");
    let ready = fixture.inside("ready");
    tokio::select! {
        output = fixture.bash(&command) => panic!("{}", output.content),
        () = async { while !ready.exists() { tokio::time::sleep(Duration::from_millis(20)).await; } } => {}
    }
    // A search of `/proc` can miss processes that replace each other, so five in a row must find
    // none.
    let mut n_without = 0;
    for _ in 0..200 {
        n_without = if n_with(&mark) == 0 { n_without + 1 } else { 0 };
        if n_without == 5 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(n_without, 5);
}

//! Tests that ordinary commands work under every mechanism.

use serde_json::json;

use crate::tool::confine::{confined_by, mechanisms};

#[tokio::test]
async fn programs_pipes_jobs_and_builds_work() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        for (command, expected) in [
            ("seq 3 | sort -r | head -n 1", "3\n"),
            ("sleep 0.1 & sleep 0.1 & wait; echo done", "done\n"),
            (
                "trap 'echo caught' TERM; kill -TERM $$; echo on",
                "caught\non\n",
            ),
            (
                "(kill -STOP $BASHPID; echo went on) & sleep 0.2; kill -CONT $!; wait",
                "went on\n",
            ),
            ("diff <(echo 1) <(echo 1) && echo same", "same\n"),
            ("cat <<< text; read -t 1 x; echo $?", "text\n1\n"),
            (
                "f=$(mktemp); echo x > $f; cat $f; ls $TMPDIR > /dev/null",
                "x\n",
            ),
            (
                "git init -q r && cd r && echo a > a && git add a && git -c user.name=a -c user.email=b commit -qm x && git mv a b && git stash -q && git checkout -q -b c && git log --format=%s",
                "x\n",
            ),
            (
                "perl -e 'use Socket; socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) or print \"none\n\"; print \"ran\n\"'",
                "ran\n",
            ),
            (
                "mkdir -p p/src; printf '[package]\\nname = \"p\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n[workspace]\\n' > p/Cargo.toml; echo 'fn main() { println!(\"built\"); }' > p/src/main.rs; cd p && cargo run --offline -q 2>/dev/null",
                "built\n",
            ),
            (
                "! command -v node > /dev/null && echo 4 || node -e 'setTimeout(() => console.log(2 + 2), 5)'",
                "4\n",
            ),
            (
                "! command -v python3 > /dev/null && echo 9 || python3 -c 'import subprocess; print(subprocess.check_output([\"echo\", \"9\"]).decode().strip())'",
                "9\n",
            ),
        ] {
            let output = fixture.bash(command).await;
            let text = output.content.text().replace("none\n", "");
            assert!(
                !output.is_error && text.starts_with(expected),
                "{mechanism:?} {command}: {}",
                output.content
            );
        }
    }
}

#[tokio::test]
async fn codes_and_signals_of_a_command_are_its_own() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        for (command, ending) in [
            ("exit 3", "[exit code 3]"),
            ("kill -9 $$", "[ended by signal 9]"),
            ("kill -SEGV $$", "[ended by signal 11]"),
            ("kill -9 0", "[ended by signal 9]"),
            ("no-such-program", "[exit code 127]"),
        ] {
            let output = fixture.bash(command).await.content.to_string();
            assert!(
                output.ends_with(ending),
                "{mechanism:?} {command}: {output}"
            );
        }
    }
}

#[tokio::test]
async fn a_command_that_handles_the_signal_of_its_deadline_gets_the_time_for_it() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        let command = "trap 'echo cleaned > cleaned; exit 0' TERM; while :; do sleep 0.1; done";
        let output = fixture
            .error("bash", json!({"command": command, "timeout_seconds": 1}))
            .await;
        assert!(
            output.contains("ran longer than 1 s"),
            "{mechanism:?}: {output}"
        );
        assert_eq!(fixture.text("cleaned"), "cleaned\n", "{mechanism:?}");
    }
}

#[tokio::test]
async fn nothing_of_other_processes_is_to_be_seen_in_namespaces() {
    for mechanism in mechanisms()
        .into_iter()
        .filter(|mechanism| mechanism.hides_outside_files_and_processes())
    {
        let fixture = confined_by(&mechanism, |_| {}).await;
        let output = fixture.ok("bash", json!({"command": "ls -d /proc/[0-9]* | wc -l; ls -A ~ 2>/dev/null; cat /proc/net/dev | grep -c :"})).await;
        let n: usize = output.lines().next().unwrap().parse().unwrap();
        assert!(n < 8, "{mechanism:?}: {output}");
    }
}

#[tokio::test]
async fn a_command_has_no_capability_but_those_over_its_own_files_and_those_only_as_root() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        let output = fixture
            .ok(
                "bash",
                json!({"command": "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status"}),
            )
            .await;
        let value = |name: &str| {
            let line = output.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim().to_owned()
        };
        let is_root = fixture
            .bash("id -u")
            .await
            .content
            .text()
            .starts_with("0\n");
        // CAP_CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETGID, SETUID and NET_BIND_SERVICE.
        let kept = if is_root {
            "00000000000004db"
        } else {
            "0000000000000000"
        };
        for name in ["CapPrm:", "CapEff:"] {
            assert_eq!(value(name), kept, "{mechanism:?}: {output}");
        }
        for name in ["CapInh:", "CapAmb:"] {
            assert_eq!(value(name), "0000000000000000", "{mechanism:?}: {output}");
        }
        assert_eq!(
            (value("NoNewPrivs:").as_str(), value("Seccomp:").as_str()),
            ("1", "2"),
            "{mechanism:?}"
        );
    }
}

//! Tests of the `bash` tool and its processes.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Fixture, assert_all_gone, is_gone, until_lines};

#[tokio::test]
async fn a_command_answers_with_both_outputs_in_order_and_its_exit_code() {
    let fixture = Fixture::new();
    let output = fixture
        .call(
            "bash",
            json!({"command": "echo one; echo two >&2; echo three; pwd -P; cat; exit 3"}),
        )
        .await;
    let root = fixture.inside("").canonicalize().unwrap();
    let expected = format!("one\ntwo\nthree\n{}\n[exit code 3]", root.display());
    assert_eq!(
        (output.content.to_string(), output.is_error),
        (expected, true)
    );
    assert_eq!(
        fixture.ok("bash", json!({"command": "true"})).await,
        "[exit code 0]"
    );
    let killed = fixture
        .error("bash", json!({"command": "kill -9 $$"}))
        .await;
    assert_eq!(killed, "[ended by signal 9]");
}

#[tokio::test]
async fn long_output_keeps_head_and_tail() {
    let fixture = Fixture::new();
    let output = fixture
        .ok(
            "bash",
            json!({"command": "echo first; seq 1000000; echo last"}),
        )
        .await;
    assert!(output.starts_with("first\n1\n"));
    assert!(output.ends_with("1000000\nlast\n[exit code 0]"));
    assert!(output.contains(" bytes left out …]\n"));
    assert!(output.len() < 1024 * 1024 + 100, "{}", output.len());
}

#[tokio::test]
async fn a_deadline_stops_the_whole_tree() {
    let fixture = Fixture::new();
    // Starts a child, a grandchild, a process in its own process group, an orphan in its own
    // session, and a process that ignores SIGTERM.
    let command = "sleep 60 & echo $!; (sleep 60 & echo $!; wait) & \
                   timeout 60 sleep 60 & echo $!; \
                   (setsid sh -c 'echo $$; exec sleep 60' &) ; \
                   bash -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & \
                   wait";
    let started = Instant::now();
    let output = fixture
        .error("bash", json!({"command": command, "timeout_seconds": 2}))
        .await;
    assert!(
        output.ends_with("[stopped: it ran longer than 2 s]"),
        "{output}"
    );
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
    assert_all_gone(&output, 5);
}

#[tokio::test]
async fn what_a_command_leaves_in_the_background_is_stopped() {
    let fixture = Fixture::new();
    let started = Instant::now();
    let output = fixture
        .ok("bash", json!({"command": "sleep 60 & echo $!"}))
        .await;
    let end = "[exit code 0; processes left in the background were stopped]";
    assert!(output.ends_with(end), "{output}");
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_all_gone(&output, 1);
}

#[tokio::test]
async fn a_cancelled_command_is_stopped_and_tells_what_it_wrote() {
    let fixture = Fixture::new();
    let cancel = fixture.ctx.cancel.clone();
    let pids = fixture.inside("pids");
    tokio::spawn(async move {
        until_lines(&pids, 1).await;
        cancel.cancel();
    });
    let output = fixture
        .error(
            "bash",
            json!({"command": "sleep 60 & echo $! | tee pids; wait"}),
        )
        .await;
    assert!(
        output.starts_with("the call was cancelled while it ran"),
        "{output}"
    );
    assert_all_gone(&output, 1);
    let later = fixture
        .error("bash", json!({"command": "touch later"}))
        .await;
    assert_eq!(later, "cancelled before it ran");
    assert!(!fixture.inside("later").exists());
}

#[tokio::test]
async fn a_command_whose_future_is_dropped_is_stopped() {
    let fixture = Fixture::new();
    let command = "sleep 60 & echo $! >pids; bash -c 'trap \"\" TERM; echo $$ >>pids; while :; do sleep 1; done'";
    let pids = fixture.inside("pids");
    tokio::select! {
        output = fixture.call("bash", json!({"command": command})) => panic!("{}", output.content),
        () = until_lines(&pids, 2) => {}
    }
    let pids = fixture.text("pids");
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if pids.lines().all(|pid| is_gone(pid.parse().unwrap())) {
            break;
        }
    }
    assert_all_gone(&pids, 2);
}

/// A test cannot safely change its environment, so this one runs itself again with a secret in the
/// environment.
#[tokio::test]
async fn a_secret_in_the_environment_does_not_reach_a_command() {
    const SECRET: &str = "RIND_TEST_API_KEY";
    if std::env::var_os(SECRET).is_none() {
        let again = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "tool::command::a_secret_in_the_environment_does_not_reach_a_command",
            ])
            .env(SECRET, "sk-very-secret")
            .env("BASH_ENV", "/dev/null")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&again.stdout);
        assert!(
            again.status.success() && text.contains("1 passed"),
            "{text}"
        );
        return;
    }
    let fixture = Fixture::new();
    let output = fixture.ok("bash", json!({"command": "env"})).await;
    assert!(output.contains("PATH="), "{output}");
    assert!(
        !output.contains("very-secret") && !output.contains("BASH_ENV"),
        "{output}"
    );
}

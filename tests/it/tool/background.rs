//! Tests of background commands of the tools `bash` and `background`.

use std::time::{Duration, Instant};

use rind::tool::background::{BackgroundCommands, MAX_RUNNING_COMMANDS_PER_SESSION};
use serde_json::json;

use super::{Fixture, is_gone};

fn fixture() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.ctx.background = Some(BackgroundCommands::default());
    fixture
}

async fn start(fixture: &Fixture, command: &str) -> String {
    let asked = json!({"command": command, "background": true});
    fixture.ok("bash", asked).await
}

#[tokio::test]
async fn a_command_goes_on_and_its_output_is_read_piece_by_piece_and_it_is_stopped() {
    let fixture = fixture();
    let command = "echo pid $$; n=0; while :; do n=$((n + 1)); echo line $n; sleep 0.1; done";
    let started = start(&fixture, command).await;
    assert!(
        started.ends_with("[started in the background as bg-1; it ends with the session]"),
        "{started}"
    );
    let asked = json!({"id": "bg-1", "wait_seconds": 60, "until": "line 15\n"});
    let read = fixture.ok("background", asked).await;
    assert!(
        read.contains("line 15\n") && read.contains("\n[bg-1 still runs, for "),
        "{read}"
    );
    assert!(!read.contains("line 1\n"), "read before: {started} {read}");
    let listed = fixture.ok("background", json!({})).await;
    assert!(
        listed.starts_with("bg-1 runs since ") && listed.contains("unread lines: echo pid"),
        "{listed}"
    );
    let stopped = fixture
        .ok("background", json!({"id": "bg-1", "stop": true}))
        .await;
    assert!(
        stopped.contains("ended after ") && stopped.ends_with(": stopped: by you]"),
        "{stopped}"
    );
    let pid = started.lines().find_map(|line| line.strip_prefix("pid "));
    assert!(is_gone(pid.unwrap().parse().unwrap()));
    let again = fixture.ok("background", json!({"id": "bg-1"})).await;
    assert!(again.starts_with("[bg-1 ended after "), "{again}");
}

#[tokio::test]
async fn a_command_that_fails_at_once_says_so_and_one_that_ends_later_keeps_its_output() {
    let fixture = fixture();
    let asked = json!({"command": "echo oh; exit 3", "background": true});
    let failed = fixture.error("bash", asked).await;
    assert_eq!(failed, "oh\n[bg-1 ended after 0 s: exit code 3]");
    start(&fixture, "sleep 1.5; printf end").await;
    let ended = fixture
        .ok("background", json!({"id": "bg-2", "wait_seconds": 60}))
        .await;
    assert!(
        ended.starts_with("end\n[bg-2 ended after ") && ended.ends_with(": exit code 0]"),
        "{ended}"
    );
    let asked = json!({"command": "sleep 60", "background": true, "timeout_seconds": 2});
    fixture.ok("bash", asked).await;
    let ended = fixture
        .ok("background", json!({"id": "bg-3", "wait_seconds": 60}))
        .await;
    assert!(
        ended.ends_with("stopped: it ran longer than 2 s]"),
        "{ended}"
    );
    let why = fixture
        .error("background", json!({"id": "bg-9\u{1b}[2J"}))
        .await;
    assert!(
        why.contains("there is no command") && !why.contains('\u{1b}'),
        "{why}"
    );
}

#[tokio::test]
async fn no_more_run_at_once_than_may_and_no_process_is_left_when_all_are_stopped() {
    let fixture = fixture();
    let mut pids = Vec::new();
    for n in 0..MAX_RUNNING_COMMANDS_PER_SESSION {
        // A command that ignores the first signal, closes its output, and starts a process in
        // another session.
        let command = format!(
            "setsid sleep 600 & echo pid $!; echo pid $$; trap '' TERM INT HUP; exec >&- 2>&-; while :; do sleep {n}.7; done"
        );
        let started = start(&fixture, &command).await;
        let found = started.lines().filter_map(|line| line.strip_prefix("pid "));
        pids.extend(found.map(|pid| pid.parse::<u32>().unwrap()));
    }
    assert_eq!(pids.len(), 2 * MAX_RUNNING_COMMANDS_PER_SESSION);
    for _ in 0..50 {
        let asked = json!({"command": "touch started", "background": true});
        let why = fixture.error("bash", asked).await;
        assert!(why.contains("no more may at once: bg-1, bg-2"), "{why}");
    }
    assert!(!fixture.inside("started").exists());
    let commands = fixture.ctx.background.clone().unwrap();
    for command in commands.running_commands() {
        assert!(commands.stop_command(command.id(), "by the user").is_some());
    }
    for command in &commands.commands_of_agent(&fixture.ctx.caller.context.agent) {
        assert_eq!(
            command.wait_until_ended().await.words,
            "stopped: by the user"
        );
    }
    assert!(commands.running_commands().is_empty());
    assert!(pids.iter().all(|pid| is_gone(*pid)), "{pids:?}");
}

#[tokio::test]
async fn output_without_end_is_bounded_and_cleaned_and_does_not_hold_up_a_stop() {
    let fixture = fixture();
    start(
        &fixture,
        "printf '\\033[2J\\033]0;title\\007'; yes | tr '\\n' 'y'; sleep 60",
    )
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let read = fixture.ok("background", json!({"id": "bg-1"})).await;
    assert!(read.len() < 1 << 20, "{}", read.len());
    assert!(read.contains("bytes left out") && !read.contains('\u{1b}'));
    let since = Instant::now();
    fixture
        .ok("background", json!({"id": "bg-1", "stop": true}))
        .await;
    assert!(since.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn a_call_without_a_session_starts_no_command_in_the_background() {
    let fixture = Fixture::new();
    let asked = json!({"command": "touch started", "background": true});
    let why = fixture.error("bash", asked).await;
    assert!(why.contains("belongs to no session"), "{why}");
    assert!(!fixture.inside("started").exists());
}

#[tokio::test]
async fn a_call_that_is_cancelled_while_it_starts_a_command_leaves_none() {
    let fixture = fixture();
    let cancel = fixture.ctx.cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        cancel.cancel();
    });
    let asked = json!({"command": "sleep 600", "background": true});
    let why = fixture.error("bash", asked).await;
    assert!(why.contains("cancelled"), "{why}");
    let commands = fixture.ctx.background.clone().unwrap();
    let own = commands.commands_of_agent(&fixture.ctx.caller.context.agent);
    let end = own[0].wait_until_ended().await;
    assert_eq!(end.words, "stopped: the call that started it was cancelled");
}

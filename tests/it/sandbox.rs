//! Tests of components that harm their host: each is stopped by name, while the turn and the plugins beside it go on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rind::grant::Trust;
use rind::message::{EffectClass, ToolCall, ToolResult};
use rind::point::catalog::{PostTool, PreTool};
use rind::point::dispatch::CombinedHookVerdict;
use rind::point::payload::{FinishedCall, ProposedCall};
use rind::tool::ToolOutput;
use rind_tests::guests::Host;
use rind_tests::session::Session;
use serde_json::json;

fn call() -> ToolCall {
    ToolCall::new("c", "read_file", json!({"path": "a"}))
}

fn proposed() -> ProposedCall {
    ProposedCall {
        call: call(),
        effect_class: EffectClass::Read,
        plugin: None,
        check: Arc::new(|_| Ok(())),
    }
}

fn finished() -> FinishedCall {
    let result = ToolResult {
        call_id: "c".into(),
        name: "read_file".into(),
        content: "as it was".into(),
        is_error: false,
    };
    FinishedCall {
        call: call(),
        result,
        is_refused: false,
        duration_ms: 1,
        plugin: None,
    }
}

/// Opens a session with the hostile guest, set to misbehave in this way, and a well-behaved plugin.
/// The ways `loop` and `sleep` never end and keep the short deadline of the manifest. The others
/// get a longer deadline, so that they reach another limit first, also on a busy machine.
async fn session(how: &str) -> Session {
    let mut host = Host::default();
    host.plugin(Trust::Managed, "hostile", |manifest| match how {
        "loop" | "sleep" => manifest,
        _ => manifest.replace("300ms", "5s"),
    });
    host.set("hostile", "how", how);
    host.plugin(Trust::Managed, "hostile", |manifest| {
        let manifest = manifest.replace("300ms", "5s");
        manifest.replace("name = \"hostile\"", "name = \"neighbour\"")
    });
    let plugins = host.load().await;
    assert!(plugins.left_out.is_empty(), "{:?}", plugins.left_out);
    Session::open(&plugins)
}

/// Checks that a misbehaving hook at a gate refuses the call in time, with the plugin's name, and
/// ends the chain, and that a misbehaving hook that changes a value is skipped and the next
/// plugin's hook runs. Returns the reason of the refusal.
async fn is_stopped(how: &str) -> String {
    let session = session(how).await;
    let started = Instant::now();
    let done = session
        .dispatcher
        .dispatch::<PreTool>(&session.caller, proposed())
        .await;
    let CombinedHookVerdict::Block(said) = done.verdict else {
        panic!("{how}: {:?}", done.verdict)
    };
    assert_eq!(&*said.plugin, "hostile");
    assert_eq!(done.notes, [], "{how}: nobody works on what is refused");
    let done = session
        .dispatcher
        .dispatch::<PostTool>(&session.caller, finished())
        .await;
    assert_eq!(done.verdict, CombinedHookVerdict::Pass, "{how}");
    assert_eq!(
        done.value.result.content, "behaved",
        "{how}: only the neighbour changed it"
    );
    // Two deadlines of 300 ms and what a busy machine adds; without them this would not end at all.
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{how}: {:?}",
        started.elapsed()
    );
    said.text
}

#[tokio::test]
async fn a_guest_that_loops_for_ever_is_stopped_at_its_deadline() {
    assert!(
        is_stopped("loop")
            .await
            .contains("stopped at its deadline of 300 ms")
    );
}

#[tokio::test]
async fn a_guest_that_sleeps_is_stopped_at_its_deadline() {
    assert!(
        is_stopped("sleep")
            .await
            .contains("stopped at its deadline of 300 ms")
    );
}

#[tokio::test]
async fn a_guest_that_panics_is_named_with_what_it_printed() {
    let why = is_stopped("trap").await;
    assert!(
        why.contains("the plugin trapped") && why.contains("broken on purpose"),
        "{why}"
    );
}

#[tokio::test]
async fn a_guest_that_recurses_without_end_traps() {
    assert!(is_stopped("recurse").await.contains("the plugin trapped"));
}

#[tokio::test]
async fn a_guest_that_takes_memory_without_end_is_stopped_at_its_limit() {
    assert!(
        is_stopped("grow")
            .await
            .contains("exceeded a limit: 64 MiB of memory")
    );
}

#[tokio::test]
async fn a_guest_that_returns_more_than_may_come_out_is_stopped() {
    assert!(
        is_stopped("huge-string")
            .await
            .contains("exceeded a limit: 32 MiB of data in one call")
    );
    assert!(
        is_stopped("hundred-megabytes")
            .await
            .contains("exceeded a limit: 64 MiB of memory")
    );
}

#[tokio::test]
async fn a_guest_that_exits_ends_only_itself() {
    assert!(
        is_stopped("exit")
            .await
            .contains("the plugin trapped: Exited with i32 exit status 1")
    );
}

#[tokio::test]
async fn an_error_of_a_guest_cannot_reach_the_terminal_as_control_characters() {
    let why = is_stopped("error").await;
    assert!(why.contains("\\u{1b}[2Jnot today"), "{why}");
}

#[tokio::test]
async fn state_has_an_end() {
    assert!(is_stopped("state-bomb").await.contains("the state is full"));
}

#[tokio::test]
async fn a_flood_of_log_is_cut_off_with_a_notice_and_cannot_forge_lines() {
    let session = session("log-bomb").await;
    session
        .dispatcher
        .dispatch::<PreTool>(&session.caller, proposed())
        .await;
    let log = session.memory.log.lock().unwrap();
    assert_eq!(log.len(), 1000);
    assert_eq!(log[0].2, "line forged: \\u{1b}[31mred\\u{202e}");
    assert!(
        log[999].2.contains("more than 1000 log lines"),
        "{:?}",
        log[999]
    );
}

#[tokio::test]
async fn a_guest_that_talks_much_is_left_to_talk() {
    let session = session("chatter").await;
    for _ in 0..2 {
        let output = session.tool("misbehaving", json!({})).await;
        assert_eq!(output, ToolOutput::ok("behaved"));
    }
}

#[tokio::test]
async fn a_guest_sees_no_environment_no_arguments_and_no_files() {
    let session = session("environment").await;
    let done = session
        .dispatcher
        .dispatch::<PostTool>(&session.caller, finished())
        .await;
    // The neighbour runs later and replaces the content, so the guest's own tool is called to read
    // its result.
    assert_eq!(done.value.result.content, "behaved");
    let ToolOutput {
        content, is_error, ..
    } = session.tool("misbehaving", json!({})).await;
    assert!(!is_error);
    assert_eq!(content, "[] [] Err(NotFound) Err(NotFound)");
}

#[tokio::test]
async fn a_tool_that_never_ends_can_be_dropped_and_the_next_call_gets_a_fresh_instance() {
    let session = session("loop").await;
    let stopped = tokio::time::timeout(
        Duration::from_millis(100),
        session.tool("misbehaving", json!({})),
    )
    .await;
    assert!(stopped.is_err());
    let again = tokio::time::timeout(
        Duration::from_millis(100),
        session.tool("misbehaving", json!({})),
    )
    .await;
    assert!(
        again.is_err(),
        "it can be called again, and is stopped again"
    );
}

#[tokio::test]
async fn a_tool_that_never_ends_is_stopped_at_the_deadline_of_its_manifest() {
    let mut host = Host::default();
    host.plugin(Trust::Managed, "hostile", |manifest| {
        manifest + "\n[limits]\ntimeout = \"200ms\"\n"
    });
    host.set("hostile", "how", "loop");
    let session = Session::open(&host.load().await);
    let output = session.tool("misbehaving", json!({})).await;
    assert!(output.is_error);
    assert_eq!(
        output.content,
        "the tool `misbehaving` of plugin `hostile` failed: the call was stopped at its deadline of 200 ms"
    );
}

#[tokio::test]
async fn an_instance_stays_warm_within_a_session_and_is_never_shared_between_sessions() {
    let mut host = Host::default();
    host.guest("hostile");
    host.set("hostile", "how", "count");
    let plugins = host.load().await;
    for _ in 0..2 {
        let session = Session::open(&plugins);
        for n in ["1", "2", "3"] {
            assert_eq!(session.tool("misbehaving", json!({})).await.content, n);
        }
    }
}

#[tokio::test]
async fn the_process_is_as_it_was_after_all_of_them() {
    for how in ["loop", "trap", "grow", "huge-string", "recurse", "exit"] {
        is_stopped(how).await;
    }
    assert_eq!(
        session("").await.tool("misbehaving", json!({})).await,
        ToolOutput::ok("behaved")
    );
}

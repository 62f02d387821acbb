//! Tests of plugin loops with the host as a library: single runs in a session, and all loops of a
//! host concurrently.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use rind::event::{Event, LoopResult, Stamped};
use rind::grant::Trust;
use rind::host::{HostBuilder, LoopRunError};
use rind::loops::{Error, LoopEndReason, PluginLoopsRunner};
use rind::plugin::loops::{LoopRunResult, MAX_RERUN_REASON_BYTES};
use rind::point::Hook;
use rind::point::caller::Caller;
use rind::point::catalog as at;
use rind::point::failure::{Failure, OnFailure};
use rind::point::outcome as o;
use rind::point::payload::SessionInfo;
use rind::point::registry::HookSpec;
use rind::provider::scripted::{Reply, Script, Scripted};
use rind::tool::policy::{ToolPolicy, ToolPolicyOptions};
use rind::{Host, PluginFolders, Session};
use rind_tests::guests;
use tempfile::TempDir;
use tokio::sync::mpsc::{Receiver, channel};
use tokio_util::sync::CancellationToken;

/// A host with one plugin for each pair of a name and the behavior of its loop.
struct Setup {
    host: Host,
    _folder: TempDir,
}

impl Setup {
    async fn new(loops: &[(&str, &str)]) -> Self {
        Self::with(loops, |host| host).await
    }

    async fn with(loops: &[(&str, &str)], more: impl FnOnce(HostBuilder) -> HostBuilder) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, how) in loops {
            guests::put("looper", folder.path(), |manifest| {
                manifest
                    .replace("name = \"looper\"", &format!("name = \"{name}\""))
                    .replace("default = \"done\"", &format!("default = \"{how}\""))
            });
        }
        let replies = (0..20).map(|_| Reply::text("nothing here")).collect();
        let model = Scripted::new(Script::new(replies));
        let host = Host::builder()
            .provider(Arc::new(model), "test-model")
            .plugins(PluginFolders::new(Trust::Managed, folder.path()));
        Self {
            host: more(host).build().await.unwrap(),
            _folder: folder,
        }
    }

    fn session(&self) -> Session {
        self.host.session().create().unwrap()
    }

    /// Returns the entries of this type in a session.
    fn entries(&self, session: &str, kind: &str) -> Vec<serde_json::Value> {
        let (entries, _) = self.host.store().read_entries(session).unwrap();
        let entries = entries
            .iter()
            .map(|entry| serde_json::to_value(entry).unwrap());
        entries.filter(|entry| entry["type"] == kind).collect()
    }

    /// Runs all loops until they are done or until `is_last` accepts an event.
    async fn serve(&self, is_last: impl Fn(&Event) -> bool) -> Served {
        let (sender, receiver) = channel(16);
        let loops = PluginLoopsRunner::open_sessions(&self.host)
            .unwrap()
            .with_event_sender(sender);
        let cancel = CancellationToken::new();
        let watched = watch(receiver, is_last, &cancel);
        let (ends, events) = tokio::join!(loops.run_all_loops(&cancel), watched);
        let ends = ends.into_iter().map(|end| (end.plugin, end.why));
        Served {
            ends: ends.collect(),
            events,
        }
    }
}

async fn watch(
    mut receiver: Receiver<Stamped>,
    is_last: impl Fn(&Event) -> bool,
    cancel: &CancellationToken,
) -> Vec<Stamped> {
    let mut events = Vec::new();
    while let Some(stamped) = receiver.recv().await {
        if is_last(&stamped.event) {
            cancel.cancel();
        }
        events.push(stamped);
    }
    events
}

struct Served {
    ends: Vec<(String, LoopEndReason)>,
    events: Vec<Stamped>,
}

impl Served {
    fn end(&self, plugin: &str) -> &LoopEndReason {
        let mut ends = self.ends.iter();
        &ends.find(|(name, _)| name == plugin).unwrap().1
    }

    /// Returns the outcomes of the runs of a plugin's loop.
    fn runs(&self, plugin: &str) -> Vec<LoopResult> {
        let events = self.events.iter();
        let runs = events.filter_map(|stamped| match &stamped.event {
            Event::LoopRun {
                plugin: own,
                outcome,
                ..
            } if own == plugin => Some(*outcome),
            _ => None,
        });
        runs.collect()
    }

    /// Returns the pauses of a plugin's loop in milliseconds, each with the number of failures in a
    /// row before it.
    fn waits(&self, plugin: &str) -> Vec<(u64, u32)> {
        let events = self.events.iter();
        let waits = events.filter_map(|stamped| match &stamped.event {
            Event::LoopWait {
                plugin: own,
                delay_ms,
                failures,
                ..
            } if own == plugin => Some((*delay_ms, *failures)),
            _ => None,
        });
        waits.collect()
    }
}

fn never(_: &Event) -> bool {
    false
}

/// Returns a test for the event that the plugin's loop waits after `n` failures in a row.
fn has_failed(plugin: &'static str, n: u32) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::LoopWait { plugin: own, failures, .. } if own == plugin && *failures == n)
}

async fn run_once(session: &mut Session, plugin: &str) -> Result<LoopRunResult, LoopRunError> {
    session.run_loop(plugin, &CancellationToken::new()).await
}

/// Runs the loop once, and returns its reason for another run or the other result.
async fn reason(session: &mut Session, plugin: &str) -> String {
    match run_once(session, plugin).await {
        Ok(LoopRunResult::Again { reason, .. }) => reason,
        other => format!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_done_or_wants_another_and_leaves_an_event_and_an_entry() {
    let setup = Setup::new(&[("heart", "three"), ("clock", "ages")]).await;
    assert_eq!(setup.host.loops(), ["clock", "heart"]);
    let mut session = setup.session();
    let mut events = session.events();
    let names: Vec<String> = session
        .loops()
        .iter()
        .map(|own| own.plugin_name().to_owned())
        .collect();
    assert_eq!(names, ["clock", "heart"]);
    for n in 1..3 {
        let reply = run_once(&mut session, "heart").await.unwrap();
        let reason = format!("beat {n}");
        assert_eq!(
            reply,
            LoopRunResult::Again {
                after: Duration::ZERO,
                reason
            }
        );
    }
    assert_eq!(
        run_once(&mut session, "heart").await.unwrap(),
        LoopRunResult::Done
    );
    let error = run_once(&mut session, "moon").await.unwrap_err();
    assert!(matches!(error, LoopRunError::Unknown { .. }), "{error}");
    let mut outcomes = Vec::new();
    while let Ok(stamped) = events.try_recv() {
        if let Event::LoopRun { outcome, .. } = stamped.event {
            outcomes.push(outcome);
        }
    }
    let expected = [LoopResult::Again, LoopResult::Again, LoopResult::Done];
    assert_eq!(outcomes, expected);
    let id = session.id().clone();
    session.close().await.unwrap();
    let entries = setup.entries(&id, "loop-run");
    assert_eq!(entries.len(), 3);
    assert_eq!(entries[1]["reason"], "beat 2");
    assert_eq!(entries[1]["after_ms"], 0);
    assert_eq!(entries[2]["outcome"], "done");
    // The session can be resumed, and the loop's counter was stored in it.
    let mut again = setup.host.session().resume(&id).unwrap();
    assert_eq!(
        run_once(&mut again, "heart").await.unwrap(),
        LoopRunResult::Done
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn loops_run_side_by_side_until_all_are_done_each_in_its_session() {
    let setup = Setup::new(&[("heart", "three"), ("clock", "done")]).await;
    let loops = PluginLoopsRunner::open_sessions(&setup.host).unwrap();
    let sessions: Vec<String> = loops
        .plugins_with_session_ids()
        .map(|(_, id)| id.to_string())
        .collect();
    assert_ne!(sessions[0], sessions[1]);
    let ends = loops.run_all_loops(&CancellationToken::new()).await;
    assert!(
        ends.iter().all(|end| end.why == LoopEndReason::Done),
        "{ends:?}"
    );
    assert_eq!(setup.entries(&sessions[0], "loop-run").len(), 1);
    assert_eq!(setup.entries(&sessions[1], "loop-run").len(), 3);
    // Sessions of loops are no conversations, so `last` does not find them.
    assert!(setup.host.session().resume("last").is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_loop_there_is_nothing_to_run() {
    let setup = Setup::new(&[]).await;
    assert!(matches!(
        PluginLoopsRunner::open_sessions(&setup.host),
        Err(Error::NoLoop)
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_that_fails_runs_again_after_growing_pauses_and_others_go_on() {
    let setup = Setup::new(&[("bad", "fail"), ("broken", "trap"), ("good", "busy")]).await;
    let served = setup.serve(has_failed("bad", 3)).await;
    assert_eq!(served.waits("bad"), [(1_000, 1), (2_000, 2), (4_000, 3)]);
    assert_eq!(served.waits("broken")[..2], [(1_000, 1), (2_000, 2)]);
    // The good loop runs every 100 ms, for three seconds.
    let good = served.runs("good");
    assert!(good.len() >= 10, "{good:?}");
    assert!(good.iter().all(|outcome| *outcome == LoopResult::Again));
    assert_eq!(*served.end("good"), LoopEndReason::Interrupted);
    let is_told = |stamped: &Stamped| matches!(&stamped.event, Event::LoopRun { reason: Some(why), .. } if why == "the call reported an error: the well is dry\\u{1b}[2K");
    assert!(served.events.iter().any(is_told));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_good_run_pauses_start_over() {
    let setup = Setup::new(&[("shaky", "shaky")]).await;
    let served = setup.serve(never).await;
    let expected = [(1_000, 1), (2_000, 2), (100, 0), (1_000, 1)];
    assert_eq!(served.waits("shaky"), expected);
    assert_eq!(*served.end("shaky"), LoopEndReason::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_that_never_ends_is_stopped_at_its_deadline_and_others_go_on() {
    let setup = Setup::new(&[("spin", "spin"), ("heart", "three")]).await;
    let started = Instant::now();
    let served = setup.serve(has_failed("spin", 1)).await;
    assert!(started.elapsed() < Duration::from_secs(30));
    assert_eq!(*served.end("heart"), LoopEndReason::Done);
    let why = served
        .events
        .iter()
        .find_map(|stamped| match &stamped.event {
            Event::LoopWait { plugin, reason, .. } if plugin == "spin" => Some(reason.clone()),
            _ => None,
        });
    assert_eq!(
        why.unwrap(),
        "the call was stopped at its deadline of 2000 ms"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_that_asks_for_no_pause_runs_ten_times_a_second_at_most() {
    let setup = Setup::new(&[("busy", "busy")]).await;
    let loops = PluginLoopsRunner::open_sessions(&setup.host).unwrap();
    let id = loops.plugins_with_session_ids().next().unwrap().1.clone();
    let cancel = CancellationToken::new();
    let stop = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        cancel.cancel();
    };
    tokio::join!(loops.run_all_loops(&cancel), stop);
    let n = setup.entries(&id, "loop-run").len();
    assert!((2..=21).contains(&n), "{n}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_ends_loops_in_the_middle_of_a_run_and_in_the_longest_pause() {
    let setup = Setup::new(&[("spin", "spin"), ("clock", "ages")]).await;
    let loops = PluginLoopsRunner::open_sessions(&setup.host).unwrap();
    let cancel = CancellationToken::new();
    let stop = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        cancel.cancel();
        Instant::now()
    };
    let (ends, stopped) = tokio::join!(loops.run_all_loops(&cancel), stop);
    assert!(stopped.elapsed() < Duration::from_secs(10));
    assert!(
        ends.iter().all(|end| end.why == LoopEndReason::Interrupted),
        "{ends:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn words_of_a_loop_are_one_short_line_without_secrets() {
    let setup = Setup::new(&[("wordy", "words")]).await;
    let reason = reason(&mut setup.session(), "wordy").await;
    assert!(reason.starts_with("[secret masked: "), "{reason}");
    assert!(
        reason.contains("\\u{1b}[2K") && !reason.contains('\n'),
        "{reason}"
    );
    assert!(reason.len() <= MAX_RERUN_REASON_BYTES, "{}", reason.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_of_another_plugin_refuses_the_tool_call_of_a_loop() {
    let with = |host: HostBuilder| {
        let yes = ToolPolicyOptions {
            yes: true,
            ..ToolPolicyOptions::default()
        };
        let policy = ToolPolicy {
            mode: yes,
            ..ToolPolicy::default()
        };
        host.file_tools()
            .policy(Arc::new(policy))
            .on::<at::PreTool>("gate", |caller, proposed| {
                let chain: Vec<&str> = caller.call_chain.iter().map(|name| &**name).collect();
                let what = format!("no {} for {}", proposed.call.name, chain.join(", "));
                Ok(o::CallOutcome {
                    verdict: o::CallVerdict::Block(what),
                    ..o::CallOutcome::default()
                })
            })
    };
    let setup = Setup::with(&[("heart", "write")], with).await;
    let reason = reason(&mut setup.session(), "heart").await;
    assert!(reason.contains("no write_file for heart"), "{reason}");
    assert!(!setup.host.workspace().join("beat-1.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_need_approval_are_refused_and_questions_have_their_default() {
    let setup = Setup::with(
        &[("heart", "write"), ("asker", "ask")],
        HostBuilder::file_tools,
    )
    .await;
    let mut session = setup.session();
    let said = reason(&mut session, "heart").await;
    assert!(said.starts_with("Error::Denied"), "{said}");
    assert!(!setup.host.workspace().join("beat-1.txt").exists());
    assert_eq!(reason(&mut session, "asker").await, "false");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_runs_of_a_minute_share_the_subagents_of_one_turn() {
    let setup = Setup::new(&[("heart", "agents")]).await;
    let mut session = setup.session();
    let first = reason(&mut session, "heart").await;
    assert!(
        first.starts_with("4 subagents, then Error::Limit"),
        "{first}"
    );
    let second = reason(&mut session, "heart").await;
    assert!(
        second.starts_with("0 subagents, then Error::Limit"),
        "{second}"
    );
    assert!(
        second.contains("its 4 subagents of this minute"),
        "{second}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_of_others_see_the_subagents_of_a_loop() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = seen.clone();
    let with = |host: HostBuilder| {
        host.on::<at::SubagentStart>("watcher", move |_, info| {
            sees.lock().unwrap().push(info.task.clone());
            Ok(o::Observed::default())
        })
    };
    let setup = Setup::with(&[("heart", "agents")], with).await;
    reason(&mut setup.session(), "heart").await;
    assert_eq!(seen.lock().unwrap().len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_that_leaves_too_much_is_not_run_again_and_says_so() {
    let setup = Setup::new(&[("hoarder", "leave")]).await;
    let (sender, receiver) = channel(16);
    let loops = PluginLoopsRunner::open_sessions(&setup.host)
        .unwrap()
        .with_event_sender(sender);
    let cancel = CancellationToken::new();
    let watched = watch(receiver, never, &cancel);
    let (ends, events) = tokio::join!(
        loops.with_max_session_bytes(20_000).run_all_loops(&cancel),
        watched
    );
    let LoopEndReason::Failed(why) = &ends[0].why else {
        panic!("{ends:?}")
    };
    assert!(why.contains("more than the maximum of 20000"), "{why}");
    let is_told = |stamped: &Stamped| matches!(&stamped.event, Event::Notice { text, .. } if text.contains("`hoarder` is not run again"));
    assert!(events.iter().any(is_told));
}

/// A guard that fails after this time.
struct Blind(Duration);

impl Hook<at::SessionStart> for Blind {
    fn call<'a>(
        &'a self,
        _: &'a Caller,
        _: &'a SessionInfo,
    ) -> BoxFuture<'a, Result<o::Observed, Failure>> {
        Box::pin(async {
            tokio::time::sleep(self.0).await;
            Err(Failure::Error("it sees nothing".to_owned()))
        })
    }
}

/// Creates a host with a loop and a guard that fails after this time and then blocks.
async fn guarded(how: &str, after: Duration, is_async: bool) -> Setup {
    let guard = HookSpec {
        on_failure: OnFailure::Block,
        is_async,
        ..HookSpec::for_native_hook::<at::SessionStart>("guard")
    };
    let with = |host: HostBuilder| host.hook::<at::SessionStart>(guard, Arc::new(Blind(after)));
    Setup::with(&[("heart", how)], with).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_does_not_run_when_a_guard_that_must_see_everything_has_failed() {
    let setup = guarded("three", Duration::ZERO, false).await;
    let mut session = setup.session();
    let why = run_once(&mut session, "heart").await.unwrap_err();
    let why = why.to_string();
    assert!(why.contains("stopped") && why.contains("guard"), "{why}");
    // The loop was not called before: this is its first run.
    assert_eq!(reason(&mut session, "heart").await, "beat 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_when_such_a_guard_fails_meanwhile() {
    let setup = guarded("spin", Duration::from_millis(300), true).await;
    let mut session = setup.session();
    let why = run_once(&mut session, "heart").await.unwrap_err();
    let why = why.to_string();
    assert!(why.contains("stopped: plugin guard"), "{why}");
}

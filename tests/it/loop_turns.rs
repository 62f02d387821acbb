//! Waits and turns of loops, through the host as a library.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rind::agent::AgentConfig;
use rind::event::{Event, Stamped};
use rind::grant::Trust;
use rind::host::HostBuilder;
use rind::loops::{LoopEndReason, PluginLoopsRunner};
use rind::plugin::loops::LoopRunResult;
use rind::point::catalog as at;
use rind::point::outcome as o;
use rind::point::payload::Source;
use rind::provider::scripted::{Reply, ReplyUsage, Script, Scripted, ScriptedToolCall};
use rind::tool::policy::{ToolPolicy, ToolPolicyOptions};
use rind::{Host, PluginFolders};
use rind_tests::guests;
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A host with the guest `turner`, whose loop behaves as the setting `how` says.
struct Setup {
    host: Host,
    _folder: TempDir,
}

fn script(text: &str) -> Script {
    let reply = Reply {
        text: Some(text.to_owned()),
        times: Some(0),
        ..Reply::default()
    };
    Script::new(vec![reply])
}

/// A reply that calls a tool and is given once.
fn calling(tool: &str, arguments: Value) -> Reply {
    let call = ScriptedToolCall {
        id: None,
        name: tool.to_owned(),
        arguments,
    };
    Reply {
        tool_calls: vec![call],
        ..Reply::default()
    }
}

/// A policy that allows every call that it would otherwise ask about.
fn yes() -> ToolPolicy {
    let mode = ToolPolicyOptions {
        yes: true,
        ..ToolPolicyOptions::default()
    };
    ToolPolicy {
        mode,
        ..ToolPolicy::default()
    }
}

/// A script that answers after ten seconds.
fn slow() -> Script {
    let mut script = script("slept");
    script.replies[0].delay_ms = 10_000;
    script
}

impl Setup {
    async fn new(how: &str) -> Self {
        Self::with(how, script("fine"), |host| host).await
    }

    async fn with(
        how: &str,
        script: Script,
        more: impl FnOnce(HostBuilder) -> HostBuilder,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::in_folder(folder, how, |manifest| manifest, script, more).await
    }

    async fn in_folder(
        folder: TempDir,
        how: &str,
        manifest: impl FnOnce(String) -> String,
        script: Script,
        more: impl FnOnce(HostBuilder) -> HostBuilder,
    ) -> Self {
        let plugins = folder.path().join("plugins");
        guests::put("turner", &plugins, |text| {
            let how = format!("default = \"{how}\"");
            manifest(text.replace("default = \"done\"", &how))
        });
        let host = Host::builder()
            .provider(Arc::new(Scripted::new(script)), "test-model")
            .home(folder.path().join("home"))
            .workspace(folder.path().join("workspace"))
            .plugins(PluginFolders::new(Trust::Managed, plugins));
        Self {
            host: more(host).build().await.unwrap(),
            _folder: folder,
        }
    }

    /// Runs the loop once and returns the reason that it reports.
    async fn reason(&self) -> String {
        let mut session = self.host.session().create().unwrap();
        let reply = session.run_loop("turner", &CancellationToken::new()).await;
        match reply {
            Ok(LoopRunResult::Again { reason, .. }) => reason,
            other => format!("{other:?}"),
        }
    }

    /// Ids of the sessions in which the loop ran turns.
    fn sessions(&self) -> Vec<String> {
        let rows = self.host.store().list().unwrap();
        let ids = rows.into_iter().map(|row| row.id);
        ids.filter(|id| id.starts_with("loop.")).collect()
    }

    fn entries(&self, session: &str, kind: &str) -> Vec<Value> {
        let (entries, _) = self.host.store().read_entries(session).unwrap();
        let entries = entries
            .iter()
            .map(|entry| serde_json::to_value(entry).unwrap());
        entries.filter(|entry| entry["type"] == kind).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_runs_a_turn_in_a_session_of_its_own_that_passes_hooks_and_is_kept() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = seen.clone();
    let setup = Setup::with("turn", script("fine"), |host| {
        host.on::<at::TurnStart>("watcher", move |caller, input| {
            let chain = caller.call_chain.len();
            sees.lock().unwrap().push((input.source, chain));
            Ok(o::InputOutcome::default())
        })
    })
    .await;
    assert_eq!(setup.reason().await, "1 done 1: fine");
    assert_eq!(*seen.lock().unwrap(), [(Source::LoopPlugin, 0)]);
    let sessions = setup.sessions();
    assert_eq!(sessions.len(), 1);
    assert!(sessions[0].starts_with("loop.turner._"), "{sessions:?}");
    let starts = setup.entries(&sessions[0], "turn-start");
    assert_eq!(starts[0]["source"], "loop-plugin");
    // The loop's session is not a person's conversation, so `last` skips it and lists mark it as
    // the loop's.
    assert!(setup.host.session().resume("last").is_ok());
    let rows = setup.host.store().list().unwrap();
    let aside = rows.iter().find(|row| row.id == sessions[0]).unwrap();
    assert_eq!(aside.aside.as_deref(), Some("the loop of turner"));
    let own = rows
        .iter()
        .find(|row| !row.id.starts_with("loop."))
        .unwrap();
    let access = setup.entries(&own.id, "access");
    let is_told = |entry: &Value| entry["record"]["target"] == "turn in a new session";
    assert!(access.iter().any(is_told), "{access:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_session_is_kept_over_runs_and_one_input_id_is_one_turn() {
    let setup = Setup::new("named main").await;
    assert_eq!(setup.reason().await, "1 done 1: fine | 2 done 1: fine");
    assert_eq!(setup.reason().await, "3 done 1: fine | 4 done 1: fine");
    assert_eq!(setup.sessions().len(), 1);
    let setup = Setup::new("once").await;
    assert_eq!(setup.reason().await, "1 done 1: fine | 1 done 1: fine");
    let session = setup.sessions().pop().unwrap();
    assert_eq!(setup.entries(&session, "turn-start").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preset_selects_the_tools_of_the_turn_and_a_model_is_asked_for_one_turn() {
    let tools = |how: &'static str| async move {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sees = seen.clone();
        let setup = Setup::with(how, script("fine"), |host| {
            host.file_tools()
                .on::<at::PreReason>("watcher", move |_, request| {
                    *sees.lock().unwrap() = [&[request.model.clone()][..], &request.tools].concat();
                    Ok(o::RequestOutcome::default())
                })
        })
        .await;
        let reason = setup.reason().await;
        let seen = seen.lock().unwrap().clone();
        (reason, seen)
    };
    let (reason, seen) = tools("preset investigate").await;
    assert_eq!(reason, "1 done 1: fine");
    assert!(seen.contains(&"read_file".to_owned()), "{seen:?}");
    assert!(!seen.contains(&"write_file".to_owned()), "{seen:?}");
    let (_, seen) = tools("preset minimal").await;
    assert_eq!(seen, ["test-model"]);
    let (_, seen) = tools("model other").await;
    assert_eq!(seen[0], "other");
    assert!(seen.contains(&"write_file".to_owned()), "{seen:?}");
    let (reason, seen) = tools("preset investigat").await;
    assert!(reason.contains("did you mean `investigate`?"), "{reason}");
    assert!(seen.is_empty(), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_outside_of_the_preset_is_refused() {
    let mut script = script("fine");
    let arguments = serde_json::json!({"path": "a", "content": "x"});
    script.replies.insert(0, calling("write_file", arguments));
    let setup = Setup::with("preset investigate", script, |host| {
        host.file_tools().policy(Arc::new(yes()))
    })
    .await;
    assert_eq!(setup.reason().await, "1 done 2: fine");
    assert!(!setup.host.workspace().join("a").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_may_not_name_sessions_of_others() {
    let folder = tempfile::tempdir().unwrap();
    for id in ["../x", "", "loop.other.main.00000000", "a/agents/b"] {
        let reason = Setup::new(&format!("existing {id}")).await.reason().await;
        let is_refused = reason.starts_with("Error::Denied") || reason.starts_with("Error::Inv");
        assert!(is_refused, "{id}: {reason}");
    }
    for name in ["..", "a/b", "A", "a.b"] {
        let reason = Setup::new(&format!("named {name}")).await.reason().await;
        assert!(
            reason.starts_with("Error::InvalidInput"),
            "{name}: {reason}"
        );
    }
    // A person's conversation is refused as well, unless the plugin has the effect `session`.
    for (effects, expected) in [
        ("\"external\"", "Error::Denied"),
        ("\"external\", \"session\"", "1 done 1: fine"),
    ] {
        let home = folder.path().join(format!("{}", effects.len()));
        let host = |how: String| {
            Host::builder()
                .provider(Arc::new(Scripted::new(script("fine"))), how)
                .home(home.join("home"))
                .workspace(home.join("workspace"))
        };
        let person = host("test-model".to_owned()).build().await.unwrap();
        let conversation = person.session().create().unwrap();
        let id = conversation.id().to_string();
        drop((conversation, person));
        guests::put("turner", &home.join("plugins"), |text| {
            text.replace(
                "default = \"done\"",
                &format!("default = \"existing {id}\""),
            )
            .replace("\"external\"", effects)
        });
        let plugins = PluginFolders::new(Trust::Managed, home.join("plugins"));
        let host = host("test-model".to_owned()).plugins(plugins);
        let setup = Setup {
            host: host.build().await.unwrap(),
            _folder: tempfile::tempdir().unwrap(),
        };
        let reason = setup.reason().await;
        assert!(reason.starts_with(expected), "{effects}: {reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_are_limited_to_twenty_a_minute_four_at_once_and_one_in_a_session() {
    let flood = Setup::new("flood").await.reason().await;
    let expected = "20 turns, then Error::Limit(\"the loop of plugin `turner` has started its 20 turns of this minute";
    assert!(flood.starts_with(expected), "{flood}");
    let setup = Setup::with("many", slow(), |host| host).await;
    let started = Instant::now();
    let many = setup.reason().await;
    assert!(
        many.starts_with("started; Error::Limit(\"a turn of this loop runs in session"),
        "{many}"
    );
    // The run ends its turns, which would take ten seconds each.
    assert!(started.elapsed() < Duration::from_secs(9));
    for session in setup.sessions() {
        let ends = setup.entries(&session, "turn-end");
        assert!(
            ends.iter().all(|end| end["summary"]["stop"] == "cancelled"),
            "{ends:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_of_a_loop_end_when_they_have_cost_what_a_day_may_cost() {
    let mut script = script("fine");
    script.replies[0].usage = Some(ReplyUsage {
        input_tokens: 1_000,
        ..ReplyUsage::default()
    });
    let config = AgentConfig {
        max_loop_cost_usd: Some(0.0025),
        prices: toml::from_str("test-model = { input = 1.0, output = 1.0 }").unwrap(),
        ..AgentConfig::default()
    };
    let setup = Setup::with("flood", script, |host| host.config(config)).await;
    let reason = setup.reason().await;
    assert!(
        reason.starts_with(
            "3 turns, then Error::Limit(\"turns of the loop of plugin `turner` have cost 0.0030 USD"
        ),
        "{reason}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_was_started_can_be_looked_at_and_stopped() {
    let reason = Setup::with("stop", slow(), |host| host)
        .await
        .reason()
        .await;
    assert!(reason.starts_with("true true | 1 cancelled"), "{reason}");
    assert!(reason.contains("Error::NotFound"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_does_not_count_towards_the_deadline_and_cannot_be_too_short() {
    assert_eq!(Setup::new("sleep").await.reason().await, "timer");
    assert_eq!(Setup::new("busy").await.reason().await, "true");
    // A turn does not count towards the deadline either: this one takes longer than the run may.
    let mut script = script("fine");
    script.replies[0].delay_ms = 3_000;
    let setup = Setup::with("turn", script, |host| host).await;
    assert_eq!(setup.reason().await, "1 done 1: fine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_is_woken_by_changes_in_the_folders_that_it_was_granted() {
    let setup = Setup::new("watch workspace/watched").await;
    let folder = setup.host.workspace().join("watched");
    std::fs::create_dir_all(&folder).unwrap();
    let change = async {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        std::fs::write(folder.join("job.md"), "work").unwrap();
    };
    let (reason, ()) = tokio::join!(setup.reason(), change);
    assert_eq!(
        reason,
        "changed workspace/watched | changed workspace/watched"
    );
    for (how, expected) in [
        ("watch workspace/elsewhere", "Error::Denied"),
        ("watch workspace/watched/../..", "Error::Denied"),
        ("watch /etc", "Error::InvalidInput"),
        ("paths", "Error::Limit"),
    ] {
        let reason = Setup::new(how).await.reason().await;
        assert!(reason.starts_with(expected), "{how}: {reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pipes_and_links_in_a_watched_folder_are_only_looked_at() {
    let setup = Setup::new("watch workspace/watched").await;
    let folder = setup.host.workspace().join("watched");
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink("/dev/zero", folder.join("link.md")).unwrap();
    let change = async {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let made = std::process::Command::new("mkfifo")
            .arg(folder.join("pipe"))
            .status();
        assert!(made.unwrap().success());
    };
    let (reason, ()) = tokio::join!(setup.reason(), change);
    assert_eq!(
        reason,
        "changed workspace/watched | changed workspace/watched"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_and_tools_of_the_plugin_may_neither_wait_nor_run_turns() {
    let mut script = script("fine");
    script
        .replies
        .insert(0, calling("try_turns", serde_json::json!({})));
    let setup = Setup::with("turn", script, |host| host.policy(Arc::new(yes()))).await;
    assert_eq!(setup.reason().await, "1 done 2: fine");
    let session = setup.sessions().pop().unwrap();
    let messages = serde_json::to_string(&setup.entries(&session, "message")).unwrap();
    for import in ["waiting", "turns"] {
        let refused = format!(
            "only the loop of plugin `turner` may use `{import}`, but one of its tools or commands used it"
        );
        assert!(messages.contains(&refused), "{messages}");
    }
}

/// Runs the loops until they end. Meanwhile runs `meanwhile`, which may cancel them.
async fn serve<F: Future<Output = ()>>(
    setup: &Setup,
    meanwhile: impl FnOnce(rind::loops::LoopInboxes, CancellationToken) -> F,
) -> (Vec<LoopEndReason>, Vec<Stamped>) {
    let (sender, mut receiver) = tokio::sync::mpsc::channel(256);
    let loops = PluginLoopsRunner::open_sessions(&setup.host)
        .unwrap()
        .with_event_sender(sender);
    let cancel = CancellationToken::new();
    let beside = meanwhile(loops.inboxes(), cancel.clone());
    let watched = async {
        let mut events = Vec::new();
        while let Some(event) = receiver.recv().await {
            events.push(event);
        }
        events
    };
    let (ends, events, ()) = tokio::join!(loops.run_all_loops(&cancel), watched, beside);
    (ends.into_iter().map(|end| end.why).collect(), events)
}

async fn cancel_after(seconds: u64, cancel: CancellationToken) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    cancel.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_host_ends_every_wait_and_a_loop_that_does_not_heed_it() {
    for (how, expected) in [
        ("forever", LoopEndReason::Done),
        ("deaf", LoopEndReason::Interrupted),
    ] {
        let setup = Setup::new(how).await;
        let ended = Mutex::new(None);
        let (ends, _) = serve(&setup, |_, cancel| {
            let ended = &ended;
            async move {
                cancel_after(2, cancel).await;
                *ended.lock().unwrap() = Some(Instant::now());
            }
        })
        .await;
        assert_eq!(ends, [expected], "{how}");
        let took = ended.lock().unwrap().unwrap().elapsed();
        assert!(took < Duration::from_secs(8), "{how}: {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_host_interrupts_a_turn_in_good_order_and_the_loop_hears_of_both() {
    let setup = Setup::with("waits-in-turn", slow(), |host| host).await;
    let (ends, events) = serve(&setup, |_, cancel| cancel_after(2, cancel)).await;
    assert_eq!(ends, [LoopEndReason::Done]);
    // Events of the turn name the turn's own session.
    let session = setup.sessions().pop().unwrap();
    let is_end = |stamped: &&Stamped| matches!(stamped.event, Event::TurnEnd { .. });
    let end = events.iter().find(is_end).unwrap();
    assert_eq!(end.session.as_deref(), Some(&*session));
    // The interrupted turn ends with its calls closed, so the session can be resumed.
    let ends = setup.entries(&session, "turn-end");
    assert_eq!(ends[0]["summary"]["stop"], "cancelled", "{ends:?}");
    assert!(setup.host.session().resume(&session).is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_ends_with_the_run_that_started_it() {
    let setup = Setup::with("leave", slow(), |host| host).await;
    assert_eq!(setup.reason().await, "left a turn");
    let session = setup.sessions().pop().unwrap();
    let ends = setup.entries(&session, "turn-end");
    assert_eq!(ends[0]["summary"]["stop"], "cancelled", "{ends:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_reach_the_loop_in_order_and_none_waits_for_one_that_is_too_much() {
    let setup = Setup::new("listen").await;
    let (ends, _) = serve(&setup, |inboxes, cancel| async move {
        // A message cannot be sent before the loop runs.
        while inboxes.send_message("turner", "test", "first").is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        inboxes.send_message("turner", "test", "second").unwrap();
        assert!(inboxes.send_message("other", "test", "x").is_err());
        assert!(
            inboxes
                .send_message("turner", "test", "x".repeat(100_000))
                .is_err()
        );
        cancel_after(4, cancel).await;
    })
    .await;
    assert_eq!(ends, [LoopEndReason::Done]);
    let session = setup.sessions().pop().unwrap();
    let starts = setup.entries(&session, "turn-start");
    let inputs: Vec<&Value> = starts.iter().map(|start| &start["input"]).collect();
    assert_eq!(inputs, ["first", "second"]);
}

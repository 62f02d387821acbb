//! The host as a library: what embedders rely on, through the public API alone.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use rind::event::Event;
use rind::grant::Trust;
use rind::host::{Error, HostBuilder};
use rind::message::{EffectClass, Role};
use rind::point::catalog::{PreTool, TurnEnd};
use rind::point::outcome::{CallOutcome, CallVerdict, Observed};
use rind::point::payload::StopReason;
use rind::provider::scripted::{Reply, Script, Scripted};
use rind::tool::builtin::CommandConfinementMode;
use rind::tool::policy::{Decision, Policy, PolicyCall, ToolVerdict};
use rind::tool::subject::{Subject, WorkspacePath};
use rind::tool::{SharedTool, ToolOutput};
use rind::{Host, PluginFolders, Session, plugin, session};
use rind_tests::guests;
use serde_json::json;

use crate::harness::NativeTool;

fn model(replies: Vec<Reply>) -> Arc<Scripted> {
    Arc::new(Scripted::new(Script::new(replies)))
}

fn host(replies: Vec<Reply>) -> HostBuilder {
    Host::builder().provider(model(replies), "test-model")
}

fn write(path: &str) -> Reply {
    Reply::call("write_file", json!({"path": path, "content": "x"}))
}

/// Text of the session's only tool result, and whether it is an error.
fn result(session: &Session) -> (String, bool) {
    let messages = session.messages();
    let message = messages.iter().find(|message| message.role == Role::Tool);
    let result = message.unwrap().tool_results().next().unwrap();
    (result.content.to_string(), result.is_error)
}

/// A policy that lets everything run.
struct Everything;

impl Policy for Everything {
    fn decide(&self, _: &PolicyCall<'_>) -> Decision {
        Decision {
            verdict: ToolVerdict::Allow,
            rule: "everything is allowed here".to_owned(),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_run_side_by_side_over_the_same_compiled_plugins() {
    let folder = tempfile::tempdir().unwrap();
    guests::put("hello", folder.path(), |manifest| manifest);
    let ends = Arc::new(Mutex::new(Vec::new()));
    let heard = ends.clone();
    let host = host(Vec::new())
        .plugins(PluginFolders::new(Trust::Managed, folder.path()))
        .observe(move |event| {
            if let Event::TurnEnd { .. } = event.event {
                heard.lock().unwrap().push(event.session.clone().unwrap());
            }
        });
    let host = host.build().await.unwrap();
    let sessions = (0..6).map(|n| {
        let greet = Reply::call("greet", json!({"name": format!("n{n}")}));
        let model = model(vec![greet, Reply::text(format!("answer {n}"))]);
        let builder = host.session().provider(model, "another-model");
        tokio::spawn(async move {
            let mut session = builder.create().unwrap();
            let mut events = session.events();
            let outcome = session.turn("greet").await.unwrap();
            assert_eq!(outcome.output, format!("answer {n}"));
            assert_eq!(result(&session), (format!("Hello, n{n}!"), false));
            let id = session.id().clone();
            session.close().await.unwrap();
            let mut hooks = 0;
            while let Ok(stamped) = events.try_recv() {
                assert_eq!(stamped.session.as_ref(), Some(&id));
                hooks += usize::from(matches!(stamped.event, Event::Hook { .. }));
            }
            assert!(hooks > 0, "the plugin's hook ran in every session");
            id
        })
    });
    let mut ids = Vec::new();
    for session in sessions.collect::<Vec<_>>() {
        ids.push(session.await.unwrap());
    }
    let mut ended = ends.lock().unwrap().clone();
    ended.sort();
    ids.sort();
    assert_eq!(ended, ids, "the host's observer hears of all of them");
    assert_eq!(host.store().list().unwrap().len(), 6);
}

/// Writes a managed plugin with a gate, whose component is missing.
fn broken_guard(folder: &Path) {
    let guard = folder.join("guard");
    std::fs::create_dir(&guard).unwrap();
    let manifest = "name = \"guard\"\nversion = \"1.0.0\"\ndescription = \"Guards.\"\ncomponent = \"guard.wasm\"\n\
                    side_effects = [\"none\"]\n\n[hooks.pre-tool]\n";
    std::fs::write(guard.join("plugin.toml"), manifest).unwrap();
}

#[tokio::test]
async fn a_guard_that_cannot_run_keeps_the_host_from_being_built_unless_it_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    broken_guard(folder.path());
    let folders = PluginFolders::new(Trust::Managed, folder.path());
    let refused = host(Vec::new()).plugins(folders.clone()).build().await;
    let Err(Error::Plugins(plugin::Error::Relied { .. })) = refused else {
        panic!("{refused:?}");
    };
    let host = host(vec![Reply::text("done")]).plugins(folders.without("guard"));
    let host = host.build().await.unwrap();
    assert_eq!(host.left_out().len(), 1);
    let mut session = host.session().create().unwrap();
    let mut events = session.events();
    session.turn("hello").await.unwrap();
    let told =
        std::iter::from_fn(|| events.try_recv().ok()).find_map(|stamped| match stamped.event {
            Event::PluginLeftOut { plugin, cause, .. } => Some((plugin, cause)),
            _ => None,
        });
    assert_eq!(told, Some(("guard".to_owned(), "switched-off".to_owned())));
}

fn own_tool(runs: &Arc<AtomicUsize>) -> SharedTool {
    let runs = runs.clone();
    let run = move |_| {
        runs.fetch_add(1, Ordering::SeqCst);
        async { ToolOutput::ok("it ran") }.boxed()
    };
    Arc::new(NativeTool::new("own", EffectClass::External, run))
}

#[tokio::test]
async fn native_hooks_and_tools_go_the_way_that_those_of_plugins_go() {
    let runs = Arc::new(AtomicUsize::new(0));
    let call = || vec![Reply::call("own", json!({})), Reply::text("done")];
    // No person can be asked, so the default policy refuses a tool that does more than read.
    let careful = host(call()).tool(own_tool(&runs)).build().await.unwrap();
    let mut session = careful.session().create().unwrap();
    session.turn("go on").await.unwrap();
    let (text, is_error) = result(&session);
    assert!(is_error && text.contains("refused by policy"), "{text}");
    // A hook's refusal comes before the policy.
    let guarded = host(call())
        .tool(own_tool(&runs))
        .policy(Arc::new(Everything))
        .on::<PreTool>("house-rules", |_, proposed| {
            Ok(CallOutcome {
                verdict: CallVerdict::Block(format!("no {} here", proposed.call.name)),
                ..CallOutcome::default()
            })
        });
    let guarded = guarded.build().await.unwrap();
    let mut session = guarded.session().create().unwrap();
    let mut events = session.events();
    session.turn("go on").await.unwrap();
    let (text, is_error) = result(&session);
    assert!(
        is_error && text.contains("refused by plugin house-rules: no own here"),
        "{text}"
    );
    let is_traced = std::iter::from_fn(|| events.try_recv().ok()).any(
        |stamped| matches!(&stamped.event, Event::Hook { record } if &*record.plugin == "house-rules"),
    );
    assert!(is_traced);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    let free = host(call())
        .tool(own_tool(&runs))
        .policy(Arc::new(Everything));
    let mut session = free.build().await.unwrap().session().create().unwrap();
    session.turn("go on").await.unwrap();
    assert_eq!(
        (result(&session), runs.load(Ordering::SeqCst)),
        (("it ran".to_owned(), false), 1)
    );
}

#[tokio::test]
async fn what_does_not_fit_together_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    guests::put("hello", folder.path(), |manifest| manifest);
    let folders = || PluginFolders::new(Trust::Managed, folder.path());
    let text = |built: Result<Host, Error>| built.unwrap_err().to_string();
    let nothing = Host::builder().build().await;
    assert!(matches!(nothing, Err(Error::NoProvider)));
    let hook = host(Vec::new())
        .plugins(folders())
        .on::<TurnEnd>("hello", |_, _| Ok(Observed::default()));
    let refused = text(hook.build().await);
    assert!(
        refused.contains("called `hello`, which is the name of a plugin"),
        "{refused}"
    );
    let runs = Arc::default();
    let tools = host(Vec::new()).tool(own_tool(&runs)).tool(own_tool(&runs));
    let refused = text(tools.build().await);
    assert!(
        refused.contains("`own`") && refused.contains("already taken"),
        "{refused}"
    );
    let inside = host(Vec::new())
        .home(folder.path())
        .workspace(folder.path().join("data"));
    assert!(matches!(inside.build().await, Err(Error::Overlap { .. })));
}

/// An embedder's policy that allows writing notes, and denies calls that a hook wants to have
/// approved.
struct NotesOnly;

impl Policy for NotesOnly {
    fn decide(&self, call: &PolicyCall<'_>) -> Decision {
        let is_note = matches!(
            call.subject,
            Subject::File(WorkspacePath::Known(path)) if path.starts_with("notes/")
        );
        let verdict = if is_note && !call.is_asked {
            ToolVerdict::Allow
        } else {
            ToolVerdict::Deny("only notes are written here".to_owned())
        };
        let rule = "notes only".to_owned();
        Decision { verdict, rule }
    }
}

#[tokio::test]
async fn a_policy_of_ones_own_is_asked_about_every_call_and_told_that_a_hook_asks() {
    for (path, asks, is_written) in [
        ("notes/a.md", false, true),
        ("notes/../b.md", false, false),
        ("notes/a.md", true, false),
    ] {
        let workspace = tempfile::tempdir().unwrap();
        std::fs::create_dir(workspace.path().join("notes")).unwrap();
        let host = host(vec![write(path), Reply::text("done")])
            .workspace(workspace.path())
            .file_tools()
            .policy(Arc::new(NotesOnly))
            .on::<PreTool>("careful", move |_, _| {
                Ok(CallOutcome {
                    verdict: if asks {
                        CallVerdict::Ask("it looks odd".to_owned())
                    } else {
                        CallVerdict::Pass
                    },
                    ..CallOutcome::default()
                })
            });
        let mut session = host.build().await.unwrap().session().create().unwrap();
        session.turn("write").await.unwrap();
        assert_eq!(
            !result(&session).1,
            is_written,
            "{path} {:?}",
            result(&session)
        );
        assert_eq!(workspace.path().join(path).exists(), is_written, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_session_ends_everything_that_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let command = json!({"command": "echo $$ > pid; exec sleep 300"});
    let host = host(vec![Reply::call("bash", command), Reply::text("done")])
        .workspace(folder.path().join("w"))
        .home(folder.path().join("home"))
        .built_in_tools(CommandConfinementMode::Free)
        .policy(Arc::new(Everything))
        .on::<TurnEnd>("ends", |_, _| Ok(Observed::default()));
    let host = host.build().await.unwrap();
    let mut session = host.session().create().unwrap();
    let (mut events, id) = (session.events(), session.id().clone());
    let turn = tokio::spawn(async move { session.turn("wait").await.map(drop) });
    let pid_file = folder.path().join("w/pid");
    let pid = loop {
        match std::fs::read_to_string(&pid_file) {
            Ok(text) if text.ends_with('\n') => break text.trim().to_owned(),
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    turn.abort();
    let over = async { while events.recv().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(30), over)
        .await
        .expect("nobody holds the events of a dropped session");
    let process = format!("/proc/{pid}");
    let gone = async {
        while Path::new(&process).exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let gone = tokio::time::timeout(Duration::from_secs(30), gone);
    gone.await.expect("its command is stopped");
    // Resuming the session closes the call that was open.
    let session = host.session().resume(&id).unwrap();
    assert!(
        result(&session).0.starts_with("[interrupted: "),
        "{:?}",
        result(&session)
    );
}

#[tokio::test]
async fn a_cancelled_turn_ends_in_good_order_and_the_session_goes_on() {
    let host = host(vec![Reply::text("one"), Reply::text("two")]);
    let mut session = host.build().await.unwrap().session().create().unwrap();
    let cancel = tokio_util::sync::CancellationToken::new();
    cancel.cancel();
    let outcome = session.turn("hello").until(&cancel).await.unwrap();
    assert_eq!(outcome.summary.stop, StopReason::Cancelled);
    assert_eq!(
        session.turn("hello").await.unwrap().summary.stop,
        StopReason::Done
    );
}

#[tokio::test]
async fn a_session_goes_on_in_another_host_over_the_same_home_and_is_open_once_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let open = |replies| {
        host(replies)
            .home(folder.path().join("home"))
            .workspace(folder.path().join("w"))
    };
    let first = open(vec![Reply::text("one")]).build().await.unwrap();
    let mut session = first.session().create().unwrap();
    session.turn("begin").await.unwrap();
    let again = first.session().resume(session.id());
    let Err(Error::Session(session::Error::Locked { .. })) = again else {
        panic!("{again:?}");
    };
    session.close().await.unwrap();
    drop(first);
    let second = open(vec![Reply::text("two")]).build().await.unwrap();
    let mut session = second.session().resume("last").unwrap();
    session.turn("and on").await.unwrap();
    let texts: Vec<String> = session
        .messages()
        .iter()
        .map(|message| message.joined_text())
        .collect();
    assert_eq!(texts, ["begin", "one", "and on", "two"]);
}

#[tokio::test]
async fn a_host_without_a_home_leaves_nothing_behind() {
    let host = host(vec![Reply::text("done")]).build().await.unwrap();
    let temporary = host.workspace().parent().unwrap().to_owned();
    let mut session = host.session().create().unwrap();
    session.turn("hello").await.unwrap();
    drop(host);
    assert!(temporary.exists(), "as long as a session is open");
    drop(session);
    assert!(!temporary.exists());
}

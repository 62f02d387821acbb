//! Tests of replacing a plugin while its session is open.

use std::sync::{Arc, Mutex, OnceLock};

use rind::Host;
use rind::event::Event;
use rind::host::{PluginReplaceError, PluginReplacer};
use rind::message::Role;
use rind::plugin::load::FoundPluginSet;
use rind::provider::scripted::{Reply, Script, Scripted};
use rind::tool::policy::{Decision, Policy, PolicyCall, ToolVerdict};
use rind_tests::guests;
use serde_json::json;

struct Everything;

impl Policy for Everything {
    fn decide(&self, _: &PolicyCall<'_>) -> Decision {
        Decision {
            verdict: ToolVerdict::Allow,
            rule: "everything is allowed here".to_owned(),
        }
    }
}

/// Loads a guard that refuses every call with the reason `blocks`, or no call for `None`.
async fn guard(folder: &guests::Host, blocks: Option<&str>) -> FoundPluginSet {
    let mut options = folder.options.clone();
    if let Some(reason) = blocks {
        let answers = toml::toml! { pre-tool = { block = "" } };
        let mut answers = toml::Value::Table(answers);
        answers["pre-tool"]["block"] = reason.into();
        let settings = options
            .settings
            .entry("scripted-hook".to_owned())
            .or_default();
        settings.config.insert("answers".to_owned(), answers);
    }
    FoundPluginSet::load(&options).await.unwrap()
}

fn write(path: &str) -> Reply {
    Reply::call("write_file", json!({"path": path, "content": "x"}))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_guard_acts_from_the_next_step_of_a_running_turn() {
    let mut folder = guests::Host::default();
    folder.guest("scripted-hook");
    let (first, second) = (
        guard(&folder, None).await,
        guard(&folder, Some("not any more")).await,
    );
    let replacer: Arc<OnceLock<PluginReplacer>> = Arc::default();
    let events = Arc::new(Mutex::new(Vec::new()));
    let (replaces, heard) = (replacer.clone(), events.clone());
    let replies = vec![
        write("a"),
        write("b"),
        Reply::text("Done."),
        write("c"),
        Reply::text("Done."),
    ];
    let host = Host::builder()
        .provider(Arc::new(Scripted::new(Script::new(replies))), "test-model")
        .plugins(Arc::new(first))
        .file_tools()
        .policy(Arc::new(Everything))
        .observe(move |event| {
            // The plugin is replaced in the first step, before its call is judged.
            if matches!(event.event, Event::RequestEnd { .. }) && event.step == 1 && event.turn == 1
            {
                let replacer = replaces.get().unwrap();
                replacer.replace_plugin(&second, "scripted-hook").unwrap();
            }
            heard.lock().unwrap().push(event.clone());
        })
        .build()
        .await
        .unwrap();
    let mut session = host.session().create().unwrap();
    let _ = replacer.set(session.replacer());
    session.turn("go").await.unwrap();
    session.turn("go").await.unwrap();
    let workspace = host.workspace().to_owned();
    let is_there: Vec<bool> = ["a", "b", "c"]
        .map(|name| workspace.join(name).exists())
        .into();
    assert_eq!(is_there, [true, false, false]);
    let messages = session.messages();
    let results = messages.iter().filter(|message| message.role == Role::Tool);
    let results: Vec<String> = results
        .flat_map(|message| {
            message
                .tool_results()
                .map(|result| result.content.to_string())
        })
        .collect();
    assert!(results[1].contains("not any more"), "{results:?}");
    let events = events.lock().unwrap();
    let replaced: Vec<(u32, u32)> = events
        .iter()
        .filter(|event| matches!(event.event, Event::PluginReplaced { .. }))
        .map(|event| (event.turn, event.step))
        .collect();
    assert_eq!(replaced, [(1, 2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_replaced_with_their_plugin() {
    let mut folder = guests::Host::default();
    let path = folder.guest("hello");
    let first = FoundPluginSet::load(&folder.options).await.unwrap();
    // The next version has another component, which lacks the tool `greet`.
    guests::put("scripted-hook", &path.join(".."), |manifest| {
        let manifest = manifest.replace("\"scripted-hook\"", "\"hello\"");
        manifest.replace("version = \"0.1.0\"", "version = \"0.2.0\"")
    });
    let second = FoundPluginSet::load(&folder.options).await.unwrap();
    assert!(second.left_out.is_empty(), "{:?}", second.left_out);
    let greet = || Reply::call("greet", json!({"name": "Ada"}));
    let replies = vec![greet(), Reply::text("Done."), greet(), Reply::text("Done.")];
    let host = Host::builder()
        .provider(Arc::new(Scripted::new(Script::new(replies))), "test-model")
        .plugins(Arc::new(first))
        .build()
        .await
        .unwrap();
    let mut session = host.session().create().unwrap();
    let replacer = session.replacer();
    session.turn("go").await.unwrap();
    // The replacement asks for the capability `session`, which the first version did not have.
    let refused = replacer.replace_plugin(&second, "hello");
    match refused {
        Err(PluginReplaceError::Wider { capabilities }) => assert_eq!(capabilities, ["session"]),
        other => panic!("{other:?}"),
    }
    session.turn("go").await.unwrap();
    let results: Vec<String> = session
        .messages()
        .iter()
        .flat_map(|message| {
            message
                .tool_results()
                .map(|result| result.content.to_string())
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(results, ["Hello, Ada!", "Hello, Ada!"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_take_the_place_changes_nothing() {
    let mut folder = guests::Host::default();
    let path = folder.guest("scripted-hook");
    let host = Host::builder()
        .provider(
            Arc::new(Scripted::new(Script::new(vec![
                write("a"),
                Reply::text("Done."),
            ]))),
            "test-model",
        )
        .plugins(Arc::new(guard(&folder, Some("never")).await))
        .file_tools()
        .policy(Arc::new(Everything))
        .build()
        .await
        .unwrap();
    let mut session = host.session().create().unwrap();
    let replacer = session.replacer();
    let unknown = replacer.replace_plugin(&guard(&folder, None).await, "nobody");
    assert!(
        matches!(unknown, Err(PluginReplaceError::Unknown { .. })),
        "{unknown:?}"
    );
    let component = path.join("guest_scripted_hook.wasm");
    std::fs::write(component, "no component").unwrap();
    let broken = replacer.replace_plugin(&guard(&folder, None).await, "scripted-hook");
    assert!(
        matches!(broken, Err(PluginReplaceError::NotLoaded { .. })),
        "{broken:?}"
    );
    session.turn("go").await.unwrap();
    assert!(!host.workspace().join("a").exists());
}

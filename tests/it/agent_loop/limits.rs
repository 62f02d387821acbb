//! Requests of a plugin's agent loop that must not affect other parts of the turn: requests to
//! models with other context windows, with other tools, or outside the conversation. Also plugin
//! versions that may not replace the loop.

use std::sync::atomic::{AtomicU32, Ordering};

use rind::host::PluginReplaceError;
use rind::plugin::load::FoundPluginSet;
use rind::provider::server_text::SanitizedServerText;
use rind::provider::{Error, Provider};

use super::*;
use crate::harness::ProxyProvider;

/// Runs a turn on a server that refuses the first request to `model`.
async fn refused_once(how: &str, model: &'static str) -> (RanTurn, Vec<Value>) {
    let config = AgentConfig {
        loop_models: vec!["*".to_owned()],
        ..ordered_by("orderer")
    };
    let answers = vec![always(Reply::text("fine"))];
    let inner = Arc::new(Scripted::new(Script::new(answers)).with_request_recording());
    let n_refused = AtomicU32::new(0);
    let narrow = ProxyProvider::new("narrow", inner.clone(), move |inner, body, on, cancel| {
        let is_refused = body["model"] == model && n_refused.fetch_add(1, Ordering::Relaxed) == 0;
        Box::pin(async move {
            match is_refused {
                true => Err(Error::WindowExceeded {
                    provider: "narrow".to_owned(),
                    said: SanitizedServerText::new("too long"),
                }),
                false => inner.send(body, on, cancel).await,
            }
        })
    });
    let setup = Setup::with(how, Vec::new(), |host| {
        let host = host.config(config);
        host.provider(narrow, "test-model")
    })
    .await;
    let ran = setup.turn().await;
    assert_eq!(ran.outcome.output, "fine", "{how}");
    (ran, inner.recorded_request_bodies())
}

fn is_shortened(ran: &RanTurn) -> bool {
    let notices = ran.notices();
    notices
        .iter()
        .any(|text| text.contains("longer than the model's context window"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_window_of_another_model_aside_does_not_shorten_the_conversation() {
    let (ran, bodies) = refused_once("ask-aside small", "small").await;
    assert!(!is_shortened(&ran), "{:?}", ran.notices());
    assert!(
        ran.lines()
            .contains(&"User: [plugin orderer] saw true".to_owned())
    );
    assert_eq!(bodies.len(), 1);
    assert_eq!(bodies[0]["model"], "test-model");
    // If the turn's own model refuses a request as too long, the conversation is shortened, even
    // if the request was outside the conversation.
    let (ran, bodies) = refused_once("ask-aside", "test-model").await;
    assert!(is_shortened(&ran));
    assert!(
        ran.lines()
            .contains(&"User: [plugin orderer] saw false".to_owned())
    );
    assert_eq!(bodies.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_note_is_told_once_when_its_request_is_sent_again() {
    let (ran, bodies) = refused_once("note", "test-model").await;
    assert!(is_shortened(&ran));
    let notes = ran.events.iter().filter(|event| {
        matches!(event, Event::Injected { plugin, text, .. } if plugin == "orderer" && text == "a note")
    });
    assert_eq!(notes.count(), 1);
    assert_eq!(bodies.len(), 1);
    assert!(bodies[0].to_string().contains("[plugin orderer] a note"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_a_hook_about_a_request_aside_stays_outside() {
    let answers = vec![always(Reply::text("fine"))];
    let setup = Setup::with("ask-aside", answers, |host| {
        let host = host.config(ordered_by("orderer"));
        host.on::<at::PreReason>("hinter", |caller, _| {
            let hint = o::Injection {
                text: format!("hint {}", caller.context.step),
                keep: true,
            };
            Ok(o::RequestOutcome {
                inject: vec![hint],
                ..Default::default()
            })
        })
    })
    .await;
    let ran = setup.turn().await;
    let lines = ran.lines().join("\n");
    assert!(
        lines.contains("hint 2") && !lines.contains("hint 1"),
        "{lines}"
    );
    let bodies: Vec<String> = setup
        .model
        .recorded_request_bodies()
        .iter()
        .map(Value::to_string)
        .collect();
    assert!(bodies[0].contains("hint 1") && !bodies[1].contains("hint 1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subagent_that_runs_keeps_its_tools_in_the_next_step_of_its_parent() {
    let when = |contains: &str, after_tool: Option<&str>| {
        Some(rind::provider::scripted::ReplyCondition {
            contains: Some(contains.to_owned()),
            after_tool: after_tool.map(str::to_owned),
            ..Default::default()
        })
    };
    let spawn = Reply {
        when: when("write the file", None),
        ..Reply::call(
            "spawn_subagent",
            json!({"task": "look around", "preset": "investigate"}),
        )
    };
    // The step without tools is still running when the subagent finishes.
    let slow = Reply {
        when: when("write the file", Some("spawn_subagent")),
        delay_ms: 4_000,
        ..Reply::text("thought")
    };
    let look = Reply {
        when: when("look around", None),
        delay_ms: 1_000,
        ..Reply::call("read_file", json!({"path": "seen.txt"}))
    };
    let seen = Reply {
        when: when("look around", Some("read_file")),
        ..Reply::text("{tool_result}")
    };
    let mut config = ordered_by("orderer");
    config.subagents.enabled = true;
    let answers = vec![slow, seen, spawn, look];
    let setup = Setup::with("all-then minimal", answers, |host| host.config(config)).await;
    std::fs::create_dir_all(setup.host.workspace()).unwrap();
    std::fs::write(setup.host.workspace().join("seen.txt"), "the tide is high").unwrap();
    let ran = setup.turn().await;
    assert_eq!(ran.outcome.output, "thought");
    let answers = ran.events.iter().filter_map(|event| match event {
        Event::SubagentEnd { answer, .. } => Some(answer.as_str()),
        _ => None,
    });
    let answers: Vec<&str> = answers.collect();
    assert_eq!(answers.len(), 1);
    assert!(answers[0].contains("the tide is high"), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_may_not_order_turns_does_not_take_the_place_of_one_that_does() {
    let mut folder = guests::Host::default();
    folder.guest("orderer");
    let first = Arc::new(FoundPluginSet::load(&folder.options).await.unwrap());
    let mut narrow = guests::Host::default();
    // A component of the same name without an agent loop.
    narrow.plugin(Trust::Managed, "hello", |manifest| {
        manifest.replace("name = \"hello\"", "name = \"orderer\"")
    });
    let second = FoundPluginSet::load(&narrow.options).await.unwrap();
    assert!(second.left_out.is_empty(), "{:?}", second.left_out);
    let answers = vec![always(Reply::text("fine"))];
    let host = |config: AgentConfig| {
        Host::builder()
            .provider(
                Arc::new(Scripted::new(Script::new(answers.clone()))),
                "test-model",
            )
            .plugins(first.clone())
            .config(config)
            .build()
    };
    let ordered = host(ordered_by("orderer")).await.unwrap();
    let mut session = ordered.session().create().unwrap();
    let refused = session.replacer().replace_plugin(&second, "orderer");
    assert!(
        matches!(refused, Err(PluginReplaceError::AgentLoop)),
        "{refused:?}"
    );
    assert_eq!(session.turn("go").await.unwrap().output, "fine");
    // A plugin may be replaced if its loop does not run the session's turns.
    let plain = host(AgentConfig::default()).await.unwrap();
    let session = plain.session().create().unwrap();
    session
        .replacer()
        .replace_plugin(&second, "orderer")
        .unwrap();
}

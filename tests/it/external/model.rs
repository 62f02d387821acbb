//! Plugins that ask a model: the requests are counted, bounded, visible to other plugins, and not a
//! part of the conversation.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rind::grant::Trust;
use rind::plugin::load::PluginSkipReason;
use rind::point::catalog as at;
use rind::point::outcome as o;
use rind::point::trace::{AccessOutcome, Reached};
use rind::provider::scripted::{Reply, ReplyError, ReplyUsage};
use rind::session::Body;
use rind_tests::guests::Host;
use rind_tests::session::Session;
use serde_json::json;

use super::*;

fn answer(text: &str) -> Reply {
    Reply {
        usage: Some(ReplyUsage {
            input_tokens: 1000,
            output_tokens: 11,
            ..ReplyUsage::default()
        }),
        ..Reply::text(text)
    }
}

#[tokio::test]
async fn asking_counts_in_the_turn_and_is_no_part_of_the_conversation() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = seen.clone();
    let script = vec![act(ask("What is six times seven?")), answer("42"), done()];
    let setup = setup(script)
        .await
        .hook::<at::BeforeProviderRequest>("watcher", |_, _| Ok(Default::default()))
        .hook::<at::PostTool>("watcher", move |caller, _| {
            sees.lock().unwrap().push(caller.context.usage.total());
            Ok(Default::default())
        });
    let mut running = setup.build();
    let outcome = running.turn("go on with the work").await;
    assert_eq!(last_result(&running), "ok: 42 (1011 tokens)");

    assert_eq!(running.request(1), ["user: What is six times seven?"]);
    let body = &running.provider.recorded_request_bodies()[1];
    assert_eq!(body.get("tools"), None);
    assert_eq!(
        (&body["model"], &body["max_tokens"]),
        (&json!("test-model"), &json!(1024))
    );
    assert_eq!(running.lines().len(), 4, "{:?}", running.lines());

    assert!(outcome.summary.usage.total() > 1011);
    assert!(seen.lock().unwrap()[0] > 1011);
    assert_eq!(outcome.summary.steps, 2);
    let asked = entries(&running, "")
        .into_iter()
        .find_map(|body| match body {
            Body::Asked {
                plugin,
                usage,
                model,
                turn,
                step,
                ..
            } => Some((plugin, model, usage.total(), turn, step)),
            _ => None,
        });
    assert_eq!(
        asked.unwrap(),
        ("external".into(), "test-model".into(), 1011, 1, 1)
    );
    let record = &accesses(&running)[0];
    assert_eq!(
        (&*record.plugin, record.reached, record.outcome),
        ("external", Reached::External, AccessOutcome::Done)
    );
    assert_eq!(
        (
            record.target.as_str(),
            record.origin.turn,
            record.origin.step
        ),
        ("model test-model", 1, 1)
    );

    // The plugin's own hook did not fire on its question, and the other plugin's hook did.
    assert_eq!(n_fired(&running, "before-provider-request", "watcher"), 3);
    assert_eq!(n_fired(&running, "before-provider-request", "external"), 2);
}

#[tokio::test]
async fn a_question_is_bounded_and_may_name_a_model() {
    let question =
        json!({"what": "ask", "text": "hi", "model": "small-one", "limit": 4_000_000_000_u32});
    let huge = ask(&"x".repeat((1 << 20) + 1));
    let script = vec![
        act(question),
        answer("hello"),
        act(huge),
        act(ask(" ")),
        done(),
    ];
    let mut running = setup(script).await.build();
    assert_eq!(
        acted(&mut running).await,
        "invalid-input: the prompt is empty"
    );
    let body = &running.provider.recorded_request_bodies()[1];
    assert_eq!(
        (&body["model"], &body["max_tokens"]),
        (&json!("small-one"), &json!(32_000))
    );
    assert_eq!(
        running.lines()[4],
        "tool: limit: the prompt has 1048577 bytes, at most 1048576 are accepted"
    );
    assert_eq!(
        access_lines(&running),
        [
            "model small-one done",
            "model test-model denied",
            "model test-model failed"
        ]
    );
}

#[tokio::test]
async fn a_plugin_that_asks_too_often_in_a_turn_is_refused_until_the_next() {
    let often = json!({"what": "ask", "text": "again", "times": 21});
    let always = Reply {
        when: Some(rind::provider::scripted::ReplyCondition {
            contains: Some("again".into()),
            ..Default::default()
        }),
        times: Some(0),
        ..answer("yes")
    };
    let script = vec![
        always,
        act(often.clone()),
        done(),
        act(ask("again")),
        done(),
    ];
    let mut running = setup(script).await.build();
    let result = acted(&mut running).await;
    let lines: Vec<&str> = result.lines().collect();
    assert!(
        lines[..20]
            .iter()
            .all(|line| *line == "ok: yes (1011 tokens)"),
        "{result}"
    );
    assert_eq!(
        lines[20],
        "limit: plugin `external` has used its 20 questions to the model of this turn"
    );
    running.turn("go on").await;
    assert_eq!(last_result(&running), "ok: yes (1011 tokens)");
}

#[tokio::test]
async fn a_hook_asks_while_the_turn_waits_for_it() {
    let host = host(
        &["external"],
        &[
            (
                "external",
                "pre-tool",
                json!({"what": "ask", "text": "is it safe?"}),
            ),
            ("external", "post-output", ask("what was that?")),
        ],
    );
    let script = vec![
        Reply::call("read_file", json!({"path": "a.txt"})),
        answer("it is"),
        done(),
        answer("a file"),
    ];
    let mut running = setup_of(&host, script).await.build();
    let outcome = running.turn("go on with the work").await;
    let result = last_result(&running);
    assert!(
        result.ends_with("[note from external: ok: it is (1011 tokens)]"),
        "{result}"
    );
    let kept = running
        .session
        .state_get("external", "post-output")
        .unwrap();
    assert_eq!(kept.as_deref(), Some("ok: a file (1011 tokens)"));
    assert!(outcome.summary.usage.total() > 2 * 1011);
}

#[tokio::test]
async fn a_hook_that_must_see_the_request_refuses_it_and_a_failing_provider_is_said() {
    let broken = Reply {
        error: Some(ReplyError {
            status: 400,
            message: "no".into(),
        }),
        ..Reply::default()
    };
    let script = vec![act(ask("one")), broken, done()];
    let mut running = setup(script).await.build();
    let result = acted(&mut running).await;
    assert!(
        result.starts_with("failed: the model gave no answer: "),
        "{result}"
    );

    let script = vec![act(ask("my password is hunter2")), done()];
    let setup = setup(script).await.bind::<at::BeforeProviderRequest>(
        "secrets",
        rind::point::failure::OnFailure::Block,
        Arc::new(Picky),
    );
    let mut running = setup.build();
    let result = acted(&mut running).await;
    assert!(
        result.starts_with("denied: the request was refused by plugin secrets: "),
        "{result}"
    );
    assert_eq!(access_lines(&running), ["model test-model denied"]);
}

/// A hook that fails on a request with a password but without tools, such as a plugin's question.
struct Picky;

impl rind::point::Hook<at::BeforeProviderRequest> for Picky {
    fn call<'a>(
        &'a self,
        _: &'a rind::point::caller::Caller,
        wire: &'a std::sync::Arc<rind::point::payload::WireRequest>,
    ) -> futures_util::future::BoxFuture<'a, Result<o::WireOutcome, rind::point::failure::Failure>>
    {
        let is_question = !wire.body.contains("\"tools\"") && wire.body.contains("hunter2");
        Box::pin(async move {
            if is_question {
                return Err(rind::point::failure::Failure::Error("a secret".into()));
            }
            Ok(o::WireOutcome::default())
        })
    }
}

#[tokio::test]
async fn what_the_manifest_does_not_ask_for_is_refused_at_load_with_the_line_to_add() {
    let table = [
        (
            "model = true\n",
            "the component imports `rind:plugin/model@0.1.1`, which needs `model = true` under `[external]` in plugin.toml",
        ),
        (
            "agents = true\n",
            "the component imports `rind:plugin/agents@0.1.1`, which needs `agents = true` under `[external]` in plugin.toml",
        ),
        (
            "tools = [\"read_file\", \"write_file\", \"bash\", \"act\", \"wait\", \"misbehaving\"]\n",
            "the component imports `rind:plugin/tools-host@0.1.1`, which needs `tools = [\"NAME\"]` under `[external]` in plugin.toml",
        ),
    ];
    for (line, expected) in table {
        let mut host = Host::default();
        host.plugin(Trust::Managed, "external", |manifest| {
            assert!(manifest.contains(line));
            manifest.replace(line, "")
        });
        let plugins = host.load().await;
        let PluginSkipReason::Failed(error) = &plugins.left_out[0].why else {
            panic!("{:?}", plugins.left_out);
        };
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn hooks_of_a_plugin_that_may_ask_may_take_longer() {
    let deadline = async |manifest: fn(String) -> String| {
        let mut host = Host::default();
        host.plugin(Trust::Managed, "every-point", manifest);
        let session = Session::open(&host.load().await);
        let registry = session.dispatcher.registry();
        let specs = registry.hook_specs();
        let spec = specs.iter().find(|spec| spec.point == "pre-tool").unwrap();
        spec.deadline
    };
    let plain = deadline(|text| text.replace("priority = 7", "timeout = \"40s\"")).await;
    assert_eq!(plain, Duration::from_secs(5));
    let longer = deadline(|text| {
        text.replace("[\"session\"]", "[\"session\", \"external\"]")
            .replace(
                "priority = 7",
                "timeout = \"40s\"\n[external]\nmodel = true",
            )
    })
    .await;
    assert_eq!(longer, Duration::from_secs(40));
    let most = deadline(|text| {
        text.replace("[\"session\"]", "[\"session\", \"external\"]")
            .replace(
                "priority = 7",
                "timeout = \"400s\"\n[external]\nagents = true",
            )
    })
    .await;
    assert_eq!(most, Duration::from_secs(60));
    let unsaid = deadline(|text| {
        text.replace("[\"session\"]", "[\"session\", \"external\"]") + "[external]\nmodel = true\n"
    })
    .await;
    assert_eq!(unsaid, Duration::from_secs(5));
}

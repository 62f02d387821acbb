//! Plugins that call tools: the calls are judged like those of the model, name the plugin, and do
//! not appear in the conversation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rind::event::Event;
use rind::message::{EffectClass, ToolResult};
use rind::point::catalog as at;
use rind::point::outcome as o;
use rind::session::Body;
use rind::tool::ToolOutput;
use rind::tool::approval::ApprovalAnswer;
use rind::tool::policy::{PolicyRule, RuleDecision};

use super::*;
use crate::harness::{NativeTool, check_pairs, session_spec};

#[tokio::test]
async fn a_skill_keeps_from_plugins_what_it_keeps_from_the_model() {
    let script = vec![
        Reply::call("skill", json!({"skill": "look"})),
        act(call("bash", json!({"command": "touch touched"}))),
        act(run("touch it", &["bash"])),
        act(read("a.txt")),
        done(),
    ];
    let mut setup = setup(script).await;
    let look = crate::skill_session::only("look", &["act", "read_file"]);
    setup.skills = rind::skill::SessionSkills::new([look], Vec::new());
    let mut running = setup.build();
    let outcome = running.turn("go on with the work").await;
    assert_eq!(outcome.output, "done");
    let results = running.results();
    let of_model: Vec<&str> = results.iter().map(|(text, ..)| text.as_str()).collect();
    let refused = of_model
        .iter()
        .filter(|text| text.contains("refused by skill look"));
    // Refusals of the plugin's call, of its tool's report about that call, and of the report about
    // the subagent.
    assert_eq!(refused.count(), 3, "{of_model:?}");
    assert_eq!(last_result(&running), "ok: alpha\n");
    assert!(!running.folder.path().join("w/touched").exists());
}

#[tokio::test]
async fn a_call_of_a_plugin_is_shown_and_kept_and_no_message() {
    let script = vec![act(read("a.txt")), done()];
    let mut running = setup(script).await.build();
    let outcome = running.turn("go on with the work").await;
    assert_eq!(last_result(&running), "ok: alpha\n");
    assert_eq!(outcome.summary.tool_calls, 2);
    assert_eq!(running.lines().len(), 4, "{:?}", running.lines());

    let by: Vec<String> = running
        .events
        .iter()
        .filter_map(|event| match event {
            Event::ToolStart { call, by, .. } => Some(format!("start {} {by:?}", call.name)),
            Event::ToolEnd { result, by, .. } => Some(format!("end {} {by:?}", result.name)),
            _ => None,
        })
        .collect();
    assert_eq!(
        by,
        [
            "start act None",
            "start read_file Some(\"external\")",
            "end read_file Some(\"external\")",
            "end act None",
        ]
    );
    let kept = entries(&running, "");
    let started = kept.iter().find_map(|body| match body {
        Body::ToolStart {
            name,
            arguments,
            by,
            ..
        } if name == "read_file" => Some((arguments.clone(), by.clone())),
        _ => None,
    });
    assert_eq!(
        started.unwrap(),
        (Some(json!({"path": "a.txt"})), Some("external".into()))
    );
    let results: Vec<&ToolResult> = kept
        .iter()
        .filter_map(|body| match body {
            Body::ToolEnd { result, .. } => result.as_ref(),
            _ => None,
        })
        .collect();
    assert_eq!(results.len(), 1);
    assert_eq!(results[0].content, "alpha\n");
    assert_eq!(access_lines(&running), ["tool read_file done"]);

    // A session with such calls can be resumed.
    let (messages, id) = (running.session.messages(), running.session.id().clone());
    let (store, workspace) = (store(&running), running.folder.path().join("w"));
    let folder = running.folder;
    drop((running.agent, running.session));
    let again = store.resume(&id, &session_spec(&workspace)).unwrap();
    assert_eq!(again.messages(), messages);
    assert!(again.notices().is_empty());
    drop(folder);
}

#[tokio::test]
async fn the_final_arguments_of_a_changed_call_are_kept_and_shown() {
    let script = vec![Reply::call("read_file", json!({"path": "a.txt"})), done()];
    let setup = Setup::new(script).hook::<at::PreTool>("mover", |_, _| {
        Ok(o::CallOutcome {
            verdict: o::CallVerdict::Change(json!({"path": "b.txt"}).to_string()),
            ..Default::default()
        })
    });
    let mut running = setup.build();
    running.turn("go on with the work").await;
    let shown = running.events.iter().find_map(|event| match event {
        Event::ToolStart { call, .. } => Some(call.arguments.clone()),
        _ => None,
    });
    assert_eq!(shown.unwrap(), json!({"path": "b.txt"}));
    let kept = entries(&running, "")
        .into_iter()
        .find_map(|body| match body {
            Body::ToolStart { arguments, .. } => arguments,
            _ => None,
        });
    assert_eq!(kept.unwrap(), json!({"path": "b.txt"}));
}

/// Runs a turn in which the guest makes one call, and checks the beginning of the result.
async fn check(setup: Setup, expected: &str) -> Running {
    let mut running = setup.build();
    let result = acted(&mut running).await;
    assert!(result.starts_with(expected), "{result}");
    check_pairs(&running.session.messages());
    running
}

fn write() -> Value {
    call("write_file", json!({"path": "c.txt", "content": "new"}))
}

#[tokio::test]
async fn a_call_meets_schema_gates_policy_and_the_grant() {
    let script = |arguments| vec![act(arguments), done()];
    let wrong = setup(script(call("read_file", json!({"path": 7})))).await;
    check(wrong, "invalid-input: ").await;

    let blocked =
        setup(script(read("a.txt")))
            .await
            .hook::<at::PreTool>("guard", |caller, proposed| {
                if proposed.call.name == "act" {
                    return Ok(o::CallOutcome::default());
                }
                assert_eq!(&*caller.call_chain[0], "external");
                Ok(o::CallOutcome {
                    verdict: o::CallVerdict::Block("not for plugins".into()),
                    ..Default::default()
                })
            });
    let running = check(blocked, "denied: refused by plugin guard: not for plugins").await;
    assert_eq!(access_lines(&running), ["tool read_file denied"]);
    assert_eq!(running.results()[0].2.as_deref(), Some("plugin guard"));

    let mut denied = setup(script(write())).await;
    denied.policy.rules = vec![PolicyRule::for_effect_class(
        EffectClass::Write,
        RuleDecision::Deny,
    )];
    let running = check(denied, "denied: refused by policy: `write_file` is denied").await;
    assert!(!running.folder.path().join("w/c.txt").exists());

    let not_granted = setup(script(call("search", json!({"regex": "x"})))).await;
    let running = check(
        not_granted,
        "denied: plugin `external` was not granted the tool `search`; it was granted: ",
    )
    .await;
    assert_eq!(access_lines(&running), ["tool search denied"]);
    assert!(
        running.results().len() == 1,
        "nothing of it went on the way of calls"
    );

    let own = setup(script(call("act", ask("hi")))).await;
    check(own, "denied: `act` is a tool of plugin `external` itself").await;

    let unknown = setup(script(call("wait", json!({})))).await;
    check(
        unknown,
        "invalid-input: there is no tool `wait` in this step",
    )
    .await;
}

#[tokio::test]
async fn a_call_shows_what_hooks_made_of_its_result() {
    let script = vec![act(read("a.txt")), done()];
    let setup = setup(script)
        .await
        .hook::<at::PostTool>("redact", |_, finished| {
            Ok(o::ResultOutcome {
                content: Some(vec![
                    finished
                        .result
                        .content
                        .text()
                        .replace("alpha", "[out]")
                        .into(),
                ]),
                inject: vec![o::Injection {
                    text: "mind it".into(),
                    keep: true,
                }],
                ..Default::default()
            })
        });
    let running = check(setup, "ok: [out]\n\n[note from redact: mind it]").await;
    assert_eq!(n_fired(&running, "post-tool", "redact"), 2);
    assert_eq!(
        n_fired(&running, "post-tool", "external"),
        1,
        "not on its own call"
    );
}

#[tokio::test]
async fn the_question_names_the_plugin_and_always_for_the_model_is_not_for_the_plugin() {
    let script = vec![
        Reply::call("write_file", json!({"path": "d.txt", "content": "x"})),
        act(write()),
        done(),
    ];
    let answers = vec![
        ApprovalAnswer::Always,
        ApprovalAnswer::Yes,
        ApprovalAnswer::No("not there".into()),
    ];
    let running = check(
        setup(script).await.asking(answers),
        "denied: refused by the user: not there",
    )
    .await;
    let asked = running.approver.asked.lock().unwrap();
    let who: Vec<_> = asked
        .iter()
        .map(|q| (q.tool.as_str(), q.by.as_deref()))
        .collect();
    assert_eq!(
        who,
        [
            ("write_file", None),
            ("act", None),
            ("write_file", Some("external"))
        ]
    );
    assert!(asked[2].arguments[0].text == "c.txt");
    assert!(asked[0].may.is_empty());
    let may = asked[1].may.join("; ");
    assert!(
        may.starts_with("read the conversation and change prompts"),
        "{may}"
    );
    assert!(may.contains("ask the model, which costs tokens"), "{may}");
    assert!(may.contains("call the tool write_file"), "{may}");
    // The model is not told about these rights.
    assert!(
        !running.provider.recorded_request_bodies()[0]
            .to_string()
            .contains("which costs tokens")
    );
}

#[tokio::test]
async fn a_dry_run_says_what_the_plugin_may_touch_and_runs_nothing() {
    let mut setup = setup(vec![act(write()), done()]).await;
    setup.policy.mode.dry_run = true;
    let running = check(setup, "dry run, nothing was done. `act` (external) would").await;
    let result = last_result(&running);
    assert!(
        result.contains("plugin external may: read the conversation"),
        "{result}"
    );
    assert!(result.contains("call the tool read_file"), "{result}");
}

#[tokio::test]
async fn a_hook_calls_a_tool_and_does_not_fire_on_that_call() {
    let host = host(&["external"], &[("external", "pre-tool", read("b.txt"))]);
    let script = vec![Reply::call("read_file", json!({"path": "a.txt"})), done()];
    let setup = setup_of(&host, script).await;
    let running = check(setup, "alpha\n\n[note from external: ok: beta]").await;
    assert_eq!(n_fired(&running, "pre-tool", "external"), 1);
}

#[tokio::test]
async fn plugins_that_cause_each_other_are_stopped_at_a_depth() {
    let names = ["p1", "p2", "p3", "p4", "p5", "p6"];
    let settings: Vec<(&str, &str, Value)> = (1..=6)
        .map(|n| {
            // Each plugin reads its own file when the file of the previous plugin is read.
            let mut act = read(&format!("{n}.txt"));
            act["when"] = json!(format!("{}.txt", n - 1));
            (names[n - 1], "pre-tool", act)
        })
        .collect();
    let host = host(&names, &settings);
    let script = vec![Reply::call("read_file", json!({"path": "0.txt"})), done()];
    let setup = setup_of(&host, script).await;
    for n in 0..=6 {
        std::fs::write(setup.workspace().join(format!("{n}.txt")), "text").unwrap();
    }
    let mut running = setup.build();
    let result = acted(&mut running).await;
    assert!(
        result.contains("limit: calls between plugins are nested deeper than 4 levels"),
        "{result}"
    );
    assert_eq!(
        running.results().len(),
        5,
        "the fifth call of a plugin was not made"
    );
}

#[tokio::test]
async fn two_plugins_that_call_tools_side_by_side_do_not_wait_for_each_other() {
    let act = read("a.txt");
    let host = host(
        &["external", "twin"],
        &[
            ("external", "post-output", act.clone()),
            ("twin", "post-output", act),
        ],
    );
    let mut running = setup_of(&host, vec![done()]).await.build();
    let started = Instant::now();
    running.turn("hello there").await;
    // The plugins act in parallel and do not wait for their deadlines of 20 s.
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
    for plugin in ["external", "twin"] {
        let kept = running.session.state_get(plugin, "post-output").unwrap();
        assert_eq!(kept.as_deref(), Some("ok: alpha\n"), "{plugin}");
    }
}

#[tokio::test]
async fn a_call_whose_plugin_was_stopped_ends_for_everybody() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let drops = dropped.clone();
    let wait = NativeTool::new("wait", EffectClass::Read, move |cancelled| {
        let drops = drops.clone();
        Box::pin(async move {
            let _counted = Counted(drops);
            cancelled.cancelled().await;
            std::future::pending::<()>().await;
            ToolOutput::ok("never")
        })
    });
    let mut host = Host::default();
    host.plugin(Trust::Managed, "external", |manifest| {
        manifest.replace(
            "[hooks.post-output]\ntimeout = \"20s\"",
            "[hooks.post-output]\ntimeout = \"200ms\"",
        )
    });
    let act: toml::Value = serde_json::from_value(call("wait", json!({}))).unwrap();
    host.set("external", "post-output", act);
    let mut running = setup_of(&host, vec![done()]).await.tool(wait).build();
    let outcome = running.turn("hello there").await;
    assert_eq!(outcome.output, "done");
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    let [(content, is_error, _)] = &running.results()[..] else {
        panic!("{:?}", running.results());
    };
    assert!(content.starts_with("[dropped: "), "{content}");
    assert!(is_error);
    assert_eq!(access_lines(&running), ["tool wait failed"]);
    assert_eq!(n_fired(&running, "post-output", "external"), 1);
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

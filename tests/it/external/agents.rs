//! Subagents of plugins: no more rights than their parent, visible to all hooks, and ended with the
//! turn.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rind::message::EffectClass;
use rind::point::catalog as at;
use rind::point::outcome as o;
use rind::point::payload::StopReason;
use rind::provider::scripted::{ReplyCondition, ReplyError, ReplyUsage};
use rind::tool::ToolOutput;
use rind::tool::approval::ApprovalAnswer;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::harness::{NativeTool, check_pairs, session_spec};

fn read_call(path: &str) -> Reply {
    Reply::call("read_file", json!({"path": path}))
}

/// Ids of the subagents that started, in order.
fn agents(running: &Running) -> Vec<String> {
    let id = |stamped: &Stamped| match &stamped.event {
        Event::SubagentStart { subagent, .. } => Some(subagent.clone()),
        _ => None,
    };
    running.stream.iter().filter_map(id).collect()
}

#[tokio::test]
async fn a_subagent_works_with_its_tools_and_its_answer_goes_to_the_plugin() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tells = told.clone();
    let (starts, ends) = (told.clone(), told.clone());
    let answer = Reply {
        usage: Some(ReplyUsage {
            input_tokens: 5000,
            output_tokens: 5,
            ..Default::default()
        }),
        ..Reply::text("it says alpha")
    };
    let script = vec![
        act(run("Look into a.txt", &["read_file"])),
        read_call("a.txt"),
        answer,
        done(),
    ];
    let setup = setup(script)
        .await
        .hook::<at::PreTool>("watcher", move |caller, proposed| {
            let context = &caller.context;
            tells.lock().unwrap().push(format!(
                "{} by {} at depth {}",
                proposed.call.name,
                &context.agent[..4],
                context.depth
            ));
            Ok(o::CallOutcome::default())
        })
        .hook::<at::SubagentStart>("watcher", move |_, agent| {
            starts
                .lock()
                .unwrap()
                .push(format!("start: {}", agent.task));
            Ok(o::Observed::default())
        })
        .hook::<at::SubagentEnd>("watcher", move |_, agent| {
            ends.lock()
                .unwrap()
                .push(format!("end: {} {}", agent.answer, agent.is_error));
            Ok(o::Observed::default())
        });
    let mut running = setup.build();
    let outcome = running.turn("go on with the work").await;
    assert_eq!(last_result(&running), "ok: it says alpha");
    assert_eq!(
        *told.lock().unwrap(),
        [
            "act by main at depth 0",
            "start: Look into a.txt",
            "read_file by sub- at depth 1",
            "end: it says alpha false",
        ]
    );
    assert!(outcome.summary.usage.total() > 5005);
    assert_eq!(outcome.summary.steps, 2);

    let bodies = running.provider.recorded_request_bodies();
    let tools: Vec<&Value> = bodies[1]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| &t["name"])
        .collect();
    assert_eq!(tools, ["read_file"]);
    assert!(
        bodies[1]["system"]
            .to_string()
            .contains("You are a subagent")
    );
    assert_eq!(running.request(1), ["user: Look into a.txt"]);
    assert_eq!(running.lines().len(), 4, "{:?}", running.lines());

    // The plugin's own hooks do not fire for the subagent that it runs.
    for point in ["subagent-start", "subagent-end"] {
        assert_eq!(n_fired(&running, point, "external"), 0);
    }
    let inner: Vec<String> = running
        .stream
        .iter()
        .filter(|stamped| !stamped.is_from_main_agent())
        .filter_map(|stamped| match &stamped.event {
            Event::Hook { record } => Some(format!("{} {}", record.point, record.plugin)),
            _ => None,
        })
        .collect();
    assert_eq!(inner, ["pre-tool watcher"]);

    // The subagent's session is stored inside the parent's, refers to it, and is not listed.
    let id = &agents(&running)[0];
    let own = entries(&running, &format!("/agents/{id}"));
    let Body::Session { parent_session, .. } = &own[0] else {
        panic!("{own:?}")
    };
    assert_eq!(parent_session.as_deref(), Some(&**running.session.id()));
    assert!(own.iter().any(|body| matches!(body, Body::ToolEnd { .. })));
    assert_eq!(store(&running).list().unwrap().len(), 1);
    assert_eq!(
        *store(&running).resolve_session_id("last").unwrap(),
        **running.session.id()
    );
    let kept = entries(&running, "");
    let start = kept
        .iter()
        .position(|b| matches!(b, Body::SubagentStart { agent, .. } if agent == id));
    let end = kept
        .iter()
        .position(|b| matches!(b, Body::SubagentEnd { usage, .. } if usage.total() > 5005));
    assert!(start.unwrap() < end.unwrap());
    assert_eq!(access_lines(&running), [format!("agent {id} done")]);
}

#[tokio::test]
async fn a_failing_provider_or_a_refusing_hook_ends_a_subagent_with_its_reason() {
    let broken = Reply {
        error: Some(ReplyError {
            status: 400,
            message: "no".into(),
        }),
        ..Reply::default()
    };
    let script = vec![act(run("one", &[])), broken, act(run("two", &[])), done()];
    let setup = setup(script)
        .await
        .hook::<at::TurnStart>("guard", |caller, input| {
            let is_second = caller.context.depth == 1 && input.text == "two";
            Ok(o::InputOutcome {
                block: is_second.then(|| "not this one".to_owned()),
                ..Default::default()
            })
        });
    let mut running = setup.build();
    assert_eq!(
        acted(&mut running).await,
        "denied: [the input was refused by plugin guard: not this one]"
    );
    let lines = running.lines();
    assert!(
        lines[2].starts_with("tool: failed: [the model gave no answer: "),
        "{lines:?}"
    );
}

#[tokio::test]
async fn a_subagent_has_no_more_than_its_parent() {
    let script = vec![
        act(run("Fly", &["read_file", "fly"])),
        // A tool that the subagent was not given cannot be called.
        act(run("Read", &["read_file"])),
        Reply::call("list_files", json!({})),
        Reply::text("could not"),
        done(),
    ];
    let mut running = setup(script).await.build();
    assert_eq!(acted(&mut running).await, "ok: could not");
    assert!(
        running.lines()[2].starts_with(
            "tool: not-found: there is no tool `fly` to give to a subagent; the tools are: background, bash,"
        ),
        "{:?}",
        running.lines()
    );
    assert_eq!(
        running.request(3)[2],
        "tool!: there is no tool `list_files` in this step; the tools are: read_file"
    );
}

#[tokio::test]
async fn a_subagent_cannot_ask_for_approval() {
    let script = vec![
        act(run("Write", &["write_file"])),
        Reply::call("write_file", json!({"path": "c.txt", "content": "x"})),
        Reply::text("could not"),
        done(),
    ];
    let answers = vec![ApprovalAnswer::Yes, ApprovalAnswer::Yes];
    let mut running = setup(script).await.asking(answers).build();
    acted(&mut running).await;
    assert_eq!(
        running.approver.asked.lock().unwrap().len(),
        1,
        "only about `act`"
    );
    assert!(
        running.request(2)[2].starts_with(
            "tool!: blocked: a subagent cannot ask for approval, and this call needs one; the operator can allow it in the configuration with `tools.rules"
        ),
        "{:?}",
        running.request(2)
    );
    assert!(!running.folder.path().join("w/c.txt").exists());
}

#[tokio::test]
async fn steps_depth_and_number_of_subagents_are_bounded() {
    let mut short = run("Read on and on", &["read_file"]);
    short["limit"] = json!(2);
    let script = vec![act(short), read_call("a.txt"), read_call("a.txt"), done()];
    let mut running = setup(script).await.build();
    let result = acted(&mut running).await;
    assert!(
        result.starts_with("ok: [stopped: the limit of 2 steps"),
        "{result}"
    );

    // The subagent calls the plugin's own tool, while an instance of the plugin waits for that
    // subagent.
    let script = vec![
        act(run("one deep", &["act"])),
        act(run("two deep", &["act"])),
        act(run("three deep", &[])),
        Reply::text("{tool_result}"),
        Reply::text("second: {tool_result}"),
        done(),
    ];
    let mut running = setup(script).await.build();
    assert_eq!(
        acted(&mut running).await,
        "ok: second: ok: limit: subagents are nested at most 2 deep (archival.trigger.depth_cap = 3)"
    );

    let mut often = run("again", &[]);
    often["times"] = json!(5);
    let mut script = vec![act(often)];
    script.extend((0..4).map(|_| Reply::text("yes")));
    script.push(done());
    let mut running = setup(script).await.build();
    assert_eq!(
        acted(&mut running).await,
        "ok: yes\nok: yes\nok: yes\nok: yes\nlimit: plugin `external` has used its 4 subagents of this turn"
    );
}

#[tokio::test]
async fn a_subagent_ends_with_the_turn() {
    for from_hook in [false, true] {
        let cancel = CancellationToken::new();
        let user = cancel.clone();
        let wait = NativeTool::new("wait", EffectClass::Read, move |cancelled| {
            user.cancel();
            Box::pin(async move {
                cancelled.cancelled().await;
                ToolOutput::ok("half done")
            })
        });
        let task = run("Wait", &["wait"]);
        let settings = [("external", "post-output", task.clone())];
        let (settings, mut script) = if from_hook {
            (&settings[..], vec![done()])
        } else {
            (&[][..], vec![act(task)])
        };
        script.extend([Reply::call("wait", json!({})), done()]);
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hears = heard.clone();
        let setup = setup_of(&host(&["external"], settings), script)
            .await
            .tool(wait)
            .hook::<at::SubagentEnd>("watcher", move |_, agent| {
                hears
                    .lock()
                    .unwrap()
                    .push((agent.answer.clone(), agent.is_error));
                Ok(o::Observed::default())
            });
        let mut running = setup.build();
        let started = Instant::now();
        let outcome = running
            .agent
            .turn("go on with the work")
            .until(&cancel)
            .await
            .unwrap();
        assert_eq!(outcome.summary.stop, StopReason::Cancelled);
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{:?}",
            started.elapsed()
        );
        running.drain();
        let names = running.names();
        assert_eq!(names.last(), Some(&"turn-end"), "{names:?}");
        assert!(names.contains(&"subagent-end"), "{names:?}");
        assert_eq!(
            *heard.lock().unwrap(),
            [("the turn was interrupted".to_owned(), true)]
        );
        // The subagent's session is complete, including the result of its interrupted call.
        let id = &agents(&running)[0];
        let own = entries(&running, &format!("/agents/{id}"));
        let messages: Vec<_> = own
            .iter()
            .filter_map(|body| match body {
                Body::Message { message } => Some(message.clone()),
                _ => None,
            })
            .collect();
        check_pairs(&messages);
        assert!(matches!(own.last(), Some(Body::TurnEnd { .. })), "{own:?}");
    }
}

#[tokio::test]
async fn a_turn_with_subagents_and_calls_of_plugins_can_be_interrupted_anywhere() {
    let host = host(
        &["external"],
        &[("external", "pre-tool", {
            let mut act = read("b.txt");
            act["when"] = json!("a.txt");
            act
        })],
    );
    let mut n_cancelled = 0;
    for n in 0.. {
        let script = vec![
            act(run("Look into a.txt", &["read_file"])),
            read_call("a.txt"),
            Reply::text("alpha"),
            read_call("a.txt"),
            act(ask("well?")),
            Reply::text("well"),
            done(),
        ];
        let setup = setup_of(&host, script).await;
        let (store, workspace) = (setup.store(), setup.workspace());
        let mut running = setup.build();
        let cancel = CancellationToken::new();
        let started = Instant::now();
        let outcome = {
            let turn = running.agent.turn("go on with the work").until(&cancel);
            tokio::pin!(turn);
            let mut n_events = 0;
            loop {
                if n_events >= n {
                    cancel.cancel();
                }
                tokio::select! {
                    biased;
                    event = running.receiver.recv() => {
                        n_events += 1;
                        running.stream.extend(event);
                    }
                    outcome = &mut turn => break outcome.unwrap(),
                }
            }
        };
        running.drain();
        assert!(started.elapsed() < Duration::from_secs(5), "{n}");
        let messages = running.session.messages();
        check_pairs(&messages);
        assert_eq!(running.names().last(), Some(&"turn-end"), "{n}");
        let count = |name: &str| running.names().iter().filter(|n| **n == name).count();
        assert_eq!(count("subagent-start"), count("subagent-end"), "{n}");
        assert_eq!(count("tool-start"), count("tool-end"), "{n}");
        let id = running.session.id().to_string();
        let folder = running.folder;
        drop((running.agent, running.session));
        let again = store.resume(&id, &session_spec(&workspace)).unwrap();
        assert_eq!(again.messages(), messages, "{n}");
        assert!(again.notices().is_empty());
        drop(folder);
        if outcome.summary.stop != StopReason::Cancelled {
            assert_eq!(outcome.output, "done");
            break;
        }
        n_cancelled += 1;
    }
    assert!(n_cancelled > 40, "{n_cancelled}");
}

#[tokio::test]
async fn a_plugin_runs_subagents_of_presets_side_by_side_and_continues_and_stops_them() {
    let when = |contains: &str, reply: Reply| Reply {
        when: Some(ReplyCondition {
            contains: Some(contains.to_owned()),
            ..ReplyCondition::default()
        }),
        ..reply
    };
    let script = vec![
        act(json!({"what": "side", "text": "investigate"})),
        when("Look into a.txt", Reply::text("alpha")),
        when("Look into b.txt", Reply::text("beta")),
        when("And now?", Reply::text("still alpha")),
        done(),
    ];
    let mut running = setup(script).await.build();
    let result = acted(&mut running).await;
    assert_eq!(
        result,
        "ok: answered: alpha; answered: beta; answered: still alpha; answered: beta; investigate; work; minimal; monitor"
    );
    assert_eq!(running.session.subagents().len(), 2);

    let script = vec![act(json!({"what": "side", "text": "investigat"})), done()];
    let mut running = setup(script).await.build();
    let result = acted(&mut running).await;
    assert!(
        result.starts_with("not-found: there is no preset `investigat`"),
        "{result}"
    );
}

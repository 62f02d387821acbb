//! Tests of calls that an active skill refuses: calls of the model, of subagents and of plugins,
//! also with several skills; and of when a skill ends.

use std::sync::{Arc, Mutex};

use rind::message::EffectClass;
use rind::point::catalog as at;
use rind::point::outcome as o;
use rind::point::payload::StopReason;
use rind::session::Body;
use rind::tool::ToolOutput;

use super::*;
use crate::harness::{NativeTool, check_pairs};

/// Returns who refused each refused call. Checks that the texts say which skill refused and when it
/// ends.
fn refusals(running: &Running) -> Vec<String> {
    let refused = running.results().into_iter();
    let refused = refused.filter_map(|(text, is_error, by)| Some((text, is_error, by?)));
    refused
        .map(|(text, is_error, by)| {
            assert!(is_error);
            assert!(
                text.contains("refused by skill") && text.contains("The skill ends"),
                "{text}"
            );
            by
        })
        .collect()
}

#[tokio::test]
async fn a_tool_that_the_skill_does_not_allow_is_refused_and_the_model_goes_on() {
    let script = vec![
        use_skill("look"),
        bash("touch touched"),
        Reply::call("read_file", json!({"path": "a.txt"})),
        Reply::text("read alpha"),
        bash("touch later"),
        Reply::text("done"),
    ];
    let mut running = setup(script, [only("look", &["read_file", "search"])]).build();
    let outcome = running.turn("look at the work").await;
    assert_eq!(
        (outcome.output.as_str(), outcome.summary.stop),
        ("read alpha", StopReason::Done)
    );
    assert_eq!(refusals(&running), ["skill look"]);
    assert!(!running.folder.path().join("w/touched").exists());
    assert_eq!(told(&running), ["+look by model", "-look turn"]);
    // The next request offers only the tools of the skill, and the refusal lists them.
    assert!(
        tools_of(&running, 0).contains(&"bash".to_owned()),
        "{:?}",
        tools_of(&running, 0)
    );
    assert_eq!(tools_of(&running, 1), ["read_file", "search", "skill"]);
    let (text, ..) = &running.results()[0];
    assert!(
        text.contains("these tools can be called: read_file, search, skill"),
        "{text}"
    );
    check_pairs(&running.session.messages());

    // The skill ended with the turn.
    running.turn("go on with the work").await;
    assert!(running.folder.path().join("w/later").exists());
}

#[tokio::test]
async fn a_subagent_has_no_more_than_the_skill_leaves_whenever_it_was_started() {
    let spawn = |tools: Value| {
        Reply::call(
            "spawn_subagent",
            json!({"task": "touch it", "tools": tools, "wait": true}),
        )
    };
    let script = vec![
        use_skill("look"),
        spawn(json!(["bash"])),
        spawn(json!(["read_file"])),
        // Replies for the subagent.
        bash("touch touched"),
        Reply::text("could not"),
        Reply::text("done"),
    ];
    let mut setup = setup(script, [only("look", &["read_file", "spawn_subagent"])]);
    setup.config.subagents.enabled = true;
    let mut running = setup.build();
    let outcome = running.turn("look at the work").await;
    assert_eq!(outcome.output, "done");
    let results = running.results();
    assert!(
        results[1].1 && results[1].0.contains("refused by skill look"),
        "{results:?}"
    );
    assert!(results[2].0.contains("could not"), "{results:?}");
    assert!(!running.folder.path().join("w/touched").exists());
}

#[tokio::test]
async fn a_skill_of_the_main_agent_holds_in_a_subagent_whatever_that_invokes_itself() {
    for is_active in [true, false] {
        let first = match is_active {
            true => use_skill("look"),
            false => Reply::call("read_file", json!({"path": "a.txt"})),
        };
        // The subagent has the read-only tools, and invokes a skill that allows all tools.
        let script = vec![
            first,
            Reply::call("spawn_subagent", json!({"task": "find it", "wait": true})),
            use_skill("wide"),
            Reply::call("search", json!({"pattern": "alpha"})),
            Reply::text("looked"),
            Reply::text("done"),
        ];
        let skills = [
            only("look", &["read_file", "spawn_subagent"]),
            only("wide", &["*"]),
        ];
        let mut setup = setup(script, skills);
        setup.config.subagents.enabled = true;
        let mut running = setup.build();
        running.turn("look at the work").await;
        let answer = running.provider.recorded_request_bodies()[4]["messages"].to_string();
        assert_eq!(
            answer.contains(
                "there is no tool `search` in this step; the tools are: read_file, skill"
            ),
            is_active,
            "{answer}"
        );
        assert_eq!(answer.contains("a.txt:1"), !is_active, "{answer}");
        let of_look = |line: &&str| is_active || !line.contains("look");
        let all = [
            "+look by model",
            "+wide by model",
            "-wide turn",
            "-look turn",
        ];
        let expected: Vec<&str> = all.into_iter().filter(of_look).collect();
        assert_eq!(told(&running), expected);
    }
}

#[tokio::test]
async fn a_text_that_was_handed_out_and_comes_in_while_a_turn_runs_holds_from_there_on() {
    let handed_out = Arc::new(Mutex::new(String::new()));
    let steered = Arc::new(std::sync::OnceLock::<rind::agent::AgentSteeringHandle>::new());
    let (text, steer) = (handed_out.clone(), steered.clone());
    let script = vec![
        bash("touch before"),
        Reply::text("too early"),
        bash("touch after"),
        Reply::text("done"),
    ];
    let setup = setup(script, [only("look", &["read_file"])]).hook::<at::PostReason>(
        "user",
        move |caller, _| {
            if caller.context.step == 2 {
                let text = text.lock().unwrap().clone();
                let source = rind::point::payload::Source::Terminal;
                steer.get().unwrap().steer(text, source);
            }
            Ok(o::ReplyOutcome::default())
        },
    );
    let mut running = setup.build();
    let nothing = json!("");
    let text = running.agent.invoke_skill("look", &nothing, "/look").await;
    *handed_out.lock().unwrap() = text.unwrap();
    steered.set(running.agent.steering()).unwrap();
    running.turn("go on with the work").await;
    assert_eq!(refusals(&running), ["skill look"]);
    let place = running.folder.path().join("w");
    assert!(place.join("before").exists() && !place.join("after").exists());
    assert_eq!(told(&running), ["+look by user", "-look turn"]);
}

#[tokio::test]
async fn a_further_skill_gives_no_tool_back_and_lists_intersect() {
    let script = vec![
        use_skill("look"),
        use_skill("wide"),
        bash("touch touched"),
        Reply::call("search", json!({"pattern": "alpha"})),
        Reply::call("write_file", json!({"path": "c", "content": ""})),
        Reply::call("read_file", json!({"path": "a.txt"})),
        Reply::text("done"),
    ];
    let mut wide = only("wide", &["*"]);
    wide.tools.deny = patterns(&["search"]);
    let mut running = setup(script, [only("look", &["read_file", "search"]), wide]).build();
    let outcome = running.turn("look at the work").await;
    assert_eq!(outcome.output, "done");
    assert_eq!(
        refusals(&running),
        ["skill look", "skill wide", "skill look"]
    );
    assert_eq!(tools_of(&running, 2), ["read_file", "skill"]);
    let last = running.results().pop().unwrap();
    assert_eq!(last.0, "alpha\n");
}

#[tokio::test]
async fn a_call_that_was_made_beside_the_invocation_is_judged_after_it() {
    let ran = Arc::new(Mutex::new(0));
    let counter = ran.clone();
    let probe = NativeTool::new("probe", EffectClass::Read, move |_| {
        *counter.lock().unwrap() += 1;
        Box::pin(async { ToolOutput::ok("ran") })
    });
    let script = vec![
        use_skill("look")
            .with_tool_call("probe", json!({}))
            .with_tool_call("bash", json!({"command": "touch touched"})),
        Reply::text("done"),
    ];
    let mut running = setup(script, [only("look", &["read_file"])])
        .tool(probe)
        .build();
    running.turn("look at the work").await;
    assert_eq!(refusals(&running), ["skill look", "skill look"]);
    assert_eq!(*ran.lock().unwrap(), 0);
}

#[tokio::test]
async fn no_hook_gives_a_tool_back() {
    let script = vec![
        use_skill("look"),
        bash("touch touched"),
        Reply::text("done"),
    ];
    let setup = setup(script, [only("look", &["read_file"])])
        .hook::<at::PreReason>("eager", |_, request| {
            let mut tools = request.tools.clone();
            tools.push("bash".into());
            Ok(o::RequestOutcome {
                tools: o::NamesChange::Set(tools),
                ..o::RequestOutcome::default()
            })
        })
        .hook::<at::PreTool>("eager", |_, _| Ok(o::CallOutcome::default()));
    let mut running = setup.build();
    running.turn("look at the work").await;
    assert_eq!(refusals(&running), ["skill look"]);
    assert!(!tools_of(&running, 1).contains(&"bash".to_owned()));
}

#[tokio::test]
async fn an_unknown_tool_in_the_allow_list_is_an_error_and_the_skill_is_not_active() {
    let script = vec![
        use_skill("look"),
        bash("touch touched"),
        Reply::text("done"),
    ];
    let mut running = setup(script, [only("look", &["read_file", "web_search", "x:*"])]).build();
    running.turn("look at the work").await;
    let (text, is_error, _) = &running.results()[0];
    assert!(is_error);
    assert!(
        text.contains("the skill look cannot be used: its `tools.allow` names tools that do not exist: `web_search`, `x:*`"),
        "{text}"
    );
    assert_eq!(told(&running), Vec::<String>::new());
    assert!(running.folder.path().join("w/touched").exists());
}

#[tokio::test]
async fn a_conversational_skill_stays_until_the_person_ends_it_also_after_a_resume() {
    let mut tutor = only("tutor", &["read_file"]);
    tutor.interaction = SkillLifetime::Conversational;
    let script = vec![
        use_skill("tutor"),
        Reply::text("hello"),
        bash("touch one"),
        Reply::text("no"),
    ];
    let mut setup = setup(script, [tutor]);
    setup.skills = setup.skills.clone();
    let skills = setup.skills.clone();
    let store = setup.store();
    let mut running = setup.build();
    running.turn("teach me").await;
    assert_eq!(running.agent.active_skills(), ["tutor"]);
    running.turn("and now something else").await;
    assert_eq!(refusals(&running), ["skill tutor"]);
    let text = &running.results()[1].0;
    assert!(
        text.contains("The skill ends when the user types /done"),
        "{text}"
    );

    // The skill's file no longer exists when the session is resumed.
    let (id, folder) = (running.session.id().clone(), running.folder);
    drop((running.agent, running.session));
    let script = vec![
        bash("touch two"),
        Reply::text("no"),
        bash("touch three"),
        Reply::text("yes"),
    ];
    let mut again = Setup::new(script);
    let workspace = folder.path().join("w");
    let session = store
        .resume(&id, &crate::harness::session_spec(&workspace))
        .unwrap();
    again.folder = folder;
    drop(skills);
    let mut running = again.build_on(session);
    running.turn("go on with the work").await;
    assert_eq!(told(&running), ["+tutor by model"]);
    assert!(!workspace.join("two").exists());
    assert_eq!(running.agent.end_skills().await.unwrap(), ["tutor"]);
    running.turn("go on with the work").await;
    assert!(workspace.join("three").exists());
    assert_eq!(told(&running), ["+tutor by model", "-tutor done"]);
}

#[tokio::test]
async fn a_skill_whose_turn_was_interrupted_has_ended() {
    let script = vec![
        use_skill("look"),
        Reply {
            delay_ms: 3_600_000,
            ..Reply::text("never")
        },
        bash("touch touched"),
        Reply::text("done"),
    ];
    let setup = setup(script, [only("look", &["read_file"])])
        .hook::<at::PostTool>("stops", |_, _| Ok(o::ResultOutcome::default()));
    let mut running = setup.build();
    // The turn is dropped at its second request, when the skill is active.
    let mut events = running.agent.events();
    let mut n_requests = 0;
    {
        let turn = running.agent.turn("look at the work");
        tokio::pin!(turn);
        loop {
            tokio::select! {
                biased;
                _ = &mut turn => panic!("it ended"),
                event = events.recv() => {
                    n_requests += u32::from(matches!(event.unwrap().event, Event::RequestStart { .. }));
                    if n_requests == 2 {
                        break;
                    }
                }
            }
        }
    }
    running.turn("go on with the work").await;
    assert_eq!(told(&running), ["+look by model", "-look dropped"]);
}

#[tokio::test]
async fn the_session_keeps_what_was_active_and_hooks_are_told() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (one, other, caller) = (seen.clone(), seen.clone(), seen.clone());
    let script = vec![use_skill("look"), Reply::text("done")];
    let mut running = setup(script, [only("look", &["read_file"])])
        .hook::<at::SkillActivated>("watcher", move |caller, skill| {
            let line = format!(
                "+{} {} {:?} in {}",
                skill.id, skill.by, skill.allow, caller.context.turn
            );
            one.lock().unwrap().push(line);
            Ok(o::Observed::default())
        })
        .hook::<at::SkillEnded>("watcher", move |_, skill| {
            other
                .lock()
                .unwrap()
                .push(format!("-{} {}", skill.id, skill.reason));
            Ok(o::Observed::default())
        })
        .hook::<at::PreReason>("watcher", move |at, _| {
            caller
                .lock()
                .unwrap()
                .push(format!("skill {:?}", at.context.skill));
            Ok(o::RequestOutcome::default())
        })
        .build();
    running.turn("look at the work").await;
    assert_eq!(
        *seen.lock().unwrap(),
        [
            "skill None",
            "+look model Some([\"read_file\"]) in 1",
            "skill Some(\"look\")",
            "-look turn"
        ]
    );
    let (entries, _) = rind::session::SessionStore::new(running.folder.path().join("sessions"))
        .read_entries(running.session.id())
        .unwrap();
    let kept = entries.iter().filter(|entry| {
        matches!(
            entry.body,
            Body::SkillActivated { .. } | Body::SkillEnded { .. }
        )
    });
    assert_eq!(kept.count(), 2);
}

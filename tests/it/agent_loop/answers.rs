//! Answers of the model under a plugin's agent loop: answers from before an interruption, answers
//! outside the conversation, truncated answers, and answers that reflection rejects.

use rind::point::payload::Source;
use rind::provider::scripted::ReplyFinish;

use super::*;

/// Interrupts a turn after the answer `the answer before` is stored, and returns the folder and the
/// id of the session.
async fn cut_off_after_answer() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let answers = vec![Reply::text("the answer before")];
    let setup = Setup::in_folder(folder, "answer-hold", answers, |host| {
        host.config(ordered_by("orderer"))
    })
    .await;
    let mut session = setup.host.session().create().unwrap();
    let id = session.id().to_string();
    let mut events = session.events();
    let has_answered = async {
        while let Some(stamped) = events.recv().await {
            if matches!(&stamped.event, Event::MessageEnd { message } if message.role == Role::Assistant)
            {
                break;
            }
        }
    };
    tokio::select! {
        _ = session.turn("write the file") => unreachable!("the loop holds the turn"),
        () = has_answered => {}
    }
    drop(session);
    (setup._folder, id)
}

/// Continues the interrupted turn with the setting `how` of the loop. Returns the output, the
/// conversation and the number of requests.
async fn go_on(how: &str, steering: Option<&str>) -> (String, String, usize) {
    let (folder, id) = cut_off_after_answer().await;
    let answers = vec![Reply::text("a new answer")];
    let setup = Setup::in_folder(folder, how, answers, |host| {
        host.config(ordered_by("orderer"))
    })
    .await;
    let mut session = setup.host.session().resume(&id).unwrap();
    if let Some(text) = steering {
        session.steering().steer(text, Source::Terminal);
    }
    let outcome = session.continue_turn().unwrap().await.unwrap();
    assert_eq!(outcome.summary.stop, StopReason::Done, "{}", outcome.output);
    let messages = session.messages();
    check_pairs(&messages);
    let lines = messages.iter().map(Message::joined_text);
    let lines = lines.collect::<Vec<_>>().join("\n");
    (
        outcome.output,
        lines,
        setup.model.recorded_request_bodies().len(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_there_is_the_first_one_of_a_turn_that_goes_on() {
    for how in ["resumed", "resumed aside"] {
        let (output, lines, n_requests) = go_on(how, None).await;
        assert_eq!(output, "the answer before", "{how}");
        assert_eq!(n_requests, 0, "{how}");
        assert_eq!(lines.matches("the answer before").count(), 1, "{lines}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_there_does_not_answer_what_was_said_since() {
    let (output, lines, n_requests) = go_on("resumed inject", None).await;
    assert_eq!((output.as_str(), n_requests), ("a new answer", 1));
    assert!(lines.contains("[plugin orderer] go on"), "{lines}");
    let (output, lines, n_requests) = go_on("resumed hear", Some("wait")).await;
    assert_eq!((output.as_str(), n_requests), ("a new answer", 1));
    assert!(lines.contains("saw Some(\"wait\")"), "{lines}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_alone_is_not_the_answer_of_a_turn_that_was_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let plugins = folder.path().join("plugins");
    guests::put("plan-execute", &plugins, |text| text);
    let host = |script: Vec<Reply>| {
        Host::builder()
            .provider(Arc::new(Scripted::new(Script::new(script))), "test-model")
            .home(folder.path().join("home"))
            .workspace(folder.path().join("workspace"))
            .plugins(PluginFolders::new(Trust::Managed, plugins.clone()))
            .file_tools()
            .policy(yes())
            .config(ordered_by("plan-execute"))
            .build()
    };
    let slow = Reply {
        delay_ms: 60_000,
        ..Reply::text("never")
    };
    // Interrupts during the request for the plan, and right after the plan was received.
    for (before, end) in [
        (vec![slow.clone()], "request-start"),
        (vec![Reply::text("1. write"), slow], "step-end"),
    ] {
        let first = host(before).await.unwrap();
        let mut session = first.session().create().unwrap();
        let id = session.id().to_string();
        let mut events = session.events();
        let is_there = async {
            while let Some(stamped) = events.recv().await {
                if stamped.event.name() == end {
                    break;
                }
            }
        };
        tokio::select! {
            _ = session.turn("write the file") => unreachable!("the answer takes a minute"),
            () = is_there => {}
        }
        drop(session);
        drop(first);
        let second = host(vec![write("a.txt"), Reply::text("written")])
            .await
            .unwrap();
        let _ = std::fs::remove_file(second.workspace().join("a.txt"));
        let mut session = second.session().resume(&id).unwrap();
        let outcome = session.continue_turn().unwrap().await.unwrap();
        assert_eq!(outcome.output, "written");
        let lines = session.messages();
        let is_told = |line: &Message| line.joined_text().contains("carry the plan out");
        assert!(lines.iter().any(is_told));
        assert!(second.workspace().join("a.txt").exists());
        session.close().await.unwrap();
    }
}

/// Adds a hook that drops steering texts of the person, and injects a message.
fn silencer(host: HostBuilder) -> HostBuilder {
    host.on::<at::SteeringReceived>("silencer", |_, _| {
        Ok(o::SteeringOutcome {
            action: o::SteeringAction::Drop("not now".to_owned()),
            inject: vec![o::Injection {
                text: "the person is in a hurry".to_owned(),
                keep: true,
            }],
            ..Default::default()
        })
    })
}

/// Runs a turn in which the person steers before the first request or adds a follow-up for the end.
async fn hear(how: &str, is_follow_up: bool, is_silenced: bool) -> RanTurn {
    let answers = vec![Reply::text("one"), Reply::text("two")];
    let setup = Setup::with(how, answers, |host| {
        let host = host.config(ordered_by("orderer"));
        match is_silenced {
            true => silencer(host),
            false => host,
        }
    })
    .await;
    let mut session = setup.host.session().create().unwrap();
    let steering = session.steering();
    match is_follow_up {
        true => steering.follow_up("and the other one", Source::Terminal),
        false => steering.steer("and the other one", Source::Terminal),
    };
    setup.turn_in(&mut session, &CancellationToken::new()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_is_told_of_what_the_person_said_and_of_what_a_hook_said_in_its_place() {
    for (is_silenced, expected) in [
        (false, "saw Some(\"and the other one\")"),
        (true, "saw Some(\"\")"),
    ] {
        let ran = hear("hear", false, is_silenced).await;
        let lines = ran.lines().join("\n");
        assert!(lines.contains(expected), "{lines}");
    }
    for (is_silenced, expected) in [(false, "saw \"and the other one\""), (true, "saw \"\"")] {
        let ran = hear("follow", true, is_silenced).await;
        assert_eq!(ran.outcome.output, "one\n\ntwo");
        let lines = ran.lines().join("\n");
        assert!(lines.contains(expected), "{lines}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_aside_is_forgotten_when_the_conversation_goes_on() {
    let again = |host: HostBuilder| {
        host.on::<at::PreReflect>("picky", |caller, _| {
            Ok(o::ReflectionOutcome {
                verdict: match caller.context.step {
                    2 => o::VerdictChange::Again("try harder".to_owned()),
                    _ => o::VerdictChange::Done,
                },
                ..Default::default()
            })
        })
    };
    for (what, expected) in [
        ("nothing", "saw (None, false)"),
        ("inject", "saw (None, true)"),
        ("hear", "saw (Some(\"wait\"), true)"),
        ("reflect", "saw (Some(\"try harder\"), true)"),
    ] {
        let answers = vec![always(Reply::text("fine"))];
        let setup = Setup::with(&format!("forget {what}"), answers, |host| {
            let host = host.config(ordered_by("orderer"));
            match what {
                "reflect" => again(host),
                _ => host,
            }
        })
        .await;
        let mut session = setup.host.session().create().unwrap();
        let steering = session.steering();
        if what == "hear" {
            steering.steer("wait", Source::Terminal);
        }
        let ran = setup.turn_in(&mut session, &CancellationToken::new()).await;
        let lines = ran.lines().join("\n");
        assert!(lines.contains(expected), "{what}: {lines}");
        assert_eq!(ran.outcome.summary.stop, StopReason::Done, "{what}");
        assert_eq!(
            lines.contains("[reflection] try harder"),
            what == "reflect",
            "{lines}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_answer_is_continued_unless_the_conversation_went_on() {
    for (how, expected) in [("cut", "one two"), ("cut inject", "two")] {
        let cut = Reply {
            finish: Some(ReplyFinish::MaxTokens),
            ..Reply::text("one ")
        };
        let setup = Setup::new(how, vec![cut, Reply::text("two")]).await;
        let ran = setup.turn().await;
        assert_eq!(ran.outcome.output, expected, "{how}");
    }
}

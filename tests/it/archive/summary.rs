//! Tests of the summary of an archived turn, for all kinds of answers to the request for it.

use rind::agent::SummaryStyle;
use rind::provider::Provider;
use rind::provider::scripted::{ReplyError, ReplyFinish};

use super::*;
use crate::harness::ProxyProvider;

/// Returns the summary that replaces the archived turn, and the notices.
async fn summary_of(answer: Reply, set: impl FnOnce(&mut Setup)) -> (String, Vec<String>) {
    let mut setup = with_summary(reads(5), answer);
    set(&mut setup);
    let mut running = setup.build();
    running.archived_turn("go on").await;
    let id = holder(&running);
    let line = running.lines().remove(1);
    let head = format!("assistant: [archived turn]\nsubagent_id: {id}\n\n");
    let text = line.strip_prefix(&head).unwrap().to_owned();
    (text, notices(&running))
}

fn none(_: &mut Setup) {}

#[tokio::test]
async fn a_structured_summary_is_json_and_anything_else_is_marked() {
    let (text, notices) = summary_of(Reply::text(format!("```json\n{SUMMARY}\n```")), none).await;
    assert_eq!(text, SUMMARY);
    assert_eq!(notices, Vec::<String>::new());
    let (text, _) = summary_of(Reply::text("I read it."), none).await;
    assert_eq!(text, "[unparsed] I read it.");
}

#[tokio::test]
async fn a_paragraph_stays_as_it_is_written() {
    let set = |setup: &mut Setup| setup.config.archival.summary.style = SummaryStyle::Paragraph;
    let (text, _) = summary_of(Reply::text("I read it. It says alpha."), set).await;
    assert_eq!(text, "I read it. It says alpha.");
}

#[tokio::test]
async fn without_an_answer_the_next_turns_try_again_and_the_third_archives_without_a_summary() {
    let failing = Reply {
        error: Some(ReplyError {
            status: 400,
            message: "no".to_owned(),
        }),
        ..Reply::default()
    };
    let refused = Reply {
        finish: Some(ReplyFinish::Refused),
        ..Reply::text("I")
    };
    let slow = Reply {
        delay_ms: 30_000,
        ..Reply::text("late")
    };
    let table = [
        (failing, "the model gave no answer"),
        (refused, "the provider held the answer back"),
        (Reply::text(" "), "the model wrote no summary"),
        (slow, "the summary took longer than 1 s"),
    ];
    for (answer, why) in table {
        let mut setup = with_summary(reads(5), answer);
        setup.config.archival.summary.timeout_seconds = 1;
        let mut running = setup.build();
        running.archived_turn("go on").await;
        running.agent.finish_archival().await;
        running.drain();
        let told = ends(&running);
        assert_eq!(told.len(), 2, "{told:?}");
        for end in told {
            let refused = end.2.unwrap();
            assert!(refused.contains(why), "{refused}");
            assert!(refused.ends_with("the next turn tries again"), "{refused}");
        }
        assert_eq!(running.lines().len(), 12);
        running.agent.finish_archival().await;
        running.drain();
        assert!(running.lines()[1].ends_with("\n\n[summary unavailable]"));
        let notices = notices(&running);
        assert!(
            notices[0].starts_with("no summary of the archived turn could be written in 3 tries: "),
            "{notices:?}"
        );
        assert!(notices[0].contains(why), "{notices:?}");
        assert_eq!(running.session.turns_due_for_archival(), []);
    }
}

#[tokio::test]
async fn a_fault_that_passes_leaves_no_mark() {
    let failing = Reply {
        error: Some(ReplyError {
            status: 400,
            message: "no".to_owned(),
        }),
        ..Reply::default()
    };
    let mut running = with_summary(reads(5), failing).build();
    running.archived_turn("go on").await;
    assert_eq!(running.lines().len(), 12);
    let mut running = again(running, archiving(vec![read("b.txt"), Reply::text("ok")]));
    running.archived_turn("and on").await;
    let line = running.lines().remove(1);
    assert!(line.ends_with(SUMMARY), "{line}");
}

#[tokio::test]
async fn another_model_of_the_provider_may_write_it() {
    let mut setup = archiving(reads(5));
    setup.config.archival.summary.model = Some("small".to_owned());
    let mut running = setup.build();
    running.archived_turn("go on").await;
    let bodies = running.provider.recorded_request_bodies();
    let models: Vec<&Value> = bodies.iter().map(|body| &body["model"]).collect();
    assert_eq!(models[5..], ["test-model", "small"]);
}

#[tokio::test]
async fn with_ollama_it_is_a_paragraph_and_that_is_said_once() {
    let mut script = reads(5);
    script.extend(reads(5));
    let mut running = with_summary(script, Reply::text("I read it.")).build();
    let named = ProxyProvider::new(
        "ollama",
        running.provider.clone(),
        |model, body, on, cancel| model.send(body, on, cancel),
    );
    running.agent.set_model(named, "test-model");
    running.archived_turn("go on").await;
    running.archived_turn("and on").await;
    let summaries: Vec<Option<String>> = ends(&running).into_iter().map(|end| end.1).collect();
    assert_eq!(
        summaries,
        [Some("I read it.".to_owned()), Some("I read it.".to_owned())]
    );
    let warned = notices(&running);
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].contains("ollama"), "{warned:?}");
    assert!(system(&running, 6).contains("three to five sentences"));
}

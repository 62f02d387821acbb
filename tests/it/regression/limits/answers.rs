//! Tests of answers of a model API that break off or do not end.

use super::*;

const HELLO: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Half of an answer\"}}]}\n\n";
const REST: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"The whole answer\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const BROKEN: &str = "data: {\"error\":{\"code\":503,\"message\":\"gone\"}}\n\n";

/// Builds an agent whose model API sends these replies.
async fn over_http(setup: Setup, replies: Vec<Wire>) -> (Running, Server) {
    let server = Server::start(replies).await;
    let mut running = setup.build();
    let provider = provider("openai", &server.url, quick());
    running.agent.set_model(provider, "test-model");
    (running, server)
}

#[tokio::test]
async fn an_answer_that_breaks_off_begins_anew_and_stands_once_in_the_session() {
    let replies = vec![
        Wire::stream([HELLO]).torn(),
        Wire::stream([HELLO, BROKEN]),
        Wire::stream([REST]),
    ];
    let (mut running, _server) = over_http(Setup::new(Vec::new()), replies).await;
    let outcome = running.turn("go on").await;
    assert_eq!(outcome.output, "The whole answer");
    assert_eq!(
        running.lines(),
        ["user: go on", "assistant: The whole answer"]
    );
    let names = running.names();
    let retries = names.iter().filter(|name| **name == "retry").count();
    assert_eq!(retries, 2, "{names:?}");
}

#[tokio::test]
async fn what_came_of_an_answer_that_failed_for_good_is_given_out_as_hooks_left_it() {
    let replies = vec![Wire::stream([HELLO, BROKEN])];
    let mut setup = Setup::new(Vec::new());
    setup = setup.hook::<at::PreOutput>("mask", |_, text| {
        Ok(o::OutputOutcome {
            text: Some(text.replace("Half", "H***")),
            ..Default::default()
        })
    });
    let (mut running, _server) = over_http(setup, replies).await;
    let outcome = running.turn("go on").await;
    assert_eq!(outcome.summary.stop, StopReason::Failed);
    let expected = "H*** of an answer\n\n[the answer was cut off here]\n\n[the model gave no answer: openai limits";
    assert!(outcome.output.starts_with(expected), "{}", outcome.output);
    let kept = running.session.messages();
    let kept: Vec<&Message> = kept.iter().filter(|m| m.role == Role::Assistant).collect();
    assert_eq!(kept.len(), 1);
}

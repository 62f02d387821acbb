//! Tests of the questions that the program asks its client during a turn.

use std::time::{Duration, Instant};

use rind_tests::acp::AcpClient;
use rind_tests::cli::Rind;
use serde_json::json;

use super::{COMMAND, client, option, selected};

fn made(rind: &Rind) -> usize {
    let text = std::fs::read_to_string(rind.workspace().join("made"));
    text.unwrap_or_default().lines().count()
}

#[test]
fn a_permission_is_asked_with_the_whole_command_and_always_holds_for_the_next_call() {
    let whole = "touch made && echo a line\\necho another one";
    let call =
        format!("[[reply.tool_calls]]\nname = \"bash\"\narguments = {{ command = \"{whole}\" }}\n");
    let rind = Rind::with_script(&format!(
        "[[reply]]\ntext = \"I run it.\"\n{call}[[reply]]\ntext = \"It ran.\"\n[[reply]]\ntext = \"Again.\"\n{call}\
         [[reply]]\ntext = \"It ran again.\"\n"
    ));
    let mut client = client(&rind);
    let session = client.new_session();
    let id = client.prompt(&session, "run it");
    let asked = client.asked();
    assert_eq!(asked["method"], "session/request_permission");
    let params = &asked["params"];
    assert_eq!(params["sessionId"], session.as_str());
    let call = client.update_after(0, "tool_call");
    assert_eq!(params["toolCall"]["toolCallId"], call["toolCallId"]);
    let shown = params["toolCall"]["content"][0]["content"]["text"].as_str();
    let shown = shown.unwrap();
    assert!(
        shown.contains("$ touch made && echo a line\n> echo another one"),
        "{shown}"
    );
    let options = params["options"].as_array().unwrap();
    let names: Vec<&str> = options
        .iter()
        .map(|option| option["name"].as_str().unwrap())
        .collect();
    assert_eq!(names[0], "Allow once");
    assert!(
        names[1].starts_with("Always allow in this session: "),
        "{names:?}"
    );
    assert!(
        names[1].contains("touch made"),
        "the scope is named: {names:?}"
    );
    assert_eq!(names[2..], ["Reject"]);
    let made = rind.workspace().join("made");
    assert!(!made.exists(), "it waits for the answer");
    client.answer(&asked, selected(&option(&asked, "allow_always")));
    assert_eq!(client.stopped(id), "end_turn");
    std::fs::remove_file(&made).unwrap();
    // No second question is asked: `run` does not answer one and would time out.
    assert_eq!(client.run(&session, "again"), "end_turn");
    assert!(made.exists());
}

#[test]
fn a_no_reaches_the_model_and_anything_but_an_option_is_a_no() {
    let answers = [
        (selected("reject"), "the person said no"),
        (
            selected("allow_always_and_more"),
            "which is not one of the offered options",
        ),
        (
            json!({"outcome": {"outcome": "cancelled"}}),
            "closed the question",
        ),
        (json!({"outcome": "selected"}), "did not ask the person"),
        (json!({}), "did not ask the person"),
        (json!("yes"), "did not ask the person"),
    ];
    for (answer, expected) in answers {
        let rind = Rind::with_script(COMMAND);
        let mut client = client(&rind);
        let session = client.new_session();
        let id = client.prompt(&session, "run it");
        let asked = client.asked();
        client.answer(&asked, answer.clone());
        // A second answer to the same question is ignored.
        client.answer(&asked, selected(&option(&asked, "allow_once")));
        assert_eq!(client.stopped(id), "end_turn");
        assert_eq!(made(&rind), 0, "{answer}");
        let ended = client
            .updates
            .iter()
            .rfind(|update| update["status"] == "failed");
        assert!(ended.is_some(), "{:?}", client.updates);
        let lines = rind.session_lines().join("\n");
        assert!(lines.contains(expected), "{answer}: {lines}");
    }
}

#[test]
fn an_error_in_place_of_an_answer_is_a_no_and_what_is_denied_is_not_asked() {
    let rind = Rind::with_script(COMMAND);
    let mut client = client(&rind);
    let session = client.new_session();
    let id = client.prompt(&session, "run it");
    let asked = client.asked();
    let error = json!({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no such method"}});
    client.send_line(error.to_string().as_bytes());
    assert_eq!(client.stopped(id), "end_turn");
    assert_eq!(made(&rind), 0);
    assert!(rind.session_lines().join("\n").contains("no such method"));

    let rind = Rind::with_script(COMMAND);
    rind.config("[[tools.rules]]\ntool = \"bash\"\ndecision = \"deny\"\n");
    let mut client = super::client(&rind);
    let session = client.new_session();
    assert_eq!(client.run(&session, "run it"), "end_turn");
    assert_eq!(made(&rind), 0);
}

#[test]
fn a_turn_is_cancelled_while_it_asks_and_in_the_middle_of_a_call() {
    let rind = Rind::with_script(
        "[[reply]]\nwhen = { contains = \"sleep\" }\ntimes = 2\n\
         tool_calls = [{ name = \"bash\", arguments = { command = \"echo begun > begun; sleep 60\" } }]\n\
         [[reply]]\ntimes = 0\ntext = \"After that.\"\n",
    );
    let mut client = client(&rind);
    let session = client.new_session();
    let id = client.prompt(&session, "sleep");
    let asked = client.asked();
    client.tell("session/cancel", json!({"sessionId": session}));
    // The protocol requires the client to answer open questions after a cancellation.
    client.answer(&asked, json!({"outcome": {"outcome": "cancelled"}}));
    assert_eq!(client.stopped(id), "cancelled");
    assert!(!rind.workspace().join("begun").exists());
    assert_eq!(client.run(&session, "and now?"), "end_turn");

    let id = client.prompt(&session, "sleep again");
    let asked = client.asked();
    client.answer(&asked, selected(&option(&asked, "allow_once")));
    client.wait_for("the command", |_| {
        rind.workspace().join("begun").exists().then_some(())
    });
    // A second prompt during the first is refused and does not disturb the first.
    let (code, why) = client.refused(
        "session/prompt",
        json!({"sessionId": session, "prompt": [{"type": "text", "text": "me too"}]}),
    );
    assert!(
        code == -32600 && why.contains("a prompt of the session runs"),
        "{why}"
    );
    let (from, started) = (client.updates.len(), Instant::now());
    client.tell("session/cancel", json!({"sessionId": session}));
    assert_eq!(client.stopped(id), "cancelled");
    assert!(started.elapsed() < Duration::from_secs(20));
    let ended = client.update_after(from, "tool_call_update");
    assert_eq!(ended["status"], "failed", "{ended}");
    assert_eq!(client.run(&session, "go on"), "end_turn");
    // A cancellation without a running prompt or with an unknown session is ignored.
    client.tell("session/cancel", json!({"sessionId": session}));
    client.tell("session/cancel", json!({"sessionId": "nowhere"}));
    client.tell("session/cancel", json!([]));
    assert_eq!(client.run(&session, "still there?"), "end_turn");
}

#[test]
fn a_question_that_is_not_wanted_any_more_is_taken_back() {
    let rind = Rind::with_script(COMMAND);
    let mut client = client(&rind);
    let session = client.new_session();
    let id = client.prompt(&session, "run it");
    let asked = client.asked();
    // The client cancels the prompt request itself, without answering the question.
    client.tell("$/cancel_request", json!({"requestId": id}));
    assert_eq!(client.stopped(id), "cancelled");
    let told = client.wait_for("a cancellation", |own| own.notes.pop());
    assert_eq!(told["method"], "$/cancel_request");
    assert_eq!(told["params"]["requestId"], asked["id"]);
    client.answer(&asked, selected(&option(&asked, "allow_once")));
    assert_eq!(client.run(&session, "again"), "end_turn");
    assert_eq!(made(&rind), 0);
}

#[test]
fn a_plugin_asks_with_a_form_or_with_options() {
    let rind = Rind::with_script(COMMAND);
    rind.managed("asker");
    let forms = json!({"elicitation": {"form": {}}});
    let mut client = AcpClient::initialized(&rind, &[], forms);
    let session = client.new_session();
    let ask = |client: &mut AcpClient<'_>, line: &str, answer: serde_json::Value| {
        let from = client.updates.len();
        let id = client.prompt(&session, line);
        let asked = client.asked();
        assert_eq!(asked["method"], "elicitation/create");
        let message = asked["params"]["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with("The plugin asker asks: "), "{message}");
        client.answer(&asked, answer);
        assert_eq!(client.stopped(id), "end_turn");
        client.text_after(from, "agent_message_chunk")
    };
    let accept =
        |answer: serde_json::Value| json!({"action": "accept", "content": {"answer": answer}});
    assert_eq!(
        ask(&mut client, "/confirm Really?", accept(json!(true))),
        "true"
    );
    assert_eq!(
        ask(
            &mut client,
            "/confirm Really?",
            json!({"action": "decline"})
        ),
        "false"
    );
    assert_eq!(ask(&mut client, "/name", accept(json!("Ada"))), "Ada");
    assert_eq!(ask(&mut client, "/name", accept(json!(["x"]))), "nobody");
    assert_eq!(ask(&mut client, "/choose", accept(json!("purple"))), "0");

    let mut client = AcpClient::initialized(&rind, &[], json!({}));
    let session = client.new_session();
    for (chosen, expected) in [("yes", "true"), ("no", "false"), ("what", "false")] {
        let from = client.updates.len();
        let id = client.prompt(&session, "/confirm Really?");
        let asked = client.asked();
        assert_eq!(asked["method"], "session/request_permission");
        client.answer(&asked, selected(chosen));
        assert_eq!(client.stopped(id), "end_turn");
        assert_eq!(client.text_after(from, "agent_message_chunk"), expected);
    }
    let id = client.prompt(&session, "/choose");
    let asked = client.asked();
    client.answer(&asked, selected("1"));
    assert_eq!(client.stopped(id), "end_turn");
    let from = client.updates.len();
    // Without forms a client cannot enter text, so the plugin gets the default.
    assert_eq!(client.run(&session, "/name"), "end_turn");
    assert_eq!(client.text_after(from, "agent_message_chunk"), "nobody");
}

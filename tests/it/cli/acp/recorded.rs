//! Replays a recorded conversation of an editor with this program: marimo 0.25.2 (PyPI), whose page
//! speaks the protocol through the npm package `use-acp`, over the bridge `stdio-to-ws`, in
//! Chromium. In the recording one edit is allowed, another rejected, and a command cancelled while
//! it runs. The recording omits pieces of text, lists of commands and the text of an attachment. A
//! second test kills the program after the replay.

use std::time::Duration;

use rind_tests::acp::AcpClient;
use rind_tests::cli::Rind;
use serde_json::{Value, json};

use super::{option, selected};

const RECORDED: &str = include_str!("../../../recorded/acp-marimo.jsonl");

/// Script of the model in the recording.
const SCRIPT: &str = r##"
[[reply]]
text = "I write the notes."
tool_calls = [{ name = "write_file", arguments = { path = "notes.md", content = "# Notes\nfirst\n" } }]
[[reply]]
text = "The notes are written."
[[reply]]
text = "I change the notes."
tool_calls = [{ name = "write_file", arguments = { path = "other.md", content = "second\n" } }]
[[reply]]
text = "It was refused, so I leave it."
[[reply]]
text = "I run something long."
tool_calls = [{ name = "bash", arguments = { command = "sleep 300; echo done" } }]
[[reply]]
text = "After the long one."
"##;

/// Script of a model that, after the recording, runs a command which keeps writing a counter to a
/// file.
const COUNTING: &str = r##"
[[reply]]
text = "I count."
tool_calls = [{ name = "bash", arguments = { command = "for n in $(seq 3000); do echo $n >> counted; sleep 0.1; done" } }]
"##;

/// Returns kind, call id and status of an update, and the beginning of its title, because titles
/// that contain a path are cut at another position on this machine.
fn summary(update: &Value) -> [String; 4] {
    ["sessionUpdate", "toolCallId", "status", "title"].map(|field| {
        let text = update[field].as_str().unwrap_or_default();
        text.chars().take("tool_call_update".len()).collect()
    })
}

/// Sends the editor's messages, compares the program's messages with the recording, and returns the
/// id of the session.
fn play_recording(rind: &Rind, client: &mut AcpClient<'_>) -> String {
    let workspace = rind.workspace().to_str().unwrap().to_owned();
    let (mut session, mut running) = (String::new(), 0);
    // Number of updates of tool calls and session titles that were already compared.
    let mut seen = 0;
    for line in RECORDED.lines() {
        let line = line
            .replace("WORKSPACE", &workspace)
            .replace("SESSION", &session);
        let line: Value = serde_json::from_str(&line).unwrap();
        let (client_said, agent_said) = (&line["client"], &line["agent"]);
        if let Some(method) = client_said["method"].as_str() {
            let params = client_said["params"].clone();
            match (client_said.get("id").is_some(), method) {
                (false, _) => client.tell(method, params),
                (true, "session/prompt") => running = client.send(method, params),
                (true, _) => {
                    let result = client.call(method, params);
                    if let Some(id) = result["sessionId"].as_str() {
                        id.clone_into(&mut session);
                    }
                }
            }
        } else if client_said.get("result").is_some() {
            let asked = client.asked();
            let shown = asked["params"]["toolCall"]["content"].as_array().unwrap();
            if let Some(diff) = shown.iter().find(|own| own["type"] == "diff") {
                // The newline at the end, which the recorded version of the program omitted by
                // mistake.
                let text = diff["newText"].as_str().unwrap();
                assert!(text.ends_with('\n'), "{diff}");
            }
            client.answer(&asked, client_said["result"].clone());
        } else if let Some(reason) = agent_said["result"]["stopReason"].as_str() {
            assert_eq!(client.stopped(running), reason);
        } else if agent_said["method"] == "session/update" {
            let expected = summary(&agent_said["params"]["update"]);
            let update = client.wait_for(&format!("{expected:?}"), |own| {
                let of_kind = own.updates.iter().filter(|update| {
                    let kind = update["sessionUpdate"].as_str().unwrap();
                    kind.starts_with("tool_call") || kind == "session_info_update"
                });
                of_kind.clone().nth(seen).map(summary)
            });
            assert_eq!(update, expected);
            seen += 1;
        }
    }
    session
}

#[test]
fn the_conversation_of_an_editor_goes_as_it_was_recorded() {
    let rind = Rind::with_script(&format!("{SCRIPT}times = 0\n"));
    let mut client = AcpClient::start(&rind, &["--no-plugins"]);
    play_recording(&rind, &mut client);
    let read = |name: &str| std::fs::read_to_string(rind.workspace().join(name));
    assert_eq!(read("notes.md").unwrap(), "# Notes\nfirst\n");
    assert!(read("other.md").is_err(), "it was rejected");
    assert_eq!(client.close(), Some(0));
}

#[test]
fn the_conversation_of_an_editor_is_loaded_after_its_agent_was_killed_in_a_call() {
    let rind = Rind::with_script(&format!("{SCRIPT}{COUNTING}"));
    let mut first = AcpClient::start(&rind, &["--no-plugins"]);
    let session = play_recording(&rind, &mut first);
    let counted = || std::fs::read_to_string(rind.workspace().join("counted")).unwrap_or_default();
    // The model gives the last reply of the recording, which comes after the cancellation.
    assert_eq!(first.run(&session, "Go on"), "end_turn");
    let _ = first.prompt(&session, "Count");
    let asked = first.asked();
    first.answer(&asked, selected(&option(&asked, "allow_once")));
    first.wait_for("the command", |_| (!counted().is_empty()).then_some(()));
    assert_eq!(first.signal("KILL"), None);

    let mut second = super::client(&rind);
    let cwd = rind.workspace();
    let load = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
    second.call("session/load", load);
    let of_person = second.text_after(0, "user_message_chunk");
    for said in [
        "Write the notes",
        "Write another file",
        "Run it",
        "Go on",
        "Count",
    ] {
        assert!(of_person.contains(said), "{said}: {of_person}");
    }
    let said = second.said();
    for expected in [
        "I write the notes.",
        "The notes are written.",
        "I change the notes.",
        "It was refused, so I leave it.",
        "I run something long.",
        "After the long one.",
        "I count.",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let ends: Vec<&Value> = second
        .updates
        .iter()
        .filter(|update| update["sessionUpdate"] == "tool_call_update")
        .collect();
    // States of the call that wrote, the rejected, the cancelled and the interrupted one.
    let states: Vec<&str> = ends
        .iter()
        .filter_map(|end| end["status"].as_str())
        .collect();
    assert_eq!(states, ["completed", "failed", "failed", "failed"]);
    let told = |at: usize| ends[at]["content"].to_string();
    assert!(told(1).contains("the person said no"), "{}", told(1));
    assert!(told(2).contains("cancelled"), "{}", told(2));
    assert!(told(3).contains("it may have run"), "{}", told(3));
    // The command was killed together with the program.
    let before = counted();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(counted(), before);

    // The script starts from the beginning in the new process.
    let id = second.prompt(&session, "Once more");
    let asked = second.asked();
    let content = asked["params"]["toolCall"]["content"].as_array().unwrap();
    let diff = content.iter().find(|own| own["type"] == "diff").unwrap();
    assert_eq!(diff["newText"], "# Notes\nfirst\n");
    second.answer(&asked, selected(&option(&asked, "allow_once")));
    assert_eq!(second.stopped(id), "end_turn");
    assert!(second.said().ends_with("The notes are written."));
}

//! A conversation that an editor had with this program, played again: marimo 0.25.2 (PyPI), whose page speaks the protocol through the
//! npm package `use-acp`, over the bridge `stdio-to-ws`, in Chromium. An edit was allowed there, another rejected, and a command
//! cancelled while it ran. Pieces of text, lists of commands and the text of an attachment are left out.

use rind_tests::acp::AcpClient;
use rind_tests::cli::Rind;
use serde_json::Value;

const RECORDED: &str = include_str!("../../../recorded/acp-marimo.jsonl");

/// The model of the recording.
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
times = 0
"##;

/// Kind, call, state and beginning of the title of an update: a title with a path in it is cut at another place here.
fn summary(update: &Value) -> [String; 4] {
    ["sessionUpdate", "toolCallId", "status", "title"].map(|field| {
        let text = update[field].as_str().unwrap_or_default();
        text.chars().take("tool_call_update".len()).collect()
    })
}

#[test]
fn the_conversation_of_an_editor_goes_as_it_was_recorded() {
    let rind = Rind::with_script(SCRIPT);
    let workspace = rind.workspace().to_str().unwrap().to_owned();
    let mut client = AcpClient::start(&rind, &["--no-plugins"]);
    let (mut session, mut running) = (String::new(), 0);
    // Updates of tool calls and titles that were waited for.
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
    let read = |name: &str| std::fs::read_to_string(rind.workspace().join(name));
    assert_eq!(read("notes.md").unwrap(), "# Notes\nfirst\n");
    assert!(read("other.md").is_err(), "it was rejected");
    assert_eq!(client.close(), Some(0));
}

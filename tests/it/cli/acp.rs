//! Tests of `rind acp`, the Agent Client Protocol: the real program and a client that checks every
//! message against the schema.

mod hostile;
mod options;
mod permission;
mod recorded;
mod sessions;

use rind_tests::acp::AcpClient;
use rind_tests::cli::Rind;
use serde_json::{Value, json};

/// Script of a model that runs a command in each of the first two turns.
const COMMAND: &str = r#"
[[reply]]
text = "I run it."
tool_calls = [{ name = "bash", arguments = { command = "echo made >> made; # the whole command" } }]
[[reply]]
text = "It ran."
[[reply]]
text = "Again."
tool_calls = [{ name = "bash", arguments = { command = "echo made >> made; # the whole command" } }]
[[reply]]
text = "Second answer."
times = 0
"#;

fn client(rind: &Rind) -> AcpClient<'_> {
    AcpClient::initialized(rind, &["--no-plugins"], json!({}))
}

/// Returns the id of the option of this kind.
fn option(request: &Value, kind: &str) -> String {
    let options = request["params"]["options"].as_array().unwrap();
    let found = options.iter().find(|option| option["kind"] == kind);
    let found = found.unwrap_or_else(|| panic!("no {kind}: {request}"));
    found["optionId"].as_str().unwrap().to_owned()
}

/// Returns the answer to a permission request that selects an option.
fn selected(id: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": id}})
}

#[test]
fn the_capabilities_are_told_and_nothing_is_to_authenticate() {
    let rind = Rind::default();
    let mut client = AcpClient::start(&rind, &[]);
    let (code, why) = client.refused("session/list", json!({}));
    assert_eq!(code, -32600, "{why}");
    // A client that asks for a later version gets the version that the program supports.
    let told = client.call("initialize", json!({"protocolVersion": 9}));
    let capabilities = &told["agentCapabilities"];
    assert_eq!(told["protocolVersion"], 1);
    assert_eq!(told["authMethods"], json!([]));
    assert_eq!(capabilities["loadSession"], true);
    assert_eq!(
        capabilities["promptCapabilities"],
        json!({"image": true, "audio": false, "embeddedContext": true})
    );
    assert_eq!(
        capabilities["mcpCapabilities"],
        json!({"http": true, "sse": false})
    );
    for own in ["list", "resume", "close"] {
        assert!(
            capabilities["sessionCapabilities"][own].is_object(),
            "{told}"
        );
    }
    for none in ["delete", "systemPrompt", "additionalDirectories"] {
        assert!(
            capabilities["sessionCapabilities"][none].is_null(),
            "{told}"
        );
    }
    let (code, why) = client.refused("authenticate", json!({"methodId": "x"}));
    assert!(code == -32602 && why.contains("ANTHROPIC_API_KEY"), "{why}");
    assert_eq!(
        client
            .refused("initialize", json!({"protocolVersion": 1}))
            .0,
        -32600
    );
    assert_eq!(client.close(), Some(0));
}

#[test]
fn without_a_model_the_error_says_what_to_set() {
    let rind = Rind::without_model();
    let mut client = client(&rind);
    let cwd = rind.workspace();
    let (code, why) = client.refused("session/new", json!({"cwd": cwd, "mcpServers": []}));
    assert_eq!(code, -32000, "{why}");
    for part in ["no model is set up", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL"] {
        assert!(why.contains(part), "{why}");
    }
}

#[test]
fn a_turn_streams_its_text_its_thoughts_and_its_calls() {
    let rind = Rind::with_script(
        r#"
[[reply]]
thinking = "I should look at it."
text = "I look at it first."
tool_calls = [{ name = "read_file", arguments = { path = "notes.txt" } }]
[[reply]]
text = "It says hello."
times = 0
"#,
    );
    rind.file("notes.txt", "hello\n");
    let mut client = client(&rind);
    let session = client.new_session();
    assert_eq!(client.run(&session, "what does it say?"), "end_turn");
    assert_eq!(client.said(), "I look at it first.It says hello.");
    let chunks = |kind: &str| {
        let of_kind = |update: &&Value| update["sessionUpdate"] == kind;
        client.updates.iter().filter(of_kind).count()
    };
    assert!(chunks("agent_message_chunk") > 2, "it comes in parts");
    let thought = client.text_after(0, "agent_thought_chunk");
    assert!(thought.contains("I should look at it."), "{thought}");
    let calls: Vec<&Value> = client
        .updates
        .iter()
        .filter(|update| update["toolCallId"].is_string())
        .collect();
    let states: Vec<&Value> = calls.iter().map(|call| &call["status"]).collect();
    // The initial status `pending` is the default and therefore omitted.
    let expected = [Value::Null, json!("in_progress"), json!("completed")];
    assert_eq!(states, expected.iter().collect::<Vec<_>>(), "{calls:?}");
    assert_eq!(calls[0]["title"], "Read notes.txt");
    assert_eq!(calls[0]["kind"], "read");
    assert_eq!(calls[0]["rawInput"]["path"], "notes.txt");
    let path = rind.workspace().join("notes.txt");
    assert_eq!(calls[0]["locations"][0]["path"], path.to_str().unwrap());
    let shown = calls[2]["content"][0]["content"]["text"].as_str().unwrap();
    assert!(shown.contains("hello"), "{shown}");
    assert!(calls[2]["rawOutput"].to_string().contains("hello"));
    let title = client.update_after(0, "session_info_update");
    assert_eq!(title["title"], "what does it say?");
}

#[test]
fn links_resources_and_images_reach_the_model() {
    let rind = Rind::with_script("[[reply]]\ntext = \"You said: {input}\"\ntimes = 0\n");
    let mut client = client(&rind);
    let session = client.new_session();
    let image = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let prompt = json!([
        {"type": "text", "text": "compare "},
        {"type": "resource_link", "name": "a.rs", "uri": "file:///w/a.rs"},
        {"type": "text", "text": " and "},
        {"type": "resource", "resource": {"uri": "file:///w/b.rs", "text": "fn b() {}"}},
        {"type": "image", "data": image, "mimeType": "image/png"},
    ]);
    let id = client.send(
        "session/prompt",
        json!({"sessionId": session, "prompt": prompt}),
    );
    assert_eq!(client.stopped(id), "end_turn");
    let said = client.said();
    for part in [
        "[@a.rs](file:///w/a.rs)",
        "[@b.rs](file:///w/b.rs)",
        "fn b() {}",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert!(rind.session_lines().join("\n").contains("image/png"));
    let audio = json!([{"type": "audio", "data": "", "mimeType": "audio/wav"}]);
    let (code, why) = client.refused(
        "session/prompt",
        json!({"sessionId": session, "prompt": audio}),
    );
    assert!(
        code == -32602 && why.contains("part 1 of the prompt: audio"),
        "{why}"
    );
}

#[test]
fn a_turn_says_why_it_stopped() {
    let calls =
        "[[reply]]\ntext = \"On and on.\"\ntimes = 0\ntool_calls = [{ name = \"list_files\" }]\n";
    let table = [
        (
            "[[reply]]\ntext = \"Cut\"\nfinish = \"max-tokens\"\ntimes = 0\n",
            "max_tokens",
        ),
        (calls, "max_turn_requests"),
        (
            "[[reply]]\ntext = \"No.\"\nfinish = \"refused\"\ntimes = 0\n",
            "refusal",
        ),
    ];
    for (script, expected) in table {
        let rind = Rind::with_script(script);
        let args = ["--no-plugins", "--set", "agent.max_steps=20"];
        let mut client = AcpClient::initialized(&rind, &args, json!({}));
        let session = client.new_session();
        let id = client.prompt(&session, "go");
        assert_eq!(client.stopped(id), expected);
    }
    let rind = Rind::with_script(
        "[[reply]]\nerror = { status = 400, message = \"bad request here\" }\n[[reply]]\ntext = \"Fine.\"\ntimes = 0\n",
    );
    let mut client = client(&rind);
    let session = client.new_session();
    let id = client.prompt(&session, "go");
    let (code, why) = client.error(id);
    assert!(code == -32603 && why.contains("bad request here"), "{why}");
    // The session can be used for another prompt.
    assert_eq!(client.run(&session, "again"), "end_turn");
}

#[test]
fn edits_have_a_diff_and_accepted_ones_ask_nothing() {
    let rind = Rind::with_script(
        r#"
[[reply]]
tool_calls = [{ name = "edit_file", arguments = { path = "a.txt", old_text = "one", new_text = "two" } }]
[[reply]]
text = "Edited."
[[reply]]
tool_calls = [{ name = "write_file", arguments = { path = "b.txt", content = "new\n" } }]
[[reply]]
text = "Written."
times = 0
"#,
    );
    rind.file("a.txt", "one\n");
    let mut client = client(&rind);
    let session = client.new_session();
    let id = client.prompt(&session, "edit");
    let asked = client.asked();
    let content = asked["params"]["toolCall"]["content"].as_array().unwrap();
    let diff = content.iter().find(|own| own["type"] == "diff").unwrap();
    let path = rind.workspace().join("a.txt");
    assert_eq!(
        (&diff["path"], &diff["oldText"], &diff["newText"]),
        (&json!(path), &json!("one"), &json!("two"))
    );
    client.answer(&asked, selected(&option(&asked, "allow_once")));
    assert_eq!(client.stopped(id), "end_turn");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "two\n");
    let mode = json!({"sessionId": session, "modeId": "accept-edits"});
    client.call("session/set_mode", mode);
    let from = client.updates.len();
    assert_eq!(client.run(&session, "write"), "end_turn");
    let call = client.update_after(from, "tool_call");
    assert_eq!(call["content"][0]["newText"], "new\n");
    assert_eq!(
        (&call["kind"], &call["title"]),
        (&json!("edit"), &json!("Write b.txt"))
    );
    assert!(rind.workspace().join("b.txt").exists());
}

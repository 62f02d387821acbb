//! Offers of `rind mcp serve` besides plain calls: questions of plugins, typed bytes, skills as
//! files, and completions of arguments.

use rind_tests::cli::Rind;
use serde_json::{Value, json};

use super::client::{Client, text_of};

/// A machine with the plugin that has the tools of a conformance suite.
fn machine() -> Rind {
    let rind = Rind::default();
    rind.managed("suite");
    rind
}

fn call(tool: &str) -> Value {
    json!({"name": tool, "arguments": {}})
}

/// Parameters of the newer protocol from a client that supports elicitation by form.
fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "2"},
    });
    params
}

#[test]
fn the_user_of_the_client_answers_the_questions_of_a_plugin() {
    let rind = machine();
    let mut client = Client::ready(&rind, &[], &json!({"elicitation": {}}));
    let tool = "test_input_required_result_elicitation";
    for (answer, expected) in [
        (
            json!({"action": "accept", "content": {"answer": "Ada"}}),
            "Hello, Ada!",
        ),
        // The plugin's default is used if the answer is missing or invalid.
        (json!({"action": "decline"}), "Hello, nobody!"),
        (json!({"action": "cancel"}), "Hello, nobody!"),
        (
            json!({"action": "accept", "content": {"answer": 5}}),
            "Hello, nobody!",
        ),
        (json!({"action": "accept"}), "Hello, nobody!"),
        (
            json!({"action": "accept", "content": {"answer": "A\u{1b}[2Jda\n\u{202e}"}}),
            r"Hello, A\u{1b}[2Jda \u{202e}!",
        ),
    ] {
        let id = client.send("tools/call", &call(tool));
        let asked = client.next();
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        let message = asked["params"]["message"].as_str().unwrap();
        assert_eq!(message, "Plugin `suite` asks: What is your name?");
        client.write(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer}).to_string());
        let text = text_of(&client.answer(id)["result"]);
        assert_eq!(text, expected, "{answer}");
    }
    // An answer that looks like a secret is not passed to the plugin.
    let id = client.send("tools/call", &call(tool));
    let asked = client.next();
    let secret = format!("AKIA{}", "Z7QX3M5R2T6P4WKV");
    let answer = json!({"action": "accept", "content": {"answer": secret}});
    client.write(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer}).to_string());
    let kept = client.answer(id)["result"].clone();
    assert_eq!(kept["isError"], true, "{kept}");
    assert!(!kept.to_string().contains(&secret), "{kept}");
    assert_eq!(client.end(), Some(0));
    // A client that cannot ask is not asked.
    let mut client = Client::ready(&rind, &[], &json!({}));
    let result = client.call(tool, &json!({}));
    assert_eq!(text_of(&result), "Hello, nobody!");
    assert!(client.others.is_empty(), "{:?}", client.others);
}

#[test]
fn a_question_of_a_plugin_ends_a_request_of_the_newer_protocol_and_stands_until_it_is_answered() {
    let rind = machine();
    let mut client = Client::start(&rind, &[]);
    client.ask("server/discover", &modern(json!({})));
    let name = "test_input_required_result_multi_round";
    let mut params = call(name);
    let mut states: Vec<Value> = Vec::new();
    for given in ["Ada", "blue"] {
        let asked = client.ask("tools/call", &modern(params.clone()));
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let question = &asked["result"]["inputRequests"]["answer"];
        assert_eq!(question["method"], "elicitation/create", "{asked}");
        states.push(asked["result"]["requestState"].clone());
        params["requestState"] = states.last().unwrap().clone();
        // The question is asked again if its answer is missing; answers to other questions have no
        // effect.
        params["inputResponses"] =
            json!({"other": {"action": "accept", "content": {"answer": "x"}}});
        let again = client.ask("tools/call", &modern(params.clone()));
        assert_eq!(again["result"]["resultType"], "input_required", "{again}");
        params["requestState"] = again["result"]["requestState"].clone();
        params["inputResponses"] =
            json!({"answer": {"action": "accept", "content": {"answer": given}}});
    }
    let done = client.ask("tools/call", &modern(params.clone()));
    assert_eq!(text_of(&done["result"]), "Ada likes blue", "{done}");
    // A request state can be used only once, and cannot be guessed.
    for state in [states[0].clone(), json!("guessed"), json!("")] {
        params["requestState"] = state;
        let refused = client.ask("tools/call", &modern(params.clone()));
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    assert_eq!(client.end(), Some(0));
    assert_eq!(rind.entries("tool-start").len(), 1);
}

#[test]
fn results_are_told_as_what_they_are_and_progress_comes_before_them() {
    let rind = machine();
    let mut client = Client::ready(&rind, &[], &json!({}));
    let audio = client.call("test_audio_content", &json!({}));
    assert_eq!(audio["content"][0]["type"], "audio", "{audio}");
    assert_eq!(audio["content"][0]["mimeType"], "audio/wav");
    let mixed = client.call("test_multiple_content_types", &json!({}));
    let parts = mixed["content"].as_array().unwrap();
    let kinds: Vec<&str> = parts
        .iter()
        .filter_map(|part| part["type"].as_str())
        .collect();
    assert_eq!(kinds, ["text", "image", "resource"], "{mixed}");
    let text = parts[2]["resource"]["text"].as_str().unwrap();
    assert_eq!(text, r#"{"test":"data","value":123}"#);
    let failed = client.call("test_error_handling", &json!({}));
    assert_eq!(failed["isError"], true);

    let mut params = call("test_tool_with_progress");
    params["_meta"] = json!({"progressToken": "p"});
    let id = client.send("tools/call", &params);
    let told: Vec<Value> = (0..3).map(|_| client.next()).collect();
    for (at, one) in told.iter().enumerate() {
        assert_eq!(one["params"]["progressToken"], "p", "{one}");
        assert_eq!(one["params"]["progress"], json!(at as f64 + 1.0), "{one}");
    }
    assert_eq!(text_of(&client.next()["result"]), "Done.", "{id}");
}

#[test]
fn skills_are_files_and_arguments_with_fixed_values_are_completed() {
    let rind = machine();
    rind.user_file(
        "config/skills/greet-well/SKILL.md",
        "---\nname: greet-well\ndescription: Greets. Use it for guests.\nlicense: MIT\n---\nBow.\n",
    );
    rind.user_file("config/skills/greet-well/notes/bows.txt", "Deep ones.\n");
    rind.user_file("config/skills/greet-well/.hidden", "no\n");
    // Files that tools leave in a skill's folder do not count towards its size.
    let packages = rind.home().join("config/skills/greet-well/node_modules");
    std::fs::create_dir_all(&packages).unwrap();
    let large = std::fs::File::create(packages.join("large")).unwrap();
    large.set_len(20 << 20).unwrap();
    // A byte order mark is not part of the text.
    rind.user_file(
        "config/skills/marked/SKILL.md",
        "\u{feff}---\nname: marked\ndescription: Marks. Use it for marks.\n---\nMark.\n",
    );
    rind.user_file(
        "config/skills/too-large/SKILL.md",
        "---\nname: too-large\ndescription: Is large. Use it never.\n---\nx\n",
    );
    let large = rind.home().join("config/skills/too-large/data");
    let large = std::fs::File::create(large).unwrap();
    large.set_len(17 << 20).unwrap();
    rind.user_file(
        "config/prompts/tell.md",
        "---\ndescription: Tells\narguments:\n  properties:\n    tone: {type: string, enum: [short, shy, long]}\n  required: [tone]\n---\n{{ tone }}\n",
    );
    let linked = rind.home().join("config/skills/linked");
    std::fs::create_dir_all(&linked).unwrap();
    std::fs::write(
        linked.join("SKILL.md"),
        "---\nname: linked\ndescription: Leads away. Use it never.\n---\nx\n",
    )
    .unwrap();
    std::os::unix::fs::symlink("/etc/passwd", linked.join("passwd")).unwrap();
    let mut client = Client::ready(&rind, &[], &json!({}));
    let listed = client.ask("skills/list", &json!({}));
    let skills = listed["result"]["skills"].as_array().unwrap();
    let uris: Vec<&str> = skills
        .iter()
        .filter_map(|own| own["uri"].as_str())
        .collect();
    assert_eq!(
        uris,
        ["skill://greet-well/SKILL.md", "skill://marked/SKILL.md"],
        "{listed}"
    );
    assert_eq!(skills[0]["frontmatter"]["license"], "MIT");
    assert_eq!(skills[0]["resources"].as_array().unwrap().len(), 2);
    let resources = client.ask("resources/list", &json!({}));
    assert_eq!(
        resources["result"]["resources"].as_array().unwrap().len(),
        2
    );
    let mut read = |uri: &str| client.ask("resources/read", &json!({"uri": uri}));
    let notes = read("skill://greet-well/notes/bows.txt");
    assert_eq!(notes["result"]["contents"][0]["text"], "Deep ones.\n");
    for wrong in [
        "skill://greet-well/.hidden",
        "skill://greet-well/notes/../notes/bows.txt",
        "skill://greet-well/../../config.toml",
        "skill://greet-well/%2e%2e/%2e%2e/config.toml",
        "skill://linked/passwd",
        "skill://linked/SKILL.md",
        "file:///etc/passwd",
        "",
    ] {
        let refused = read(wrong);
        assert_eq!(refused["error"]["code"], -32002, "{wrong}: {refused}");
        assert_eq!(refused["error"]["data"]["uri"], wrong);
    }
    let mut complete = |prompt: &str, argument: &str, value: &str| {
        let reference = json!({"type": "ref/prompt", "name": prompt});
        let params = json!({"ref": reference, "argument": {"name": argument, "value": value}});
        client.ask("completion/complete", &params)["result"]["completion"]["values"].clone()
    };
    assert_eq!(complete("tell", "tone", "sh"), json!(["short", "shy"]));
    assert_eq!(complete("tell", "tone", "x"), json!([]));
    assert_eq!(complete("tell", "other", ""), json!([]));
    assert_eq!(complete("none", "tone", ""), json!([]));
}

#[test]
fn questions_that_are_never_answered_hold_up_nobody() {
    let rind = machine();
    let mut client = Client::start(&rind, &[]);
    client.ask("server/discover", &modern(json!({})));
    let question = call("test_input_required_result_elicitation");
    let mut states = Vec::new();
    for _ in 0..10 {
        let asked = client.ask("tools/call", &modern(question.clone()));
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        states.push(asked["result"]["requestState"].clone());
    }
    let listed = client.ask("tools/list", &modern(json!({})));
    assert!(listed["result"]["tools"].is_array(), "{listed}");
    // The plugin answers other calls in the meantime.
    let other = client.ask("tools/call", &modern(call("test_simple_text")));
    assert!(
        text_of(&other["result"]).starts_with("This is a simple"),
        "{other}"
    );
    let mut answer = |state: &Value| {
        let mut params = question.clone();
        params["requestState"] = state.clone();
        params["inputResponses"] =
            json!({"answer": {"action": "accept", "content": {"answer": "Ada"}}});
        client.ask("tools/call", &modern(params))
    };
    // The oldest questions were dropped, the newest one was not.
    assert_eq!(answer(&states[0])["error"]["code"], -32602);
    assert_eq!(
        text_of(&answer(states.last().unwrap())["result"]),
        "Hello, Ada!"
    );
}

#[test]
fn a_question_that_nobody_answers_keeps_a_turn_open_for_a_bounded_number_of_calls() {
    let rind = machine();
    rind.managed("hello");
    let mut client = Client::ready(&rind, &[], &json!({"elicitation": {}}));
    let waiting = client.send(
        "tools/call",
        &call("test_input_required_result_elicitation"),
    );
    let asked = client.next();
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    // The question does not block calls of another plugin.
    for n in 1..1_000 {
        let result = client.call("greet", &json!({"name": "Ada"}));
        assert_eq!(text_of(&result), "Hello, Ada!", "{n}: {result}");
    }
    let next = client.send(
        "tools/call",
        &json!({"name": "greet", "arguments": {"name": "Bea"}}),
    );
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(rind.entries("turn-start").len(), 1);
    assert_eq!(
        rind.entries("tool-start").len(),
        1_000,
        "the last one waits"
    );
    let answer = json!({"action": "decline"});
    client.write(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer}).to_string());
    assert_eq!(text_of(&client.answer(waiting)["result"]), "Hello, nobody!");
    assert_eq!(text_of(&client.answer(next)["result"]), "Hello, Bea!");
    assert_eq!(rind.entries("turn-start").len(), 2);
}

//! `rind mcp serve`: tools of plugins for other agents, over standard input and output.

use std::time::{Duration, Instant};

use rind_tests::cli::Rind;
use rind_tests::guests;
use serde_json::{Value, json};

use super::client::{Client, text_of};
use super::{PYTHON, has_python, served};

/// A machine with these plugins and no model.
fn machine(plugins: &[&str]) -> Rind {
    let rind = Rind::default();
    for plugin in plugins {
        rind.managed(plugin);
    }
    rind
}

/// A machine with the guard `hostile`, which misbehaves in this way before each call.
fn guarded(how: &str) -> Rind {
    let rind = machine(&["hello"]);
    guests::put("hostile", &rind.home().join("managed"), |manifest| manifest);
    rind.config(&format!("[plugins.hostile.config]\nhow = \"{how}\"\n"));
    rind
}

/// Adds the fields that a client of the newer protocol sends with each request.
fn modern(params: &Value, elicits: bool) -> Value {
    let mut params = params.clone();
    let capabilities = match elicits {
        true => json!({"elicitation": {"form": {}}}),
        false => json!({}),
    };
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "2"},
    });
    params
}

#[test]
fn tools_of_plugins_are_offered_and_a_call_is_in_a_session_of_its_own() {
    let rind = machine(&["hello", "picture"]);
    let mut client = Client::ready(&rind, &[], &json!({}));
    let listed = client.ask("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let greet = tools.iter().find(|tool| tool["name"] == "greet").unwrap();
    assert_eq!(greet["annotations"]["readOnlyHint"], true);
    assert_eq!(greet["inputSchema"]["required"], json!(["name"]));
    assert_eq!(client.tools(), ["greet", "draw"]);

    let result = client.call("greet", &json!({"name": "Ada"}));
    assert_eq!(text_of(&result), "Hello, Ada!");
    assert_ne!(result["isError"], true);
    let picture = client.call("draw", &json!({"what": "dot"}));
    let kinds: Vec<&str> = picture["content"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|part| part["type"].as_str())
        .collect();
    assert_eq!(kinds, ["text", "text", "image"], "{picture}");
    assert_eq!(picture["structuredContent"], json!({"dots": 1}));
    let failed = client.call("draw", &json!({"what": "failed"}));
    assert_eq!(failed["isError"], true);

    assert_eq!(client.end(), Some(0));
    let shown = rind.run(&["session", "list", "--json"]);
    let sessions: Value = serde_json::from_str(&shown.stdout).unwrap();
    let id = sessions[0]["id"].as_str().unwrap();
    let session = rind.run(&["session", "show", id]);
    for expected in ["greet", "client:tester", "Hello, Ada!", "draw"] {
        assert!(
            session.stdout.contains(expected),
            "{expected}: {}",
            session.stdout
        );
    }
}

#[test]
fn a_session_without_a_call_leaves_nothing_behind() {
    let rind = machine(&["hello"]);
    let mut client = Client::ready(&rind, &[], &json!({}));
    assert_eq!(client.tools(), ["greet"]);
    assert_eq!(client.end(), Some(0));
    assert!(rind.session_lines().is_empty());
}

#[test]
fn built_in_tools_are_offered_only_when_asked_for() {
    let rind = machine(&["hello"]);
    rind.file("note.txt", "a note\n");
    let mut client = Client::ready(&rind, &["--builtin"], &json!({}));
    let tools = client.tools();
    for name in [
        "background",
        "bash",
        "edit_file",
        "list_files",
        "read_file",
        "search",
        "write_file",
        "greet",
    ] {
        assert!(tools.iter().any(|own| own == name), "{name}: {tools:?}");
    }
    assert_eq!(tools.len(), 8, "{tools:?}");
    let read = client.call("read_file", &json!({"path": "note.txt"}));
    assert!(text_of(&read).contains("a note"), "{read}");
    // The client cannot ask its user, so the call is refused, with the rule that would allow it.
    let refused = client.call("write_file", &json!({"path": "new.txt", "content": "x"}));
    assert_eq!(refused["isError"], true);
    let text = text_of(&refused);
    assert!(
        text.contains("elicitation") && text.contains("--yes"),
        "{text}"
    );
    assert!(
        text.contains("tools.rules = [{ tool = \"write_file\""),
        "{text}"
    );
    assert!(!rind.workspace().join("new.txt").exists());
    drop(client);

    let mut client = Client::ready(&rind, &["--builtin", "--yes"], &json!({}));
    let written = client.call("write_file", &json!({"path": "new.txt", "content": "x"}));
    assert_ne!(written["isError"], true, "{written}");
    assert!(rind.workspace().join("new.txt").exists());
}

#[test]
fn the_user_of_the_client_is_asked_by_elicitation() {
    let rind = machine(&["hello"]);
    let capabilities = json!({"elicitation": {}});
    let mut client = Client::ready(&rind, &["--builtin"], &capabilities);
    for (answer, is_made) in [
        (json!({"action": "decline"}), false),
        (
            json!({"action": "accept", "content": {"allow": false}}),
            false,
        ),
        (
            json!({"action": "accept", "content": {"allow": true}}),
            true,
        ),
    ] {
        let arguments = json!({"path": "made.txt", "content": "of a client"});
        let id = client.send(
            "tools/call",
            &json!({"name": "write_file", "arguments": arguments}),
        );
        let asked = client.next();
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        let message = asked["params"]["message"].as_str().unwrap();
        assert!(
            message.contains("write_file") && message.contains("of a client"),
            "{message}"
        );
        client.write(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer}).to_string());
        let result = client.answer(id)["result"].clone();
        assert_eq!(result["isError"] == true, !is_made, "{result}");
        assert_eq!(rind.workspace().join("made.txt").exists(), is_made);
    }
}

#[test]
fn the_newer_protocol_asks_by_a_result_and_the_call_goes_on_once() {
    let rind = machine(&["hello"]);
    let mut client = Client::start(&rind, &["--builtin"]);
    let found = client.ask("server/discover", &modern(&json!({}), true));
    assert!(
        found["result"]["supportedVersions"]
            .to_string()
            .contains("2026-07-28"),
        "{found}"
    );
    let call = json!({"name": "write_file", "arguments": {"path": "made.txt", "content": "x"}});
    let asked = client.ask("tools/call", &modern(&call, true));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let state = asked["result"]["requestState"].clone();
    assert_eq!(
        asked["result"]["inputRequests"]["approval"]["method"],
        "elicitation/create"
    );

    let mut wrong = call.clone();
    wrong["requestState"] = state.clone();
    wrong["arguments"]["content"] = json!("other");
    let refused = client.ask("tools/call", &modern(&wrong, true));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");

    let mut again = call;
    again["requestState"] = state;
    again["inputResponses"] = json!({"approval": {"action": "accept", "content": {"allow": true}}});
    let done = client.ask("tools/call", &modern(&again, true));
    assert_ne!(done["result"]["isError"], true, "{done}");
    assert!(rind.workspace().join("made.txt").exists());
    let twice = client.ask("tools/call", &modern(&again, true));
    assert_eq!(twice["error"]["code"], -32602, "{twice}");
    assert_eq!(client.end(), Some(0));
    assert_eq!(rind.entries("tool-start").len(), 1);
}

#[test]
fn rules_of_the_operator_and_failing_guards_refuse() {
    let rind = machine(&["hello"]);
    rind.config("[tools]\nrules = [{ tool = \"hello:greet\", decision = \"deny\" }]\n");
    let mut client = Client::ready(&rind, &["--yes"], &json!({}));
    let denied = client.call("greet", &json!({"name": "Ada"}));
    assert_eq!(denied["isError"], true);
    assert!(
        text_of(&denied).contains("denied by tool rule 1"),
        "{denied}"
    );
    drop(client);
    for how in ["trap", "loop", "error"] {
        let rind = guarded(how);
        let mut client = Client::ready(&rind, &["--yes"], &json!({}));
        let refused = client.call("greet", &json!({"name": "Ada"}));
        assert_eq!(refused["isError"], true, "{how}: {refused}");
        assert!(text_of(&refused).contains("hostile"), "{how}: {refused}");
        assert!(!text_of(&refused).contains("Hello"), "{how}: {refused}");
    }
}

#[test]
fn secrets_in_results_are_masked() {
    let rind = machine(&["picture"]);
    let mut client = Client::ready(&rind, &[], &json!({}));
    let secret = format!("AKIA{}", "Z7QX3M5R2T6P4WKV");
    let result = client.call("draw", &json!({"what": secret}));
    assert!(!result.to_string().contains(&secret), "{result}");
    assert_ne!(result["isError"], true, "{result}");
}

#[test]
fn faults_of_a_client_are_answered_and_end_nothing() {
    let rind = machine(&["hello"]);
    let mut client = Client::start(&rind, &[]);
    client.write("no json");
    assert_eq!(client.next()["error"]["code"], -32700);
    client.notify("notifications/cancelled", &json!({"requestId": 99}));
    let early = client.ask("tools/list", &json!({}));
    assert!(early["error"]["code"].is_i64(), "{early}");
    drop(client);

    let mut client = Client::ready(&rind, &[], &json!({}));
    client.write("[{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/list\"}]");
    let batch = client.next();
    assert!(
        batch["error"]["message"]
            .as_str()
            .unwrap()
            .contains("batches"),
        "{batch}"
    );
    client.write("{\"jsonrpc\":\"2.0\",\"id\":70,\"params\":5}");
    assert_eq!(client.next()["error"]["code"], -32600);
    let unknown = client.call("no_such_tool", &json!({}));
    assert_eq!(unknown["code"], -32602, "{unknown}");
    let unfit = client.call("greet", &json!({"nmae": 5}));
    assert_eq!(unfit["isError"], true);
    assert!(text_of(&unfit).contains("name"), "{unfit}");
    let method = client.ask("no/such/method", &json!({}));
    assert_eq!(method["error"]["code"], -32601, "{method}");
    // A message of 100 MiB is refused without being buffered.
    let large = "x".repeat(100 << 20);
    client.write(&json!({"jsonrpc": "2.0", "id": 71, "method": "tools/call", "params": {"name": "greet", "arguments": {"name": large}}}).to_string());
    let refused = client.next();
    assert!(
        refused["error"]["message"]
            .as_str()
            .unwrap()
            .contains("16 MiB"),
        "{refused}"
    );
    let text = "y".repeat(10 << 20);
    let long = client.call("greet", &json!({"name": text}));
    assert!(long.to_string().len() < 12 << 20);
    assert_eq!(
        text_of(&client.call("greet", &json!({"name": "Ada"}))),
        "Hello, Ada!"
    );
    assert_eq!(client.end(), Some(0));
}

#[test]
fn a_thousand_calls_at_once_are_served_or_refused_and_none_is_lost() {
    let rind = machine(&["hello"]);
    let mut client = Client::ready(&rind, &[], &json!({}));
    let ids: Vec<u64> = (0..1000)
        .map(|n| {
            client.send(
                "tools/call",
                &json!({"name": "greet", "arguments": {"name": n.to_string()}}),
            )
        })
        .collect();
    let mut done = 0;
    for _ in &ids {
        let message = client.next();
        if message["result"]["content"].is_array() {
            done += 1;
        } else {
            let text = message["error"]["message"]
                .as_str()
                .unwrap_or_else(|| panic!("{message}"));
            assert!(text.contains("calls are already waiting"), "{message}");
        }
    }
    assert!(done >= 200, "{done}");
    assert_eq!(
        text_of(&client.call("greet", &json!({"name": "Ada"}))),
        "Hello, Ada!"
    );
}

#[test]
fn a_call_that_hangs_is_cancelled_and_others_go_on() {
    let rind = machine(&["hello"]);
    let mut client = Client::ready(&rind, &["--builtin", "--yes"], &json!({}));
    let started = Instant::now();
    let hung = client.send(
        "tools/call",
        &json!({"name": "bash", "arguments": {"command": "sleep 300"}}),
    );
    let other = client.call("greet", &json!({"name": "Ada"}));
    assert_eq!(text_of(&other), "Hello, Ada!");
    client.notify("notifications/cancelled", &json!({"requestId": hung}));
    let after = client.call("bash", &json!({"command": "echo after"}));
    assert!(
        after.to_string().contains("after") || after["isError"] == true,
        "{after}"
    );
    assert!(started.elapsed() < Duration::from_secs(60));
    assert_eq!(client.end(), Some(0));
}

#[test]
fn the_end_of_the_client_and_a_signal_end_the_server_in_good_order() {
    let rind = machine(&["hello"]);
    for is_signal in [false, true] {
        let mut client = Client::ready(&rind, &["--builtin", "--yes"], &json!({}));
        client.call("greet", &json!({"name": "Ada"}));
        client.send(
            "tools/call",
            &json!({"name": "bash", "arguments": {"command": "sleep 300"}}),
        );
        std::thread::sleep(Duration::from_millis(700));
        let started = Instant::now();
        if is_signal {
            let id = client.id().to_string();
            std::process::Command::new("kill")
                .args(["-s", "TERM", &id])
                .status()
                .unwrap();
        }
        let code = client.end();
        assert_eq!(code, Some(if is_signal { 130 } else { 0 }));
        assert!(
            started.elapsed() < Duration::from_secs(15),
            "{:?}",
            started.elapsed()
        );
    }
    let folders = std::fs::read_dir(rind.home().join("data/sessions")).unwrap();
    let mut n_sessions = 0;
    for folder in folders.flatten().filter(|folder| folder.path().is_dir()) {
        let Ok(text) = std::fs::read_to_string(folder.path().join("session.jsonl")) else {
            continue;
        };
        n_sessions += 1;
        let ends = text.matches("\"type\":\"turn-end\"").count();
        let starts = text.matches("\"type\":\"turn-start\"").count();
        assert!(ends == starts && starts > 0, "{starts} {ends}");
    }
    assert_eq!(n_sessions, 2);
}

#[test]
fn skills_and_templates_are_prompts() {
    let rind = machine(&["hello"]);
    rind.user_file(
        "config/prompts/review.md",
        "---\ndescription: Reviews a folder\narguments:\n  properties:\n    path: {type: string, description: Folder}\n    \
         depth: {type: integer, default: 1}\n  required: [path]\n---\nReview {{ path }} {{ depth }}.\n",
    );
    rind.user_file(
        "config/skills/tidy/SKILL.md",
        "---\nname: tidy\ndescription: Tidies a file\nargument-hint: '[file]'\n---\nTidy $ARGUMENTS.\n",
    );
    let mut client = Client::ready(&rind, &[], &json!({}));
    let listed = client.ask("prompts/list", &json!({}));
    let prompts = listed["result"]["prompts"].as_array().unwrap();
    let names: Vec<&str> = prompts
        .iter()
        .filter_map(|own| own["name"].as_str())
        .collect();
    assert!(
        names.contains(&"review") && names.contains(&"tidy"),
        "{names:?}"
    );
    assert!(!names.contains(&"help"), "{names:?}");
    let get = |client: &mut Client, name: &str, arguments: Value| {
        client.ask(
            "prompts/get",
            &json!({"name": name, "arguments": arguments}),
        )
    };
    let review = get(&mut client, "review", json!({"path": "src", "depth": "3"}));
    assert_eq!(
        review["result"]["messages"][0]["content"]["text"], "Review src 3.",
        "{review}"
    );
    let missing = get(&mut client, "review", json!({}));
    assert!(
        missing["error"]["message"]
            .as_str()
            .unwrap()
            .contains("`path` is missing"),
        "{missing}"
    );
    let tidy = get(&mut client, "tidy", json!({"arguments": "a.rs"}));
    assert!(
        tidy["result"]["messages"][0]["content"]["text"]
            .as_str()
            .unwrap()
            .contains("Tidy a.rs."),
        "{tidy}"
    );
    assert!(get(&mut client, "help", json!({}))["error"]["code"].is_i64());
}

#[test]
fn tools_of_another_server_pass_hooks_and_rules_of_the_gateway() {
    if !has_python() {
        return;
    }
    let rind = served("plain", "[[reply]]\ntext = \"x\"\n", "");
    let mut client = Client::ready(&rind, &["--yes"], &json!({}));
    assert!(
        client.tools().is_empty(),
        "a server is offered only when named"
    );
    drop(client);
    let mut client = Client::ready(&rind, &["--upstream", "docs", "--yes"], &json!({}));
    assert_eq!(client.tools(), ["mcp__docs__echo", "mcp__docs__plain"]);
    let result = client.call("mcp__docs__echo", &json!({"text": "hi"}));
    assert_eq!(text_of(&result), "echo: hi", "{result}");
    drop(client);
    let config = std::fs::read_to_string(rind.home().join("config/config.toml")).unwrap();
    rind.config(&format!(
        "{config}\n[tools]\nrules = [{{ tool = \"mcp__docs__echo\", decision = \"deny\" }}]\n"
    ));
    let mut client = Client::ready(&rind, &["--upstream", "docs", "--yes"], &json!({}));
    let denied = client.call("mcp__docs__echo", &json!({"text": "hi"}));
    assert!(
        text_of(&denied).contains("denied by tool rule 1"),
        "{denied}"
    );
    drop(client);
    let unknown = rind.run(&["mcp", "serve", "--upstream", "other"]);
    assert_eq!(unknown.code, Some(2), "{}", unknown.stderr);
    assert!(
        unknown.stderr.contains("no MCP server `other`"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn our_own_client_uses_our_own_server() {
    if !has_python() {
        return;
    }
    let rind = served("secret", "[[reply]]\ntext = \"x\"\n", "");
    // The MCP server is `rind mcp serve` itself, with the settings of another machine.
    let inner = machine(&["hello"]);
    let program = rind_tests::cli::program();
    let script = format!(
        "import os\nos.environ['RIND_HOME'] = '{}'\nos.environ['RIND_MANAGED'] = '{}'\nos.environ['HOME'] = '{}'\n\
         os.execv('{}', ['rind', 'mcp', 'serve', '--workspace', '{}', '--set', 'sandbox.bash=off'])\n",
        inner.home().display(),
        inner.home().join("managed").display(),
        inner.user_home().display(),
        program.display(),
        inner.workspace().display(),
    );
    let file = rind.user_home().join("server/rind.py");
    std::fs::write(&file, script).unwrap();
    rind.config(&format!(
        "[sandbox]\nbash = \"off\"\n[mcp.inner]\ncommand = \"{PYTHON}\"\nargs = [\"{}\"]\n",
        file.display()
    ));
    let added = rind.run(&["mcp", "test", "inner", "--yes"]);
    assert_eq!(added.code, Some(0), "{}{}", added.stdout, added.stderr);
    assert!(added.stdout.contains("greet"), "{}", added.stdout);
    rind.script("[[reply]]\ntool_calls = [{ name = \"mcp__inner__greet\", arguments = { name = \"Ada\" } }]\n[[reply]]\ntext = \"Done.\"\n");
    let ran = super::turn(&rind);
    assert_eq!(
        super::results(&ran),
        ["Hello, Ada!"],
        "{}{}",
        ran.stdout,
        ran.stderr
    );
}

//! Tests of modes, models, slash commands, and the MCP servers that a client configures.

use std::path::Path;

use rind_tests::acp::AcpClient;
use rind_tests::cli::Rind;
use rind_tests::server::{Received, Reply, Server};
use serde_json::{Value, json};

use super::{COMMAND, client, option, selected};

const SERVER: &str = include_str!("../../mcp/server.py");
const PYTHON: &str = "/usr/bin/python3";

#[test]
fn modes_are_modes_and_an_option_and_switch_both_ways() {
    let rind = Rind::with_script(COMMAND);
    let mut client = client(&rind);
    let cwd = rind.workspace();
    let made = client.call("session/new", json!({"cwd": cwd, "mcpServers": []}));
    let session = made["sessionId"].clone();
    let modes = made["modes"]["availableModes"].as_array().unwrap();
    let ids: Vec<&str> = modes
        .iter()
        .map(|mode| mode["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["ask", "accept-edits", "plan", "full"]);
    assert_eq!(made["modes"]["currentModeId"], "ask");
    let options = made["configOptions"].as_array().unwrap();
    let categories: Vec<&Value> = options.iter().map(|option| &option["category"]).collect();
    assert_eq!(categories, ["mode", "model"]);
    client.call(
        "session/set_mode",
        json!({"sessionId": session, "modeId": "plan"}),
    );
    assert_eq!(
        client.update_after(0, "current_mode_update")["currentModeId"],
        "plan"
    );
    // In mode `plan` the command does not run; the program asks whether to carry out the plan.
    let id = client.prompt(session.as_str().unwrap(), "run it");
    let asked = client.asked();
    assert_eq!(asked["params"]["toolCall"]["kind"], "switch_mode");
    client.answer(&asked, selected("keep-planning"));
    assert_eq!(client.stopped(id), "end_turn");
    assert!(!rind.workspace().join("made").exists());
    let from = client.updates.len();
    let full = json!({"sessionId": session, "configId": "mode", "value": "full"});
    let set = client.call("session/set_config_option", full);
    assert_eq!(set["configOptions"][0]["currentValue"], "full");
    assert_eq!(
        client.update_after(from, "current_mode_update")["currentModeId"],
        "full"
    );
    assert_eq!(client.run(session.as_str().unwrap(), "again"), "end_turn");
    assert!(rind.workspace().join("made").exists());
    let from = client.updates.len();
    assert_eq!(
        client.run(session.as_str().unwrap(), "/mode ask"),
        "end_turn"
    );
    assert_eq!(
        client.update_after(from, "current_mode_update")["currentModeId"],
        "ask"
    );
    for (config, value) in [("mode", "yolo"), ("model", "other"), ("else", "x")] {
        let wrong = json!({"sessionId": session, "configId": config, "value": value});
        assert_eq!(client.refused("session/set_config_option", wrong).0, -32602);
    }
    let wrong = json!({"sessionId": session, "modeId": "FULL"});
    assert_eq!(client.refused("session/set_mode", wrong).0, -32602);
    let wrong = json!({"sessionId": session, "configId": "mode", "type": "boolean", "value": true});
    assert_eq!(client.refused("session/set_config_option", wrong).0, -32602);
}

#[test]
fn commands_are_offered_and_run() {
    let rind = Rind::with_script("[[reply]]\ntext = \"You said: {input}\"\ntimes = 0\n");
    let template = "---\ndescription: Reviews a file\n---\nReview {{ arguments }} well.\n";
    rind.user_file("config/prompts/review.md", template);
    let mut client = client(&rind);
    let session = client.new_session();
    let told = client.update_after(0, "available_commands_update");
    let commands = told["availableCommands"].as_array().unwrap();
    let find = |name: &str| commands.iter().find(|own| own["name"] == name);
    assert_eq!(find("review").unwrap()["description"], "Reviews a file");
    assert!(find("mode").unwrap()["input"]["hint"].is_string());
    for own in ["quit", "new", "clear", "reload", "copy", "resume"] {
        assert!(find(own).is_none(), "{own} is about a terminal");
    }
    assert_eq!(client.run(&session, "/review a.rs"), "end_turn");
    assert_eq!(client.said(), "You said: Review a.rs well.");
    let from = client.updates.len();
    assert_eq!(client.run(&session, "/status"), "end_turn");
    let status = client.text_after(from, "agent_message_chunk");
    assert!(status.contains(&session), "{status}");
    for (line, expected) in [
        ("/nothing", "there is no command /nothing"),
        ("/quit", "close the session in your editor"),
    ] {
        let from = client.updates.len();
        assert_eq!(client.run(&session, line), "end_turn");
        let said = client.text_after(from, "agent_message_chunk");
        assert!(said.contains(expected), "{line}: {said}");
    }
    // A line that begins with a path is a prompt, not a slash command.
    let from = client.updates.len();
    assert_eq!(client.run(&session, "/usr/bin/env is what?"), "end_turn");
    let said = client.text_after(from, "agent_message_chunk");
    assert_eq!(said, "You said: /usr/bin/env is what?");
}

/// Model server with two models that answer with their own names.
fn models(received: &Received) -> Reply {
    answer_of_a_model(received, ["large", "small/one"])
}

/// Another model server, which lists no model of the first.
fn other_models(received: &Received) -> Reply {
    answer_of_a_model(received, ["deep", "wide"])
}

fn answer_of_a_model(received: &Received, listed: [&str; 2]) -> Reply {
    if received.line.ends_with("/models") {
        let list = json!({"object": "list", "data": listed.map(|id| json!({"id": id}))});
        return Reply::ok(&list.to_string());
    }
    let request: Value = serde_json::from_slice(&received.body).unwrap_or_default();
    let text = format!("I am {}.", request["model"].as_str().unwrap_or("nobody"));
    let chunk = |delta: Value, end: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": end});
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": request["model"], "choices": [choice]});
        format!("data: {chunk}\n\n")
    };
    let body = chunk(json!({"role": "assistant", "content": text}), Value::Null)
        + &chunk(json!({}), json!("stop"))
        + "data: [DONE]\n\n";
    let headers = vec!["content-type: text/event-stream".to_owned()];
    Reply::Plain(200, headers, body.into_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_models_of_the_provider_are_an_option() {
    let server = Server::start(models).await;
    let rind = Rind::default();
    let url = server.at("127.0.0.1", "/v1");
    rind.config(&format!(
        "[providers.company]\nbase_url = \"{url}\"\nmodel = \"large\"\n[provider]\nname = \"company\"\n"
    ));
    tokio::task::block_in_place(|| {
        let mut client = client(&rind);
        let session = client.new_session();
        let told = client.update_after(0, "config_option_update");
        let model = &told["configOptions"][1];
        assert_eq!(model["currentValue"], "large");
        let values: Vec<&Value> = model["options"]
            .as_array()
            .unwrap()
            .iter()
            .map(|own| &own["value"])
            .collect();
        assert_eq!(values, ["large", "small/one"]);
        assert_eq!(client.run(&session, "who are you?"), "end_turn");
        let choice = json!({"sessionId": session, "configId": "model", "value": "small/one"});
        let set = client.call("session/set_config_option", choice);
        assert_eq!(set["configOptions"][1]["currentValue"], "small/one");
        assert_eq!(client.run(&session, "and now?"), "end_turn");
        let from = client.updates.len();
        assert_eq!(client.run(&session, "/model large"), "end_turn");
        let told = client.update_after(from, "config_option_update");
        assert_eq!(told["configOptions"][1]["currentValue"], "large");
        assert_eq!(client.run(&session, "and now?"), "end_turn");
        let said = client.said();
        let expected = "I am large.I am small/one.the next turns use the model largeI am large.";
        assert_eq!(said, expected);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn the_models_listed_are_those_of_the_provider_that_was_selected_last() {
    let (first, second) = (
        Server::start(models).await,
        Server::start(other_models).await,
    );
    let rind = Rind::default();
    rind.config(&format!(
        "[providers.company]\nbase_url = \"{}\"\nmodel = \"large\"\n[providers.lab]\nbase_url = \"{}\"\nmodel = \"deep\"\n[provider]\nname = \"company\"\n",
        first.at("127.0.0.1", "/v1"),
        second.at("127.0.0.1", "/v1"),
    ));
    tokio::task::block_in_place(|| {
        let mut client = client(&rind);
        let session = client.new_session();
        client.update_after(0, "config_option_update");
        assert_eq!(client.run(&session, "/model lab/deep"), "end_turn");
        let listed = |own: &mut AcpClient| {
            let found = own
                .updates
                .iter()
                .find(|update| update.to_string().contains("wide"));
            found.cloned()
        };
        let told = client.wait_for("the models of the second provider", listed);
        assert_eq!(told["configOptions"][1]["currentValue"], "deep");
        assert!(!told.to_string().contains("large"), "{told}");
        let choice = json!({"sessionId": session, "configId": "model", "value": "wide"});
        client.call("session/set_config_option", choice);
        let from = client.updates.len();
        assert_eq!(client.run(&session, "who are you?"), "end_turn");
        assert_eq!(client.text_after(from, "agent_message_chunk"), "I am wide.");
        let old = json!({"sessionId": session, "configId": "model", "value": "large"});
        let (_, refused) = client.refused("session/set_config_option", old);
        assert!(refused.contains("`large` is not among"), "{refused}");
    });
}

/// Returns the client's list of MCP servers: the test server, whose name `My Docs` is not a valid
/// server name in Rind.
fn servers(rind: &Rind) -> Value {
    let folder = rind.user_home().join("server");
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("server.py");
    std::fs::write(&program, SERVER).unwrap();
    json!([{"name": "My Docs", "command": PYTHON, "args": ["-c", SERVER], "env": [{"name": "GREETING", "value": "s3cret"}]}])
}

#[test]
fn servers_of_the_client_are_asked_about_once_and_their_calls_too() {
    if !Path::new(PYTHON).exists() {
        return;
    }
    let rind = Rind::with_script(
        "[[reply]]\nwhen = { contains = \"echo\", step = 1 }\ntimes = 0\ntool_calls = [{ name = \"mcp__my-docs__echo\", arguments = { text = \"hello\" } }]\n[[reply]]\ntext = \"Done.\"\ntimes = 0\n",
    );
    let new = json!({"cwd": rind.workspace(), "mcpServers": servers(&rind)});
    // For a client without forms the program asks for permission at the first prompt.
    let mut plain = super::client(&rind);
    let session = plain.call("session/new", new.clone());
    let session = session["sessionId"].as_str().unwrap().to_owned();
    for (chosen, is_used) in [("reject_once", false), ("allow_always", true)] {
        let session = match is_used {
            false => session.clone(),
            true => {
                let again = plain.call("session/new", new.clone());
                again["sessionId"].as_str().unwrap().to_owned()
            }
        };
        let from = plain.updates.len();
        let id = plain.prompt(&session, "echo");
        let asked = plain.asked();
        let shown = asked["params"]["toolCall"].to_string();
        assert!(shown.contains("MCP server my-docs"), "{shown}");
        plain.answer(&asked, selected(&option(&asked, chosen)));
        if is_used {
            let asked = plain.asked();
            plain.answer(&asked, selected(&option(&asked, "allow_once")));
        }
        assert_eq!(plain.stopped(id), "end_turn");
        let new: Vec<String> = plain
            .updates
            .iter()
            .skip(from)
            .map(Value::to_string)
            .collect();
        let has_run = new.iter().any(|update| update.contains("echo: hello"));
        assert_eq!(has_run, is_used, "{new:?}");
    }
    drop(plain);
    std::fs::remove_file(rind.home().join("data/mcp.json")).unwrap();
    let forms = json!({"elicitation": {"form": {}}});
    let mut client = AcpClient::initialized(&rind, &["--no-plugins"], forms);
    let id = client.send("session/new", new.clone());
    let asked = client.asked();
    assert_eq!(asked["params"]["requestId"], id);
    let message = asked["params"]["message"].as_str().unwrap();
    for part in [
        "my-docs",
        "2 tools",
        "no network",
        "see the variables GREETING",
        "Echoes a text.",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!message.contains("s3cret"), "{message}");
    client.answer(
        &asked,
        json!({"action": "accept", "content": {"answer": true}}),
    );
    let session = client.result(id)["sessionId"].as_str().unwrap().to_owned();
    let id = client.prompt(&session, "echo");
    let asked = client.asked();
    assert_eq!(asked["method"], "session/request_permission");
    client.answer(&asked, selected(&option(&asked, "allow_once")));
    assert_eq!(client.stopped(id), "end_turn");
    let done = client
        .updates
        .iter()
        .rfind(|update| update["status"] == "completed");
    assert!(
        done.unwrap().to_string().contains("echo: hello"),
        "{done:?}"
    );
    // The earlier approval is remembered, so a new session does not ask again.
    client.call("session/new", new);
    let sse = json!([{"type": "sse", "name": "x", "url": "http://127.0.0.1:1", "headers": []}]);
    let (code, why) = client.refused(
        "session/new",
        json!({"cwd": rind.workspace(), "mcpServers": sse}),
    );
    assert!(code == -32602 && why.contains("SSE"), "{why}");
}

#[test]
fn a_no_to_a_server_leaves_it_out() {
    if !Path::new(PYTHON).exists() {
        return;
    }
    let rind = Rind::with_script(COMMAND);
    let new = json!({"cwd": rind.workspace(), "mcpServers": servers(&rind)});
    let forms = json!({"elicitation": {"form": {}}});
    let mut client = AcpClient::initialized(&rind, &["--no-plugins"], forms);
    let id = client.send("session/new", new);
    let asked = client.asked();
    client.answer(
        &asked,
        json!({"action": "accept", "content": {"answer": "true"}}),
    );
    client.result(id);
    assert!(
        client.log().contains("its tools were not approved"),
        "{}",
        client.log()
    );
}

#[test]
fn a_plan_that_is_approved_is_carried_out_in_the_chosen_mode() {
    let rind = Rind::with_script(
        "[[reply]]\ntext = \"I would write a.txt.\"\n\
         [[reply]]\ntool_calls = [{ name = \"write_file\", arguments = { path = \"a.txt\", content = \"x\" } }]\n\
         [[reply]]\ntext = \"Written.\"\n",
    );
    let mut client = AcpClient::initialized(&rind, &["--no-plugins", "--mode", "plan"], json!({}));
    let session = client.new_session();
    let id = client.prompt(&session, "plan it");
    let asked = client.asked();
    client.answer(&asked, selected(&option(&asked, "allow_always")));
    assert_eq!(client.stopped(id), "end_turn");
    let mode = client.update_after(0, "current_mode_update");
    assert_eq!(mode["currentModeId"], "accept-edits");
    assert!(rind.workspace().join("a.txt").exists());
    assert!(client.said().ends_with("Written."), "{}", client.said());
}

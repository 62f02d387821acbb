//! Prompts and resources of MCP servers that `rind mcp serve --upstream` passes on: judged like calls, and otherwise as the
//! server made them.

use rind_tests::cli::Rind;
use rind_tests::guests;
use serde_json::{Value, json};

use super::client::Client;
use super::{MATERIAL, has_python, noted, served_by};

/// The arguments of the command.
const UPSTREAM: &[&str] = &["--upstream", "docs"];

/// A machine with a server that has prompts and resources, and these further settings.
fn machine(settings: &str) -> Rind {
    served_by(MATERIAL, "plain", "[[reply]]\ntext = \"x\"\n", settings)
}

/// The settings in which nothing is asked.
const ALLOWED: &str = "[tools]\nrules = [{ tool = \"mcp__docs_*\", decision = \"allow\" }]\n";

fn read(client: &mut Client, uri: &str) -> Value {
    client.ask("resources/read", &json!({"uri": uri}))
}

fn why(answer: &Value) -> String {
    let message = answer["error"]["message"].as_str();
    message.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[test]
fn prompts_and_resources_are_listed_and_come_as_the_server_made_them() {
    if !has_python() {
        return;
    }
    let rind = machine(ALLOWED);
    let mut client = Client::ready(&rind, UPSTREAM, &json!({}));
    assert!(client.tools().is_empty(), "what fetches them is no tool");
    let listed = client.ask("prompts/list", &json!({}));
    let prompts = listed["result"]["prompts"].as_array().unwrap();
    let review = prompts.iter().find(|own| own["name"] == "docs:review");
    let arguments = &review.unwrap()["arguments"];
    assert_eq!(arguments[0]["name"], "path", "{listed}");
    assert_eq!(arguments[0]["required"], true, "{listed}");
    let given = json!({"name": "docs:review", "arguments": {"path": "src"}});
    let review = client.ask("prompts/get", &given);
    assert_eq!(
        review["result"]["messages"],
        json!([
            {"role": "user", "content": {"type": "text", "text": "Review src as you like."}},
            {"role": "assistant", "content": {"type": "text", "text": "I will."}},
        ])
    );
    let picture = client.ask("prompts/get", &json!({"name": "docs:picture"}));
    let image = &picture["result"]["messages"][1]["content"];
    assert_eq!(image["type"], "image", "{picture}");
    assert_eq!(image["mimeType"], "image/png");

    let listed = client.ask("resources/list", &json!({}));
    let resources = listed["result"]["resources"].as_array().unwrap();
    let guide = resources.iter().find(|own| own["uri"] == "docs://guide");
    let about = guide.unwrap()["description"].as_str().unwrap();
    assert!(!about.contains('\u{1b}'), "{about}");
    let templates = client.ask("resources/templates/list", &json!({}));
    let templates = templates["result"]["resourceTemplates"].clone();
    assert_eq!(templates.as_array().unwrap().len(), 1, "{templates}");
    assert_eq!(templates[0]["uriTemplate"], "note://{name}");
    assert_eq!(
        read(&mut client, "docs://guide")["result"]["contents"],
        json!([{"uri": "docs://guide", "mimeType": "text/plain", "text": "Read the guide first."}])
    );
    assert_eq!(
        read(&mut client, "note://tea")["result"]["contents"][0]["text"],
        "A note on tea"
    );
    let binary = read(&mut client, "docs://binary");
    let binary = &binary["result"]["contents"][0];
    assert_eq!(
        (&binary["mimeType"], &binary["blob"]),
        (&json!("application/zip"), &json!("UEsDBP8A"))
    );
    let secret = read(&mut client, "docs://secret").to_string();
    assert!(
        secret.contains("secret masked") && !secret.contains("IOSFODNN7EXAMPLQ"),
        "{secret}"
    );
    assert_eq!(client.end(), Some(0));
    let lines = rind.session_lines().join("\n");
    for kept in [
        "mcp__docs_read_resource",
        "mcp__docs_get_prompt",
        "client:tester",
    ] {
        assert!(lines.contains(kept), "{kept}");
    }
}

#[test]
fn what_a_server_does_wrong_is_an_error_and_ends_nothing() {
    if !has_python() {
        return;
    }
    let rind = machine(ALLOWED);
    let mut client = Client::ready(&rind, UPSTREAM, &json!({}));
    for (uri, expected) in [
        ("docs://lies", "another resource than the one"),
        ("docs://huge", "more than 256 KiB"),
        ("docs://none", "without any content"),
        ("docs://refuses", "answered with an error"),
        ("docs://nowhere", "there is no such resource"),
        ("docs://guide/../guide", "there is no such resource"),
        ("file:///etc/passwd", "there is no such resource"),
        ("note://a/../b", "there is no such resource"),
        ("docs://dies", "fatal: no more"),
    ] {
        let why = why(&read(&mut client, uri));
        assert!(why.contains(expected), "{uri}: {why}");
    }
    for (name, expected) in [
        ("docs:huge", "more than 256 KiB"),
        ("docs:empty", "an empty prompt"),
        ("docs:nowhere", "there is no prompt `docs:nowhere`"),
        ("review", "there is no prompt `review`"),
    ] {
        let why = why(&client.ask("prompts/get", &json!({"name": name})));
        assert!(why.contains(expected), "{name}: {why}");
    }
    let asked = noted(&rind);
    assert!(
        !asked
            .iter()
            .any(|line| line.contains("passwd") || line.contains("..")),
        "{asked:?}"
    );
    assert!(read(&mut client, "docs://guide")["result"].is_object());
    // A changed prompt is withheld.
    std::fs::write(rind.user_home().join("server/log.changed"), "").unwrap();
    drop(client);
    let mut client = Client::ready(&rind, UPSTREAM, &json!({}));
    let given = json!({"name": "docs:review", "arguments": {"path": "src"}});
    let why = why(&client.ask("prompts/get", &given));
    assert!(
        why.contains("does not offer the prompt that you approved"),
        "{why}"
    );
}

#[test]
fn rules_hooks_and_the_user_of_the_client_judge_each_of_them() {
    if !has_python() {
        return;
    }
    // Nobody can be asked.
    let rind = machine("");
    let mut client = Client::ready(&rind, UPSTREAM, &json!({}));
    let refused = why(&read(&mut client, "docs://guide"));
    assert!(refused.contains("mcp__docs_read_resource"), "{refused}");
    // The requests of the protocol are the only way.
    let called = client.call("mcp__docs_read_resource", &json!({"uri": "docs://guide"}));
    assert_eq!(called["code"], -32602, "{called}");
    drop(client);
    // Somebody is, and says no, and then yes.
    let mut client = Client::ready(&rind, UPSTREAM, &json!({"elicitation": {}}));
    for (allow, expected) in [
        (false, "refused by the user"),
        (true, "Read the guide first."),
    ] {
        let id = client.send("resources/read", &json!({"uri": "docs://guide"}));
        let asked = client.next();
        let message = asked["params"]["message"].as_str().unwrap();
        assert!(message.contains("docs://guide"), "{message}");
        let answer = json!({"action": "accept", "content": {"allow": allow}});
        client.write(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer}).to_string());
        let answer = client.answer(id).to_string();
        assert!(answer.contains(expected), "{answer}");
    }
    drop(client);
    let reads = |rind: &Rind| {
        noted(rind)
            .iter()
            .filter(|line| line.starts_with("read "))
            .count()
    };
    assert_eq!(reads(&rind), 1, "{:?}", noted(&rind));
    // A rule, and a guard that fails.
    let denied = "[tools]\nrules = [{ tool = \"mcp__docs_get_prompt\", decision = \"deny\" }]\n";
    let rind = machine(denied);
    guests::put("hostile", &rind.home().join("managed"), |manifest| manifest);
    let config = std::fs::read_to_string(rind.home().join("config/config.toml")).unwrap();
    rind.config(&format!(
        "{config}\n[plugins.hostile.config]\nhow = \"trap\"\n"
    ));
    let mut client = Client::ready(&rind, &["--upstream", "docs", "--yes"], &json!({}));
    let guarded = why(&read(&mut client, "docs://guide"));
    assert!(guarded.contains("hostile"), "{guarded}");
    let denied = why(&client.ask("prompts/get", &json!({"name": "docs:picture"})));
    assert!(
        denied.contains("hostile") || denied.contains("tool rule 1"),
        "{denied}"
    );
    assert_eq!(reads(&rind), 0, "{:?}", noted(&rind));
}

#[test]
fn a_client_without_a_connection_asks_its_user_and_comes_back() {
    if !has_python() {
        return;
    }
    let rind = machine("");
    let mut client = Client::start(&rind, UPSTREAM);
    let modern = |mut params: Value| {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
            "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "2"},
        });
        params
    };
    for (method, params, expected) in [
        (
            "resources/read",
            json!({"uri": "docs://guide"}),
            "Read the guide first.",
        ),
        ("prompts/get", json!({"name": "docs:picture"}), "Look."),
    ] {
        let asked = client.ask(method, &modern(params.clone()));
        let asked = &asked["result"];
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        let key = asked["inputRequests"].as_object().unwrap().keys().next();
        let mut again = params;
        again["requestState"] = asked["requestState"].clone();
        again["inputResponses"] =
            json!({key.unwrap(): {"action": "accept", "content": {"allow": true}}});
        // The state is for this request only.
        let mut other = again.clone();
        other["uri"] = json!("docs://orders");
        other["name"] = json!("docs:review");
        assert!(client.ask(method, &modern(other))["error"].is_object());
        let answer = client.ask(method, &modern(again)).to_string();
        assert!(answer.contains(expected), "{answer}");
    }
}

#[test]
fn a_server_that_is_not_named_passes_nothing_on() {
    if !has_python() {
        return;
    }
    let rind = machine(ALLOWED);
    let mut client = Client::ready(&rind, &["--yes"], &json!({}));
    let listed = client.ask("resources/list", &json!({})).to_string();
    assert!(!listed.contains("docs://"), "{listed}");
    let listed = client.ask("prompts/list", &json!({})).to_string();
    assert!(!listed.contains("docs:"), "{listed}");
    assert!(why(&read(&mut client, "docs://guide")).contains("no such resource"));
    let got = client.ask("prompts/get", &json!({"name": "docs:picture"}));
    assert!(why(&got).contains("no prompt"), "{got}");
    assert!(!noted(&rind).iter().any(|line| line.starts_with("read ")));
}

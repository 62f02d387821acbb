//! Prompts and resources of MCP servers that `rind mcp serve --upstream` forwards: judged like
//! calls, and otherwise unchanged.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rind_tests::cli::Rind;
use rind_tests::guests;
use serde_json::{Value, json};

use super::client::Client;
use super::{MATERIAL, PYTHON, has_python, noted, served_by};

/// Arguments that name the upstream server.
const UPSTREAM: &[&str] = &["--upstream", "docs"];

/// A machine with a server that has prompts and resources, and these further settings.
fn machine(settings: &str) -> Rind {
    served_by(MATERIAL, "plain", "[[reply]]\ntext = \"x\"\n", settings)
}

/// Settings under which no approval is needed.
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
    // A declared type that contradicts the bytes is not forwarded.
    let lies = read(&mut client, "docs://image-lies")["result"]["contents"][0].clone();
    assert_eq!(
        (&lies["mimeType"], &lies["blob"]),
        (&json!("application/octet-stream"), &json!("IyEvYmluL3No"))
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
    // The client cannot ask its user, so the request is refused.
    let rind = machine("");
    let mut client = Client::ready(&rind, UPSTREAM, &json!({}));
    let refused = why(&read(&mut client, "docs://guide"));
    assert!(refused.contains("mcp__docs_read_resource"), "{refused}");
    // Resources are reachable only through the protocol's own requests, not as a tool.
    let called = client.call("mcp__docs_read_resource", &json!({"uri": "docs://guide"}));
    assert_eq!(called["code"], -32602, "{called}");
    drop(client);
    // The user is asked, refuses, and then agrees.
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
    // The operator's rule denies the request.
    let denied = "[tools]\nrules = [{ tool = \"mcp__docs_get_prompt\", decision = \"deny\" }]\n";
    let rind = machine(denied);
    let mut client = Client::ready(&rind, &["--upstream", "docs", "--yes"], &json!({}));
    let denied = why(&client.ask("prompts/get", &json!({"name": "docs:picture"})));
    assert!(denied.contains("tool rule 1"), "{denied}");
    assert!(
        !noted(&rind).iter().any(|line| line.starts_with("prompt ")),
        "{:?}",
        noted(&rind)
    );
    assert!(read(&mut client, "docs://guide")["result"].is_object());
    drop(client);
    // A failing guard refuses the request.
    let rind = machine("");
    guests::put("hostile", &rind.home().join("managed"), |manifest| manifest);
    let config = std::fs::read_to_string(rind.home().join("config/config.toml")).unwrap();
    rind.config(&format!(
        "{config}\n[plugins.hostile.config]\nhow = \"trap\"\n"
    ));
    let mut client = Client::ready(&rind, &["--upstream", "docs", "--yes"], &json!({}));
    let guarded = why(&read(&mut client, "docs://guide"));
    assert!(guarded.contains("hostile"), "{guarded}");
    let guarded = why(&client.ask("prompts/get", &json!({"name": "docs:picture"})));
    assert!(guarded.contains("hostile"), "{guarded}");
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
        // A request state is valid only for its own request.
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

#[test]
fn a_secret_that_is_served_as_bytes_is_masked() {
    if !has_python() {
        return;
    }
    let rind = machine(ALLOWED);
    let mut client = Client::ready(&rind, UPSTREAM, &json!({}));
    let answer = read(&mut client, "docs://secret-bytes");
    let content = &answer["result"]["contents"][0];
    assert_eq!(content["mimeType"], "text/plain", "{answer}");
    let bytes = STANDARD.decode(content["blob"].as_str().unwrap()).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.starts_with("key [secret masked"), "{text}");
    assert_eq!(client.end(), Some(0));
    let lines = rind.session_lines().join("\n");
    assert!(lines.contains("secret masked") && !lines.contains("IOSFODNN7EXAMPLQ"));
}

#[test]
fn messages_that_a_hook_puts_in_another_order_keep_their_roles() {
    if !has_python() {
        return;
    }
    let rind = machine(ALLOWED);
    guests::put("viewer", &rind.home().join("managed"), |manifest| manifest);
    let mut client = Client::ready(&rind, UPSTREAM, &json!({}));
    let given = json!({"name": "docs:review", "arguments": {"path": "src"}});
    let review = client.ask("prompts/get", &given);
    assert_eq!(
        review["result"]["messages"],
        json!([
            {"role": "assistant", "content": {"type": "text", "text": "I will."}},
            {"role": "user", "content": {"type": "text", "text": "Review src as you like."}},
        ]),
        "{review}"
    );
}

#[test]
fn an_address_of_two_servers_is_not_read_and_none_is_while_a_list_is_missing() {
    if !has_python() {
        return;
    }
    let rind = machine(ALLOWED);
    let folder = rind.user_home().join("server");
    let config = std::fs::read_to_string(rind.home().join("config/config.toml")).unwrap();
    rind.config(&format!(
        "{config}\n[mcp.other]\ncommand = \"{PYTHON}\"\nargs = [\"{}\", \"other\", \"{}\"]\nwrite = [\"~/server\"]\n",
        folder.join("server.py").display(),
        folder.join("other").display(),
    ));
    let ran = rind.run(&["mcp", "test", "other", "--yes"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    // A server that is named twice is one server.
    let both = "--upstream docs --upstream other --upstream docs --yes";
    let both: Vec<&str> = both.split(' ').collect();
    let mut client = Client::ready(&rind, &both, &json!({}));
    let listed = client.ask("resources/list", &json!({}));
    let listed = listed["result"]["resources"].as_array().unwrap().clone();
    let n_listed = |name: &str| {
        let own = listed
            .iter()
            .filter(|own| own["uri"] == format!("docs://{name}"));
        own.count()
    };
    assert_eq!(n_listed("guide"), 0, "{listed:?}");
    assert_eq!(n_listed("mine"), 1, "{listed:?}");
    assert_eq!(n_listed("picture"), 1, "{listed:?}");
    for shared in ["docs://guide", "note://tea"] {
        let why = why(&read(&mut client, shared));
        assert!(why.contains("`docs` and `other` both have"), "{why}");
    }
    for (uri, expected) in [("docs://mine", "It is mine."), ("docs://nul", "a\u{0}b")] {
        let answer = read(&mut client, uri);
        assert_eq!(
            answer["result"]["contents"][0]["text"], expected,
            "{answer}"
        );
    }
    drop(client);
    let before = noted(&rind).len();
    std::fs::write(folder.join("other.broken"), "").unwrap();
    let mut client = Client::ready(&rind, &both, &json!({}));
    for uri in ["docs://guide", "docs://nul"] {
        let why = why(&read(&mut client, uri));
        assert!(
            why.contains("`other`, whose resources are not known"),
            "{why}"
        );
    }
    let lines = noted(&rind);
    assert!(
        !lines[before..].iter().any(|line| line.starts_with("read ")),
        "{lines:?}"
    );
}

#[test]
fn a_resource_that_is_new_is_found_soon() {
    if !has_python() {
        return;
    }
    let rind = machine(ALLOWED);
    let mut client = Client::ready(&rind, UPSTREAM, &json!({}));
    assert!(why(&read(&mut client, "docs://new")).contains("no such resource"));
    std::fs::write(rind.user_home().join("server/log.new"), "").unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let answer = read(&mut client, "docs://new");
        if answer["result"]["contents"][0]["text"] == "It is new." {
            break;
        }
        assert!(Instant::now() < until, "{answer}");
        std::thread::sleep(Duration::from_millis(50));
    }
    // Requests for missing resources do not make the server list its resources each time.
    let n_lists = noted(&rind).iter().filter(|line| *line == "list").count();
    assert!(n_lists < 20, "{n_lists}");
}

#[test]
fn a_server_that_changes_without_end_serves_no_resources_either() {
    if !has_python() {
        return;
    }
    let rind = served_by(MATERIAL, "flaps", "[[reply]]\ntext = \"x\"\n", ALLOWED);
    let mut client = Client::ready(&rind, UPSTREAM, &json!({}));
    let is_refused = |client: &mut Client| read(client, "docs://guide")["error"].is_object();
    let refused = (0..60).find(|_| is_refused(&mut client));
    assert!(refused.is_some_and(|n| n > 0), "{refused:?}");
    let before = noted(&rind).len();
    assert!(is_refused(&mut client));
    let got = client.ask("prompts/get", &json!({"name": "docs:picture"}));
    assert!(got["error"].is_object(), "{got}");
    assert_eq!(noted(&rind).len(), before, "{:?}", noted(&rind));
}

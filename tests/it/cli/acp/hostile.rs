//! Messages that are malformed, too large, or name something that does not exist: the program
//! answers with an error and keeps running.

use rind_tests::cli::Rind;
use serde_json::{Value, json};

use super::{COMMAND, client};

#[test]
fn wrong_lines_have_errors_and_nothing_dies() {
    let rind = Rind::with_script("[[reply]]\ntext = \"Still here.\"\ntimes = 0\n");
    let mut client = client(&rind);
    let session = client.new_session();
    let long = vec![b'x'; 50 << 20];
    let deep = "[".repeat(1 << 20);
    let lines: [(&[u8], i64); 9] = [
        (b"{", -32700),
        (b"\xff\xfe{\"jsonrpc\":\"2.0\"}", -32700),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}",
            -32700,
        ),
        (deep.as_bytes(), -32700),
        (
            b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}]",
            -32600,
        ),
        (b"{}", -32600),
        (b"{\"jsonrpc\":\"1.0\",\"method\":\"x\"}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"x\"}", -32600),
        (&long, -32600),
    ];
    for (line, code) in lines {
        client.send_line(line);
        let told: Value = client.wait_for("an error", |own| own.notes.pop());
        let shown = String::from_utf8_lossy(&line[..line.len().min(80)]);
        assert_eq!(told["error"]["code"], code, "{shown}: {told}");
        assert_eq!(told["id"], Value::Null);
    }
    // Blank lines, responses without a request, and unknown notifications are ignored.
    for line in [
        "",
        "  \r",
        r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"x","error":1}"#,
    ] {
        client.send_line(line.as_bytes());
    }
    client.tell("$/unknown", json!({"x": 1}));
    client.tell("session/unknown", json!(null));
    assert_eq!(client.run(&session, "there?"), "end_turn");
    assert_eq!(client.close(), Some(0));
}

#[test]
fn requests_for_something_that_is_not_there_say_so() {
    let rind = Rind::with_script(COMMAND);
    rind.file("file.txt", "x");
    std::os::unix::fs::symlink("/nowhere", rind.workspace().join("dangling")).unwrap();
    let mut client = client(&rind);
    let workspace = rind.workspace();
    let at = |cwd: &str| json!({"cwd": cwd, "mcpServers": []});
    let in_workspace = |name: &str| at(workspace.join(name).to_str().unwrap());
    let text = json!([{"type": "text", "text": "x"}]);
    let long = "x".repeat(10_000);
    let table = [
        (
            "session/new",
            at("relative/folder"),
            -32602,
            "not an absolute path",
        ),
        ("session/new", at(""), -32602, "not an absolute path"),
        (
            "session/new",
            in_workspace("../workspace"),
            -32602,
            "`..` is not accepted",
        ),
        (
            "session/new",
            in_workspace("missing"),
            -32602,
            "cannot be opened",
        ),
        (
            "session/new",
            in_workspace("dangling"),
            -32602,
            "cannot be opened",
        ),
        (
            "session/new",
            in_workspace("file.txt"),
            -32602,
            "is not a folder",
        ),
        ("session/new", at("/\u{0}"), -32602, "cannot be opened"),
        (
            "session/new",
            json!({}),
            -32602,
            "the parameters of `session/new` are wrong",
        ),
        ("session/new", json!("x"), -32602, "are wrong"),
        (
            "session/new",
            json!({"cwd": 7, "mcpServers": []}),
            -32602,
            "are wrong",
        ),
        (
            "session/new",
            json!({"cwd": workspace, "mcpServers": [], "systemPrompt": {"mode": "append", "content": []}}),
            -32602,
            "`systemPrompt` is not supported",
        ),
        (
            "session/new",
            json!({"cwd": workspace, "mcpServers": [], "additionalDirectories": ["/tmp"]}),
            -32602,
            "`additionalDirectories` is not supported",
        ),
        (
            "session/prompt",
            json!({"sessionId": "none", "prompt": text}),
            -32002,
            "no session `none`",
        ),
        (
            "session/prompt",
            json!({"sessionId": long, "prompt": text}),
            -32002,
            "no session",
        ),
        (
            "session/set_mode",
            json!({"sessionId": "none", "modeId": "ask"}),
            -32002,
            "no session",
        ),
        (
            "session/close",
            json!({"sessionId": "../x"}),
            -32002,
            "no session",
        ),
        (
            "session/list",
            json!({"cursor": "none"}),
            -32602,
            "does not name a session",
        ),
        (
            "session/delete",
            json!({"sessionId": "none"}),
            -32601,
            "no method",
        ),
        ("session/fork", json!({}), -32601, "no method"),
        ("fs/read_text_file", json!({}), -32601, "no method"),
        ("\u{1b}[2J", json!({}), -32601, "no method"),
    ];
    for (method, params, code, expected) in table {
        let (found, why) = client.refused(method, params.clone());
        let shown: String = params.to_string().chars().take(200).collect();
        assert_eq!(found, code, "{method} {shown}: {why}");
        assert!(why.contains(expected), "{method} {shown}: {why}");
        assert!(why.len() < 600 && !why.contains('\u{1b}'), "{why}");
    }
    for id in ["last", "../../x", "", "no"] {
        let params = json!({"sessionId": id, "cwd": workspace, "mcpServers": []});
        assert_eq!(client.refused("session/load", params).0, -32002, "{id}");
    }
    let session = client.new_session();
    // A prefix of a session's id is not accepted as the id.
    let params = json!({"sessionId": session[..9], "cwd": workspace});
    assert_eq!(client.refused("session/resume", params).0, -32002);
    let wrong = json!({"sessionId": session, "prompt": [{"type": "spell", "text": "x"}]});
    assert_eq!(client.refused("session/prompt", wrong).0, -32602);
    let wrong = json!({"sessionId": session, "prompt": []});
    assert_eq!(client.refused("session/prompt", wrong).0, -32602);
}

#[test]
fn a_request_whose_id_runs_already_is_refused_and_another_client_cannot_open_the_session() {
    let rind = Rind::with_script("[[reply]]\ntext = \"Slow.\"\ndelay_ms = 1500\ntimes = 0\n");
    let mut first = client(&rind);
    let session = first.new_session();
    let id = first.prompt(&session, "slow");
    let twice = json!({"jsonrpc": "2.0", "id": id, "method": "session/list", "params": {}});
    first.send_line(twice.to_string().as_bytes());
    let (code, why) = first.error(id);
    assert!(code == -32600 && why.contains("already running"), "{why}");
    assert_eq!(first.stopped(id), "end_turn");
    let mut second = client(&rind);
    let cwd = rind.workspace();
    let load = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
    let (code, why) = second.refused("session/load", load);
    assert_eq!(code, -32603, "{why}");
}

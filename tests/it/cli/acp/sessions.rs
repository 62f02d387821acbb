//! Tests of loading, resuming, listing and closing sessions, and of how the program exits.

use rind_tests::cli::Rind;
use serde_json::json;

use super::{COMMAND, client, option, selected};

#[test]
fn a_session_is_loaded_after_a_kill_with_its_history() {
    let rind = Rind::with_script(COMMAND);
    let mut first = client(&rind);
    let session = first.new_session();
    let id = first.prompt(&session, "run it");
    let asked = first.asked();
    first.answer(&asked, selected(&option(&asked, "allow_once")));
    assert_eq!(first.stopped(id), "end_turn");
    let _ = first.prompt(&session, "once more");
    first.asked();
    // Kills the program while a question is open.
    assert_eq!(first.signal("KILL"), None);

    let mut second = client(&rind);
    let listed = second.call("session/list", json!({"cwd": rind.workspace()}));
    let row = &listed["sessions"][0];
    assert_eq!(row["sessionId"], session.as_str());
    assert_eq!(
        (&row["title"], &row["cwd"]),
        (&json!("run it"), &json!(rind.workspace()))
    );
    assert!(row["updatedAt"].as_str().unwrap().ends_with('Z'));
    let elsewhere = second.call("session/list", json!({"cwd": "/"}));
    assert_eq!(elsewhere["sessions"], json!([]));

    let cwd = rind.workspace();
    let load = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
    let loaded = second.call("session/load", load.clone());
    assert_eq!(loaded["modes"]["currentModeId"], "ask");
    let of_person = second.text_after(0, "user_message_chunk");
    assert_eq!(of_person, "run itonce more");
    assert!(
        second.said().starts_with("I run it.It ran."),
        "{}",
        second.said()
    );
    let calls: Vec<_> = second
        .updates
        .iter()
        .filter(|update| update["sessionUpdate"] == "tool_call")
        .collect();
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert_eq!(
        (&calls[0]["kind"], &calls[0]["rawInput"]["command"]),
        (
            &json!("execute"),
            &json!("echo made >> made; # the whole command")
        )
    );
    let ends: Vec<_> = second
        .updates
        .iter()
        .filter(|update| update["sessionUpdate"] == "tool_call_update")
        .map(|update| update["status"].clone())
        .collect();
    assert_eq!(ends, ["completed", "failed"]);
    // The script starts from the beginning in the new process.
    let id = second.prompt(&session, "hello again");
    let asked = second.asked();
    second.answer(&asked, selected(&option(&asked, "reject_once")));
    assert_eq!(second.stopped(id), "end_turn");
    // Loading an open session opens it again; resuming it replays no history.
    second.call("session/load", load.clone());
    let from = second.updates.len();
    second.call("session/resume", load);
    assert_eq!(second.text_after(from, "user_message_chunk"), "");
    second.call("session/close", json!({"sessionId": session}));
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "x"}]});
    assert_eq!(second.refused("session/prompt", prompt).0, -32002);
    assert_eq!(
        second
            .refused("session/close", json!({"sessionId": session}))
            .0,
        -32002
    );
    assert_eq!(second.close(), Some(0));
}

#[test]
fn the_end_of_the_input_and_a_signal_end_a_turn_in_good_order() {
    for signal in [None, Some("TERM"), Some("INT")] {
        let rind = Rind::with_script(
            "[[reply]]\nwhen = { contains = \"sleep\" }\n\
             tool_calls = [{ name = \"bash\", arguments = { command = \"echo begun > begun; sleep 77\" } }]\n\
             [[reply]]\ntimes = 0\ntext = \"Done.\"\n",
        );
        let mut own = client(&rind);
        let session = own.new_session();
        let _ = own.prompt(&session, "sleep");
        let asked = own.asked();
        own.answer(&asked, selected(&option(&asked, "allow_once")));
        own.wait_for("the command", |_| {
            rind.workspace().join("begun").exists().then_some(())
        });
        let code = match signal {
            None => own.close(),
            Some(name) => own.signal(name),
        };
        assert_eq!(code, Some(if signal.is_none() { 0 } else { 130 }));
        let ended = rind.entries("turn-end");
        assert_eq!(ended.len(), 1, "{:?}", rind.session_lines());
        let mut later = client(&rind);
        let cwd = rind.workspace();
        later.call("session/resume", json!({"sessionId": session, "cwd": cwd}));
        assert_eq!(later.run(&session, "and now?"), "end_turn");
    }
}

#[test]
fn a_client_that_never_answers_and_goes_leaves_nothing_running() {
    let rind = Rind::with_script(COMMAND);
    let mut own = client(&rind);
    let session = own.new_session();
    let _ = own.prompt(&session, "run it");
    own.asked();
    assert_eq!(own.close(), Some(0));
    assert!(!rind.workspace().join("made").exists());
}

#[test]
fn sessions_of_one_client_work_side_by_side() {
    let rind =
        Rind::with_script("[[reply]]\ntext = \"You said: {input}\"\ndelay_ms = 300\ntimes = 0\n");
    let mut client = client(&rind);
    let sessions: Vec<String> = (0..8).map(|_| client.new_session()).collect();
    let ids: Vec<u64> = sessions
        .iter()
        .enumerate()
        .map(|(n, session)| client.prompt(session, &format!("number {n}")))
        .collect();
    for id in ids {
        assert_eq!(client.stopped(id), "end_turn");
    }
    for (n, session) in sessions.iter().enumerate() {
        let of_session = client
            .updates
            .iter()
            .filter(|update| update["session"] == session.as_str());
        let said: String = of_session
            .filter(|update| update["sessionUpdate"] == "agent_message_chunk")
            .filter_map(|update| update["content"]["text"].as_str())
            .collect();
        assert_eq!(said, format!("You said: number {n}"));
    }
    assert_eq!(client.close(), Some(0));
}

//! Tests that recorded payloads are read and verdicts are written correctly for each agent.

use std::path::PathBuf;

use rind_lib::host::{ForeignChange, ForeignVerdict};
use serde_json::{Value, json};

use super::*;
use crate::agent::GuardedAgent;
use crate::answer::HookAnswer;
use crate::event::read_payload;

fn recorded(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../tests/recorded/guard");
    std::fs::read(folder.join(format!("{name}.json"))).unwrap()
}

/// Answers a recorded payload of an agent with the given verdict.
fn answer(
    agent: GuardedAgent,
    point: GuardPoint,
    variant: &str,
    verdict: &ForeignVerdict,
) -> HookAnswer {
    let name = format!("{}-{}{variant}", agent.name(), point.name());
    let (payload, event) = read_payload(agent, point, &recorded(&name)).unwrap();
    agent.format().answer(point, &payload, &event, verdict)
}

fn said(answer: &HookAnswer) -> Value {
    assert_eq!(answer.code, 0, "{answer:?}");
    serde_json::from_str(&answer.stdout).unwrap_or_default()
}

fn changed(change: ForeignChange) -> ForeignVerdict {
    ForeignVerdict {
        changed: Some(change),
        ..ForeignVerdict::default()
    }
}

/// Whether the agent would refuse the call after reading this answer.
fn is_refusal(agent: GuardedAgent, answer: &HookAnswer) -> bool {
    let code = i32::from(answer.code);
    let outcome = crate::read_outcome(agent, Some(code), &answer.stdout, &answer.stderr);
    matches!(outcome, crate::ProbeOutcome::Refused(why) if why.contains("Rind guard"))
}

#[test]
fn a_pass_never_allows_what_the_agent_would_ask_about() {
    for agent in GuardedAgent::ALL {
        let passed = answer(agent, GuardPoint::PreTool, "", &ForeignVerdict::default());
        let expected = match agent {
            GuardedAgent::ClaudeCode | GuardedAgent::Codex => "",
            // goose treats only `allow` and an empty output as a pass.
            GuardedAgent::Goose => r#"{"decision":"allow"}"#,
            GuardedAgent::OpenCode | GuardedAgent::Pi => r#"{"pass":true,"v":1}"#,
        };
        let is_same = expected.is_empty() && passed.stdout.is_empty()
            || serde_json::from_str::<Value>(&passed.stdout).ok()
                == serde_json::from_str::<Value>(expected).ok();
        assert!(passed.code == 0 && is_same, "{agent:?}: {passed:?}");
    }
}

#[test]
fn every_agent_is_told_of_a_refusal_in_its_own_form() {
    for agent in GuardedAgent::ALL {
        let refused = answer(
            agent,
            GuardPoint::PreTool,
            "",
            &ForeignVerdict::refused("no"),
        );
        assert!(is_refusal(agent, &refused), "{agent:?}: {refused:?}");
        let unread = agent.format().refuse(GuardPoint::PreTool, None, "no");
        assert!(is_refusal(agent, &unread), "{agent:?}: {unread:?}");
    }
}

#[test]
fn a_question_is_that_of_the_agent_where_it_has_one() {
    let verdict = ForeignVerdict {
        asked: Some("sure?".to_owned()),
        ..ForeignVerdict::default()
    };
    let claude = said(&answer(
        GuardedAgent::ClaudeCode,
        GuardPoint::PreTool,
        "",
        &verdict,
    ));
    assert_eq!(claude["hookSpecificOutput"]["permissionDecision"], "ask");
    let pi = said(&answer(GuardedAgent::Pi, GuardPoint::PreTool, "", &verdict));
    assert_eq!(pi["ask"], "Rind guard: sure?");
    for agent in [
        GuardedAgent::Codex,
        GuardedAgent::Goose,
        GuardedAgent::OpenCode,
    ] {
        assert!(agent.table().cannot_ask().is_some());
    }
}

#[test]
fn changed_arguments_come_back_in_the_agents_names_or_refuse() {
    let verdict = changed(ForeignChange::Arguments(
        json!({"command": "quiet", "description": "List files"}),
    ));
    let claude = said(&answer(
        GuardedAgent::ClaudeCode,
        GuardPoint::PreTool,
        "",
        &verdict,
    ));
    assert_eq!(
        claude["hookSpecificOutput"],
        json!({
            "hookEventName": "PreToolUse",
            "updatedInput": {"command": "quiet", "description": "List files"},
        })
    );
    let verdict = changed(ForeignChange::Arguments(json!({"command": "quiet"})));
    let codex = said(&answer(
        GuardedAgent::Codex,
        GuardPoint::PreTool,
        "",
        &verdict,
    ));
    assert_eq!(codex["hookSpecificOutput"]["permissionDecision"], "allow");
    assert_eq!(
        codex["hookSpecificOutput"]["updatedInput"],
        json!({"command": "quiet"})
    );
    for agent in [GuardedAgent::OpenCode, GuardedAgent::Pi] {
        let told = said(&answer(agent, GuardPoint::PreTool, "", &verdict));
        assert_eq!(told["args"], json!({"command": "quiet"}));
    }
    let goose = answer(GuardedAgent::Goose, GuardPoint::PreTool, "", &verdict);
    assert!(is_refusal(GuardedAgent::Goose, &goose));
    let patch = answer(GuardedAgent::Codex, GuardPoint::PreTool, "-patch", &verdict);
    assert!(is_refusal(GuardedAgent::Codex, &patch), "{patch:?}");
}

#[test]
fn a_masked_result_has_the_shape_that_the_agent_takes() {
    let verdict = changed(ForeignChange::Content("the password is ***".into()));
    let claude = said(&answer(
        GuardedAgent::ClaudeCode,
        GuardPoint::PostTool,
        "",
        &verdict,
    ));
    assert_eq!(
        claude["hookSpecificOutput"]["updatedToolOutput"],
        json!({"stdout": "the password is ***", "stderr": "", "interrupted": false, "isImage": false, "noOutputExpected": false})
    );
    let codex = said(&answer(
        GuardedAgent::Codex,
        GuardPoint::PostTool,
        "",
        &verdict,
    ));
    assert_eq!(
        codex,
        json!({"decision": "block", "reason": "the password is ***"})
    );
    for agent in [GuardedAgent::OpenCode, GuardedAgent::Pi] {
        let told = said(&answer(agent, GuardPoint::PostTool, "", &verdict));
        assert_eq!(told["texts"], json!(["the password is ***"]));
    }
    let goose = answer(GuardedAgent::Goose, GuardPoint::PostTool, "", &verdict);
    assert_eq!(goose, HookAnswer::silent());
}

#[test]
fn a_result_that_could_not_be_judged_is_withheld() {
    let verdict = ForeignVerdict::refused("the daemon is gone");
    for agent in [GuardedAgent::ClaudeCode, GuardedAgent::Codex] {
        let told = answer(agent, GuardPoint::PostTool, "", &verdict).stdout;
        assert!(
            told.contains("withheld") && !told.contains("hunter2"),
            "{told}"
        );
    }
    let claude = said(&answer(
        GuardedAgent::ClaudeCode,
        GuardPoint::PostTool,
        "",
        &verdict,
    ));
    let output = &claude["hookSpecificOutput"]["updatedToolOutput"];
    assert!(output["stdout"].as_str().unwrap().contains("withheld"));
}

#[test]
fn a_prompt_is_blocked_or_changed_where_the_agent_can() {
    let refused = ForeignVerdict::refused("not that");
    let masked = changed(ForeignChange::Prompt("do ***".to_owned()));
    for agent in [GuardedAgent::ClaudeCode, GuardedAgent::Codex] {
        for verdict in [&refused, &masked] {
            let told = said(&answer(agent, GuardPoint::TurnStart, "", verdict));
            assert_eq!(told["decision"], "block", "{agent:?}");
        }
    }
    for agent in [GuardedAgent::OpenCode, GuardedAgent::Pi] {
        let told = said(&answer(agent, GuardPoint::TurnStart, "", &masked));
        assert_eq!(told["prompt"], "do ***");
    }
    assert!(
        GuardedAgent::Goose
            .table()
            .row(GuardPoint::TurnStart)
            .is_none()
    );
}

#[test]
fn a_patch_is_a_call_for_each_file_and_an_edit_of_pi_for_each_replacement() {
    let (_, event) = read_payload(
        GuardedAgent::Codex,
        GuardPoint::PreTool,
        &recorded("codex-pre-tool-patch"),
    )
    .unwrap();
    let HookAct::Call { calls, .. } = event.act else {
        panic!("a call");
    };
    let paths: Vec<&Value> = calls.iter().map(|call| &call.arguments["path"]).collect();
    assert_eq!(paths, ["n.txt", "/etc/passwd"]);
    let edit = json!({
        "session": "s", "folder": "/w", "id": "c", "tool": "edit",
        "args": {"path": "/w/a", "edits": [{"oldText": "x", "newText": "y"}, {"oldText": "z", "newText": ""}]},
    });
    let (_, event) = read_payload(
        GuardedAgent::Pi,
        GuardPoint::PreTool,
        edit.to_string().as_bytes(),
    )
    .unwrap();
    let HookAct::Call { calls, .. } = event.act else {
        panic!("a call");
    };
    assert_eq!(calls.len(), 2);
    assert_eq!(
        calls[0].arguments,
        json!({"path": "a", "old_text": "x", "new_text": "y"})
    );
}

#[test]
fn the_failure_of_a_call_is_read_and_left() {
    let verdict = changed(ForeignChange::Content("other".into()));
    let told = answer(
        GuardedAgent::ClaudeCode,
        GuardPoint::PostTool,
        "-failure",
        &verdict,
    );
    assert_eq!(told, HookAnswer::silent());
}

#[test]
fn payloads_without_what_a_point_needs_are_refused() {
    for (agent, key) in [
        (GuardedAgent::ClaudeCode, "tool_name"),
        (GuardedAgent::Codex, "tool_use_id"),
        (GuardedAgent::Goose, "session_id"),
        (GuardedAgent::OpenCode, "tool"),
        (GuardedAgent::Pi, "id"),
    ] {
        let name = format!("{}-pre-tool", agent.name());
        let mut payload: Value = serde_json::from_slice(&recorded(&name)).unwrap();
        payload.as_object_mut().unwrap().remove(key);
        let read = |payload: &Value| {
            read_payload(agent, GuardPoint::PreTool, payload.to_string().as_bytes())
        };
        assert!(read(&payload).unwrap_err().why.contains(key));
        payload[key] = json!("a\u{0}b");
        assert!(
            read(&payload)
                .unwrap_err()
                .why
                .contains("control characters")
        );
        payload[key] = json!("x".repeat(1000));
        assert!(read(&payload).is_err());
        payload[key] = json!({"a": 1});
        assert!(read(&payload).is_err());
    }
}

//! Tests that recorded payloads are read and verdicts are written correctly for each agent.

use std::path::PathBuf;

use rind_lib::host::{HookChangedValue, VerdictForExternalAgent};
use serde_json::{Value, json};

use super::*;
use crate::agent::GuardedAgent;
use crate::answer::HookAnswer;
use crate::event::parse_hook_payload;

fn read_recording(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../tests/recorded/guard");
    std::fs::read(folder.join(format!("{name}.json"))).unwrap()
}

/// Returns the answer to a recorded payload of an agent for `verdict`.
fn answer(
    agent: GuardedAgent,
    point: AgentHookPoint,
    variant: &str,
    verdict: &VerdictForExternalAgent,
) -> HookAnswer {
    let name = format!("{}-{}{variant}", agent.name(), point.name());
    let (payload, event) = parse_hook_payload(agent, point, &read_recording(&name)).unwrap();
    agent.hook_format().answer(point, &payload, &event, verdict)
}

fn parse_answer(answer: &HookAnswer) -> Value {
    assert_eq!(answer.code, 0, "{answer:?}");
    serde_json::from_str(&answer.stdout).unwrap_or_default()
}

fn verdict_with_change(change: HookChangedValue) -> VerdictForExternalAgent {
    VerdictForExternalAgent {
        changed: Some(change),
        ..VerdictForExternalAgent::default()
    }
}

/// Whether the agent would refuse the call after reading this answer.
fn is_refusal(agent: GuardedAgent, answer: &HookAnswer) -> bool {
    let code = i32::from(answer.code);
    let outcome = crate::interpret_hook_output(agent, Some(code), &answer.stdout, &answer.stderr);
    matches!(outcome, crate::AgentReactionToHookAnswer::Refused(why) if why.contains("Rind guard"))
}

#[test]
fn a_pass_verdict_never_skips_a_permission_question_of_the_agent() {
    for agent in GuardedAgent::ALL {
        let passed = answer(
            agent,
            AgentHookPoint::PreTool,
            "",
            &VerdictForExternalAgent::default(),
        );
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
fn each_agent_receives_a_refusal_in_its_format() {
    for agent in GuardedAgent::ALL {
        let refused = answer(
            agent,
            AgentHookPoint::PreTool,
            "",
            &VerdictForExternalAgent::refused("no"),
        );
        assert!(is_refusal(agent, &refused), "{agent:?}: {refused:?}");
        let unread = agent
            .hook_format()
            .write_refusal(AgentHookPoint::PreTool, None, "no");
        assert!(is_refusal(agent, &unread), "{agent:?}: {unread:?}");
    }
}

#[test]
fn an_approval_question_uses_the_permission_prompt_of_the_agent_if_it_has_one() {
    let verdict = VerdictForExternalAgent {
        asked: Some("sure?".to_owned()),
        ..VerdictForExternalAgent::default()
    };
    let claude = parse_answer(&answer(
        GuardedAgent::ClaudeCode,
        AgentHookPoint::PreTool,
        "",
        &verdict,
    ));
    assert_eq!(claude["hookSpecificOutput"]["permissionDecision"], "ask");
    let pi = parse_answer(&answer(
        GuardedAgent::Pi,
        AgentHookPoint::PreTool,
        "",
        &verdict,
    ));
    assert_eq!(pi["ask"], "Rind guard: sure?");
    for agent in [
        GuardedAgent::Codex,
        GuardedAgent::Goose,
        GuardedAgent::OpenCode,
    ] {
        assert!(agent.hook_table().cannot_ask_user_reason().is_some());
    }
}

#[test]
fn changed_arguments_use_the_argument_names_of_the_agent_or_become_a_refusal() {
    let verdict = verdict_with_change(HookChangedValue::Arguments(
        json!({"command": "quiet", "description": "List files"}),
    ));
    let claude = parse_answer(&answer(
        GuardedAgent::ClaudeCode,
        AgentHookPoint::PreTool,
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
    let verdict = verdict_with_change(HookChangedValue::Arguments(json!({"command": "quiet"})));
    let codex = parse_answer(&answer(
        GuardedAgent::Codex,
        AgentHookPoint::PreTool,
        "",
        &verdict,
    ));
    assert_eq!(codex["hookSpecificOutput"]["permissionDecision"], "allow");
    assert_eq!(
        codex["hookSpecificOutput"]["updatedInput"],
        json!({"command": "quiet"})
    );
    for agent in [GuardedAgent::OpenCode, GuardedAgent::Pi] {
        let told = parse_answer(&answer(agent, AgentHookPoint::PreTool, "", &verdict));
        assert_eq!(told["args"], json!({"command": "quiet"}));
    }
    let goose = answer(GuardedAgent::Goose, AgentHookPoint::PreTool, "", &verdict);
    assert!(is_refusal(GuardedAgent::Goose, &goose));
    let patch = answer(
        GuardedAgent::Codex,
        AgentHookPoint::PreTool,
        "-patch",
        &verdict,
    );
    assert!(is_refusal(GuardedAgent::Codex, &patch), "{patch:?}");
}

#[test]
fn a_masked_result_has_the_shape_that_the_agent_accepts() {
    let verdict = verdict_with_change(HookChangedValue::Content("the password is ***".into()));
    let claude = parse_answer(&answer(
        GuardedAgent::ClaudeCode,
        AgentHookPoint::PostTool,
        "",
        &verdict,
    ));
    assert_eq!(
        claude["hookSpecificOutput"]["updatedToolOutput"],
        json!({"stdout": "the password is ***", "stderr": "", "interrupted": false, "isImage": false, "noOutputExpected": false})
    );
    let codex = parse_answer(&answer(
        GuardedAgent::Codex,
        AgentHookPoint::PostTool,
        "",
        &verdict,
    ));
    assert_eq!(
        codex,
        json!({"decision": "block", "reason": "the password is ***"})
    );
    for agent in [GuardedAgent::OpenCode, GuardedAgent::Pi] {
        let told = parse_answer(&answer(agent, AgentHookPoint::PostTool, "", &verdict));
        assert_eq!(told["texts"], json!(["the password is ***"]));
    }
    let goose = answer(GuardedAgent::Goose, AgentHookPoint::PostTool, "", &verdict);
    assert_eq!(goose, HookAnswer::empty_answer());
}

#[test]
fn a_result_that_could_not_be_judged_is_withheld() {
    let verdict = VerdictForExternalAgent::refused("the daemon is gone");
    for agent in [GuardedAgent::ClaudeCode, GuardedAgent::Codex] {
        let told = answer(agent, AgentHookPoint::PostTool, "", &verdict).stdout;
        assert!(
            told.contains("withheld") && !told.contains("hunter2"),
            "{told}"
        );
    }
    let claude = parse_answer(&answer(
        GuardedAgent::ClaudeCode,
        AgentHookPoint::PostTool,
        "",
        &verdict,
    ));
    let output = &claude["hookSpecificOutput"]["updatedToolOutput"];
    assert!(output["stdout"].as_str().unwrap().contains("withheld"));
}

#[test]
fn a_prompt_is_blocked_or_changed_if_the_agent_supports_it() {
    let refused = VerdictForExternalAgent::refused("not that");
    let masked = verdict_with_change(HookChangedValue::Prompt("do ***".to_owned()));
    for agent in [GuardedAgent::ClaudeCode, GuardedAgent::Codex] {
        for verdict in [&refused, &masked] {
            let told = parse_answer(&answer(agent, AgentHookPoint::TurnStart, "", verdict));
            assert_eq!(told["decision"], "block", "{agent:?}");
        }
    }
    for agent in [GuardedAgent::OpenCode, GuardedAgent::Pi] {
        let told = parse_answer(&answer(agent, AgentHookPoint::TurnStart, "", &masked));
        assert_eq!(told["prompt"], "do ***");
    }
    assert!(
        GuardedAgent::Goose
            .hook_table()
            .find_hook_point_row(AgentHookPoint::TurnStart)
            .is_none()
    );
}

#[test]
fn a_patch_becomes_one_call_per_file_and_a_pi_edit_one_per_replacement() {
    let (_, event) = parse_hook_payload(
        GuardedAgent::Codex,
        AgentHookPoint::PreTool,
        &read_recording("codex-pre-tool-patch"),
    )
    .unwrap();
    let AgentHookEventKind::Call { calls, .. } = event.act else {
        panic!("a call");
    };
    let paths: Vec<&Value> = calls.iter().map(|call| &call.arguments["path"]).collect();
    assert_eq!(paths, ["n.txt", "/etc/passwd"]);
    let edit = json!({
        "session": "s", "folder": "/w", "id": "c", "tool": "edit",
        "args": {"path": "/w/a", "edits": [{"oldText": "x", "newText": "y"}, {"oldText": "z", "newText": ""}]},
    });
    let (_, event) = parse_hook_payload(
        GuardedAgent::Pi,
        AgentHookPoint::PreTool,
        edit.to_string().as_bytes(),
    )
    .unwrap();
    let AgentHookEventKind::Call { calls, .. } = event.act else {
        panic!("a call");
    };
    assert_eq!(calls.len(), 2);
    assert_eq!(
        calls[0].arguments,
        json!({"path": "a", "old_text": "x", "new_text": "y"})
    );
}

#[test]
fn the_answer_for_a_failed_call_ignores_changes_to_its_result() {
    let verdict = verdict_with_change(HookChangedValue::Content("other".into()));
    let told = answer(
        GuardedAgent::ClaudeCode,
        AgentHookPoint::PostTool,
        "-failure",
        &verdict,
    );
    assert_eq!(told, HookAnswer::empty_answer());
}

#[test]
fn payloads_that_lack_a_required_field_are_refused() {
    for (agent, key) in [
        (GuardedAgent::ClaudeCode, "tool_name"),
        (GuardedAgent::Codex, "tool_use_id"),
        (GuardedAgent::Goose, "session_id"),
        (GuardedAgent::OpenCode, "tool"),
        (GuardedAgent::Pi, "id"),
    ] {
        let name = format!("{}-pre-tool", agent.name());
        let mut payload: Value = serde_json::from_slice(&read_recording(&name)).unwrap();
        payload.as_object_mut().unwrap().remove(key);
        let read = |payload: &Value| {
            parse_hook_payload(
                agent,
                AgentHookPoint::PreTool,
                payload.to_string().as_bytes(),
            )
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

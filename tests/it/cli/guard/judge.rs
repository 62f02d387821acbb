//! Tests that one plugin blocks, asks, changes and masks calls of every supported agent, as far as
//! the agent supports it.

use serde_json::{Value, json};

use super::Guarded;

const AGENTS: [&str; 5] = ["claude-code", "codex", "opencode", "goose", "pi"];

#[test]
fn one_plugin_guards_every_agent() {
    for agent in AGENTS {
        let own = Guarded::of(agent);
        let passed = own.judge(agent, "ls");
        assert!(passed.is_pass(), "{agent}: {passed:?}");
        let blocked = own.judge(agent, "rm -rf /");
        let why = blocked.refusal().unwrap_or_default();
        assert!(
            why.contains("plugin sentry: it would delete everything"),
            "{agent}: {blocked:?}"
        );
        let asked = own.judge(agent, "deploy");
        match agent {
            "claude-code" => {
                assert_eq!(
                    asked.json["hookSpecificOutput"]["permissionDecision"],
                    "ask"
                );
            }
            "pi" => assert!(
                asked.json["ask"]
                    .as_str()
                    .unwrap()
                    .contains("it goes to production")
            ),
            _ => {
                let why = asked.refusal().unwrap_or_default();
                assert!(
                    why.contains("it goes to production") && why.contains("no way to ask the user"),
                    "{agent}: {asked:?}"
                );
            }
        }
        let changed = own.judge(agent, "shout loudly");
        let input = match agent {
            "claude-code" | "codex" => &changed.json["hookSpecificOutput"]["updatedInput"],
            _ => &changed.json["args"],
        };
        match agent {
            "goose" => assert!(changed.refusal().is_some(), "{changed:?}"),
            _ => assert_eq!(input["command"], "shout quietly", "{agent}: {changed:?}"),
        }
    }
}

#[test]
fn results_are_masked_and_noted_where_the_agent_takes_that() {
    for agent in ["claude-code", "codex", "opencode", "pi"] {
        let own = Guarded::of(agent);
        own.judge(agent, "cat password");
        let payload = own.recorded(&format!("{agent}-post-tool"));
        let masked = own.hook(agent, "post-tool", &payload);
        let text = match agent {
            "claude-code" => &masked.json["hookSpecificOutput"]["updatedToolOutput"]["stdout"],
            "codex" => &masked.json["reason"],
            _ => &masked.json["texts"][0],
        };
        assert!(
            text.as_str()
                .unwrap_or_default()
                .contains("the password is [masked]"),
            "{agent}: {masked:?}"
        );
        let noted = own.judge(agent, "slowly").json.to_string();
        assert!(
            noted.contains("[note from sentry: this takes long]"),
            "{agent}: {noted}"
        );
    }
}

#[test]
fn prompts_are_blocked_and_masked_or_blocked_for_the_mask() {
    for agent in ["claude-code", "codex", "opencode", "pi"] {
        let own = Guarded::of(agent);
        let prompt = |text: &str| {
            let mut payload = own.recorded(&format!("{agent}-turn-start"));
            payload["prompt"] = text.into();
            own.hook(agent, "turn-start", &payload)
        };
        assert!(prompt("do it").is_pass(), "{agent}");
        let blocked = prompt("something forbidden").json.to_string();
        assert!(
            blocked.contains("nobody may ask that"),
            "{agent}: {blocked}"
        );
        let masked = prompt("use hunter2");
        match agent {
            "opencode" | "pi" => assert_eq!(masked.json["prompt"], "use [masked]"),
            _ => assert_eq!(masked.json["decision"], "block", "{masked:?}"),
        }
    }
}

#[test]
fn every_file_of_a_patch_is_judged() {
    let own = Guarded::of("codex");
    let payload = own.recorded("codex-pre-tool-patch");
    let refused = own.hook("codex", "pre-tool", &payload);
    assert!(
        refused.refusal().unwrap().contains("a file of the system"),
        "{refused:?}"
    );
}

#[test]
fn rules_that_deny_hold_for_other_agents_and_nothing_is_allowed_for_them() {
    let own = Guarded::of("claude-code");
    own.rind.config(
        "[tools]\nrules = [{ command = \"curl *\", decision = \"deny\" }, { command = \"make *\", decision = \"ask\" }, { command = \"ls *\", decision = \"allow\" }]\n",
    );
    let denied = own.judge("claude-code", "curl http://x.example");
    assert!(
        denied.refusal().unwrap().contains("denied by"),
        "{denied:?}"
    );
    let asked = own.judge("claude-code", "make all");
    assert_eq!(
        asked.json["hookSpecificOutput"]["permissionDecision"], "ask",
        "{asked:?}"
    );
    assert!(own.judge("claude-code", "ls -l").is_pass());
    assert!(own.judge("claude-code", "touch x").is_pass());
}

#[test]
fn what_was_judged_is_in_a_session_that_names_the_agent() {
    let own = Guarded::of("codex");
    own.judge("codex", "ls");
    own.judge("codex", "rm -rf /");
    own.hook("codex", "post-tool", &own.recorded("codex-post-tool"));
    let lines = own.rind.session_lines();
    let entries: Vec<Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of_calls = |kind: &str| {
        let own = entries.iter().filter(|entry| entry["type"] == kind);
        own.cloned().collect::<Vec<Value>>()
    };
    let started = of_calls("tool-start");
    assert_eq!(started.len(), 1, "{lines:?}");
    assert_eq!(started[0]["by"], "guard:codex");
    assert_eq!(started[0]["arguments"], json!({"command": "ls"}));
    let ended = of_calls("tool-end");
    assert_eq!(ended.len(), 2, "{lines:?}");
    assert_eq!(ended[0]["refused_by"], "plugin sentry");
    // The session stores the masked result without the secret.
    assert!(!lines.join("\n").contains("hunter2"), "{lines:?}");
    let name = "guard-codex-01a2180f-483f-7000-8c07-48b27a447b74";
    assert!(own.rind.home().join("data/sessions").join(name).is_dir());
}

#[test]
fn the_program_itself_answers_at_a_hook_where_the_small_one_is_missing() {
    let own = Guarded::new();
    let hook = ["guard", "hook", "codex", "pre-tool"];
    let passed = own
        .rind
        .run_with_input(&hook, &own.call("codex", "ls").to_string());
    let passed = passed.exits(0);
    assert_eq!(passed.stdout, "");
    let refused = own
        .rind
        .run_with_input(&hook, &own.call("codex", "rm -rf /").to_string());
    let refused = refused.exits(2);
    assert!(
        refused.stderr.contains("it would delete everything"),
        "{refused:?}"
    );
}

#[test]
fn paths_are_judged_in_the_project_also_when_the_agent_has_changed_its_folder() {
    let own = Guarded::of("claude-code");
    own.rind.config(
        "[tools]\nrules = [{ tool = \"write_file\", path = \"src/secret/**\", decision = \"deny\" }]\n",
    );
    let project = own.rind.workspace().canonicalize().unwrap();
    std::fs::create_dir_all(project.join("src/secret")).unwrap();
    let write = |folder: &str, file: &str| {
        let mut payload = own.recorded("claude-code-pre-tool");
        payload["cwd"] = json!(project.join(folder));
        payload["tool_name"] = "Write".into();
        payload["tool_input"] = json!({"file_path": project.join(file), "content": "x"});
        own.hook("claude-code", "pre-tool", &payload)
    };
    assert!(write("", "fine").is_pass());
    for folder in ["", "src", "src/secret"] {
        let said = write(folder, "src/secret/key");
        assert!(said.refusal().is_some(), "{folder}: {said:?}");
        assert!(write(folder, "src/fine").is_pass(), "{folder}");
    }
    // A new daemon still knows the project folder in which the session began.
    own.kill_daemon();
    let said = write("src", "src/secret/key");
    assert!(said.refusal().is_some(), "{said:?}");
}

#[test]
fn a_daemon_that_was_started_with_other_plugins_judges_nothing_for_others() {
    let own = Guarded::of("codex");
    let line = own.installed_line("codex", "pre-tool");
    let call = own.call("codex", "rm -rf /").to_string();
    let empty = own.user_file("no-plugins");
    std::fs::create_dir_all(&empty).unwrap();
    let variables = [("RIND_MANAGED", empty.to_str().unwrap())];
    let elsewhere = own.hook_with(&line, call.as_bytes(), &variables);
    assert_eq!(elsewhere.status.code(), Some(0), "{elsewhere:?}");
    let said = own.judge("codex", "rm -rf /");
    assert!(said.refusal().is_some(), "{said:?}");
}

#[test]
fn arguments_patches_and_results_that_are_not_clear_are_refused() {
    let own = Guarded::of("opencode");
    let mut payload = own.recorded("opencode-pre-tool");
    payload["tool"] = "write".into();
    payload["args"] = json!({"filePath": "/etc/x", "content": "x", "path": "fine"});
    let said = own.hook("opencode", "pre-tool", &payload);
    assert!(
        said.refusal()
            .unwrap_or_default()
            .contains("no argument `path`"),
        "{said:?}"
    );
    payload["tool"] = "apply_patch".into();
    payload["args"] = json!({"patchText": "*** Begin Patch\n*** Add File: a\n+x\n *** Delete File: /etc/passwd\n*** End Patch"});
    let said = own.hook("opencode", "pre-tool", &payload);
    assert!(
        said.refusal()
            .unwrap_or_default()
            .contains("a file of the system"),
        "{said:?}"
    );
    payload["args"] = json!({"patchText": "another form"});
    let said = own.hook("opencode", "pre-tool", &payload);
    assert!(said.refusal().is_some(), "{said:?}");
    let mut result = own.recorded("claude-code-post-tool");
    result.as_object_mut().unwrap().remove("tool_response");
    own.rind
        .run(&["guard", "install", "claude-code", "--yes"])
        .exits(0);
    let said = own.hook("claude-code", "post-tool", &result);
    assert_eq!(said.json["decision"], "block", "{said:?}");
}

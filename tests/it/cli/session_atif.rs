//! `rind session export --format atif`: trajectories that other tools read.

use rind_tests::cli::Rind;
use rind_tests::secrets::secret;
use serde_json::Value;

use super::session_look::only;

/// Checks the rules that the format's schema cannot express, for a trajectory and its subagents'
/// trajectories.
fn check(trajectory: &Value) {
    assert_eq!(trajectory["schema_version"], "ATIF-v1.7");
    let steps = trajectory["steps"].as_array().unwrap();
    assert_eq!(trajectory["final_metrics"]["total_steps"], steps.len());
    for (at, step) in steps.iter().enumerate() {
        assert_eq!(step["step_id"], at + 1, "{step}");
        assert!(step["message"].is_string(), "{step}");
        let of_agent = ["tool_calls", "metrics", "model_name", "reasoning_content"];
        if step["source"] != "agent" {
            assert!(
                of_agent.iter().all(|field| step.get(field).is_none()),
                "{step}"
            );
        }
        let calls = step["tool_calls"].as_array().into_iter().flatten();
        let ids: Vec<&Value> = calls.map(|call| &call["tool_call_id"]).collect();
        let results = step["observation"]["results"].as_array();
        for result in results.into_iter().flatten() {
            if let Some(id) = result.get("source_call_id") {
                assert!(ids.contains(&id), "{step}");
            }
        }
    }
    let below = trajectory["subagent_trajectories"].as_array();
    below.into_iter().flatten().for_each(check);
}

#[test]
fn a_session_with_calls_and_a_subagent_is_a_trajectory_without_secrets() {
    let token = secret("github-token");
    let rind = Rind::with_script(&format!(
        "[[reply]]\nwhen = {{ contains = \"work\", step = 1 }}\ntext = \"I look.\"\nthinking = \"First the file.\"\n\
         tool_calls = [{{ name = \"read_file\", arguments = {{ path = \"a.txt\" }} }}, \
         {{ name = \"read_file\", arguments = {{ path = \"missing\" }} }}]\n\
         [[reply]]\nwhen = {{ contains = \"work\", step = 2 }}\n\
         tool_calls = [{{ name = \"spawn_subagent\", arguments = {{ task = \"Count.\", preset = \"investigate\" }} }}]\n\
         [[reply]]\nwhen = {{ contains = \"work\", step = 3 }}\n\
         tool_calls = [{{ name = \"wait_subagents\", arguments = {{ timeout_seconds = 60 }} }}]\n\
         [[reply]]\nwhen = {{ contains = \"work\", step = 4 }}\ntext = \"The token is {token}.\"\n\
         [[reply]]\nwhen = {{ contains = \"Count\" }}\ntext = \"Three.\"\n"
    ));
    rind.config("[subagents]\nenabled = true\n");
    rind.file("a.txt", "one\n");
    rind.run(&["run", "work", "--yes"]).exits(0);
    let (_, id) = only(&rind);
    let ran = rind
        .run(&["session", "export", "--format", "atif"])
        .exits(0);
    assert!(!ran.stdout.contains(&token), "{}", ran.stdout);
    let whole: Value = serde_json::from_str(&ran.stdout).unwrap();
    check(&whole);
    assert_eq!(whole["session_id"], id.as_str());
    let steps = whole["steps"].as_array().unwrap();
    assert_eq!(
        (&steps[0]["source"], &steps[0]["message"]),
        (&"user".into(), &"work".into())
    );
    let first = &steps[1];
    assert_eq!(first["message"], "I look.");
    assert_eq!(first["reasoning_content"], "First the file.");
    assert_eq!(first["tool_calls"][0]["arguments"]["path"], "a.txt");
    let results = &first["observation"]["results"];
    assert!(
        results[0]["content"].as_str().unwrap().contains("one"),
        "{first}"
    );
    assert_eq!(results[1]["extra"]["is_error"], true, "{first}");
    assert!(
        first["metrics"]["prompt_tokens"].as_u64().unwrap() > 0,
        "{first}"
    );
    let below = &whole["subagent_trajectories"][0];
    assert_eq!(below["steps"][0]["message"], "Count.");
    let text = ran.stdout.as_str();
    assert!(text.contains("subagent_trajectory_ref"), "{text}");
}

#[test]
fn requests_outside_of_the_conversation_are_steps_with_metrics_of_their_own() {
    let rind = Rind::with_script("[[reply]]\ntext = \"fine\"\ntimes = 0\n");
    rind.managed("orderer");
    rind.config("[agent]\nloop = \"orderer\"\n[plugins.orderer.config]\nhow = \"ask-aside\"\n");
    rind.run(&["run", "work"]).exits(0);
    let ran = rind
        .run(&["session", "export", "--format", "atif"])
        .exits(0);
    let whole: Value = serde_json::from_str(&ran.stdout).unwrap();
    check(&whole);
    let steps = whole["steps"].as_array().unwrap();
    let asides: Vec<&Value> = steps
        .iter()
        .filter(|step| step["extra"]["aside"] == "orderer")
        .collect();
    assert_eq!(asides.len(), 1, "{}", ran.stdout);
    assert_eq!(asides[0]["message"], "");
    let tokens = |step: &Value| step["metrics"]["prompt_tokens"].as_u64();
    assert!(tokens(asides[0]).unwrap() > 0);
    let all = steps.iter().filter_map(tokens).sum::<u64>();
    assert_eq!(whole["final_metrics"]["total_prompt_tokens"], all);
    let answer = steps.iter().find(|step| step["message"] == "fine").unwrap();
    assert_eq!(answer["llm_call_count"], 1, "{answer}");
    let shown = rind.run(&["session", "show", "last"]).exits(0);
    assert!(
        shown.stdout.contains("aside by orderer"),
        "{}",
        shown.stdout
    );
}

//! Tests of the plugin, called as the host would, on the SDK's in-memory host.

use super::everything::*;
use rind_sdk::prelude::*;
use rind_sdk::serde_json::{Value, json};
use rind_sdk::testing;

fn call(name: &str, arguments: Value) -> Result<String, Error> {
    Ok(__rind_call_tool(name, &arguments.to_string())?.words())
}

#[test]
fn tools_are_described_by_their_docs_and_types() {
    let tools = __rind_tools();
    let names: Vec<_> = tools.iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["add-note", "count_notes"]);
    assert_eq!(
        tools[0].description,
        "Remembers a note for the rest of the session.\n\nAnswers with all notes."
    );
    assert_eq!(tools[0].effect, EffectClass::Write);
    let schema: Value = rind_sdk::serde_json::from_str(&tools[0].parameters).unwrap();
    assert_eq!(
        schema,
        json!({
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "Text to remember."},
                "style": {
                    "type": "string",
                    "enum": ["plain", "loud"],
                    "description": "Style in which to show it."
                },
                "times": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "Number of times to show it."
                }
            },
            "required": ["text"],
            "additionalProperties": false
        })
    );
}

#[test]
fn a_tool_without_arguments_has_a_schema_that_takes_none() {
    let schema: Value = rind_sdk::serde_json::from_str(&__rind_tools()[1].parameters).unwrap();
    assert_eq!(schema["type"], "object");
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn tools_read_config_and_keep_state() {
    testing::reset();
    testing::set_config(json!({"most": 2}));
    assert_eq!(call("add-note", json!({"text": "milk"})).unwrap(), "milk");
    assert_eq!(
        call("add-note", json!({"text": "tea", "style": "loud"})).unwrap(),
        "milk\nTEA"
    );
    let full = call("add-note", json!({"text": "rum"})).unwrap_err();
    assert_eq!(full, Error::Limit("there are 2 notes already".to_owned()));
    assert_eq!(call("count_notes", json!({})).unwrap(), "2");
    assert_eq!(
        testing::logged(),
        [(Level::Debug, "asked in turn 1".to_owned())]
    );
}

#[test]
fn wrong_arguments_and_names_are_errors_that_say_so() {
    let wrong = call("add-note", json!({"txt": "milk"})).unwrap_err();
    assert!(
        matches!(&wrong, Error::InvalidInput(text) if text.contains("unknown field `txt`")),
        "{wrong}"
    );
    assert_eq!(
        call("nothing", json!({})).unwrap_err(),
        Error::NotFound("no tool \"nothing\" here".to_owned())
    );
}

#[test]
fn hooks_may_return_an_outcome_a_result_or_nothing() {
    testing::reset();
    let call = |path: &str| testing::proposed_call("write_file", json!({"path": path}));
    let blocked = __rind_hook_pre_tool(call("Cargo.lock")).unwrap();
    assert_eq!(blocked, CallOutcome::block("lock files are made by tools"));
    let passed = __rind_hook_pre_tool(call("Cargo.toml")).unwrap();
    assert_eq!(passed.note.as_deref(), Some("fine"));
    assert_eq!(passed.effects.len(), 1);
    assert_eq!(
        __rind_hook_context(&testing::conversation(Vec::new()))
            .unwrap()
            .edits
            .len(),
        1
    );
    assert_eq!(
        __rind_hook_pre_output("done \n".to_owned())
            .unwrap()
            .text
            .as_deref(),
        Some("done")
    );
}

#[test]
fn text_is_looked_at_as_it_comes_and_a_part_of_it_kept_back() {
    testing::reset();
    let delta = |text: &str, is_last| TextDelta {
        before: String::new(),
        text: text.to_owned(),
        is_last,
    };
    let first = __rind_hook_output_delta(delta("said Vold", false)).unwrap();
    assert_eq!((first.text.as_deref(), first.keep), (Some("said Vold"), 4));
    let last = __rind_hook_output_delta(delta("Voldemort", true)).unwrap();
    assert_eq!((last.text.as_deref(), last.keep), (Some("[name]"), 0));
}

#[test]
fn commands_show_text_or_start_a_turn() {
    testing::reset();
    let listed = __rind_commands();
    let names: Vec<_> = listed.iter().map(|command| command.name).collect();
    assert_eq!(names, ["show-notes", "tidy", "find-note"]);
    assert_eq!(listed[1].arguments, None);
    let schema = listed[2].arguments.as_deref().unwrap_or_default();
    assert!(schema.contains(r#""word""#), "{schema}");
    let run = |name: &str| __rind_run_command(name, "by day".to_owned());
    assert_eq!(
        run("show-notes").unwrap(),
        CommandOutcome::Text(String::new())
    );
    assert_eq!(
        run("tidy").unwrap(),
        CommandOutcome::Prompt("Tidy my notes up: by day".to_owned())
    );
    let found = __rind_run_command("find-note", r#"{"word": "x"}"#.to_owned());
    assert_eq!(found.unwrap(), CommandOutcome::Text("0".to_owned()));
    assert!(__rind_run_command("find-note", "{}".to_owned()).is_err());
}

#[test]
fn points_of_other_plugins_speak_json() {
    let answer = __rind_implement("reviewer.check", r#"{"lines": ["a", "b"]}"#).unwrap();
    assert_eq!(answer.verdict, PointVerdict::Value("2".to_owned()));
    let answer = __rind_implement("reviewer.allow", r#"{"lines": ["a", "b"]}"#).unwrap();
    assert_eq!(answer.verdict, PointVerdict::Pass);
    let answer = __rind_implement("reviewer.allow", r#"{"lines": []}"#).unwrap();
    assert_eq!(answer, PointOutcome::block("there is nothing to review"));
    assert!(__rind_implement("reviewer.check", "[").is_err());
}

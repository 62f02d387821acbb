//! Cases that call a hook without a turn: hooks of every point, and the payload after the call.

use rind::point::catalog::CATALOG;
use rind_tests::cli::Rind;

use super::{report, with_cases};

/// Returns a payload with the fields that have no default.
fn payload(point: &str) -> &'static str {
    match point {
        "turn-start" | "pre-assess" | "steering-received" => "{ text = \"hello\" }",
        "post-assess" => "{ input = \"hello\" }",
        "before-system-prompt" => "[{ key = \"host\", text = \"be kind\" }]",
        "after-system-prompt" | "pre-output" | "post-output" => "\"hello\"",
        "before-provider-request" => "{ body = '{\"model\":\"test-model\"}' }",
        "output-delta" => "{ text = \"hello\" }",
        "pre-tool" => "{ call = { name = \"read_file\", arguments = { path = \"a.txt\" } } }",
        "post-tool" => "{ call = { name = \"read_file\" }, content = \"alpha\" }",
        "pre-reflect" | "post-reflect" => "{ draft = \"hello\" }",
        "subagent-start" | "subagent-end" => "{ task = \"count\" }",
        "skill-activated" | "skill-ended" => "{ id = \"review\" }",
        "error" => "{ where = \"provider\", message = \"it broke\" }",
        "context" => "[{ text = \"hello\" }]",
        _ => "{}",
    }
}

fn case(point: &str) -> String {
    format!(
        "[[case]]\nname = \"{point}\"\n[case.given.event]\npoint = \"{point}\"\npayload = {}\n[case.expect]\ndenials = []\n",
        payload(point)
    )
}

#[test]
fn a_hook_of_every_point_is_called_alone() {
    let cases: String = CATALOG.iter().map(|row| case(row.name)).collect();
    let rind = with_cases("every-point", |manifest| manifest, &cases);
    let ran = rind.run(&["plugin", "test", "every-point", "--report", "json=out.json"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let report = report(&rind);
    let hooks = report["coverage"]["every-point"]["hooks"].as_object();
    let hooks = hooks.expect("coverage");
    assert_eq!(hooks.len(), CATALOG.len());
    // A hook may be called more than once: text that another hook adds passes `output-delta`, too.
    assert!(hooks.values().all(|n| n.as_u64() >= Some(1)), "{hooks:?}");
}

/// Sets up cases for the guest whose hooks return what its settings say.
fn scripted(cases: &str) -> Rind {
    with_cases("scripted-hook", |manifest| manifest, cases)
}

#[test]
fn the_outcome_of_a_hook_is_merged_into_the_payload_as_in_a_turn() {
    let rind = scripted(
        r#"
[[case]]
name = "arguments are changed, and the model is warned"
[case.given]
config.answers.pre-tool = { change = '{"path":"b.txt"}', note = "look at b.txt" }
event = { point = "pre-tool", payload = { call = { name = "read_file", arguments = { path = "a.txt" } } } }
[case.expect]
payload = { call = { name = "read_file", arguments = { path = "b.txt" } }, effect_class = "read" }
notes = ["look at b.txt"]
hooks = { pre-tool = { outcome = "changed", changed = ["arguments", "note"] } }

[[case]]
name = "arguments that the schema of the tool does not take are a failure of the hook"
[case.given]
config.answers.pre-tool = { change = '{"path":7}' }
event = { point = "pre-tool", payload = { call = { name = "read_file", arguments = { path = "a.txt" } } } }
[case.expect]
hooks = { pre-tool = "failed-blocking" }

[[case]]
name = "a call is refused"
[case.given]
config.answers.pre-tool = { block = "not today" }
event = { point = "tool_call", payload = { call = { name = "deploy" }, effect_class = "external" } }
[case.expect]
hooks = { pre-tool = { outcome = "blocked", reason = "not today" } }

[[case]]
name = "messages are edited by their ids"
[case.given]
config.answers.context.edits = [{ drop = 0 }, { append = "be brief" }]
[[case.given.event]]
point = "context"
payload = [{ role = "user", text = "one" }, { role = "user", text = "two" }]
[case.expect]
payload = [{ id = "message-2", text = "two" }, { text = "[plugin scripted-hook] be brief" }]

[[case]]
name = "parts of the system prompt are named after the plugin"
[case.given]
config.answers.system-prompt.parts = [{ tier = "stable", key = "manners", text = "be kind" }]
event = { point = "system-prompt" }
[case.expect]
payload = { parts = [{ key = "scripted-hook:manners", source = "scripted-hook", text = "be kind" }] }

[[case]]
name = "a message is added, and the second event sees the state of the first"
[case.given]
config.answers.turn-start = { inject = [["remember the milk", true]], when = "milk", effects = [{ metric = "milk" }] }
event = [
    { point = "turn-start", payload = { text = "milk" } },
    { point = "turn-start", payload = { text = "bread" } },
]
[case.expect]
injected = ["remember the milk"]
metrics = { milk = 1 }
payload = { text = "bread", source = "terminal" }
"#,
    );
    let ran = rind.run(&["plugin", "test", "scripted-hook"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn a_payload_that_differs_is_shown_by_its_field() {
    let rind = scripted(
        "[[case]]\nname = \"a\"\n[case.given]\nconfig.answers.pre-output = { text = \"hi\" }\n\
         event = { point = \"pre-output\", payload = \"hello\" }\n[case.expect]\npayload = \"hello\"\n\
         [[case]]\nname = \"b\"\n[case.given]\nevent = { point = \"turn-end\", payload = { steps = 2 } }\n\
         [case.expect]\npayload = { steps = 3, usage = { input_tokens = 0 } }\n",
    );
    let ran = rind.run(&["plugin", "test", "scripted-hook"]).exits(1);
    let stdout = &ran.stdout;
    assert!(
        stdout.contains("payload\n      expected \"hello\"\n      was      \"hi\""),
        "{stdout}"
    );
    assert!(
        stdout.contains("payload.steps\n      expected 3\n      was      2"),
        "{stdout}"
    );
}

#[test]
fn a_wrong_event_names_the_fault_and_its_place() {
    for (event, expected) in [
        (
            "{ point = \"pre-toll\" }",
            "cases.toml:1:1: case `a`: there is no point `pre-toll`",
        ),
        (
            "{ point = \"turn-start\", payload = { txt = \"hello\" } }",
            "the payload of `turn-start`: `text` is missing",
        ),
        (
            "{ point = \"turn-start\", payload = { text = \"hello\", form = 1 } }",
            "unknown field `form`; the fields are text, source",
        ),
        (
            "{ point = \"pre-tool\", payload = { call = { name = \"deploy\" } } }",
            "the host of the case has no tool `deploy`: state the class of its effects as `effect_class`",
        ),
    ] {
        let rind = scripted(&format!(
            "[[case]]\nname = \"a\"\n[case.given]\nevent = {event}\n"
        ));
        let ran = rind.run(&["plugin", "test", "scripted-hook"]).exits(1);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains(expected), "{said}");
    }
    let rind = scripted(
        "[[case]]\nname = \"a\"\n[case.given]\ninput = \"go\"\nevent = { point = \"turn-end\" }\n",
    );
    let ran = rind.run(&["plugin", "test", "scripted-hook"]).exits(1);
    assert!(
        ran.stdout.contains("`given.input` needs a turn"),
        "{}",
        ran.stdout
    );
}

//! Tests of the events of `--json` for programs that read them: every line conforms to the schema,
//! and the lines are enough to draw the tree of a turn.

use std::collections::BTreeMap;

use insta::assert_snapshot;
use rind_tests::cli::{Ran, Rind};
use serde_json::{Value, json};

/// Script in which a plugin's tool starts a subagent, which reads two files and is refused a
/// command.
const SCRIPT: &str = r#"
    [[reply]]
    when = { contains = "go on" }
    text = "I will ask."
    tool_calls = [{ name = "act", arguments = { what = "run", text = "Look into a.txt", tools = ["read_file", "bash"] } }]
    [[reply]]
    when = { contains = "Look into" }
    tool_calls = [
        { name = "read_file", arguments = { path = "a.txt" } },
        { name = "read_file", arguments = { path = "b.txt" } },
        { name = "bash", arguments = { command = "id" } },
    ]
    [[reply]]
    when = { after_tool = "bash" }
    text = "It says alpha."
    [[reply]]
    text = "Done."
"#;

/// Runs a turn with hooks, a subagent, parallel calls and a refused call.
fn busy_turn() -> Ran {
    let rind = Rind::with_script(SCRIPT);
    rind.first_party().managed("external");
    // Long enough that a plugin stores the result outside the conversation.
    rind.file("a.txt", &"alpha, and so on\n".repeat(1200));
    rind.config("[[tools.rules]]\ntool = \"bash\"\ndecision = \"deny\"\n");
    rind.run(&["run", "go on", "--json", "--yes"]).exits(0)
}

fn text<'a>(event: &'a Value, name: &str) -> &'a str {
    event[name].as_str().unwrap_or_default()
}

#[test]
fn every_line_is_what_the_schema_says() {
    let schema = Rind::default().run(&["schema", "events"]).exits(0);
    let schema: Value = serde_json::from_str(&schema.stdout).unwrap();
    assert_eq!(
        schema,
        serde_json::to_value(rind::event::event_line_schema()).unwrap()
    );
    let validator = jsonschema::validator_for(&schema).unwrap();
    let events = busy_turn().json_lines();
    let numbers: Vec<u64> = events
        .iter()
        .map(|event| event["n"].as_u64().unwrap())
        .collect();
    let expected: Vec<u64> = (1..=events.len() as u64).collect();
    assert_eq!(numbers, expected);
    for event in &events {
        let errors: Vec<String> = validator
            .iter_errors(event)
            .map(|e| e.to_string())
            .collect();
        assert_eq!(errors, Vec::<String>::new(), "{event}");
    }
    for (name, wrong) in [
        ("type", json!("tool-started")),
        ("at", json!(5)),
        ("turn", json!("one")),
    ] {
        let mut event = events[0].clone();
        event[name] = wrong;
        assert!(!validator.is_valid(&event), "{event}");
    }
    assert_eq!(text(&events[0], "type"), "session-opened");
    assert_eq!(events[0]["version"], 1);
}

#[test]
fn the_tree_of_a_turn_can_be_drawn_from_its_lines() {
    let events = busy_turn().json_lines();
    let mut lines = Vec::new();
    // Depth in the tree of each agent's turn, and of each tool call.
    let mut agents = BTreeMap::from([("main".to_owned(), 0)]);
    let mut calls: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut last = String::new();
    for event in &events {
        assert!(text(event, "at") >= last.as_str(), "{event}");
        last = text(event, "at").to_owned();
        assert_eq!(event["session"], events[0]["session"]);
        let agent = text(event, "agent");
        let base = agents[agent] + if event["step"] == 0 { 1 } else { 2 };
        // Call ids are unique only within one agent.
        let key = |id: &Value| Some((agent.to_owned(), id.as_str()?.to_owned()));
        let depth = |id: &Value| key(id).map_or(base, |key| calls[&key] + 1);
        let line = match text(event, "type") {
            "turn-start" => (base - 1, format!("turn {}", event["turn"])),
            "step-start" => (base - 1, format!("step {}", event["step"])),
            "hook" => {
                let call = text(event, "call_id");
                let what = format!("{} {} {call}", text(event, "point"), text(event, "plugin"));
                (depth(&event["call_id"]), what)
            }
            "request-start" => {
                let what = format!("{} {}", text(event, "type"), event["request"]);
                (depth(&event["call_id"]), what)
            }
            "tool-call" => {
                let depth = depth(&event["parent_id"]);
                calls.insert(key(&event["call"]["id"]).unwrap(), depth);
                let call = &event["call"];
                let what = format!("{}: {}", text(call, "id"), text(call, "name"));
                (depth, what)
            }
            "tool-end" => {
                let (id, by) = (&event["result"]["call_id"], text(event, "refused_by"));
                (
                    depth(id),
                    format!("end of {} {by}", text(&event["result"], "call_id")),
                )
            }
            "subagent-start" => {
                let depth = depth(&event["call_id"]);
                agents.insert(text(event, "subagent").to_owned(), depth);
                (depth, "subagent".to_owned())
            }
            _ => continue,
        };
        lines.push(format!("{}{}", "  ".repeat(line.0), line.1.trim_end()));
    }
    assert_snapshot!(lines.join("\n"), @r"
    turn 1
      step 1
        pre-reason injection-guard
        before-provider-request external
        request-start 1
        call_1: act
          pre-tool loop-detection call_1
          pre-tool external call_1
          subagent
          turn 1
            step 1
              pre-reason injection-guard
              request-start 1
              call_1: read_file
                pre-tool loop-detection call_1
              call_2: read_file
                pre-tool loop-detection call_2
                post-tool tool-output-sandbox call_1
                end of call_1
                end of call_2
              call_3: bash
                pre-tool loop-detection call_3
                end of call_3 policy
            step 2
              pre-reason injection-guard
              request-start 2
              turn-end hello
          post-tool external call_1
          end of call_1
      step 2
        pre-reason injection-guard
        before-provider-request external
        request-start 2
        post-output external
        turn-end hello
    ");
}

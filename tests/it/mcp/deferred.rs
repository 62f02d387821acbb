//! Deferred tools: three hundred of them take few tokens, are found by search, and are called like
//! any other.

use super::{has_python, results, served, turn};
use rind_tests::cli::Rind;
use serde_json::Value;

const FINDS: &str = r#"
[[reply]]
tool_calls = [{ name = "find_tools", arguments = { query = "river number 17" } }]
[[reply]]
tool_calls = [{ name = "use_tool", arguments = { name = "mcp__docs__tool_17", arguments = { text = "hello" } } }]
[[reply]]
text = "Done."
"#;

/// Tools that each request of the last session described to the model.
fn described(rind: &Rind) -> Vec<(String, Vec<String>)> {
    let sessions = std::fs::read_dir(rind.home().join("data/sessions")).unwrap();
    let mut folders: Vec<_> = sessions.map(|entry| entry.unwrap().path()).collect();
    folders.retain(|path| path.is_dir());
    folders.sort();
    let last = folders.pop().unwrap();
    let files = std::fs::read_dir(&last)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut lines = files.filter(|path| path.extension().is_some_and(|is| is == "jsonl"));
    let text = std::fs::read_to_string(lines.next().unwrap()).unwrap();
    let mut found = Vec::new();
    for line in text.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        if entry["type"] == "step" {
            let names = entry["tool_names"].as_array().cloned().unwrap_or_default();
            let names = names.iter().map(|name| name.as_str().unwrap().to_owned());
            found.push((entry["tools"].to_string(), names.collect()));
        }
    }
    found
}

#[test]
fn three_hundred_tools_are_found_called_and_leave_the_prefix_as_it_is() {
    if !has_python() {
        return;
    }
    let rind = served("lots", FINDS, "");
    let ran = turn(&rind);
    let found = results(&ran);
    assert!(
        found[0].contains("mcp__docs__tool_17: Does the thing"),
        "{}",
        found[0]
    );
    assert_eq!(found[1], "echo: hello");
    // Hooks, policy and session see the deferred tool, not `use_tool`.
    let events = ran.json_lines();
    let start = events
        .iter()
        .filter(|event| event["type"] == "tool-start")
        .nth(1)
        .unwrap();
    assert_eq!(start["call"]["name"], "mcp__docs__tool_17");
    assert_eq!(start["plugin"], "mcp:docs");
    let refused = rind.run(&["run", "--json", "go"]);
    assert!(
        results(&refused)[1].contains("needs approval"),
        "{:?}",
        results(&refused)
    );

    // A resumed session finds and calls tools in the same way.
    rind.script(&FINDS.replace("tool_17", "tool_18"));
    let ran = rind.run(&["run", "--json", "--yes", "--resume", "last", "again"]);
    assert_eq!(results(&ran)[1], "echo: hello", "{}", ran.stderr);
    let steps = described(&rind);
    assert!(steps.len() >= 3, "{steps:?}");
    assert!(steps.iter().all(|step| *step == steps[0]), "{steps:?}");
    let names = &steps[0].1;
    assert!(names.contains(&"find_tools".to_owned()) && names.contains(&"use_tool".to_owned()));
    assert!(
        !names.iter().any(|name| name.starts_with("mcp__")),
        "{names:?}"
    );
}

#[test]
fn a_call_through_the_search_passes_the_schema_and_unknown_names_are_refused_briefly() {
    if !has_python() {
        return;
    }
    let script = r#"
[[reply]]
tool_calls = [
    { name = "use_tool", arguments = { name = "mcp__docs__tool_1", arguments = { text = 3 } } },
    { name = "use_tool", arguments = { name = "mcp__docs__nothing", arguments = {} } },
    { name = "use_tool", arguments = { name = "mcp__docs__tool_1" } },
    { name = "mcp__docs__tool_2", arguments = { text = "straight" } },
    { name = "find_tools", arguments = { from = "docs" } },
]
[[reply]]
text = "Done."
"#;
    let rind = served("lots", script, "");
    let found = results(&turn(&rind));
    assert!(
        found[0].contains("the arguments do not fit"),
        "{}",
        found[0]
    );
    assert!(
        found[1].contains("there is no tool `mcp__docs__nothing`"),
        "{}",
        found[1]
    );
    assert!(found[1].len() < 600, "{}", found[1]);
    assert_eq!(found[2], "echo: None");
    assert_eq!(found[3], "echo: straight");
    assert!(
        found[4].contains("mcp__docs__tool_0") && found[4].contains("and 200 more"),
        "{}",
        found[4]
    );
}

#[test]
fn the_prefix_of_three_hundred_tools_is_short_and_few_tools_are_described_as_ever() {
    if !has_python() {
        return;
    }
    let text = "[[reply]]\ntext = \"Hi.\"\n";
    let none = served("plain", text, "");
    turn(&none);
    let plain = &described(&none)[0].1;
    assert!(plain.contains(&"mcp__docs__echo".to_owned()), "{plain:?}");
    assert!(!plain.contains(&"find_tools".to_owned()), "{plain:?}");

    let lots = served("lots", text, "");
    let tools = lots.run(&["tools", "--json"]);
    let all: Vec<Value> = serde_json::from_str(&tools.stdout).unwrap();
    let bytes = |name: &str| {
        let tool = all.iter().find(|tool| tool["name"] == name).unwrap();
        tool["description"].to_string().len() + tool["parameters"].to_string().len() + name.len()
    };
    let tokens = (bytes("find_tools") + bytes("use_tool")) / 3;
    assert!(tokens < 1500, "{tokens} tokens");
    // The operator can have all tools described in each request.
    lots.config(&format!(
        "{}\n[agent]\ndeferred_tools_percent = 100\n",
        std::fs::read_to_string(lots.home().join("config/config.toml")).unwrap()
    ));
    turn(&lots);
    let names = &described(&lots)[0].1;
    assert!(
        names.contains(&"mcp__docs__tool_299".to_owned()),
        "{}",
        names.len()
    );
}

//! Tests of presets: they select tools and instructions, and never add tools that the parent lacks.

use rind::skill::{SessionSkills, parse_text};

use super::*;

/// Returns the names of the tools in the first request whose first message contains this text.
fn tools_for(running: &Running, text: &str) -> Vec<String> {
    let bodies = running.provider.recorded_request_bodies();
    let own = bodies.iter().find(|body| {
        let first = body["messages"][0]["text"].as_str().unwrap_or_default();
        first.contains(text)
    });
    let tools = own.unwrap()["tools"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
    tools.iter().map(name).collect()
}

/// Runs one subagent with these arguments, and returns the result of the call.
async fn spawned(arguments: Value, presets: &[(&str, &str)]) -> (Running, String, bool) {
    let script = vec![
        reply("go on", 1, Reply::call("spawn_subagent", arguments)),
        reply("go on", 2, Reply::text("done")),
        always("Do it", Reply::text("did it")),
    ];
    let mut setup = setup(script);
    let read = presets.iter().map(|(name, text)| parse_text(name, text));
    let read: Vec<_> = read.filter_map(Result::ok).collect();
    setup.presets = SessionSkills::new(read, Vec::new());
    let mut running = setup.build();
    running.turn("go on").await;
    let (text, is_error, _) = running.results().remove(0);
    (running, text, is_error)
}

#[tokio::test]
async fn each_preset_selects_tools_of_the_parent_and_none_that_hands_work_on() {
    for (preset, expected) in [
        ("investigate", &["list_files", "read_file", "search"][..]),
        ("minimal", &[]),
        ("monitor", &["list_subagents", "query_subagent"]),
        (
            "work",
            &[
                "background",
                "bash",
                "edit_file",
                "list_files",
                "read_file",
                "search",
                "write_file",
            ],
        ),
    ] {
        let task = json!({"task": "Do it", "preset": preset, "wait": true});
        let (running, text, _) = spawned(task, &[]).await;
        assert!(text.ends_with("\n\ndid it"), "{text}");
        assert_eq!(tools_for(&running, "Do it"), expected, "{preset}");
    }
}

#[tokio::test]
async fn a_list_of_tools_narrows_a_preset_and_never_widens_it() {
    let task = |tools: Value| json!({"task": "Do it", "preset": "investigate", "tools": tools, "wait": true});
    let (running, _, _) = spawned(task(json!(["read_file"])), &[]).await;
    assert_eq!(tools_for(&running, "Do it"), ["read_file"]);
    for wider in ["bash", "spawn_subagent", "fly"] {
        let (_, text, is_error) = spawned(task(json!([wider])), &[]).await;
        assert!(is_error, "{text}");
        let expected = format!(
            "the preset `investigate` has no tool `{wider}` here; its tools are: list_files"
        );
        assert!(text.starts_with(&expected), "{text}");
    }
}

#[tokio::test]
async fn an_unknown_preset_names_those_that_there_are_and_the_nearest() {
    let task = json!({"task": "Do it", "preset": "investigte"});
    let (running, text, is_error) = spawned(task, &[("mine", "---\ndescription: d\n---\n")]).await;
    assert!(is_error);
    assert_eq!(
        text,
        "there is no preset `investigte`; did you mean `investigate`? The presets are: investigate, work, minimal, monitor, mine"
    );
    assert_eq!(running.session.subagents().len(), 0);
}

#[tokio::test]
async fn a_preset_of_a_file_has_its_tools_and_its_text_and_no_more_than_the_parent() {
    let file = "---\nname: tester\ndescription: Runs tests\ntools: Read, Bash, Teleport\n---\nRun them all.\n";
    let task = json!({"task": "Do it", "preset": "tester", "wait": true});
    let (running, text, _) = spawned(task, &[("tester", file)]).await;
    assert!(text.ends_with("\n\ndid it"), "{text}");
    assert_eq!(tools_for(&running, "Do it"), ["bash", "read_file"]);
    let bodies = running.provider.recorded_request_bodies();
    let list = bodies[0]["tools"].to_string();
    assert!(list.contains("- tester: Runs tests"), "{list}");
    let system = bodies[1]["system"].to_string();
    assert!(system.contains("Run them all."), "{system}");
    let child = running.session.subagents().remove(0);
    assert_eq!(child.preset.as_deref(), Some("tester"));
}

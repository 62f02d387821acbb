//! Pins: the model gets the tools as they were pinned, and changed ones are withheld.

use std::fs;

use super::{ECHOES, has_python, noted, results, served, turn, unasked};

#[test]
fn nothing_is_offered_before_a_yes_and_the_settings_belong_to_it() {
    if !has_python() {
        return;
    }
    let rind = unasked("plain", ECHOES, "");
    let ran = turn(&rind);
    assert!(
        ran.stderr.contains("its tools are not approved"),
        "{}",
        ran.stderr
    );
    assert!(
        results(&ran)[0].contains("there is no tool"),
        "{:?}",
        results(&ran)
    );
    assert_eq!(noted(&rind), [""; 0], "it was not started");
    let ran = rind.run(&["mcp", "test", "docs"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("there is no terminal to ask at"),
        "{}",
        ran.stderr
    );
    assert_eq!(rind.run(&["mcp", "test", "docs", "--yes"]).code, Some(0));
    assert_eq!(rind.run(&["mcp", "test", "docs"]).code, Some(0));
    assert_eq!(results(&turn(&rind)), ["echo: hello"]);

    let config = fs::read_to_string(rind.home().join("config/config.toml")).unwrap();
    rind.config(&format!("{config}network = true\n"));
    let ran = turn(&rind);
    assert!(
        ran.stderr.contains("its settings have changed since"),
        "{}",
        ran.stderr
    );
    let list = rind.run(&["mcp", "list"]);
    assert!(
        list.stdout.contains("its settings have changed"),
        "{}",
        list.stdout
    );
}

#[test]
fn a_person_is_asked_at_first_use_and_sees_what_is_offered() {
    if !has_python() {
        return;
    }
    let rind = unasked("plain", ECHOES, "");
    let Some(shown) = rind.at_terminal(&["run", "go"], "y\ny\ny\n") else {
        return;
    };
    let shown = super::words_of(&shown);
    assert!(
        shown.contains("start the MCP server docs of config.toml to list its tools?"),
        "{shown}"
    );
    assert!(
        shown.contains("use the tools of the MCP server docs? It offers 2 tools"),
        "{shown}"
    );
    assert!(shown.contains("it may: run `/usr/bin/python3"), "{shown}");
    assert!(shown.contains("no network"), "{shown}");
    assert!(shown.contains("tool echo: Echoes a text."), "{shown}");
    assert!(!shown.contains("test\u{1b}[2J"), "{shown}");
    assert!(noted(&rind).contains(&"call echo".to_owned()));
}

#[test]
fn a_tool_that_changed_since_the_yes_is_held_and_the_difference_is_shown() {
    if !has_python() {
        return;
    }
    let rind = served("plain", ECHOES, "");
    // The server changes a description from its next start on.
    let program = rind.user_home().join("server/server.py");
    let text = fs::read_to_string(&program).unwrap();
    fs::write(
        &program,
        text.replace("Echoes a text.", "Echoes a text, and sends it to me."),
    )
    .unwrap();
    let ran = turn(&rind);
    let found = results(&ran);
    assert!(
        found[0].contains("differs from the version that the user approved"),
        "{found:?}"
    );
    assert!(ran.stdout.contains("and sends it to me"), "{}", ran.stdout);
    assert!(!noted(&rind).contains(&"call echo".to_owned()));
    let ran = rind.run(&["mcp", "test", "docs"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stdout
            .contains("changed: `echo` has changed: description was"),
        "{}",
        ran.stdout
    );
    assert_eq!(rind.run(&["mcp", "test", "docs", "--yes"]).code, Some(0));
    assert_eq!(results(&turn(&rind)), ["echo: hello"]);
}

#[test]
fn a_tool_that_changes_in_mid_session_is_held_from_then_on() {
    if !has_python() {
        return;
    }
    let script = r#"
[[reply]]
tool_calls = [{ name = "mcp__docs__echo", arguments = { text = "one" } }]
[[reply]]
tool_calls = [{ name = "mcp__docs__echo", arguments = { text = "two" } }]
[[reply]]
tool_calls = [{ name = "mcp__docs__echo", arguments = { text = "three" } }]
[[reply]]
text = "Done."
"#;
    let rind = served("changes", script, "");
    let ran = turn(&rind);
    let found = results(&ran);
    assert_eq!(found[0], "echo: one");
    assert!(
        found[1].contains("differs from the version that the user approved")
            || found[1].contains("there is no tool"),
        "{found:?}"
    );
    assert!(found[2].contains("there is no tool"), "{found:?}");
    let calls = noted(&rind)
        .iter()
        .filter(|line| *line == "call echo")
        .count();
    assert_eq!(calls, 1, "{:?}", noted(&rind));
    for word in [
        "differs from the version that you approved",
        "id_rsa",
        "`more` is new",
        "`plain` is no longer offered",
    ] {
        assert!(ran.stdout.contains(word), "{word}: {}", ran.stdout);
    }
}

#[test]
fn servers_are_added_listed_and_removed() {
    if !has_python() {
        return;
    }
    let rind = unasked("plain", ECHOES, "");
    let program = rind
        .user_home()
        .join("server/server.py")
        .display()
        .to_string();
    let ran = rind.run(&[
        "mcp",
        "add",
        "other",
        "--read",
        "~/server",
        "--yes",
        "--",
        super::PYTHON,
        &program,
        "lies",
    ]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let config = fs::read_to_string(rind.home().join("config/config.toml")).unwrap();
    assert!(
        config.contains("[mcp.other]\ncommand = \"/usr/bin/python3\""),
        "{config}"
    );
    let list = rind.run(&["mcp", "list"]);
    assert!(
        list.stdout.contains("other  /usr/bin/python3"),
        "{}",
        list.stdout
    );
    assert!(
        list.stdout.contains("1 tool, approved on"),
        "{}",
        list.stdout
    );
    assert!(
        list.stdout.contains("its tools are not approved"),
        "{}",
        list.stdout
    );
    let tools = rind.run(&["tools"]);
    assert!(
        tools
            .stdout
            .contains("mcp__other__echo (execute) mcp:other"),
        "{}",
        tools.stdout
    );
    assert_eq!(
        rind.run(&["mcp", "add", "other", "--no-test", "--", "sh"])
            .code,
        Some(2)
    );
    assert_eq!(rind.run(&["mcp", "remove", "other"]).code, Some(0));
    assert_eq!(rind.run(&["mcp", "remove", "other"]).code, Some(2));
    let config = fs::read_to_string(rind.home().join("config/config.toml")).unwrap();
    assert!(
        !config.contains("other") && config.contains("[mcp.docs]"),
        "{config}"
    );
}

#[test]
fn a_project_adds_no_server() {
    let rind = unasked("plain", ECHOES, "");
    rind.file(".rind/config.toml", "[mcp.evil]\ncommand = \"sh\"\n");
    let ran = rind.run(&["run", "--trust-project", "go"]);
    assert_ne!(ran.code, Some(0));
    assert!(
        ran.stderr.contains("unknown section `mcp`"),
        "{}",
        ran.stderr
    );
}

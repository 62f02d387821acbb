//! MCP servers in the files of a project: trust, the question before the first start, and rights.

use std::path::PathBuf;

use rind_tests::cli::{Ran, Rind};
use serde_json::{Value, json};

use super::{ECHOES, PYTHON, SERVER, has_python, results, words_of};

/// A project whose `.mcp.json` names the server `docs` with this environment.
fn project(env: &Value, settings: &str) -> Rind {
    let rind = Rind::with_script(ECHOES);
    rind.file("server.py", SERVER);
    rind.config(settings);
    name_server(&rind, "plain", env);
    rind
}

fn name_server(rind: &Rind, mode: &str, env: &Value) {
    let server = json!({ "command": PYTHON, "args": ["server.py", mode, "log"], "env": env });
    let file = json!({ "mcpServers": { "docs": server } });
    rind.file(".mcp.json", &file.to_string());
}

/// File in which the server logs its starts.
fn log(rind: &Rind) -> PathBuf {
    rind.workspace().join("log")
}

fn test(rind: &Rind, more: &[&str]) -> Ran {
    rind.run(&[&["mcp", "test", "docs"], more].concat())
}

const RIGHTS: &str = "[mcp.docs]\nproject = true\nwrite = [\"workspace\"]\n";

#[test]
fn a_server_of_a_project_runs_after_trust_and_with_the_rights_of_the_operator_alone() {
    if !has_python() {
        return;
    }
    let rind = project(&json!({}), "");
    // An untrusted project's server is neither listed nor started.
    let ran = test(&rind, &["--yes"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains(".mcp.json is not used: it is not trusted"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("there is no MCP server `docs`"),
        "{}",
        ran.stderr
    );
    let ran = rind.run(&["run", "--json", "--yes", "go"]);
    assert!(
        results(&ran)[0].contains("there is no tool"),
        "{}",
        ran.stdout
    );
    assert!(
        !ran.stderr.contains(".mcp.json"),
        "told once: {}",
        ran.stderr
    );

    // A trusted project's server is listed, but a session without a person does not start it.
    let ran = rind.run(&["mcp", "list", "--trust-project"]);
    assert!(
        ran.stdout.contains("of .mcp.json"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    let ran = rind.run(&["run", "--json", "--yes", "--trust-project", "go"]);
    assert!(
        ran.stderr.contains("its tools are not approved"),
        "{}",
        ran.stderr
    );
    let ran = test(&rind, &["--trust-project"]);
    assert!(ran.stderr.contains("may be started"), "{}", ran.stderr);
    assert_eq!(ran.code, Some(1));

    // The server cannot see the workspace without rights to it.
    let ran = test(&rind, &["--trust-project", "--yes"]);
    if ran.stderr.contains("cannot be confined on this machine") {
        return;
    }
    assert_eq!(ran.code, Some(1), "{}{}", ran.stdout, ran.stderr);
    assert!(!log(&rind).exists());

    rind.config(RIGHTS);
    let ran = test(&rind, &["--trust-project", "--yes"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let run = || rind.run(&["run", "--json", "--yes", "--trust-project", "go"]);
    assert_eq!(results(&run()), ["echo: hello"]);
    let list = rind.run(&["mcp", "list", "--json", "--trust-project"]);
    let list: Value = serde_json::from_str(&list.stdout).unwrap();
    assert_eq!(
        (&list[0]["origin"], &list[0]["standing"]),
        (&json!(".mcp.json"), &json!("pinned"))
    );

    // A change of the project's settings needs a new approval.
    name_server(&rind, "images", &json!({}));
    std::fs::remove_file(log(&rind)).unwrap();
    let ran = run();
    assert!(
        ran.stderr.contains("settings have changed"),
        "{}",
        ran.stderr
    );
    assert!(!log(&rind).exists());
    // The operator's server replaces the project's server of the same name.
    rind.config("[mcp.docs]\ncommand = \"true\"\n");
    let list = rind.run(&["mcp", "list", "--json", "--trust-project"]);
    let list: Value = serde_json::from_str(&list.stdout).unwrap();
    assert_eq!(list[0]["origin"], "settings");
    assert_eq!(list.as_array().unwrap().len(), 1);
}

#[test]
fn variables_in_a_file_of_a_project_are_those_that_the_operator_allows() {
    if !has_python() {
        return;
    }
    let env = json!({ "DOCS_TOKEN": "${DOCS_TOKEN}", "OTHER_TOKEN": "${OTHER_TOKEN:-default-1}" });
    let rind = project(&env, RIGHTS);
    name_server(&rind, "reach", &env);
    let script = ECHOES.replace("\"hello\"", "\"/none,/none,/none\"");
    rind.script(&script);
    let run = |args: &[&str]| {
        let mut command = rind.command(args);
        command
            .env("DOCS_TOKEN", "given-1")
            .env("OTHER_TOKEN", "kept-1");
        rind.finish(&mut command)
    };
    let ran = run(&["mcp", "test", "docs", "--trust-project", "--yes"]);
    assert_eq!(ran.code, Some(2), "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stderr
            .contains("`DOCS_TOKEN`, which you have not allowed"),
        "{}",
        ran.stderr
    );
    rind.config(&format!("{RIGHTS}env = [\"DOCS_TOKEN\"]\n"));
    let ran = run(&["mcp", "test", "docs", "--trust-project", "--yes"]);
    if ran.stderr.contains("cannot be confined on this machine") {
        return;
    }
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let found = results(&run(&["run", "--json", "--yes", "--trust-project", "go"]));
    assert!(
        found[0].contains("TOKEN=given-1") && found[0].contains("OTHER=default-1"),
        "{found:?}"
    );
    let pins = std::fs::read_to_string(rind.home().join("data/mcp.json")).unwrap();
    assert!(
        !pins.contains("given-1") && !pins.contains("default-1"),
        "{pins}"
    );
}

#[test]
fn a_person_is_asked_about_the_project_and_about_the_start() {
    if !has_python() {
        return;
    }
    let rind = project(&json!({ "MODE": "x" }), RIGHTS);
    let Some(shown) = rind.at_terminal(&["run", "go"], "n\n") else {
        return;
    };
    let shown = words_of(&shown);
    assert!(shown.contains("in .mcp.json"), "{shown}");
    let expected =
        format!("docs: runs `{PYTHON} server.py plain log`, with the variables MODE (.mcp.json)");
    assert!(shown.replace('\n', " ").contains(&expected), "{shown}");
    assert!(!shown.contains("start the MCP server"), "{shown}");
    // The person trusts the project and does not approve the server's start.
    let shown = rind.at_terminal(&["run", "go"], "y\nn\n").unwrap();
    let shown = words_of(&shown);
    if shown.contains("cannot be confined on this machine") {
        return;
    }
    assert!(
        shown.contains("start the MCP server docs of .mcp.json"),
        "{shown}"
    );
    assert!(shown.contains("its start was not approved"), "{shown}");
    assert!(!log(&rind).exists());
    // The person approves the start and the server's tools.
    let shown = rind
        .at_terminal(&["run", "--yes", "go"], "y\ny\ny\n")
        .unwrap();
    assert!(
        words_of(&shown).contains("use the tools of the MCP server docs"),
        "{shown}"
    );
    assert!(log(&rind).exists());
}

#[test]
fn a_program_of_the_settings_that_was_never_approved_starts_after_a_yes_only() {
    if !has_python() {
        return;
    }
    let rind = Rind::with_script(ECHOES);
    rind.file("server.py", SERVER);
    let name = |log: &str| {
        rind.config(&format!(
            "[mcp.docs]\ncommand = \"{PYTHON}\"\nargs = [\"server.py\", \"plain\", \"{log}\"]\nwrite = [\"workspace\"]\n"
        ));
    };
    name("log");
    let Some(shown) = rind.at_terminal(&["run", "go"], "n\n") else {
        return;
    };
    let shown = words_of(&shown);
    let question = "start the MCP server docs of config.toml";
    assert!(shown.contains(question), "{shown}");
    assert!(shown.contains("its start was not approved"), "{shown}");
    assert!(!log(&rind).exists());
    let shown = rind.at_terminal(&["run", "--yes", "go"], "y\ny\n").unwrap();
    assert!(log(&rind).exists(), "{shown}");
    // An approved server starts without further questions.
    let shown = rind.at_terminal(&["run", "--yes", "go"], "").unwrap();
    assert!(!words_of(&shown).contains(question), "{shown}");
    // The settings now start another program.
    name("another");
    let shown = rind.at_terminal(&["run", "--yes", "go"], "n\n").unwrap();
    assert!(words_of(&shown).contains(question), "{shown}");
    assert!(!rind.workspace().join("another").exists());
}

#[test]
fn files_of_a_project_that_are_wrong_or_lead_out_of_it_name_no_server() {
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("servers.json");
    let good = json!({ "mcpServers": { "docs": { "command": "true" } } }).to_string();
    std::fs::write(&target, &good).unwrap();
    let rind = Rind::with_script(ECHOES);
    let list = || rind.run(&["mcp", "list", "--trust-project"]);
    std::os::unix::fs::symlink(&target, rind.workspace().join(".mcp.json")).unwrap();
    let ran = list();
    assert!(
        ran.stderr.contains("is a link out of the project"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stdout.contains("docs"), "{}", ran.stdout);
    std::fs::remove_file(rind.workspace().join(".mcp.json")).unwrap();
    for (text, expected) in [
        ("{", ".mcp.json are not used"),
        (r#"{"mcpServers": {"docs": {}}}"#, "neither `command`"),
        (
            r#"{"mcpServers": {"docs": {"command": "${X}"}}}"#,
            "contains a variable",
        ),
        (
            r#"{"mcpServers": {"docs": {"url": "https://a.example", "headers": {"X": "{AWS_SECRET}"}}}}"#,
            "that is not part of a variable",
        ),
        (
            r#"{"mcpServers": {"docs": {"url": "https://a.example", "headers": {"X": "${AWS_SECRET}"}}}}"#,
            "have not allowed",
        ),
        (
            r#"{"mcpServers": {"docs": {"command": "x", "url": "https://a.example"}}}"#,
            "a program or an address",
        ),
    ] {
        rind.file(".mcp.json", text);
        let ran = list();
        assert!(ran.stderr.contains(expected), "{text}: {}", ran.stderr);
        assert!(!ran.stdout.contains("docs"), "{text}: {}", ran.stdout);
    }
    rind.file(".mcp.json", "{}");
    rind.file(
        ".codex/config.toml",
        "[mcp_servers.pages]\ncommand = \"true\"\nenv_vars = [\"PAGES\"]\n",
    );
    let ran = list();
    assert!(
        ran.stderr.contains("`PAGES`, which you have not allowed"),
        "{}",
        ran.stderr
    );
    rind.config("[mcp.pages]\nproject = true\nenv = [\"PAGES\"]\n");
    let mut command = rind.command(&["mcp", "list", "--trust-project"]);
    let ran = rind.finish(command.env("PAGES", "x"));
    assert!(
        ran.stdout.contains("of .codex/config.toml"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    // Rights for a project's server may not name a command.
    rind.config("[mcp.pages]\nproject = true\ncommand = \"true\"\n");
    assert_eq!(list().code, Some(2));
}

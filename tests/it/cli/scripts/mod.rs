//! Scripts in the settings as hooks: the input that they get, the outcomes that they may return,
//! and the effects of those.

mod claude;
mod hostile;
mod project;
mod settings;
mod warm;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use insta::assert_snapshot;
use rind_tests::cli::{Ran, Rind};
use serde_json::Value;

/// A model that writes two files.
const WRITES: &str = r#"
[[reply]]
tool_calls = [
    { name = "write_file", arguments = { path = ".env", content = "KEY=1" } },
    { name = "write_file", arguments = { path = "b.txt", content = "b" } },
    { name = "list_files", arguments = {} },
]
[[reply]]
text = "Done."
"#;

/// Writes an executable beside the settings, and returns its path there.
fn program(rind: &Rind, name: &str, text: &str) -> String {
    let path = rind.home().join("config/hooks").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    format!("hooks/{name}")
}

/// A machine whose script `guard` runs this shell text, with these additional settings for it.
fn guarded(script: &str, text: &str, settings: &str) -> Rind {
    let rind = Rind::with_script(script);
    let command = program(&rind, "guard", &format!("#!/bin/sh\n{text}\n"));
    rind.config(&format!(
        "[hooks.scripts.guard]\ncommand = [\"{command}\"]\n{settings}"
    ));
    rind
}

/// The hook events of `guard` in order: point, outcome and reason.
fn outcomes(ran: &Ran) -> Vec<(String, String, String)> {
    let text = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let events = ran.json_lines();
    let hooks = events
        .iter()
        .filter(|event| event["type"] == "hook" && event["plugin"] == "guard");
    hooks
        .map(|event| {
            (
                text(event, "point"),
                text(event, "outcome"),
                text(event, "reason"),
            )
        })
        .collect()
}

/// The results of the tool calls, as the model sees them.
fn results(ran: &Ran) -> Vec<String> {
    let events = ran.json_lines();
    let ends = events.iter().filter(|event| event["type"] == "tool-end");
    ends.map(|event| {
        event["result"]["content"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    })
    .collect()
}

#[test]
fn a_script_refuses_calls_warns_the_model_and_is_only_asked_about_its_tools() {
    let text = r#"
input=$(cat)
case "$input" in
  *'"path":".env"'*) echo '{"verdict": {"block": ".env is protected"}}' ;;
  *) echo '{"note": "written in a hurry"}' ;;
esac"#;
    let rind = guarded(
        WRITES,
        text,
        "point = \"pre-tool\"\nmatcher = \"write_.*\"\n",
    );
    let ran = rind.run(&["run", "go", "--yes", "--json"]).exits(0);
    let results = results(&ran);
    assert!(
        results[0].starts_with("refused by plugin guard: .env is protected\n"),
        "{results:?}"
    );
    assert!(results[1].contains("written in a hurry"), "{results:?}");
    assert!(!rind.workspace().join(".env").exists());
    assert!(rind.workspace().join("b.txt").exists());
    let outcomes = outcomes(&ran);
    let outcomes: Vec<&str> = outcomes
        .iter()
        .map(|(_, outcome, _)| outcome.as_str())
        .collect();
    assert_eq!(
        outcomes
            .iter()
            .filter(|outcome| **outcome == "blocked")
            .count(),
        1
    );
    // The guard was not called for the tool that only reads.
    assert_eq!(
        outcomes
            .iter()
            .filter(|outcome| **outcome == "pass")
            .count(),
        1,
        "{outcomes:?}"
    );
}

#[test]
fn changed_arguments_fit_the_schema_or_the_call_is_refused() {
    for (path, is_written) in [(r#""safe.txt""#, true), ("5", false)] {
        let text =
            format!(r#"echo '{{"verdict": {{"change": {{"path": {path}, "content": "x"}}}}}}'"#);
        let rind = guarded(
            WRITES,
            &text,
            "point = \"pre-tool\"\nmatcher = \"write_file\"\n",
        );
        let ran = rind.run(&["run", "go", "--yes", "--json"]).exits(0);
        assert_eq!(rind.workspace().join("safe.txt").exists(), is_written);
        assert!(!rind.workspace().join(".env").exists());
        let refused = outcomes(&ran).iter().any(|(_, outcome, why)| {
            outcome == "failed-blocking" && why.contains("do not fit the tool's schema")
        });
        assert_eq!(refused, !is_written);
    }
}

#[test]
fn every_input_is_what_the_schema_says() {
    let rind = Rind::with_script(WRITES);
    let schema: Value =
        serde_json::from_str(&rind.run(&["schema", "hooks"]).exits(0).stdout).unwrap();
    let points = schema["properties"].as_object().unwrap();
    let names: Vec<String> = points.keys().map(|name| format!("\"{name}\"")).collect();
    let command = program(
        &rind,
        "guard",
        "#!/bin/sh\ncat > \"$(mktemp input.XXXXXX)\"\n",
    );
    rind.config(&format!(
        "[agent.reflect]\nenabled = true\n[hooks.scripts.guard]\ncommand = [\"{command}\"]\npoint = [{}]\ntimeout_seconds = 30\n",
        names.join(", ")
    ));
    rind.run(&["run", "go", "--yes"]).exits(0);
    let mut seen = BTreeSet::new();
    for file in fs::read_dir(rind.workspace()).unwrap() {
        let path = file.unwrap().path();
        if !path.to_string_lossy().contains("input.") {
            continue;
        }
        let call: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let point = call["point"].as_str().unwrap().to_owned();
        let mut input = points[&point]["properties"]["input"].clone();
        input["$defs"] = schema["$defs"].clone();
        let validator = jsonschema::validator_for(&input).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&call)
            .map(|e| e.to_string())
            .collect();
        assert_eq!(errors, Vec::<String>::new(), "{call}");
        assert_eq!(call["hook"], "guard");
        seen.insert(point);
    }
    assert!(seen.len() >= 18, "{seen:?}");
}

#[test]
fn what_a_script_says_carries_no_secret() {
    let token = ["ghp", "_", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"].concat();
    let text = format!(r#"echo '{{"inject": [{{"text": "use {token}"}}]}}'"#);
    let rind = guarded(
        "[[reply]]\ntext = \"Done.\"\n",
        &text,
        "point = \"turn-start\"\n",
    );
    let ran = rind.run(&["run", "go", "--json"]).exits(0);
    assert!(!ran.stdout.contains(&token));
    let events = ran.json_lines();
    let access = events
        .iter()
        .find(|event| event["type"] == "access")
        .unwrap();
    assert_eq!(access["plugin"], "guard");
    assert_eq!(access["outcome"], "masked");
    let fails = guarded(
        WRITES,
        &format!("echo {token} >&2; exit 1"),
        "point = \"pre-tool\"\n",
    );
    let ran = fails.run(&["run", "go", "--json", "--yes"]).exits(0);
    assert!(!ran.stdout.contains(&token));
    assert!(
        ran.stdout.contains("exit code 1: [secret masked"),
        "{}",
        ran.stdout
    );
}

#[test]
fn lists_show_scripts_with_their_place() {
    let rind = guarded(
        WRITES,
        "true",
        "point = [\"pre-tool\", \"pre-output\"]\nmay = []\n",
    );
    // The list shows the effect of a failure for each point of a script.
    rind.config(
        "[hooks.scripts.guard]\npoint = [\"pre-tool\", \"turn-end\"]\ncommand = [\"hooks/guard\", \"-v\"]\n\
         [hooks.scripts.look]\npoint = \"pre-output\"\ncommand = [\"sh\", \"-c\", \"true\"]\nwarm = true\non_failure = \"block\"\n",
    );
    let ran = rind.run(&["plugin", "list"]).exits(0);
    assert_snapshot!(ran.stdout, @r"
    ✓ guard                    script   -        pre-tool (blocks when it fails), turn-end (is skipped when it fails)
      [RIND_HOME]/config/config.toml:1: [RIND_HOME]/config/hooks/guard -v
    ✓ look                     script   stays    pre-output (blocks when it fails)
      [RIND_HOME]/config/config.toml:4: sh -c true
    ");
    assert!(
        ran.stderr.contains(
            "because the following plugins and scripts may change or refuse them: look (pre-output)"
        ),
        "{}",
        ran.stderr
    );
    let ran = rind.run(&["plugin", "list", "--json"]).exits(0);
    let list: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(list["scripts"][0]["name"], "guard");
    assert_eq!(list["scripts"][0]["hooks"][0]["on_failure"], "block");
    let doctor = rind.run(&["doctor"]);
    assert!(
        doctor.stdout.contains("2 scripts: guard, look"),
        "{}",
        doctor.stdout
    );
}

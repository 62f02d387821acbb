//! Tests of the environment variables that commands and scripts get.

use rind_tests::cli::Rind;

const COMMAND: &str = "[[reply]]\ntool_calls = [{ name = \"bash\", arguments = { command = \"env | sort; date +%z\" } }]\n\
                       [[reply]]\ntext = \"Done.\"\n";

/// Name and value of the user's variables, and whether a command gets the variable under the
/// settings of these tests.
const VARIABLES: &[(&str, &str, bool)] = &[
    ("JAVA_HOME", "/opt/java", true),
    ("VIRTUAL_ENV", "/opt/venv", true),
    ("CARGO_HOME", "/opt/cargo", true),
    ("TZ", "Asia/Tokyo", true),
    ("http_proxy", "http://proxy:3128", true),
    ("HTTPS_PROXY", "http://me:pass-word@proxy:3128", false),
    ("MY_SETTING", "mine", true),
    ("APP_MODE", "dev", true),
    ("APP_TOKEN", "a-token-of-mine", false),
    ("OTHER", "other", false),
    ("AWS_SECRET_ACCESS_KEY", "a-key-of-mine", false),
    ("LD_LIBRARY_PATH", "/nowhere", true),
    ("EDITOR", "vi", false),
];

fn results(rind: &Rind) -> String {
    let messages = rind.entries("message");
    let parts = messages.iter().flat_map(|entry| {
        entry["message"]["content"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    });
    let results = parts.filter(|part| part["type"] == "tool_result");
    results
        .map(|part| part["content"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn commands_get_usual_variables_and_named_ones_and_no_secrets() {
    for bash in ["required", "off"] {
        let rind = Rind::with_script(COMMAND);
        rind.config(&format!(
            "[sandbox]\nbash = \"{bash}\"\nenv = [\"MY_SETTING\", \"APP_*\", \"DEPLOY_TOKEN\", \"LD_LIBRARY_PATH\"]\n"
        ));
        let mut command = rind.command(&["run", "work", "--yes"]);
        command.envs(VARIABLES.iter().map(|(name, value, _)| (name, value)));
        command.env("DEPLOY_TOKEN", "my-deploy-word");
        rind.finish(&mut command).exits(0);
        let result = results(&rind);
        for (name, value, is_passed) in VARIABLES {
            let line = format!("{name}={value}\n");
            assert_eq!(
                result.contains(&line),
                *is_passed,
                "{bash} {name}: {result}"
            );
        }
        assert!(
            result.contains("DEPLOY_TOKEN=[secret masked: DEPLOY_TOKEN]\n"),
            "{result}"
        );
        assert!(
            result.contains("no_proxy=localhost,127.0.0.1,::1\n"),
            "{result}"
        );
        assert!(
            result.contains("EDITOR=true\n") && result.contains("\n+0900\n"),
            "{result}"
        );
        assert!(!result.contains("RIND_FOR_PROGRAM"), "{result}");
    }
}

#[test]
fn scripts_get_the_same_variables() {
    for bash in ["required", "off"] {
        let rind = Rind::with_script("[[reply]]\ntext = \"Done.\"\n");
        let seen = rind.workspace().join("seen");
        rind.config(&format!(
            "[sandbox]\nbash = \"{bash}\"\nenv = [\"APP_*\"]\n[hooks.scripts.see]\npoint = \"turn-start\"\ncommand = [\"sh\", \"-c\", \"env > {}\"]\n",
            seen.display()
        ));
        let mut command = rind.command(&["run", "work", "--yes"]);
        command.envs([
            ("JAVA_HOME", "/opt/java"),
            ("APP_MODE", "dev"),
            ("APP_KEY", "x"),
            ("OTHER", "x"),
        ]);
        rind.finish(&mut command).exits(0);
        let seen = std::fs::read_to_string(seen).unwrap();
        for line in [
            "JAVA_HOME=/opt/java\n",
            "APP_MODE=dev\n",
            "GIT_EDITOR=true\n",
        ] {
            assert!(seen.contains(line), "{bash}: {seen}");
        }
        assert!(
            !seen.contains("APP_KEY") && !seen.contains("OTHER"),
            "{bash}: {seen}"
        );
    }
}

#[test]
fn a_setting_that_names_no_variable_is_refused_with_its_line() {
    let rind = Rind::with_script(COMMAND);
    rind.config("[sandbox]\nenv = [\"A=b\"]\n");
    let ran = rind.run(&["run", "work"]).exits(2);
    assert!(
        ran.stderr
            .contains("`A=b` is not the name of an environment variable"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("config.toml:2"), "{}", ran.stderr);
    rind.config("[sandbox]\nenv = [\"A\", \"B_*\"]\n");
    let shown = rind.run(&["config", "show"]).exits(0).stdout;
    assert!(shown.contains("B_*"), "{shown}");
}

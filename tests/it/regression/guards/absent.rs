//! Tests of rules that would silently not apply: files that only seem to be absent, duplicate keys,
//! and unknown names.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use rind_tests::cli::Rind;

const SCRIPT: &str = "[[reply]]\ntext = \"done\"\n";

/// Files of the operator, below the home of Rind.
const FILES: [&str; 4] = [
    "config/policy.toml",
    "config/config.toml",
    "config/plugins.lock.toml",
    "config/secrets.toml",
];

#[test]
fn a_link_that_leads_to_nothing_is_not_an_absent_file() {
    for file in FILES {
        let rind = Rind::with_script(SCRIPT);
        let path = rind.home().join(file);
        let _ = fs::remove_file(&path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink("/mnt/not-mounted/rules.toml", &path).unwrap();
        let ran = rind.run(&["run", "hi"]);
        assert!(
            ran.code.is_some_and(|code| code != 0),
            "{file}: {}",
            ran.stderr
        );
        let told = format!("{file}` is dangling: its target does not exist");
        assert!(ran.stderr.contains(&told), "{file}: {}", ran.stderr);
    }
}

#[test]
fn a_named_pipe_in_the_place_of_rules_is_refused_and_not_waited_for() {
    for file in FILES {
        let rind = Rind::with_script(SCRIPT);
        let path = rind.home().join(file);
        let _ = fs::remove_file(&path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        let ran = rind.run(&["run", "hi"]);
        assert!(
            ran.code.is_some_and(|code| code != 0),
            "{file}: {}",
            ran.stderr
        );
        assert!(
            ran.stderr.contains("not a regular file"),
            "{file}: {}",
            ran.stderr
        );
    }
}

#[test]
fn a_key_that_stands_twice_in_settings_of_json_is_refused() {
    let rind = Rind::with_script(SCRIPT);
    let rules = r#"{"tool": "bash", "decision": "deny"}"#;
    let twice = format!("{{\"tools\": {{\"rules\": [{rules}]}},\n\"tools\": {{}}}}");
    rind.user_file("config/config.json", &twice);
    let ran = rind.run(&["run", "hi"]).exits(2);
    assert!(ran.stderr.contains("config.json:2"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("duplicate key `tools`"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_key_that_stands_twice_in_hooks_of_claude_code_is_refused() {
    let hook = r#"[{"hooks": [{"type": "command", "command": "exit 2"}]}]"#;
    for twice in [
        format!("{{\"hooks\": {{\"PreToolUse\": {hook}}},\n\"hooks\": {{}}}}"),
        format!("{{\"hooks\": {{\"PreToolUse\": {hook},\n\"PreToolUse\": []}}}}"),
        format!(
            "{{\"hooks\": {{\"PreToolUse\":\n{}}}}}",
            hook.replace("\"exit 2\"", "\"exit 2\", \"command\": \"true\"")
        ),
    ] {
        let rind = Rind::with_script(SCRIPT);
        rind.config("[hooks]\nclaude = [\"hooks.json\"]\n");
        rind.user_file("config/hooks.json", &twice);
        let ran = rind.run(&["run", "hi"]);
        assert!(ran.code.is_some_and(|code| code != 0), "{}", ran.stderr);
        assert!(ran.stderr.contains("hooks.json:2"), "{}", ran.stderr);
        assert!(ran.stderr.contains("duplicate key"), "{}", ran.stderr);
    }
}

#[test]
fn a_name_in_the_policy_that_is_nearly_a_plugins_is_told() {
    let rind = Rind::with_script(SCRIPT);
    rind.managed("content-safety");
    let policy = "[plugins.content-safty]\ndisable = true\n[plugins.another]\ndisable = true\n";
    rind.user_file("config/policy.toml", policy);
    let ran = rind.run(&["run", "hi"]).exits(0);
    assert!(
        ran.stderr
            .contains("there is no plugin `content-safty`; did you mean `content-safety`?"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("`another`"), "{}", ran.stderr);
}

/// Returns the messages of a run, a chat and `rind doctor`.
fn said(rind: &Rind) -> [String; 3] {
    let run = rind.run(&["run", "hi"]).exits(0).stderr;
    let chat = rind.run_with_input(&["chat"], "hi\n").exits(0).stderr;
    let doctor = rind.run(&["doctor"]);
    assert_eq!(doctor.stderr, "");
    [run, chat, doctor.stdout]
}

#[test]
fn rules_of_json_that_those_of_toml_replace_are_told_once_with_both_files() {
    let rind = Rind::with_script(SCRIPT);
    rind.user_file(
        "config/config.json",
        "{\"tools\": {\n\"rules\": [{\"tool\": \"bash\", \"decision\": \"deny\"}]},\n\"hooks\": {\"claude\": [\"hooks.json\"]}}",
    );
    rind.config(
        "[[tools.rules]]\ntool = \"write_file\"\ndecision = \"deny\"\n\n[hooks]\nclaude = []\n",
    );
    for said in said(&rind) {
        for told in [
            "[RIND_HOME]/config/config.toml:1: `rules` in [tools] replaces the whole list of [RIND_HOME]/config/config.json:2, so that 1 of",
            "[RIND_HOME]/config/config.toml:6: `claude` in [hooks] replaces the whole list of [RIND_HOME]/config/config.json:3, so that 1 of",
        ] {
            assert_eq!(said.matches(told).count(), 1, "{told}\n{said}");
        }
    }
    rind.config("");
    rind.user_file("config/config.json", "{\"tools\": {\"rules\": []}}");
    for said in said(&rind) {
        assert!(!said.contains("replaces the whole list"), "{said}");
    }
}

#[test]
fn a_variable_that_is_nearly_one_of_rinds_is_told() {
    let rind = Rind::with_script(SCRIPT);
    for args in [&["run", "hi"][..], &["doctor"]] {
        let mut command = rind.command(args);
        command.env("RIND_MANGED", "/x").env("RIND_TEST_TOKEN", "x");
        let ran = rind.finish(&mut command).exits(0);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        let told = "the environment variable `RIND_MANGED` is unknown, so it has no effect; did you mean `RIND_MANAGED`?";
        assert_eq!(said.matches(told).count(), 1, "{said}");
        assert!(!said.contains("TOKEN"), "{said}");
    }
}

#[test]
fn a_key_of_a_group_of_claude_hooks_that_means_nothing_is_told() {
    let rind = Rind::with_script(SCRIPT);
    rind.config("[hooks]\nclaude = [\"hooks.json\"]\n");
    let hooks = "[{\"type\": \"command\", \"command\": \"true\"}]";
    rind.user_file(
        "config/hooks.json",
        &format!(
            "{{\"hooks\": {{\"Notification\": [{{\"matchr\": \"Bash\", \"hooks\": {hooks}}}, \
             {{\"matcher\": \"\", \"note\": 1, \"hooks\": {hooks}}}]}}}}"
        ),
    );
    for said in said(&rind) {
        for told in [
            "config/hooks.json: Notification[0]: `matchr` is unknown, so it has no effect; did you mean `matcher`?",
            "config/hooks.json: Notification[1]: `note` is unknown, so it has no effect; a group has hooks and matcher",
        ] {
            assert_eq!(said.matches(told).count(), 1, "{told}\n{said}");
        }
    }
}

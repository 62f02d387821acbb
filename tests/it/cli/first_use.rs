//! Tests of effective settings, of listing models and tools, and of first use, when no model is
//! chosen.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use insta::assert_snapshot;
use rind_tests::cli::{Rind, Step, signal_chat};
use serde_json::Value;

use crate::provider::server::{Reply, Server};

const MODELS: &str =
    r#"{"object":"list","data":[{"id":"small-model"},{"id":"claude-sonnet-4-5"}]}"#;

const MESSAGE: &str = r#"{"type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hello."}],
    "stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}"#;

const ANSWER: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"Hello.\"},\"finish_reason\":\"stop\"}]}\n\n";

fn step<'a>(once: &'a str, typed: &'a str) -> Step<'a> {
    Step {
        once,
        meanwhile: Box::new(|| {}),
        typed,
    }
}

fn json(rind: &Rind, args: &[&str]) -> Value {
    serde_json::from_str(&rind.run(args).exits(0).stdout).unwrap()
}

#[test]
fn every_setting_is_shown_with_the_place_that_decides() {
    let rind = Rind::default();
    rind.config("[agent]\nmax_steps = 7\nmax_calls = 5\n\n[plugins.hello]\nenabled = false\n");
    let args = ["config", "show", "--json", "--set", "agent.max_steps=9"];
    let shown = json(&rind, &args);
    let of = |key: &str| {
        let all = shown.as_array().unwrap().iter();
        let mut found = all.filter(|setting| setting["key"] == key);
        let setting = found.next().unwrap_or_else(|| panic!("{key} is missing"));
        assert!(found.next().is_none(), "{key} once");
        let source = setting["source"].as_str().unwrap();
        format!("{} {source} {}", setting["value"], setting["over"])
    };
    let file = "[RIND_HOME]/config/config.toml";
    assert_eq!(
        of("agent.max_steps"),
        format!("9 --set agent.max_steps=9 [\"{file}:2\"]")
    );
    assert_eq!(of("agent.max_calls"), format!("5 {file}:3 []"));
    assert_eq!(of("agent.compact.enabled"), "true default []");
    assert_eq!(of("plugins.hello.enabled"), format!("false {file}:6 []"));
}

#[test]
fn a_file_to_start_from_is_written_once() {
    let rind = Rind::default();
    assert_snapshot!(rind.run(&["init"]).screen(), @r##"
    exit 0
    ---- stderr
    wrote [WORKSPACE]/.rind/config.toml; every setting in it is commented out: remove the # before a key to set it
    settings of a project apply to users who trust the project; set model, tools and confinement with `rind init --user`
    "##);
    let path = rind.workspace().join(".rind/config.toml");
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.contains("\n[agent]\n") && text.contains("\n#max_steps = 50\n"),
        "{text}"
    );
    assert!(
        !text.contains("[provider]"),
        "a project does not choose the model: {text}"
    );
    fs::write(&path, text.replacen("#max_steps = 50", "max_steps = 3", 1)).unwrap();
    assert_snapshot!(rind.run(&["init"]).screen(), @r##"
    exit 2
    ---- stderr
    error: [WORKSPACE]/.rind/config.toml already exists; nothing was changed
    "##);
    let shown = json(&rind, &["config", "show", "--json", "--trust-project"]);
    let all = shown.as_array().unwrap();
    let set: Vec<&Value> = all
        .iter()
        .filter(|setting| setting["source"] != "default")
        .collect();
    assert_eq!(set.len(), 1, "{set:?}");
    assert_eq!(set[0]["source"], "[WORKSPACE]/.rind/config.toml:5");
    rind.run(&["init", "--user"]).exits(0);
    rind.run(&["run", "hello", "--provider", "scripted"])
        .exits(0);
}

#[test]
fn tools_are_listed_with_origin_effect_and_what_the_rules_say() {
    let rind = Rind::default();
    rind.managed("hello").config(
        "[tools]\nrules = [{ tool = \"bash\", command = \"git status*\", decision = \"allow\" }, { tool = \"hello:*\", \
         decision = \"deny\" }]\n",
    );
    assert_snapshot!(rind.run(&["tools"]).screen(), @"
    exit 0
    ---- stdout
    background (read) built in  allow by the default for effect read
      Answers with the new output of a command that `bash` started in the background, and says whether it…
    bash (execute) built in  ask by the default for effect execute; 1 rule for some of its calls
      Runs a shell command in the workspace folder and answers with its output, standard error included, …
    edit_file (write) built in  ask by the default for effect write
      Replaces a text in a file of the workspace by another. Give enough lines around the change for the …
    list_files (read) built in  allow by the default for effect read
      Lists files and folders of the workspace, sorted, one path a line. Folders end in `/`, links in `@`…
    read_file (read) built in  allow by the default for effect read
      Reads a text file of the workspace, or shows an image (PNG, JPEG, GIF, WebP). Long texts are cut; a…
    search (read) built in  allow by the default for effect read
      Searches the text files of the workspace for lines that match a regular expression. Answers with `p…
    write_file (write) built in  ask by the default for effect write
      Writes a whole text file of the workspace, in one step; what was in it before is gone. A file that …
    greet (read) hello  deny by tool rule 2 (`hello:*`)
      Greets somebody by name.
    ");
    let tool = json(&rind, &["tools", "greet", "--json"]);
    assert_eq!(tool["plugin"], "hello");
    assert_eq!(tool["policy"]["decision"], "deny");
    assert_eq!(tool["parameters"]["type"], "object");
    assert_snapshot!(rind.run(&["tools", "gret"]).screen(), @r##"
    exit 2
    ---- stderr
    error: there is no tool `gret`; the tools are: background, bash, edit_file, list_files, read_file, search, write_file, greet
    "##);
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_those_that_the_server_lists() {
    let server = Server::start(vec![Reply::plain(200, &[], MODELS)]).await;
    let rind = Rind::default();
    let mut command = rind.command(&["models", "--provider", "anthropic"]);
    command
        .env("ANTHROPIC_BASE_URL", &server.url)
        .env("ANTHROPIC_API_KEY", "k-1");
    assert_snapshot!(rind.finish(&mut command).screen(), @"
    exit 0
    ---- stdout
    claude-sonnet-4-5  200000 tokens, $3 in, $15 out for a million tokens
    small-model  32768 tokens
    ---- stderr
    ▲ anthropic does not list claude-sonnet-5-5, the model of new sessions
    anthropic lists 2 models (anthropic was asked for); choose one with --model or `model` in [provider]
    ");
    let received = server.received();
    assert_eq!(received[0].line, "GET /v1/models?limit=1000");
    assert!(received[0].has("x-api-key: k-1"), "{received:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_refused_or_no_list_is_an_error_that_says_so() {
    for (reply, expected) in [
        (
            Reply::plain(401, &[], r#"{"error":{"message":"bad key"}}"#),
            "bad key",
        ),
        (Reply::plain(200, &[], "<html>"), "no JSON"),
        (Reply::plain(404, &[], "{}"), "404"),
    ] {
        let server = Server::start(vec![reply]).await;
        let rind = Rind::default();
        let mut command = rind.command(&["models", "--provider", "openai"]);
        command
            .env("OPENAI_BASE_URL", &server.url)
            .env("OPENAI_API_KEY", "k-1");
        let ran = rind.finish(&mut command).exits(1);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_this_machine_is_found_chosen_and_used_from_then_on() {
    let replies = vec![Reply::plain(200, &[], MODELS), Reply::stream([ANSWER])];
    let server = Server::start(replies).await;
    let rind = Rind::without_model();
    let host = server.url.trim_start_matches("http://").to_owned();
    let first = format!("stty cols 120 rows 40; export OLLAMA_HOST={host}");
    let shown = tokio::task::block_in_place(|| {
        let steps = vec![
            step("small-model", ""),
            step("[d]emo", "nonsense\n"),
            step("[d]emo", "2\n"),
        ];
        rind.at_terminal_with(&["run", "hello"], &first, steps)
    });
    let Some(shown) = shown else { return };
    assert!(shown.contains("no model is set up yet"), "{shown}");
    assert!(shown.contains("invalid answer"), "{shown}");
    assert!(shown.contains("Hello."), "{shown}");
    let written = fs::read_to_string(rind.home().join("config/config.toml")).unwrap();
    assert_eq!(
        written,
        format!(
            "[provider]\nname = \"ollama\"\nmodel = \"small-model\"\nbase_url = \"http://{host}/v1\"\n"
        )
    );
    let received = server.received();
    assert_eq!(received[1].line, "POST /v1/chat/completions");
    assert_eq!(received[1].body["model"], "small-model");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pasted_key_is_not_shown_is_kept_for_its_owner_alone_and_is_used() {
    let replies = vec![
        Reply::plain(200, &[], MODELS),
        Reply::plain(200, &[], MESSAGE),
    ];
    let server = Server::start(replies).await;
    let rind = Rind::without_model();
    let first = format!(
        "stty cols 120 rows 40; export ANTHROPIC_BASE_URL={}",
        server.url
    );
    let key = "sk-ant-test-0123456789";
    let typed = format!("{key}\n");
    let shown = tokio::task::block_in_place(|| {
        let steps = vec![
            step("[d]emo", "k\n"),
            step("not shown", "hunter2\n"),
            step("[d]emo", "k\n"),
            step("not shown", &typed),
        ];
        rind.at_terminal_with(&["run", "hello"], &first, steps)
    });
    let Some(shown) = shown else { return };
    assert!(shown.contains("this is no key of"), "{shown}");
    assert!(
        !shown.contains(key) && !shown.contains("hunter2"),
        "{shown}"
    );
    let file = rind.home().join("config/secrets.toml");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        format!("ANTHROPIC_API_KEY = \"{key}\"\n")
    );
    let received = server.received();
    assert!(received.len() >= 2, "{received:?}");
    assert!(
        received
            .iter()
            .all(|request| request.has(&format!("x-api-key: {key}")))
    );
}

#[test]
fn whoever_goes_on_without_a_model_is_asked_again_the_next_time() {
    let rind = Rind::without_model();
    for _ in 0..2 {
        let Some(shown) = rind.at_terminal_once(&["run", "hello"], "[d]emo", || {}, "d\n") else {
            return;
        };
        assert!(shown.contains("scripted was asked for"), "{shown}");
    }
    assert!(!rind.home().join("config/config.toml").exists());
}

#[test]
fn ctrl_c_at_the_question_for_a_key_leaves_a_terminal_that_shows_what_is_typed() {
    for signal in [None, Some("TERM")] {
        let rind = Rind::without_model();
        let Some(mut terminal) = rind.terminal(&["run", "hello"], (100, 30), &[]) else {
            return;
        };
        terminal.sees("[d]emo").keys("k\r").sees("not shown");
        match signal {
            None => drop(terminal.keys("\u{3}")),
            Some(name) => signal_chat(&rind, name),
        }
        assert_eq!(terminal.ends(), Some(130));
    }
}

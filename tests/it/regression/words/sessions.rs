//! Tests of resumed sessions, of input from a pipe, and of numbers in settings.

use std::fs;

use rind_tests::cli::Rind;
use rind_tests::guests;
use rind_tests::server::{Reply, Server};

const ANSWER: &str = "[[reply]]\ntext = \"the answer\"\n";

/// Returns the id of the only session.
fn id(rind: &Rind) -> String {
    let mut found = fs::read_dir(rind.home().join("data/sessions")).unwrap();
    let folder = found.next().unwrap().unwrap().file_name();
    folder.into_string().unwrap()
}

#[test]
fn the_last_session_is_that_of_the_folder_and_another_ones_is_gone_on_with_by_id_and_said() {
    let rind = Rind::with_script(ANSWER);
    rind.run(&["run", "hello"]).exits(0);
    let elsewhere = rind.user_home().join("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    let elsewhere = elsewhere.to_str().unwrap();
    let go_on = |session: &str| {
        rind.run(&[
            "run",
            "again",
            "--workspace",
            elsewhere,
            "--resume",
            session,
        ])
    };
    let ran = go_on("last").exits(2);
    for said in ["no session has worked in", &id(&rind), "[WORKSPACE]"] {
        assert!(ran.stderr.contains(said), "{said}: {}", ran.stderr);
    }
    let ran = go_on(&id(&rind)).exits(0);
    let said = "worked in the folder [WORKSPACE] before, and now continues in";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_with_its_model() {
    let server = Server::start(|_| {
        let chunk = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"yes\"},\"finish_reason\":\"stop\"}]}\n\n";
        Reply::Stream(vec![chunk.to_owned(), "data: [DONE]\n\n".to_owned()])
    })
    .await;
    let rind = Rind::default();
    let asked = |args: &[&str]| {
        let mut command = rind.command(args);
        command.env("OPENAI_BASE_URL", server.at("127.0.0.1", "/v1"));
        rind.finish(&mut command).exits(0);
        let body: serde_json::Value = serde_json::from_slice(&server.last().body).unwrap();
        body["model"].as_str().unwrap().to_owned()
    };
    assert_eq!(asked(&["run", "hello", "--model", "small-a"]), "small-a");
    assert_eq!(asked(&["run", "again", "--resume", "last"]), "small-a");
    let other = ["run", "again", "--resume", "last", "--model", "small-b"];
    assert_eq!(asked(&other), "small-b");
    assert_eq!(asked(&["run", "again", "--resume", "last"]), "small-b");
}

#[test]
fn a_beginning_that_many_sessions_have_names_a_few_of_them() {
    let rind = Rind::with_script(ANSWER);
    rind.run(&["run", "hello"]).exits(0);
    let id = id(&rind);
    let sessions = rind.home().join("data/sessions");
    for n in 0..45 {
        let copy = sessions.join(format!("{id}-{n}"));
        fs::create_dir(&copy).unwrap();
        fs::copy(
            sessions.join(&id).join("session.jsonl"),
            copy.join("session.jsonl"),
        )
        .unwrap();
    }
    for command in [&["run", "again", "--resume"][..], &["session", "prompt"]] {
        let ran = rind.run(&[command, &[&id[..4]]].concat()).exits(2);
        assert!(ran.stderr.contains("matches 46 sessions"), "{}", ran.stderr);
        assert!(ran.stderr.matches(&id).count() <= 8, "{}", ran.stderr);
        assert!(ran.stderr.contains("rind session list"), "{}", ran.stderr);
    }
}

#[test]
fn what_was_refused_is_not_proposed_to_be_gone_on_with() {
    let rind = Rind::with_script(ANSWER);
    guests::put("scripted-hook", &rind.home().join("managed"), |manifest| {
        manifest
    });
    rind.config("[plugins.scripted-hook.config.answers.pre-assess]\nblock = \"not this\"\n");
    let ran = rind.run(&["run", "hello"]).exits(3);
    assert!(
        ran.stderr.contains("will be blocked again"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("--resume"), "{}", ran.stderr);
}

#[test]
fn what_is_piped_in_beside_a_prompt_is_a_block_after_it() {
    let rind = Rind::with_script(ANSWER);
    rind.run_with_input(&["run", "review this"], "fn main() {}\n```\nend\n")
        .exits(0);
    let turns = rind.entries("turn-start");
    let input = turns[0]["input"].as_str().unwrap();
    let expected = "review this\n\nStandard input:\n\n````\nfn main() {}\n```\nend\n````";
    assert_eq!(input, expected);
}

#[test]
fn numbers_that_mean_nothing_are_refused_with_their_line() {
    let rind = Rind::with_script(ANSWER);
    for (section, key, value) in [
        ("agent", "max_steps", "0"),
        ("agent", "max_steps", "4000000000"),
        ("agent", "max_calls", "0"),
        ("agent", "max_parallel_calls", "0"),
        ("agent", "tool_timeout_seconds", "0"),
        ("agent", "tool_output_bytes", "0"),
        ("agent.compact", "threshold_tokens", "0"),
        ("agent.compact", "max_summary_tokens", "0"),
        ("agent.compact", "hard_limit_tokens", "0"),
        ("agent.reflect", "rounds", "1000"),
        ("archival", "token_threshold", "0"),
        ("archival", "tool_call_threshold", "0"),
        ("subagents", "timeout_seconds", "0"),
        ("provider.http", "connect_timeout_ms", "0"),
        ("provider.http", "idle_timeout_ms", "0"),
        ("provider.http", "total_timeout_ms", "0"),
        ("provider.http", "max_answer_bytes", "0"),
        ("provider.http", "max_attempts", "0"),
        ("sandbox", "memory_mb", "0"),
        ("sandbox", "processes", "0"),
        ("sandbox", "file_mb", "0"),
        ("sandbox", "disk_mb", "0"),
        ("sandbox", "temporary_mb", "0"),
        ("plugins.p", "timeout_seconds", "0"),
        ("prices.m", "input", "-1"),
    ] {
        rind.config(&format!("[{section}]\n\n{key} = {value}\n"));
        let ran = rind.run(&["run", "hello"]).exits(2);
        let place = "config.toml:3: in [";
        assert!(
            ran.stderr.contains(place),
            "{section}.{key}: {}",
            ran.stderr
        );
    }
    let ran = rind.run(&["run", "hello", "--set", "agent.max_steps=-1"]);
    ran.exits(2);
}

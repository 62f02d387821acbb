//! Providers that the operator names in the settings, and projects that try to name some.

use std::fs;

use rind_tests::cli::Rind;

use crate::provider::server::{Reply, Server};

const ANSWER: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"Hello.\"},\"finish_reason\":\"stop\"}]}\n\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_named_provider_is_asked_as_its_settings_say() {
    let server = Server::start(vec![Reply::stream([ANSWER])]).await;
    let rind = Rind::default();
    rind.config(&format!(
        r#"
        [agent]
        max_tokens = 12345

        [providers.mine]
        base_url = "{}/v1"
        api_key_command = ["printf", "sk-of-the-command\nsecond line"]
        api_key_header = "api-key"
        headers = {{ "x-team" = "tools" }}
        extra_body = {{ top_k = 40, provider = {{ order = ["a"] }} }}
        leave_out = ["stream_options", "tools"]
        token_limit = "max_completion_tokens"
        system_role = "developer"

        [models."vendor/large"]
        answer_tokens = 10_000
        "#,
        server.url
    ));
    let args = ["run", "hi", "--model", "mine/vendor/large"];
    let ran = tokio::task::block_in_place(|| rind.run(&args)).exits(0);
    assert!(ran.stdout.contains("Hello."), "{}", ran.stdout);
    assert!(ran.stderr.contains("mine vendor/large"), "{}", ran.stderr);
    let sent = &server.received()[0];
    assert!(sent.has("api-key: sk-of-the-command") && sent.has("x-team: tools"));
    assert!(
        !sent
            .headers
            .iter()
            .any(|line| line.starts_with("authorization"))
    );
    let body = &sent.body;
    assert_eq!(
        (&body["model"], &body["top_k"]),
        (&"vendor/large".into(), &40.into())
    );
    assert_eq!(body["provider"]["order"][0], "a");
    assert_eq!(body["messages"][0]["role"], "developer");
    // The limit of the answer is sent in the field that `token_limit` names, and is capped at the
    // model's `answer_tokens`.
    assert_eq!(body["max_completion_tokens"], 10_000);
    for field in ["stream_options", "tools", "max_tokens"] {
        assert_eq!(body.get(field), None, "{field}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_a_server_refuses_is_left_out_by_the_second_request() {
    let refusal = r#"{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}}"#;
    let replies = vec![Reply::plain(422, &[], refusal), Reply::stream([ANSWER])];
    let server = Server::start(replies).await;
    let rind = Rind::default();
    let mut command = rind.command(&["run", "hi", "--model", "gpt-4o"]);
    command.env("OPENAI_BASE_URL", format!("{}/v1", server.url));
    tokio::task::block_in_place(|| rind.finish(&mut command)).exits(0);
    let received = server.received();
    assert!(received[0].body.get("stream_options").is_some());
    assert_eq!(received[1].body.get("stream_options"), None);
    assert_eq!(received.len(), 2);
}

#[test]
fn a_projects_settings_name_no_provider_run_no_command_and_read_no_key() {
    for settings in [
        "[providers.mine]\nbase_url = \"http://127.0.0.1:9/v1\"\napi_key_command = [\"touch\", \"MARK\"]\n",
        "[providers.anthropic]\napi_key_command = [\"touch\", \"MARK\"]\n",
        "[providers.anthropic]\nbase_url = \"http://127.0.0.1:9\"\n",
        "[provider]\nmodel = \"mine/m\"\nbase_url = \"http://127.0.0.1:9/v1\"\n",
        "[models.\"claude-sonnet-5-5\"]\nanswer_tokens = 1\n",
    ] {
        let rind = Rind::default();
        let mark = rind.home().join("mark");
        let settings = settings.replace("MARK", &mark.display().to_string());
        rind.file(".rind/config.toml", &settings);
        let args = ["run", "hi", "--provider", "anthropic"];
        let mut command = rind.command(&[&args[..], &["--trust-project"]].concat());
        command.env("ANTHROPIC_API_KEY", "sk-ant-0123456789");
        let ran = rind.finish(&mut command).exits(2);
        assert!(ran.stderr.contains("unknown section `"), "{}", ran.stderr);
        assert!(!mark.exists(), "{settings}");
        // The key from the environment is not printed.
        assert!(!ran.stderr.contains("sk-ant"), "{}", ran.stderr);
    }
}

#[test]
fn a_command_for_a_key_is_looked_for_beside_the_settings_and_not_in_the_project() {
    let rind = Rind::default();
    let mark = rind.home().join("mark");
    rind.file(
        "key.sh",
        &format!("#!/bin/sh\ntouch '{}'\necho sk-project\n", mark.display()),
    );
    rind.config("[providers.mine]\nbase_url = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\napi_key_command = [\"./key.sh\"]\n");
    let ran = rind.run(&["run", "hi", "--provider", "mine"]).exits(2);
    let expected = "providers.mine.api_key_command of mine cannot be used: cannot run";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    assert!(!mark.exists());
    fs::remove_file(rind.home().join("config/config.toml")).unwrap();
}

//! Requests that ask a server about its models: the answer of each kind of server sets the model's
//! profile.

use std::time::{Duration, Instant};

use rind::provider::{HttpConfig, ProviderConfig, select_provider};
use tokio_util::sync::CancellationToken;

use super::server::{Reply, Server};

/// Context window and image support of the model `m` after the provider `name` has asked a server
/// with these replies, and the lines of its requests.
async fn asked(name: &str, replies: &[&str]) -> (Option<u64>, Option<bool>, Vec<String>) {
    let replies = replies.iter().map(|body| Reply::plain(200, &[], body));
    let server = Server::start(replies.collect()).await;
    let config = ProviderConfig {
        name: Some(name.to_owned()),
        model: Some("m".to_owned()),
        base_url: Some(format!("{}/v1", server.url)),
        ..ProviderConfig::default()
    };
    let provider = select_provider(&config, &|_| None).unwrap().provider;
    let cancel = CancellationToken::new();
    provider.update_model_profile("m", &cancel).await;
    provider.update_model_profile("m", &cancel).await;
    let profile = provider.profile("m");
    let lines = server.received().into_iter().map(|request| request.line);
    (profile.window_tokens, profile.images, lines.collect())
}

#[tokio::test]
async fn a_server_is_asked_once_in_the_way_of_its_kind() {
    let list = r#"{"data":[{"id":"m","max_model_len":16384},{"id":"n","max_model_len":1}]}"#;
    let (window, _, lines) = asked("vllm", &[list]).await;
    assert_eq!(
        (window, lines),
        (Some(16_384), vec!["GET /v1/models".to_owned()])
    );
    let (window, _, lines) = asked("openai", &[list]).await;
    assert_eq!((window, lines.len()), (Some(16_384), 1));

    let props = r#"{"default_generation_settings":{"n_ctx":4096},"modalities":{"vision":true}}"#;
    let trained = r#"{"data":[{"id":"x.gguf","meta":{"n_ctx_train":131072}}]}"#;
    let (window, images, lines) = asked("llama-cpp", &[props, trained]).await;
    assert_eq!((window, images), (Some(4_096), Some(true)));
    assert_eq!(lines, ["GET /props", "GET /v1/models"]);

    let studio = r#"{"data":[{"id":"m","type":"vlm","max_context_length":131072,"loaded_context_length":8192}]}"#;
    let (window, images, lines) = asked("lm-studio", &[studio]).await;
    assert_eq!((window, images), (Some(8_192), Some(true)));
    assert_eq!(lines, ["GET /api/v0/models"]);

    let show = r#"{"capabilities":["completion"],"model_info":{"llama.context_length":131072}}"#;
    let running = r#"{"models":[{"name":"m:latest","context_length":4096}]}"#;
    let (window, images, lines) = asked("ollama", &[show, running]).await;
    assert_eq!((window, images), (Some(4_096), Some(false)));
    assert_eq!(lines, ["POST /api/show", "GET /api/ps"]);
}

#[tokio::test]
async fn a_server_that_says_nothing_useful_is_not_asked_again_and_nothing_fails() {
    for reply in ["{}", "[]", "nonsense", r#"{"data":"x"}"#] {
        let (window, images, lines) = asked("vllm", &[reply]).await;
        // The default for a server on this machine is a small window.
        assert_eq!(
            (window, images, lines.len()),
            (Some(32_768), None, 1),
            "{reply}"
        );
    }
}

#[tokio::test]
async fn a_model_that_the_table_knows_is_asked_about_only_where_it_may_run_in_a_smaller_window() {
    for (name, n_asked) in [("openai", 0), ("anthropic", 0), ("llama-cpp", 2)] {
        let server = Server::start(vec![Reply::plain(200, &[], "{}")]).await;
        let config = ProviderConfig {
            name: Some(name.to_owned()),
            base_url: Some(format!("{}/v1", server.url)),
            ..ProviderConfig::default()
        };
        let provider = select_provider(&config, &|_| None).unwrap().provider;
        provider
            .update_model_profile("gpt-4o", &CancellationToken::new())
            .await;
        assert_eq!(provider.profile("gpt-4o").window_tokens, Some(128_000));
        assert_eq!(server.received().len(), n_asked, "{name}");
    }
}

#[tokio::test]
async fn a_server_that_sends_its_models_a_byte_at_a_time_is_given_up() {
    let server = Server::start(vec![Reply::stream([" "; 300]).every(50)]).await;
    let config = ProviderConfig {
        name: Some("vllm".to_owned()),
        model: Some("m".to_owned()),
        base_url: Some(format!("{}/v1", server.url)),
        http: HttpConfig {
            first_byte_timeout_ms: 400,
            ..HttpConfig::default()
        },
        ..ProviderConfig::default()
    };
    let provider = select_provider(&config, &|_| None).unwrap().provider;
    let started = Instant::now();
    provider
        .update_model_profile("m", &CancellationToken::new())
        .await;
    assert!(started.elapsed() < Duration::from_secs(8));
}

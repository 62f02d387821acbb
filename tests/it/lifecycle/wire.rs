//! A body that a hook rewrote is sent over the network: the program against an HTTP server, in both
//! wire formats.

use rind_tests::cli::Rind;
use rind_tests::server::{Reply, Server};

use super::PLUGIN;

const ANSWERS: &str = "[plugins.scripted-hook.config.answers.before-provider-request]\n\
                       body = [\"a private question\", \"a question\"]\n";

#[tokio::test(flavor = "multi_thread")]
async fn the_body_that_a_hook_rewrote_is_what_the_server_gets() {
    let recorded = [
        include_str!("../../recorded/anthropic_text.sse"),
        include_str!("../../recorded/openai_text.sse"),
    ];
    for (name, recorded) in ["anthropic", "openai"].into_iter().zip(recorded) {
        let server = Server::start(move |_| {
            let header = "content-type: text/event-stream".to_owned();
            Reply::Plain(200, vec![header], recorded.as_bytes().to_vec())
        })
        .await;
        let rind = Rind::default();
        rind.managed(PLUGIN);
        rind.config(ANSWERS);
        let upper = name.to_uppercase();
        let path = if name == "openai" { "/v1" } else { "" };
        let mut command = rind.command(&["run", "a private question", "--model", "m"]);
        command
            .env(format!("{upper}_API_KEY"), "not-a-key")
            .env(format!("{upper}_BASE_URL"), server.at("127.0.0.1", path));
        tokio::task::block_in_place(|| rind.finish(&mut command)).exits(0);
        let body = String::from_utf8(server.last().body).unwrap();
        assert!(body.contains("a question"), "{name}: {body}");
        assert!(!body.contains("private"), "{name}: {body}");
        let kept = rind.entries("message")[0].to_string();
        assert!(kept.contains("a private question"), "{name}: {kept}");
        let trace = rind.entries("trace");
        let is_change = |entry: &&serde_json::Value| {
            entry["record"]["point"] == "before-provider-request"
                && entry["record"]["outcome"] == "changed"
        };
        assert_eq!(trace.iter().filter(is_change).count(), 1, "{name}");
    }
}

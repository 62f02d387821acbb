//! Tests of tokens that no provider reports, requests without an answer, and their cost.

use rind_tests::cli::{Ran, Rind};
use rind_tests::server::{Received, Reply, Server};
use serde_json::Value;

/// Beginning of an answer: two events, without the end of the stream.
const BEGUN: &str = "data: {\"model\":\"gpt-4-2026\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello there, \"}}]}\n\n\
                     data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"how are you\"}}]}\n\n";

/// End of a stream, without token counts.
const ENDED: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

async fn server(body: String) -> Server {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let whole = format!("{head}{body}");
    Server::start(move |_: &Received| Reply::Raw(whole.clone().into_bytes())).await
}

/// Runs the program with this server as the provider.
fn run(rind: &Rind, server: &Server, args: &[&str]) -> Ran {
    let args = [
        &["run", "hi", "--provider", "openai", "--model", "gpt-4"],
        args,
    ]
    .concat();
    let mut command = rind.command(&args);
    command.env("OPENAI_BASE_URL", server.at("127.0.0.1", "/v1"));
    tokio::task::block_in_place(|| rind.finish(&mut command))
}

fn of<'a>(lines: &'a [Value], kind: &str) -> &'a Value {
    lines.iter().find(|line| line["type"] == kind).unwrap()
}

/// Returns the price in dollars of the tokens in `usage`.
fn cost(usage: &Value) -> f64 {
    let tokens = |key: &str| usage[key].as_u64().unwrap() as f64;
    (tokens("input_tokens") * 30.0 + tokens("output_tokens") * 60.0) / 1e6
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_usage_is_estimated_marked_and_counted() {
    let server = server(format!("{BEGUN}{ENDED}")).await;
    let rind = Rind::default();
    let lines = run(&rind, &server, &["--json"]).exits(0).json_lines();
    let end = of(&lines, "request-end");
    let usage = &end["usage"];
    assert_eq!(usage["estimated"], true, "{end}");
    assert!(usage["input_tokens"].as_u64().unwrap() > 100, "{end}");
    assert_eq!(usage["output_tokens"], 6, "{end}");
    let summary = &of(&lines, "turn-end")["summary"];
    assert_eq!(&summary["usage"], usage);
    for said in [
        &end["cost_usd"],
        &summary["cost_usd"],
        &rind.entries("step")[0]["cost_usd"],
    ] {
        let said = said.as_f64().unwrap();
        assert!((said - cost(usage)).abs() < 1e-9, "{said} {usage}");
    }
    assert_eq!(rind.entries("step")[0]["usage"]["estimated"], true);

    // The estimated tokens count against the budget, so the next turn of the session is refused.
    let rind = Rind::default();
    rind.managed("cost-tracker");
    rind.config("[plugins.cost-tracker.config]\nnotice = true\nbudget_tokens = { session = 20 }\n");
    let shown = run(&rind, &server, &[]).exits(0);
    assert!(
        shown.stderr.contains(" out (estimated) · $0."),
        "{}",
        shown.stderr
    );
    assert!(shown.stderr.contains("cost: about $0."), "{}", shown.stderr);
    let ran = run(&rind, &server, &["--resume", "last"]).exits(3);
    assert!(
        ran.stderr.contains("the budget of this session is spent"),
        "{}",
        ran.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_cut_is_paid_for_and_spends_the_budget() {
    let server = server(BEGUN.to_owned()).await;
    let rind = Rind::default();
    rind.managed("cost-tracker");
    rind.config("[plugins.cost-tracker.config]\nbudget_usd = { session = 0.001 }\n");
    let lines = run(&rind, &server, &["--json"]).exits(1).json_lines();
    let end = of(&lines, "request-end");
    assert!(
        end["error"].is_string() && end["usage"]["estimated"] == true,
        "{end}"
    );
    // Each attempt counts, also one that failed.
    let n_attempts = 1 + lines.iter().filter(|line| line["type"] == "retry").count();
    assert!(n_attempts > 1, "{end}");
    assert_eq!(end["usage"]["output_tokens"], 6 * n_attempts, "{end}");
    let kept = &rind.entries("unanswered")[0];
    assert_eq!(
        (&kept["usage"], &kept["model"]),
        (&end["usage"], &"gpt-4".into())
    );
    let summary = &of(&lines, "turn-end")["summary"];
    assert!((summary["cost_usd"].as_f64().unwrap() - cost(&end["usage"])).abs() < 1e-9);
    let ran = run(&rind, &server, &["--resume", "last"]).exits(3);
    assert!(
        ran.stderr.contains("the budget of this session is spent"),
        "{}",
        ran.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_the_server_refuses_costs_nothing() {
    let server = Server::start(|_: &Received| Reply::Plain(400, Vec::new(), b"{}".to_vec())).await;
    let rind = Rind::default();
    let lines = run(&rind, &server, &["--json"]).exits(1).json_lines();
    let end = of(&lines, "request-end");
    assert_eq!(end["usage"]["input_tokens"], 0, "{end}");
    assert_eq!(of(&lines, "turn-end")["summary"]["cost_usd"], 0.0);
    assert!(rind.entries("unanswered").is_empty());
}

#[test]
fn a_request_that_is_interrupted_is_paid_for() {
    let rind = Rind::with_script("[[reply]]\ntext = \"never\"\ndelay_ms = 3600000\n");
    let mut running = rind.start(&["run", "hello", "--json"]);
    running.wait_until(|rind| {
        let sessions = rind.home().join("data/sessions");
        let is_there = std::fs::read_dir(sessions).is_ok_and(|found| found.count() == 1);
        is_there
            && rind
                .session_lines()
                .iter()
                .any(|line| line.contains("\"type\":\"message\""))
    });
    std::thread::sleep(std::time::Duration::from_millis(300));
    running.signal("INT");
    let ran = running.end().exits(130);
    assert_eq!(rind.entries("unanswered").len(), 1, "{}", ran.stderr);
    let lines = ran.json_lines();
    let summary = &of(&lines, "turn-end")["summary"];
    assert_eq!(summary["usage"]["estimated"], true, "{summary}");
    assert!(summary["usage"]["input_tokens"].as_u64().unwrap() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operators_prices_go_before_the_table_and_a_model_without_one_is_said() {
    let server = server(format!("{BEGUN}{ENDED}").replace("gpt-4-2026", "own-model")).await;
    let rind = Rind::default();
    let run = |set: &[&str]| {
        let args = [&["--model", "own-model"], set].concat();
        let args = [&["run", "hi", "--provider", "openai"], &args[..]].concat();
        let mut command = rind.command(&args);
        command.env("OPENAI_BASE_URL", server.at("127.0.0.1", "/v1"));
        tokio::task::block_in_place(|| rind.finish(&mut command))
    };
    let ran = run(&[]).exits(0);
    assert!(
        ran.stderr
            .contains("cost unknown, the model has no price in [prices]"),
        "{}",
        ran.stderr
    );
    let lines = run(&["--json"]).exits(0).json_lines();
    let summary = &of(&lines, "turn-end")["summary"];
    assert!(
        summary["unpriced_tokens"].as_u64().unwrap() > 0,
        "{summary}"
    );
    assert!(of(&lines, "request-end").get("cost_usd").is_none());
    rind.config("[prices.own-model]\ninput = 1000\noutput = 0\n");
    let ran = run(&[]).exits(0);
    assert!(ran.stderr.contains(" (estimated) · $"), "{}", ran.stderr);
    rind.config("[prices.own-model]\ninput = -1\noutput = 0\n");
    let ran = run(&[]).exits(2);
    assert!(ran.stderr.contains("not below 0"), "{}", ran.stderr);
}

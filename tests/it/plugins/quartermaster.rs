//! `quartermaster`: what it learns in one session and suggests in another. Its other behavior is
//! tested by its case files.

use rind::provider::scripted::Reply;
use rind_tests::guests::Host;
use serde_json::json;

use super::with_plugin;
use crate::harness::{Running, Setup};

const HINT: &str =
    "after `write_file` the next tool has mostly been `read_file` (100 % of 5 times)";

fn write() -> Reply {
    Reply::call("write_file", json!({"path": "c.txt", "content": ""}))
}

fn read() -> Reply {
    Reply::call("read_file", json!({"path": "a.txt"}))
}

/// A session in which the call `next` followed `write_file` this many times.
async fn habit(times: usize, next: fn() -> Reply) -> (Host, Running) {
    let mut script: Vec<Reply> = std::iter::repeat_with(|| [write(), next()])
        .take(times)
        .flatten()
        .collect();
    script.push(Reply::text("done"));
    let (host, setup) = with_plugin("quartermaster", &[], script).await;
    let mut running = setup.build();
    running.turn("go on with the work").await;
    (host, running)
}

/// A later session in which the same plugins are loaded again.
async fn later(host: &Host, script: Vec<Reply>) -> Running {
    let mut setup = Setup::new(script);
    setup.plugins = host.load().await;
    let mut running = setup.build();
    running.turn("go on with the work").await;
    running
}

/// Indexes of the session's requests that hold a suggestion.
fn suggested(running: &Running) -> Vec<usize> {
    let n_requests = running.provider.recorded_request_bodies().len();
    let has = |n: &usize| {
        running
            .request(*n)
            .iter()
            .any(|line| line.contains("the next tool has"))
    };
    (0..n_requests).filter(has).collect()
}

#[tokio::test]
async fn what_one_session_did_five_times_is_suggested_in_another_for_one_request() {
    let (host, first) = habit(5, read).await;
    assert_eq!(
        suggested(&first),
        Vec::<usize>::new(),
        "not seen often enough"
    );
    let second = later(&host, vec![write(), read(), write(), Reply::text("done")]).await;
    let said = second.request(1).pop().unwrap();
    assert!(
        said.contains(HINT) && said.contains("quartermaster"),
        "{said}"
    );
    assert!(suggested(&second).starts_with(&[1]));
    let again = second.request(2).iter().any(|line| line.contains(HINT));
    assert!(!again, "it is not kept in the conversation");
    assert!(
        !second
            .lines()
            .iter()
            .any(|line| line.contains("the next tool has"))
    );
}

#[tokio::test]
async fn it_runs_nothing() {
    let (host, _) = habit(6, read).await;
    let second = later(&host, vec![write(), Reply::text("done")]).await;
    assert_eq!(second.results().len(), 1);
}

#[tokio::test]
async fn a_name_that_the_model_made_up_is_not_learned() {
    let (host, first) = habit(6, || Reply::call("ghost", json!({}))).await;
    assert_eq!(first.results().len(), 12);
    let second = later(&host, vec![write(), Reply::text("done")]).await;
    assert_eq!(suggested(&second), Vec::<usize>::new());
}

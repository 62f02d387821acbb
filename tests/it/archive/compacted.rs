//! Compaction of turns that are due for archival: what the model can still find of their messages.

use super::*;

/// Enables compaction, which leaves almost nothing of requests over 6,000 tokens.
fn compacting(mut setup: Setup) -> Setup {
    setup.config.compact.enabled = true;
    setup.config.compact.threshold_tokens = Some(6000);
    setup.config.compact.keep_last_messages = 1;
    setup.config.compact.keep_tokens = 1;
    setup.config.compact.max_summary_tokens = 300;
    setup
}

/// Creates a session with a short turn and a long one that contains the word `heron`. The long turn
/// is due for archival only if `is_due`.
async fn with_long_turn(is_due: bool) -> Running {
    let mut script = vec![Reply::text("hello")];
    script.extend(reads(5));
    let mut setup = archiving(script);
    setup.config.compact.enabled = false;
    if !is_due {
        setup.config.archival.trigger.tool_call_threshold = 1000;
        setup.config.archival.trigger.token_threshold = 1_000_000;
    }
    let text = format!(
        "{}the heron flies at 4711\n",
        "a line of text\n".repeat(900)
    );
    std::fs::write(setup.workspace().join("a.txt"), text).unwrap();
    let mut running = setup.build();
    running.turn("good morning").await;
    running.turn("Look for the bird").await;
    assert_eq!(
        running.session.turns_due_for_archival().len(),
        usize::from(is_due)
    );
    running
}

fn compaction_summaries(running: &Running) -> Vec<String> {
    let lines = running.lines().into_iter();
    lines
        .filter(|line| line.starts_with("user: [summary of earlier messages"))
        .collect()
}

#[tokio::test]
async fn a_due_turn_that_compaction_takes_first_has_its_holder_all_the_same() {
    let slow = Reply {
        delay_ms: 300,
        ..Reply::text(SUMMARY)
    };
    let failing = Reply {
        error: Some(rind::provider::scripted::ReplyError {
            status: 400,
            message: "no".to_owned(),
        }),
        ..Reply::default()
    };
    for summary in [slow, failing] {
        let running = with_long_turn(true).await;
        let script = vec![Reply::text("and on it goes")];
        let mut running = again(running, compacting(with_summary(script, summary)));
        running.turn("and now?").await;
        assert_eq!(
            compaction_summaries(&running).len(),
            1,
            "{:?}",
            running.lines()
        );
        assert!(!running.lines().iter().any(|line| line.contains("heron")));
        // The second round retries a failed summary. No summary is needed any more, because
        // compaction has already removed the turn.
        running.agent.finish_archival().await;
        running.agent.finish_archival().await;
        running.drain();
        let lines = running.lines();
        let ids: Vec<String> = ends(&running).into_iter().filter_map(|end| end.0).collect();
        assert_eq!(ids.len(), 1, "{:?}", ends(&running));
        let kept = messages(entries(&running, &format!("/agents/{}", ids[0])));
        assert_eq!(kept.len(), 12);
        assert_eq!(running.session.turns_due_for_archival(), []);
        assert!(
            !lines.iter().any(|line| line.contains("[archived turn]")),
            "{lines:?}"
        );
        let n_asked = running
            .provider
            .recorded_request_bodies()
            .iter()
            .filter(|body| body.to_string().contains("Sum up this turn."))
            .count();
        assert!(n_asked <= 1, "{n_asked}");

        // The turn is listed, found by a search, and readable by its id.
        let query = json!({"search": "heron flies"});
        let by_id = json!({"id": ids[0], "search": "HERON"});
        let script = vec![
            Reply::call("query_subagent", query),
            Reply::call("query_subagent", by_id),
            Reply::text("4711"),
        ];
        let id = ids[0].clone();
        let mut running = again(running, archiving(script));
        running.turn("where does it fly?").await;
        assert!(
            system(&running, 0).contains(&format!("- id: {id} | task: Archive: Look for the bird"))
        );
        let results: Vec<String> = running
            .results()
            .into_iter()
            .map(|result| result.0)
            .collect();
        assert!(
            results[0].contains(&format!("## {id} (Archive: Look for the bird), message ")),
            "{results:?}"
        );
        assert!(results[0].contains("at 4711"), "{results:?}");
        assert!(results[1].starts_with("5 of "), "{results:?}");
    }
}

#[tokio::test]
async fn a_turn_that_no_holder_keeps_is_found_in_the_file_of_the_session() {
    let running = with_long_turn(false).await;
    let script = vec![
        Reply::text("so it is"),
        Reply::call("query_subagent", json!({"search": "heron"})),
        Reply::call("query_subagent", json!({"id": "turn-2", "search": "heron"})),
        Reply::call(
            "query_subagent",
            json!({"id": "turn-99", "search": "heron"}),
        ),
        Reply::text("4711"),
    ];
    let mut running = again(running, compacting(archiving(script)));
    running.turn("and now?").await;
    let summaries = compaction_summaries(&running);
    assert!(
        summaries[0].ends_with("[how to read what this replaces: `query_subagent` without an id searches everything that was moved out]"),
        "{summaries:?}"
    );
    running.turn("where does it fly?").await;
    let results = running.results();
    assert!(
        results[0].0.contains("\n\n## turn-2, message "),
        "{results:?}"
    );
    assert!(
        results[0].0.contains("the heron flies at 4711"),
        "{results:?}"
    );
    assert!(results[1].0.contains(" lines hold `heron`"), "{results:?}");
    assert!(results[2].1, "there is no such turn: {results:?}");
    assert_eq!(running.session.subagents(), []);
}

#[tokio::test]
async fn a_summary_of_compaction_names_the_holders_that_it_replaces_also_the_second_time() {
    let mut script = reads(5);
    script.extend(reads(5));
    script.extend([
        Reply::text("word ".repeat(8000)),
        Reply::text("short"),
        Reply::text("word ".repeat(8000)),
        Reply::text("end"),
    ]);
    let mut setup = compacting(archiving(script));
    setup.config.archival.trigger.token_threshold = 1_000_000;
    let mut running = setup.build();
    running.archived_turn("one").await;
    running.archived_turn("two").await;
    let ids: Vec<String> = running
        .session
        .subagents()
        .into_iter()
        .map(|child| child.agent)
        .collect();
    assert_eq!(ids.len(), 2);
    for _ in 0..2 {
        running.turn("say much").await;
        running.turn("go on").await;
        let summaries = compaction_summaries(&running);
        assert_eq!(summaries.len(), 1, "{summaries:?}");
        let line = format!(
            "\n\n[how to read what this replaces: archived turns are kept by {}, {}; ",
            ids[1], ids[0]
        );
        assert_eq!(summaries[0].matches(&line).count(), 1, "{summaries:?}");
        assert_eq!(
            summaries[0].matches("[how to read").count(),
            1,
            "{summaries:?}"
        );
        let mut lines = running.lines().into_iter();
        assert!(!lines.any(|line| line.starts_with("assistant: [archived turn]")));
    }
}

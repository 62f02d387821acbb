//! Tests of `query_subagent`: with a model, with a search only, and limited to the agents of the
//! conversation.

use rind::provider::scripted::ReplyError;

use super::*;

/// Archives a turn, then resumes the session with a model that makes this query about the holder
/// and ends the turn after its result. `answer` is the reply to the query's prompt.
async fn queried(query: impl FnOnce(&str) -> Value, answer: Option<Reply>) -> Running {
    let mut running = archiving(reads(5)).build();
    running.archived_turn("Read a.txt").await;
    let id = holder(&running);
    let mut script = vec![Reply::call("query_subagent", query(&id))];
    script.extend(answer);
    script.push(Reply::text("ok"));
    let mut running = again(running, archiving(script));
    running.archived_turn("what did it say?").await;
    running
}

fn broken() -> Reply {
    Reply {
        error: Some(ReplyError {
            status: 400,
            message: "no".to_owned(),
        }),
        ..Reply::default()
    }
}

#[tokio::test]
async fn a_model_reads_the_transcript_and_answers() {
    let query = |id: &str| json!({"id": id, "prompt": "Which word is in a.txt?"});
    let running = queried(query, Some(Reply::text("The word is alpha."))).await;
    assert_eq!(last_result(&running), "The word is alpha.");
    let bodies = running.provider.recorded_request_bodies();
    assert_eq!(bodies.len(), 3);
    assert!(bodies[1].get("tools").is_none());
    let question = &running.request(1);
    assert_eq!(question.len(), 1);
    assert!(
        question[0].contains("[tool_result: read_file:"),
        "{question:?}"
    );
    assert!(
        question[0].ends_with("Which word is in a.txt?"),
        "{question:?}"
    );
    let asked = |body: &Body| matches!(body, Body::HostAsked { about, .. } if about == "query");
    assert!(entries(&running, "").iter().any(asked));
    // The answer to the query is not shown to the user as an answer of the turn.
    let is_said =
        |event: &Event| matches!(event, Event::TextDelta { text } if text.contains("alpha"));
    assert!(!running.events.iter().any(is_said));
}

#[tokio::test]
async fn a_search_needs_no_model() {
    let query = |id: &str| json!({"id": id, "search": "ALPHA"});
    let running = queried(query, None).await;
    let found = last_result(&running);
    assert!(found.starts_with("5 of "), "{found}");
    assert!(found.contains("## message 3, tool\n"), "{found}");
    assert_eq!(running.provider.recorded_request_bodies().len(), 2);
}

#[tokio::test]
async fn with_both_the_lines_are_there_even_when_the_model_fails() {
    let query = |id: &str| json!({"id": id, "search": "alpha", "prompt": "Well?"});
    let running = queried(query, Some(Reply::text("It is alpha."))).await;
    let both = last_result(&running);
    assert!(both.starts_with("It is alpha.\n\n5 of "), "{both}");
    assert!(running.request(1)[0].contains("Lines of it:\n<transcript "));

    let running = queried(query, Some(broken())).await;
    let lines = last_result(&running);
    assert!(lines.starts_with("[the model gave no answer: "), "{lines}");
    assert!(lines.contains("\n\n5 of "), "{lines}");

    let alone = |id: &str| json!({"id": id, "prompt": "Well?"});
    let running = queried(alone, Some(broken())).await;
    let (content, is_error, _) = running.results().remove(0);
    assert!(
        is_error && content.contains("`search` finds lines"),
        "{content}"
    );
}

#[tokio::test]
async fn only_subagents_of_the_conversation_can_be_asked() {
    for id in [
        "held-00000000",
        "../../x",
        "main",
        "turn-7",
        "agents/held-1",
    ] {
        let running = queried(|_| json!({"id": id, "search": "alpha"}), None).await;
        let (content, is_error, _) = running.results().remove(0);
        assert!(is_error, "{id}");
        let known = &running.session.subagents()[0].agent;
        let expected = format!("there is no subagent `{id}`; the newest are {known}");
        assert_eq!(content, expected);
    }
    let running = queried(|id| json!({"id": id, "search": " "}), None).await;
    let (content, is_error, _) = running.results().remove(0);
    assert!(
        is_error && content.contains("`search`, `prompt` or both"),
        "{content}"
    );
}

#[tokio::test]
async fn a_file_with_an_id_that_leads_elsewhere_leads_nowhere() {
    let mut running = archiving(reads(5)).build();
    running.archived_turn("go on").await;
    let id = holder(&running);
    let file = running
        .session
        .local_folder()
        .unwrap()
        .join("session.jsonl");
    let (store, session) = (store(&running), running.session.id().to_string());
    let folder = running.folder;
    drop((running.agent, running.session));
    let text = std::fs::read_to_string(&file).unwrap();
    let changed = text.replace(&id, "../../other");
    std::fs::write(&file, changed).unwrap();
    let spec = session_spec(&folder.path().join("w"));
    let resumed = store.resume(&session, &spec).unwrap();
    assert_eq!(resumed.subagents(), []);
    assert!(
        resumed
            .session_location()
            .read_subagent_entries(&resumed.subagents(), "../../other")
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn a_model_asks_so_many_questions_in_a_turn_and_searches_for_a_few_words() {
    let mut running = archiving(reads(5)).build();
    running.archived_turn("Read a.txt").await;
    let id = holder(&running);
    let ask = || Reply::call("query_subagent", json!({"id": id, "prompt": "what?"}));
    let mut script = Vec::new();
    for _ in 0..20 {
        script.extend([ask(), Reply::text("this")]);
    }
    let both = json!({"id": id, "prompt": "what?", "search": "alpha"});
    let long = json!({"id": id, "search": "a ".repeat(300_000)});
    script.extend([ask(), Reply::call("query_subagent", both)]);
    script.extend([Reply::call("query_subagent", long), Reply::text("ok")]);
    let mut setup = archiving(script);
    setup.config.max_steps = 50;
    setup.config.archival.enabled = false;
    let mut running = again(running, setup);
    running.archived_turn("what did it say?").await;
    let messages = running.session.messages();
    let results = messages.iter().flat_map(Message::tool_results);
    let results: Vec<String> = results.map(|result| result.content.to_string()).collect();
    assert_eq!(results.len(), 23);
    assert_eq!(results[19], "this");
    assert_eq!(
        results[20],
        "the limit of 20 questions in this turn is reached; `search` needs no model"
    );
    assert!(
        results[21].contains("lines hold `alpha`"),
        "{}",
        results[21]
    );
    assert!(results[22].contains("at most 500 bytes"), "{}", results[22]);
}

/// Archives three turns, each of which read another file, then resumes the session with a model
/// that makes these calls.
async fn queried_all(calls: Vec<Value>, answers: Vec<Reply>) -> Running {
    let mut script = Vec::new();
    for name in ["one", "two", "three"] {
        script.extend((0..5).map(|_| read(&format!("{name}.txt"))));
        script.push(Reply::text("done"));
    }
    let setup = archiving(script);
    for (name, text) in [
        ("one", "the harbor light is green"),
        ("two", "the pilot boat is in the harbor, its number is 4711"),
        ("three", "nothing of note"),
    ] {
        std::fs::write(setup.workspace().join(format!("{name}.txt")), text).unwrap();
    }
    let mut running = setup.build();
    for name in ["one", "two", "three"] {
        running.archived_turn(&format!("Read {name}.txt")).await;
    }
    let mut script: Vec<Reply> = calls
        .into_iter()
        .map(|call| Reply::call("query_subagent", call))
        .collect();
    for (n, answer) in answers.into_iter().enumerate() {
        script.insert(2 * n + 1, answer);
    }
    script.push(Reply::text("ok"));
    let mut running = again(running, archiving(script));
    running.turn("what was it?").await;
    running
}

#[tokio::test]
async fn without_an_id_all_holders_are_searched_and_the_best_passage_comes_first() {
    let running = queried_all(
        vec![json!({"search": "number of the pilot boats"})],
        Vec::new(),
    )
    .await;
    let found = last_result(&running);
    let holders: Vec<String> = running
        .session
        .subagents()
        .into_iter()
        .map(|child| child.agent)
        .collect();
    let first = found.split("\n\n## ").nth(1).unwrap();
    assert!(
        first.starts_with(&format!("{} (Archive: Read two.txt), message ", holders[1])),
        "{found}"
    );
    assert!(first.contains("4711"), "{found}");
    assert!(
        found.contains(" passages in 3 transcripts have words of `number of the pilot boats`"),
        "{found}"
    );
    assert_eq!(
        running.provider.recorded_request_bodies().len(),
        2,
        "no model was asked"
    );

    let running = queried_all(vec![json!({"id": " ", "search": "zebra"})], Vec::new()).await;
    let found = last_result(&running);
    assert!(
        found.starts_with("no archived text contains a word of `zebra`; 3 "),
        "{found}"
    );
    for search in ["?!", "\u{1b}[2J"] {
        let running = queried_all(vec![json!({"search": search})], Vec::new()).await;
        let found = last_result(&running);
        assert!(!found.contains('\u{1b}'), "{found}");
    }
}

#[tokio::test]
async fn a_question_without_an_id_is_answered_from_the_passages() {
    let calls = vec![json!({"prompt": "Which number has the pilot boat?"})];
    let running = queried_all(calls, vec![Reply::text("It is 4711.")]).await;
    let found = last_result(&running);
    assert!(found.starts_with("It is 4711.\n\n"), "{found}");
    let question = &running.request(1)[0];
    assert!(question.contains("its number is 4711"), "{question}");
    assert!(
        question.ends_with("Which number has the pilot boat?"),
        "{question}"
    );
}

#[tokio::test]
async fn a_holder_that_cannot_be_read_is_named_and_hides_no_other() {
    let mut running = archiving(reads(5)).build();
    running.archived_turn("Read a.txt").await;
    let lost = holder(&running);
    let mut script = reads(5);
    script.extend([
        Reply::call("query_subagent", json!({"search": "alpha"})),
        Reply::text("ok"),
    ]);
    let mut running = again(running, archiving(script));
    running.archived_turn("once more").await;
    std::fs::remove_dir_all(
        running
            .session
            .local_folder()
            .unwrap()
            .join("agents")
            .join(&lost),
    )
    .unwrap();
    running.turn("what was it?").await;
    let found = last_result(&running);
    assert!(found.contains("(Archive: once more), message "), "{found}");
    assert!(
        found.contains(&format!(
            "[cannot be searched: {lost} (Archive: Read a.txt): there is no session "
        )),
        "{found}"
    );
}

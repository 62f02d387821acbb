//! Tests of what the real program shows of an answer, and when, while a model writes the answer
//! piece by piece.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command};

use rind_tests::cli::Rind;
use rind_tests::guests::CORE;
use rind_tests::server::{Reply, Server};
use serde_json::{Value, json};

/// Starts a model server that sends these pieces and waits at an empty one until it is released.
async fn model(pieces: &'static [&'static str]) -> Server {
    let event = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]});
        format!("data: {chunk}\n\n")
    };
    Server::start(move |_| {
        let piece = |text: &&str| match *text {
            "" => String::new(),
            text => event(json!({"content": text}), Value::Null),
        };
        let mut all: Vec<String> = pieces.iter().map(piece).collect();
        all.push(event(json!({}), json!("stop")));
        all.push("data: [DONE]\n\n".to_owned());
        Reply::Stream(all)
    })
    .await
}

/// Creates a machine with these plugins.
fn with(plugins: &[&str]) -> Rind {
    let rind = Rind::without_model();
    for plugin in plugins {
        rind.managed(plugin);
    }
    rind
}

/// Returns the command of a run with this server as its model.
fn asking(rind: &Rind, server: &Server, args: &[&str]) -> Command {
    let args = [&["run", "hello", "--model", "m"], args].concat();
    let mut command = rind.command(&args);
    command.env("OPENAI_BASE_URL", server.at("127.0.0.1", "/v1"));
    command
}

/// Runs with `--json`, and returns the output and the texts of the `text-delta` events.
fn json_run(rind: &Rind, server: &Server) -> (String, Vec<String>) {
    let ran = rind.finish(&mut asking(rind, server, &["--json"]));
    let lines = ran.json_lines();
    let deltas = lines.iter().filter(|line| line["type"] == "text-delta");
    let texts = deltas.map(|line| line["text"].as_str().unwrap().to_owned());
    (ran.stdout, texts.collect())
}

/// Whether the text contains two adjacent groups of digits of the card number, or parts of them.
fn has_card(text: &str) -> bool {
    ["4111 11", "11 1111", "1111 1111", "41111111"]
        .iter()
        .any(|part| text.contains(part))
}

/// Reads events until one of this type comes, and returns it.
fn read_until(lines: &mut impl Iterator<Item = String>, kind: &str) -> Value {
    for line in lines {
        let value: Value = serde_json::from_str(&line).unwrap();
        if value["type"] == kind {
            return value;
        }
    }
    panic!("no {kind}");
}

fn lines_of(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let stdout = child.stdout.take().unwrap();
    BufReader::new(stdout).lines().map(Result::unwrap)
}

#[tokio::test(flavor = "multi_thread")]
async fn with_ten_core_plugins_answers_are_shown_as_they_are_written() {
    let server = model(&["First words. ", "", "Last words."]).await;
    let rind = with(&CORE);
    let mut child = asking(&rind, &server, &["--json"]).spawn().unwrap();
    let mut lines = lines_of(&mut child);
    // The model waits at the empty piece and has not sent the rest.
    let delta = read_until(&mut lines, "text-delta");
    assert_eq!(delta["text"], "First words. ");
    server.release();
    let end = read_until(&mut lines, "turn-end");
    assert_eq!(end["output"], "First words. Last words.");
    assert!(child.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn at_a_terminal_the_first_words_are_there_before_the_last_are_written() {
    let server = model(&["First words. ", "", "Last words.\n"]).await;
    let rind = with(&CORE);
    rind.config(&format!(
        "[provider]\nname = \"openai\"\nmodel = \"m\"\nbase_url = \"{}\"\n",
        server.at("127.0.0.1", "/v1")
    ));
    let shown = tokio::task::block_in_place(|| {
        rind.at_terminal_once(&["run", "hello"], "First words.", || server.release(), "")
    });
    let Some(shown) = shown else { return };
    assert_eq!(
        shown.matches("First words. Last words.").count(),
        1,
        "{shown}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_number_in_three_pieces_is_never_shown() {
    let pieces = &[
        "It is 4111 11",
        "11 1111 ",
        "1111, and\n",
        "4111",
        "111111111111\nfine.",
    ];
    let expected = "It is [card masked], and\n[card masked]\nfine.";
    let server = model(pieces).await;
    let rind = with(&CORE);
    let (all, deltas) = json_run(&rind, &server);
    assert_eq!(deltas.concat(), expected);
    assert!(!has_card(&all), "{all}");
    // The number stays hidden as well if the hooks check each piece by itself.
    let server = model(&["It is 4111 11", "", "11 1111 ", "", "1111."]).await;
    let rind = with(&CORE);
    let mut child = asking(&rind, &server, &["--json"]).spawn().unwrap();
    let mut lines = lines_of(&mut child);
    let mut seen = Vec::new();
    for _ in 0..3 {
        // Longer than the host collects text before a check.
        tokio::time::sleep(std::time::Duration::from_millis(400)).await;
        server.release_one();
    }
    seen.extend(&mut lines);
    assert!(child.wait().unwrap().success());
    let seen = seen.join("\n");
    assert!(seen.contains("It is [card masked]."), "{seen}");
    assert!(!has_card(&seen), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_a_look_stops_ends_there_and_says_who_stopped_it() {
    let server = model(&["fine\n", "", "a secret\n", "", "never read\n"]).await;
    let rind = with(&["scripted-hook"]);
    rind.config(
        "[plugins.scripted-hook.config.answers.output-delta]\nwhen = \"secret\"\nstop = \"it is a secret\"\n",
    );
    let mut child = asking(&rind, &server, &["--json", "--grant", "scripted-hook"])
        .spawn()
        .unwrap();
    let mut lines = lines_of(&mut child);
    assert_eq!(read_until(&mut lines, "text-delta")["text"], "fine\n");
    // The second pause is never released: the host does not wait for the rest of the answer.
    server.release_one();
    let end = read_until(&mut lines, "turn-end");
    assert_eq!(
        end["output"],
        "[the answer was held back by plugin scripted-hook: it is a secret]"
    );
    assert_eq!(child.wait().unwrap().code(), Some(3));
    let mut rest = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut rest)
        .unwrap();
    assert!(!rest.contains("never read"), "{rest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_plugins_says_who_holds_answers_back() {
    let rind = with(&CORE);
    let list = rind.run(&["plugin", "list"]).exits(0);
    assert!(
        list.stderr
            .contains("the model's answers are shown while they are written"),
        "{}",
        list.stderr
    );
    rind.config("[plugins.content-safety.hooks.output-delta]\nenabled = false\n");
    let list = rind.run(&["plugin", "list"]).exits(0);
    assert!(
        list.stderr.contains(
            "because the following plugins may change or refuse them: content-safety (pre-output)"
        ),
        "{}",
        list.stderr
    );
    let server = model(&["First words. ", "Last words."]).await;
    let (all, deltas) = json_run(&rind, &server);
    assert_eq!(deltas, Vec::<String>::new());
    assert!(
        all.contains("\"type\":\"text-held\"") && all.contains("\"by\":[\"content-safety\"]"),
        "{all}"
    );
    assert!(
        all.contains("\"output\":\"First words. Last words.\""),
        "{all}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_shown_of_an_answer_that_is_asked_for_again_is_corrected() {
    let event = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]});
        format!("data: {chunk}\n\n")
    };
    for plugins in [&[][..], &["content-safety"]] {
        let n_asked = std::sync::atomic::AtomicUsize::new(0);
        let server = Server::start(move |request| {
            // The program first asks the server about its models.
            if request.line.starts_with("GET ") {
                return Reply::Stream(Vec::new());
            }
            let n = n_asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let words = |text: &str| event(json!({"content": text}), Value::Null);
            Reply::Stream(match n {
                // The connection ends in the middle of the answer.
                0 => vec![words("It is nine, and 4111 11")],
                _ => vec![
                    words("It is ten."),
                    event(json!({}), json!("stop")),
                    "data: [DONE]\n\n".to_owned(),
                ],
            })
        })
        .await;
        let rind = with(plugins);
        let ran = rind
            .finish(&mut asking(&rind, &server, &["--json"]))
            .exits(0);
        let lines = ran.json_lines();
        let of = |kind: &str| {
            lines
                .iter()
                .filter(|line| line["type"] == kind)
                .collect::<Vec<_>>()
        };
        assert_eq!(of("turn-end")[0]["output"], "It is ten.");
        let deltas: Vec<&str> = of("text-delta")
            .iter()
            .map(|line| line["text"].as_str().unwrap())
            .collect();
        let corrections = of("correction");
        // The connection may end while the hook still checks the piece, of which nothing was shown
        // then.
        let shown = match &corrections[..] {
            [] if !plugins.is_empty() => "",
            [correction] => {
                assert_eq!(correction["text"], "");
                correction["shown"].as_str().unwrap()
            }
            _ => panic!("{}", ran.stdout),
        };
        assert!("It is nine, and 4111 11".starts_with(shown), "{shown}");
        assert_eq!(deltas.concat(), format!("{shown}It is ten."));
        assert!(
            plugins.is_empty() || !has_card(&ran.stdout),
            "{}",
            ran.stdout
        );
    }
}

/// Starts a server whose stream sends `words`, waits until it is released, and sends `then`, which
/// does not end the answer properly.
async fn broken_off_later(words: &'static str, then: &'static str) -> Server {
    let begun = words_event(words);
    Server::start(move |_| Reply::Stream(vec![begun.clone(), String::new(), then.to_owned()])).await
}

/// Starts a server whose stream sends `words` and at once `then`, which does not end the answer
/// properly.
async fn broken_off(words: &'static str, then: &'static str) -> Server {
    let begun = words_event(words);
    Server::start(move |_| Reply::Stream(vec![begun.clone(), then.to_owned()])).await
}

fn words_event(words: &str) -> String {
    let choice = json!({"index": 0, "delta": {"content": words}, "finish_reason": null});
    let chunk =
        json!({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]});
    format!("data: {chunk}\n\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_shown_of_an_answer_that_broke_off_is_corrected_like_that_of_a_whole_one() {
    for (answer, output) in [
        (
            "text = \"It is ten.\"",
            "It is ten.\n\n[the model gave no answer: ",
        ),
        (
            "block = \"no times\"",
            "[the answer was held back by plugin scripted-hook: no times]\n\n[the model gave no answer: ",
        ),
    ] {
        let server = broken_off_later("It is nine. ", ": nothing more\n\n").await;
        let rind = with(&["scripted-hook"]);
        rind.config(&format!(
            "[provider.http]\nmax_attempts = 1\n[plugins.scripted-hook.config.answers.pre-output]\n{answer}\n"
        ));
        let mut command = asking(&rind, &server, &["--json", "--grant", "scripted-hook"]);
        let mut child = command.spawn().unwrap();
        let mut lines = lines_of(&mut child);
        let delta = read_until(&mut lines, "text-delta");
        assert_eq!(delta["text"], "It is nine. ");
        server.release();
        let correction = read_until(&mut lines, "correction");
        assert_eq!(correction["shown"], "It is nine. ");
        let end = read_until(&mut lines, "turn-end");
        let given = end["output"].as_str().unwrap();
        assert!(given.starts_with(output), "{given}");
        assert_eq!(child.wait().unwrap().code(), Some(1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_cut_because_the_window_is_full_is_paid_for_and_asked_for_once() {
    let error = json!({"error": {
        "message": "This model's maximum context length is 9 tokens",
        "code": "context_length_exceeded",
    }});
    let server = broken_off_later("It is nine. ", format!("data: {error}\n\n").leak()).await;
    let rind = with(&[]);
    let mut child = asking(&rind, &server, &["--json"]).spawn().unwrap();
    let mut lines = lines_of(&mut child);
    read_until(&mut lines, "text-delta");
    server.release();
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let of = |kind: &str| {
        let kind = format!("\"type\":\"{kind}\"");
        rest.iter().filter(|line| line.contains(&kind)).count()
    };
    assert_eq!(
        (of("request-end"), of("request-start"), of("compaction")),
        (1, 0, 0),
        "{rest:?}"
    );
    assert!(
        rest.iter()
            .any(|line| line.contains("maximum context length")),
        "{rest:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_quotes_the_answer_quotes_what_hooks_let_through() {
    for then in [
        "data: {\"choices\": [\"4111 1111 1111 1111\"\n\n",
        "data: {\"choices\": \"4111 1111 1111 1111\"}\n\n",
        "data: 4111 1111 1111 1111\n\n",
        "4111 1111 1111 1111\n\n",
    ] {
        for (begun, held) in [("It is ", false), ("It is ", true), ("", false), ("", true)] {
            let server = broken_off(begun, then).await;
            let rind = with(&CORE);
            let off = match held {
                true => "[plugins.content-safety.hooks.output-delta]\nenabled = false\n",
                false => "",
            };
            rind.config(&format!("[provider.http]\nmax_attempts = 1\n{off}"));
            let ran = rind
                .finish(&mut asking(&rind, &server, &["--json"]))
                .exits(1);
            // The error is about the unreadable event only if no other event came before it.
            let words = match begun.is_empty() && !then.contains("\"}") && then.starts_with("data")
            {
                true => "cannot be read",
                false => "ended early",
            };
            assert!(ran.stdout.contains(words), "{then}: {}", ran.stdout);
            for text in [&ran.stdout, &ran.stderr] {
                assert!(!has_card(text), "{then}: {text}");
            }
        }
    }
}

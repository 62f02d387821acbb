//! Images from a file through a tool, the session and the program to a model, on both wire formats.

use std::fs;
use std::path::PathBuf;

use rind_tests::cli::{Ran, Rind};
use rind_tests::server::{Received, Reply, Server};
use serde_json::{Value, json};

pub(crate) const DOT: &[u8] = include_bytes!("../recorded/dot.png");

/// Content of `DOT` in base64.
const BASE64: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAA\
                      DUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// The wire format of a server.
#[derive(Clone, Copy)]
enum Format {
    Anthropic,
    OpenAi,
}

impl Format {
    /// A reply with two calls that read files, or the final text once `is_done`.
    fn answer(self, is_done: bool) -> String {
        let of_event = |event: Value| {
            let name = event["type"].as_str().unwrap_or_default().to_owned();
            format!("event: {name}\ndata: {event}\n\n")
        };
        let call = |id: &str, path: &str| (id.to_owned(), json!({"path": path}).to_string());
        let calls = [call("call_1", "dot.png"), call("call_2", "note.txt")];
        match (self, is_done) {
            (Self::OpenAi, false) => {
                let calls = calls.iter().enumerate().map(|(index, (id, arguments))| {
                    json!({"index": index, "id": id, "type": "function",
                        "function": {"name": "read_file", "arguments": arguments}})
                });
                let delta = json!({"tool_calls": calls.collect::<Vec<_>>()});
                let chunk = json!({"choices": [{"delta": delta, "finish_reason": "tool_calls"}]});
                format!("data: {chunk}\n\ndata: [DONE]\n\n")
            }
            (Self::OpenAi, true) => {
                let choice = json!({"delta": {"content": "a dot"}, "finish_reason": "stop"});
                format!("data: {}\n\ndata: [DONE]\n\n", json!({"choices": [choice]}))
            }
            (Self::Anthropic, _) => {
                let mut events = vec![json!({"type": "message_start", "message": {
                    "id": "m", "role": "assistant", "model": "claude-sonnet-4-5", "content": [],
                    "usage": {"input_tokens": 10, "output_tokens": 1}}})];
                if is_done {
                    events.extend([
                        json!({"type": "content_block_start", "index": 0,
                            "content_block": {"type": "text", "text": ""}}),
                        json!({"type": "content_block_delta", "index": 0,
                            "delta": {"type": "text_delta", "text": "a dot"}}),
                        json!({"type": "content_block_stop", "index": 0}),
                    ]);
                } else {
                    for (index, (id, arguments)) in calls.iter().enumerate() {
                        events.extend([
                            json!({"type": "content_block_start", "index": index, "content_block":
                                {"type": "tool_use", "id": id, "name": "read_file", "input": {}}}),
                            json!({"type": "content_block_delta", "index": index, "delta":
                                {"type": "input_json_delta", "partial_json": arguments}}),
                            json!({"type": "content_block_stop", "index": index}),
                        ]);
                    }
                }
                let stop = if is_done { "end_turn" } else { "tool_use" };
                events.extend([
                    json!({"type": "message_delta", "delta": {"stop_reason": stop},
                        "usage": {"output_tokens": 5}}),
                    json!({"type": "message_stop"}),
                ]);
                events.into_iter().map(of_event).collect()
            }
        }
    }

    /// A server whose model reads two files and then answers.
    async fn server(self) -> Server {
        Server::start(move |received: &Received| {
            let body = String::from_utf8_lossy(&received.body);
            let is_done = body.contains("tool_result") || body.contains("\"role\":\"tool\"");
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            Reply::Raw(format!("{head}{}", self.answer(is_done)).into_bytes())
        })
        .await
    }

    /// Runs the program against the server.
    fn run(self, rind: &Rind, server: &Server, args: &[&str]) -> Ran {
        let name = match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
        };
        let args = [
            &["run", "look at it", "--provider", name, "--no-plugins"],
            args,
        ]
        .concat();
        let mut command = rind.command(&args);
        command
            .env("ANTHROPIC_BASE_URL", server.at("127.0.0.1", ""))
            .env("OPENAI_BASE_URL", server.at("127.0.0.1", "/v1"));
        tokio::task::block_in_place(|| rind.finish(&mut command))
    }
}

/// A machine with an image and a text file in the workspace.
fn machine() -> Rind {
    let rind = Rind::default();
    fs::write(rind.workspace().join("dot.png"), DOT).unwrap();
    rind.file("note.txt", "a note\n");
    rind
}

/// Messages of the last request, from the first tool result on.
fn last_results(server: &Server) -> Value {
    let body: Value = serde_json::from_slice(&server.last().body).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let is_result = |message: &Value| {
        message["role"] == "tool" || message["content"][0]["type"] == "tool_result"
    };
    let first = messages.iter().position(is_result).unwrap();
    json!(messages[first..])
}

#[tokio::test(flavor = "multi_thread")]
async fn the_anthropic_api_gets_an_image_block_in_the_result() {
    let rind = machine();
    let server = Format::Anthropic.server().await;
    let ran = Format::Anthropic.run(&rind, &server, &[]).exits(0);
    assert_eq!(
        last_results(&server),
        json!([{"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "call_1", "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": BASE64}}]},
            {"type": "tool_result", "tool_use_id": "call_2", "content": "a note\n",
                "cache_control": {"type": "ephemeral"}},
        ]}])
    );
    assert!(
        ran.stderr
            .contains("└ read_file dot.png: [image/png, 70 B], "),
        "{}",
        ran.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_server_gets_the_image_in_a_message_behind_all_results() {
    let rind = machine();
    let server = Format::OpenAi.server().await;
    Format::OpenAi.run(&rind, &server, &[]).exits(0);
    let url = format!("data:image/png;base64,{BASE64}");
    assert_eq!(
        last_results(&server),
        json!([
            {"role": "tool", "tool_call_id": "call_1", "content": "[image/png, 70 B]"},
            {"role": "tool", "tool_call_id": "call_2", "content": "a note\n"},
            {"role": "user", "content": [
                {"type": "text", "text": "[image/png, 70 B] of the result of read_file (call_1)"},
                {"type": "image_url", "image_url": {"url": url}},
            ]},
        ])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_not_known_to_see_gets_a_line_unless_the_operator_says_otherwise() {
    let rind = machine();
    let server = Format::OpenAi.server().await;
    Format::OpenAi
        .run(&rind, &server, &["--model", "gpt-4"])
        .exits(0);
    assert_eq!(
        last_results(&server)[0]["content"],
        "[image/png, 70 B; not shown: the model gpt-4 is not known to take images (provider.images = true sends them)]"
    );
    let sees = ["--model", "gpt-4", "--set", "provider.images=true"];
    Format::OpenAi.run(&rind, &server, &sees).exits(0);
    assert_eq!(last_results(&server)[2]["content"][1]["type"], "image_url");
    let blind = ["--model", "gpt-4o", "--set", "provider.images=false"];
    Format::OpenAi.run(&rind, &server, &blind).exits(0);
    assert_eq!(last_results(&server).as_array().unwrap().len(), 2);
}

/// The user's message in the first request.
fn prompt(server: &Server) -> Value {
    let body: Value = serde_json::from_slice(&server.received()[0].body).unwrap();
    let messages = body["messages"].as_array().unwrap().iter();
    let mut prompts = messages.filter(|message| message["role"] == "user");
    prompts.next().unwrap()["content"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_of_a_person_goes_with_the_prompt_and_one_that_is_none_is_wrong_usage() {
    let rind = machine();
    let image = ["--image", "dot.png"];
    let server = Format::Anthropic.server().await;
    Format::Anthropic.run(&rind, &server, &image).exits(0);
    let shown = prompt(&server);
    assert_eq!(shown[0]["text"], "look at it");
    assert_eq!(shown[1]["source"]["data"], BASE64);

    let server = Format::OpenAi.server().await;
    Format::OpenAi.run(&rind, &server, &image).exits(0);
    let url = format!("data:image/png;base64,{BASE64}");
    let expected = json!([
        {"type": "text", "text": "look at it"},
        {"type": "image_url", "image_url": {"url": url}},
    ]);
    assert_eq!(prompt(&server), expected);

    let server = Format::OpenAi.server().await;
    let blind = [&image[..], &["--model", "gpt-4"]].concat();
    let ran = Format::OpenAi.run(&rind, &server, &blind).exits(0);
    let warning = "the model gpt-4 is not known to take images, so it gets a text note";
    assert!(ran.stderr.contains(warning), "{}", ran.stderr);
    assert!(prompt(&server).to_string().contains("not shown"));

    for (file, why) in [
        ("note.txt", "PNG, JPEG, GIF and WebP"),
        ("absent.png", "No such file"),
    ] {
        let ran = Format::OpenAi
            .run(&rind, &server, &["--image", file])
            .exits(2);
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
    }
}

#[test]
fn a_page_of_a_session_has_its_images_in_it() {
    let rind = Rind::with_script(
        "[[reply]]\ntool_calls = [{ name = \"read_file\", arguments = { path = \"other.png\" } }]\n[[reply]]\ntext = \"Seen.\"\n",
    );
    fs::write(rind.workspace().join("dot.png"), DOT).unwrap();
    // A different file with the same picture, since trailing bytes are ignored.
    fs::write(rind.workspace().join("other.png"), [DOT, b"other"].concat()).unwrap();
    rind.run(&["run", "look at it", "--image", "dot.png"])
        .exits(0);
    rind.run(&["session", "export", "--format", "html", "-o", "page.html"])
        .exits(0);
    let page = fs::read_to_string(rind.workspace().join("page.html")).unwrap();
    let source = format!("<img src=\"data:image/png;base64,{BASE64}\" alt=\"[image/png");
    assert_eq!(page.matches(&source).count(), 1, "{page}");
    assert_eq!(page.matches("<img ").count(), 2, "{page}");
    assert!(page.contains("img-src data:;"), "{page}");
    assert!(!page.contains("://"), "{page}");
    let markdown = rind.run(&["session", "export"]).exits(0).stdout;
    assert!(
        markdown.contains("image/png") && !markdown.contains("base64"),
        "{markdown}"
    );
    // An image whose bytes are missing is shown as a line of text.
    fs::remove_dir_all(kept_folder(&rind)).unwrap();
    let args = ["session", "export", "--format", "html", "-o", "page.html"];
    rind.run(&args).exits(0);
    let page = fs::read_to_string(rind.workspace().join("page.html")).unwrap();
    assert!(!page.contains("<img "), "{page}");
    assert_eq!(
        page.matches("its bytes are missing or damaged").count(),
        2,
        "{page}"
    );
}

/// The folder in which the session keeps images.
fn kept_folder(rind: &Rind) -> PathBuf {
    let sessions = fs::read_dir(rind.home().join("data/sessions")).unwrap();
    let folders = sessions.map(|entry| entry.unwrap().path());
    let folder = folders.into_iter().find(|path| path.is_dir()).unwrap();
    folder.join("content")
}

/// The file in which the session keeps the image.
fn kept(rind: &Rind) -> PathBuf {
    let sessions = rind.home().join("data/sessions");
    let session = fs::read_dir(sessions).unwrap().next().unwrap().unwrap();
    let files = fs::read_dir(session.path().join("content")).unwrap();
    // All other files are texts of the system prompt.
    let prompts = rind.entries("prompt");
    let is_prompt = |path: &PathBuf| {
        let mut sent = prompts
            .iter()
            .flat_map(|prompt| prompt["sent"].as_array().unwrap());
        sent.any(|name| path.ends_with(name.as_str().unwrap()))
    };
    let files = files.map(|file| file.unwrap().path());
    let files: Vec<PathBuf> = files.filter(|path| !is_prompt(path)).collect();
    assert_eq!(files.len(), 1);
    files[0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_and_events_hold_references_and_bytes_that_are_gone_are_a_line() {
    let rind = machine();
    let large = [DOT, &[0; 100_000]].concat();
    fs::write(rind.workspace().join("dot.png"), &large).unwrap();
    let server = Format::OpenAi.server().await;
    let ran = Format::OpenAi.run(&rind, &server, &["--json"]).exits(0);
    assert!(ran.stdout.len() < 20_000, "{}", ran.stdout.len());
    let session: usize = rind.session_lines().iter().map(String::len).sum();
    assert!(session < 20_000, "{session}");
    let lines = ran.json_lines();
    let end = lines
        .iter()
        .find(|line| line["type"] == "tool-end")
        .unwrap();
    let reference = json!([{"type": "blob", "id": blake3_of(&kept(&rind)), "media_type": "image/png",
        "size": large.len(), "pixels": [1, 1]}]);
    assert_eq!(end["result"]["content"], reference);
    assert_eq!(fs::read(kept(&rind)).unwrap(), large);

    let resume = ["--resume", "last"];
    Format::OpenAi.run(&rind, &server, &resume).exits(0);
    let url = |server: &Server| last_results(server)[2]["content"][1]["image_url"]["url"].clone();
    assert!(url(&server).as_str().unwrap().len() > 130_000);
    fs::write(kept(&rind), b"damaged").unwrap();
    Format::OpenAi.run(&rind, &server, &resume).exits(0);
    let said = |server: &Server| last_results(server)[0]["content"].clone();
    assert_eq!(
        said(&server),
        "[image/png, 100 KB; not shown: its bytes were damaged]"
    );
    fs::remove_file(kept(&rind)).unwrap();
    Format::OpenAi.run(&rind, &server, &resume).exits(0);
    assert_eq!(
        said(&server),
        "[image/png, 100 KB; not shown: its bytes are missing]"
    );
}

/// The id of a stored image, which is its file name.
fn blake3_of(file: &std::path::Path) -> String {
    file.file_name().unwrap().to_str().unwrap().to_owned()
}

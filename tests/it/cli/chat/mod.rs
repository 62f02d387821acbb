//! Tests of the chat as a person at a terminal sees it.

mod ask;
mod attach;
mod background;
mod interrupt;
mod line;
mod live;
mod looks;
mod operate;
mod rewind;
mod screen;
mod sessions;
mod skill;
mod steer;

use rind_tests::cli::Rind;

/// Columns and rows of the screen in most tests.
pub(super) const SIZE: (u16, u16) = (72, 20);

/// Script of a model that repeats each prompt.
const ECHO: &str = "[[reply]]\ntimes = 0\ntext = \"You said: {input}\"\n";

/// Returns the session's messages as text, each with its role.
fn conversation(rind: &Rind) -> Vec<String> {
    let messages = rind.entries("message").into_iter();
    let lines = messages.map(|entry| {
        let message = &entry["message"];
        let parts = message["content"].as_array().unwrap().iter();
        let texts = parts.map(|part| match part["type"].as_str().unwrap() {
            "text" => part["text"].as_str().unwrap().to_owned(),
            "tool_call" => format!("calls {}", part["name"].as_str().unwrap()),
            "tool_result" => format!(
                "{} answers {}",
                part["name"].as_str().unwrap(),
                part["content"]
            ),
            other => other.to_owned(),
        });
        let text = texts.collect::<Vec<_>>().join("; ");
        format!("{}: {text}", message["role"].as_str().unwrap())
    });
    lines.collect()
}

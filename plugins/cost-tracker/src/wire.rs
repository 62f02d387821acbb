//! Which model a provider says has answered.

use rind_sdk::data;

/// How many lines of a stream are looked at: the name stands in the first event that carries JSON.
const MAX_LINES: usize = 20;

/// Longest name that is taken.
const MAX_NAME_BYTES: usize = 200;

/// What is read of an event. Everything else is passed over.
#[data]
struct Event {
    model: Option<String>,
    message: Option<Named>,
}

#[data]
struct Named {
    model: Option<String>,
}

/// The model's name in an answer as it came over the wire, a stream of events or one object.
pub(crate) fn model(body: &str) -> Option<String> {
    body.lines().take(MAX_LINES).find_map(|line| {
        let data = line.strip_prefix("data:").unwrap_or(line).trim();
        let event: Event = rind_sdk::serde_json::from_str(data).ok()?;
        let name = event.model.or_else(|| event.message?.model)?;
        (!name.is_empty() && name.len() <= MAX_NAME_BYTES).then_some(name)
    })
}

#[test]
fn the_model_is_found_in_every_wire_format() {
    let anthropic = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"claude-x\"}}\n";
    let openai = "data: {\"id\":\"c\",\"model\":\"gpt-x\",\"choices\":[]}\n\ndata: [DONE]\n";
    for (body, expected) in [
        (anthropic, Some("claude-x")),
        (openai, Some("gpt-x")),
        ("{\"model\": \"whole\"}", Some("whole")),
        ("{\"text\": \"\\\"model\\\": \\\"no\\\"\"}", None),
        ("data: {\"choices\":[{\"model\":\"no\"}]}", None),
        ("", None),
    ] {
        assert_eq!(model(body).as_deref(), expected, "{body}");
    }
}

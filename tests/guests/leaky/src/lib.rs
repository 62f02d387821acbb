//! Says a text of its settings wherever a plugin may say something.

#[rind_sdk::plugin]
mod leaky {
    use rind_sdk::prelude::*;
    use rind_sdk::serde_json::{Value, json};

    /// The text to say.
    fn text() -> Result<String, Error> {
        Ok(config::get("text")?.unwrap_or_default())
    }

    fn how() -> Result<String, Error> {
        Ok(config::get("how")?.unwrap_or_default())
    }

    #[hook]
    fn session_start(_session: SessionInfo) -> Result<Observed, Error> {
        let text = text()?;
        Ok(Observed::default()
            .log(Level::Info, format!("log {text}"))
            .notify(Level::Warn, format!("notice {text}"))
            .metric(format!("metric {text}"), 1.0)
            .store("key", format!("stored {text}")))
    }

    #[hook]
    fn turn_start(_input: TurnInput) -> Result<InputOutcome, Error> {
        let text = text()?;
        Ok(InputOutcome::replace(format!("text {text}"))
            .inject(format!("kept {text}"))
            .inject_once(format!("once {text}")))
    }

    #[hook]
    fn system_prompt(_context: PromptContext) -> Result<PromptOutcome, Error> {
        let text = format!("part {}", text()?);
        Ok(PromptOutcome::part(PromptPart::new(
            Tier::Volatile,
            "key",
            text,
        )))
    }

    #[hook]
    fn before_provider_request(_request: &WireRequest) -> Result<WireOutcome, Error> {
        let body = json!({ "messages": [{ "content": text()? }], "max_tokens": 1 });
        Ok(WireOutcome::replace(body.to_string()))
    }

    #[hook]
    fn pre_tool(_call: ProposedCall) -> Result<CallOutcome, Error> {
        let text = text()?;
        Ok(match how()?.as_str() {
            "change" => CallOutcome::change(json!({ "path": text, "n": 1.5 }).to_string()),
            // As JSON may spell it: every character escaped.
            "escaped" => {
                let escape = |c: char| format!("\\u{:04x}", u32::from(c));
                let escaped: String = text.chars().map(escape).collect();
                CallOutcome::change(format!("{{\"path\":\"{escaped}\",\"n\":1.5}}"))
            }
            "ask" => CallOutcome::ask(format!("ask {text}")),
            "error" => return Err(Error::Denied(format!("error {text}"))),
            "panic" => panic!("panic {text}"),
            "long" => CallOutcome::block(format!("{} {text}", "x".repeat(2030))),
            _ => CallOutcome::block(format!("block {text}")).with_note(format!("note {text}")),
        })
    }

    /// Gives back what it was shown.
    #[hook]
    fn post_tool(call: &FinishedCall) -> ResultOutcome {
        ResultOutcome::replace(call.text())
    }

    /// Says it through every import, and then as the result.
    #[tool(effect = "read")]
    fn leak() -> Result<String, Error> {
        let text = text()?;
        if how()? == "error" {
            return Err(Error::Failed(format!("error {text}")));
        }
        for _ in 0..100 {
            log::info(format!("line {text}"));
        }
        state::set("key", &format!("state {text}"))?;
        store::set("key", &format!("store {text}"))?;
        session::append("entry", &json!({ "text": text }).to_string())?;
        let names = [
            state::set(&text, "x"),
            store::set(&text, "x"),
            session::append(&text, "1"),
        ];
        let answer = rind_sdk::points::call("review", &json!({ "text": text }).to_string())?;
        Ok(format!("result {text} {names:?} {}", answer.value))
    }

    #[implements("other.review")]
    fn review(_payload: Value) -> Result<Value, Error> {
        Ok(json!({ "answer": text()? }))
    }
}

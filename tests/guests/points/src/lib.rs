//! Calls the points of its own manifest, and answers for those of others: which of it is used is the manifest's to say.

#[rind_sdk::plugin]
mod points_guest {
    use rind_sdk::points;
    use rind_sdk::prelude::*;
    use rind_sdk::serde_json::{Value, json};

    /// Point to call and its payload.
    #[args]
    struct Ask {
        /// Name of the point.
        point: String,
        /// Payload of the call.
        payload: Value,
    }

    /// Calls a point: of this plugin, or another's that lets it.
    #[tool(effect = "read")]
    fn ask(args: Ask) -> Result<String, Error> {
        let answer = points::call(&args.point, &args.payload.to_string())?;
        let said = |said: &points::Objection| format!("{} ({})", said.plugin, said.reason);
        let verdict = match &answer.verdict {
            points::Verdict::Pass => "pass".to_owned(),
            points::Verdict::Block(by) => format!("block {}", said(by)),
            points::Verdict::Ask(by) => {
                let by: Vec<String> = by.iter().map(said).collect();
                format!("ask {}", by.join(" "))
            }
        };
        Ok(format!("{} {verdict}", answer.value))
    }

    #[implements("owner.review")]
    fn review(payload: Value) -> Result<Value, Error> {
        let text = payload["text"].as_str().unwrap_or_default();
        Ok(match text {
            "wrong" => json!({ "text": 7 }),
            text => json!({ "text": format!("{text}!") }),
        })
    }

    #[implements("owner.opinions")]
    fn opinion(payload: Value) -> PointOutcome {
        verdict(&payload).unwrap_or_else(PointOutcome::pass)
    }

    #[implements("owner.permit")]
    fn permit(payload: Value) -> Result<PointOutcome, Error> {
        Ok(verdict(&payload).unwrap_or_else(PointOutcome::pass))
    }

    #[implements("owner.news")]
    fn news(payload: Value) -> PointOutcome {
        verdict(&payload).unwrap_or_else(PointOutcome::pass)
    }

    /// The verdict that a payload names for this plugin, or for all; its settings say which of them it is.
    fn verdict(payload: &Value) -> Option<PointOutcome> {
        let name: String = config::get("name").ok()??;
        let said = payload.get(&name).or_else(|| payload.get("all"))?;
        let text = said[1].as_str().unwrap_or_default();
        let mut outcome = match said[0].as_str()? {
            "ask" => PointOutcome::ask(text),
            "block" => PointOutcome::block(text),
            _ => PointOutcome::value(&json!({ "text": text })).ok()?,
        };
        outcome.effects.push(Effect::Notify(LogLine {
            level: Level::Info,
            text: format!("{name} said {text}"),
        }));
        Some(outcome)
    }
}

//! Calls the points of its own manifest, and answers for those of others: which of it is used is the manifest's to say.

#[rind_sdk::plugin]
mod points_guest {
    use rind_sdk::prelude::*;
    use rind_sdk::serde_json::{Value, json};

    /// Point to call and its payload.
    #[args]
    struct Ask {
        /// Name of the point.
        point: String,
        /// The payload.
        payload: Value,
    }

    /// Calls a point of this plugin.
    #[tool(effect = "read")]
    fn ask(args: Ask) -> Result<String, Error> {
        let answer = rind_sdk::points::call(&args.point, &args.payload.to_string())?;
        Ok(format!("{} {:?}", answer.value, answer.blocked))
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
    fn opinion(_payload: Value) -> Value {
        json!({ "text": "fine" })
    }
}

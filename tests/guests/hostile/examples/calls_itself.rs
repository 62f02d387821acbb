//! Implements its own point by calling it, without end.

#[rind_sdk::plugin]
mod calls_itself {
    use rind_sdk::points;
    use rind_sdk::prelude::*;
    use rind_sdk::serde_json::Value;

    /// Sets it off; says how deep it went.
    #[tool(effect = "read")]
    fn attack() -> Result<String, Error> {
        let answer = points::call("again", "{\"depth\":0}")?;
        Ok(format!("answered {}", answer.value))
    }

    #[implements("attacker.again")]
    fn again(payload: Value) -> Result<Value, Error> {
        points::call("again", &payload.to_string())?;
        Ok(rind_sdk::serde_json::json!({ "depth": "PWNED" }))
    }
}

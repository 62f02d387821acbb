//! Calls its own tool through the host.

#[rind_sdk::plugin]
mod calls_itself {
    use rind_sdk::prelude::*;
    use rind_sdk::tools;

    /// Calls its own tool through the host.
    #[tool(effect = "read")]
    fn attack() -> Result<String, Error> {
        let answer = tools::call("attack", "{}")?;
        Ok(format!("PWNED: {answer}"))
    }
}

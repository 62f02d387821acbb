//! Answers with more than may come out of a call.

#[rind_sdk::plugin]
mod answers_40_mib {
    use rind_sdk::prelude::*;

    /// Answers with more than may come out of a call.
    #[tool(effect = "read")]
    fn attack() -> Result<String, Error> {
        Ok("x".repeat(40 << 20))
    }
}

//! Asks for a terabyte of randomness.

#[rind_sdk::plugin]
mod asks_random {
    use rind_sdk::prelude::*;

    /// Asks for a terabyte of randomness.
    #[tool(effect = "read")]
    fn attack() -> Result<String, Error> {
        let bytes = wasip2::random::random::get_random_bytes(1 << 40);
        Ok(format!("PWNED: {} bytes", bytes.len()))
    }
}

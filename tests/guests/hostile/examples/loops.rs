//! Loops for ever.

#[rind_sdk::plugin]
mod loops {
    use rind_sdk::prelude::*;

    /// Loops for ever.
    #[tool(effect = "read")]
    fn attack() -> Result<String, Error> {
        loop {
            std::hint::black_box(());
        }
    }
}

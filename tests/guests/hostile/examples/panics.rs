//! Panics with words that would forge a line and clear the screen.

#[rind_sdk::plugin]
mod panics {
    use rind_sdk::prelude::*;

    /// Panics with words that would forge a line and clear the screen.
    #[tool(effect = "read")]
    fn attack() -> Result<String, Error> {
        panic!("broken\nforged line \u{1b}[2J\u{202e} on purpose")
    }
}

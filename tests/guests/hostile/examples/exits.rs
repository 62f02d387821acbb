//! Ends the process that it takes itself to be in.

#[rind_sdk::plugin]
mod exits {
    use rind_sdk::prelude::*;

    /// Ends the process that it takes itself to be in.
    #[tool(effect = "read")]
    fn attack() -> Result<String, Error> {
        std::process::exit(0)
    }
}

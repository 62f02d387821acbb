//! Holds on to handles of the host without end.

#[rind_sdk::plugin]
mod floods_pollables {
    use rind_sdk::prelude::*;

    /// Holds on to handles of the host without end.
    #[tool(effect = "read")]
    fn attack() -> Result<String, Error> {
        let mut kept = Vec::new();
        loop {
            kept.push(wasip2::clocks::monotonic_clock::subscribe_duration(1));
        }
    }
}

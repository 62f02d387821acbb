//! Calls itself until no stack is left.

#[rind_sdk::plugin]
mod recurses {
    use rind_sdk::prelude::*;
    use std::hint::black_box;

    fn deeper(n: u64) -> u64 {
        let frame = black_box([n; 64]);
        if black_box(n) == 0 {
            0
        } else {
            deeper(frame[0] + 1) + frame[1]
        }
    }

    /// Calls itself until no stack is left.
    #[tool(effect = "read")]
    fn attack() -> Result<String, Error> {
        Ok(deeper(1).to_string())
    }
}

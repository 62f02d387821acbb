//! Takes memory without end.

#[rind_sdk::plugin]
mod grows_memory {
    use rind_sdk::prelude::*;

    /// Takes memory without end.
    #[tool(effect = "read")]
    fn attack() -> Result<String, Error> {
        let mut kept = Vec::new();
        loop {
            kept.push(std::hint::black_box(vec![7_u8; 1 << 20]));
        }
    }
}

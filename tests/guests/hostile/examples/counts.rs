//! Tells from its own memory how often its instance was called, and traps when told to.

#[rind_sdk::plugin]
mod counts {
    use rind_sdk::prelude::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    static CALLED: AtomicU32 = AtomicU32::new(0);

    /// Says how often it was called.
    #[tool(effect = "read")]
    fn attack() -> Result<String, Error> {
        let n = CALLED.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(format!("call {n} of this instance"))
    }

    /// Waits for longer than anybody does.
    #[tool(effect = "read")]
    fn wait() -> Result<String, Error> {
        std::thread::sleep(std::time::Duration::from_secs(3600));
        Ok("PWNED: waited".to_owned())
    }

    /// Traps.
    #[tool(effect = "read")]
    fn trap() -> Result<String, Error> {
        panic!("on purpose")
    }
}

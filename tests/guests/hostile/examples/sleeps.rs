//! Waits in the host for an hour.

#[rind_sdk::plugin]
mod sleeps {
    use rind_sdk::prelude::*;

    /// Waits in the host for an hour.
    #[tool(effect = "read")]
    fn attack() -> Result<String, Error> {
        std::thread::sleep(std::time::Duration::from_secs(3600));
        Ok("PWNED: slept as long as it liked".to_owned())
    }
}

//! Writes to standard output and standard error without end.

#[rind_sdk::plugin]
mod floods_output {
    use rind_sdk::prelude::*;

    /// Writes to standard output and standard error without end.
    #[tool(effect = "read")]
    fn attack() -> Result<String, Error> {
        use std::io::Write;
        let line = "x".repeat(64 << 10);
        for _ in 0..400 {
            let _ = writeln!(std::io::stdout(), "{line}");
            let _ = writeln!(std::io::stderr(), "{line}");
        }
        Ok("wrote 50 MB that nobody reads".to_owned())
    }
}

//! Looks for anything of the machine that it runs on.

#[rind_sdk::plugin]
mod reads_environment {
    use rind_sdk::prelude::*;

    /// Looks for anything of the machine that it runs on.
    #[tool(effect = "read")]
    fn attack() -> Result<String, Error> {
        let variables: Vec<_> = std::env::vars().collect();
        let arguments: Vec<_> = std::env::args().collect();
        let root = std::fs::read_dir("/").map(Iterator::count);
        let passwd = std::fs::read("/etc/passwd").map(|_| "PWNED");
        let here = std::fs::read_dir(".").map(Iterator::count);
        Ok(format!(
            "{} variables, {} arguments, {:?} {:?} {:?}",
            variables.len(),
            arguments.len(),
            root.is_err(),
            passwd.is_err(),
            here.is_err()
        ))
    }
}

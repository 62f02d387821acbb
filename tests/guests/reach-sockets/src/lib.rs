//! Imports `wasi:sockets` through the standard library.

#[rind_sdk::plugin]
mod reach_sockets {
    use rind_sdk::prelude::*;

    /// Connects.
    #[tool(effect = "read")]
    fn connect() -> Result<String, Error> {
        let stream = std::net::TcpStream::connect("127.0.0.1:1")
            .map_err(|e| Error::Failed(e.to_string()))?;
        Ok(format!("{stream:?}"))
    }
}

//! Imports the host's HTTP without saying so.

#[rind_sdk::plugin]
mod reach_http {
    use rind_sdk::prelude::*;

    /// Fetches a page.
    #[tool(effect = "read")]
    fn fetch() -> Result<String, Error> {
        let request = rind_sdk::http::Request {
            method: "GET".to_owned(),
            url: "https://example.com/".to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        };
        Ok(rind_sdk::http::send(&request)?.status.to_string())
    }
}

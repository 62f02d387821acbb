//! Asks for each address that its settings name, one after another.

#[rind_sdk::plugin]
mod fetches {
    use rind_sdk::http;
    use rind_sdk::prelude::*;

    /// Says how many answered, and what the last refusal was.
    #[tool(effect = "external")]
    fn attack() -> Result<String, Error> {
        let urls: String = config::get("how")?.unwrap_or_default();
        let (mut n_answered, mut refusal) = (0, String::new());
        for url in urls.split_whitespace() {
            match http::send(&http::Request::get(url)) {
                Ok(response) if response.text().contains("inside") => {
                    return Ok(format!("PWNED: {url} answered from inside"));
                }
                Ok(_) => n_answered += 1,
                Err(Error::Denied(why) | Error::Limit(why) | Error::InvalidInput(why)) => {
                    refusal = why
                }
                Err(other) => refusal = format!("{other:?}"),
            }
        }
        Ok(format!("{n_answered} answered, refused: {refusal}"))
    }
}

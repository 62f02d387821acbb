//! Builds requests to search engines, and parses their answers.

use rind_sdk::http::{Request, Response};
use rind_sdk::prelude::*;
use rind_sdk::serde_json::{self, Value};

/// Search engine that the settings select.
#[data]
#[derive(Copy, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SearchEngine {
    /// No engine is configured.
    None,
    /// The API of Brave Search.
    Brave,
    /// SearXNG server.
    Searxng,
}

/// Builds the request for a search. The host adds the API key.
pub(crate) fn build_search_request(
    engine: SearchEngine,
    searxng_url: &str,
    query: &str,
    count: usize,
) -> Result<Request, Error> {
    let query = percent_encode_query(query);
    let url = match engine {
        SearchEngine::None => {
            return Err("no search engine is set: the operator names one in [plugins.web.config] engine = \"brave\" or \"searxng\"".into());
        }
        SearchEngine::Brave => {
            format!("https://api.search.brave.com/res/v1/web/search?q={query}&count={count}")
        }
        SearchEngine::Searxng if searxng_url.is_empty() => {
            return Err("the operator has not set `searxng_url` in [plugins.web.config]".into());
        }
        SearchEngine::Searxng => {
            let base = searxng_url.trim_end_matches('/');
            format!("{base}/search?q={query}&format=json")
        }
    };
    Ok(Request::get(url).header("accept", "application/json"))
}

/// Formats at most `count` results as Markdown: title, URL, excerpt.
pub(crate) fn format_search_results(
    engine: SearchEngine,
    response: &Response,
    count: usize,
) -> Result<Vec<String>, Error> {
    if response.status != 200 {
        return Err(format!("the search engine answered with status {}", response.status).into());
    }
    let answer: Value = serde_json::from_slice(&response.body)
        .map_err(|error| format!("the search engine did not answer in JSON: {error}"))?;
    let (list, excerpt) = match engine {
        SearchEngine::Brave => (&answer["web"]["results"], "description"),
        SearchEngine::Searxng | SearchEngine::None => (&answer["results"], "content"),
    };
    let results = list.as_array().into_iter().flatten().take(count);
    Ok(results
        .map(|result| format_search_result(result, excerpt))
        .collect())
}

fn format_search_result(result: &Value, excerpt: &str) -> String {
    let entry = |key: &str| {
        let text = result[key].as_str().unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    format!(
        "- {}\n  {}\n  {}",
        entry("title"),
        entry("url"),
        entry(excerpt)
    )
}

/// Percent-encodes a text for the query of a URL; the unreserved characters of RFC 3986 are kept.
fn percent_encode_query(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encode = |byte: u8| match byte {
        byte if is_plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.trim().bytes().map(encode).collect()
}

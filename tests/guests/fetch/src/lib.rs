//! Sends the requests it is told to, through the host's own interface or through WASI's, and shows all it sees.

mod wasi;

#[rind_sdk::plugin]
mod fetch {
    use rind_sdk::http;
    use rind_sdk::prelude::*;
    use rind_sdk::serde_json::{self, Value, json};

    use super::wasi;

    #[args]
    struct Asked {
        /// `rind` or `wasi`.
        face: String,
        /// Method of the request.
        method: String,
        /// URL to ask.
        url: String,
        /// Headers as lines `name: value`.
        headers: Vec<String>,
        /// Body of the request.
        body: String,
    }

    #[args]
    struct Many {
        /// URL to ask.
        url: String,
        /// Number of requests that are begun before the first answer is waited for.
        count: u32,
        /// Whether each is waited for before the next, and its answer left unread.
        waits: bool,
    }

    /// Sends a request. Answers with a JSON object: `status`, `headers` and `body`, or `error`.
    #[tool(effect = "read")]
    fn fetch(asked: Asked) -> String {
        let headers: Vec<(String, String)> = asked
            .headers
            .iter()
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let body = body(&asked.body);
        let answer = if asked.face == "wasi" {
            wasi::send(&asked.method, &asked.url, &headers, &body)
        } else {
            ours(&asked.method, &asked.url, headers, body)
        };
        answer
            .unwrap_or_else(|error| json!({ "error": error }))
            .to_string()
    }

    /// Begins many requests through WASI and then waits for each. Answers with a JSON array of statuses and errors.
    #[tool(effect = "read")]
    fn many(asked: Many) -> String {
        let begun: Vec<_> = (0..asked.count)
            .map(|_| {
                let request = wasi::begin("GET", &asked.url, &[], &[]);
                if asked.waits
                    && let Ok(answer) = &request
                {
                    answer.subscribe().block();
                }
                request
            })
            .collect();
        let ended = begun.into_iter().map(|request| {
            let answer = request.and_then(wasi::end);
            answer.map_or_else(Value::from, |answer| answer["status"].clone())
        });
        serde_json::to_string(&ended.collect::<Vec<Value>>()).unwrap_or_default()
    }

    /// Shows the environment.
    #[tool(effect = "read")]
    fn environment() -> String {
        format!("{:?}", std::env::vars().collect::<Vec<_>>())
    }

    fn ours(
        method: &str,
        url: &str,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    ) -> Result<Value, String> {
        let mut request = http::Request::new(method, url);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.body = body;
        let answer = http::send(&request).map_err(|error| format!("{error:?}"))?;
        let headers = answer.headers.iter();
        let headers: Vec<String> = headers
            .map(|header| format!("{}: {}", header.name, header.value))
            .collect();
        Ok(shown(answer.status, &headers, &answer.body))
    }

    /// An answer as the tests read it: of a long body the length is enough.
    pub(super) fn shown(status: u16, headers: &[String], body: &[u8]) -> Value {
        let text = String::from_utf8_lossy(&body[..body.len().min(100_000)]);
        json!({ "status": status, "headers": headers, "body": text, "length": body.len() })
    }

    /// The body to send; `N bytes` is that many.
    fn body(text: &str) -> Vec<u8> {
        let count = text.strip_suffix(" bytes").and_then(|n| n.parse().ok());
        count.map_or_else(|| text.as_bytes().to_vec(), |n| vec![b'x'; n])
    }
}

//! An MCP server over HTTP that requires a login, and its authorization server, on one loopback
//! port.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rind_tests::server::{Received, Reply, Server};
use serde_json::{Value, json};

/// Faults that the servers simulate.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    /// Fields that override the MCP server's metadata.
    pub resource: Option<Value>,
    /// Fields that override the authorization server's metadata.
    pub issuer: Option<Value>,
    /// URL to which a request for the MCP server's metadata is redirected.
    pub redirect: Option<String>,
    /// Number of bytes of padding before the authorization server's metadata.
    pub padding: usize,
    /// Status and body that the token endpoint returns instead of a token.
    pub token: Option<(u16, Value)>,
    /// Status that the revocation endpoint returns.
    pub revoke: Option<u16>,
    /// Whether neither server publishes metadata.
    pub no_metadata: bool,
}

/// State of the servers.
#[derive(Default)]
pub(super) struct State {
    pub faults: Faults,
    /// Lifetime of the next tokens, in seconds.
    pub lifetime: Option<u64>,
    /// Scopes of the next tokens.
    pub scope: Option<String>,
    /// PKCE challenges by authorization code.
    codes: BTreeMap<String, String>,
    /// Access tokens that the server accepts.
    pub valid: Vec<String>,
    refresh: String,
    n_tokens: u32,
    /// Bodies of requests to the token endpoint.
    pub asked: Vec<BTreeMap<String, String>>,
    /// Bodies of registrations.
    pub registered: Vec<Value>,
    /// Bodies of requests to the revocation endpoint, each with its `authorization` header.
    pub revoked: Vec<(BTreeMap<String, String>, String)>,
}

/// An MCP server that requires a login, with its authorization server.
pub(super) struct LoginServer {
    pub server: Server,
    pub state: Arc<Mutex<State>>,
}

impl LoginServer {
    pub(super) async fn start(faults: Faults) -> Self {
        let state = Arc::new(Mutex::new(State {
            faults,
            lifetime: Some(3600),
            ..State::default()
        }));
        let own = state.clone();
        let server = Server::start(move |received: &Received| answer(&own, received)).await;
        Self { server, state }
    }

    pub(super) fn url(&self) -> String {
        self.server.at("127.0.0.1", "/mcp")
    }

    /// Approves a login page's address as a person in a browser would, and returns the address to
    /// which the browser is redirected.
    pub(super) fn approve(&self, page: &str) -> String {
        let (_, query) = page.split_once('?').unwrap();
        let asked = pairs(query);
        assert_eq!(asked["response_type"], "code");
        assert_eq!(asked["code_challenge_method"], "S256");
        assert_eq!(asked["resource"], self.url());
        let mut state = self.state.lock().unwrap();
        let code = format!("code-{}", state.codes.len());
        state
            .codes
            .insert(code.clone(), asked["code_challenge"].clone());
        let issuer = self
            .server
            .at("127.0.0.1", "/as")
            .replace(':', "%3A")
            .replace('/', "%2F");
        format!(
            "{}?code={code}&state={}&iss={issuer}",
            asked["redirect_uri"], asked["state"]
        )
    }

    /// Requests to the token endpoint with this grant type.
    pub(super) fn asked(&self, grant: &str) -> Vec<BTreeMap<String, String>> {
        let state = self.state.lock().unwrap();
        let all = state
            .asked
            .iter()
            .filter(|body| body["grant_type"] == grant);
        all.cloned().collect()
    }

    /// Tokens of the requests to the MCP server.
    pub(super) fn sent_tokens(&self) -> Vec<String> {
        let all = self.server.received();
        let lines = all.iter().filter(|one| one.line.starts_with("POST /mcp"));
        lines
            .flat_map(|one| &one.headers)
            .filter_map(|line| line.strip_prefix("authorization: Bearer "))
            .map(str::to_owned)
            .collect()
    }
}

/// Decodes `application/x-www-form-urlencoded`.
pub(super) fn pairs(text: &str) -> BTreeMap<String, String> {
    let decode = |text: &str| {
        let text = text.replace('+', " ");
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes();
        while let [first, after @ ..] = rest {
            rest = after;
            match (first, after) {
                (b'%', [high, low, more @ ..]) => {
                    let hex = [*high, *low];
                    bytes.push(u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap());
                    rest = more;
                }
                (byte, _) => bytes.push(*byte),
            }
        }
        String::from_utf8(bytes).unwrap()
    };
    let all = text.split('&').filter_map(|pair| pair.split_once('='));
    all.map(|(name, value)| (decode(name), decode(value)))
        .collect()
}

fn json_reply(status: u16, body: &Value) -> Reply {
    let headers = vec!["content-type: application/json".to_owned()];
    Reply::Plain(status, headers, body.to_string().into_bytes())
}

fn merge(mut value: Value, changes: Option<&Value>) -> Value {
    for (key, change) in changes.and_then(Value::as_object).into_iter().flatten() {
        match change {
            Value::Null => value.as_object_mut().unwrap().remove(key),
            change => value
                .as_object_mut()
                .unwrap()
                .insert(key.clone(), change.clone()),
        };
    }
    value
}

fn answer(state: &Mutex<State>, received: &Received) -> Reply {
    let mut state = state.lock().unwrap();
    let host = received
        .headers
        .iter()
        .find_map(|line| line.strip_prefix("host: "));
    let base = format!("http://{}", host.unwrap());
    let (method, path) = received.line.split_once(' ').unwrap();
    let faults = state.faults.clone();
    match (method, path) {
        (_, "/mcp") => {
            let token = received.headers.iter();
            let mut token = token.filter_map(|line| line.strip_prefix("authorization: Bearer "));
            if token
                .next()
                .is_some_and(|token| state.valid.iter().any(|own| own == token))
            {
                return super::super::http::answer(received);
            }
            let metadata = format!("{base}/.well-known/oauth-protected-resource/mcp");
            let challenge = match faults.no_metadata {
                true => "www-authenticate: Bearer".to_owned(),
                false => {
                    format!(
                        "www-authenticate: Bearer resource_metadata=\"{metadata}\", scope=\"read\""
                    )
                }
            };
            Reply::Plain(401, vec![challenge], Vec::new())
        }
        _ if faults.no_metadata => Reply::Plain(404, Vec::new(), Vec::new()),
        ("GET", "/.well-known/oauth-protected-resource/mcp") => {
            if let Some(location) = &faults.redirect {
                return Reply::to(302, location);
            }
            let metadata = json!({
                "resource": format!("{base}/mcp"),
                "authorization_servers": [format!("{base}/as")],
                "scopes_supported": ["read", "write"],
            });
            json_reply(200, &merge(metadata, faults.resource.as_ref()))
        }
        ("GET", "/.well-known/oauth-authorization-server/as") => {
            let metadata = json!({
                "issuer": format!("{base}/as"),
                "authorization_endpoint": format!("{base}/as/authorize"),
                "token_endpoint": format!("{base}/as/token"),
                "registration_endpoint": format!("{base}/as/register"),
                "revocation_endpoint": format!("{base}/as/revoke"),
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": true,
            });
            let mut metadata = merge(metadata, faults.issuer.as_ref());
            metadata["padding"] = json!(" ".repeat(faults.padding));
            json_reply(200, &metadata)
        }
        ("POST", "/as/register") => {
            let body: Value = serde_json::from_slice(&received.body).unwrap();
            let uris = body["redirect_uris"].clone();
            state.registered.push(body);
            json_reply(
                201,
                &json!({"client_id": "client-1", "client_secret": "client-secret-1", "redirect_uris": uris}),
            )
        }
        ("POST", "/as/revoke") => {
            let body = pairs(std::str::from_utf8(&received.body).unwrap());
            let mut proofs = received.headers.iter();
            let proof = proofs.find_map(|line| line.strip_prefix("authorization: "));
            let proof = proof.unwrap_or_default().to_owned();
            state.valid.retain(|token| *token != body["token"]);
            state.revoked.push((body, proof));
            Reply::Plain(faults.revoke.unwrap_or(200), Vec::new(), Vec::new())
        }
        ("POST", "/as/token") => {
            let body = pairs(std::str::from_utf8(&received.body).unwrap());
            state.asked.push(body.clone());
            if let Some((status, answer)) = &faults.token {
                return json_reply(*status, answer);
            }
            give_token(&mut state, &body)
        }
        _ => Reply::Plain(404, Vec::new(), Vec::new()),
    }
}

fn give_token(state: &mut State, body: &BTreeMap<String, String>) -> Reply {
    let refuse = || json_reply(400, &json!({"error": "invalid_grant"}));
    match body["grant_type"].as_str() {
        "authorization_code" => {
            let Some(challenge) = state.codes.remove(&body["code"]) else {
                return refuse();
            };
            let verifier = body["code_verifier"].as_bytes();
            let digest = ring::digest::digest(&ring::digest::SHA256, verifier);
            if URL_SAFE_NO_PAD.encode(digest) != challenge {
                return refuse();
            }
        }
        // A refresh token can be used only once.
        _ if body["refresh_token"] != state.refresh => return refuse(),
        _ => state.valid.clear(),
    }
    state.n_tokens += 1;
    let token = format!("access-token-{}", state.n_tokens);
    state.refresh = format!("refresh-token-{}", state.n_tokens);
    state.valid.push(token.clone());
    let mut answer = json!({
        "access_token": token, "token_type": "Bearer", "refresh_token": state.refresh,
    });
    if let Some(scope) = state.scope.clone() {
        answer["scope"] = json!(scope);
    }
    if let Some(lifetime) = state.lifetime {
        answer["expires_in"] = json!(lifetime);
    }
    json_reply(200, &answer)
}

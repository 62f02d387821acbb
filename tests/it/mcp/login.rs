//! Logins at MCP servers over HTTP, and servers that misbehave during a login.

mod mock;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::time::Duration;

use rind_tests::cli::Rind;
use serde_json::{Value, json};

use self::mock::{Faults, LoginServer, pairs};
use super::{ECHOES, results, turn};

fn machine(server: &LoginServer, settings: &str) -> Rind {
    let rind = Rind::with_script(ECHOES);
    rind.config(&format!(
        "[mcp.docs]\nurl = \"{}\"\n{settings}",
        server.url()
    ));
    rind
}

/// A running `rind mcp login`.
struct Login {
    child: Child,
    lines: BufReader<std::process::ChildStderr>,
    /// Address that the person opens in a browser.
    page: String,
}

impl Login {
    fn start(rind: &Rind, args: &[&str]) -> Self {
        let all = [&["mcp", "login", "docs"], args].concat();
        let mut command = rind.command(&all);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut shown = String::new();
        let page = loop {
            let mut line = String::new();
            let is_over = lines.read_line(&mut line).unwrap() == 0;
            shown.push_str(&line);
            assert!(!is_over, "{shown}");
            if let Some(at) = line
                .find("http")
                .filter(|_| line.contains("code_challenge="))
            {
                break line[at..].trim().to_owned();
            }
        };
        Self { child, lines, page }
    }

    /// Address to which the browser is redirected, without its query.
    fn redirect(&self) -> String {
        pairs(self.page.split_once('?').unwrap().1)["redirect_uri"].clone()
    }

    fn state(&self) -> String {
        pairs(self.page.split_once('?').unwrap().1)["state"].clone()
    }

    fn paste(&mut self, address: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        // The line is written in one piece, as by a terminal.
        stdin.write_all(format!("{address}\n").as_bytes()).unwrap();
    }

    /// Reads lines until the program prints these words.
    fn hears(&mut self, words: &str) {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "{words}");
        }
    }

    /// Waits for the program. Returns its exit code and the rest of its output.
    fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

/// Opens an address like a browser and returns the response.
fn browse(address: &str, host: Option<&str>) -> String {
    let rest = address.strip_prefix("http://").unwrap();
    let (authority, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(authority).unwrap();
    let host = host.unwrap_or(authority);
    write!(
        stream,
        "GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut shown = String::new();
    stream.read_to_string(&mut shown).unwrap();
    shown
}

fn log_in(rind: &Rind, server: &LoginServer) {
    let login = Login::start(rind, &[]);
    browse(&server.approve(&login.page), None);
    let (code, said) = login.end();
    assert_eq!(code, Some(0), "{said}");
}

/// Content of the file with the login.
fn stored(rind: &Rind) -> Option<Value> {
    let text = std::fs::read_to_string(rind.home().join("data/mcp-logins/docs.json"));
    text.ok().map(|text| serde_json::from_str(&text).unwrap())
}

async fn blocking(work: impl FnOnce() + Send + 'static) {
    tokio::task::spawn_blocking(work).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_in_a_browser_gives_a_token_that_only_the_server_sees() {
    let server = LoginServer::start(Faults::default()).await;
    blocking(move || {
        let rind = machine(&server, "");
        let ran = rind.run(&["mcp", "test", "docs", "--yes"]);
        assert_eq!(ran.code, Some(1));
        assert!(
            ran.stderr
                .contains("run `rind mcp login docs --scope=read`"),
            "{}",
            ran.stderr
        );

        let login = Login::start(&rind, &[]);
        let asked = pairs(login.page.split_once('?').unwrap().1);
        assert_eq!(
            (asked["scope"].as_str(), asked["client_id"].as_str()),
            ("read", "client-1")
        );
        let address = server.approve(&login.page);
        // Wrong requests from other websites or programs do not end the login.
        for wrong in [
            format!("{}?code=x&state=other", login.redirect()),
            format!("{}?code=x", login.redirect()),
            format!(
                "{}?code=x&state={1}&state={1}",
                login.redirect(),
                login.state()
            ),
            login.redirect(),
        ] {
            assert!(browse(&wrong, None).contains("not the answer"), "{wrong}");
        }
        assert!(browse(&address, Some("evil.example")).starts_with("HTTP/1.1 403"));
        let shown = browse(&address, None);
        assert!(shown.contains("You are logged in"), "{shown}");
        assert!(shown.contains("referrer-policy: no-referrer"), "{shown}");
        let (code, said) = login.end();
        assert_eq!(code, Some(0), "{said}");

        let registered = server.state.lock().unwrap().registered.clone();
        assert_eq!(registered[0]["application_type"], "native");
        let asked = server.asked("authorization_code");
        assert_eq!(asked[0]["resource"], server.url());
        let file = rind.home().join("data/mcp-logins/docs.json");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);

        let ran = rind.run(&["mcp", "test", "docs", "--yes"]);
        assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
        let ran = turn(&rind);
        assert!(
            results(&ran)[0].contains("[masked: MCP_LOGIN_TOKEN]"),
            "{:?}",
            results(&ran)
        );
        let session = rind.run(&["session", "export", "last", "--format", "jsonl"]);
        let list = rind.run(&["mcp", "list", "--json"]);
        for text in [
            &said,
            &ran.stdout,
            &ran.stderr,
            &session.stdout,
            &list.stdout,
        ] {
            assert!(
                !text.contains("access-token-1") && !text.contains("refresh-token-1"),
                "{text}"
            );
        }
        assert!(
            server
                .sent_tokens()
                .iter()
                .all(|token| token == "access-token-1")
        );
        assert!(list.stdout.contains("/as\""), "{}", list.stdout);

        // The token is not sent to a different address.
        let n_sent = server.sent_tokens().len();
        rind.config(&format!("[mcp.docs]\nurl = \"{}?x\"\n", server.url()));
        assert_eq!(rind.run(&["mcp", "test", "docs", "--yes"]).code, Some(1));
        assert_eq!(server.sent_tokens().len(), n_sent);
        assert_eq!(rind.run(&["mcp", "remove", "docs"]).code, Some(0));
        assert!(!file.exists());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pasted_address_ends_a_login_without_a_browser_here() {
    let server = LoginServer::start(Faults::default()).await;
    blocking(move || {
        let rind = machine(
            &server,
            "client_id = \"mine\"\nclient_secret = \"DOCS_SECRET\"\nscopes = [\"a\"]\n",
        );
        let ran = rind.run(&["mcp", "login", "docs"]);
        assert!(
            ran.stderr.contains("needs the secret `DOCS_SECRET`"),
            "{}",
            ran.stderr
        );
        rind.user_file(
            "config/secrets.toml",
            "DOCS_SECRET = \"secret-of-client\"\n",
        );
        let secrets = rind.home().join("config/secrets.toml");
        std::fs::set_permissions(secrets, PermissionsExt::from_mode(0o600)).unwrap();
        let mut login = Login::start(&rind, &["--scope", "b", "--scope", "c"]);
        let asked = pairs(login.page.split_once('?').unwrap().1);
        assert_eq!(
            (asked["scope"].as_str(), asked["client_id"].as_str()),
            ("b c", "mine")
        );
        login.paste("hello");
        login.hears("it is no address");
        login.paste(&format!(
            "https://evil.example/callback?code=x&state={}",
            login.state()
        ));
        login.hears("does not begin with");
        login.paste(&server.approve(&login.page));
        let (code, said) = login.end();
        assert_eq!(code, Some(0), "{said}");
        assert!(server.state.lock().unwrap().registered.is_empty());
        let basic = server.server.received();
        let basic = basic
            .iter()
            .find(|one| one.line == "POST /as/token")
            .unwrap();
        assert!(basic.names("authorization"), "{basic:?}");
        assert_eq!(rind.run(&["mcp", "test", "docs", "--yes"]).code, Some(0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_do_wrong_get_no_login() {
    let base = |resource: Value| Faults {
        resource: Some(resource),
        ..Faults::default()
    };
    let issuer = |issuer: Value| Faults {
        issuer: Some(issuer),
        ..Faults::default()
    };
    let redirect = |to: &str| Faults {
        redirect: Some(to.to_owned()),
        ..Faults::default()
    };
    let table = [
        (
            issuer(json!({"issuer": "https://good.example"})),
            "issuer mismatch",
        ),
        (issuer(json!({"issuer": null})), "issuer"),
        (
            base(json!({"resource": "https://good.example/mcp"})),
            "mismatch",
        ),
        (base(json!({"resource": null})), "missing required resource"),
        (
            issuer(json!({"token_endpoint": "http://good.example/token"})),
            "not encrypted",
        ),
        (
            issuer(json!({"authorization_endpoint": "http://good.example/a"})),
            "not encrypted",
        ),
        (
            issuer(json!({"authorization_endpoint": "file:///etc/passwd"})),
            "is not an address",
        ),
        (
            issuer(json!({"authorization_endpoint": "javascript:alert(1)"})),
            "does not begin",
        ),
        (
            issuer(json!({"registration_endpoint": "https://10.0.0.1/r"})),
            "private address",
        ),
        (
            issuer(json!({"registration_endpoint": "https://169.254.169.254/r"})),
            "cloud metadata",
        ),
        (
            issuer(json!({"registration_endpoint": null})),
            "set `client_id`",
        ),
        (
            base(json!({"authorization_servers": ["http://10.0.0.1"]})),
            "none published",
        ),
        (
            base(json!({"authorization_servers": ["http://169.254.169.254"]})),
            "none published",
        ),
        (
            base(json!({"authorization_servers": ["http://good.example"]})),
            "not encrypted",
        ),
        (
            issuer(json!({"code_challenge_methods_supported": null})),
            "PKCE",
        ),
        (
            issuer(json!({"code_challenge_methods_supported": ["plain"]})),
            "PKCE",
        ),
        (redirect("http://169.254.169.254/latest"), "169.254.169.254"),
        (redirect("https://good.example/"), "good.example"),
        (
            redirect("/.well-known/oauth-protected-resource/mcp"),
            "redirect",
        ),
        (
            Faults {
                padding: 300 << 10,
                ..Faults::default()
            },
            "at most 262144",
        ),
        (
            Faults {
                padding: 11 << 20,
                ..Faults::default()
            },
            "10 MiB",
        ),
        (
            Faults {
                no_metadata: true,
                ..Faults::default()
            },
            "publishes no metadata",
        ),
    ];
    for (faults, expected) in table {
        let what = format!("{faults:?}");
        let what = what.get(..200.min(what.len())).unwrap().to_owned();
        let server = LoginServer::start(faults).await;
        blocking(move || {
            let rind = machine(&server, "");
            let ran = rind.run(&["mcp", "login", "docs"]);
            assert_eq!(ran.code, Some(1), "{what}: {}", ran.stderr);
            assert!(ran.stderr.contains(expected), "{what}: {}", ran.stderr);
            assert!(server.asked("authorization_code").is_empty());
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_do_not_belong_to_the_login_give_no_token() {
    /// Status and body that the token endpoint returns instead of a token.
    type TokenAnswer = Option<(u16, Value)>;
    let answers: [(&str, TokenAnswer, &str, usize); 6] = [
        (
            "code=x&state=STATE&iss=https%3A%2F%2Fevil.example",
            None,
            "mixed up",
            0,
        ),
        ("code=x&state=STATE", None, "missing required issuer", 0),
        (
            "error=access_denied&error_description=no%1b%5b31m&state=STATE",
            None,
            "access_denied",
            0,
        ),
        ("code=x&state=STATE&iss=ISSUER", None, "invalid_grant", 1),
        (
            "code=x&state=STATE&iss=ISSUER",
            Some((
                200,
                json!({"access_token": "abcdefgh", "token_type": "mac"}),
            )),
            "not of the type `Bearer`",
            1,
        ),
        (
            "code=x&state=STATE&iss=ISSUER",
            Some((302, json!({}))),
            "failed",
            1,
        ),
    ];
    for (query, token, expected, n_asked) in answers {
        let server = LoginServer::start(Faults {
            token,
            ..Faults::default()
        })
        .await;
        blocking(move || {
            let rind = machine(&server, "");
            let mut login = Login::start(&rind, &[]);
            let issuer = server.server.at("127.0.0.1", "/as");
            let query = query
                .replace("STATE", &login.state())
                .replace("ISSUER", &issuer);
            login.paste(&format!("{}?{query}", login.redirect()));
            let (code, said) = login.end();
            assert_eq!(code, Some(1), "{query}: {said}");
            assert!(
                said.contains(expected) && !said.contains('\u{1b}'),
                "{query}: {said}"
            );
            assert_eq!(server.asked("authorization_code").len(), n_asked, "{query}");
            assert_eq!(stored(&rind), None, "{query}");
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_renewed_before_its_end_by_one_process_at_a_time() {
    let server = LoginServer::start(Faults::default()).await;
    blocking(move || {
        let rind = machine(&server, "");
        server.state.lock().unwrap().lifetime = Some(1);
        log_in(&rind, &server);
        server.state.lock().unwrap().lifetime = Some(3600);
        std::thread::sleep(Duration::from_millis(1500));
        let both = std::thread::scope(|scope| {
            let test = || rind.run(&["mcp", "test", "docs", "--yes"]).code;
            let other = scope.spawn(test);
            (test(), other.join().unwrap())
        });
        assert_eq!(both, (Some(0), Some(0)));
        let asked = server.asked("refresh_token");
        assert_eq!(asked.len(), 1, "{asked:?}");
        assert_eq!(asked[0]["resource"], server.url());
        assert_eq!(asked[0]["refresh_token"], "refresh-token-1");

        // A token that the server rejects is refreshed once.
        server.state.lock().unwrap().valid.clear();
        assert_eq!(results(&turn(&rind)).len(), 1);
        assert_eq!(server.asked("refresh_token").len(), 2);
        assert!(
            stored(&rind)
                .unwrap()
                .to_string()
                .contains("access-token-3")
        );

        // The authorization server revoked the login.
        let mut state = server.state.lock().unwrap();
        state.valid.clear();
        state.faults.token = Some((
            400,
            json!({"error": "invalid_grant", "error_description": "hunter2"}),
        ));
        drop(state);
        let ran = turn(&rind);
        let found = results(&ran);
        assert!(found[0].contains("run `rind mcp login docs`"), "{found:?}");
        assert!(
            !ran.stdout.contains("hunter2") && !ran.stdout.contains("access-token"),
            "{}",
            ran.stdout
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_goes_to_nobody_but_the_issuer_of_the_login() {
    for (faults, expected) in [
        (
            Faults {
                issuer: Some(json!({"token_endpoint": "http://evil.example/token"})),
                ..Faults::default()
            },
            "not encrypted",
        ),
        (
            Faults {
                resource: Some(json!({"authorization_servers": ["https://evil.example"]})),
                ..Faults::default()
            },
            "cannot be renewed now",
        ),
        (
            Faults {
                no_metadata: true,
                ..Faults::default()
            },
            "another authorization server",
        ),
    ] {
        let server = LoginServer::start(Faults::default()).await;
        blocking(move || {
            let rind = machine(&server, "");
            server.state.lock().unwrap().lifetime = Some(1);
            log_in(&rind, &server);
            server.state.lock().unwrap().faults = faults;
            std::thread::sleep(Duration::from_millis(1500));
            let ran = rind.run(&["mcp", "test", "docs", "--yes"]);
            assert_eq!(ran.code, Some(1), "{}", ran.stderr);
            assert!(ran.stderr.contains(expected), "{expected}: {}", ran.stderr);
            assert!(server.asked("refresh_token").is_empty());
            // A file that others can read is not used.
            let file = rind.home().join("data/mcp-logins/docs.json");
            std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
            let ran = rind.run(&["mcp", "test", "docs", "--yes"]);
            assert!(
                ran.stderr.contains("other users can read"),
                "{}",
                ran.stderr
            );
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_server_has_its_tokens_revoked_where_they_came_from_and_loses_them_in_any_case() {
    let basic = "Basic Y2xpZW50LTE6Y2xpZW50LXNlY3JldC0x";
    let none = Value::Null;
    for (then, expected, n_revoked, proof) in [
        (
            Faults::default(),
            "its tokens were revoked at http",
            2,
            basic,
        ),
        (
            Faults {
                issuer: Some(
                    json!({"token_endpoint_auth_methods_supported": ["client_secret_post"]}),
                ),
                ..Faults::default()
            },
            "its tokens were revoked at http",
            2,
            "",
        ),
        (
            Faults {
                revoke: Some(503),
                ..Faults::default()
            },
            "its tokens could not be revoked: the authorization server answered with 503; to end them now, end the login on the website of",
            1,
            basic,
        ),
        (
            Faults {
                issuer: Some(json!({"revocation_endpoint": none})),
                ..Faults::default()
            },
            "its tokens stay valid until they expire",
            0,
            "",
        ),
        (
            Faults {
                issuer: Some(json!({"revocation_endpoint": "http://evil.example/revoke"})),
                ..Faults::default()
            },
            "not encrypted",
            0,
            "",
        ),
        (
            Faults {
                resource: Some(json!({"authorization_servers": ["https://evil.example"]})),
                ..Faults::default()
            },
            "its tokens could not be revoked",
            0,
            "",
        ),
        (
            Faults {
                no_metadata: true,
                ..Faults::default()
            },
            "which is no longer the authorization server that the MCP server names",
            0,
            "",
        ),
    ] {
        let server = LoginServer::start(Faults::default()).await;
        blocking(move || {
            let rind = machine(&server, "");
            log_in(&rind, &server);
            server.state.lock().unwrap().faults = then;
            let ran = rind.run(&["mcp", "remove", "docs"]);
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            assert!(ran.stderr.contains(expected), "{expected}: {}", ran.stderr);
            assert!(!ran.stderr.contains("-token-1"), "{}", ran.stderr);
            assert!(stored(&rind).is_none());
            let revoked = server.state.lock().unwrap().revoked.clone();
            let tokens: Vec<&str> = revoked.iter().map(|(body, _)| &*body["token"]).collect();
            assert_eq!(tokens, ["refresh-token-1", "access-token-1"][..n_revoked]);
            for (body, sent) in &revoked {
                assert_eq!(sent, proof);
                assert_eq!(body.contains_key("client_secret"), proof.is_empty());
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_about_the_client_is_used_where_the_authorization_server_reads_it() {
    for (reads, expected) in [
        (json!(true), None),
        (json!(false), Some("does not declare that it accepts")),
    ] {
        let server = LoginServer::start(Faults {
            issuer: Some(json!({
                "client_id_metadata_document_supported": reads, "registration_endpoint": Value::Null,
            })),
            ..Faults::default()
        })
        .await;
        blocking(move || {
            let document = "https://client.example/rind.json";
            let rind = machine(&server, &format!("client_id = \"{document}\"\n"));
            match expected {
                None => {
                    let login = Login::start(&rind, &[]);
                    let asked = pairs(login.page.split_once('?').unwrap().1);
                    assert_eq!(asked["client_id"], document);
                    browse(&server.approve(&login.page), None);
                    assert_eq!(login.end().0, Some(0));
                    let asked = server.asked("authorization_code");
                    assert_eq!(asked[0]["client_id"], document);
                }
                Some(why) => {
                    let ran = rind.run(&["mcp", "login", "docs"]);
                    assert_eq!(ran.code, Some(1));
                    assert!(ran.stderr.contains(why), "{}", ran.stderr);
                }
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_for_one_more_scope_asks_for_those_of_the_present_login_as_well() {
    let server = LoginServer::start(Faults::default()).await;
    blocking(move || {
        let rind = machine(&server, "");
        server.state.lock().unwrap().scope = Some("read list".to_owned());
        log_in(&rind, &server);
        let scopes = |rind: &Rind, args: &[&str]| {
            let mut login = Login::start(rind, args);
            let asked = pairs(login.page.split_once('?').unwrap().1)["scope"].clone();
            let _ = login.child.kill();
            asked
        };
        assert_eq!(
            scopes(&rind, &["--scope", "write", "--scope", "read"]),
            "write read list"
        );
        assert_eq!(scopes(&rind, &[]), "read");
        // A different address needs its own login, so the scopes of the first one are not added.
        rind.config(&format!("[mcp.docs]\nurl = \"{}?x\"\n", server.url()));
        assert_eq!(scopes(&rind, &["--scope", "write"]), "write");
    })
    .await;
}

#[test]
fn a_login_is_refused_where_the_settings_rule_it_out() {
    let rind = Rind::with_script(ECHOES);
    rind.config(
        "[mcp.program]\ncommand = \"true\"\n[mcp.token]\nurl = \"https://a.example\"\nheaders = { Authorization = \"{A}\" }\n",
    );
    for (name, expected) in [
        ("program", "is a program"),
        ("token", "remove `authorization`"),
        ("other", "there is no MCP server `other`"),
        ("../x", "there is no MCP server"),
    ] {
        let ran = rind.run(&["mcp", "login", name]);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{name}: {}", ran.stderr);
    }
}

//! Checks that only the listed files use the sandbox, processes, the terminal and the environment.

use super::additions;
use super::table::Table;
use super::tree::{Source, has_word};

/// A rule that restricts names to some files.
struct Rule {
    names: &'static [&'static str],
    /// Folders and files that may use the names, each with the reason.
    allowed: &'static [(&'static str, &'static str)],
    why: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        names: &["wasmtime", "wasmtime_wasi"],
        allowed: &[
            ("host/src/plugin/", "it is the sandbox"),
            (
                "host/src/point/contract.rs",
                "it generates plain types from the contract and calls nothing",
            ),
        ],
        why: "only `plugin` knows the engine",
    },
    Rule {
        names: &[
            "reqwest",
            "tokio_tungstenite",
            "TcpStream",
            "UdpSocket",
            "lookup_host",
        ],
        allowed: &[
            (
                "host/crates/process/src/confine/probe.rs",
                "it tries whether a confined process reaches a socket of its own making",
            ),
            ("host/src/egress/", "it is the way out for plugins"),
            ("host/src/provider/", "it talks to the operator's model"),
            (
                "host/crates/package/src/registry/",
                "it downloads what the operator installs",
            ),
        ],
        why: "requests of plugins leave through `egress`, and nothing else speaks to the network",
    },
    Rule {
        names: &["rmcp"],
        allowed: &[(
            "host/crates/mcp/",
            "it is the client of MCP, whose library has a new major version every few months",
        )],
        why: "only `rind-mcp` knows the protocol",
    },
    Rule {
        names: &["async_nats"],
        allowed: &[(
            "host/crates/nats/src/",
            "it is the store on NATS, and checks each server before it uses it",
        )],
        why: "sessions reach servers through the store alone",
    },
    Rule {
        names: &["agent_client_protocol_schema"],
        allowed: &[(
            "host/crates/acp/src/wire.rs",
            "it gives the types of the protocol the names that the rest of the crate uses",
        )],
        why: "versions of the protocol's crates follow one another quickly",
    },
    Rule {
        names: &["Command::new", "process::Command"],
        allowed: &[(
            "host/crates/process/src/",
            "it starts every process: deadline, group, capped output",
        )],
        why: "processes are started by `rind-process` only",
    },
    Rule {
        names: &[
            "print!",
            "println!",
            "eprint!",
            "eprintln!",
            "dbg!",
            "stdout()",
            "stderr()",
            "stdin()",
        ],
        allowed: &[
            (
                "host/crates/cli/src/",
                "it is what people use; everything below it tells its caller or traces",
            ),
            (
                "host/crates/process/src/confine/",
                "its helper is a program of its own, and standard input is its line to the host",
            ),
            (
                "host/crates/embed/src/build.rs",
                "it runs in build scripts, and cargo reads what it prints",
            ),
            ("sdk/rust/macros/src/build.rs", "cargo reads what it prints"),
        ],
        why: "only `cli` has a terminal",
    },
    Rule {
        names: &["axum", "hyper", "hyper_util", "maud"],
        allowed: &[(
            "host/crates/serve/src/",
            "it checks who sends a request before anything answers it",
        )],
        why: "no request from outside reaches a session past the access check",
    },
    Rule {
        names: &["clap", "clap_complete", "clap_mangen"],
        allowed: &[(
            "host/crates/cli/src/",
            "it resolves arguments to the settings of a run",
        )],
        why: "the operator's rules hold for programs without a command line too",
    },
    Rule {
        names: &["std::env", "env::"],
        allowed: &[
            (
                "host/crates/cli/src/",
                "it hands out what the rest may know",
            ),
            (
                "host/crates/operator/src/environment.rs",
                "it splits and joins values of PATH, and reads no variable",
            ),
            (
                "host/crates/base/src/disk/temporary.rs",
                "it moves the temporary files of the process out of the workspace",
            ),
            (
                "host/crates/process/src/environment.rs",
                "the short list of variables that started processes inherit stands in one place",
            ),
            (
                "host/crates/embed/src/build.rs",
                "it runs in build scripts, and cargo says there where the crate is",
            ),
            (
                "sdk/rust/macros/src/build.rs",
                "cargo says there where the crate is",
            ),
        ],
        why: "what depends on the environment or the working folder cannot be tested",
    },
];

/// Returns the table of the rules in the architecture page.
pub(super) fn table() -> Table {
    let head = ["| names | only in | why |", "|---|---|---|"];
    let rows = RULES.iter().map(|rule| {
        let names = rule.names.iter().map(|name| format!("`{name}`"));
        let places = rule
            .allowed
            .iter()
            .map(|(place, why)| format!("`{place}`: {why}"));
        let [names, places] = [names.collect::<Vec<_>>(), places.collect()];
        format!(
            "| {} | {} | {} |",
            names.join(", "),
            places.join("; "),
            rule.why
        )
    });
    Table {
        file: additions::FILE,
        name: "names",
        source: "test",
        lines: head.into_iter().map(str::to_owned).chain(rows).collect(),
    }
}

pub(super) fn check(source: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    for rule in RULES {
        if rule
            .allowed
            .iter()
            .any(|(place, _)| source.path.starts_with(place))
        {
            continue;
        }
        for (number, line) in source.code() {
            // A call `.name` of a method with the same name is no use of the function.
            let named = rule
                .names
                .iter()
                .find(|name| has_word(line, name) && !line.contains(&format!(".{name}")));
            if let Some(name) = named {
                findings.push(format!("{}:{number}: `{name}`: {}", source.path, rule.why));
            }
        }
    }
    findings
}

#[test]
fn each_is_found_where_it_must_not_stand() {
    let table = [
        ("host/src/agent/a.rs", "\nuse wasmtime::Engine;"),
        ("host/src/agent/a.rs", "\nuse wasmtime_wasi::WasiCtx;"),
        ("host/src/plugin/a.rs", "\nuse reqwest::Client;"),
        ("host/src/tool/a.rs", "\nTcpStream::connect(host)"),
        ("host/src/plugin/a.rs", "\nlet c = Command::new(\"sh\");"),
        ("host/crates/cli/src/a.rs", "\nuse std::process::Command;"),
        ("host/src/tool/a.rs", "\nprintln!(\"x\");"),
        (
            "host/src/tool/a.rs",
            "\nlet out = std::io::stdout().lock();",
        ),
        (
            "host/crates/base/src/paths.rs",
            "\nlet home = env::var(\"HOME\");",
        ),
        ("host/crates/base/src/paths.rs", "\nuse std::env;"),
        ("host/crates/operator/src/a.rs", "\nuse clap::Parser;"),
        (
            "host/crates/base/src/paths.rs",
            "\nlet here = std::env::current_dir();",
        ),
    ];
    for (path, text) in table {
        let findings = check(&Source::new(path, text));
        assert_eq!(findings.len(), 1, "{path}: {text}: {findings:?}");
        assert!(
            findings[0].starts_with(&format!("{path}:2: ")),
            "{findings:?}"
        );
    }
}

#[test]
fn where_they_belong_and_in_other_senses_they_are_fine() {
    let table = [
        ("host/src/plugin/a.rs", "use wasmtime::Engine;"),
        (
            "host/crates/process/src/lib.rs",
            "Command::new(\"sh\").current_dir(x)",
        ),
        (
            "host/crates/cli/src/a.rs",
            "println!(\"{:?}\", std::env::current_dir());",
        ),
        (
            "host/src/plugin/a.rs",
            "let text = state.stderr(); // not println!()",
        ),
        (
            "host/crates/cli/src/a.rs",
            "let version = env!(\"CARGO_PKG_VERSION\");",
        ),
        (
            "host/crates/author/src/a.rs",
            "let version = env!(\"CARGO_PKG_VERSION\");",
        ),
    ];
    for (path, text) in table {
        assert_eq!(check(&Source::new(path, text)), Vec::<String>::new());
    }
}

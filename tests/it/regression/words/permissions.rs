//! Tests of messages about permissions of plugins in lists, questions and refusals.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rind_tests::cli::{Ran, Rind};
use rind_tests::guests;
use rind_tests::server::{Reply, Server};
use serde_json::Value;

const ANSWER: &str = "[[reply]]\ntext = \"the answer\"\n";

/// Creates a machine with the guest `fetch` in the user's folder, whose manifest has these sections
/// added.
fn fetching(sections: &str) -> Rind {
    let rind = Rind::with_script(ANSWER);
    guests::put("fetch", &rind.user_plugins(), |manifest| {
        format!("{manifest}\n{sections}")
    });
    rind
}

fn policy(rind: &Rind, text: &str) {
    let path = rind.home().join("config/policy.toml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn inspected(rind: &Rind, plugin: &str) -> Value {
    let ran = rind.run(&["plugin", "inspect", plugin, "--json"]).exits(0);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn every_import_has_words_for_what_it_gives() {
    let rind = Rind::default();
    rind.managed("external");
    let report = inspected(&rind, "external");
    let imports = report["imports"].as_array().unwrap();
    for name in ["model", "agents", "tools-host"] {
        let is_it = |import: &&Value| {
            let interface = import["interface"].as_str().unwrap();
            interface.contains(&format!("/{name}@"))
        };
        let import = imports.iter().find(is_it).unwrap();
        let gives = import["gives"].as_str().unwrap();
        assert!(gives.len() > 10 && !gives.contains("nothing"), "{import}");
    }
    let screen = rind.run(&["plugin", "inspect", "external"]).exits(0);
    assert!(!screen.stdout.contains("nothing"), "{}", screen.stdout);
}

#[test]
fn a_host_without_a_scheme_is_said_to_mean_https() {
    let rind = fetching("[network]\nhosts = [\"api.example.org\"]\n");
    let ran = rind.run(&["run", "hello"]);
    assert!(
        ran.stderr.contains("https://api.example.org"),
        "{}",
        ran.stderr
    );
    let table = rind
        .run(&["plugin", "inspect", "fetch", "--grants"])
        .exits(0);
    assert!(
        table.stdout.contains("https://api.example.org"),
        "{}",
        table.stdout
    );
}

/// Minimum number of digests that the texts must contain.
const N_SHOWN: usize = 4;

/// Returns the different digests that the texts of commands contain.
fn digests(texts: &[&Ran]) -> Vec<String> {
    let texts = texts.iter().flat_map(|ran| [&ran.stdout, &ran.stderr]);
    let words = texts.flat_map(|text| text.split(|c: char| !(c.is_alphanumeric() || c == ':')));
    let mut found: Vec<String> = words
        .filter(|word| word.starts_with("blake3:"))
        .map(str::to_owned)
        .collect();
    assert!(found.len() >= N_SHOWN, "{found:?}");
    found.sort();
    found.dedup();
    found
}

#[test]
fn there_is_one_digest_and_a_policy_for_another_one_is_said() {
    let rind = fetching("[network]\nhosts = [\"api.example.org\"]\n");
    let held = rind.run(&["run", "hello"]).exits(0);
    let table = rind
        .run(&["plugin", "inspect", "fetch", "--grants"])
        .exits(0);
    let report = rind.run(&["plugin", "inspect", "fetch"]).exits(0);
    let json = rind.run(&["plugin", "inspect", "fetch", "--json"]).exits(0);
    let found = digests(&[&held, &table, &report, &json]);
    assert_eq!(found.len(), 1, "{found:?}");

    let other = format!("blake3:{}", "0".repeat(64));
    policy(
        &rind,
        &format!("[plugins.fetch]\ndigest = \"{other}\"\nallow = [\"network\"]\n"),
    );
    let held = rind.run(&["run", "hello"]).exits(0);
    for said in ["policy.toml", &found[0], &other[..19]] {
        assert!(held.stderr.contains(said), "{said}: {}", held.stderr);
    }
    policy(
        &rind,
        &format!(
            "[plugins.fetch]\ndigest = \"{}\"\nallow = [\"network\"]\n",
            found[0]
        ),
    );
    rind.run(&["run", "hello"]).exits(0);
}

#[test]
fn a_denial_of_the_policy_is_named_as_one_and_explained() {
    let rind = fetching("[network]\nhosts = [\"api.example.org\"]\n");
    policy(&rind, "[plugins.fetch]\ndeny = [\"network\"]\n");
    let ran = rind.run(&["run", "hello"]).exits(3);
    for said in ["denied", "config/policy.toml"] {
        assert!(ran.stderr.contains(said), "{said}: {}", ran.stderr);
    }
    assert!(!ran.stderr.contains("plugin.toml needs"), "{}", ran.stderr);
    for args in [
        &["plugin", "inspect", "fetch", "--grants"][..],
        &["plugin", "inspect", "fetch"],
        &["plugin", "inspect", "fetch", "--json"],
    ] {
        let ran = rind.run(args).exits(0);
        assert!(ran.stdout.contains("denied: "), "{args:?}: {}", ran.stdout);
        assert!(
            ran.stdout.contains("policy.toml"),
            "{args:?}: {}",
            ran.stdout
        );
    }
}

#[test]
fn the_data_folder_is_a_row_like_the_others() {
    let rind = Rind::default();
    rind.managed("audit-log");
    let table = rind
        .run(&["plugin", "inspect", "audit-log", "--grants"])
        .exits(0);
    assert!(table.stdout.contains("✓ write:data"), "{}", table.stdout);
    // A plugin that does not ask for the data folder has no such row.
    rind.managed("hello");
    let table = rind
        .run(&["plugin", "inspect", "hello", "--grants"])
        .exits(0);
    assert!(!table.stdout.contains("data"), "{}", table.stdout);
}

/// Secret that is long enough for half of it to be masked, and whose characters are valid in a
/// header name.
const TOKEN: &str = "q7w8e9r0t1y2u3i4o5p6a7s8d9f0";

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_in_the_name_of_a_header_or_half_of_it_does_not_reach_the_plugin() {
    let server = Server::start(|request| {
        assert!(request.has(&format!("authorization: Bearer {TOKEN}")));
        let half = &TOKEN[..TOKEN.len() / 2 + 1];
        let headers = vec![
            format!("x-{TOKEN}: 1"),
            format!("x-{half}: 2"),
            "x-kept: 3".to_owned(),
        ];
        Reply::Plain(200, headers, format!("begins {half} and ends").into_bytes())
    })
    .await;
    let host = format!("http://127.0.0.1:{}", server.port);
    let rind = fetching(&format!(
        "[network]\nprivate = [\"{host}\"]\n[[network.credentials]]\nhost = \"{host}\"\nheader = \"authorization\"\n\
         value = \"Bearer {{TOKEN}}\"\n"
    ));
    rind.script(&format!(
        "[[reply]]\n[[reply.tool_calls]]\nname = \"fetch\"\narguments = {{ face = \"rind\", method = \"GET\", \
         url = \"{host}/\", headers = [], body = \"\" }}\n{ANSWER}"
    ));
    let secrets = rind.home().join("config/secrets.toml");
    fs::write(&secrets, format!("TOKEN = \"{TOKEN}\"\n")).unwrap();
    fs::set_permissions(&secrets, fs::Permissions::from_mode(0o600)).unwrap();
    let ran = rind
        .run(&["run", "fetch it", "--grant", "fetch", "--yes"])
        .exits(0);
    let lines = rind.session_lines().join("\n");
    assert!(lines.contains("x-kept"), "{lines}\n{}", ran.stderr);
    assert!(lines.contains("[masked: TOKEN]"), "{lines}");
    for part in [TOKEN, &TOKEN[..12], &TOKEN[16..]] {
        assert!(!lines.contains(part), "{part}: {lines}");
        assert!(!ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
}

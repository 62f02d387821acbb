//! Secrets and records with the real program: where the operator stores secrets, and where the
//! records are.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rind_tests::cli::Rind;
use rind_tests::guests;
use serde_json::json;

use super::echo;
use rind_tests::server::Server;

/// Arguments of one turn. `--yes` is needed because the tool of a plugin cannot ask without a
/// terminal.
const ASK: [&str; 5] = ["run", "ask", "--yes", "--grant", "fetch"];

/// A machine with the guest, whose credential is for this server, and a model that has the guest
/// send one request there.
fn machine(server: &Server) -> Rind {
    let host = server.at("127.0.0.1", "");
    let arguments = format!(
        "{{ face = \"rind\", method = \"GET\", url = \"{host}/echo?a=b\", headers = [], body = \"\" }}"
    );
    let rind = Rind::with_script(&format!(
        "[[reply]]\ntext = \"I ask.\"\ntool_calls = [{{ name = \"fetch\", arguments = {arguments} }}]\n[[reply]]\ntext = \"Done.\"\n"
    ));
    guests::put("fetch", &rind.home().join("managed"), |manifest| {
        manifest
            + &format!(
                "[network]\nprivate = [\"{host}\"]\n[[network.credentials]]\nhost = \"{host}\"\nheader = \"authorization\"\nvalue = \"Bearer {{TEST_TOKEN}}\"\n"
            )
    });
    rind
}

fn keep(rind: &Rind, text: &str, mode: u32) {
    let path = rind.home().join("config/secrets.toml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_come_from_the_environment_or_the_operators_file_and_stay_out_of_the_session() {
    let server = Server::start(echo).await;
    let from_file = machine(&server);
    keep(&from_file, "TEST_TOKEN = \"from-the-file-1234\"\n", 0o600);
    from_file.run(&ASK).exits(0);
    assert!(
        server
            .last()
            .has("authorization: Bearer from-the-file-1234")
    );
    let target = server.at("127.0.0.1", "/echo");
    let entries = from_file.entries("access");
    assert_eq!(entries.len(), 1);
    let record = &entries[0]["record"];
    assert_eq!(record["target"], json!(format!("GET {target}")));
    assert_eq!(
        (&record["outcome"], &record["reached"]),
        (&json!("done"), &json!("network"))
    );

    let from_env = machine(&server);
    keep(&from_env, "TEST_TOKEN = \"from-the-file-1234\"\n", 0o600);
    let mut command = from_env.command(&ASK);
    from_env
        .finish(command.env("TEST_TOKEN", "from-the-env-1234"))
        .exits(0);
    assert!(server.last().has("authorization: Bearer from-the-env-1234"));
    for rind in [from_file, from_env] {
        let session = rind.session_lines().join("\n");
        assert!(session.contains("[masked: TEST_TOKEN]"), "{session}");
        assert!(!session.contains("from-the-"), "{session}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_that_others_can_read_are_not_used() {
    let server = Server::start(echo).await;
    let rind = machine(&server);
    keep(&rind, "TEST_TOKEN = \"from-the-file-1234\"\n", 0o644);
    let ran = rind.run(&ASK).exits(2);
    assert!(ran.stderr.contains("chmod 600"), "{}", ran.stderr);
    assert_eq!(server.received().len(), 0);
}

//! Attacks on the network, by plugins that have permission for one or two hosts.

use std::sync::Arc;

use futures_util::FutureExt;
use rind::egress::EgressOptions;
use rind::grant::Trust;
use rind::plugin::discover::PluginSearchPath;
use rind_tests::guests::Host;
use rind_tests::server::{Names, Reply, Server, gzip};
use rind_tests::session::Session;

use crate::attack::{Attack, Stage, attack, put, tool};
use crate::programs::Program;

pub(crate) fn attacks() -> Vec<Attack> {
    let own = |what, guest, run, meets| attack(what, Program::Guest(guest), Stage::Own(run), meets);
    vec![
        own(
            "asks for loopback, private and metadata addresses in 24 spellings",
            "reaches_private",
            || private().boxed(),
            "all refused",
        ),
        own(
            "asks for cloud metadata, which it lists",
            "fetches",
            || metadata().boxed(),
            "which no plugin may reach",
        ),
        own(
            "a name that is public when checked and private when used",
            "fetches",
            || rebinding().boxed(),
            "127.0.0.1",
        ),
        own(
            "follows a redirect to another port",
            "fetches",
            || redirect().boxed(),
            "0 answered, refused:",
        ),
        own(
            "a user and another host in the URL",
            "fetches",
            || userinfo().boxed(),
            "0 answered, refused:",
        ),
        own(
            "an answer of 11 MB",
            "fetches",
            || large().boxed(),
            "10 MiB",
        ),
        own(
            "an answer that unpacks to more than it may",
            "fetches",
            || unpacks().boxed(),
            "10 MiB",
        ),
        own(
            "request 101 of 100",
            "fetches",
            || many().boxed(),
            "100 answered, refused:",
        ),
        own(
            "a secret in the query of a request",
            "fetches",
            || secret().boxed(),
            "0 answered, refused: the URL (github-token) contains a secret",
        ),
        attack(
            "sockets and name look-ups of its standard library",
            Program::Guest("opens_sockets"),
            Stage::Tool,
            "PermissionDenied PermissionDenied PermissionDenied",
        )
        .with("side_effects = [\"none\"]\n[compat]\nsockets = \"inert\"\n"),
    ]
}

/// Loads the guest with these network permissions, lets it request `urls`, and returns the result.
async fn fetch(guest: &'static str, network: &str, urls: &str, names: Arc<Names>) -> String {
    let mut host = Host::default();
    host.options.egress = EgressOptions {
        resolver: names,
        ..EgressOptions::default()
    };
    host.options.grants.flags = vec!["attacker".parse().unwrap()];
    let path = host.folder().join("managed");
    let manifest = format!("side_effects = [\"network\"]\n[network]\n{network}\n");
    put(&path.join("attacker"), &Program::Guest(guest), &manifest);
    let trust = Trust::Managed;
    host.options.sources.push(PluginSearchPath { trust, path });
    host.set("attacker", "how", urls);
    let plugins = host.load().await;
    assert!(plugins.left_out.is_empty(), "{:?}", plugins.left_out);
    tool(&Session::open(&plugins), "attack").await
}

/// Does the same as [`fetch`], with permission for these servers on loopback.
async fn fetch_from(servers: &[&Server], urls: &str) -> String {
    let hosts = servers
        .iter()
        .map(|server| format!("{:?}", server.at("127.0.0.1", "")));
    let private = format!("private = [{}]", hosts.collect::<Vec<_>>().join(", "));
    fetch("fetches", &private, urls, Arc::default()).await
}

async fn private() -> String {
    let names = Arc::new(Names::default());
    names.set("localhost", &[&["127.0.0.1"]]);
    fetch(
        "reaches_private",
        "hosts = [\"*\", \"http://*\"]",
        "",
        names,
    )
    .await
}

async fn metadata() -> String {
    let network = "private = [\"http://169.254.169.254\"]";
    let mut host = Host::default();
    let path = host.folder().join("managed");
    let manifest = format!("side_effects = [\"network\"]\n[network]\n{network}\n");
    put(
        &path.join("attacker"),
        &Program::Guest("fetches"),
        &manifest,
    );
    let trust = Trust::Managed;
    host.options.sources.push(PluginSearchPath { trust, path });
    let plugins = host.load().await;
    let left = plugins.left_out.first();
    left.map_or("PWNED".to_owned(), |left| format!("{:?}", left.why))
}

/// Resolves the name to an outside address at the first lookup and to a server on loopback at the
/// second (DNS rebinding).
async fn rebinding() -> String {
    let server = Server::start(|_| Reply::ok("inside")).await;
    let names = Arc::new(Names::default());
    names.set("rebind.test", &[&["192.88.99.1"], &["127.0.0.1"]]);
    let host = server.at("rebind.test", "");
    let network = format!("hosts = [{host:?}]");
    fetch("fetches", &network, &format!("{host}/ {host}/"), names).await
}

async fn redirect() -> String {
    let inside = Server::start(|_| Reply::ok("inside")).await;
    let to = inside.at("127.0.0.1", "/");
    let server = Server::start(move |_| Reply::to(302, &to)).await;
    fetch_from(&[&server], &server.at("127.0.0.1", "/")).await
}

async fn userinfo() -> String {
    let server = Server::start(|_| Reply::ok("inside")).await;
    let url = format!(
        "http://127.0.0.1:{}@127.0.0.1:{}/",
        server.port, server.port
    );
    fetch_from(&[&server], &url).await
}

async fn large() -> String {
    let server = Server::start(|_| Reply::Plain(200, Vec::new(), vec![b'x'; 11_000_000])).await;
    fetch_from(&[&server], &server.at("127.0.0.1", "/")).await
}

async fn unpacks() -> String {
    let server = Server::start(|_| {
        Reply::Plain(
            200,
            vec!["content-encoding: gzip".to_owned()],
            gzip(b'x', 100_000),
        )
    })
    .await;
    fetch_from(&[&server], &server.at("127.0.0.1", "/")).await
}

async fn many() -> String {
    let server = Server::start(|_| Reply::ok("outside")).await;
    let urls = format!("{} ", server.at("127.0.0.1", "/")).repeat(101);
    fetch_from(&[&server], &urls).await
}

/// Joins the fake token from two strings, so that secret scanners do not report this file.
async fn secret() -> String {
    let server = Server::start(|_| Reply::ok("inside")).await;
    let token = format!("ghp_{}", "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0fI3kL6");
    fetch_from(&[&server], &server.at("127.0.0.1", &format!("/?t={token}"))).await
}

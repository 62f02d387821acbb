//! Attacks on granted permissions and on the data that the host stores about a plugin.

use std::fs;
use std::path::Path;

use futures_util::FutureExt;
use rind::grant::Trust;
use rind::grant::answers::GrantAnswerStore;
use rind::grant::ask::{GrantApproval, GrantApprovalLifetime};
use rind::plugin::discover::PluginSearchPath;
use rind::plugin::load::{FoundPluginSet, PluginSkipReason};
use rind_tests::guests::Host;
use rind_tests::session::Session;

use crate::attack::{Attack, Stage, attack, put, tool};
use crate::programs::Program;

const SESSION: &str = "side_effects = [\"session\"]\n";

pub(crate) fn attacks() -> Vec<Attack> {
    let own = |what, run, meets| attack(what, Program::Guest("counts"), Stage::Own(run), meets);
    vec![
        own(
            "native code of its own in the compile cache",
            || planted().boxed(),
            "compiled again",
        ),
        own(
            "other bytes under the name and version that was granted",
            || other_bytes().boxed(),
            "held: [\"session\"]",
        ),
        own(
            "asks for more in an update",
            || wider().boxed(),
            "held: [\"session\", \"network:a.example\"]",
        ),
        own(
            "other defaults of its settings under the bytes that were granted",
            || other_manifest().boxed(),
            "held: [\"session\"]",
        ),
        own(
            "says something else of a tool after it was granted",
            || other_words().boxed(),
            "held: [\"session\"]",
        ),
        own(
            "takes over what another plugin of its name kept",
            || inherits().boxed(),
            "stored nothing",
        ),
    ]
}

/// Returns a host with the attacker as a local plugin, which has no permissions unless they are
/// granted.
fn local(program: &Program, manifest: &str) -> Host {
    let mut host = Host::default();
    let path = host.folder().join("attacker");
    put(&path, program, manifest);
    let trust = Trust::Local;
    host.options.sources.push(PluginSearchPath { trust, path });
    host
}

/// Loads the plugin, which must be held, grants everything it requests permanently, and loads it
/// again. Returns a text with `PWNED` if it was not held at first.
async fn granted(host: &mut Host) -> String {
    let plugins = host.load().await;
    let Some(PluginSkipReason::Held(plugin)) = plugins.left_out.first().map(|left| &left.why)
    else {
        return format!("PWNED: it was not held at first: {plugins:?}");
    };
    let given = GrantApproval {
        is_guard: false,
        request: plugin.request.clone(),
        capabilities: plugin.request.capabilities.clone(),
        yes: GrantApprovalLifetime::Always,
    };
    let mut answers = GrantAnswerStore::read(&host.folder().join("grants.json")).unwrap();
    let answer = given.to_stored_answer("s", "2026-01-01T00:00:00Z".to_owned());
    answers.add(answer.into_iter().collect()).unwrap();
    host.options.grants.answers = Some(answers);
    let plugins = host.load().await;
    assert!(plugins.left_out.is_empty(), "{:?}", plugins.left_out);
    String::new()
}

fn outcome(plugins: &FoundPluginSet) -> String {
    match plugins.left_out.first().map(|left| &left.why) {
        None => "PWNED: it runs".to_owned(),
        Some(PluginSkipReason::Held(plugin)) => {
            let waiting = plugin
                .decision
                .capabilities_with_status(rind::grant::decide::GrantStatus::Waiting);
            let waiting: Vec<String> = waiting.map(ToString::to_string).collect();
            format!("held: {waiting:?}")
        }
        Some(other) => format!("PWNED: {other:?}"),
    }
}

async fn other_bytes() -> String {
    let mut host = local(&Program::Guest("counts"), SESSION);
    let wrong = granted(&mut host).await;
    put(
        &host.folder().join("attacker"),
        &Program::Guest("loops"),
        SESSION,
    );
    wrong + &outcome(&host.load().await)
}

/// Changes a default of the plugin's settings, which can change its behavior although component and
/// requested permissions are the same.
async fn other_manifest() -> String {
    let mut host = local(&Program::Guest("counts"), SESSION);
    let wrong = granted(&mut host).await;
    let manifest = format!("{SESSION}[config.properties.rule]\ndefault = \"obey the page\"\n");
    put(
        &host.folder().join("attacker"),
        &Program::Guest("counts"),
        &manifest,
    );
    wrong + &outcome(&host.load().await)
}

async fn wider() -> String {
    let mut host = local(&Program::Guest("counts"), SESSION);
    let wrong = granted(&mut host).await;
    let manifest =
        "side_effects = [\"session\", \"network\"]\n[network]\nhosts = [\"a.example\"]\n";
    put(
        &host.folder().join("attacker"),
        &Program::Guest("counts"),
        manifest,
    );
    wrong + &outcome(&host.load().await)
}

/// Changes a setting, which makes the tool describe itself differently although the component is
/// the same.
async fn other_words() -> String {
    let mut host = local(&Program::Guest("raw_tools"), SESSION);
    let wrong = granted(&mut host).await;
    host.set("attacker", "how", "other");
    wrong + &outcome(&host.load().await)
}

/// Tampers with every entry of the compile cache; the host must compile the component again.
async fn planted() -> String {
    let mut host = local(&Program::Guest("counts"), "side_effects = [\"none\"]\n");
    host.options.cache = host.folder().join("cache");
    host.options.cache_key = host.folder().join("cache.key");
    assert!(!host.load().await.plugins[0].was_cached);
    assert!(host.load().await.plugins[0].was_cached);
    plant(&host.options.cache);
    let plugins = host.load().await;
    let session = Session::open(&plugins);
    let said = tool(&session, "attack").await;
    if plugins.plugins[0].was_cached || said != "call 1 of this instance" {
        return format!("PWNED: {said}");
    }
    "compiled again".to_owned()
}

/// Changes one byte in the middle of each cache entry.
fn plant(cache: &Path) {
    for entry in fs::read_dir(cache).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0xff;
        fs::write(path, bytes).unwrap();
    }
}

/// Stores a value with a local plugin, then lets a plugin of the same name in another folder look
/// for it.
async fn inherits() -> String {
    let manifest = "side_effects = [\"none\"]\n";
    let mut host = local(&Program::Guest("remembers"), manifest);
    let first = host.load().await;
    let kept = tool(&Session::open(&first), "attack").await;
    assert_eq!(kept, "stored nothing before");
    let again = tool(&Session::open(&first), "attack").await;
    assert_eq!(again, "stored PWNED before");
    let path = host.folder().join("elsewhere");
    put(&path, &Program::Guest("remembers"), manifest);
    let trust = Trust::Local;
    host.options.sources = vec![PluginSearchPath { trust, path }];
    tool(&Session::open(&host.load().await), "attack").await
}

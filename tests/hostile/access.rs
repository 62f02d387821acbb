//! Attacks on files, the network and tools, by plugins that have few permissions.

use std::fs;
use std::os::unix::fs::symlink;

use futures_util::FutureExt;
use rind::grant::Trust;
use rind::plugin::discover::PluginSearchPath;
use rind_tests::guests::Host;
use rind_tests::session::Session;

use crate::attack::{Attack, Stage, attack, put, tool};
use crate::programs::Program;

const FILES: &str =
    "side_effects = [\"filesystem\"]\n[filesystem]\nwrite = [\"workspace\", \"data\"]\n";

pub(crate) fn attacks() -> Vec<Attack> {
    let own = |what, guest, run, meets| attack(what, Program::Guest(guest), Stage::Own(run), meets);
    vec![
        own(
            "reads and writes around its folder, by paths and links",
            "escapes_folder",
            || escapes().boxed(),
            "only inside, outside as it was",
        ),
        own(
            "fills the disk",
            "fills_disk",
            || disk("fills_disk").boxed(),
            "stopped after 64 MiB",
        ),
        own(
            "makes a million files",
            "makes_files",
            || disk("makes_files").boxed(),
            "stopped after 10000 files",
        ),
    ]
}

/// Returns a host with the attacker as a managed plugin with this manifest.
fn host(guest: &'static str, manifest: &str) -> Host {
    let mut host = Host::default();
    let path = host.folder().join("managed");
    put(&path.join("attacker"), &Program::Guest(guest), manifest);
    let trust = Trust::Managed;
    host.options.sources.push(PluginSearchPath { trust, path });
    host
}

async fn set_off(host: &Host) -> String {
    let plugins = host.load().await;
    assert!(plugins.left_out.is_empty(), "{:?}", plugins.left_out);
    tool(&Session::open(&plugins), "attack").await
}

async fn escapes() -> String {
    let host = host("escapes_folder", FILES);
    let outside = host.folder().join("secret.txt");
    let other = host.options.data.join("other/files/secret.txt");
    fs::create_dir_all(other.parent().unwrap()).unwrap();
    for path in [&outside, &other] {
        fs::write(path, "kept").unwrap();
    }
    let workspace = &host.options.workspace;
    fs::create_dir_all(workspace.join("a")).unwrap();
    fs::write(workspace.join("inside.txt"), "inside").unwrap();
    symlink("../secret.txt", workspace.join("link")).unwrap();
    symlink("..", workspace.join("folder-link")).unwrap();
    symlink(&outside, workspace.join("absolute-link")).unwrap();
    let met = set_off(&host).await;
    for path in [&outside, &other] {
        if fs::read_to_string(path).ok().as_deref() != Some("kept") {
            return format!("PWNED: {} was changed; {met}", path.display());
        }
    }
    format!("{met}, outside as it was")
}

async fn disk(guest: &'static str) -> String {
    let manifest = format!("{FILES}[limits]\ntimeout = \"30s\"\n");
    set_off(&host(guest, &manifest)).await
}

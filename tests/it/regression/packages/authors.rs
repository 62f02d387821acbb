//! Tests of messages for authors and operators of plugins: causes of failed builds, name
//! collisions, faults of plugins that a flag names, and proxies.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use rind_tests::cli::Rind;
use rind_tests::guests;

use super::plugin;

/// Builds a plugin whose crate is below a `Cargo.toml` with the text `above`, which makes cargo
/// fail. Returns the messages.
fn orphan(rind: &Rind, above: &str, edition: &str) -> String {
    let dir = rind.workspace().join("above/mine");
    fs::create_dir_all(dir.join("src")).unwrap();
    fs::write(rind.workspace().join("above/Cargo.toml"), above).unwrap();
    let cargo = format!(
        "[package]\nname = \"mine\"\nversion = \"0.1.0\"\nedition = \"{edition}\"\n[lib]\ncrate-type = [\"cdylib\"]\n"
    );
    fs::write(dir.join("Cargo.toml"), cargo).unwrap();
    fs::write(dir.join("src/lib.rs"), "").unwrap();
    let manifest = "name = \"mine\"\nversion = \"0.1.0\"\ndescription = \"A plugin of a test.\"\ncomponent = \"mine.wasm\"\n";
    fs::write(dir.join("plugin.toml"), manifest).unwrap();
    let ran = rind
        .run(&["plugin", "build", dir.to_str().unwrap()])
        .exits(1);
    ran.stderr
}

#[test]
fn what_cargo_says_before_it_compiles_is_printed_without_a_terminal() {
    for (above, edition, says) in [
        (
            "[workspace]\nmembers = []\nresolver = \"3\"\n",
            "2024",
            "believes it's in a workspace",
        ),
        ("[workspace\nmembers = []\n", "2024", "above/Cargo.toml"),
        (
            "[workspace]\nmembers = [\"mine\"]\nresolver = \"3\"\n",
            "2042",
            "2042",
        ),
    ] {
        let said = orphan(&Rind::default(), above, edition);
        assert!(said.contains(says), "{says}\n{said}");
    }
}

#[test]
fn what_cannot_be_packed_or_installed_is_named_by_the_path_that_was_typed() {
    let rind = Rind::default();
    let folder = plugin(&rind, "mine", "(component)");
    fs::write(folder.join("c.wasm"), "no component").unwrap();
    let folder = folder.to_str().unwrap();
    for command in [
        &["plugin", "pack", folder][..],
        &["plugin", "install", folder],
        &["skill", "derive", folder],
    ] {
        let said = rind.run(command).exits(1).stderr;
        assert!(
            said.contains("[FOLDER]/user/mine/c.wasm is not a valid component"),
            "{said}"
        );
        assert!(
            !said.contains(".install-") && !said.contains("/.tmp"),
            "{said}"
        );
    }
}

#[test]
fn a_grant_for_a_plugin_whose_manifest_cannot_be_read_shows_the_fault_of_the_manifest() {
    let rind = Rind::with_script("[[reply]]\ntext = \"hi\"\n");
    let folder = plugin(&rind, "folder", "(component)");
    fs::write(folder.join("plugin.toml"), "name = \"mine\"\nversion = 1\n").unwrap();
    let folder = folder.to_str().unwrap();
    for flag in ["--grant", "--without"] {
        let ran = rind
            .run(&["run", "--plugin", folder, flag, "mine", "hi"])
            .exits(2);
        assert!(
            ran.stderr
                .contains("folder/plugin.toml is not a plugin manifest"),
            "{}",
            ran.stderr
        );
    }
    let ran = rind.run(&["run", "--grant", "mine", "hi"]).exits(2);
    assert!(
        ran.stderr.contains("--grant mine: unknown plugin"),
        "{}",
        ran.stderr
    );
}

#[test]
fn two_tools_of_one_name_are_told_by_install_check_list_and_doctor() {
    let rind = Rind::default();
    let as_other = |name: &str| {
        let renamed =
            |manifest: String| manifest.replace("name = \"hello\"", &format!("name = \"{name}\""));
        guests::put("hello", &rind.workspace().join(name), renamed)
    };
    let (first, second) = (as_other("first"), as_other("second"));
    let (first, second) = (first.to_str().unwrap(), second.to_str().unwrap());
    let says = "the tool `greet` has the name of one of plugin `first`";
    let alone = rind.run(&["plugin", "install", first]).exits(0);
    assert!(!alone.stderr.contains("greet"), "{}", alone.stderr);
    let checked = rind.run(&["plugin", "check", second]);
    assert!(checked.stdout.contains(says), "{}", checked.stdout);
    for command in [
        &["plugin", "install", second][..],
        &["plugin", "list"],
        &["doctor"],
    ] {
        let ran = rind.run(command);
        let said = format!("{}{}", ran.stdout, ran.stderr).replace('\n', " ");
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let says =
            "the tool `greet` of plugin second is not offered: plugin first has one of that name";
        assert!(said.contains(says), "{command:?}\n{said}");
    }
}

#[test]
fn a_registry_is_asked_through_the_proxy_of_the_environment() {
    let rind = Rind::default();
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = proxy.local_addr().unwrap();
    let asked = std::thread::spawn(move || {
        let (stream, _) = proxy.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        (&stream)
            .write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
            .unwrap();
        line
    });
    let mut command = rind.command(&["plugin", "install", "oci://registry.test/tools/mine:1.0.0"]);
    command.env("HTTPS_PROXY", format!("http://{address}"));
    rind.finish(&mut command).exits(1);
    assert!(
        asked
            .join()
            .unwrap()
            .starts_with("CONNECT registry.test:443 ")
    );
}

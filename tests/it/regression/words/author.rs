//! Tests of messages for plugin authors about manifests, builds, points and invalid JSON.

use std::fs;

use rind_tests::cli::Rind;
use rind_tests::guests;

use crate::author::put_crate;

const NOTHING: &str = "#[unsafe(no_mangle)]\npub extern \"C\" fn nothing() {}\n";

/// Builds a plugin that no host would load, from this code and the changed manifest. Returns the
/// messages.
fn not_built(manifest: impl FnOnce(String) -> String, code: &str) -> String {
    let rind = Rind::default();
    let dir = rind.workspace().join("mine");
    put_crate(
        &dir,
        "mine",
        "version = \"0.1.0\"\ndescription = \"x\"\ncomponent = \"mine.wasm\"",
        code,
    );
    let path = dir.join("plugin.toml");
    fs::write(&path, manifest(fs::read_to_string(&path).unwrap())).unwrap();
    let mut command = rind.command(&["plugin", "build", "mine"]);
    command.env("CARGO_TARGET_DIR", rind.user_home().join("target"));
    let ran = rind.finish(&mut command).exits(1);
    assert!(!ran.stdout.contains('✓'), "{}", ran.stdout);
    ran.stderr
}

#[test]
fn a_build_of_what_the_loader_refuses_fails_and_says_why() {
    let said = not_built(|text| text.replace("pre-tool", "pre-tol"), NOTHING);
    assert!(said.contains("mine/plugin.toml"), "{said}");
    assert!(
        !said.contains("Compiling"),
        "before minutes of compiling: {said}"
    );
    let said = not_built(|text| text, NOTHING);
    let expected = "plugin `mine` was compiled, and cannot be loaded: ";
    assert!(
        said.contains(expected) && said.contains("pre-tool"),
        "{said}"
    );
}

#[test]
fn what_cargo_says_of_a_broken_crate_is_printed_once() {
    let said = not_built(|text| text, "pub fn broken() -> u8 { \"text\" }");
    assert_eq!(said.matches("mismatched types").count(), 1, "{said}");
    assert!(
        said.contains("plugin `mine`: the build failed; see above"),
        "{said}"
    );
}

/// Returns the session's trace record of a hook that one plugin has on a point of another plugin.
/// The point has this kind.
fn traced(kind: &str, result: &str) -> serde_json::Value {
    let rind = Rind::with_script(
        "[[reply]]\n[[reply.tool_calls]]\nname = \"ask\"\narguments = { point = \"review\", payload = { text = \"good\" } }\n\
         [[reply]]\ntext = \"done\"\n",
    );
    let managed = rind.home().join("managed");
    let owner = guests::put("points", &managed, |manifest| {
        let (own, _) = manifest.split_once("[points.").unwrap();
        format!(
            "{own}[points.review]\nkind = \"{kind}\"\n{result}\n[points.opinions]\nkind = \"collect\"\n"
        )
    });
    let copy = managed.join("one");
    fs::create_dir(&copy).unwrap();
    fs::copy(
        owner.join("guest_points.wasm"),
        copy.join("guest_points.wasm"),
    )
    .unwrap();
    let manifest = "name = \"one\"\nversion = \"0.1.0\"\ndescription = \"x\"\ncomponent = \"guest_points.wasm\"\n\
                    [implements.\"owner.review\"]\n[implements.\"owner.opinions\"]\n[dependencies]\nowner = \"*\"\n";
    fs::write(copy.join("plugin.toml"), manifest).unwrap();
    rind.run(&["run", "ask"]).exits(0);
    let traces = rind.entries("trace");
    let mut records = traces.iter().map(|entry| entry["record"].clone());
    let found = records.find(|record| record["point"] == "owner.review");
    found.unwrap_or_else(|| panic!("{:?}", rind.session_lines()))
}

#[test]
fn observers_of_points_that_plugins_define_contribute_nothing() {
    let observed = traced("observe", "");
    assert_eq!(observed["outcome"], "pass", "{observed}");
    assert!(!observed.to_string().contains("contribution"), "{observed}");
    let collected = traced("collect", "");
    assert_eq!(collected["changed"][0], "contribution", "{collected}");
}

//! Cases of plugins that need other plugins: their dependencies, and the plugins whose points they
//! implement.

use std::fs;

use rind_tests::cli::Rind;
use rind_tests::guests;

use super::report;

const IMPLEMENTER: &str = "name = \"one\"\nversion = \"0.1.0\"\ndescription = \"Implements points of another.\"\n\
    component = \"guest_points.wasm\"\n[config.properties.name]\ntype = \"string\"\n\
    [implements.\"owner.review\"]\n[implements.\"owner.permit\"]\n[implements.\"owner.opinions\"]\n\
    [dependencies]\nowner = \"*\"\n";

const CASES: &str = r#"
[[case]]
name = "called at the point of another"
[case.given.event]
point = "owner.review"
payload = { text = "good" }
[case.expect]
payload = { text = "good!" }
hooks = { "owner.review" = "changed" }

[[case]]
name = "called by the other in a turn"
[case.given]
tool = { name = "ask", arguments = { point = "review", payload = { text = "fine" } } }
[case.expect]
results = ['{"text":"fine!"} pass']
hooks = { "owner.review" = "changed" }

[[case]]
name = "refuses at a gate of another"
[case.given]
config = { name = "one" }
event = { point = "owner.permit", payload = { one = ["block", "not today"] } }
[case.expect]
hooks = { "owner.permit" = { outcome = "blocked", reason = "not today" } }
"#;

/// Sets up the plugin `one` with cases, and next to it the plugin `owner`, whose points it
/// implements.
fn implementer(cases: &str) -> Rind {
    let rind = Rind::default();
    let workspace = rind.workspace();
    let put = guests::put("points", &workspace, |manifest| manifest);
    let (owner, own) = (workspace.join("owner"), workspace.join("one"));
    fs::rename(put, &owner).unwrap();
    fs::create_dir_all(own.join("tests")).unwrap();
    let component = "guest_points.wasm";
    fs::copy(owner.join(component), own.join(component)).unwrap();
    fs::write(own.join("plugin.toml"), IMPLEMENTER).unwrap();
    fs::write(own.join("tests/cases.toml"), cases).unwrap();
    rind
}

#[test]
fn a_case_loads_what_its_plugin_needs_from_the_folders_beside_it() {
    let rind = implementer(CASES);
    let ran = rind.run(&["plugin", "test", "one", "--report", "json=out.json"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let report = report(&rind);
    let hooks = &report["coverage"]["one"]["hooks"];
    assert_eq!(hooks["owner.review"], 2, "{report}");
    assert_eq!(
        report["coverage"]["one"]["never_called"],
        serde_json::json!(["owner.opinions"]),
        "{report}"
    );
}

#[test]
fn a_loop_of_the_agent_that_a_plugin_needs_orders_none_of_its_cases() {
    let rind = Rind::default();
    let workspace = rind.workspace();
    // An agent loop that would make every turn fail.
    guests::put("orderer", &workspace, |manifest| {
        manifest.replace("default = \"plain\"", "default = \"leave\"")
    });
    let own = guests::put("hello", &workspace, |manifest| {
        format!("{manifest}\n[dependencies]\norderer = \"*\"\n")
    });
    fs::create_dir_all(own.join("tests")).unwrap();
    let case = "[[case]]\nname = \"a turn\"\n[case.given]\ninput = \"hi\"\nreply = [{ text = \"fine\" }]\n\
                [case.expect]\noutput = \"fine\"\n";
    fs::write(own.join("tests/cases.toml"), case).unwrap();
    let ran = rind.run(&["plugin", "test", "hello"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn a_case_says_where_it_looked_for_what_its_plugin_needs() {
    let rind = implementer(CASES);
    let owner = rind.workspace().join("owner");
    let refused = || {
        let ran = rind.run(&["plugin", "test", "one", "--only", "gate"]);
        ran.exits(1).stdout
    };
    let missing = "it depends on plugin `owner` *, which is not loaded; cases load the plugins that a plugin needs from the folders beside its own";
    // The folder `owner` contains a plugin with another name, which is not accepted.
    let manifest = fs::read_to_string(owner.join("plugin.toml")).unwrap();
    let other = manifest.replace("\"owner\"", "\"other\"");
    fs::write(owner.join("plugin.toml"), other).unwrap();
    let said = refused();
    assert!(said.contains(missing), "{said}");
    // The error names the fault in the manifest of the needed plugin.
    fs::write(
        owner.join("plugin.toml"),
        manifest.replace("kind = \"gate\"", "kind = \"wall\""),
    )
    .unwrap();
    let said = refused();
    assert!(said.contains("it needs the plugin `"), "{said}");
    assert!(
        said.contains("owner/plugin.toml is not a plugin manifest"),
        "{said}"
    );
    // Dependencies of the needed plugin are looked up in the same folder.
    fs::write(
        owner.join("plugin.toml"),
        format!("{manifest}\n[dependencies]\ngone = \"*\"\n"),
    )
    .unwrap();
    let said = refused();
    assert!(
        said.contains(
            "it needs the plugin `owner`, which cannot be loaded: it depends on plugin `gone`"
        ),
        "{said}"
    );
    assert!(said.contains("/gone`"), "{said}");
    fs::remove_dir_all(&owner).unwrap();
    let said = refused();
    assert!(said.contains(missing), "{said}");
}

#[test]
fn a_payload_that_does_not_fit_the_schema_of_the_point_fails_the_case() {
    let rind = implementer(
        "[[case]]\nname = \"x\"\ngiven.event = { point = \"owner.review\", payload = { text = 7 } }\nexpect.denials = []\n\
         [[case]]\nname = \"y\"\ngiven.event = { point = \"owner.gone\", payload = {} }\nexpect.denials = []\n",
    );
    let ran = rind.run(&["plugin", "test", "one"]).exits(1);
    for said in [
        "the payload of `owner.review` does not fit its schema",
        "plugin `owner` declares no point `gone`",
    ] {
        assert!(ran.stdout.contains(said), "{said}: {}", ran.stdout);
    }
}

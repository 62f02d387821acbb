//! Tests of `rind plugin dev`: the author changes a guard plugin while a turn runs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rind_tests::cli::Rind;
use rind_tests::guests;

/// Script with three writes. A command waits for a file before the second and the third.
const SCRIPT: &str = r#"
[[reply]]
tool_calls = [{ name = "write_file", arguments = { path = "one", content = "1" } }]
[[reply]]
tool_calls = [{ name = "bash", arguments = { command = "touch waits-1; while [ ! -e go-1 ]; do sleep 0.05; done" } }]
[[reply]]
tool_calls = [{ name = "write_file", arguments = { path = "two", content = "2" } }]
[[reply]]
tool_calls = [{ name = "bash", arguments = { command = "touch waits-2; while [ ! -e go-2 ]; do sleep 0.05; done" } }]
[[reply]]
tool_calls = [{ name = "write_file", arguments = { path = "three", content = "3" } }]
[[reply]]
text = "Done."
"#;

const MANIFEST: &str = "name = \"guard\"\nversion = \"0.1.0\"\ndescription = \"Guards.\"\ncomponent = \"guard.wasm\"\n\
    side_effects = [\"none\"]\n\n[hooks.pre-tool]\n";

/// Dependency path that `rind plugin build` redirects to the SDK of this machine.
const SDK: &str = "rind-sdk = { path = \".rind-sdk/rust\" }";

/// Source of a guard that counts writes in its state and refuses every write from number `limit`
/// on.
fn source(limit: u32) -> String {
    format!(
        r#"//! Counts writes.
#[rind_sdk::plugin]
mod guard {{
    use rind_sdk::prelude::*;

    #[hook]
    fn pre_tool(proposed: ProposedCall) -> Result<CallOutcome, Error> {{
        if proposed.call.name != "write_file" {{
            return Ok(CallOutcome::pass());
        }}
        let seen = state::get_json::<u32>("writes")?.unwrap_or_default() + 1;
        state::set_json("writes", &seen)?;
        dbg!(seen);
        if seen >= {limit} {{
            return Ok(CallOutcome::block(format!("write number {{seen}} is too many")));
        }}
        Ok(CallOutcome::pass())
    }}
}}
"#
    )
}

/// Returns the `Cargo.toml` of a guard with these dependencies.
fn manifest(dependencies: &str) -> String {
    format!(
        "[package]\nname = \"guard\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lib]\ncrate-type = [\"cdylib\"]\n\
         [dependencies]\n{dependencies}\n"
    )
}

fn put(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn a_changed_guard_acts_in_the_running_turn_and_a_broken_build_changes_nothing() {
    let rind = Rind::author();
    rind.script(SCRIPT);
    let dir = rind.user_home().join("guard");
    put(&dir, "Cargo.toml", &manifest(SDK));
    put(&dir, "plugin.toml", MANIFEST);
    put(&dir, "src/lib.rs", &source(100));
    fs::copy(
        guests::workspace().join("Cargo.lock"),
        dir.join("Cargo.lock"),
    )
    .unwrap();
    let script = rind.home().join("script.toml");
    fs::write(&script, SCRIPT).unwrap();
    let log = rind.home().join("events.jsonl");
    let has = |file: &'static str, text: &'static str| {
        move |rind: &Rind| {
            let path = rind.home().join(file);
            fs::read_to_string(path).unwrap_or_default().contains(text)
        }
    };
    let args = [
        "plugin",
        "dev",
        dir.to_str().unwrap(),
        "--run",
        "go",
        "--yes",
        "--grant",
        "guard",
        "--script",
        script.to_str().unwrap(),
        "--events",
        log.to_str().unwrap(),
    ];
    let mut command = rind.command(&args);
    command.env("CARGO_NET_OFFLINE", "true");
    let said = rind.home().join("said");
    command.stderr(fs::File::create(&said).unwrap());
    let mut running = rind.begin(&mut command);
    running.wait_until(|rind| rind.workspace().join("waits-1").is_file());
    assert!(rind.workspace().join("one").exists());
    // A version that fails to build replaces nothing.
    put(&dir, "src/lib.rs", "this is no Rust");
    running.wait_until(has(
        "said",
        "the last version of plugin guard keeps running: ",
    ));
    rind.file("go-1", "");
    running.wait_until(|rind| rind.workspace().join("waits-2").is_file());
    assert!(rind.workspace().join("two").exists());
    put(&dir, "src/lib.rs", &source(3));
    running.wait_until(has("said", "plugin guard is replaced before the next step"));
    rind.file("go-2", "");
    running.wait_until(has("events.jsonl", "\"turn-end\""));
    // The new version was loaded within the turn, so it starts no other turn.
    std::thread::sleep(Duration::from_secs(2));
    let turns = |log: &Path| {
        let events = fs::read_to_string(log).unwrap();
        events.matches("\"type\":\"turn-start\"").count()
    };
    assert_eq!(turns(&log), 1);
    // A version built after the turn starts a second turn, in which the model says nothing.
    put(&dir, "src/lib.rs", &source(50));
    let second = log.clone();
    running.wait_until(move |_| turns(&second) == 2);
    running.signal("INT");
    let ran = running.end();
    let said = fs::read_to_string(said).unwrap();
    assert_eq!(ran.code, Some(130), "{said}");
    // The new version counted the two earlier writes, so it has the state of the old one.
    assert!(!rind.workspace().join("three").exists());
    let events = fs::read_to_string(&log).unwrap();
    assert!(events.contains("write number 3 is too many"), "{events}");
    assert_eq!(events.matches("\"type\":\"plugin-replaced\"").count(), 2);
    assert!(
        said.contains("seen = 1") && said.contains("seen = 3"),
        "{said}"
    );
    assert!(said.contains("expected one of"), "{said}");
}

#[test]
fn a_chat_has_the_commands_of_the_version_that_runs_and_says_how_to_go_on_in_a_copy() {
    let script = "[[reply]]\ntimes = 0\ntext = \"You said: {input}\"\n";
    let rind = Rind::author();
    rind.file("script.toml", script);
    let dir = rind.user_home().join("greeter");
    put(&dir, "Cargo.toml", &manifest(SDK));
    let about = MANIFEST.replace("[hooks.pre-tool]\n", "");
    put(
        &dir,
        "plugin.toml",
        &about.replace("\"guard\"", "\"greeter\""),
    );
    // Makes the component unique, so that it is not in the compile cache that the tests share.
    let once = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .as_nanos();
    let source = |command: &str| {
        format!(
            "//! Greets.\n#[rind_sdk::plugin]\nmod greeter {{\n    use rind_sdk::prelude::*;\n\n    \
             /// Greets.\n    #[command]\n    fn {command}() -> String {{\n        \
             \"this is {command} {once}\".to_owned()\n    }}\n}}\n"
        )
    };
    put(&dir, "src/lib.rs", &source("greet"));
    fs::copy(
        guests::workspace().join("Cargo.lock"),
        dir.join("Cargo.lock"),
    )
    .unwrap();
    let args = [
        "plugin",
        "dev",
        dir.to_str().unwrap(),
        "--chat",
        "--no-plugins",
        "--script",
        "script.toml",
    ];
    let offline = [("CARGO_NET_OFFLINE", "true")];
    let Some(mut terminal) = rind.terminal(&args, (100, 40), &offline) else {
        return;
    };
    terminal
        .sees("building ")
        .sees("/help lists")
        .keys("/greet\r")
        .sees("this is greet");
    put(&dir, "src/lib.rs", &source("hail"));
    terminal
        .sees("plugin greeter is replaced before the next step")
        .keys("/hail\r")
        .sees("this is hail")
        .keys("/greet\r")
        .sees("there is no command /greet");
    terminal.keys("\u{15}hello\r").sees("You said: hello");
    terminal.sees_no("Enter steers").keys("/fork\r");
    assert_eq!(terminal.ends(), Some(0));
    // The hint may wrap onto a second row.
    let all = terminal.all();
    let words = all.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("to chat there: rind chat --resume "),
        "{all}"
    );
}

#[test]
fn what_the_agent_could_change_is_not_built() {
    let depends = |path: &str| manifest(&format!("other = {{ path = \"{path}\" }}"));
    let beside = SDK.replace(".rind-sdk", "../../library/.rind-sdk");
    let library = "[package]\nname = \"other\"\nversion = \"0.1.0\"\n";
    for (what, crate_, workspace) in [
        ("its own folder", manifest(""), "plugins/guard"),
        ("around it", manifest(""), "plugins"),
        ("within it", manifest(""), "plugins/guard/src"),
        ("where cargo runs", manifest(""), "playground"),
        ("a dependency", depends("../../library"), "library"),
        ("a patch", manifest(""), "patched"),
        ("where its SDK would be put", manifest(&beside), "library"),
    ] {
        let rind = Rind::with_script(SCRIPT);
        let root = rind.user_home();
        let dir = root.join("plugins/guard");
        put(&dir, "Cargo.toml", &crate_);
        put(&dir, "plugin.toml", MANIFEST);
        // A build would create the file `built`.
        put(
            &dir,
            "build.rs",
            "fn main() { std::fs::write(\"built\", \"\").unwrap(); }",
        );
        put(&dir, "src/lib.rs", "");
        for folder in ["library", "patched"] {
            put(&root.join(folder), "Cargo.toml", library);
            put(&root.join(folder), "src/lib.rs", "");
        }
        fs::create_dir_all(root.join("playground")).unwrap();
        match what {
            "where cargo runs" => put(
                &root,
                "Cargo.toml",
                "[workspace]\nmembers = [\"plugins/guard\"]\n",
            ),
            "a patch" => put(
                &dir,
                "Cargo.toml",
                &(crate_ + "[patch.crates-io]\nother = { path = \"../../patched\" }\n"),
            ),
            _ => {}
        }
        let (dir_, workspace) = (dir.to_str().unwrap(), root.join(workspace));
        let args = ["plugin", "dev", dir_, "--run", "go", "--workspace"];
        let mut command = rind.command(&[&args[..], &[workspace.to_str().unwrap()]].concat());
        let ran = rind
            .finish(command.env("CARGO_NET_OFFLINE", "true"))
            .exits(2);
        let expected = format!(
            "and the agent may write in {}, so it could change code that the build runs outside the sandbox; choose a separate workspace",
            workspace.display()
        );
        let expected =
            expected.replace(rind.home().parent().unwrap().to_str().unwrap(), "[FOLDER]");
        assert!(ran.stderr.contains(&expected), "{what}: {}", ran.stderr);
        assert!(!dir.join("built").exists(), "{what}");
        assert!(!root.join("library/.rind-sdk").exists(), "{what}");
    }
}

//! The module that OpenCode loads, run by Node as OpenCode runs it.

#![allow(clippy::print_stderr, reason = "a test that cannot run here says why")]

use std::process::Command;

use serde_json::{Value, json};

use super::Guarded;

/// Calls the hooks of the module, and prints the result of each call as JSON.
const DRIVER: &str = r#"
const [, , file, directory] = process.argv;
const { RindGuard } = await import(file);
const hooks = await RindGuard({ directory });
const said = {};
const call = (command) => ({ sessionID: "s", callID: "c", tool: "bash", args: { command } });
for (const command of ["ls", "rm -rf /", "deploy", "say loudly"]) {
  const output = { args: { command } };
  try {
    await hooks["tool.execute.before"](call(command), output);
    said[command] = output.args.command;
  } catch (error) {
    said[command] = `refused: ${error.message}`;
  }
}
for (const text of ["the key is hunter2", "explode"]) {
  const plain = { output: text, metadata: { output: text } };
  await hooks["tool.execute.after"](call("ls"), plain);
  const parts = { content: [{ type: "text", text: "fine" }, { type: "resource", resource: { text } }] };
  await hooks["tool.execute.after"](call("ls"), parts);
  said[text] = [plain.output, plain.metadata.output ?? null, parts.content[1].resource.text];
}
console.log(JSON.stringify(said));
"#;

fn drive(own: &Guarded) -> Option<Value> {
    let node = Command::new("node").arg("--version").output();
    if !node.is_ok_and(|ran| ran.status.success()) {
        eprintln!("skipped: there is no node");
        return None;
    }
    own.put("driver.mjs", DRIVER);
    let ran = Command::new("node")
        .arg(own.user_file("driver.mjs"))
        .arg(own.user_file(".config/opencode/plugins/rind-guard.js"))
        .arg(own.rind.workspace())
        .current_dir(own.rind.workspace())
        .env("HOME", own.rind.user_home())
        .env("RIND_MANAGED", own.rind.home().join("managed"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&ran.stderr);
    let said = serde_json::from_slice(&ran.stdout);
    Some(said.unwrap_or_else(|error| panic!("{error}: {stderr}")))
}

#[test]
fn the_module_of_opencode_refuses_changes_and_masks_and_withholds_on_every_doubt() {
    let own = Guarded::of("opencode");
    let Some(said) = drive(&own) else { return };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    assert_eq!(said["ls"], "ls");
    assert_eq!(said["say loudly"], "say quietly");
    assert!(
        text(&said["rm -rf /"]).contains("it would delete everything"),
        "{said}"
    );
    assert!(text(&said["deploy"]).starts_with("refused:"), "{said}");
    let masked = &said["the key is hunter2"];
    assert_eq!(
        masked,
        &json!(["the key is [masked]", null, "fine\nthe key is [masked]"]),
        "{said}"
    );
    for place in said["explode"].as_array().unwrap() {
        let is_closed = place.is_null() || text(place).contains("the result was withheld");
        assert!(is_closed, "{said}");
    }
}

#[test]
fn the_module_of_opencode_refuses_where_its_program_is_gone() {
    let own = Guarded::of("opencode");
    let module = ".config/opencode/plugins/rind-guard.js";
    let text = own.user_text(module).replace("rind-guard-hook", "gone");
    own.put(module, &text.replace("/debug/rind\"", "/debug/gone\""));
    let Some(said) = drive(&own) else { return };
    for (call, answer) in said.as_object().unwrap() {
        let told = answer.to_string();
        let is_closed = told.contains("Rind guard:") && !told.contains("hunter2");
        assert!(is_closed, "{call}: {told}");
    }
}

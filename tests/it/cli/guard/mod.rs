//! `rind guard`: a plugin judges calls of other agents, through the hooks that are installed for them.

mod hostile;
mod install;
mod judge;
mod modules;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use rind_tests::cli::Rind;
use rind_tests::guests;
use serde_json::Value;

/// A machine with the plugin `sentry`, and perhaps a guard.
struct Guarded {
    rind: Rind,
}

impl Guarded {
    fn new() -> Self {
        let rind = Rind::default();
        rind.managed("sentry");
        Self { rind }
    }

    /// Machine with the guard of an agent.
    fn of(agent: &str) -> Self {
        let own = Self::new();
        own.rind.run(&["guard", "install", agent, "--yes"]).exits(0);
        own
    }

    /// Payload that an agent once sent, with the workspace of this machine.
    fn recorded(&self, name: &str) -> Value {
        let file = guests::workspace().join(format!("tests/recorded/guard/{name}.json"));
        let text = std::fs::read_to_string(file).unwrap();
        let workspace = self.rind.workspace();
        serde_json::from_str(&text.replace("\"/work\"", &format!("{workspace:?}"))).unwrap()
    }

    /// The recorded call of a command.
    fn call(&self, agent: &str, command: &str) -> Value {
        let mut payload = self.recorded(&format!("{agent}-pre-tool"));
        let key = if payload.get("args").is_some() {
            "args"
        } else {
            "tool_input"
        };
        payload[key]["command"] = command.into();
        payload
    }

    /// A file below the person's home.
    fn user_file(&self, name: &str) -> PathBuf {
        self.rind.user_home().join(name)
    }

    fn user_text(&self, name: &str) -> String {
        std::fs::read_to_string(self.user_file(name)).unwrap_or_default()
    }

    fn put(&self, name: &str, text: &str) {
        let file = self.user_file(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    /// The line that an agent runs at a point: the installed one, or that of the module.
    fn installed_line(&self, agent: &str, point: &str) -> String {
        let status = self
            .rind
            .command(&["guard", "status", agent, "--json"])
            .output()
            .unwrap();
        let status: Value = serde_json::from_slice(&status.stdout).unwrap();
        let hooks = status["agents"][0]["hooks"].as_array().unwrap();
        let hook = hooks.iter().find(|hook| hook["point"] == point);
        hook.expect("a hook at the point")["command"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Runs the installed hook as the agent does, with these bytes.
    fn hook_with(&self, line: &str, payload: &[u8], variables: &[(&str, &str)]) -> Output {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", line])
            .env_clear()
            .env("HOME", self.rind.user_home())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("RIND_MANAGED", self.rind.home().join("managed"))
            .envs(variables.iter().copied())
            .current_dir(self.rind.workspace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        // A refusal may come before the whole payload is read.
        let _ = child.stdin.take().unwrap().write_all(payload);
        child.wait_with_output().unwrap()
    }

    fn hook(&self, agent: &str, point: &str, payload: &Value) -> HookSaid {
        let line = self.installed_line(agent, point);
        HookSaid::of(&self.hook_with(&line, payload.to_string().as_bytes(), &[]))
    }

    /// Runs the hook before a command.
    fn judge(&self, agent: &str, command: &str) -> HookSaid {
        self.hook(agent, "pre-tool", &self.call(agent, command))
    }

    /// The process of the daemon.
    fn daemon(&self) -> Option<String> {
        let noted = self.rind.home().join("data/guard/daemon.lock");
        let noted = std::fs::read_to_string(noted).ok()?;
        (!noted.is_empty()).then_some(noted)
    }

    fn kill_daemon(&self) {
        if let Some(process) = self.daemon() {
            let killed = Command::new("kill").args(["-KILL", &process]).status();
            killed.unwrap();
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Some(process) = self.daemon() {
            // It may have ended.
            let _ = Command::new("kill")
                .arg(&process)
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// Answer of a hook.
#[derive(Debug)]
struct HookSaid {
    code: Option<i32>,
    json: Value,
    stderr: String,
}

impl HookSaid {
    fn of(output: &Output) -> Self {
        let stdout = String::from_utf8(output.stdout.clone()).unwrap();
        Self {
            code: output.status.code(),
            json: serde_json::from_str(&stdout).unwrap_or(Value::String(stdout)),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The reason of a refusal, in the form that the agent obeys; `None` if the agent would run the
    /// call.
    fn refusal(&self) -> Option<&str> {
        let specific = &self.json["hookSpecificOutput"];
        if self.code == Some(2) {
            return Some(&self.stderr);
        }
        let is_denied = specific["permissionDecision"] == "deny";
        let denied = is_denied.then(|| specific["permissionDecisionReason"].as_str());
        denied.flatten().or_else(|| self.json["refuse"].as_str())
    }

    /// Whether the agent goes on as without a hook.
    fn is_pass(&self) -> bool {
        let is_said = self.json["pass"] == true && self.json["v"] == 1
            || self.json["decision"] == "allow"
            || self.json == "";
        self.code == Some(0) && is_said
    }
}

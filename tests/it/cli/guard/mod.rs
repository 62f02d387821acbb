//! Tests of `rind guard`: a plugin judges calls of other agents through hooks that are installed in
//! those agents.

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

/// A machine with the plugin `sentry` and, if created with `of`, an installed guard.
struct Guarded {
    rind: Rind,
}

impl Guarded {
    fn new() -> Self {
        let rind = Rind::default();
        rind.managed("sentry");
        Self { rind }
    }

    /// Creates a machine on which the guard of this agent is installed.
    fn of(agent: &str) -> Self {
        let own = Self::new();
        own.rind.run(&["guard", "install", agent, "--yes"]).exits(0);
        own
    }

    /// Returns a recorded payload of an agent, with the workspace path replaced by that of this
    /// machine.
    fn recorded(&self, name: &str) -> Value {
        let file = guests::workspace().join(format!("tests/recorded/guard/{name}.json"));
        let text = std::fs::read_to_string(file).unwrap();
        let workspace = self.rind.workspace();
        serde_json::from_str(&text.replace("\"/work\"", &format!("{workspace:?}"))).unwrap()
    }

    /// Returns the recorded `pre-tool` payload with this command in it.
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

    /// Path of a file in the user's home folder.
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

    /// Returns the shell command that the agent, or its module, runs at a point.
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

    /// Runs the hook's shell command as the agent does, with this payload as standard input.
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
        // The hook may refuse and exit before it has read the complete payload.
        let _ = child.stdin.take().unwrap().write_all(payload);
        child.wait_with_output().unwrap()
    }

    fn hook(&self, agent: &str, point: &str, payload: &Value) -> HookSaid {
        let line = self.installed_line(agent, point);
        HookSaid::of(&self.hook_with(&line, payload.to_string().as_bytes(), &[]))
    }

    /// Runs the `pre-tool` hook for a command.
    fn judge(&self, agent: &str, command: &str) -> HookSaid {
        self.hook(agent, "pre-tool", &self.call(agent, command))
    }

    /// Returns the process id of the daemon, if one is noted in its lock file.
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
            // The daemon may have exited already.
            let _ = Command::new("kill")
                .arg(&process)
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// Output of a hook.
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

    /// Returns the reason of a refusal in the format that the agent understands; `None` if the
    /// agent would run the call.
    fn refusal(&self) -> Option<&str> {
        let specific = &self.json["hookSpecificOutput"];
        if self.code == Some(2) {
            return Some(&self.stderr);
        }
        let is_denied = specific["permissionDecision"] == "deny";
        let denied = is_denied.then(|| specific["permissionDecisionReason"].as_str());
        denied.flatten().or_else(|| self.json["refuse"].as_str())
    }

    /// Whether the agent continues as if there were no hook.
    fn is_pass(&self) -> bool {
        let is_said = self.json["pass"] == true && self.json["v"] == 1
            || self.json["decision"] == "allow"
            || self.json == "";
        self.code == Some(0) && is_said
    }
}

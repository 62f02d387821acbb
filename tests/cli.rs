//! The program `rind` as its users run it: a process with folders of its own and a clean
//! environment, so that keys and settings of the machine do not affect a test.

mod author;
mod screen;
mod terminal;

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

pub use screen::masked;
pub use terminal::{Terminal, is_private, pasted, signal_chat};

use crate::guests;

/// Variables of this process that are passed on, so that `rind plugin build` finds the toolchain.
const PASSED: [&str; 3] = ["PATH", "RUSTUP_TOOLCHAIN", "CARGO_TARGET_DIR"];

/// Timeout of every wait in these tests. Some wait for a first build of the SDK.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Key of the compile cache that all tests share. The key need not be secret.
const CACHE_KEY: [u8; 32] = [7; 32];

/// Prefix of the notice that this machine cannot confine commands; removed from screens.
const UNCONFINED: &str = "▲ bash is refused, because its commands must run confined and cannot";

/// Returns the path of the program. The first caller builds it as `cargo run` does; others wait.
#[must_use]
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let mut cargo = Command::new("cargo");
        cargo
            .args([
                "build",
                "--bin",
                "rind-guard-hook",
                "--bin",
                "rind",
                "--message-format=json",
            ])
            .current_dir(guests::workspace())
            .stderr(Stdio::inherit());
        // Benches measure what users run.
        if !cfg!(debug_assertions) {
            cargo.args(["--profile", "dist"]);
        }
        // `cargo test` sets variables that would make build scripts run again.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let is_of_package = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"]
                .iter()
                .any(|prefix| text.starts_with(prefix));
            if is_of_package || ["CARGO_CRATE_NAME", "LD_LIBRARY_PATH"].contains(&&*text) {
                cargo.env_remove(&name);
            }
        }
        let output = cargo.output().unwrap();
        assert!(output.status.success(), "`cargo build --bin rind` failed");
        let lines = String::from_utf8(output.stdout).unwrap();
        let messages = lines
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let executable = messages
            .filter_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
            .find(|program| program.ends_with("rind"));
        executable.expect("cargo names the program")
    })
}

/// End of the last line of every question, after which a test types the answer.
const ASKED: &str = "[n]o";

/// One interaction with the program at a terminal.
pub struct Step<'a> {
    /// Text that the terminal must show before this step is done.
    pub once: &'a str,
    /// Action that is done before typing.
    pub meanwhile: Box<dyn FnOnce() + 'a>,
    /// Text that is typed after `meanwhile`.
    pub typed: &'a str,
}

/// A test machine: a home, `RIND_HOME`, a workspace and a scripted model. The program loads its
/// managed plugins from a folder, which is empty at first, instead of using its embedded plugins.
pub struct Rind {
    folder: TempDir,
    /// Whether the machine has no model without a script, so that the user is asked to choose one.
    is_new: bool,
    /// Whether Rust plugins are built in the cache folder, where they share the compiled SDK.
    shares_builds: bool,
}

impl Default for Rind {
    fn default() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rind = Self {
            folder,
            is_new: false,
            shares_builds: false,
        };
        for path in [
            rind.workspace(),
            rind.home().join("managed"),
            rind.user_home(),
        ] {
            std::fs::create_dir_all(path).unwrap();
        }
        // Shares the compile cache, because compiling the same component in every test takes long.
        let cache = program().parent().unwrap().join("../tmp/rind-cache");
        std::fs::create_dir_all(&cache).unwrap();
        std::os::unix::fs::symlink(cache.canonicalize().unwrap(), rind.home().join("cache"))
            .unwrap();
        rind.put(rind.home().join("data/cache.key"), CACHE_KEY);
        rind
    }
}

impl Rind {
    /// Creates a machine with this script for its model.
    #[must_use]
    pub fn with_script(script: &str) -> Self {
        let rind = Self::default();
        rind.script(script);
        rind
    }

    /// Creates a machine on which `rind` never ran. The program uses its embedded plugins.
    #[must_use]
    pub fn bare() -> Self {
        let rind = Self::default();
        std::fs::remove_dir(rind.home().join("managed")).unwrap();
        rind
    }

    /// Creates a machine whose user has not chosen a model yet.
    #[must_use]
    pub fn without_model() -> Self {
        Self {
            is_new: true,
            ..Self::default()
        }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// Path of `RIND_HOME`.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.root().join("rind")
    }

    /// Path of `HOME`.
    #[must_use]
    pub fn user_home(&self) -> PathBuf {
        self.root().join("user")
    }

    /// Folder in which the program runs.
    #[must_use]
    pub fn workspace(&self) -> PathBuf {
        self.root().join("workspace")
    }

    /// Writes a file of the workspace.
    pub fn file(&self, name: &str, text: &str) -> &Self {
        self.put(self.workspace().join(name), text)
    }

    /// Writes the user's settings.
    pub fn config(&self, text: &str) -> &Self {
        self.put(self.home().join("config/config.toml"), text)
    }

    /// Writes a file below [`home`](Self::home).
    pub fn user_file(&self, name: &str, text: &str) -> &Self {
        self.put(self.home().join(name), text)
    }

    /// Sets the script that the model follows from now on.
    pub fn script(&self, text: &str) -> &Self {
        self.put(self.root().join("script.toml"), text)
    }

    fn put(&self, path: PathBuf, bytes: impl AsRef<[u8]>) -> &Self {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
        self
    }

    /// Installs a test guest or a first-party plugin as a managed plugin.
    pub fn managed(&self, guest: &str) -> &Self {
        guests::put(guest, &self.home().join("managed"), |manifest| manifest);
        self
    }

    /// Installs four first-party plugins as managed plugins.
    pub fn first_party(&self) -> &Self {
        for name in [
            "hello",
            "injection-guard",
            "loop-detection",
            "tool-output-sandbox",
        ] {
            self.managed(name);
        }
        self
    }

    /// Folder of the plugins that the user installed.
    #[must_use]
    pub fn user_plugins(&self) -> PathBuf {
        self.home().join("config/plugins")
    }

    /// Returns a command that runs the program in the workspace with empty input. If there is a
    /// script, commands that accept `--script` get it.
    pub fn command(&self, args: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(program());
        command
            .args(args)
            .env_clear()
            .env("HOME", self.user_home())
            .env("RIND_HOME", self.home())
            .env("LANG", "C.UTF-8")
            .current_dir(self.workspace())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for name in PASSED {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        if self.shares_builds {
            command.env_remove("CARGO_TARGET_DIR");
        }
        // The changed HOME would make cargo and rustup use an empty folder.
        let machine_home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
        for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            let of_toolchain =
                std::env::var_os(name).map_or(machine_home.join(folder), PathBuf::from);
            if of_toolchain.is_dir() {
                command.env(name, of_toolchain);
            }
        }
        // Loads the plugins of this folder instead of the embedded ones.
        let managed = self.home().join("managed");
        if managed.is_dir() {
            command.env("RIND_MANAGED", managed);
        }
        let script = self.root().join("script.toml");
        let is_run = args.first().is_some_and(|first| {
            ["run", "chat", "serve", "acp"]
                .iter()
                .any(|own| first.as_ref() == *own)
        });
        if is_run && script.is_file() && !args.iter().any(|arg| arg.as_ref() == "--help") {
            command.arg("--script").arg(script);
        }
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, args: &[impl AsRef<OsStr>]) -> Ran {
        self.finish(&mut self.command(args))
    }

    /// Runs a [command](Self::command) that the test has changed, until the program exits.
    pub fn finish(&self, command: &mut Command) -> Ran {
        self.choose_script(command);
        self.ran(command.output().unwrap())
    }

    /// Selects the scripted provider if the test names no model, because a turn needs a model.
    pub fn choose_script(&self, command: &mut Command) {
        let args: Vec<String> = command
            .get_args()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect();
        let first = args.first().map(String::as_str);
        // In a generated settings file every section is commented out, so only a line start counts.
        let has_provider = |text: &str| text.lines().any(|line| line.starts_with("[provider"));
        let opens_session = matches!(first, Some("run" | "chat" | "serve" | "acp"));
        let names_model = args.iter().any(|arg| {
            let flags = ["--provider", "--model", "--script", "--help", "provider."];
            flags.iter().any(|flag| arg.starts_with(flag))
        });
        let has_key = command.get_envs().any(|(name, _)| {
            let name = name.to_string_lossy();
            name.ends_with("_API_KEY") || name.ends_with("_BASE_URL")
        });
        // A test may have put a named pipe there, which must not be read.
        let of_file = |name: &str| {
            let path = self.home().join(name);
            let text = path.is_file().then(|| std::fs::read_to_string(path));
            text.and_then(Result::ok).unwrap_or_default()
        };
        let is_set = has_provider(&of_file("config/config.toml"))
            || of_file("config/secrets.toml").contains("_API_KEY");
        if opens_session && !names_model && !has_key && !is_set && !self.is_new {
            command.args(["--provider", "scripted"]);
        }
    }

    /// Runs the program with this standard input, until it exits.
    pub fn run_with_input(&self, args: &[impl AsRef<OsStr>], input: &str) -> Ran {
        let mut command = self.command(args);
        self.choose_script(&mut command);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        self.ran(child.wait_with_output().unwrap())
    }

    /// Runs the program at a terminal (`script` of util-linux). Each line of `typed` answers one
    /// question. Returns the terminal's output; `None` if there is no `script`.
    pub fn at_terminal(&self, args: &[&str], typed: &str) -> Option<String> {
        let lines = typed.split_inclusive('\n');
        let steps: Vec<Step<'_>> = lines
            .map(|line| Step {
                once: ASKED,
                meanwhile: Box::new(|| {}),
                typed: line,
            })
            .collect();
        self.at_terminal_with(args, "stty cols 200 rows 50", steps)
    }

    /// Runs the program at a terminal, waits for `asked`, calls `meanwhile`, and types `typed`.
    pub fn at_terminal_once(
        &self,
        args: &[&str],
        asked: &str,
        meanwhile: impl FnOnce(),
        typed: &str,
    ) -> Option<String> {
        let step = Step {
            once: asked,
            meanwhile: Box::new(meanwhile),
            typed,
        };
        self.at_terminal_with(args, "stty cols 200 rows 50", vec![step])
    }

    /// Runs the program and then the shell command `then` at a terminal.
    pub fn at_terminal_then(
        &self,
        args: &[&str],
        then: &str,
        steps: Vec<Step<'_>>,
    ) -> Option<String> {
        self.at_terminal_in(args, "true", then, steps)
    }

    /// Runs the shell command `first` and then the program at a terminal, and does `steps` in
    /// order. Each step waits only for output after the text of the step before.
    pub fn at_terminal_with(
        &self,
        args: &[&str],
        first: &str,
        steps: Vec<Step<'_>>,
    ) -> Option<String> {
        self.at_terminal_in(args, first, "exit $?", steps)
    }

    #[allow(clippy::print_stderr, reason = "a test that cannot run here says why")]
    fn at_terminal_in(
        &self,
        args: &[&str],
        first: &str,
        then: &str,
        steps: Vec<Step<'_>>,
    ) -> Option<String> {
        if !cfg!(target_os = "linux") {
            eprintln!("skipped, `script` is another program here");
            return None;
        }
        let mut run = self.command(args);
        self.choose_script(&mut run);
        let words: Vec<String> = std::iter::once(run.get_program())
            .chain(run.get_args())
            .map(|word| format!("'{}'", word.to_str().unwrap()))
            .collect();
        let command = format!("{first}; {}; {then}", words.join(" "));
        // The time limit makes a step whose text never appears fail with the output so far.
        let mut terminal = Command::new("timeout");
        terminal
            .args(["--foreground", "--signal=KILL", "90", "script"])
            .args(["-q", "-e", "-c", &command, "/dev/null"])
            .env_clear()
            .envs(
                run.get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .env("TERM", "xterm")
            .current_dir(self.workspace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = match terminal.spawn() {
            Ok(child) => child,
            Err(error) => {
                eprintln!("skipped, `script` of util-linux cannot be run: {error}");
                return None;
            }
        };
        let mut stdin = child.stdin.take().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut shown = Vec::new();
        let mut seen = 0;
        for step in steps {
            loop {
                let text = String::from_utf8_lossy(&shown[seen..]).into_owned();
                if let Some(at) = text.find(step.once) {
                    seen += at + step.once.len();
                    break;
                }
                let mut more = [0; 1024];
                let n_read = stdout.read(&mut more).unwrap();
                assert_ne!(n_read, 0, "{}", String::from_utf8_lossy(&shown));
                shown.extend_from_slice(&more[..n_read]);
            }
            (step.meanwhile)();
            stdin.write_all(step.typed.as_bytes()).unwrap();
        }
        stdout.read_to_end(&mut shown).unwrap();
        let status = child.wait().unwrap();
        drop(stdin);
        assert!(status.success());
        let text = String::from_utf8(shown).unwrap().replace('\r', "");
        Some(self.named(&text))
    }

    /// Starts the program without waiting for it.
    pub fn start(&self, args: &[impl AsRef<OsStr>]) -> Running<'_> {
        self.begin(&mut self.command(args))
    }

    /// Starts a [command](Self::command) that the test has changed, without waiting for it.
    pub fn begin(&self, command: &mut Command) -> Running<'_> {
        self.choose_script(command);
        Running {
            rind: self,
            child: Some(command.spawn().unwrap()),
        }
    }

    fn ran(&self, output: Output) -> Ran {
        let text = |bytes: Vec<u8>| self.named(&String::from_utf8(bytes).unwrap());
        Ran {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Replaces the paths of this machine's folders with placeholders.
    fn named(&self, text: &str) -> String {
        let folders = [
            (self.workspace(), "[WORKSPACE]"),
            (self.home(), "[RIND_HOME]"),
            (self.root(), "[FOLDER]"),
        ];
        folders.iter().fold(text.to_owned(), |text, (path, name)| {
            text.replace(path.to_str().unwrap(), name)
        })
    }

    /// Returns the lines of the only session's file; empty if there is no session.
    #[must_use]
    pub fn session_lines(&self) -> Vec<String> {
        let Ok(sessions) = std::fs::read_dir(self.home().join("data/sessions")) else {
            return Vec::new();
        };
        let folders = sessions.map(|entry| entry.unwrap().path());
        let files: Vec<PathBuf> = folders
            .filter(|folder| folder.is_dir())
            .map(|folder| folder.join("session.jsonl"))
            .collect();
        let file = match &files[..] {
            // The program has not created the session yet.
            [] => return Vec::new(),
            [file] => file,
            _ => panic!("one session, not {files:?}"),
        };
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Returns the entries of this type in the only session's file.
    #[must_use]
    pub fn entries(&self, kind: &str) -> Vec<Value> {
        let lines = self.session_lines();
        // Skips a line that is only partly written.
        let entries = lines
            .iter()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        entries.filter(|entry| entry["type"] == kind).collect()
    }
}

/// Outcome of a run.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    /// Returns exit code, standard output and standard error for a snapshot, [masked] and without
    /// the notice that this machine cannot confine commands.
    #[must_use]
    pub fn screen(&self) -> String {
        let code = self
            .code
            .map_or("signal".to_owned(), |code| code.to_string());
        let mut screen = format!("exit {code}\n");
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            let text: String = text
                .split_inclusive('\n')
                .filter(|line| !line.starts_with(UNCONFINED))
                .collect();
            if !text.is_empty() {
                screen.push_str(&format!("---- {name}\n{}", masked(&text)));
            }
        }
        screen
    }

    /// Checks the exit code; a failure prints the output.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        self
    }

    /// Parses standard output as JSON, one value per line.
    #[must_use]
    pub fn json_lines(&self) -> Vec<Value> {
        let value =
            |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        self.stdout.lines().map(value).collect()
    }
}

/// The running program. Killed when dropped.
pub struct Running<'a> {
    rind: &'a Rind,
    child: Option<Child>,
}

impl Running<'_> {
    /// Waits until `is_done` returns true.
    #[track_caller]
    pub fn wait_until(&mut self, is_done: impl Fn(&Rind) -> bool) {
        let started = Instant::now();
        while !is_done(self.rind) {
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            assert_eq!(ended, None, "it ended before");
            assert!(started.elapsed() < PATIENCE, "it never came");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns the process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Sends a signal, by name.
    pub fn signal(&self, name: &str) {
        let id = self.child.as_ref().unwrap().id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.unwrap().success());
    }

    /// Sends a signal, by name, unless the program has ended.
    pub fn signal_if_running(&mut self, name: &str) {
        let child = self.child.as_mut().unwrap();
        if child.try_wait().unwrap().is_none() {
            self.signal(name);
        }
    }

    /// Waits until the program exits, without reading its output. Returns the exit code.
    pub fn wait(mut self) -> Option<i32> {
        let mut child = self.child.take().unwrap();
        child.wait().unwrap().code()
    }

    /// Waits until the program exits, and returns its output.
    #[must_use]
    pub fn end(mut self) -> Ran {
        let child = self.child.take().unwrap();
        self.rind.ran(child.wait_with_output().unwrap())
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // The program may have exited already; `wait` removes the zombie process.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

//! A machine with the program `rind`, a model that follows a script, and the NATS servers of a test.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Time after which an awaited condition counts as failed.
const PATIENCE: Duration = Duration::from_secs(90);

/// A machine: a folder with home, workspace and script, and the programs that it started. Dropping
/// it kills the programs.
#[derive(Debug)]
pub struct Machine {
    folder: tempfile::TempDir,
    program: PathBuf,
    urls: String,
    running: Vec<Child>,
    variables: Vec<(String, String)>,
}

/// An answer of the HTTP API.
#[derive(Debug)]
pub struct HttpAnswer {
    /// Status code.
    pub status: u16,
    /// Lines of the head.
    pub head: String,
    /// Body as text.
    pub body: String,
}

impl HttpAnswer {
    /// Reads the body as JSON.
    ///
    /// # Panics
    /// The body is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// Checks the status and returns the answer.
    ///
    /// # Panics
    /// The status differs.
    #[must_use]
    #[track_caller]
    pub fn has_status(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }
}

impl Machine {
    /// Creates a machine with this program and these NATS servers, whose model follows a script.
    ///
    /// # Panics
    /// The folders of the machine cannot be created.
    #[must_use]
    pub fn new(program: &str, urls: &str, script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let machine = Self {
            folder,
            program: program.into(),
            urls: urls.to_owned(),
            running: Vec::new(),
            variables: Vec::new(),
        };
        for name in ["home/managed", "user", "workspace"] {
            std::fs::create_dir_all(machine.path(name)).unwrap();
        }
        std::fs::write(machine.path("script.toml"), script).unwrap();
        machine
    }

    /// Returns the addresses of the servers.
    #[must_use]
    pub fn urls(&self) -> &str {
        &self.urls
    }

    /// Returns a path in the folder of the machine.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Sets a variable for the programs that are started from now on.
    pub fn set_variable(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Returns the program with a command, the servers and further arguments. `serve` and `worker`
    /// also get the script.
    #[must_use]
    pub fn command(&self, command: &[&str], args: &[&str]) -> Command {
        let servers = ["--nats", &self.urls, "--tenant", "t"];
        let mut program = self.local(&[command, &servers, args].concat());
        if ["serve", "worker"].contains(&command[0]) {
            program.arg("--script").arg(self.path("script.toml"));
        }
        program
    }

    /// Returns the program with only these arguments.
    #[must_use]
    pub fn local(&self, args: &[&str]) -> Command {
        let mut program = Command::new(&self.program);
        program
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("user"))
            .env("RIND_HOME", self.path("home"))
            .env("RIND_MANAGED", self.path("home/managed"))
            .env("LANG", "C.UTF-8")
            .envs(self.variables.iter().cloned())
            .current_dir(self.path("workspace"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        program
    }

    /// Runs the program to its end.
    ///
    /// # Panics
    /// The program cannot be started.
    #[must_use]
    pub fn run(&self, command: &[&str], args: &[&str]) -> Output {
        self.command(command, args).output().unwrap()
    }

    /// Runs the program to its end, which must be a success, and returns its output.
    ///
    /// # Panics
    /// The command fails.
    #[track_caller]
    pub fn output(&self, command: &[&str], args: &[&str]) -> String {
        let output = self.run(command, args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?} {args:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts the program with standard error in a log file, and returns its process id.
    ///
    /// # Panics
    /// The program cannot be started.
    pub fn start(&mut self, command: &[&str], args: &[&str]) -> u32 {
        let log = self.path(&format!("log-{}", self.running.len()));
        let child = self
            .command(command, args)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(log).unwrap())
            .spawn()
            .unwrap();
        let id = child.id();
        self.running.push(child);
        id
    }

    /// Starts a worker of the class `default` with further arguments, waits until it is listed, and
    /// returns its process id.
    pub fn start_worker(&mut self, args: &[&str]) -> u32 {
        let id = self.start(&["worker"], args);
        let name = format!("default-{id}");
        self.wait_for("the worker", |machine| {
            machine.workers().iter().any(|own| own["name"] == *name)
        });
        id
    }

    /// Starts `rind serve` at a socket, and waits until it listens.
    pub fn start_front(&mut self, args: &[&str]) {
        let address = format!("unix:{}", self.path("api").display());
        self.start(&["serve"], &[&["--listen", &address], args].concat());
        self.wait_for("the front", |machine| {
            UnixStream::connect(machine.path("api")).is_ok()
        });
    }

    /// Returns the workers, as `rind cluster status` shows them.
    #[must_use]
    pub fn workers(&self) -> Vec<Value> {
        let status: Value =
            serde_json::from_str(&self.output(&["cluster", "status"], &["--json"])).unwrap();
        status["workers"].as_array().cloned().unwrap_or_default()
    }

    /// Kills a program with SIGKILL.
    ///
    /// # Panics
    /// None was started with this process id.
    pub fn kill(&mut self, id: u32) {
        let child = self.child(id);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Returns a program that was started.
    ///
    /// # Panics
    /// There is none.
    pub fn child(&mut self, id: u32) -> &mut Child {
        let mut running = self.running.iter_mut();
        running.find(|child| child.id() == id).unwrap()
    }

    /// Returns what all programs that were started wrote to standard error.
    #[must_use]
    pub fn logs(&self) -> String {
        let logs = (0..self.running.len()).map(|n| read(&self.path(&format!("log-{n}"))));
        logs.collect::<Vec<_>>().join("---\n")
    }

    /// Waits until the condition holds.
    ///
    /// # Panics
    /// The condition does not become true in time.
    #[track_caller]
    pub fn wait_for(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(
                Instant::now() < until,
                "{what} does not happen; {}",
                self.logs()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Sends a request to the front.
    ///
    /// # Panics
    /// The front gives no answer.
    #[must_use]
    pub fn send(&self, method: &str, path: &str, body: Option<&Value>) -> HttpAnswer {
        let body = body.map(Value::to_string).unwrap_or_default();
        self.send_text(method, path, "application/json", &body)
    }

    /// Sends the fields of a form to the front, as a browser does.
    #[must_use]
    pub fn send_form(&self, path: &str, fields: &str) -> HttpAnswer {
        self.send_text("POST", path, "application/x-www-form-urlencoded", fields)
    }

    fn send_text(&self, method: &str, path: &str, kind: &str, body: &str) -> HttpAnswer {
        let token = read(&self.path("home/data/serve-token"));
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: rind\r\nAuthorization: Bearer {}\r\nContent-Type: {kind}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            token.trim(),
            body.len()
        );
        let mut socket = UnixStream::connect(self.path("api")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        // A server that refuses the body may close before it has read all of it.
        let _ = socket.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        HttpAnswer {
            status: head
                .split(' ')
                .nth(1)
                .and_then(|code| code.parse().ok())
                .unwrap_or_else(|| panic!("no answer to {method} {path}: {}", self.logs())),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    /// Sends a GET request to the front.
    #[must_use]
    pub fn get(&self, path: &str) -> HttpAnswer {
        self.send("GET", path, None)
    }

    /// Sends a POST request with this body to the front.
    #[must_use]
    pub fn post(&self, path: &str, body: &Value) -> HttpAnswer {
        self.send("POST", path, Some(body))
    }

    /// Waits until the front shows a question other than this one, and returns it.
    #[must_use]
    #[track_caller]
    pub fn question(&self, other_than: Option<&Value>) -> Value {
        let mut found = None;
        self.wait_for("the question", |machine| {
            let open = machine.get("/v1/questions").has_status(200).json();
            let first = open["questions"].get(0).cloned();
            found = first.filter(|first| other_than.is_none_or(|other| other["id"] != first["id"]));
            found.is_some()
        });
        found.unwrap()
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

impl Drop for Machine {
    fn drop(&mut self) {
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

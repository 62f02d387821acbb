//! Tests of Rind plugins in Rust: runs a component in the real sandbox, from `#[test]`.
//!
//! A [`Case`] is what a table of `tests/*.toml` is for `rind plugin test`, and runs in the same way: with all that the plugin
//! asks for, in folders of its own, warm and cold. It fails when the two differ.
//!
//! ```
//! use rind_test::Plugin;
//! use serde_json::json;
//!
//! # fn main() -> Result<(), rind_test::Error> {
//! # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugins/hello");
//! // Compiles the plugin as `rind plugin build` does; `Plugin::open` takes one that is compiled.
//! let plugin = Plugin::build(folder)?;
//!
//! let ran = plugin.case().tool("greet", json!({"name": "Ada"})).run()?;
//! assert_eq!(ran.seen.results, ["Hello, Ada!"]);
//! assert_eq!(ran.seen.log, ["the turn took 2 steps"]);
//!
//! // A hook alone, at its point.
//! let ran = plugin.case().event("turn-end", json!({"steps": 7})).run()?;
//! assert_eq!(ran.seen.log, ["the turn took 7 steps"]);
//! assert_eq!(ran.cost.host_calls["log"], 1);
//!
//! // All cases in the plugin's `tests/*.toml`, for `cargo test` to run as well.
//! plugin.run_case_files()?;
//! # Ok(())
//! # }
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rind::author::build::{BuildOptions, build_plugins};
use rind::cases::event::GivenEvent;
use rind::cases::file::{CannedAnswer, CaseExpect, CaseGiven, GivenCall, GivenCommand};
use rind::cases::run::RunError;
use rind::cases::suite::{CaseSelection, CaseSuite, SuiteError};
use rind::cases::{CaseRunner, run_case};
use rind::plugin::compile::Compiler;
use rind::plugin::manifest::Manifest;
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub use rind::cases::file::CannedAnswer as Answer;
pub use rind::cases::seen::HookSeen;
pub use rind::cases::{CaseCost as Cost, CaseOutcome as Outcome, SeenTurn as Seen};
pub use rind::provider::scripted::Reply;

/// Time for compiling a plugin; the first build compiles the SDK's dependencies.
const BUILD_DEADLINE: Duration = Duration::from_secs(600);

/// Error that keeps a case from being run, or makes it fail.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The plugin cannot be compiled.
    #[error("cannot compile the plugin in {}: {message}", folder.display())]
    Build {
        /// Folder of the plugin.
        folder: PathBuf,
        /// Problem.
        message: String,
    },
    /// Files of the plugin cannot be read.
    #[error(transparent)]
    Suite(#[from] SuiteError),
    /// The case cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Cases failed.
    #[error("{0}")]
    Failed(String),
    /// A folder for the compile cache, or the runtime, cannot be made.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The task of a case panicked.
    #[error("the case panicked")]
    Panicked,
}

/// A plugin under test. Its component is compiled to native code once.
#[derive(Debug)]
pub struct Plugin {
    folder: PathBuf,
    name: String,
    runner: CaseRunner,
    _cache: TempDir,
}

impl Plugin {
    /// Opens a plugin whose component is there: `folder` has its `plugin.toml`.
    ///
    /// # Errors
    /// The manifest cannot be read.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, Error> {
        let folder = folder.as_ref().to_owned();
        let manifest = Manifest::read(&folder, None).map_err(SuiteError::from)?;
        let cache = TempDir::with_prefix("rind-test-")?;
        Ok(Self {
            name: manifest.name,
            runner: CaseRunner {
                compiler: Compiler::default(),
                cache: cache.path().join("components"),
                cache_key: cache.path().join("cache.key"),
            },
            folder,
            _cache: cache,
        })
    }

    /// Compiles a plugin as `rind plugin build` does, and opens it.
    ///
    /// # Errors
    /// It does not compile, or the manifest cannot be read.
    pub fn build(folder: impl AsRef<Path>) -> Result<Self, Error> {
        let folder = folder.as_ref();
        let options = BuildOptions {
            dirs: vec![folder.to_owned()],
            out: None,
            deadline: BUILD_DEADLINE,
            shared: None,
        };
        let cancel = CancellationToken::new();
        let failed = |message: String| Error::Build {
            folder: folder.to_owned(),
            message,
        };
        let report = block_on(async {
            build_plugins(&options, &(Arc::new(|_: &str| {}) as _), &cancel).await
        })?
        .map_err(|error| failed(format!("{error:#}")))?;
        if report.failed.is_empty() {
            Self::open(folder)
        } else {
            let why: Vec<String> = report.failed.iter().map(ToString::to_string).collect();
            Err(failed(why.join("\n")))
        }
    }

    /// Begins a case. What is not given is as in a case file: the model answers "done", and tool calls are approved.
    pub fn case(&self) -> Case<'_> {
        Case {
            plugin: self,
            given: CaseGiven::default(),
        }
    }

    /// Runs all cases in the plugin's `tests/*.toml`, as `rind plugin test` does.
    ///
    /// # Errors
    /// One of them failed or cannot be read, or there is none.
    pub fn run_case_files(&self) -> Result<(), Error> {
        let suite = CaseSuite::read_suite(&self.folder)?;
        let selection = CaseSelection::default();
        let ran = block_on(async { suite.run_suite(&self.runner, &selection, |_| {}).await })?;
        if ran.is_empty() {
            let folder = self.folder.join("tests");
            return Err(Error::Failed(format!(
                "there is no case in {}",
                folder.display()
            )));
        }
        let failed = ran.iter().filter(|case| !case.passed()).map(|case| {
            let (file, line) = (case.file.display(), case.line);
            format!("{file}:{line}: {}\n{}", case.name, case.failures.join("\n"))
        });
        let failed: Vec<String> = failed.collect();
        if failed.is_empty() {
            Ok(())
        } else {
            Err(Error::Failed(failed.join("\n")))
        }
    }
}

/// A case: the situation of a turn, or hooks that are called alone.
#[derive(Clone, Debug)]
#[must_use = "`run` runs the case"]
pub struct Case<'a> {
    plugin: &'a Plugin,
    given: CaseGiven,
}

impl Case<'_> {
    /// Sets the input of the turn.
    pub fn input(mut self, text: impl Into<String>) -> Self {
        self.given.input = Some(text.into());
        self
    }

    /// Has the model call a tool before it answers.
    pub fn tool(mut self, name: impl Into<String>, arguments: Value) -> Self {
        self.given.tool = Some(GivenCall {
            name: name.into(),
            arguments,
        });
        self
    }

    /// Adds an answer of the model; those come after the call of [`tool`](Self::tool), one for each request.
    pub fn reply(mut self, reply: Reply) -> Self {
        self.given.reply.push(reply);
        self
    }

    /// Calls the hooks of a point with this payload, instead of a turn. Its fields are named as in
    /// a case file.
    pub fn event(mut self, point: impl Into<String>, payload: Value) -> Self {
        self.given.event.push(GivenEvent {
            point: point.into(),
            payload,
            step: 1,
        });
        self
    }

    /// Calls a slash command of the plugin, instead of a turn. `arguments` is a table where the
    /// command has a schema, and otherwise the text after its name.
    pub fn command(mut self, name: impl Into<String>, arguments: impl Into<Value>) -> Self {
        self.given.command = Some(GivenCommand {
            name: name.into(),
            arguments: Some(arguments.into()),
        });
        self
    }

    /// Runs the plugin's loop once, instead of a turn.
    pub fn run_loop(mut self) -> Self {
        self.given.runs_loop = true;
        self
    }

    /// Sets a setting of the plugin.
    pub fn config(mut self, key: impl Into<String>, value: impl Into<toml::Value>) -> Self {
        self.given.config.insert(key.into(), value.into());
        self
    }

    /// Puts a file into the workspace.
    pub fn file(mut self, path: impl Into<String>, text: impl Into<String>) -> Self {
        self.given.files.insert(path.into(), text.into());
        self
    }

    /// Puts a value into the plugin's store.
    pub fn stored(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.given.store.insert(key.into(), value.into());
        self
    }

    /// Puts a value into the plugin's state of the session.
    pub fn state(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.given.state.insert(key.into(), value.into());
        self
    }

    /// Sets a secret for credentials.
    pub fn secret(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.given.secrets.insert(name.into(), value.into());
        self
    }

    /// Adds an answer of a server. A request without one is refused.
    pub fn answer(mut self, answer: CannedAnswer) -> Self {
        self.given.http.push(answer);
        self
    }

    /// Answers questions of tool calls in this order: `yes`, `always`, or `no` with a reason behind it.
    pub fn person(mut self, answers: &[&str]) -> Self {
        let answers = answers.iter().map(|answer| (*answer).to_owned());
        self.given.answers = Some(answers.collect());
        self
    }

    /// Answers the plugin's own questions in this order: `yes` or `no`, an option, or a text.
    /// Without this there is no person.
    pub fn replies(mut self, replies: &[&str]) -> Self {
        let replies = replies.iter().map(|reply| (*reply).to_owned());
        self.given.replies = Some(replies.collect());
        self
    }

    /// Runs the case, also within another runtime.
    ///
    /// # Errors
    /// It cannot be run, or the plugin acts differently with a kept and with a fresh instance.
    pub fn run(self) -> Result<Outcome, Error> {
        let Self { plugin, given } = self;
        let case = rind::cases::PluginCase {
            name: String::new(),
            given,
            expect: CaseExpect::default(),
            then: Vec::new(),
            line: 0,
        };
        let ran = block_on(run_case(
            &plugin.runner,
            &plugin.folder,
            &plugin.name,
            &case,
        ))??;
        if ran.differences.is_empty() {
            Ok(ran)
        } else {
            Err(Error::Failed(ran.differences.join("\n")))
        }
    }
}

/// Runs a future to its end on a thread of its own: the caller may be a task of a runtime, which must not wait for another one.
fn block_on<T: Send>(future: impl Future<Output = T> + Send) -> Result<T, Error> {
    let run = || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        Ok(runtime.block_on(future))
    };
    std::thread::scope(|scope| scope.spawn(run).join().map_err(|_| Error::Panicked))?
}

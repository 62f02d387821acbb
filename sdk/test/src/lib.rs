//! Tests Rind plugins from `#[test]` functions: runs a plugin's component in the real sandbox.
//!
//! A [`Case`] corresponds to a `[[case]]` table in a plugin's `tests/*.toml` and runs as
//! `rind plugin test` runs that: with all permissions that the plugin requests, in temporary
//! folders, once warm (one instance) and once cold (a fresh instance for each call). The case fails
//! if the plugin behaves differently in the two runs.
//!
//! ```
//! use rind_test::Plugin;
//! use serde_json::json;
//!
//! # fn main() -> Result<(), rind_test::Error> {
//! # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugins/hello");
//! // Compiles the plugin as `rind plugin build` does; `Plugin::open` opens a compiled plugin.
//! let plugin = Plugin::build(folder)?;
//!
//! let ran = plugin.case().tool("greet", json!({"name": "Ada"})).run()?;
//! assert_eq!(ran.seen.results, ["Hello, Ada!"]);
//! assert_eq!(ran.seen.log, ["the turn took 2 steps"]);
//!
//! // Calls only the hooks of a point, without a turn.
//! let ran = plugin.case().event("turn-end", json!({"steps": 7})).run()?;
//! assert_eq!(ran.seen.log, ["the turn took 7 steps"]);
//! assert_eq!(ran.cost.host_calls["log"], 1);
//!
//! // Runs all cases in the plugin's `tests/*.toml`.
//! plugin.run_case_files()?;
//! # Ok(())
//! # }
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rind::author::build::{BuildOptions, build_plugins};
use rind::cases::event::GivenEvent;
use rind::cases::file::{CannedResponse, CaseExpectation, CaseGiven, GivenCommand, GivenToolCall};
use rind::cases::run::RunError;
use rind::cases::suite::{CaseSelection, CaseSuite, SuiteError};
use rind::cases::{CaseRunner, run_case};
use rind::plugin::compile::Compiler;
use rind::plugin::manifest::Manifest;
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub use rind::cases::file::CannedResponse as Answer;
pub use rind::cases::seen::ObservedHook as HookSeen;
pub use rind::cases::{CaseCost as Cost, CaseOutcome as Outcome, ObservedTurn as Seen};
pub use rind::provider::scripted::Reply;

/// Timeout for compiling a plugin. The first build also compiles the SDK's dependencies.
const BUILD_DEADLINE: Duration = Duration::from_secs(600);

/// Error that prevents a case from running, or the failure of a case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The plugin cannot be compiled.
    #[error("cannot compile the plugin in {}: {message}", folder.display())]
    Build {
        /// Folder of the plugin.
        folder: PathBuf,
        /// Error message of the build.
        message: String,
    },
    /// The manifest or a case file of the plugin cannot be read.
    #[error(transparent)]
    Suite(#[from] SuiteError),
    /// The case cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Cases failed, for the reasons in the text.
    #[error("{0}")]
    Failed(String),
    /// The folder of the compile cache or the runtime cannot be created.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The thread that runs the case panicked.
    #[error("the test case panicked")]
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
    /// Opens a plugin that is already built: `folder` contains the component and its `plugin.toml`.
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
    /// The plugin does not compile, or its manifest cannot be read.
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

    /// Begins a case. The defaults are those of a case file: the model answers "done", and tool
    /// calls are approved.
    pub fn case(&self) -> Case<'_> {
        Case {
            plugin: self,
            given: CaseGiven::default(),
        }
    }

    /// Runs all cases in the plugin's `tests/*.toml`, as `rind plugin test` does.
    ///
    /// # Errors
    /// A case failed or cannot be read, or there are no cases.
    pub fn run_case_files(&self) -> Result<(), Error> {
        let suite = CaseSuite::read_suite(&self.folder)?;
        let selection = CaseSelection::default();
        let ran = block_on(async { suite.run_suite(&self.runner, &selection, |_| {}).await })?;
        if ran.is_empty() {
            let folder = self.folder.join("tests");
            return Err(Error::Failed(format!(
                "there is no test case in {}",
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

/// A case to run: the situation of a turn, or hooks, a command or the plugin's loop, which are
/// called instead of a turn.
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

    /// Makes the scripted model call a tool before it answers.
    pub fn tool(mut self, name: impl Into<String>, arguments: Value) -> Self {
        self.given.tool = Some(GivenToolCall {
            name: name.into(),
            arguments,
        });
        self
    }

    /// Adds an answer of the model. The model gives one answer per request, after the call set by
    /// [`tool`](Self::tool).
    pub fn reply(mut self, reply: Reply) -> Self {
        self.given.reply.push(reply);
        self
    }

    /// Calls the hooks of a point with this payload, instead of a turn. The fields of the payload
    /// are named as in a case file.
    pub fn event(mut self, point: impl Into<String>, payload: Value) -> Self {
        self.given.event.push(GivenEvent {
            point: point.into(),
            payload,
            step: 1,
        });
        self
    }

    /// Calls a slash command of the plugin, instead of a turn. `arguments` is a table if the
    /// command has a schema, and otherwise the text after the command's name.
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

    /// Puts a value into the plugin's session state.
    pub fn state(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.given.state.insert(key.into(), value.into());
        self
    }

    /// Sets a secret, which the credentials in the plugin's requests can use.
    pub fn secret(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.given.secrets.insert(name.into(), value.into());
        self
    }

    /// Adds a canned answer of an HTTP server. A request that no answer matches is refused.
    pub fn answer(mut self, answer: CannedResponse) -> Self {
        self.given.http.push(answer);
        self
    }

    /// Answers the approval questions of tool calls in this order: `yes`, `always`, or `no`,
    /// optionally followed by a reason.
    pub fn person(mut self, answers: &[&str]) -> Self {
        let answers = answers.iter().map(|answer| (*answer).to_owned());
        self.given.answers = Some(answers.collect());
        self
    }

    /// Answers the plugin's own questions in this order: `yes` or `no`, an option, or a text.
    /// Without replies, the plugin learns that no person is there to ask.
    pub fn replies(mut self, replies: &[&str]) -> Self {
        let replies = replies.iter().map(|reply| (*reply).to_owned());
        self.given.replies = Some(replies.collect());
        self
    }

    /// Runs the case. May be called from within another runtime.
    ///
    /// # Errors
    /// The case cannot be run, or the plugin acts differently with one kept instance than with a
    /// fresh instance for each call.
    pub fn run(self) -> Result<Outcome, Error> {
        let Self { plugin, given } = self;
        let case = rind::cases::PluginCase {
            name: String::new(),
            given,
            expect: CaseExpectation::default(),
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

/// Runs a future to completion on a new thread, because the caller may be a task of a runtime,
/// which must not block on a second runtime.
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

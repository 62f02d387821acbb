//! Rind: an agent host. It owns the agent loop; everything that is opinion lives in plugins, which are sandboxed
//! WebAssembly components.
//!
//! [`Host`] is the way in for everybody: a program that embeds it, and the command line `rind`, which is one.
//!
//! ```
//! # use std::time::Duration;
//! # use rind::author::build::{BuildOptions, build};
//! use std::sync::Arc;
//!
//! use rind::grant::Trust;
//! use rind::point::catalog::PreTool;
//! use rind::point::outcome::{CallOutcome, CallVerdict};
//! use rind::provider::scripted::{Reply, Script, Scripted};
//! use rind::{Host, PluginFolders};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let plugins = folder.path();
//! # let dirs = vec![concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/hello").into()];
//! # let options = BuildOptions { dirs, out: Some(plugins.into()), deadline: Duration::from_secs(600) };
//! # let cancel = tokio_util::sync::CancellationToken::new();
//! # assert!(build(&options, &(Arc::new(|_: &str| {}) as _), &cancel).await?.failed.is_empty());
//! // A model that plays a script; `provider::anthropic` and `provider::openai` are real ones.
//! let greet = Reply::call("greet", serde_json::json!({"name": "Ada"}));
//! let read = Reply::call("read_file", serde_json::json!({"path": "key.pem"}));
//! let model = Scripted::new(Script::new(vec![greet, read, Reply::text("She was greeted.")]));
//!
//! let host = Host::builder()
//!     .provider(Arc::new(model), "scripted")
//!     // A folder of plugins: one of them brings the tool `greet`.
//!     .plugins(PluginFolders::new(Trust::Managed, plugins))
//!     .file_tools()
//!     // A hook of one's own, at a point where plugins act as well.
//!     .on::<PreTool>("no-keys", |_caller, proposed| {
//!         let is_key = proposed.call.arguments.to_string().contains(".pem");
//!         Ok(CallOutcome {
//!             verdict: if is_key { CallVerdict::Block("keys stay here".into()) } else { CallVerdict::Pass },
//!             ..CallOutcome::default()
//!         })
//!     })
//!     // An observer of everything that happens.
//!     .observe(|event| println!("{} {}", event.at, event.event.name()))
//!     .build()
//!     .await?;
//!
//! let mut session = host.session().create()?;
//! let outcome = session.turn("Greet Ada.").await?;
//! assert_eq!(outcome.output, "She was greeted.");
//! # let results: Vec<String> = session.messages().iter().flat_map(|m| m.tool_results()).map(|r| r.content.text().into_owned()).collect();
//! # assert_eq!(results[0], "Hello, Ada!");
//! # assert!(results[1].contains("keys stay here"), "{results:?}");
//! session.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Tools and hooks of one's own implement [`Tool`](tool::Tool) and [`Hook`](point::Hook), which those of plugins implement
//! too; a policy of one's own implements [`Policy`](tool::policy::Policy), a person is asked through
//! [`Approver`](tool::approval::Approver). `examples/` has a server that keeps many sessions, and a policy.
//!
//! Modules stand in layers, in reading order. Each may use those above its layer and none below; a test holds the order. What
//! is hidden from these pages is public for the tests of this repository, and may change in any release.

// Data: no async, no network, no WebAssembly.
pub(crate) mod beneath;
pub(crate) mod clock;
pub(crate) mod disk;
pub(crate) mod front_matter;
pub(crate) mod git;
#[doc(hidden)]
pub mod json;
pub(crate) mod lock;
pub mod message;
pub mod paths;
#[doc(hidden)]
pub mod text;
pub(crate) mod tokens;

// Where plugins act.
pub mod point;

// Permissions of plugins, and secrets that must not leave.
pub mod grant;
#[doc(hidden)]
pub mod secret;

// Settings and events.
pub mod config;
pub mod event;

// Parts of a turn.
#[doc(hidden)]
pub mod folder;
pub mod price;
pub mod provider;
pub mod session;
pub mod tool;

// Skills.
pub mod skill;

// Network access of plugins.
pub mod egress;

// Prompts and context files.
pub(crate) mod prompt;

// Export of traces.
#[cfg(feature = "otel")]
pub mod telemetry;

// The agent loop, the sandbox.
pub mod agent;
pub mod plugin;

// Programs of the operator as hooks.
pub mod script;

// Builds of plugins.
#[doc(hidden)]
pub mod author;

// Packed and installed plugins, installed skills.
#[cfg(feature = "cli")]
pub(crate) mod package;

// The host, which puts the parts together.
pub mod host;

// Checks and tests of plugins for their authors.
#[cfg(feature = "cases")]
#[doc(hidden)]
pub mod cases;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod check;

// Skills that are derived from packages.
#[cfg(feature = "cli")]
pub(crate) mod derive;

// The command line.
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;

pub use host::{Host, PluginFolders, Session};

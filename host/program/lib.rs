//! Rind: an agent host. It owns the agent loop; everything that is opinion lives in plugins, which
//! are sandboxed WebAssembly components.
//!
//! [`Host`] is the entry point for every user of this library: a program that embeds it, and the
//! command line `rind`, which is such a program.
//!
//! ```
//! # use std::time::Duration;
//! # use rind::author::build::{BuildOptions, build_plugins};
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
//! # let dirs = vec![concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugins/hello").into()];
//! # let options = BuildOptions { dirs, out: Some(plugins.into()), deadline: Duration::from_secs(600), shared: None };
//! # let cancel = tokio_util::sync::CancellationToken::new();
//! # assert!(build_plugins(&options, &(Arc::new(|_: &str| {}) as _), &cancel).await?.failed.is_empty());
//! // A model that plays a script; `provider::connect` makes clients of real ones.
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
//! Your own tools and hooks implement [`Tool`](tool::Tool) and [`Hook`](point::Hook), as those of
//! plugins do; your own policy implements [`Policy`](tool::policy::Policy), and a person is asked
//! through [`Approver`](tool::approval::Approver). `examples/` has a server that keeps many
//! sessions, and a policy.
//!
//! The code is in the crate `rind-lib` and in the crates of `host/crates`, which this crate
//! re-exports. Cargo compiles a library only after the build script of its package has run. In
//! packages of their own, the libraries are compiled while the build script of this package
//! compiles the plugins that the program carries.

#[doc(hidden)]
pub use rind_author as author;
#[cfg(feature = "cases")]
#[doc(hidden)]
pub use rind_cases as cases;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub use rind_check as check;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub use rind_cli as cli;
#[doc(inline)]
pub use rind_lib::*;
#[cfg(feature = "cli")]
#[doc(inline)]
pub use rind_operator as operator;
#[cfg(feature = "otel")]
#[doc(inline)]
pub use rind_otel as telemetry;

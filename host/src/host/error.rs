//! Defines the reasons why a host or a session cannot be created.

use std::io;
use std::path::PathBuf;

use crate::beneath::real_path;
use crate::grant::answers::GrantAnswersError;
use crate::paths::RindPaths;
use crate::tool::registry::ToolRegistrationError;
use crate::{plugin, session};

/// Reason why a host was not built, or a session not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No model provider was set in the builder.
    #[error("the host has no model to ask: name one with `HostBuilder::provider`")]
    NoProvider,
    /// A folder of the host cannot be made or opened.
    #[error("cannot open the folder {}", path.display())]
    Folder {
        /// Path of the folder that cannot be created or opened.
        path: PathBuf,
        /// Error that the operating system reported.
        #[source]
        source: io::Error,
    },
    /// The workspace is one of the host's own folders, or inside one.
    #[error(
        "the workspace {} is in the host's own folder {}, so that tools and plugins could reach settings, sessions and \
         grants; choose another workspace",
        workspace.display(), own.display()
    )]
    Overlap {
        /// Path of the workspace that was chosen.
        workspace: PathBuf,
        /// Folder of the host that contains the workspace.
        own: PathBuf,
    },
    /// Plugins cannot be loaded, or a required or relied-on plugin does not run.
    #[error(
        "the host cannot start, because its plugins cannot be loaded or a required plugin does not run"
    )]
    Plugins(#[from] plugin::Error),
    /// A native hook has the same name as a plugin.
    #[error(
        "a hook of the host is called `{name}`, which is the name of a plugin; give it another name"
    )]
    NameTaken {
        /// Name that the native hook and the plugin share.
        name: String,
    },
    /// The loop of this plugin cannot run the turns, although the settings say so.
    #[error(
        "`loop = \"{plugin}\"` under [agent] in the settings: {why}. Rind does not use another loop instead; remove the line to use the built-in loop"
    )]
    AgentLoop {
        /// Name of the plugin whose loop was to run the turns.
        plugin: String,
        /// Reason why the loop cannot run the turns.
        why: String,
    },
    /// The settings of a script do not fit the extension points at which it is called, or its name
    /// is taken.
    #[error("{}script `{name}`: {why}", if place.is_empty() { String::new() } else { format!("{place}: ") })]
    Script {
        /// Location of the script's settings; empty if there is none.
        place: String,
        /// Name of the script that cannot be used.
        name: String,
        /// Reason why the script cannot be used.
        why: String,
    },
    /// A tool cannot be registered, for example because its name is taken.
    #[error(transparent)]
    Tool(#[from] ToolRegistrationError),
    /// A session cannot be created, found or opened.
    #[error(transparent)]
    Session(#[from] session::Error),
    /// The operator's answers about the permissions of plugins cannot be stored.
    #[error("cannot store the user's answers about the permissions of plugins")]
    Answers(#[from] GrantAnswersError),
}

impl Error {
    /// Returns the first session error among `error` and its causes.
    #[must_use]
    pub fn find_session_error_in_chain<'e>(
        error: &'e (dyn std::error::Error + 'static),
    ) -> Option<&'e session::Error> {
        let mut next = Some(error);
        while let Some(cause) = next {
            if let Some(Self::Session(found)) = cause.downcast_ref() {
                return Some(found);
            }
            if let Some(found) = cause.downcast_ref() {
                return Some(found);
            }
            next = cause.source();
        }
        None
    }
}

/// Checks that the workspace is not one of the host's own folders and not inside one, because a
/// tool that may read or write the workspace would reach sessions, keys and grants. If one of the
/// host's own folders is inside the workspace, it is hidden from tools, commands and plugins
/// instead.
///
/// # Errors
/// [`Error::Overlap`] names both folders.
pub fn check_workspace_outside_host_folders(paths: &RindPaths) -> Result<(), Error> {
    let workspace = real_path(&paths.workspace);
    // The managed folder, with the plugins of the installation, may contain the workspace: a
    // developer who builds Rind in a checkout and works there has the program itself in the
    // workspace.
    let mut own = paths
        .config_data_cache_folders()
        .map(|path| real_path(&path))
        .into_iter();
    match own.find(|own| workspace.starts_with(own)) {
        None => Ok(()),
        Some(own) => Err(Error::Overlap { workspace, own }),
    }
}

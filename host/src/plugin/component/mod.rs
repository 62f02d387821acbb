//! Components that were not written for this host: every exported function is a tool.
//!
//! Such a component has no manifest and no contract. The operator names it and gives it permissions,
//! so a manifest stands for one that holds exactly these; from there on it is loaded, granted, limited
//! and judged like a plugin. Types of the component model become JSON Schema; a function whose types
//! have no JSON form (resources, streams, futures) is not offered, and is named.
//!
//! Start from [`ForeignComponent`].

mod arguments;
mod call;
mod docs;
mod functions;
mod results;
mod schemas;

use std::path::PathBuf;

use super::manifest::Manifest;

pub(super) use call::ForeignTool;
pub(super) use functions::{ForeignFunctions, check_foreign_import, list_functions};

/// A component to load, with the permissions that the operator gives it.
#[derive(Clone, Debug)]
pub struct ForeignComponent {
    /// Folder of the file, as a real path.
    pub folder: PathBuf,
    /// Stands for the manifest that the component does not have.
    pub manifest: Manifest,
    /// Environment variables that it sees.
    pub environment: Vec<(String, String)>,
}

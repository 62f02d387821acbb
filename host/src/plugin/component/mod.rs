//! Components that were not written for this host: every exported function is a tool.
//!
//! Such a component has no manifest and no contract. The operator configures the component's name
//! and permissions. A manifest with exactly these permissions is created for the component, which
//! from then on is loaded, limited and checked like a plugin. Types of the component model become
//! JSON Schema; a function whose types have no JSON form (resources, streams, futures) is not
//! offered; it is reported instead.
//!
//! Start from [`ComponentWithoutOwnManifest`].

mod arguments;
mod call;
mod docs;
mod functions;
mod results;
mod schemas;

use std::path::PathBuf;

use super::manifest::Manifest;

pub(super) use call::ComponentFunctionTool;
pub(super) use functions::{ComponentFunctions, check_component_import, list_functions_as_tools};

/// Component to load, with the permissions that the operator grants to it.
#[derive(Clone, Debug)]
pub struct ComponentWithoutOwnManifest {
    /// Canonical path of the folder that contains the component file.
    pub folder: PathBuf,
    /// Manifest that the host created for the component, which has no manifest of its own.
    pub manifest: Manifest,
    /// Environment variables that the component sees.
    pub environment: Vec<(String, String)>,
}

//! Packages: a plugin packed into one file, and the installation of plugins and skills from such
//! files, archives, directories and registries.
//!
//! A source is read once, into memory. It is checked, digested and written from there, so that a
//! source that changes meanwhile has no effect. This module must not know the terminal: refusals
//! are texts, and the caller asks the questions.
//!
//! Start from [`source::fetch`].

mod archive;
pub(crate) mod contents;
pub(crate) mod installed;
pub(crate) mod lock_file;
pub(crate) mod pack;
pub(crate) mod place;
pub(crate) mod registry;
pub(crate) mod signature;
pub(crate) mod skill;
pub(crate) mod source;

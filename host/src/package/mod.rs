//! Packages of plugins: one file that carries a whole plugin, and plugins and skills that were installed: from such files, from
//! archives, from folders and from registries.
//!
//! A source is read once, into memory. It is checked, digested and written from there, so that a source that changes meanwhile
//! changes nothing. It must not know the terminal: refusals are texts, and questions are the caller's.
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

//! Packs plugins into one file or into a package of npm, PyPI or crates, and installs plugins and
//! skills from such files, archives, directories and registries.
//!
//! A source is read once, into memory. It is checked, digested and written from memory, so a later
//! change of the source has no effect. This crate does not use the terminal: it returns errors, and
//! the caller talks to the user.
//!
//! Start from [`source::fetch_plugin`].

mod archive;
#[doc(hidden)]
pub mod bundle;
mod carried;
#[doc(hidden)]
pub mod contents;
#[doc(hidden)]
pub mod ecosystem;
#[doc(hidden)]
pub mod installed;
#[doc(hidden)]
pub mod lock_file;
#[doc(hidden)]
pub mod pack;
#[doc(hidden)]
pub mod place;
#[doc(hidden)]
pub mod registry;
#[doc(hidden)]
pub mod signature;
#[doc(hidden)]
pub mod skill;
#[doc(hidden)]
pub mod source;
mod zip;

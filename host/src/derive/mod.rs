//! Skills that are derived from packages: from a plugin, a component, a WIT package or a Rust crate.
//!
//! Owns how sources are read (within bounds, and nothing of them is run or built), and how a bundle is written so that the same
//! source gives the same bytes and no text of it acts. It must not know the terminal, nor where bundles are kept. `rust::outline`,
//! `wit::package` and `wit::component` parse text of strangers with libraries, so their caller gives them a process of their own.
//!
//! Start from [`Draft`], which every kind of source makes.

mod bundle;
mod hooks;
mod markdown;
pub(crate) mod plugin;
pub(crate) mod rust;
mod schema;
pub(crate) mod sources;
mod text;
pub(crate) mod wit;

pub(crate) use bundle::{Bundle, Draft, SourceHash, Summary};
pub(crate) use text::slug;

/// Returns the text of a model as Markdown that cannot break out of its section, about `limit` bytes of it.
pub(crate) fn summary_text(text: &str, limit: usize) -> String {
    markdown::prose(text, markdown::Kind::Plain, limit)
}

/// A number with its noun.
fn count(n: usize, what: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {what}{s}")
}

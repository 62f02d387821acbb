//! Skills that are derived from packages: from a plugin, a component, a WIT package or a Rust crate.
//!
//! Owns how sources are read (within bounds, and nothing of them is run or built), and how a bundle is written so that the same
//! source gives the same bytes and no text of it acts. It must not know the terminal, nor where bundles are kept. What parses text
//! of strangers with libraries (Rust, WIT, components, Markdown, schemas) is done by a [`Job`], so that its caller can give it a
//! process of its own.
//!
//! Start from [`Draft`], which every kind of source makes.

mod bundle;
mod hooks;
mod job;
mod markdown;
pub(crate) mod plugin;
mod rust;
mod schema;
pub(crate) mod sources;
mod text;
mod wit;

pub(crate) use bundle::{Bundle, Draft, SourceHash, Stamped, Summary};
pub(crate) use job::{Drafted, Job};
pub(crate) use markdown::summary;
pub(crate) use text::slug;

/// Longest part of a README that is kept, in bytes.
const MAX_README_BYTES: usize = 12 << 10;

/// Most tools, modules, interfaces or examples that are listed in one place.
const MAX_LISTED: usize = 120;

/// Returns the number of things that a list of `n` leaves out, if it does.
fn n_more(n: usize) -> Option<usize> {
    n.checked_sub(MAX_LISTED).filter(|n| *n > 0)
}

/// A number with its noun.
fn count(n: usize, what: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {what}{s}")
}

//! Derives skills from packages: from a plugin, a component, a WIT package or a Rust crate.
//!
//! The crate reads sources (with limits; nothing of a source is executed or built) and renders
//! bundles. Rendering is deterministic, and makes text of the source inert. The crate neither uses
//! the terminal nor stores bundles. Libraries that parse
//! untrusted input (Rust, WIT, components, Markdown, schemas) run only inside a [`SkillDeriveJob`],
//! so that the caller can run the job in a separate process.
//!
//! Start from [`SkillDraft`], which every kind of source produces.

mod bundle;
mod hooks;
mod job;
mod markdown;
#[doc(hidden)]
pub mod plugin;
mod rust;
mod schema;
#[doc(hidden)]
pub mod sources;
mod text;
mod wit;

pub use bundle::{
    BundleSourceHasher, PackageSummary, SkillBundle, SkillBundleProvenance, SkillDraft,
};
pub use job::{DeriveJobResult, SkillDeriveJob};
pub use markdown::sanitize_model_written_summary;
pub use text::skill_slug;

/// Maximum size of the part of a README that goes into a skill, in bytes.
const MAX_README_EXCERPT_BYTES: usize = 12 << 10;

/// Maximum number of tools, modules, interfaces or examples in one list.
const MAX_ENTRIES_PER_LIST: usize = 120;

/// Returns how many of `n` items exceed [`MAX_ENTRIES_PER_LIST`], if any.
fn count_unlisted_items(n: usize) -> Option<usize> {
    n.checked_sub(MAX_ENTRIES_PER_LIST).filter(|n| *n > 0)
}

/// Formats a number with its noun, in the plural unless `n` is 1.
fn format_number_with_noun(n: usize, what: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {what}{s}")
}

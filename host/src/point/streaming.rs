//! Decides from the bound hooks whether the model's text may be shown while it is written.
//!
//! Text that was shown cannot be taken back. So it streams only when every hook that may still change or refuse it has given
//! that right up, or its plugin looks at `output-delta` as well. Start from [`Streaming::of`].

use std::sync::Arc;

use super::Point;
use super::catalog::{OutputDelta, PostReason, PostReflect, PreOutput, PreReflect};
use super::failure::OnFailure;
use super::registry::HookSpec;

/// Points whose hooks judge an answer that is whole.
const JUDGING: [&str; 4] = [
    PostReason::NAME,
    PreReflect::NAME,
    PostReflect::NAME,
    PreOutput::NAME,
];

/// Rights by which a hook changes or refuses a text.
const CHANGING: [&str; 3] = ["text", "draft", "block"];

/// A hook that keeps text from being shown before it is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// Name of the plugin.
    pub plugin: Arc<str>,
    /// Name of the point.
    pub point: String,
}

/// Way of the model's text to the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Streaming {
    /// While it is written: no hook may change it.
    Free,
    /// Shown up to where the hooks of `output-delta` have let it through.
    Judged,
    /// When it is complete and these have judged it.
    Held(Vec<Holder>),
}

impl Streaming {
    /// Decides from the hooks that are called.
    pub(crate) fn of<'a>(specs: impl Iterator<Item = &'a HookSpec> + Clone) -> Self {
        let holders: Vec<Holder> = specs
            .clone()
            .filter(|spec| holds(spec, specs.clone()))
            .map(|spec| Holder {
                plugin: spec.plugin.clone(),
                point: spec.point.clone(),
            })
            .collect();
        if !holders.is_empty() {
            Self::Held(holders)
        } else if specs.into_iter().any(looks) {
            Self::Judged
        } else {
            Self::Free
        }
    }

    /// Names of the plugins that hold text back, each once.
    #[must_use]
    pub(crate) fn holders(&self) -> Vec<Arc<str>> {
        let Self::Held(holders) = self else {
            return Vec::new();
        };
        let mut names: Vec<Arc<str>> = holders.iter().map(|held| held.plugin.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Whether a hook, among `all` that are called, keeps text from being shown before it is whole.
pub(crate) fn holds<'a>(spec: &HookSpec, mut all: impl Iterator<Item = &'a HookSpec>) -> bool {
    // One that blocks when it fails can refuse, whatever its rights.
    let is_judge = JUDGING.contains(&&*spec.point)
        && (spec.on_failure == OnFailure::Block
            || CHANGING.iter().any(|right| spec.has_right(right)));
    // A look that is skipped when it fails would let through what this hook refuses then.
    let covers = |look: &HookSpec| {
        look.plugin == spec.plugin
            && looks(look)
            && (look.on_failure == OnFailure::Block || spec.on_failure == OnFailure::Skip)
    };
    is_judge && !all.any(covers)
}

/// Whether a hook looks at text as it is written and may change it.
fn looks(spec: &HookSpec) -> bool {
    spec.point == OutputDelta::NAME && CHANGING.iter().any(|right| spec.has_right(right))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn spec(plugin: &str, point: &str, may: Option<&[&str]>, on_failure: OnFailure) -> HookSpec {
        HookSpec {
            plugin: plugin.into(),
            point: point.to_owned(),
            priority: 100,
            deadline: Duration::from_secs(1),
            on_failure,
            is_async: false,
            may_change: true,
            may: may.map(|may| may.iter().map(|right| (*right).to_owned()).collect()),
        }
    }

    #[test]
    fn text_streams_when_whoever_may_change_it_gave_that_up_or_looks_at_it_as_it_comes() {
        use OnFailure::{Block, Skip};
        let table = [
            (vec![], "free"),
            (vec![("a", "pre-reason", None, Block)], "free"),
            (vec![("a", "post-output", None, Skip)], "free"),
            (vec![("a", "post-reflect", None, Skip)], "free"),
            (vec![("a", "post-reason", None, Skip)], "a"),
            (vec![("a", "pre-reflect", None, Skip)], "a"),
            (vec![("a", "pre-output", None, Skip)], "a"),
            (
                vec![("a", "post-reason", Some(&["inject"][..]), Skip)],
                "free",
            ),
            (vec![("a", "post-reason", Some(&[]), Skip)], "free"),
            (vec![("a", "post-reason", Some(&["block"]), Skip)], "a"),
            (
                vec![("a", "pre-reflect", Some(&["criteria", "verdict"]), Skip)],
                "free",
            ),
            // What blocks when it fails can still refuse.
            (vec![("a", "post-reason", Some(&["inject"]), Block)], "a"),
            (vec![("a", "post-reflect", None, Block)], "a"),
            (vec![("a", "output-delta", None, Block)], "judged"),
            (
                vec![
                    ("a", "pre-output", None, Block),
                    ("a", "output-delta", None, Block),
                ],
                "judged",
            ),
            (
                vec![
                    ("a", "pre-output", None, Skip),
                    ("a", "output-delta", None, Skip),
                ],
                "judged",
            ),
            // A look that is skipped does not stand for a guard that blocks, nor that of another plugin, nor one that may do
            // nothing.
            (
                vec![
                    ("a", "pre-output", None, Block),
                    ("a", "output-delta", None, Skip),
                ],
                "a",
            ),
            (
                vec![
                    ("a", "pre-output", None, Block),
                    ("b", "output-delta", None, Block),
                ],
                "a",
            ),
            (
                vec![
                    ("a", "pre-output", None, Block),
                    ("a", "output-delta", Some(&[]), Block),
                ],
                "a",
            ),
        ];
        for (hooks, expected) in table {
            let hooks = hooks.into_iter();
            let specs: Vec<HookSpec> = hooks.map(|(a, b, c, d)| spec(a, b, c, d)).collect();
            let streaming = Streaming::of(specs.iter());
            let found = match &streaming {
                Streaming::Free => "free".to_owned(),
                Streaming::Judged => "judged".to_owned(),
                Streaming::Held(_) => streaming.holders().join(" "),
            };
            assert_eq!(found, expected, "{specs:?}");
        }
    }
}

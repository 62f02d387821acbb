//! Decides from the bound hooks whether the model's text may be displayed while it arrives.
//!
//! Displayed text cannot be withdrawn. So the text streams only if no hook has the right to change
//! or refuse it later, except hooks of plugins that also have a hook at `output-delta`. Start from
//! [`StreamedTextDisplayMode::from_hook_specs`].

use std::sync::Arc;

use super::ExtensionPoint;
use super::catalog::{OutputDelta, PostReason, PostReflect, PreOutput, PreReflect};
use super::failure::OnFailure;
use super::registry::HookSpec;

/// Names of the points whose hooks judge a complete answer.
const ANSWER_REVIEW_EXTENSION_POINTS: [&str; 4] = [
    PostReason::NAME,
    PreReflect::NAME,
    PostReflect::NAME,
    PreOutput::NAME,
];

/// Rights with which a hook can change or refuse a text.
const TEXT_CHANGING_HOOK_RIGHTS: [&str; 3] = ["text", "draft", "block"];

/// Hook because of which answers cannot be shown while they are streamed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamPreventingHook {
    /// Name of the plugin that has the hook.
    pub plugin: Arc<str>,
    /// Name of the extension point of the hook.
    pub point: String,
}

/// Time at which the model's text is shown to the user: at once, or after hooks have checked it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StreamedTextDisplayMode {
    /// Text is displayed as soon as it arrives, because no hook may change or refuse it.
    Free,
    /// Text is displayed up to the position that the `output-delta` hooks have released.
    Judged,
    /// Text is shown only when it is complete and these hooks have checked it.
    Held(Vec<StreamPreventingHook>),
}

impl StreamedTextDisplayMode {
    /// Decides from the hooks that will be called how the text reaches the user.
    pub(crate) fn from_hook_specs<'a>(specs: impl Iterator<Item = &'a HookSpec> + Clone) -> Self {
        let holders: Vec<StreamPreventingHook> = specs
            .clone()
            .filter(|spec| is_stream_preventing_hook(spec, specs.clone()))
            .map(|spec| StreamPreventingHook {
                plugin: spec.plugin.clone(),
                point: spec.point.clone(),
            })
            .collect();
        if !holders.is_empty() {
            Self::Held(holders)
        } else if specs.into_iter().any(can_hook_change_streamed_text) {
            Self::Judged
        } else {
            Self::Free
        }
    }

    /// Returns the names of the plugins that hold text back, without duplicates.
    #[must_use]
    pub(crate) fn text_delaying_plugin_names(&self) -> Vec<Arc<str>> {
        let Self::Held(holders) = self else {
            return Vec::new();
        };
        let mut names: Vec<Arc<str>> = holders.iter().map(|held| held.plugin.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Whether a hook prevents that the model's text is displayed while it arrives. `all` are the hooks
/// that will be called.
pub fn is_stream_preventing_hook<'a>(
    spec: &HookSpec,
    mut all: impl Iterator<Item = &'a HookSpec>,
) -> bool {
    // A hook that blocks on failure can refuse the text, regardless of its rights.
    let is_judge = ANSWER_REVIEW_EXTENSION_POINTS.contains(&&*spec.point)
        && (spec.on_failure == OnFailure::Block
            || TEXT_CHANGING_HOOK_RIGHTS
                .iter()
                .any(|right| spec.has_outcome_right(right)));
    // An `output-delta` hook that skips on failure does not replace a hook that blocks on failure:
    // if the `output-delta` hook failed, the text would be displayed unjudged.
    let covers = |look: &HookSpec| {
        look.plugin == spec.plugin
            && can_hook_change_streamed_text(look)
            && (look.on_failure == OnFailure::Block || spec.on_failure == OnFailure::Skip)
    };
    is_judge && !all.any(covers)
}

/// Whether the hook judges streamed text and may change it.
fn can_hook_change_streamed_text(spec: &HookSpec) -> bool {
    spec.point == OutputDelta::NAME
        && TEXT_CHANGING_HOOK_RIGHTS
            .iter()
            .any(|right| spec.has_outcome_right(right))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use OnFailure::{Block, Skip};

    use super::*;
    use crate::table::parse_table_rows;

    /// Parses hooks of the form `PLUGIN POINT FAILURE`, with optional `may` followed by the rights
    /// that the settings leave.
    fn specs(text: &str) -> Vec<HookSpec> {
        let hooks = text
            .split(';')
            .map(str::trim)
            .filter(|hook| !hook.is_empty());
        let spec = |hook: &str| {
            let words: Vec<&str> = hook.split(' ').collect();
            let rights = |rights: &[&str]| rights.iter().map(|right| (*right).to_owned()).collect();
            HookSpec {
                plugin: words[0].into(),
                point: words[1].to_owned(),
                priority: 100,
                deadline: Duration::from_secs(1),
                on_failure: if words[2] == "blocks" { Block } else { Skip },
                is_async: false,
                may_change: true,
                may: (words.get(3) == Some(&"may")).then(|| rights(&words[4..])),
                only_tools: None,
                only_final: false,
                only_over: None,
            }
        };
        hooks.map(spec).collect()
    }

    /// Each row lists hooks and the plugins that hold text back. A hook that blocks on failure can
    /// always refuse. A blocking guard is not covered by an output-delta hook that skips on
    /// failure, belongs to another plugin, or has no rights.
    const TABLE: &str = "
=> free
a pre-reason blocks => free
a post-output skips => free
a post-reflect skips => free
a post-reason skips => a
a pre-reflect skips => a
a pre-output skips => a
a post-reason skips may inject => free
a post-reason skips may => free
a post-reason skips may block => a
a pre-reflect skips may criteria verdict => free
a post-reason blocks may inject => a
a post-reflect blocks => a
a output-delta blocks => judged
a pre-output blocks; a output-delta blocks => judged
a pre-output skips; a output-delta skips => judged
a pre-output blocks; a output-delta skips => a
a pre-output blocks; b output-delta blocks => a
a pre-output blocks; a output-delta blocks may => a
";

    #[test]
    fn text_streams_when_whoever_may_change_it_gave_that_up_or_looks_at_it_as_it_comes() {
        for [hooks, expected] in parse_table_rows(TABLE) {
            let specs = specs(&hooks);
            let streaming = StreamedTextDisplayMode::from_hook_specs(specs.iter());
            let found = match &streaming {
                StreamedTextDisplayMode::Free => "free".to_owned(),
                StreamedTextDisplayMode::Judged => "judged".to_owned(),
                StreamedTextDisplayMode::Held(_) => {
                    streaming.text_delaying_plugin_names().join(" ")
                }
            };
            assert_eq!(found, expected, "{specs:?}");
        }
    }
}

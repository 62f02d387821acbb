//! Hooks of a plugin in words: when each is called, and how far it may go.

use super::text::code;
use crate::plugin::inspect::HookReport;
use crate::point::dispatch::PointKind;
use crate::point::failure::OnFailure;

/// Moments of a session, by the points that stand for them.
const MOMENTS: &[(&str, &str)] = &[
    ("session-start", "When a session starts"),
    ("session-end", "When a session ends"),
    ("turn-start", "When a turn starts"),
    ("pre-assess", "Before the input is assessed"),
    ("post-assess", "After the input was assessed"),
    ("system-prompt", "When the system prompt is put together"),
    (
        "before-system-prompt",
        "Before the parts of the system prompt are joined",
    ),
    ("after-system-prompt", "When the system prompt is complete"),
    ("context", "When the messages of a request are put together"),
    ("pre-reason", "Before each request to the model"),
    ("before-provider-request", "Before each request is sent"),
    ("output-delta", "While an answer is being written"),
    (
        "after-provider-response",
        "After each response of the provider",
    ),
    ("post-reason", "After each answer of the model"),
    ("message-end", "When a message is complete"),
    ("pre-tool", "Before each tool call"),
    ("post-tool", "After each tool call"),
    ("steering-received", "When the user steers a turn"),
    ("pre-reflect", "Before an answer is reviewed"),
    ("post-reflect", "After an answer was reviewed"),
    ("pre-output", "Before the final answer is shown"),
    ("post-output", "After the final answer was shown"),
    ("turn-end", "When a turn ends"),
    (
        "before-compact",
        "Before older messages are replaced with a summary",
    ),
    (
        "after-compact",
        "After older messages were replaced with a summary",
    ),
    ("before-archive", "Before a turn is archived"),
    ("after-archive", "After a turn was archived"),
    ("subagent-start", "When a subagent starts"),
    ("subagent-end", "When a subagent ends"),
    ("skill-activated", "When a skill becomes active"),
    ("skill-ended", "When a skill ends"),
    ("error", "When something fails"),
];

/// Returns a line of a list.
pub(super) fn in_words(hook: &HookReport) -> String {
    let point = code(&hook.point, 80);
    let moment = MOMENTS.iter().find(|(name, _)| *name == hook.point);
    let moment = moment.map_or_else(
        || format!("At {point}"),
        |(_, words)| format!("{words} ({point})"),
    );
    let does = match hook.kind {
        PointKind::Gate => "it looks at what is about to happen, and may change or refuse it",
        PointKind::Mutate => "it may change what passes, or end the turn",
        PointKind::Collect => "it contributes text",
        PointKind::Observe => "it only looks on",
    };
    let only = match &hook.may {
        None => String::new(),
        Some(rights) if rights.is_empty() => "; it gives up all of these rights".to_owned(),
        Some(rights) => format!("; of these rights it keeps: {}", rights.join(", ")),
    };
    let failure = match hook.on_failure {
        OnFailure::Block => ". When it fails, nothing passes",
        OnFailure::Skip => "",
    };
    format!("- {moment} {does}{only}{failure}.\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::catalog::CATALOG;

    #[test]
    fn every_point_has_its_moment() {
        let missing: Vec<&str> = CATALOG
            .iter()
            .map(|row| row.name)
            .filter(|name| !MOMENTS.iter().any(|(own, _)| own == name))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
        let unknown = MOMENTS
            .iter()
            .find(|(name, _)| !CATALOG.iter().any(|row| row.name == *name));
        assert_eq!(unknown, None);
    }
}

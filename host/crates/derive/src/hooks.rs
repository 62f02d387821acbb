//! Describes a plugin's hooks as text: when each is called, and which changes it may make.

use super::text::{code_span, first_sentence};
use rind_author::contract_interface_docs;
use rind_lib::plugin::inspect::HookReport;
use rind_lib::point::dispatch::ExtensionPointKind;
use rind_lib::point::failure::OnFailure;

/// Returns a list item that describes a hook. The first sentence of the contract's docs says when
/// the hook is called.
pub(super) fn describe_hook(hook: &HookReport) -> String {
    let docs = contract_interface_docs(&hook.point).unwrap_or_default();
    let moment: Vec<&str> = first_sentence(&docs).split_whitespace().collect();
    let does = match hook.kind {
        ExtensionPointKind::Gate => {
            "It looks at what is about to happen, and may change or refuse it"
        }
        ExtensionPointKind::Mutate => "It may change what passes, or end the turn",
        ExtensionPointKind::Collect => "It contributes text",
        ExtensionPointKind::Observe => "It only looks on",
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
    format!(
        "- {}: {} {does}{only}{failure}.\n",
        code_span(&hook.point, 80),
        moment.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rind_lib::point::catalog::CATALOG;

    #[test]
    fn the_contract_says_the_moment_of_every_point() {
        for row in CATALOG {
            let docs = contract_interface_docs(row.name).unwrap_or_default();
            let sentence = first_sentence(&docs);
            assert!(
                sentence.len() > 10 && sentence.ends_with('.'),
                "{}: {docs}",
                row.name
            );
        }
    }
}

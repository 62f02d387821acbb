//! Refusal texts for calls that need approval when no user can be asked.

use crate::point::dispatch::PluginAttributedText;
use crate::tool::policy;
use crate::tool::registry::RegisteredTool;
use crate::tool::subject::Subject;

/// Returns the refusal text for a call of a client that has no way to ask its user.
pub(super) fn format_refusal_for_client_without_elicitation(
    entry: &RegisteredTool,
    subject: &Subject,
    asked: &[PluginAttributedText],
    rule: &str,
) -> String {
    const ELICITATION_UNSUPPORTED_MESSAGE: &str =
        "the client offers no way to ask its user (elicitation)";
    match asked.first() {
        // A hook requires approval by the user, which a rule of the policy cannot replace.
        Some(PluginAttributedText { plugin, text }) => format!(
            "refused by policy: plugin {plugin} wants this call of `{}` approved ({text}), and {ELICITATION_UNSUPPORTED_MESSAGE}. The call was not run",
            entry.spec.name
        ),
        None => format!(
            "refused by policy: `{}` needs approval ({rule}), and {ELICITATION_UNSUPPORTED_MESSAGE}. The operator can start the server with --yes, or add \
             `{}` to config.toml. The call was not run",
            entry.spec.name,
            policy::suggest_allow_rule_line(&entry.spec, subject)
        ),
    }
}

/// Returns the refusal text for a call of an external agent that cannot ask its user.
pub(super) fn format_external_agent_call_refusal(
    entry: &RegisteredTool,
    asked: &[PluginAttributedText],
    rule: &str,
    why: &str,
) -> String {
    let wanted = match asked.first() {
        Some(PluginAttributedText { plugin, text }) => {
            format!("plugin {plugin} asks for an approval of the call ({text})")
        }
        None => format!("it needs approval ({rule})"),
    };
    format!(
        "`{}` was not run: {wanted}, and {why}. Do not try it in another way; say in your answer that it is left to the user",
        entry.spec.name
    )
}

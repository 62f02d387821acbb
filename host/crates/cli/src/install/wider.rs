//! Handles updates that request more permissions than the installed version: shows the difference,
//! which must be accepted.

use anyhow::bail;

use super::super::question::{QuestionScreenContent, TerminalQuestionLine, parse_yes_or_no};
use super::super::render::{BOLD_STYLE, DIM_STYLE, PLUGIN_NAME_STYLE, WARNING_STYLE};
use super::args::AcceptAddedPermissionsArgs;
use rind_lib::grant::decide::GrantFlagValue;
use rind_lib::grant::{Capability, Trust, describe_capability};
use rind_lib::plugin::manifest::Manifest;

/// A permission or trust that an update requests, but the installed version did not.
#[derive(Clone, Debug, PartialEq)]
enum PermissionAddedByUpdate {
    Capability(Capability),
    /// The full trust that an installed plugin has by default. The manifest of the earlier version
    /// lowered it to this level.
    Trust(Trust),
}

impl PermissionAddedByUpdate {
    fn describe_request(&self) -> String {
        match self {
            Self::Capability(capability) => {
                format!("{} ({capability})", describe_capability(capability))
            }
            Self::Trust(trust) => format!(
                "have the full trust of an installed plugin; the manifest of the earlier version lowered it to {trust}"
            ),
        }
    }

    fn is_accepted_by_grant_flag(&self, plugin: &str, flag: &GrantFlagValue) -> bool {
        match self {
            Self::Capability(capability) => flag.grants_capability_to_plugin(plugin, capability),
            // Only a flag that grants the plugin all capabilities accepts a request for higher
            // trust.
            Self::Trust(_) => flag.plugin_name() == plugin && flag.grants_all_capabilities(),
        }
    }
}

/// Returns the permissions and the trust that the manifest `new` requests and `earlier` does not;
/// all permissions that `new` requests, but no trust, if `earlier` is `None`.
fn find_added_permissions(
    earlier: Option<&Manifest>,
    new: &Manifest,
) -> Vec<PermissionAddedByUpdate> {
    let before = earlier
        .map(Manifest::requested_permissions)
        .unwrap_or_default();
    let requested = new.requested_permissions().into_iter();
    let mut more: Vec<PermissionAddedByUpdate> = requested
        .filter(|asked| !before.iter().any(|had| had.covers(asked)))
        .map(PermissionAddedByUpdate::Capability)
        .collect();
    let lowered = |manifest: &Manifest| manifest.trust.filter(|trust| *trust > Trust::User);
    if let Some(trust) = earlier.and_then(lowered)
        && lowered(new).is_none_or(|now| now < trust)
    {
        more.push(PermissionAddedByUpdate::Trust(trust));
    }
    more
}

/// Checks that `--grant`, or the person at the terminal, accepts the additional requests of an
/// update.
pub(super) async fn require_added_permissions_accepted(
    earlier: Option<&Manifest>,
    new: &Manifest,
    args: &AcceptAddedPermissionsArgs,
    has_terminal: bool,
) -> anyhow::Result<()> {
    let name = &new.name;
    let mut more = find_added_permissions(earlier, new);
    more.retain(|more| {
        !args
            .grant
            .iter()
            .any(|flag| more.is_accepted_by_grant_flag(name, flag))
    });
    if more.is_empty() {
        return Ok(());
    }
    let before = earlier.map_or("an unreadable version".to_owned(), |earlier| {
        earlier.version.to_string()
    });
    if has_terminal {
        let screen = build_added_permissions_question(&before, new, &more);
        if screen.ask_approval(parse_yes_or_no, |yes| !yes).await == Some(true) {
            return Ok(());
        }
        bail!(
            "{name} stays at {before}: you did not accept the permissions that {} requests",
            new.version
        );
    }
    let lines: Vec<String> = more
        .iter()
        .map(|more| format!("\n  {}", more.describe_request()))
        .collect();
    bail!(
        "{name} stays at {before}, because version {} requests more permissions, and there is no terminal to ask at. The new version could also:{}\nrun this command at a terminal, or add --grant {name}",
        new.version,
        lines.concat()
    )
}

fn build_added_permissions_question(
    before: &str,
    new: &Manifest,
    more: &[PermissionAddedByUpdate],
) -> QuestionScreenContent {
    let head = TerminalQuestionLine::new("")
        .with_styled_text(WARNING_STYLE.bold(), "? ")
        .with_escaped_text(PLUGIN_NAME_STYLE, &new.name)
        .with_text(" asks for more in version ")
        .with_escaped_text(BOLD_STYLE, &new.version.to_string())
        .with_text(" than in ")
        .with_escaped_text(BOLD_STYLE, before);
    let mut wants = vec![TerminalQuestionLine::new("  it may then also:")];
    let lines = more.iter().map(|more| {
        TerminalQuestionLine::new("    + ").with_escaped_text(BOLD_STYLE, &more.describe_request())
    });
    wants.extend(lines);
    QuestionScreenContent {
        parts: vec![
            vec![head],
            wants,
            vec![
                TerminalQuestionLine::new("  in its own words: ")
                    .with_escaped_text(DIM_STYLE, &new.description),
            ],
        ],
        covers: vec![TerminalQuestionLine::new("  ").with_styled_text(
            DIM_STYLE,
            "yes installs it; permissions that need your consent are asked about when it runs",
        )],
        keys: "[y]es or [n]o".to_owned(),
        ..QuestionScreenContent::default()
    }
}

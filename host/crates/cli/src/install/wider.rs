//! Handles updates that request more permissions than the installed version: shows the difference,
//! which must be accepted.

use anyhow::bail;

use super::super::question::{QuestionLine, QuestionScreen, yes_or_no};
use super::super::render::{BOLD, DIM, PLUGIN, WARN};
use super::args::WiderArgs;
use rind_lib::grant::decide::GrantFlag;
use rind_lib::grant::{Capability, Trust, in_words};
use rind_lib::plugin::manifest::Manifest;

/// A request of an update that the installed version did not make.
#[derive(Clone, Debug, PartialEq)]
enum WiderPart {
    Capability(Capability),
    /// The trust of every installed plugin, which the earlier manifest had lowered to this one.
    Trust(Trust),
}

impl WiderPart {
    fn words(&self) -> String {
        match self {
            Self::Capability(capability) => format!("{} ({capability})", in_words(capability)),
            Self::Trust(trust) => format!(
                "be trusted as every installed plugin; before, its manifest lowered its trust to {trust}"
            ),
        }
    }

    fn is_accepted(&self, plugin: &str, flag: &GrantFlag) -> bool {
        match self {
            Self::Capability(capability) => flag.gives(plugin, capability),
            // Only a flag that grants everything accepts a higher trust.
            Self::Trust(_) => flag.plugin() == plugin && flag.is_for_all(),
        }
    }
}

/// Returns the requests of `new` that `earlier` does not cover; all requests if `earlier` is
/// `None`.
fn wider_parts(earlier: Option<&Manifest>, new: &Manifest) -> Vec<WiderPart> {
    let before = earlier.map(Manifest::requested).unwrap_or_default();
    let requested = new.requested().into_iter();
    let mut more: Vec<WiderPart> = requested
        .filter(|asked| !before.iter().any(|had| had.covers(asked)))
        .map(WiderPart::Capability)
        .collect();
    let lowered = |manifest: &Manifest| manifest.trust.filter(|trust| *trust > Trust::User);
    if let Some(trust) = earlier.and_then(lowered)
        && lowered(new).is_none_or(|now| now < trust)
    {
        more.push(WiderPart::Trust(trust));
    }
    more
}

/// Accepts an update that requests more, by `--grant` or by asking at the terminal.
pub(super) async fn accept_wider(
    earlier: Option<&Manifest>,
    new: &Manifest,
    args: &WiderArgs,
    has_terminal: bool,
) -> anyhow::Result<()> {
    let name = &new.name;
    let mut more = wider_parts(earlier, new);
    more.retain(|more| !args.grant.iter().any(|flag| more.is_accepted(name, flag)));
    if more.is_empty() {
        return Ok(());
    }
    let before = earlier.map_or("an unreadable version".to_owned(), |earlier| {
        earlier.version.to_string()
    });
    if has_terminal {
        let screen = wider_screen(&before, new, &more);
        if screen.ask_approval(yes_or_no, |yes| !yes).await == Some(true) {
            return Ok(());
        }
        bail!(
            "{name} stays at {before}: you did not accept the permissions that {} requests",
            new.version
        );
    }
    let lines: Vec<String> = more
        .iter()
        .map(|more| format!("\n  {}", more.words()))
        .collect();
    bail!(
        "{name} stays at {before}, because {} asks for more, and there is no terminal to ask at. It could then also:{}\nrun this at a terminal, or add --grant {name}",
        new.version,
        lines.concat()
    )
}

fn wider_screen(before: &str, new: &Manifest, more: &[WiderPart]) -> QuestionScreen {
    let head = QuestionLine::new("")
        .styled_words(WARN.bold(), "? ")
        .their_words(PLUGIN, &new.name)
        .own_words(" asks for more in version ")
        .their_words(BOLD, &new.version.to_string())
        .own_words(" than in ")
        .their_words(BOLD, before);
    let mut wants = vec![QuestionLine::new("  it may then also:")];
    let lines = more
        .iter()
        .map(|more| QuestionLine::new("    + ").their_words(BOLD, &more.words()));
    wants.extend(lines);
    QuestionScreen {
        parts: vec![
            vec![head],
            wants,
            vec![QuestionLine::new("  in its own words: ").their_words(DIM, &new.description)],
        ],
        covers: vec![QuestionLine::new("  ").styled_words(
            DIM,
            "yes installs it; permissions that need your consent are asked about when it runs",
        )],
        keys: "[y]es or [n]o".to_owned(),
        ..QuestionScreen::default()
    }
}

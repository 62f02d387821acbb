//! Names of context files within a folder.

use std::path::Path;

/// A name that was found in a folder.
pub(super) struct FoundName {
    pub(super) name: &'static str,
    /// Name within the key of the prompt part: the keys decide the order.
    pub(super) key: String,
}

/// Spellings of a name; a folder has one of them.
const AGENTS: &[&str] = &["AGENTS.md", "agents.md", "Agents.md"];
const CLAUDE: &[&str] = &["CLAUDE.md", "claude.md", "Claude.md"];

/// Takes the place of `AGENTS.md` in the same folder, as in Codex.
const OVERRIDE: &str = "AGENTS.override.md";

/// The person's own text for a project, which comes behind the text that others share.
const LOCAL: &str = "CLAUDE.local.md";

const IN_FOLDER: &str = ".claude/CLAUDE.md";

/// Returns the context files of a folder in their order, and adds what is left out to `notices`. `is_usable` says whether a
/// file can be read.
pub(super) fn names(
    folder: &Path,
    notices: &mut Vec<String>,
    is_usable: impl Fn(&Path) -> bool,
) -> Vec<FoundName> {
    let is_there = |name: &str| folder.join(name).symlink_metadata().is_ok();
    let mut spelled = |names: &'static [&'static str]| {
        let mut found = names.iter().copied().filter(|name| is_there(name));
        let first = found.next()?;
        let real = |name: &str| folder.join(name).canonicalize().ok();
        // Where case does not matter, all of them are the same file.
        for other in found.filter(|other| real(other) != real(first)) {
            let path = folder.join(other);
            notices.push(format!(
                "{} is left out: {first} is there too",
                path.display()
            ));
        }
        Some(first)
    };
    let agents = spelled(AGENTS);
    let claude = spelled(CLAUDE);
    let overriding = Some(OVERRIDE).filter(|name| is_there(name));
    let is_overridden = overriding.is_some_and(|name| is_usable(&folder.join(name)));
    if let Some(agents) = agents.filter(|_| is_overridden) {
        notices.push(format!(
            "{} is left out: {OVERRIDE} beside it takes its place",
            folder.join(agents).display()
        ));
    }
    let agents = agents.filter(|_| !is_overridden);
    let within = Some(IN_FOLDER).filter(|name| is_there(name));
    let local = Some(LOCAL).filter(|name| is_there(name));
    let named = [within, agents, overriding, claude].into_iter().flatten();
    let named = named.map(|name| FoundName {
        name,
        key: name.to_owned(),
    });
    let local = local.map(|name| FoundName {
        name,
        // Behind `CLAUDE.md` in the order of keys.
        key: format!("~{name}"),
    });
    named.chain(local).collect()
}

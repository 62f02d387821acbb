//! Keeps a repository safe from a model that works in it: no forced push, and no commit on a protected branch without a yes.
//!
//! `.git/HEAD` says which branch it is; where that is not known, a person is asked as well. A command is judged by its words, which
//! any shell can hide: what must hold against a model that means harm stands in the rules of `[tools]` and in the server's own
//! protection.

mod calls;
mod words;

#[rind_sdk::plugin]
mod git_guard {
    use crate::words::{Uses, uses};
    use rind_sdk::prelude::*;
    use rind_sdk::{files, serde_json};

    /// Bytes of `.git/HEAD` that are read; a name has fewer.
    const MAX_BYTES: u32 = 1_024;

    /// Longest name of a branch in a question, in bytes.
    const MAX_BRANCH_BYTES: usize = 100;

    /// Longest command in a question, in bytes: with the other words it fits, and what is escaped takes more.
    const MAX_COMMAND_BYTES: usize = 600;

    /// Settings of the plugin; the manifest has their defaults.
    #[data]
    struct Settings {
        protected: Vec<String>,
        tools: Vec<String>,
    }

    /// The repository in the workspace.
    enum Repository {
        Missing,
        Branch(String),
        /// No branch can be read, for this reason.
        Unknown(&'static str),
    }

    #[hook]
    fn pre_tool(proposed: ProposedCall) -> Result<CallOutcome, Error> {
        let settings: Settings = config::all()?;
        show_status(&settings);
        if !settings.tools.contains(&proposed.call.name) {
            return Ok(CallOutcome::pass());
        }
        let arguments: serde_json::Value = serde_json::from_str(&proposed.call.arguments)?;
        let Some(command) = arguments["command"].as_str() else {
            let why = format!(
                "this tool has no argument `command` that can be read; take `{}` out of `tools` of git-guard",
                proposed.call.name
            );
            return Ok(CallOutcome::block(why));
        };
        let uses = uses(command, &caller::workspace());
        if uses.is_forced {
            let why = "a forced push can destroy what others have pushed; ask the person to do it";
            return Ok(CallOutcome::block(why));
        }
        let mut dangers = Vec::new();
        if uses.may_be_forced {
            let why = "it may be a forced push, which can destroy what others have pushed, and nobody said yes";
            let what = "a command that quotes or spells out a push with force, and may run it";
            dangers.push((what.to_owned(), why.to_owned()));
        }
        dangers.extend(danger(&uses, &settings));
        let Some((_, why)) = dangers.first().cloned() else {
            return Ok(CallOutcome::pass());
        };
        let whats: Vec<String> = dangers.into_iter().map(|(what, _)| what).collect();
        let question = format!(
            "Let the model run {}? The command: {}",
            whats.join(", and "),
            cut(command, MAX_COMMAND_BYTES)
        );
        if ask::confirm(&question, false)? {
            return Ok(CallOutcome::pass());
        }
        Ok(CallOutcome::block(why))
    }

    /// Returns what a command does to what is protected, and what the model is told without a yes.
    fn danger(uses: &Uses, settings: &Settings) -> Option<(String, String)> {
        if uses.changes.is_empty() {
            return None;
        }
        let changes: Vec<String> = uses
            .changes
            .iter()
            .map(|name| format!("git {name}"))
            .collect();
        let changes = changes.join(", ");
        let current = current();
        let mut named = uses.branches.iter();
        let protected = named.find(|branch| is_protected(branch, settings));
        let protected = match (&current, protected) {
            (_, Some(branch)) => Some(branch),
            (Repository::Branch(branch), None) if is_protected(branch, settings) => Some(branch),
            _ => None,
        };
        if let Some(branch) = protected {
            let branch = cut(branch, MAX_BRANCH_BYTES);
            return Some((
                format!("{changes} on the protected branch {branch}"),
                format!(
                    "the branch {branch} is protected and nobody said yes; make a branch first: git switch -c NAME"
                ),
            ));
        }
        let unknown = match (uses.unknown, current) {
            (Some(why), _) | (None, Repository::Unknown(why)) => why,
            (None, Repository::Missing | Repository::Branch(_)) => return None,
        };
        Some((
            format!("{changes} on a branch that is not known ({unknown})"),
            format!(
                "it is not known whether the branch is protected ({unknown}), and nobody said yes; \
                 run it in the workspace, on a branch of its own"
            ),
        ))
    }

    /// Shows the branch, and whether it is protected.
    #[command]
    fn branch() -> Result<String, Error> {
        let settings: Settings = config::all()?;
        show_status(&settings);
        Ok(match current() {
            Repository::Missing => "the workspace has no .git: nothing is protected".to_owned(),
            Repository::Unknown(why) => {
                format!("the branch is not known ({why}): commits and pushes need a yes")
            }
            Repository::Branch(branch) if is_protected(&branch, &settings) => {
                format!("{branch} (protected: commits and pushes need a yes)")
            }
            Repository::Branch(branch) => format!("{branch} (not protected)"),
        })
    }

    fn show_status(settings: &Settings) {
        status::set(&match current() {
            Repository::Missing => String::new(),
            Repository::Unknown(_) => "branch not known".to_owned(),
            Repository::Branch(branch) if is_protected(&branch, settings) => {
                format!("on {branch}, protected")
            }
            Repository::Branch(branch) => format!("on {branch}"),
        });
    }

    /// Reads the branch that HEAD names.
    fn current() -> Repository {
        let head = match files::read("workspace/.git/HEAD", 0, MAX_BYTES) {
            Ok(head) => head,
            Err(Error::NotFound(_)) => {
                return match files::list("workspace/.git") {
                    Err(Error::NotFound(_)) => Repository::Missing,
                    _ => Repository::Unknown(".git has no HEAD"),
                };
            }
            Err(_) => {
                return Repository::Unknown(".git is no folder that can be read, as in a worktree");
            }
        };
        let head = String::from_utf8_lossy(&head);
        match head.trim().strip_prefix("ref: refs/heads/") {
            Some(name) if !name.is_empty() => Repository::Branch(name.to_owned()),
            _ => Repository::Unknown("HEAD is on no branch"),
        }
    }

    fn is_protected(branch: &str, settings: &Settings) -> bool {
        settings
            .protected
            .iter()
            .any(|name| match name.strip_suffix('*') {
                Some(beginning) => branch.starts_with(beginning),
                None => branch == name,
            })
    }

    fn cut(text: &str, bytes: usize) -> String {
        match text.len() > bytes {
            true => format!("{}…", &text[..text.floor_char_boundary(bytes)]),
            false => text.to_owned(),
        }
    }
}

//! Keeps a repository safe from a model that works in it: no forced push, and no commit on a protected branch without a yes.
//!
//! `.git/HEAD` says which branch it is. A command is judged by its words, which any shell can hide: what must hold against a model
//! that means harm stands in the rules of `[tools]` and in the server's own protection.

mod words;

#[rind_sdk::plugin]
mod git_guard {
    use crate::words::{Deed, deeds};
    use rind_sdk::prelude::*;
    use rind_sdk::{files, serde_json};

    /// Bytes of `.git/HEAD` that are read; a name has fewer.
    const MAX_BYTES: u32 = 1_024;

    /// Settings of the plugin; the manifest has their defaults.
    #[data]
    struct Settings {
        protected: Vec<String>,
        tools: Vec<String>,
    }

    #[hook]
    fn pre_tool(proposed: ProposedCall) -> Result<CallOutcome, Error> {
        let settings: Settings = config::all()?;
        show_status(&settings);
        if !settings.tools.contains(&proposed.call.name) {
            return Ok(CallOutcome::pass());
        }
        let arguments: serde_json::Value = serde_json::from_str(&proposed.call.arguments)?;
        let command = arguments["command"].as_str().unwrap_or_default();
        let deeds = deeds(command);
        if deeds.contains(&Deed::ForcePush) {
            let why = "a forced push can destroy what others have pushed; ask the person to do it";
            return Ok(CallOutcome::block(why));
        }
        let branch = current().filter(|branch| is_protected(branch, &settings));
        let (Some(branch), Some(Deed::Change(what))) = (branch, deeds.first()) else {
            return Ok(CallOutcome::pass());
        };
        let question = format!("Let the model run `git {what}` on the protected branch {branch}?");
        if ask::confirm(&question, false)? {
            return Ok(CallOutcome::pass());
        }
        Ok(CallOutcome::block(format!(
            "the branch {branch} is protected and nobody said yes; make a branch first: git switch -c NAME"
        )))
    }

    /// Shows the branch, and whether it is protected.
    #[command]
    fn branch() -> Result<String, Error> {
        let settings: Settings = config::all()?;
        show_status(&settings);
        Ok(match current() {
            None => "the workspace is no git repository, or HEAD is on no branch".to_owned(),
            Some(branch) if is_protected(&branch, &settings) => {
                format!("{branch} (protected: commits and pushes need a yes)")
            }
            Some(branch) => format!("{branch} (not protected)"),
        })
    }

    fn show_status(settings: &Settings) {
        status::set(&match current() {
            None => String::new(),
            Some(branch) if is_protected(&branch, settings) => format!("on {branch}, protected"),
            Some(branch) => format!("on {branch}"),
        });
    }

    /// Returns the branch that HEAD names.
    fn current() -> Option<String> {
        let head = files::read("workspace/.git/HEAD", 0, MAX_BYTES).ok()?;
        let head = String::from_utf8(head).ok()?;
        let name = head.trim().strip_prefix("ref: refs/heads/")?;
        Some(name.to_owned())
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
}

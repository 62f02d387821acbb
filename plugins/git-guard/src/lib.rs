//! Protects a git repository from the model that works in it: refuses forced pushes, and asks the
//! user before commits on a protected branch.

#[rind_sdk::plugin]
mod git_guard {
    use rind_sdk::prelude::*;
    use rind_sdk::{files, serde_json};

    /// Subcommands of git that change or publish a branch, and `…`, which stands for a subcommand
    /// that is unknown before the shell expands it.
    const BRANCH_CHANGING_SUBCOMMANDS: &str =
        "am cherry-pick commit merge pull push rebase revert send-pack update-ref …";

    /// Words that show that a git command in the same text may change another branch or repository.
    const WORDS_INDICATING_OTHER_BRANCH_OR_REPOSITORY: &str =
        "push checkout switch branch cd pushd -C GIT_DIR --git-dir --chdir";

    /// Options with which `git push` may overwrite or delete branches. Git accepts any prefix of
    /// them, such as `--force`.
    const FORCE_PUSH_OPTIONS: &str =
        "--delete --force-with-lease --force-if-includes --mirror --prune";

    #[data]
    struct GuardSettings {
        protected: Vec<String>,
        tools: Vec<String>,
    }

    #[hook]
    fn pre_tool(proposed: ProposedCall) -> Result<CallOutcome, Error> {
        let settings: GuardSettings = config::all()?;
        let (place, is_safe) = describe_current_branch(&settings);
        if !settings.tools.contains(&proposed.call.name) {
            return Ok(CallOutcome::pass());
        }
        let arguments: serde_json::Value = serde_json::from_str(&proposed.call.arguments)?;
        let command = arguments["command"].as_str();
        let command = command.ok_or("a tool in `tools` of git-guard has no argument `command`")?;
        let reading = shell::read(command);
        let (mut asked, mut others, mut moved) = (Vec::new(), String::new(), None);
        for program in &reading.programs {
            let words = program.arguments().map(|word| word.unwrap_or("…"));
            let words: Vec<&str> = words.collect();
            match program.name() {
                Some("cd") if words == ["."] || words == [caller::workspace()] => {}
                Some("cd" | "pushd") => moved = Some("in another folder"),
                Some("git") => {
                    let is_plain = !words.first().is_some_and(|word| word.starts_with('-'));
                    let is_verb =
                        |word: &&str| is_plain || contains_word(BRANCH_CHANGING_SUBCOMMANDS, word);
                    let Some(at) = words.iter().position(is_verb) else {
                        continue;
                    };
                    let (verb, rest) = (words[at], &words[at + 1..]);
                    let is_push = contains_word("push send-pack update-ref", verb);
                    if is_push
                        && verb != "update-ref"
                        && rest.iter().any(|word| is_forcing_option(word))
                    {
                        return Ok(CallOutcome::block("a forced push destroys others' work"));
                    }
                    let is_here = is_plain && !program.is_altered;
                    moved = moved.or((!is_here).then_some("in another folder"));
                    moved = moved
                        .or(may_change_other_branch(verb, rest).then_some("on another branch"));
                    let mut names = rest.iter().filter_map(|word| word.rsplit(':').next());
                    let pushed = names.find(|name| is_push && is_protected_branch(&settings, name));
                    let place = match (pushed, moved) {
                        _ if !contains_word(BRANCH_CHANGING_SUBCOMMANDS, verb) => continue,
                        (Some(name), _) => format!("to {name}, which is protected"),
                        (None, Some(moved)) => format!("(maybe {moved})"),
                        (None, None) if is_safe => continue,
                        (None, None) => place.clone(),
                    };
                    asked.push(format!("git {verb} {place}"));
                }
                _ => others += &format!(" {}", words.join(" ")),
            }
        }
        let text = reading.doubt.map_or(&*others, |_| command);
        asked.extend(describe_git_changes(text, is_safe));
        asked.dedup();
        let wanted = &command[..command.floor_char_boundary(600)];
        let cut = if wanted == command { "" } else { "…" };
        let asked = asked.join(", ");
        let question = format!("Let the model run {asked}? It wants: {wanted}{cut}");
        if asked.is_empty() || ask::confirm(&question, false)? {
            return Ok(CallOutcome::pass());
        }
        let why = format!("{asked}: nobody said yes; make a branch: git switch -c NAME");
        Ok(CallOutcome::block(why))
    }

    /// Shows the branch, and whether it is protected.
    #[command]
    fn branch() -> Result<String, Error> {
        Ok(describe_current_branch(&config::all()?).0)
    }

    /// Shows a description of the current branch in the status line, and returns it. Also returns
    /// whether changes on this branch need no approval.
    fn describe_current_branch(settings: &GuardSettings) -> (String, bool) {
        let head = files::read("workspace/.git/HEAD", 0, 1_024).unwrap_or_default();
        let head = String::from_utf8_lossy(&head);
        let (text, is_safe) = match head.trim().strip_prefix("ref: refs/heads/") {
            Some(name) if is_protected_branch(settings, name) => {
                (format!("on {name}, protected"), false)
            }
            Some(name) => (format!("on {name}"), true),
            None => ("on no branch that is known".to_owned(), false),
        };
        status::set(&text);
        (text, is_safe)
    }

    fn is_protected_branch(settings: &GuardSettings, name: &str) -> bool {
        let name = name.rsplit_once("heads/").map_or(name, |(_, name)| name);
        let is_it = |pattern: &String| match pattern.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == pattern,
        };
        settings.protected.iter().any(is_it)
    }

    fn contains_word(words: &str, word: &str) -> bool {
        words.split(' ').any(|one| one == word)
    }

    /// Whether an argument of `git push` lets the push overwrite or delete a branch.
    fn is_forcing_option(word: &str) -> bool {
        let name = word.split('=').next().unwrap_or_default();
        let is_long = name.len() > 2
            && FORCE_PUSH_OPTIONS
                .split(' ')
                .any(|force| force.starts_with(name));
        let is_short = name.starts_with('-') && !name.starts_with("--");
        is_long || (is_short && name.contains(['d', 'f'])) || name.starts_with(['+', ':'])
    }

    /// Whether this git command may change a branch other than the current one, or make a later git
    /// command do so.
    fn may_change_other_branch(verb: &str, rest: &[&str]) -> bool {
        let has = |options: &str| rest.iter().any(|word| contains_word(options, word));
        match verb {
            "checkout" | "switch" => !has("-b -c") && (!has("--") || rest.ends_with(&["--"])),
            "branch" | "stash" => has("-m -M --move branch"),
            "rebase" | "symbolic-ref" => rest.len() > 1,
            "push" => has("--all --branches") || rest.iter().any(|word| word.contains(['…', '*'])),
            _ => verb == "…",
        }
    }

    /// Describes the git changes that a text would make if it were executed as a command; `None` if
    /// no such change needs an approval. `is_safe` means that changes on the current branch do not.
    fn describe_git_changes(text: &str, is_safe: bool) -> Option<String> {
        let text = text.replace(['"', '\'', '\\'], "");
        let is_sign = |c: char| c.is_whitespace() || ";&|()`{},=<>".contains(c);
        let words: Vec<&str> = text.split(is_sign).collect();
        let changes = BRANCH_CHANGING_SUBCOMMANDS
            .split(' ')
            .filter(|word| words.contains(word));
        let changes = changes.collect::<Vec<_>>().join(", git ");
        let is_git = |word: &&str| word.ends_with("git") || word.starts_with(['$', '…']);
        let is_elsewhere = words
            .iter()
            .any(|word| contains_word(WORDS_INDICATING_OTHER_BRANCH_OR_REPOSITORY, word));
        let is_danger = words.iter().any(is_git) && (is_elsewhere || !is_safe);
        (is_danger && !changes.is_empty()).then(|| format!("what looks like git {changes}"))
    }
}

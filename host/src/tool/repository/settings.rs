//! Recognizes repository settings that cannot run a program.
//!
//! The code is pure. It has a list of harmless settings; all other settings count as dangerous.

/// Sections of a repository's git settings, with those of their keys that cannot run a program, in
/// the section and in any subsection.
const HARMLESS_GIT_SETTINGS: &[(&str, &[&str])] = &[
    ("advice", &[]),
    (
        "branch",
        &[
            "description",
            "merge",
            "rebase",
            "remote",
            "vscode-merge-base",
        ],
    ),
    ("color", &[]),
    (
        "core",
        &[
            "abbrev",
            "autocrlf",
            "bare",
            "eol",
            "filemode",
            "ignorecase",
            "logallrefupdates",
            "precomposeunicode",
            "quotepath",
            "repositoryformatversion",
            "safecrlf",
            "sharedrepository",
            "sparsecheckout",
            "sparsecheckoutcone",
            "symlinks",
            "worktree",
        ],
    ),
    (
        "extensions",
        &[
            "compatobjectformat",
            "objectformat",
            "partialclone",
            "refstorage",
            "worktreeconfig",
        ],
    ),
    ("fetch", &["prune"]),
    ("gc", &["auto"]),
    ("init", &["defaultbranch"]),
    ("merge", &["conflictstyle", "ff"]),
    ("pull", &["ff", "rebase"]),
    ("push", &["autosetupremote", "default"]),
    (
        "remote",
        &[
            "fetch",
            "mirror",
            "partialclonefilter",
            "promisor",
            "prune",
            "pushurl",
            "tagopt",
            "url",
        ],
    ),
    ("submodule", &["active", "branch", "path", "url"]),
    ("user", &["email", "name"]),
];

/// Whether every setting in `text` is known neither to run a program nor to include other settings.
/// Returns false if a line cannot be parsed with certainty.
pub(super) fn is_harmless_git_config(text: &str) -> bool {
    let mut section = String::new();
    for line in text.lines() {
        let mut line = line.trim();
        if let Some(rest) = line.strip_prefix('[') {
            let Some((name, rest)) = rest.split_once(']') else {
                return false;
            };
            // Ignore a subsection in quotes, which may contain brackets. Text without quotes after
            // the section's name would be parsed as a key.
            let (name, own) = name.split_once(' ').unwrap_or((name, "\"\""));
            if !own.starts_with('"') || !own.ends_with('"') || own.contains('\\') {
                return false;
            }
            section = name.to_ascii_lowercase();
            line = rest.trim();
        }
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let key = line
            .split('=')
            .next()
            .unwrap_or(line)
            .trim()
            .to_ascii_lowercase();
        let is_known = HARMLESS_GIT_SETTINGS.iter().any(|(harmless, keys)| {
            *harmless == section && (keys.is_empty() || keys.contains(&key.as_str()))
        });
        if !is_known || line.ends_with('\\') {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_run_nothing_are_told_from_those_that_may() {
        for text in [
            "",
            "[core]\n\trepositoryformatversion = 0\n\tbare = false\n# a comment\n",
            "[remote \"origin\"]\n\turl = https://example.com/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
            "[core]\n\tworktree = ../../../sub\n[submodule \"sub\"]\n\turl = x\n\tactive = true\n",
            "[branch \"a b\"] remote = origin\n[user]\n name = x\n",
        ] {
            assert!(is_harmless_git_config(text), "{text}");
        }
        for text in [
            "[core]\n\tfsmonitor = run\n",
            "[core] fsmonitor = run\n",
            "[CORE]\nFsMonitor=run\n",
            "[core]\nbare = \\\nfalse\n",
            "[include]\npath = x\n",
            "[alias]\nst = !run\n",
            "[filter \"x\"]\nclean = run\n",
            "[remote \"x\"]\nuploadpack = run\n",
            "[submodule \"x\"]\nupdate = !run\n",
            "[core\nfsmonitor = run\n",
            "[a \"]\"]\n[core]\nsshCommand = run\n",
            "[core.x]\nbare = 1\n",
            "\u{feff}[core]\nfsmonitor = run\n",
        ] {
            assert!(!is_harmless_git_config(text), "{text}");
        }
    }
}

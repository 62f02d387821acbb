//! Notices about preset files: faults that make a file unusable, and keys without effect.
//!
//! Preset files are parsed with the parser of skills, so its messages are about skills and are
//! reworded here. The module must not know the table of presets. Start from
//! [`describe_invalid_preset_file`] and [`describe_unused_keys`].

use std::collections::BTreeSet;

use crate::skill::{
    Diagnostic, OmittedSkill, Severity, Skill, SkillExecutionContext, SkillLifetime,
    SkillOmissionReason,
};

/// Maximum number of keys of a preset file that a notice names.
const MAX_KEYS_NAMED_IN_NOTICE: usize = 20;

/// Keys that only change how another program displays a preset; they are ignored without a notice.
const DISPLAY_ONLY_PRESET_KEYS: [&str; 1] = ["color"];

/// Hint of the parser about a misspelled key `description`. The parser uses the value of that key
/// nevertheless, so it is not reported as unused.
const MISSPELLED_DESCRIPTION_KEY_HINT: &str = "write `description` if you mean this key";

/// Phrases about skills in the messages of the parser, each with the phrase about presets that
/// replaces it.
const SKILL_PHRASE_REPLACEMENTS: [(&str, &str); 6] = [
    ("; until then only the user can start the skill", ""),
    ("which is the skill's", "which is the preset's"),
    (
        "which the skill can refer to",
        "which the preset can refer to",
    ),
    ("what the skill does", "what the preset does"),
    ("a folder of skills", "a folder of presets"),
    ("files that are not skills", "files that are not presets"),
];

/// Describes a file or folder that contains no valid preset: its path, the reason, and how to
/// correct it.
pub(super) fn describe_invalid_preset_file(left: &OmittedSkill) -> String {
    let file = left.file.display();
    if left.cause == SkillOmissionReason::Shadowed {
        return format!("{file} is not a preset of subagents: {}", left.reason);
    }
    let mut reason = left.reason.clone();
    for (of_skill, of_preset) in SKILL_PHRASE_REPLACEMENTS {
        reason = reason.replace(of_skill, of_preset);
    }
    match left.id.is_empty() {
        true => format!("presets of subagents in {file} are left out: {reason}"),
        false => format!("{file} is not a preset of subagents until it is corrected: {reason}"),
    }
}

/// Describes the keys of a file that have no effect on its preset; `None` if there are none.
pub(super) fn describe_unused_keys(file: &Skill) -> Option<String> {
    let keys = preset_keys_without_effect(file);
    let named = keys.iter().take(MAX_KEYS_NAMED_IN_NOTICE);
    let mut named: Vec<String> = named.map(|key| format!("`{key}`")).collect();
    if let Some(n_more @ 1..) = keys.len().checked_sub(MAX_KEYS_NAMED_IN_NOTICE) {
        named.push(format!("{n_more} more"));
    }
    let last = named.pop()?;
    let preset = &file.id;
    Some(if named.is_empty() {
        format!(
            "{last} of the preset `{preset}` has no equivalent in Rind and is ignored; remove it, or restrict the preset with `tools`"
        )
    } else {
        let others = named.join(", ");
        format!(
            "{others} and {last} of the preset `{preset}` have no equivalent in Rind and are ignored; remove them, or restrict the preset with `tools`"
        )
    })
}

/// Returns the keys of a file that presets do not use: unknown keys, and keys for skills only.
fn preset_keys_without_effect(file: &Skill) -> BTreeSet<&str> {
    let has_arguments = file.arguments.is_some() || !file.argument_names.is_empty();
    let of_skills = [
        ("allowed-tools", !file.spares.is_empty()),
        ("argument-hint", file.argument_hint.is_some()),
        ("arguments", has_arguments),
        ("attach", file.attach),
        ("compatibility", file.compatibility.is_some()),
        ("context", file.context != SkillExecutionContext::Inline),
        ("generated_from", file.generated_from.is_some()),
        ("interaction", file.interaction != SkillLifetime::Returning),
        ("library_depends", !file.library_depends.is_empty()),
        ("license", file.license.is_some()),
        ("metadata", !file.metadata.is_empty()),
        ("paths", !file.paths.is_empty()),
        ("side_effects", !file.side_effects.is_empty()),
        ("user-invocable", !file.user_invocable),
        ("version", file.version.is_some()),
        ("when_to_use", file.when_to_use.is_some()),
    ];
    let of_skills = of_skills.into_iter().filter(|(_, is_set)| *is_set);
    let of_skills = of_skills.map(|(key, _)| key);
    let reported = file.diagnostics.iter().filter_map(unused_front_matter_key);
    let keys = reported.chain(of_skills);
    keys.filter(|key| !DISPLAY_ONLY_PRESET_KEYS.contains(key))
        .collect()
}

/// Returns the key that a finding of the parser reports as unknown or without effect; `None` for
/// other findings.
fn unused_front_matter_key(finding: &Diagnostic) -> Option<&str> {
    if finding.severity == Severity::Error || finding.hint == MISSPELLED_DESCRIPTION_KEY_HINT {
        return None;
    }
    if let Some(key) = finding.text.strip_prefix("unknown key `") {
        return key.strip_suffix('`');
    }
    let text = finding.text.strip_prefix('`')?;
    if let Some(key) = text.strip_suffix("` has no meaning here") {
        return Some(key);
    }
    if text.starts_with("allowed-tools`: ") {
        // The parser reports an entry that exempts no call from approval, such as `Bash`, only with
        // this message.
        return Some("allowed-tools");
    }
    let (key, _) = text.split_once("` has no effect: ")?;
    // Skip a message about a single value of a key, such as `trust: user`: other values of that key
    // have an effect.
    (!key.contains(':')).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skill::{SessionSkills, parse_text};

    /// Returns the notice about unused keys for a file with this front matter.
    fn unread(front: &str) -> Option<String> {
        let text = format!("---\ndescription: d\n{front}---\nText.\n");
        describe_unused_keys(&parse_text("x", &text).unwrap())
    }

    /// Returns the notices for a file with this front matter that yields no preset.
    fn faults(front: &str) -> Vec<String> {
        let text = format!("---\n{front}---\nText.\n");
        let files = match parse_text("x", &text) {
            Ok(file) => SessionSkills::new([file], Vec::new()),
            Err(fault) => SessionSkills::new([], vec![fault]),
        };
        files
            .omitted_skills()
            .iter()
            .map(describe_invalid_preset_file)
            .collect()
    }

    #[test]
    fn all_keys_without_effect_are_in_one_notice_sorted() {
        let front = "permissionMode: plan\nhooks:\n  PreToolUse: []\nmaxTurns: 3\nisolation: worktree\n\
                     memory: user\nskills: [a]\nmcpServers: [b]\neffort: high\nwhen_to_use: often\ntrust: user\n";
        assert_eq!(
            unread(front).unwrap(),
            "`effort`, `hooks`, `isolation`, `maxTurns`, `mcpServers`, `memory`, `permissionMode`, `skills` and `when_to_use` \
             of the preset `x` have no equivalent in Rind and are ignored; remove them, or restrict the preset with `tools`"
        );
        assert_eq!(
            unread("maxTurns: 3\n").unwrap(),
            "`maxTurns` of the preset `x` has no equivalent in Rind and is ignored; remove it, or restrict the preset with `tools`"
        );
        for tools in ["Read", "Bash", "Bash(git status *)"] {
            let notice = unread(&format!("allowed-tools: {tools}\n")).unwrap();
            assert!(notice.starts_with("`allowed-tools` of"), "{notice}");
        }
    }

    #[test]
    fn keys_that_a_preset_uses_give_no_notice() {
        let front = "name: x\ntools: Read, Bash\ndisallowed-tools: Bash\nmodel: large\n";
        assert_eq!(unread(front), None);
    }

    #[test]
    fn a_notice_names_a_bounded_number_of_keys() {
        let keys: String = (0..45).map(|n| format!("zz-{n:02}: 1\n")).collect();
        let notice = unread(&keys).unwrap();
        assert!(notice.contains("`zz-19` and 25 more of"), "{notice}");
        assert!(!notice.contains("zz-20"), "{notice}");
    }

    #[test]
    fn a_fault_is_told_about_the_preset_and_not_about_a_skill() {
        for (front, why, remedy) in [
            (
                "description: Reviews: code\n",
                "the front matter is not valid YAML",
                "put the value of `description` in quotes",
            ),
            (
                "description: d\ndisallowedTools: Bash\n",
                "unknown key `disallowedTools`",
                "write `disallowed-tools`",
            ),
            (
                "description: d\ndescription: e\n",
                "the front matter is not valid YAML",
                "keep one of the two",
            ),
        ] {
            let told = faults(front);
            let [told] = told.as_slice() else {
                panic!("{front}: {told:?}");
            };
            let start = "x/SKILL.md is not a preset of subagents until it is corrected: ";
            assert!(told.starts_with(start), "{told}");
            assert!(told.contains(why), "{told}");
            assert!(told.ends_with(&format!("; {remedy}")), "{told}");
            assert!(!told.contains("skill"), "{told}");
        }
    }
}

//! Property tests of damaged skill files: no panic, and no additional permission.

use proptest::prelude::*;
use rind::skill::{
    FRONT_MATTER_JSON_SCHEMA, Skill, SkillInvocationRule, list_known_keys, parse_text,
};

/// A valid skill file with restrictions.
const BASE: &str = "---\ndescription: d\nmodel_invocation: user-only\nallowed-tools: Bash(git status *)\ntools:\n  allow: \
                    [read_file]\n  deny: [bash]\n---\nBody\n";

/// Pieces from which random front matters are built.
const PIECES: [&str; 31] = [
    "---\n",
    "tools",
    ": ",
    "\n",
    "  ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'",
    "|",
    ">",
    "&a",
    "*a",
    "!!x",
    "allowed-tools",
    "Bash(",
    ")",
    "*",
    "description",
    "arguments",
    "schema",
    "true",
    "paths",
    "metadata",
    "\t",
    "\r",
    "#",
    "\u{200b}",
];

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn read(text: &str) -> Option<Skill> {
    let skill = parse_text("folder", text).ok()?;
    if skill.is_restricted {
        assert_ne!(skill.invocation, SkillInvocationRule::Auto, "{text}");
        assert!(skill.spares.is_empty(), "{text}");
    }
    Some(skill)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let text = String::from_utf8_lossy(&bytes);
        read(&format!("---\n{text}\n---\nx"));
        read(&text);
    }

    #[test]
    fn no_pieces_of_yaml_make_the_reader_panic(
        pieces in proptest::collection::vec(prop::sample::select(&PIECES[..]), 0..60)
    ) {
        let text: String = pieces.concat();
        read(&format!("---\n{text}\n---\nx"));
        read(&text);
    }

    /// A damaged restriction disappears only if its line is missing, is a comment, or has a key
    /// that resembles no known one.
    #[test]
    fn damage_grants_nothing(at in 0..BASE.len(), removed in 0..3_usize, inserted in "[ -~]{0,2}") {
        let mut text = BASE.to_owned();
        let end = (at + removed).min(text.len());
        text.replace_range(at..end, &inserted);
        let Some(skill) = read(&text) else { return Ok(()) };
        for spare in &skill.spares {
            let is_command = spare.command.as_ref().is_some_and(|command| command.specificity() > 3);
            prop_assert!(is_command || spare.tool != "bash", "{spare} of {text}");
        }
        let has = |line: &str| text.lines().any(|l| l == line);
        if has("model_invocation: user-only") {
            prop_assert_ne!(skill.invocation, SkillInvocationRule::Auto, "{}", text);
        }
        if has("tools:") && has("  deny: [bash]") && skill.tools.permits("bash", None) {
            prop_assert_ne!(skill.invocation, SkillInvocationRule::Auto, "{}", text);
        }
    }
}

#[test]
fn the_schema_names_every_key_and_takes_the_worked_example() {
    let schema: serde_json::Value = serde_json::from_str(FRONT_MATTER_JSON_SCHEMA).unwrap();
    let named: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(named, list_known_keys().collect::<Vec<_>>());
    let check = rind::tool::schema::compile_json_schema_check(&schema).unwrap();
    let example = serde_json::json!({
        "skill_format": "corteza.skill/v1", "name": "autoresearch", "description": "Bounded.",
        "model_invocation": "user-only", "side_effects": ["filesystem", "network"],
        "library_depends": ["pensar"], "attach": false, "tools": {"allow": ["finalize"]}, "trust": "package",
        "interaction": "returning"
    });
    assert_eq!(check(&example), Ok(()));
    assert!(check(&serde_json::json!({"description": "d", "tools": {"alow": []}})).is_err());
}

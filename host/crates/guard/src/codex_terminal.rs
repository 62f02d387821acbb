//! Disables terminals for commands of Codex. A later tool call, for which Codex calls no hook, can
//! type into a command that has a terminal. The setting is `[features] unified_exec_tty = false` in
//! `config.toml`.

use toml_edit::{DocumentMut, Item, Table, value};

const FEATURES_TABLE_KEY: &str = "features";
const UNIFIED_EXEC_TTY_KEY: &str = "unified_exec_tty";

/// Comment at the end of the line that Rind adds, by which the removal recognizes the line.
const ADDED_SETTING_MARKER_COMMENT: &str =
    " # rind guard: what is typed into a terminal is not judged";

fn parse_config(config: &str) -> Result<DocumentMut, String> {
    config.parse().map_err(|error| format!("{error}"))
}

/// Whether Codex's settings already disable terminals for commands.
pub(crate) fn has_terminals_disabled(config: &str) -> bool {
    let Ok(document) = parse_config(config) else {
        return false;
    };
    let features = document.get(FEATURES_TABLE_KEY);
    features.and_then(|own| own.get(UNIFIED_EXEC_TTY_KEY)?.as_bool()) == Some(false)
}

/// Returns the settings with terminals disabled.
///
/// # Errors
/// The settings are not TOML, or `features` is not a table.
pub(crate) fn disable_terminals_in_codex_config(config: &str) -> Result<String, String> {
    if has_terminals_disabled(config) {
        return Ok(config.to_owned());
    }
    let mut document = parse_config(config)?;
    let features = document
        .entry(FEATURES_TABLE_KEY)
        .or_insert_with(|| Item::Table(Table::new()));
    let mut own = value(false);
    // Add no comment in an inline table, where it would comment out the rest of the line.
    if let (Item::Table(_), Some(own)) = (&*features, own.as_value_mut()) {
        own.decor_mut().set_suffix(ADDED_SETTING_MARKER_COMMENT);
    }
    let features = features.as_table_like_mut();
    let features = features.ok_or_else(|| format!("its `{FEATURES_TABLE_KEY}` is not a table"))?;
    features.insert(UNIFIED_EXEC_TTY_KEY, own);
    Ok(document.to_string())
}

/// Returns the settings without the line that Rind added. A line that the user wrote stays.
///
/// # Errors
/// The settings are not TOML.
pub(crate) fn remove_added_terminal_setting(config: &str) -> Result<String, String> {
    let mut document = parse_config(config)?;
    let Some(features) = document
        .get_mut(FEATURES_TABLE_KEY)
        .and_then(Item::as_table_mut)
    else {
        return Ok(config.to_owned());
    };
    let own = features.get(UNIFIED_EXEC_TTY_KEY).and_then(Item::as_value);
    let suffix = own.and_then(|own| own.decor().suffix()?.as_str());
    if suffix != Some(ADDED_SETTING_MARKER_COMMENT) {
        return Ok(config.to_owned());
    }
    features.remove(UNIFIED_EXEC_TTY_KEY);
    if features.is_empty() {
        document.remove(FEATURES_TABLE_KEY);
    }
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_comes_and_goes_and_the_rest_stays() {
        for config in [
            "",
            "model = \"x\"\n",
            "# mine\n[features]\nhooks = true # yes\n\n[other]\na = 1\n",
            "features.hooks = true\n",
        ] {
            assert!(!has_terminals_disabled(config));
            let without = disable_terminals_in_codex_config(config).unwrap();
            assert!(has_terminals_disabled(&without), "{without}");
            assert!(
                without.contains("unified_exec_tty = false # rind guard: "),
                "{without}"
            );
            assert_eq!(
                disable_terminals_in_codex_config(&without).unwrap(),
                without
            );
            assert_eq!(remove_added_terminal_setting(&without).unwrap(), config);
        }
    }

    #[test]
    fn a_line_of_the_user_is_made_safe_and_never_taken_out() {
        let own = "[features]\nunified_exec_tty = false\n";
        assert_eq!(disable_terminals_in_codex_config(own).unwrap(), own);
        assert_eq!(remove_added_terminal_setting(own).unwrap(), own);
        assert!(!has_terminals_disabled(
            "[features]\nunified_exec_tty = true\n"
        ));
        let made =
            disable_terminals_in_codex_config("[features]\nunified_exec_tty = true\n").unwrap();
        assert!(has_terminals_disabled(&made), "{made}");
        let braces = disable_terminals_in_codex_config("features = { hooks = true }\n").unwrap();
        assert!(has_terminals_disabled(&braces), "{braces}");
        assert!(disable_terminals_in_codex_config("features = 1").is_err());
        assert!(disable_terminals_in_codex_config("= =").is_err());
    }
}

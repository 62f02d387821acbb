//! Disables terminals for commands of Codex. A later tool call, for which Codex calls no hook, can
//! type into a command that has a terminal. The setting is `[features] unified_exec_tty = false` in
//! `config.toml`.

use toml_edit::{DocumentMut, Item, Table, value};

const FEATURES: &str = "features";
const KEY: &str = "unified_exec_tty";

/// Comment at the end of the line that Rind adds, by which the removal recognizes the line.
const OWN: &str = " # rind guard: what is typed into a terminal is not judged";

fn parse_config(config: &str) -> Result<DocumentMut, String> {
    config.parse().map_err(|error| format!("{error}"))
}

/// Whether Codex's settings already disable terminals for commands.
pub(crate) fn disables_terminals(config: &str) -> bool {
    let Ok(document) = parse_config(config) else {
        return false;
    };
    let features = document.get(FEATURES);
    features.and_then(|own| own.get(KEY)?.as_bool()) == Some(false)
}

/// Returns the settings with terminals disabled.
///
/// # Errors
/// The settings are not TOML, or `features` is not a table.
pub(crate) fn disable_terminals(config: &str) -> Result<String, String> {
    if disables_terminals(config) {
        return Ok(config.to_owned());
    }
    let mut document = parse_config(config)?;
    let features = document
        .entry(FEATURES)
        .or_insert_with(|| Item::Table(Table::new()));
    let mut own = value(false);
    // Add no comment in an inline table, where it would comment out the rest of the line.
    if let (Item::Table(_), Some(own)) = (&*features, own.as_value_mut()) {
        own.decor_mut().set_suffix(OWN);
    }
    let features = features.as_table_like_mut();
    let features = features.ok_or_else(|| format!("its `{FEATURES}` is not a table"))?;
    features.insert(KEY, own);
    Ok(document.to_string())
}

/// Returns the settings without the line that Rind added. A line that the user wrote stays.
///
/// # Errors
/// The settings are not TOML.
pub(crate) fn restore_terminals(config: &str) -> Result<String, String> {
    let mut document = parse_config(config)?;
    let Some(features) = document.get_mut(FEATURES).and_then(Item::as_table_mut) else {
        return Ok(config.to_owned());
    };
    let own = features.get(KEY).and_then(Item::as_value);
    let suffix = own.and_then(|own| own.decor().suffix()?.as_str());
    if suffix != Some(OWN) {
        return Ok(config.to_owned());
    }
    features.remove(KEY);
    if features.is_empty() {
        document.remove(FEATURES);
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
            assert!(!disables_terminals(config));
            let without = disable_terminals(config).unwrap();
            assert!(disables_terminals(&without), "{without}");
            assert!(
                without.contains("unified_exec_tty = false # rind guard: "),
                "{without}"
            );
            assert_eq!(disable_terminals(&without).unwrap(), without);
            assert_eq!(restore_terminals(&without).unwrap(), config);
        }
    }

    #[test]
    fn a_line_of_the_user_is_made_safe_and_never_taken_out() {
        let own = "[features]\nunified_exec_tty = false\n";
        assert_eq!(disable_terminals(own).unwrap(), own);
        assert_eq!(restore_terminals(own).unwrap(), own);
        assert!(!disables_terminals("[features]\nunified_exec_tty = true\n"));
        let made = disable_terminals("[features]\nunified_exec_tty = true\n").unwrap();
        assert!(disables_terminals(&made), "{made}");
        let braces = disable_terminals("features = { hooks = true }\n").unwrap();
        assert!(disables_terminals(&braces), "{braces}");
        assert!(disable_terminals("features = 1").is_err());
        assert!(disable_terminals("= =").is_err());
    }
}

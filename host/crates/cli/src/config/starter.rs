//! Settings with their defaults and a short comment on each, from `starter.toml`.
//!
//! A key with a default is an ordinary line of that file. A key without a default is a line that
//! begins with [`EXAMPLE_VALUE_LINE_PREFIX`] and shows a possible value.

use anyhow::Context;

const STARTER_SETTINGS_TOML: &str = include_str!("starter.toml");

/// Prefix of a line with an example value for a setting without a default.
const EXAMPLE_VALUE_LINE_PREFIX: &str = "#: ";

pub(super) fn default_settings() -> anyhow::Result<toml::Table> {
    toml::from_str(STARTER_SETTINGS_TOML)
        .context("cannot parse the default settings that are embedded in rind")
}

/// Returns an initial settings file with every key of these sections commented out.
pub(super) fn build_commented_default_settings(sections: &[&str]) -> String {
    let wanted = |block: &&str| {
        let section = block.lines().find_map(parse_top_level_section_name);
        section.is_none_or(|name| sections.contains(&name))
    };
    let blocks = STARTER_SETTINGS_TOML
        .split("\n\n")
        .filter(wanted)
        .map(|block| {
            let lines =
                block
                    .lines()
                    .map(|line| match line.strip_prefix(EXAMPLE_VALUE_LINE_PREFIX) {
                        Some(example) => format!("#{example}"),
                        None if line.starts_with(['#', '[']) => line.to_owned(),
                        None => format!("#{line}"),
                    });
            lines.collect::<Vec<_>>().join("\n")
        });
    blocks.collect::<Vec<_>>().join("\n\n") + "\n"
}

/// Returns the top-level section of a line such as `[agent.compact]`; `None` if the line is no
/// section header.
fn parse_top_level_section_name(line: &str) -> Option<&str> {
    let line = line.strip_prefix(EXAMPLE_VALUE_LINE_PREFIX).unwrap_or(line);
    let name = line.strip_prefix('[')?.trim_start_matches('[');
    name.split(['.', ']']).next()
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;
    use rind_lib::agent::{AgentConfig, ArchivalConfig, SubagentsConfig};
    use rind_lib::config::{Config, ConfigLayer, Section};
    use rind_lib::price::Prices;
    use rind_lib::provider::ProviderConfig;
    use rind_lib::tool::policy::{EffectClassDefaultDecisions, ToolPolicy};
    use rind_lib::tool::sandbox::SandboxConfig;
    use rind_operator::chat::ChatConfig;
    use rind_operator::setup::ALLOWED_USER_SETTINGS_SECTIONS;

    fn config(text: String) -> Config {
        let layer =
            ConfigLayer::from_file_text(std::path::Path::new("starter.toml"), text).unwrap();
        let config = Config::new(vec![layer]);
        config
            .check_known_sections(ALLOWED_USER_SETTINGS_SECTIONS)
            .unwrap();
        config
    }

    #[test]
    fn the_defaults_that_are_shown_are_those_that_hold() {
        fn is_default<T: Section + Debug + Default + PartialEq>(config: &Config) {
            assert_eq!(config.section::<T>().unwrap(), T::default());
        }
        let config = config(STARTER_SETTINGS_TOML.to_owned());
        is_default::<ProviderConfig>(&config);
        is_default::<AgentConfig>(&config);
        is_default::<ArchivalConfig>(&config);
        is_default::<SubagentsConfig>(&config);
        is_default::<SandboxConfig>(&config);
        is_default::<ChatConfig>(&config);
        let tools: ToolPolicy = config.section().unwrap();
        assert_eq!(tools.defaults, EffectClassDefaultDecisions::default());
    }

    #[test]
    fn every_line_may_be_taken_out_of_its_comment() {
        let set: Vec<String> = build_commented_default_settings(ALLOWED_USER_SETTINGS_SECTIONS)
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(setting) if !setting.starts_with(' ') => setting.to_owned(),
                _ => line.to_owned(),
            })
            .collect();
        let config = config(set.join("\n"));
        for name in ALLOWED_USER_SETTINGS_SECTIONS {
            assert!(
                set.iter()
                    .any(|line| parse_top_level_section_name(line) == Some(name)),
                "{name}"
            );
        }
        config.section::<ProviderConfig>().unwrap();
        config.section::<AgentConfig>().unwrap();
        config.section::<SandboxConfig>().unwrap();
        config.section::<ToolPolicy>().unwrap();
        config.section::<Prices>().unwrap();
        assert!(config.section::<ProviderConfig>().unwrap().model.is_some());
    }

    #[test]
    fn a_file_to_start_from_sets_nothing() {
        let text = build_commented_default_settings(&["agent", "plugins"]);
        assert!(!text.contains("[provider"), "{text}");
        assert!(!text.contains("install"), "{text}");
        let table: toml::Table = toml::from_str(&text).unwrap();
        let agent = table["agent"].as_table().unwrap();
        assert!(
            agent
                .values()
                .all(|part| part.as_table().is_some_and(toml::Table::is_empty)),
            "{text}"
        );
        assert!(text.contains("\n#max_steps = 50\n"), "{text}");
        assert_eq!(AgentConfig::NAME, "agent");
    }
}

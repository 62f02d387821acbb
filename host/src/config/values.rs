//! Lists all settings with their values and locations, for display.

use std::collections::HashMap;

use super::Config;

/// A setting with its effective value and its locations.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveSetting {
    /// Keys that lead to the setting, of which the first is the section.
    pub keys: Vec<String>,
    /// Effective value. Tables are split into one setting per value; lists are not split.
    pub value: toml::Value,
    /// Locations that set the value: `FILE:LINE` or the flag. The first one takes precedence. Empty
    /// if the value is a default.
    pub places: Vec<String>,
}

impl Config {
    /// Returns every value that is set or has a default: those in `defaults` first, in their order.
    #[must_use]
    pub fn effective_settings(&self, defaults: &toml::Table) -> Vec<EffectiveSetting> {
        let mut all: Vec<EffectiveSetting> = Vec::new();
        let mut known: HashMap<Vec<String>, usize> = HashMap::new();
        let tables = self.layers.iter().map(|layer| &layer.table);
        for table in std::iter::once(defaults).chain(tables) {
            visit_toml_values(&mut Vec::new(), table, &mut |keys, value| {
                let at = *known.entry(keys.to_vec()).or_insert(all.len());
                let value = value.clone();
                match all.get_mut(at) {
                    Some(earlier) => earlier.value = value,
                    None => all.push(EffectiveSetting {
                        keys: keys.to_vec(),
                        value,
                        places: Vec::new(),
                    }),
                }
            });
        }
        for setting in &mut all {
            let keys: Vec<&str> = setting.keys.iter().map(String::as_str).collect();
            setting.places = self.value_locations(&keys);
            setting.places.reverse();
        }
        all
    }
}

fn visit_toml_values(
    keys: &mut Vec<String>,
    table: &toml::Table,
    on: &mut dyn FnMut(&[String], &toml::Value),
) {
    for (key, value) in table {
        keys.push(key.clone());
        match value {
            toml::Value::Table(table) => visit_toml_values(keys, table, on),
            value => on(keys, value),
        }
        keys.pop();
    }
}

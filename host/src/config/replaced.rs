//! Warns about lists in a `.json` settings file that the `.toml` file of the same name replaces.
//!
//! Lists are not merged: only the list of the TOML file applies, and rules in the list of the JSON
//! file have no effect. Users would not notice that without a warning.

use super::{Config, ConfigLayer, ConfigLayerOrigin};

impl Config {
    /// Describes each list of a JSON file that the TOML file [of the same
    /// name](ConfigLayer::read_files) replaces, with both locations. A list is skipped if the TOML
    /// file contains all of its elements, because nothing is lost.
    #[must_use]
    pub fn describe_overridden_json_lists(&self) -> Vec<String> {
        let pairs = self.layers.iter().zip(self.layers.iter().skip(1));
        let pairs = pairs.filter(|(json, toml)| json.is_json_counterpart_of(toml));
        pairs
            .flat_map(|(json, toml)| {
                let mut found = Vec::new();
                visit_toml_lists(&mut Vec::new(), &json.table, &mut |keys, list| {
                    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                    found.extend(toml.describe_overridden_list_items(json, &keys, list));
                });
                found
            })
            .collect()
    }
}

impl ConfigLayer {
    /// Whether this layer is a JSON file, and `toml` is the TOML file of the same name.
    fn is_json_counterpart_of(&self, toml: &Self) -> bool {
        let (ConfigLayerOrigin::File(own), ConfigLayerOrigin::File(other)) =
            (&self.origin, &toml.origin)
        else {
            return false;
        };
        self.is_json && !toml.is_json && own.with_extension("") == other.with_extension("")
    }

    /// Describes the elements that have no effect because this layer replaces `list` of the layer
    /// `weaker`; `None` if this layer contains all of them.
    fn describe_overridden_list_items(
        &self,
        weaker: &Self,
        keys: &[&str],
        list: &[toml::Value],
    ) -> Option<String> {
        let own = self.find_value(keys)?.as_array();
        let is_kept = |element| own.is_some_and(|own| own.contains(element));
        let n_lost = list.iter().filter(|element| !is_kept(element)).count();
        let place = |layer: &Self| {
            let line = layer.find_key_line(keys).unwrap_or(1);
            format!("{}:{line}", layer.origin)
        };
        let (name, section) = keys.split_last()?;
        let n_all = list.len();
        (n_lost > 0).then(|| {
            format!(
                "{}: `{name}` in [{}] replaces the whole list of {}, so that {n_lost} of the {n_all} entries there have no effect; \
                 keep the list in one of the two files",
                place(self),
                section.join("."),
                place(weaker)
            )
        })
    }
}

/// Calls `on` for each list in a table, with its path of keys.
fn visit_toml_lists(
    keys: &mut Vec<String>,
    table: &toml::Table,
    on: &mut dyn FnMut(&[String], &[toml::Value]),
) {
    for (key, value) in table {
        keys.push(key.clone());
        match value {
            toml::Value::Table(table) => visit_toml_lists(keys, table, on),
            toml::Value::Array(list) => on(keys, list),
            _ => {}
        }
        keys.pop();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_list_that_is_replaced_is_told_with_both_places() {
        let json = "{\"tools\": {\n\"rules\": [{\"tool\": \"a\"}, {\"tool\": \"b\"}]}, \"hooks\": {\"claude\": []}}";
        let config = |name: &str, toml: &str| {
            let file = |name: &str, text: &str| {
                ConfigLayer::from_file_text(Path::new(name), text.to_owned())
            };
            Config::new(vec![
                file("c.json", json).unwrap(),
                file(name, toml).unwrap(),
            ])
        };
        let toml = "[hooks]\nclaude = [\"x\"]\n[tools]\nrules = [{ tool = \"b\" }]\n";
        assert_eq!(
            config("c.toml", toml).describe_overridden_json_lists(),
            [
                "c.toml:4: `rules` in [tools] replaces the whole list of c.json:2, so that 1 of the 2 entries there have no effect; \
                keep the list in one of the two files"
            ]
        );
        let all = "[tools]\nrules = [{ tool = \"b\" }, { tool = \"a\" }]\n";
        for (name, toml) in [("c.toml", all), ("c.toml", ""), ("other.toml", toml)] {
            let none = config(name, toml).describe_overridden_json_lists();
            assert!(none.is_empty(), "{name}: {none:?}");
        }
    }
}

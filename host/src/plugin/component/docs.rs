//! Reads descriptions of functions from the custom section `package-docs`, which WebAssembly tools
//! add to a component.

use std::collections::BTreeMap;

use serde_json::Value;
use wasmparser::{Parser, Payload};

use super::functions::cut_description;
use crate::secret::Scanner;

/// Name of the section, and its supported version, which is the first byte.
const SECTION: &str = "package-docs";
const VERSION: u8 = 1;

/// Largest section that is read, in bytes.
const MAX_SECTION_BYTES: usize = 1 << 20;

/// Descriptions by the names of interface and function; the interface name is empty for functions
/// that the world exports directly.
#[derive(Default)]
pub(super) struct FunctionDocs(BTreeMap<(String, String), String>);

impl FunctionDocs {
    /// Reads the descriptions of a component; none if it has no such section.
    pub(super) fn read_docs(bytes: &[u8]) -> Self {
        let mut docs = Self::default();
        let sections = Parser::new(0).parse_all(bytes).map_while(Result::ok);
        for payload in sections {
            let Payload::CustomSection(section) = payload else {
                continue;
            };
            let data = section.data();
            if section.name() == SECTION
                && data.len() <= MAX_SECTION_BYTES
                && let Some((&VERSION, json)) = data.split_first()
                && let Ok(package) = serde_json::from_slice::<Value>(json)
            {
                docs.add_package(&package);
            }
        }
        docs
    }

    fn add_package(&mut self, package: &Value) {
        for (name, world) in objects(package, "worlds") {
            let _ = name;
            self.add_functions("", &world["func_exports"]);
            for (interface, own) in objects(world, "interface_exports") {
                self.add_functions(interface, &own["funcs"]);
            }
        }
        for (interface, own) in objects(package, "interfaces") {
            self.add_functions(interface, &own["funcs"]);
        }
    }

    fn add_functions(&mut self, interface: &str, functions: &Value) {
        for (name, about) in functions.as_object().into_iter().flatten() {
            let text = about.as_str().or_else(|| about["docs"].as_str());
            if let Some(text) = text {
                let key = (interface.to_owned(), name.clone());
                self.0.insert(key, text.to_owned());
            }
        }
    }

    /// Returns the description of a function, or a generic one if there is none or if it likely
    /// contains a secret: it is sent to the model with every request.
    pub(super) fn describe(&self, path: &[String], shown: &str) -> String {
        let own = match path {
            [interface, name] => {
                let short = interface.rsplit('/').next().unwrap_or(interface);
                let short = short.split('@').next().unwrap_or(short);
                self.0.get(&(short.to_owned(), name.clone()))
            }
            [name] => self.0.get(&(String::new(), name.clone())),
            _ => None,
        };
        let own = own.filter(|text| Scanner::shared().scan(text).is_empty());
        match own {
            Some(text) => cut_description(text.clone()),
            None => cut_description(format!("Function `{shown}` of a WebAssembly component.")),
        }
    }
}

fn objects<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    value
        .get(key)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn descriptions_are_found_by_interface_and_function() {
        let mut docs = FunctionDocs::default();
        docs.add_package(&json!({
            "worlds": {"w": {"func_exports": {"now": {"docs": "Says the time."}}}},
            "interfaces": {"zones": {"funcs": {"offset": "Offset of a zone."}}},
        }));
        let path = |parts: &[&str]| {
            parts
                .iter()
                .map(|part| (*part).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(docs.describe(&path(&["now"]), "now"), "Says the time.");
        assert_eq!(
            docs.describe(&path(&["a:b/zones@1.0.0", "offset"]), "x"),
            "Offset of a zone."
        );
        assert!(
            docs.describe(&path(&["other"]), "other")
                .contains("`other`")
        );
        assert!(FunctionDocs::read_docs(b"no wasm").0.is_empty());
    }
}

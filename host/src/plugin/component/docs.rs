//! Reads descriptions of functions from the custom section `package-docs`, which WebAssembly tools
//! add to a component.

use std::collections::BTreeMap;

use serde_json::Value;
use wasmparser::{Parser, Payload};

use super::functions::truncate_description;
use crate::secret::SecretScanner;

/// Name of the custom section with the docs of a component's WIT package. Its first byte is the
/// version of its format.
const PACKAGE_DOCS_SECTION_NAME: &str = "package-docs";
const PACKAGE_DOCS_FORMAT_VERSION: u8 = 1;

/// Maximum size, in bytes, of a `package-docs` section that is read.
const MAX_PACKAGE_DOCS_SECTION_BYTES: usize = 1 << 20;

/// Descriptions by the names of interface and function; the interface name is empty for functions
/// that the world exports directly.
#[derive(Default)]
pub(super) struct FunctionDocs(BTreeMap<(String, String), String>);

impl FunctionDocs {
    /// Reads the descriptions of a component's functions; none if the component has no section
    /// `package-docs`.
    pub(super) fn read_docs(bytes: &[u8]) -> Self {
        let mut docs = Self::default();
        let sections = Parser::new(0).parse_all(bytes).map_while(Result::ok);
        for payload in sections {
            let Payload::CustomSection(section) = payload else {
                continue;
            };
            let data = section.data();
            if section.name() == PACKAGE_DOCS_SECTION_NAME
                && data.len() <= MAX_PACKAGE_DOCS_SECTION_BYTES
                && let Some((&PACKAGE_DOCS_FORMAT_VERSION, json)) = data.split_first()
                && let Ok(package) = serde_json::from_slice::<Value>(json)
            {
                docs.add_package_docs(&package);
            }
        }
        docs
    }

    fn add_package_docs(&mut self, package: &Value) {
        for (name, world) in json_object_entries(package, "worlds") {
            let _ = name;
            self.add_function_docs("", &world["func_exports"]);
            for (interface, own) in json_object_entries(world, "interface_exports") {
                self.add_function_docs(interface, &own["funcs"]);
            }
        }
        for (interface, own) in json_object_entries(package, "interfaces") {
            self.add_function_docs(interface, &own["funcs"]);
        }
    }

    fn add_function_docs(&mut self, interface: &str, functions: &Value) {
        for (name, about) in functions.as_object().into_iter().flatten() {
            let text = about.as_str().or_else(|| about["docs"].as_str());
            if let Some(text) = text {
                let key = (interface.to_owned(), name.clone());
                self.0.insert(key, text.to_owned());
            }
        }
    }

    /// Returns the description of a function, which is sent to the model with every request. If
    /// there is none, or if it likely contains a secret, returns a generic description.
    pub(super) fn find_function_description(&self, path: &[String], shown: &str) -> String {
        let own = match path {
            [interface, name] => {
                let short = interface.rsplit('/').next().unwrap_or(interface);
                let short = short.split('@').next().unwrap_or(short);
                self.0.get(&(short.to_owned(), name.clone()))
            }
            [name] => self.0.get(&(String::new(), name.clone())),
            _ => None,
        };
        let own = own.filter(|text| SecretScanner::shared().find_secrets(text).is_empty());
        match own {
            Some(text) => truncate_description(text.clone()),
            None => truncate_description(format!("Function `{shown}` of a WebAssembly component.")),
        }
    }
}

fn json_object_entries<'a>(
    value: &'a Value,
    key: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
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
        docs.add_package_docs(&json!({
            "worlds": {"w": {"func_exports": {"now": {"docs": "Says the time."}}}},
            "interfaces": {"zones": {"funcs": {"offset": "Offset of a zone."}}},
        }));
        let path = |parts: &[&str]| {
            parts
                .iter()
                .map(|part| (*part).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            docs.find_function_description(&path(&["now"]), "now"),
            "Says the time."
        );
        assert_eq!(
            docs.find_function_description(&path(&["a:b/zones@1.0.0", "offset"]), "x"),
            "Offset of a zone."
        );
        assert!(
            docs.find_function_description(&path(&["other"]), "other")
                .contains("`other`")
        );
        assert!(FunctionDocs::read_docs(b"no wasm").0.is_empty());
    }
}

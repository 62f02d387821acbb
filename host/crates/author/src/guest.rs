//! Generates the entry module of a JavaScript or Python component. The entry module wraps the
//! module that the plugin's author wrote.
//!
//! The entry checks each value that the plugin returns against the contract, because the engines
//! convert a wrong value silently to a default, or trap. It also checks the arguments that the
//! plugin passes to functions of the host, and reports exceptions with type, message and source
//! position. This module fills the templates in `guest` with the types that the plugin's exports
//! return and its imports take. It must not know how components are built. Start from
//! [`GuestEntryModuleGenerator::from_exports`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::embedded::find_embedded_guest_file;
use rind_lib::plugin::contract;

/// Content of `guest/shapes.json`, which is generated from the contract: the functions of all
/// interfaces and the types that they return and take.
#[derive(Deserialize)]
struct ContractInterfaceSchema {
    /// Functions of each import, each with the names and types of its parameters.
    imports: BTreeMap<String, ContractFunctionParameters>,
    /// Methods of the handles that hooks borrow from the host.
    methods: ContractFunctionParameters,
    /// Functions of each export, each with the type of the value that it returns on success. The
    /// type is null, so that the value is not checked, if the function cannot fail or returns no
    /// value.
    results: BTreeMap<String, BTreeMap<String, Value>>,
    types: BTreeMap<String, ContractCompositeType>,
}

/// Parameters of each function, by its name: parameter names and types, in order.
type ContractFunctionParameters = BTreeMap<String, Vec<(String, Value)>>;

/// Record, variant or enum type of the plugin contract.
#[derive(Deserialize)]
struct ContractCompositeType {
    kind: String,
    /// Fields or cases, each with its type; null for a case without a value.
    parts: Map<String, Value>,
}

/// Language of the plugin, whose naming convention the generated code uses.
#[derive(Clone, Copy)]
enum GuestLanguage {
    JavaScript,
    Python,
}

/// Exports of one plugin, with the contract's functions and types that the plugin uses. The entry
/// module, which is generated from them, checks the values that the plugin passes.
pub(super) struct GuestEntryModuleGenerator {
    shapes: ContractInterfaceSchema,
    exports: Vec<String>,
}

impl GuestEntryModuleGenerator {
    /// Creates the generator with those functions of the contract that belong to these exports and
    /// imports, and with all types that the functions use.
    pub(super) fn from_exports(exports: &[String], imports: &[String]) -> serde_json::Result<Self> {
        let mut shapes: ContractInterfaceSchema =
            serde_json::from_str(find_embedded_guest_file("shapes.json"))?;
        shapes.results.retain(|export, _| exports.contains(export));
        shapes.imports.retain(|import, _| imports.contains(import));
        let mut reached = BTreeSet::new();
        let mut open: Vec<&str> = Vec::new();
        let results = shapes.results.values().flat_map(BTreeMap::values);
        results.for_each(|ty| collect_type_names(ty, &mut open));
        let functions = shapes.imports.values().chain([&shapes.methods]);
        let parameters = functions.flat_map(BTreeMap::values).flatten();
        parameters.for_each(|(_, ty)| collect_type_names(ty, &mut open));
        while let Some(name) = open.pop() {
            if let Some(shape) = shapes.types.get(name)
                && reached.insert(name.to_owned())
            {
                shape
                    .parts
                    .values()
                    .for_each(|ty| collect_type_names(ty, &mut open));
            }
        }
        shapes.types.retain(|name, _| reached.contains(name));
        Ok(Self {
            shapes,
            exports: exports.to_vec(),
        })
    }

    /// Returns the entry of a JavaScript component. `module` is the path of the plugin's module.
    /// The entry imports `./console.js` only if `has_console` is set.
    pub(super) fn generate_javascript_entry(&self, module: &Path, has_console: bool) -> String {
        let results = self.shapes.results.iter().map(|(export, methods)| {
            let wrapper = match export.as_str() {
                "tools" => "tools({ … })".to_owned(),
                "commands" => "commands({ … })".to_owned(),
                "loop" => "runLoop(() => …)".to_owned(),
                "agent-loop" => "{ run() { … } }".to_owned(),
                "implement" => "{ run(point, payload) { … } }".to_owned(),
                point => format!("hooks.{}(…)", camel_case(point)),
            };
            (camel_case(export), json!([wrapper, methods]))
        });
        let results: Map<String, Value> = results.collect();
        let code = find_embedded_guest_file("entry.js")
            .replace("{{results}}", &Value::Object(results).to_string());
        let console = if has_console {
            "import \"./console.js\";\n"
        } else {
            ""
        };
        let module = Value::from(module.to_string_lossy()).to_string();
        let exports = self.exports.iter().map(|export| camel_case(export));
        let exports: String = exports
            .map(|name| format!("export const {name} = guard(\"{name}\", plugin.{name});\n"))
            .collect();
        format!("{console}import * as plugin from {module};\n{code}\n{exports}")
    }

    /// Returns the JavaScript module that checks values against the contract. The caller writes it
    /// to `check.js` next to the entry.
    pub(super) fn generate_javascript_type_check_module(&self) -> String {
        let methods = GuestLanguage::JavaScript.describe_functions_as_json(&self.shapes.methods);
        find_embedded_guest_file("check.js")
            .replace("{{methods}}", &methods.to_string())
            .replace(
                "{{shapes}}",
                &self.contract_types_json(GuestLanguage::JavaScript),
            )
    }

    /// Returns the JavaScript module that wraps an import of the host and checks the arguments of
    /// its functions. It imports the host under the name without a version, because the bundler
    /// redirects the versioned name to this module.
    pub(super) fn generate_javascript_import_wrapper(&self, import: &str) -> Option<String> {
        let functions = self.shapes.imports.get(import)?;
        let functions = GuestLanguage::JavaScript.describe_functions_as_json(functions);
        let mut text = format!(
            "import {{ checked }} from \"./check.js\";\nimport * as host from \"rind:plugin/{import}\";\n"
        );
        for (name, taken) in functions.as_object()? {
            text += &format!(
                "export const {name} = checked(\"{import}.{name}\", {taken}, host.{name});\n"
            );
        }
        Some(text)
    }

    /// Returns the JavaScript module that implements `console`.
    pub(super) fn generate_javascript_console_module() -> String {
        let log = format!("rind:plugin/log@{}", contract::CURRENT_CONTRACT_VERSION);
        find_embedded_guest_file("console.js").replace("{{log}}", &log)
    }

    /// Returns the entry of a Python component. `module` is the name of the plugin's module. If
    /// `has_log` is set, printed text is written to the log.
    pub(super) fn generate_python_entry(&self, module: &str, has_log: bool) -> String {
        let results = self.shapes.results.iter().map(|(export, methods)| {
            let class = pascal_case(export);
            (export.clone(), json!([class, methods]))
        });
        let results: Map<String, Value> = results.collect();
        let imports = self.shapes.imports.iter().map(|(import, functions)| {
            let functions = GuestLanguage::Python.describe_functions_as_json(functions);
            (import.replace('-', "_"), functions)
        });
        let imports = Value::Object(imports.collect());
        let methods = GuestLanguage::Python.describe_functions_as_json(&self.shapes.methods);
        // A JSON string literal is also a Python string literal: both use the same escapes.
        let literal = |text: String| Value::from(text).to_string();
        find_embedded_guest_file("entry.py")
            .replace("{{module}}", module)
            .replace("{{results}}", &literal(Value::Object(results).to_string()))
            .replace("{{imports}}", &literal(imports.to_string()))
            .replace("{{methods}}", &literal(methods.to_string()))
            .replace(
                "{{shapes}}",
                &literal(self.contract_types_json(GuestLanguage::Python)),
            )
            .replace("{{has_log}}", if has_log { "True" } else { "False" })
    }

    /// Returns the types of the contract as JSON: for each type its kind, its name, and its fields
    /// or cases under the names that the language uses.
    fn contract_types_json(&self, language: GuestLanguage) -> String {
        let types = self.shapes.types.iter().map(|(name, shape)| {
            let part_name = |part: &str| language.convert_field_or_case_name(&shape.kind, part);
            let parts = match shape.kind.as_str() {
                "enum" => shape.parts.keys().map(|part| part_name(part)).collect(),
                _ => {
                    let parts = shape.parts.iter();
                    let parts = parts.map(|(part, ty)| (part_name(part), ty.clone()));
                    Value::Object(parts.collect())
                }
            };
            (name.clone(), json!([shape.kind, pascal_case(name), parts]))
        });
        Value::Object(types.collect()).to_string()
    }
}

impl GuestLanguage {
    /// Returns functions with their parameters as JSON, under the names that the language uses.
    fn describe_functions_as_json(self, functions: &ContractFunctionParameters) -> Value {
        let functions = functions.iter().map(|(name, taken)| {
            let taken = taken.iter();
            let taken = taken
                .map(|(name, ty)| json!([self.convert_field_or_case_name("record", name), ty]));
            (
                self.convert_field_or_case_name("record", name),
                taken.collect(),
            )
        });
        Value::Object(functions.collect())
    }

    /// Returns the name of a record's field, or of a case of a variant or an enum, in the plugin's
    /// language. `kind` is the kind of the type that contains it. Names of functions and parameters
    /// are converted with the kind `record`.
    fn convert_field_or_case_name(self, kind: &str, part: &str) -> String {
        match (self, kind) {
            (Self::JavaScript, "record") => camel_case(part),
            // The JavaScript engine uses the WIT names of variant cases and enum cases.
            (Self::JavaScript, _) => part.to_owned(),
            (Self::Python, "variant") => pascal_case(part),
            (Self::Python, "enum") => part.replace('-', "_").to_uppercase(),
            (Self::Python, _) => part.replace('-', "_"),
        }
    }
}

/// Appends the names of all types that occur in a type.
fn collect_type_names<'a>(ty: &'a Value, names: &mut Vec<&'a str>) {
    match ty {
        Value::String(name) => names.push(name),
        Value::Object(around) => around
            .values()
            .for_each(|inner| collect_type_names(inner, names)),
        _ => {}
    }
}

/// Returns the export name of an interface in a JavaScript module, for example `preTool` for
/// `pre-tool`.
pub(super) fn camel_case(name: &str) -> String {
    let mut words = name.split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |text, word| text + &capitalize(word))
}

/// Converts a name of the contract to the name of a type or of an interface's class: `pre-tool`
/// becomes `PreTool`.
pub(super) fn pascal_case(name: &str) -> String {
    name.split('-').map(capitalize).collect()
}

fn capitalize(word: &str) -> String {
    let (initial, rest) = word.split_at(word.len().min(1));
    initial.to_ascii_uppercase() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_the_types_of_its_exports_in_the_names_of_the_language_and_no_others() {
        let exports = ["pre-tool".to_owned(), "loop".to_owned()];
        let imports = ["files".to_owned()];
        let entry = GuestEntryModuleGenerator::from_exports(&exports, &imports).unwrap();
        let js = entry.generate_javascript_entry(Path::new("/a \"b\"/plugin.js"), true);
        assert!(js.starts_with(
            "import \"./console.js\";\nimport * as plugin from \"/a \\\"b\\\"/plugin.js\";\n"
        ));
        assert!(js.contains("export const preTool = guard(\"preTool\", plugin.preTool);"));
        let check = entry.generate_javascript_type_check_module();
        assert!(check.contains("\"next-run\":[\"record\",\"NextRun\",{\"afterMs\":\"u64\""));
        for text in [&js, &check] {
            assert!(!text.contains("command-outcome"), "{text}");
            assert!(!text.contains("{{"), "{text}");
        }
        let files = entry.generate_javascript_import_wrapper("files").unwrap();
        assert!(files.contains(
            "export const read = checked(\"files.read\", [[\"path\",\"string\"],[\"offset\",\"u64\"],[\"length\",\"u32\"]], host.read);"
        ));
        assert_eq!(entry.generate_javascript_import_wrapper("http"), None);
        let python = entry.generate_python_entry("plugin", false);
        for part in ["CallVerdict", "after_ms", "\\\"Block\\\"", "\\\"WARN\\\""] {
            assert!(python.contains(part), "{part}\n{python}");
        }
        assert!(!python.contains("{{"), "{python}");
    }

    #[test]
    fn every_export_has_its_types() {
        for export in crate::world::exportable_interface_names() {
            let entry = GuestEntryModuleGenerator::from_exports(&[export.to_owned()], &[]).unwrap();
            assert!(!entry.shapes.results.is_empty(), "{export}");
        }
    }
}

//! Generates the parts of the host and of the JavaScript and Python SDKs that follow from the
//! contract in `wit/`.

mod javascript;
mod lock;
mod payloads;
mod python;
mod shapes;
mod tables;
mod typescript;

use std::collections::BTreeMap;

use rind::{event, script, session};
use rind_serve::generate_openapi_document;
use serde_json::json;
use wit_parser::{
    Docs, Function, Interface, InterfaceId, Resolve, Type, TypeDef, TypeDefKind, TypeId,
};

use super::tree;

/// Interfaces that have types and no functions.
const TYPES: [&str; 4] = ["types", "payloads", "outcomes", "handles"];

/// Interfaces that plugins may export and that are not points.
const OTHERS: [&str; 5] = ["tools", "implement", "loop", "agent-loop", "commands"];

/// The parsed contract.
pub(super) struct Contract {
    resolve: Resolve,
    version: String,
}

impl Contract {
    pub(super) fn read() -> Self {
        let mut resolve = Resolve::default();
        let (package, _) = resolve.push_dir(tree::root().join("wit")).unwrap();
        let version = &resolve.packages[package].name.version;
        Self {
            version: version.as_ref().unwrap().to_string(),
            resolve,
        }
    }

    /// Returns the interfaces by name.
    fn interfaces(&self) -> BTreeMap<&str, InterfaceId> {
        let packages = self.resolve.packages.iter();
        let interfaces = packages.flat_map(|(_, package)| &package.interfaces);
        interfaces.map(|(name, id)| (name.as_str(), *id)).collect()
    }

    fn interface(&self, id: InterfaceId) -> &Interface {
        &self.resolve.interfaces[id]
    }

    fn ty(&self, id: TypeId) -> &TypeDef {
        &self.resolve.types[id]
    }

    /// Returns the names of the interfaces that a world imports, or exports if `exports` is set.
    fn world(&self, name: &str, exports: bool) -> Vec<&str> {
        let mut worlds = self.resolve.worlds.iter();
        let (_, world) = worlds.find(|(_, world)| world.name == name).unwrap();
        let items = if exports {
            &world.exports
        } else {
            &world.imports
        };
        let names = items.keys().filter_map(|key| match key {
            wit_parser::WorldKey::Interface(id) => self.interface(*id).name.as_deref(),
            wit_parser::WorldKey::Name(_) => None,
        });
        names.collect()
    }

    pub(super) fn points(&self) -> Vec<&str> {
        self.world("hooks", true)
    }

    /// Returns the names of the imports that have functions.
    pub(super) fn imports(&self) -> Vec<&str> {
        let mut names = self.world("imports", false);
        names.retain(|name| !TYPES.contains(name));
        names
    }

    /// Returns the types of the outcome and of the payload of a point's hooks.
    fn hook(&self, point: &str) -> (TypeId, Type) {
        let run: &Function = &self.interface(self.interfaces()[point]).functions["run"];
        let Some(Type::Id(result)) = run.result else {
            panic!("{point} returns nothing");
        };
        let TypeDefKind::Result(result) = &self.ty(result).kind else {
            panic!("{point} returns no result");
        };
        let Some(Type::Id(outcome)) = result.ok else {
            panic!("{point} has no outcome");
        };
        (self.target(outcome), run.params[0].ty)
    }

    /// Returns the name of the Python function that makes the outcome of a point's hooks.
    pub(super) fn outcome_of(&self, point: &str) -> String {
        let name = self.ty(self.hook(point).0).name.as_deref().unwrap();
        snake_case(name.trim_end_matches("-outcome"))
    }

    /// Resolves aliases of a type, such as names from `use`.
    fn target(&self, id: TypeId) -> TypeId {
        match self.ty(id).kind {
            TypeDefKind::Type(Type::Id(other)) => self.target(other),
            _ => id,
        }
    }
}

pub(crate) fn camel_case(name: &str) -> String {
    let mut words = name.split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |text, word| text + &capital(word))
}

pub(crate) fn pascal_case(name: &str) -> String {
    name.split('-').map(capital).collect()
}

fn snake_case(name: &str) -> String {
    name.replace('-', "_")
}

fn capital(word: &str) -> String {
    let (initial, rest) = word.split_at(word.len().min(1));
    initial.to_ascii_uppercase() + rest
}

fn text(docs: &Docs) -> &str {
    docs.contents.as_deref().unwrap_or_default().trim()
}

/// Returns the first sentence of a doc comment with wrapped lines.
fn first_sentence(docs: &str) -> String {
    let lines = docs.lines().map(str::trim);
    let lines: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let whole = lines.join(" ");
    match whole.split_once(". ") {
        Some((first, _)) => format!("{first}."),
        None => whole,
    }
}

/// Returns path and text of each generated file.
fn files() -> Vec<(String, String)> {
    let contract = Contract::read();
    let mut files = typescript::files(&contract);
    files.extend(javascript::files(&contract));
    files.extend(python::files(&contract));
    files.extend(shapes::files(&contract));
    files.extend(payloads::files(&contract));
    files.extend(schemas());
    files
}

/// Returns path and text of the JSON Schemas of the host's types. The program contains the files,
/// because the code that generates them would add half a megabyte.
fn schemas() -> Vec<(String, String)> {
    let named = [
        (
            "host/crates/cli/src/schemas/events.json",
            json!(event::event_line_schema()),
        ),
        (
            "host/crates/cli/src/schemas/hooks.json",
            script::script_protocol_schema(),
        ),
        (
            "host/crates/cli/src/schemas/session.json",
            json!(session::entry_json_schema()),
        ),
        (
            "host/crates/serve/src/openapi.json",
            generate_openapi_document(),
        ),
    ];
    let files = named.iter().map(|(path, schema)| {
        let text = serde_json::to_string_pretty(schema).unwrap() + "\n";
        ((*path).to_owned(), text)
    });
    files.collect()
}

#[test]
fn the_sdks_say_what_the_contract_says() {
    let is_blessed = std::env::var_os("RIND_BLESS").is_some();
    let mut stale = Vec::new();
    for (path, text) in files() {
        let place = tree::root().join(&path);
        if std::fs::read_to_string(&place).is_ok_and(|found| found == text) {
            continue;
        }
        if is_blessed {
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::write(&place, text).unwrap();
        } else {
            stale.push(path);
        }
    }
    assert!(
        stale.is_empty(),
        "not as generated from `wit/` and the types of the host: {stale:?}\n`RIND_BLESS=1 cargo test -p rind-tests tidy` writes them"
    );
}

#[test]
fn every_point_and_import_can_be_reached_from_each_sdk() {
    let contract = Contract::read();
    let points = contract.points();
    assert_eq!(points.len(), rind::point::catalog::CATALOG.len());
    let hooks = tree::read("sdk/js/src/hooks.js");
    let stubs = tree::read("sdk/python/stubs/wit_world/exports/__init__.pyi");
    for point in points {
        let name = camel_case(point);
        assert!(hooks.contains(&format!("  {name}: ")), "{point}");
        let class = format!("class {}(Protocol):", pascal_case(point));
        assert!(stubs.contains(&class), "{point}");
    }
    for import in contract.imports() {
        let module = tree::read(&format!("sdk/js/src/{import}.js"));
        let python = format!(
            "sdk/python/stubs/wit_world/imports/{}.pyi",
            snake_case(import)
        );
        let stubs = tree::read(&python);
        let interface = contract.interface(contract.interfaces()[import]);
        for function in interface.functions.keys() {
            assert!(
                module.contains(&camel_case(function)),
                "{import}.{function}"
            );
            let name = format!("def {}(", snake_case(function));
            assert!(stubs.contains(&name), "{import}.{function}");
        }
        assert!(
            tree::root()
                .join(format!("sdk/python/rind_sdk/{}.py", snake_case(import)))
                .is_file()
        );
    }
}

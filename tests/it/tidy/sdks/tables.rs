//! Compares the tables of import functions in the READMEs of the SDKs with the contract and with
//! the modules in Rust.

use super::super::table::Table;
use super::super::tree;
use super::{Contract, camel_case, first_sentence, snake_case, text};

/// Returns the generated tables.
fn tables() -> Vec<Table> {
    let contract = Contract::read();
    let of = |file, module: &dyn Fn(&str) -> String, functions: &dyn Fn(&str) -> Vec<String>| {
        let rows = contract.imports().into_iter().map(|import| {
            let interface = contract.interface(contract.interfaces()[import]);
            let about = first_sentence(text(&interface.docs)).replace('|', "\\|");
            let functions = functions(import).join(", ");
            format!("| `{}` | {functions} | {about} |", module(import))
        });
        let head = ["| module | functions | about |", "|---|---|---|"];
        let head = head.into_iter().map(str::to_owned);
        Table {
            file,
            name: "imports",
            source: "contract",
            lines: head.chain(rows).collect(),
        }
    };
    let named = |import: &str, name: &dyn Fn(&str) -> String| {
        let interface = contract.interface(contract.interfaces()[import]);
        let functions = interface.functions.iter();
        // Methods of resources are left out, because the docs of the handles describe them.
        let functions = functions.filter(|(name, _)| !name.starts_with('['));
        let shown = functions.map(|(function, signature)| {
            let params = signature.params.iter().map(|param| name(&param.name));
            let params = params.collect::<Vec<_>>().join(", ");
            format!("`{}({params})`", name(function))
        });
        shown.collect::<Vec<_>>()
    };
    vec![
        of(
            "sdk/js/README.md",
            &|import| format!("rind-sdk/{import}"),
            &|import| named(import, &camel_case),
        ),
        of(
            "sdk/python/README.md",
            &|import| format!("rind_sdk.{}", snake_case(import)),
            &|import| named(import, &snake_case),
        ),
        of("sdk/rust/README.md", &rust_module, &|import| {
            let source = tree::read(&format!("sdk/rust/src/{}.rs", rust_module(import)));
            let functions = rust_functions(&source);
            assert!(!functions.is_empty(), "{import} has no functions in Rust");
            functions
        }),
    ]
}

/// Returns the Rust module of an import. Rust can name it `tools`, because the exported interface
/// `tools` has no module there.
fn rust_module(import: &str) -> String {
    match import {
        "tools-host" => "tools".to_owned(),
        import => snake_case(import),
    }
}

/// Returns the functions of a Rust module, each with the names of its parameters and its return
/// type.
fn rust_functions(source: &str) -> Vec<String> {
    let written = source.split("\npub fn ").skip(1).filter_map(|rest| {
        let head = rest.split(" {\n").next()?;
        let head = head.split_whitespace().collect::<Vec<_>>().join(" ");
        let (taken, returned) = match head.rsplit_once(") -> ") {
            Some((taken, returned)) => {
                let returned = returned.split(" where ").next()?;
                (taken, format!(" -> {returned}"))
            }
            None => (head.strip_suffix(')')?, String::new()),
        };
        let (name, params) = taken.split_once('(')?;
        let name = name.split('<').next()?;
        let params = params
            .split(", ")
            .filter_map(|param| param.split_once(": "));
        let params: Vec<&str> = params.map(|(name, _)| name.trim()).collect();
        Some(format!("`{name}({}){returned}`", params.join(", ")))
    });
    // Functions that a macro of the module generates from lines `name -> Type;`.
    let made = source.lines().filter_map(|line| {
        let (name, returned) = line
            .strip_suffix(';')?
            .strip_prefix("    ")?
            .split_once(" -> ")?;
        let is_name = name.bytes().all(|c| c.is_ascii_lowercase() || c == b'_');
        is_name.then(|| format!("`{name}() -> {returned}`"))
    });
    written.chain(made).collect()
}

#[test]
fn a_row_has_the_first_sentence_and_whole_signatures() {
    assert_eq!(
        first_sentence("One thing,\nand more. Two.\n\nThree."),
        "One thing, and more."
    );
    let source = "\npub fn get(key: &str) -> Option<String> {\n}\n\npub fn put<T: Serialize>(\n    key: &str,\n    \
                  value: &T,\n) -> Result<(), Error> {\n}\n\npub fn note(text: impl Display) {\n}\n    turn -> u32;\n";
    assert_eq!(
        rust_functions(source),
        [
            "`get(key) -> Option<String>`",
            "`put(key, value) -> Result<(), Error>`",
            "`note(text)`",
            "`turn() -> u32`",
        ]
    );
}

#[test]
fn the_readme_of_each_sdk_lists_every_function_that_a_plugin_can_call() {
    tables().iter().for_each(Table::settle);
}

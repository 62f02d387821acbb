//! Tables of all import functions in the READMEs of the SDKs, compared with the contract and with the modules in Rust.

use super::super::table::Table;
use super::super::tree;
use super::{Contract, camel_case, snake_case, text};

/// The tables as they must be.
fn tables() -> Vec<Table> {
    let contract = Contract::read();
    let of = |file, module: &dyn Fn(&str) -> String, functions: &dyn Fn(&str) -> Vec<String>| {
        let rows = contract.imports().into_iter().map(|import| {
            let interface = contract.interface(contract.interfaces()[import]);
            let about = text(&interface.docs).lines().next().unwrap_or_default();
            let about = about.replace('|', "\\|");
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
        // Methods of resources belong to the handles, which have types of their own.
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
            let lines = source.lines();
            let functions = lines.filter_map(|line| {
                let name = match line.strip_prefix("pub fn ") {
                    Some(rest) => rest.split(['(', '<']).next()?,
                    // Functions that a macro of the module makes: `name -> Type;`.
                    None => {
                        line.strip_suffix(';')?
                            .strip_prefix("    ")?
                            .split_once(" -> ")?
                            .0
                    }
                };
                let is_name = name.bytes().all(|c| c.is_ascii_lowercase() || c == b'_');
                is_name.then(|| format!("`{name}`"))
            });
            let functions: Vec<String> = functions.collect();
            assert!(!functions.is_empty(), "{import} has no functions in Rust");
            functions
        }),
    ]
}

/// The module of an import in Rust, where `tools` is no interface that a plugin exports.
fn rust_module(import: &str) -> String {
    match import {
        "tools-host" => "tools".to_owned(),
        import => snake_case(import),
    }
}

#[test]
fn the_readme_of_each_sdk_lists_every_function_that_a_plugin_can_call() {
    tables().iter().for_each(Table::settle);
}

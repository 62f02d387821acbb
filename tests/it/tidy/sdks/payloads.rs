//! Generates the table of payload records, from which a macro generates the host's types for them.

use std::fmt::Write as _;

use wit_parser::{Docs, Type, TypeDefKind};

use super::{Contract, pascal_case, snake_case, text};

/// Path of the generated file.
const FILE: &str = "wit/payloads.in";

const HEAD: &str = "\
// Generated from wit/payloads.wit by `RIND_BLESS=1 cargo test -p rind-tests tidy`. The test is compiled with the host, which reads this
// file: write the row of a new record by hand first, so that both compile.

/// Calls `$m!` with the records: their docs, and docs, name and type of each field. Docs are written for JSON, with `null` and
/// names in snake case. `p` stands for the payloads of the host; a field whose name is a word of Rust has the contract's name
/// behind it.
macro_rules! for_each_payload {
    ($m:ident) => {
        $m! {
";

pub(super) fn files(contract: &Contract) -> Vec<(String, String)> {
    let payloads = contract.interface(contract.interfaces()["payloads"]);
    let kinds = payloads.types.values().map(|id| &contract.ty(*id).kind);
    let fields = kinds.filter_map(|kind| match kind {
        TypeDefKind::Record(record) => Some(&record.fields),
        _ => None,
    });
    let fields: Vec<&str> = fields.flatten().map(|field| field.name.as_str()).collect();
    let mut table = HEAD.to_owned();
    for (name, id) in &payloads.types {
        let ty = contract.ty(*id);
        let TypeDefKind::Record(record) = &ty.kind else {
            continue;
        };
        docs(&mut table, 12, &ty.docs, &fields);
        let _ = writeln!(table, "            {} {{", pascal_case(name));
        for field in &record.fields {
            docs(&mut table, 16, &field.docs, &fields);
            let (name, ty) = (snake_case(&field.name), rust_type(contract, &field.ty));
            let name = match &*name {
                "where" | "type" | "use" => format!("{name}_ as \"{name}\""),
                _ => name,
            };
            let _ = writeln!(table, "                {name}: {ty},");
        }
        table.push_str("            }\n");
    }
    table.push_str("        }\n    };\n}\n");
    vec![(FILE.to_owned(), table)]
}

/// Adds docs as one line, rewritten for JSON: `none` becomes `null`, and names of `fields` are in
/// snake case.
fn docs(table: &mut String, indent: usize, docs: &Docs, fields: &[&str]) {
    let mut words = text(docs).split_whitespace().peekable();
    let mut line = Vec::new();
    while let Some(word) = words.next() {
        line.push(match word {
            // Except in phrases such as `none of it`.
            "none" if words.peek() != Some(&"of") => "null".to_owned(),
            "None" => "Null".to_owned(),
            word => match word.split('`').nth(1) {
                Some(name) if fields.contains(&name) => word.replace(name, &snake_case(name)),
                _ => word.to_owned(),
            },
        });
    }
    let _ = writeln!(table, "{:indent$}/// {}", "", line.join(" "));
}

fn rust_type(contract: &Contract, ty: &Type) -> String {
    match ty {
        Type::String => "String".to_owned(),
        Type::Id(id) => {
            let ty = contract.ty(*id);
            let name = || pascal_case(ty.name.as_deref().unwrap());
            match &ty.kind {
                TypeDefKind::Option(some) => format!("Option<{}>", rust_type(contract, some)),
                TypeDefKind::List(item) => format!("Vec<{}>", rust_type(contract, item)),
                // A type from another interface.
                TypeDefKind::Type(_) => name(),
                _ => format!("p::{}", name()),
            }
        }
        number => format!("{number:?}").to_lowercase(),
    }
}

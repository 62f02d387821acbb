//! Generates the tables of payloads and of their enums, from which macros generate the host's types,
//! the JSON of scripts and the tables of test cases.

use std::fmt::Write as _;

use wit_parser::{Function, FunctionKind, Type, TypeDef, TypeDefKind, TypeId, TypeOwner};

use super::{Contract, pascal_case, snake_case, text};

const PAYLOADS: &str = "\
// Generated from wit/payloads.wit and wit/handles.wit by `RIND_BLESS=1 cargo test -p rind-tests tidy`. The test is compiled with the
// host, which reads this file: write the row of a new record by hand first, so that both compile.

/// Calls `$m!` with the records: their docs, and docs, name and type of each field. Docs are written for JSON, with `null` and
/// names in snake case. `p` stands for the payloads of the host; a field whose name is a word of Rust has the contract's name
/// behind it.
macro_rules! for_each_payload {
";

const HANDLES: &str = "
/// Calls `$m!` with the payloads that plugins read through a handle, in the same form. What a handle gives in parts is one
/// field here.
macro_rules! for_each_handle {
";

const ENUMS: &str = "\
// Generated from wit/payloads.wit and wit/types.wit by `RIND_BLESS=1 cargo test -p rind-tests tidy`. The test is compiled with the host,
// which reads this file: write the row of a new enum by hand first, so that both compile.

/// Calls `$m!` with the enums that events and session entries name, and with their docs.
macro_rules! for_each_enum {
";

/// Begin and end of each macro's body.
const OPEN: &str = "    ($m:ident) => {\n        $m! {\n";
const CLOSE: &str = "        }\n    };\n}\n";

/// Fields that a handle reads in parts: resource, field, type and docs of the whole. Other functions
/// with parameters, and the sizes, give nothing that these fields do not have.
const READ_IN_PARTS: [(&str, &str, &str, &str); 4] = [
    (
        "finished-call",
        "content",
        "Parts",
        "Content of the result: a text, or a list of parts.",
    ),
    (
        "slice",
        "messages",
        "Vec<Message>",
        "Messages in order, oldest first.",
    ),
    (
        "wire-request",
        "body",
        "Value",
        "Body of the request, in the provider's own format.",
    ),
    (
        "wire-response",
        "body",
        "String",
        "Body of the answer, as it came over the wire.",
    ),
];

/// Functions of handles that are no fields: sizes, and parts of what [`READ_IN_PARTS`] has.
const NO_FIELDS: [&str; 4] = ["len", "size", "message", "part"];

/// Handle whose payload is a plain list of messages.
const CONVERSATION: &str = "conversation";

/// Enums of `types.wit` that events name. Those of `payloads.wit` are all in the table.
const NAMED_TYPES: [&str; 1] = ["level"];

pub(super) fn files(contract: &Contract) -> Vec<(String, String)> {
    let mut table = PAYLOADS.to_owned();
    table.push_str(OPEN);
    for ty in types_of(contract, "payloads") {
        if let TypeDefKind::Record(record) = &ty.kind {
            let rows = record.fields.iter().map(|field| Row {
                docs: text(&field.docs).to_owned(),
                name: snake_case(&field.name),
                ty: rust_type(contract, &field.ty),
            });
            write_record(&mut table, ty, &rows.collect::<Vec<_>>());
        }
    }
    table.push_str(CLOSE);
    table.push_str(HANDLES);
    table.push_str(OPEN);
    let handles = contract.interface(contract.interfaces()["handles"]);
    for id in handles.types.values() {
        let ty = contract.ty(*id);
        if matches!(ty.kind, TypeDefKind::Resource) && ty.name.as_deref() != Some(CONVERSATION) {
            let functions = handles.functions.values();
            let rows = functions.filter_map(|function| handle_row(contract, *id, function));
            write_record(&mut table, ty, &rows.collect::<Vec<_>>());
        }
    }
    table.push_str(CLOSE);
    vec![
        ("wit/payloads.in".to_owned(), table),
        ("wit/enums.in".to_owned(), enums(contract)),
    ]
}

/// Field of a record or of a handle, as the tables have it.
struct Row {
    docs: String,
    name: String,
    ty: String,
}

fn types_of<'a>(contract: &'a Contract, interface: &str) -> impl Iterator<Item = &'a TypeDef> {
    let interface = contract.interface(contract.interfaces()[interface]);
    interface.types.values().map(|id| contract.ty(*id))
}

/// Returns the field that a function of the handle `handle` gives; `None` if it gives none.
fn handle_row(contract: &Contract, handle: TypeId, function: &Function) -> Option<Row> {
    let FunctionKind::Method(of) = function.kind else {
        panic!("{} is no method", function.name);
    };
    let name = function.item_name();
    if of != handle || NO_FIELDS.contains(&name) {
        return None;
    }
    let resource = contract.ty(handle).name.as_deref().unwrap_or_default();
    let whole = READ_IN_PARTS
        .iter()
        .find(|(of, field, ..)| (*of, *field) == (resource, name));
    let (docs, ty) = match whole {
        Some((_, _, ty, docs)) => ((*docs).to_owned(), (*ty).to_owned()),
        None => {
            // `self` is the only parameter.
            let is_getter = function.params.len() == 1;
            assert!(is_getter, "{resource}: say what `{name}` gives as a whole");
            let ty = rust_type(contract, function.result.as_ref().unwrap());
            (text(&function.docs).to_owned(), ty)
        }
    };
    Some(Row {
        docs,
        name: snake_case(name),
        ty,
    })
}

fn write_record(table: &mut String, ty: &TypeDef, rows: &[Row]) {
    let fields: Vec<&str> = rows.iter().map(|row| &*row.name).collect();
    write_docs(table, 12, text(&ty.docs), &fields);
    let _ = writeln!(table, "            {} {{", pascal_case(name_of(ty)));
    for Row { docs, name, ty } in rows {
        write_docs(table, 16, docs, &fields);
        let name = match &**name {
            "where" | "type" | "use" => format!("{name}_ as \"{name}\""),
            name => name.to_owned(),
        };
        let _ = writeln!(table, "                {name}: {ty},");
    }
    table.push_str("            }\n");
}

fn enums(contract: &Contract) -> String {
    let mut table = format!("{ENUMS}{OPEN}");
    for interface in ["payloads", "types"] {
        for ty in types_of(contract, interface) {
            let TypeDefKind::Enum(cases) = &ty.kind else {
                continue;
            };
            if interface == "types" && !NAMED_TYPES.contains(&name_of(ty)) {
                continue;
            }
            write_docs(&mut table, 12, text(&ty.docs), &[]);
            let name = pascal_case(name_of(ty));
            let _ = writeln!(table, "            {interface}::{name} {{");
            for case in &cases.cases {
                write_docs(&mut table, 16, text(&case.docs), &[]);
                let _ = writeln!(table, "                {},", pascal_case(&case.name));
            }
            table.push_str("            }\n");
        }
    }
    table + CLOSE
}

fn name_of(ty: &TypeDef) -> &str {
    ty.name.as_deref().unwrap_or_default()
}

/// Adds docs as one line, rewritten for JSON: `none` becomes `null`, and names of the record's
/// `fields`, which have the case of Rust here, are written in it.
fn write_docs(table: &mut String, indent: usize, docs: &str, fields: &[&str]) {
    let mut words = docs.split_whitespace().peekable();
    let mut line = Vec::new();
    while let Some(word) = words.next() {
        line.push(match word {
            // Except in phrases such as `none of it`.
            "none" if words.peek() != Some(&"of") => "null".to_owned(),
            "None" => "Null".to_owned(),
            word => match word.split('`').nth(1) {
                Some(name) if fields.contains(&&*snake_case(name)) => {
                    word.replace(name, &snake_case(name))
                }
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
            let name = || pascal_case(name_of(ty));
            match &ty.kind {
                TypeDefKind::Option(some) => format!("Option<{}>", rust_type(contract, some)),
                TypeDefKind::List(item) => format!("Vec<{}>", rust_type(contract, item)),
                // A type from another interface: only the payloads are in the host's `payload`.
                TypeDefKind::Type(Type::Id(of)) if is_payload(contract, *of) => {
                    format!("p::{}", name())
                }
                TypeDefKind::Type(_) => name(),
                _ => format!("p::{}", name()),
            }
        }
        number => format!("{number:?}").to_lowercase(),
    }
}

/// Whether the type is declared in `payloads.wit`.
fn is_payload(contract: &Contract, id: TypeId) -> bool {
    contract.ty(id).owner == TypeOwner::Interface(contract.interfaces()["payloads"])
}

//! Generates the modules of the JavaScript SDK: for each point a function that fills in the omitted
//! fields of an outcome, and for each import a module.

use std::fmt::Write;

use wit_parser::{Type, TypeDefKind, TypeId};

use super::{Contract, camel_case};

const HEAD: &str = "// Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.\n";

pub(super) fn files(contract: &Contract) -> Vec<(String, String)> {
    let mut files = vec![("sdk/js/src/hooks.js".to_owned(), hooks(contract))];
    for import in contract.imports() {
        let interface = contract.interface(contract.interfaces()[import]);
        let names = interface.functions.keys().map(|name| camel_case(name));
        let names = names.collect::<Vec<_>>().join(", ");
        let path = format!("rind:plugin/{import}@{}", contract.version);
        files.push((
            format!("sdk/js/src/{import}.js"),
            format!("{HEAD}export {{ {names} }} from \"{path}\";\n"),
        ));
        files.push((
            format!("sdk/js/types/{import}.d.ts"),
            format!(
                "{HEAD}/// <reference path=\"./contract.d.ts\" />\nexport * from \"{path}\";\n"
            ),
        ));
    }
    files
}

fn hooks(contract: &Contract) -> String {
    let mut out = HEAD.to_owned();
    out += "import { hook } from \"./hook.js\";\n\nexport const hooks = {\n";
    for point in contract.points() {
        let (outcome, _) = contract.hook(point);
        let empty = empty(contract, outcome);
        writeln!(
            out,
            "  {}: (run) => hook(run, () => ({empty})),",
            camel_case(point)
        )
        .unwrap();
    }
    out + "};\n"
}

/// Returns the expression for an outcome that changes nothing.
fn empty(contract: &Contract, outcome: TypeId) -> String {
    let TypeDefKind::Record(record) = &contract.ty(outcome).kind else {
        panic!("an outcome is a record");
    };
    let fields = record.fields.iter().filter_map(|field| {
        let value = neutral(contract, &field.ty)?;
        Some(format!("{}: {value}", camel_case(&field.name)))
    });
    format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
}

/// Returns the value with which a field changes nothing, or `None` if the field can be omitted for
/// that.
fn neutral(contract: &Contract, ty: &Type) -> Option<String> {
    let Type::Id(id) = ty else {
        return Some("0".to_owned());
    };
    match &contract.ty(contract.target(*id)).kind {
        TypeDefKind::Option(_) => None,
        TypeDefKind::List(_) => Some("[]".to_owned()),
        // The first case is the one that changes nothing.
        TypeDefKind::Variant(variant) => {
            assert!(variant.cases[0].ty.is_none(), "the first case has no value");
            Some(format!("{{ tag: \"{}\" }}", variant.cases[0].name))
        }
        other => panic!("{} has no neutral value", other.as_str()),
    }
}

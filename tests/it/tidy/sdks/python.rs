//! Generates the modules of the Python SDK: for each outcome a function that fills in the omitted
//! fields, and for each import a module. The type stubs beside them are made by componentize-py,
//! see `sdk/python/generate`.

use std::collections::BTreeSet;
use std::fmt::Write;

use wit_parser::{Type, TypeDefKind, TypeId};

use super::{Contract, first_sentence, pascal_case, snake_case, text};

const HEAD: &str = "# Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.\n";

pub(super) fn files(contract: &Contract) -> Vec<(String, String)> {
    let mut files = vec![(
        "sdk/python/rind_sdk/outcome.py".to_owned(),
        outcomes(contract),
    )];
    for import in contract.imports() {
        let module = snake_case(import);
        let interface = contract.interface(contract.interfaces()[import]);
        let about = first_sentence(text(&interface.docs));
        files.push((
            format!("sdk/python/rind_sdk/{module}.py"),
            format!("{HEAD}\"\"\"{about}\"\"\"\nfrom wit_world.imports.{module} import *  # noqa: F403\n"),
        ));
    }
    files
}

fn outcomes(contract: &Contract) -> String {
    let mut out = HEAD.to_owned();
    out += "\"\"\"Outcomes of hooks. Fields that are left out change nothing.\"\"\"\n\nfrom wit_world.imports import outcomes as _outcomes\n";
    let outcomes: BTreeSet<TypeId> = contract
        .points()
        .iter()
        .map(|point| contract.hook(point).0)
        .collect();
    for outcome in outcomes {
        let def = contract.ty(outcome);
        let name = def.name.as_deref().unwrap();
        let TypeDefKind::Record(record) = &def.kind else {
            panic!("{name} is a record");
        };
        let params = record
            .fields
            .iter()
            .map(|field| format!("{}=None", snake_case(&field.name)));
        let params = params.collect::<Vec<_>>().join(", ");
        let values = record.fields.iter().map(|field| {
            let field_name = snake_case(&field.name);
            let value = match neutral(contract, &field.ty) {
                None => field_name.clone(),
                Some(value) => format!("{value} if {field_name} is None else {field_name}"),
            };
            format!("        {field_name}={value},\n")
        });
        let values: String = values.collect();
        let class = pascal_case(name);
        let about = text(&def.docs).lines().next().unwrap_or_default();
        let function = snake_case(name.trim_end_matches("-outcome"));
        write!(
            out,
            "\n\ndef {function}({params}) -> _outcomes.{class}:\n    \"\"\"{about}\"\"\"\n    return _outcomes.{class}(\n{values}    )\n"
        )
        .unwrap();
    }
    out
}

/// Returns the value with which a field changes nothing, or `None` if the field can be omitted for
/// that.
fn neutral(contract: &Contract, ty: &Type) -> Option<String> {
    let Type::Id(id) = ty else {
        return Some("0".to_owned());
    };
    let def = contract.ty(contract.target(*id));
    match &def.kind {
        TypeDefKind::Option(_) => None,
        TypeDefKind::List(_) => Some("[]".to_owned()),
        TypeDefKind::Variant(variant) => {
            let (class, case) = (def.name.as_deref().unwrap(), &variant.cases[0].name);
            Some(format!(
                "_outcomes.{}_{}()",
                pascal_case(class),
                pascal_case(case)
            ))
        }
        other => panic!("{} has no neutral value", other.as_str()),
    }
}

//! Generates the types that exports of plugins return and that functions of the host take. `rind
//! plugin build` needs them for the entry that it adds to modules in JavaScript and Python.

use serde_json::{Map, Value, json};
use wit_parser::{Function, FunctionKind, Type, TypeDefKind, TypeId};

use super::{Contract, OTHERS};

/// Path of the generated file.
const FILE: &str = "host/crates/author/src/guest/shapes.json";

pub(super) fn files(contract: &Contract) -> Vec<(String, String)> {
    let mut types = Map::new();
    let mut results = Map::new();
    for export in contract.points().into_iter().chain(OTHERS) {
        let interface = contract.interface(contract.interfaces()[export]);
        let methods = interface.functions.iter().map(|(name, function)| {
            let result = function.result.expect("every export returns something");
            (name.clone(), returned(contract, result, &mut types))
        });
        results.insert(export.to_owned(), Value::Object(methods.collect()));
    }
    let mut imports = Map::new();
    for import in contract.imports() {
        let functions = &contract.interface(contract.interfaces()[import]).functions;
        let functions = functions.iter().map(|(name, function)| {
            assert!(matches!(function.kind, FunctionKind::Freestanding));
            (name.clone(), parameters(contract, function, 0, &mut types))
        });
        imports.insert(import.to_owned(), Value::Object(functions.collect()));
    }
    let mut methods = Map::new();
    let handles = contract.interface(contract.interfaces()["handles"]);
    for function in handles.functions.values() {
        let taken = parameters(contract, function, 1, &mut types);
        if taken != json!([]) {
            let name = function.name.rsplit('.').next().unwrap().to_owned();
            let known = methods.insert(name, taken.clone());
            assert!(
                known.is_none_or(|known| known == taken),
                "entries have no room for two"
            );
        }
    }
    types.sort_keys();
    let shapes =
        json!({ "imports": imports, "methods": methods, "results": results, "types": types });
    let text = serde_json::to_string_pretty(&shapes).unwrap() + "\n";
    vec![(FILE.to_owned(), text)]
}

/// Returns the names and types of a function's parameters, without the first `skip`.
fn parameters(
    contract: &Contract,
    function: &Function,
    skip: usize,
    types: &mut Map<String, Value>,
) -> Value {
    let params = function.params.iter().skip(skip);
    params
        .map(|param| json!([param.name, described(contract, &param.ty, types)]))
        .collect()
}

/// Returns the type of a function's result on success. It is null for a function that cannot fail,
/// which is called while a plugin is loaded.
fn returned(contract: &Contract, result: Type, types: &mut Map<String, Value>) -> Value {
    let Type::Id(id) = result else {
        return Value::Null;
    };
    match &contract.ty(contract.target(id)).kind {
        TypeDefKind::Result(result) => {
            let ok = result.ok.map(|ok| described(contract, &ok, types));
            ok.unwrap_or(Value::Null)
        }
        _ => Value::Null,
    }
}

/// Adds a type and the types in it to `types`, and returns its name.
fn described(contract: &Contract, ty: &Type, types: &mut Map<String, Value>) -> Value {
    let id = match ty {
        Type::Id(id) => contract.target(*id),
        Type::String => return json!("string"),
        Type::Bool => return json!("bool"),
        Type::U8 => return json!("u8"),
        Type::U16 => return json!("u16"),
        Type::U32 => return json!("u32"),
        Type::U64 => return json!("u64"),
        Type::F64 => return json!("f64"),
        other => panic!("{other:?} has no description"),
    };
    let def = contract.ty(id);
    let (kind, parts): (&str, Vec<(&str, Option<Type>)>) = match &def.kind {
        TypeDefKind::Option(inner) => {
            return json!({ "option": described(contract, inner, types) });
        }
        TypeDefKind::List(inner) => return json!({ "list": described(contract, inner, types) }),
        TypeDefKind::Type(inner) => return described(contract, inner, types),
        TypeDefKind::Record(record) => {
            let fields = record.fields.iter();
            let fields = fields.map(|field| (field.name.as_str(), Some(field.ty)));
            ("record", fields.collect())
        }
        TypeDefKind::Variant(variant) => {
            let cases = variant.cases.iter();
            (
                "variant",
                cases.map(|case| (case.name.as_str(), case.ty)).collect(),
            )
        }
        TypeDefKind::Enum(all) => {
            let cases = all.cases.iter();
            (
                "enum",
                cases.map(|case| (case.name.as_str(), None)).collect(),
            )
        }
        other => panic!("{} has no description", other.as_str()),
    };
    name_type(contract, id, kind, &parts, types)
}

fn name_type(
    contract: &Contract,
    id: TypeId,
    kind: &str,
    parts: &[(&str, Option<Type>)],
    types: &mut Map<String, Value>,
) -> Value {
    let name = contract.ty(id).name.clone().unwrap();
    let parts = parts.iter().map(|(part, ty)| {
        let ty = ty.map(|ty| described(contract, &ty, types));
        ((*part).to_owned(), ty.unwrap_or_default())
    });
    let shape = json!({ "kind": kind, "parts": Value::Object(parts.collect()) });
    let known = types.insert(name.clone(), shape.clone());
    assert!(
        known.is_none_or(|known| known == shape),
        "{name} is there twice"
    );
    json!(name)
}

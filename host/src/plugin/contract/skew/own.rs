//! Reads the contract's types out of the WIT files embedded in the program.

use wit_parser::{Handle, Resolve, SourceMap, Type, TypeDefKind};

use super::super::list_contract_files;
use super::{ContractInterface, ContractInterfaces, NamedWitType};

/// Parses the embedded contract. Returns no interfaces if parsing fails; a test ensures that
/// parsing succeeds.
pub(super) fn read_host_interfaces() -> ContractInterfaces {
    let mut map = SourceMap::default();
    for (name, text) in list_contract_files() {
        if name.ends_with(".wit") {
            map.push_str(name, text);
        }
    }
    let mut resolve = Resolve::default();
    let parsed = map.parse().ok();
    let Some(package) = parsed.and_then(|group| resolve.push_group(group).ok()) else {
        return ContractInterfaces::new();
    };
    let interfaces = resolve.packages[package].interfaces.iter();
    interfaces
        .map(|(name, id)| {
            let own = &resolve.interfaces[*id];
            let functions = own.functions.iter().map(|(name, function)| {
                let params = function
                    .params
                    .iter()
                    .map(|param| format_type(&resolve, &param.ty));
                let params: Vec<String> = params.collect();
                let result = format_optional_type(&resolve, function.result.as_ref());
                (name.clone(), format!("({}) -> {result}", params.join(", ")))
            });
            let types = own.types.iter().map(|(name, id)| {
                let (kind, parts) = type_kind_and_members(&resolve, &Type::Id(*id));
                let text = format_type(&resolve, &Type::Id(*id));
                (name.clone(), NamedWitType { kind, parts, text })
            });
            let interface = ContractInterface {
                functions: functions.collect(),
                types: types.collect(),
            };
            (name.clone(), interface)
        })
        .collect()
}

fn type_kind_and_members(resolve: &Resolve, ty: &Type) -> (&'static str, Vec<String>) {
    let Type::Id(id) = ty else {
        return ("type", Vec::new());
    };
    match &resolve.types[*id].kind {
        TypeDefKind::Type(other) => type_kind_and_members(resolve, other),
        TypeDefKind::Record(record) => (
            "record",
            record
                .fields
                .iter()
                .map(|field| field.name.clone())
                .collect(),
        ),
        TypeDefKind::Variant(variant) => (
            "variant",
            variant.cases.iter().map(|case| case.name.clone()).collect(),
        ),
        TypeDefKind::Enum(cases) => (
            "enum",
            cases.cases.iter().map(|case| case.name.clone()).collect(),
        ),
        TypeDefKind::Flags(flags) => (
            "flags",
            flags.flags.iter().map(|flag| flag.name.clone()).collect(),
        ),
        _ => ("type", Vec::new()),
    }
}

fn format_optional_type(resolve: &Resolve, ty: Option<&Type>) -> String {
    ty.map_or_else(|| "_".to_owned(), |ty| format_type(resolve, ty))
}

/// Returns the text of a type in the format that `guest` uses for the types of a component.
fn format_type(resolve: &Resolve, ty: &Type) -> String {
    let id = match ty {
        Type::Id(id) => *id,
        Type::ErrorContext => return "error-context".to_owned(),
        plain => return format!("{plain:?}").to_lowercase(),
    };
    let of = |ty: &Type| format_type(resolve, ty);
    match &resolve.types[id].kind {
        TypeDefKind::Type(other) => of(other),
        TypeDefKind::Record(record) => {
            let fields = record.fields.iter();
            let fields: Vec<String> = fields
                .map(|field| format!("{}: {}", field.name, of(&field.ty)))
                .collect();
            format!("record {{{}}}", fields.join(", "))
        }
        TypeDefKind::Variant(variant) => {
            let cases = variant.cases.iter();
            let cases: Vec<String> = cases
                .map(|case| {
                    format!(
                        "{}({})",
                        case.name,
                        format_optional_type(resolve, case.ty.as_ref())
                    )
                })
                .collect();
            format!("variant {{{}}}", cases.join(", "))
        }
        TypeDefKind::List(element) => format!("list<{}>", of(element)),
        TypeDefKind::Tuple(tuple) => {
            let types: Vec<String> = tuple.types.iter().map(of).collect();
            format!("tuple<{}>", types.join(", "))
        }
        TypeDefKind::Flags(_) | TypeDefKind::Enum(_) => {
            let (kind, names) = type_kind_and_members(resolve, ty);
            format!("{kind} {{{}}}", names.join(", "))
        }
        TypeDefKind::Option(ty) => format!("option<{}>", of(ty)),
        TypeDefKind::Result(result) => format!(
            "result<{}, {}>",
            format_optional_type(resolve, result.ok.as_ref()),
            format_optional_type(resolve, result.err.as_ref())
        ),
        TypeDefKind::Handle(Handle::Own(_)) => "own".to_owned(),
        TypeDefKind::Handle(Handle::Borrow(_)) => "borrow".to_owned(),
        TypeDefKind::Resource => "own".to_owned(),
        _ => "other".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contract_that_is_carried_can_be_read() {
        let interfaces = read_host_interfaces();
        let types = &interfaces["payloads"].types;
        assert_eq!(types["proposed-call"].kind, "record");
        assert!(
            types["proposed-call"]
                .parts
                .contains(&"effect-class".to_owned()),
            "{types:?}"
        );
        assert!(interfaces["pre-tool"].functions.contains_key("run"));
    }
}

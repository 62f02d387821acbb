//! Reads the contract's types out of a component's bytes.

use std::collections::BTreeMap;

use wasmparser::component_types::{
    ComponentAnyTypeId, ComponentDefinedType, ComponentDefinedTypeId, ComponentEntityType,
    ComponentValType,
};
use wasmparser::types::Types;
use wasmparser::{Parser, Payload, PrimitiveValType, Validator, WasmFeatures};

use super::super::{is_compatible_with_current_contract, split_interface_name};
use super::{ContractInterface, ContractInterfaces, NamedWitType};

/// Interfaces of the contract that a component imports or exports.
pub(super) struct ComponentContractInterfaces {
    pub(super) interfaces: ContractInterfaces,
    /// Full name of each interface, as the component spells it.
    pub(super) names: BTreeMap<String, String>,
}

/// Reads the interfaces of the contract that a component imports and exports; `None` if the bytes
/// are not a valid component.
pub(super) fn read_guest_interfaces(component: &[u8]) -> Option<ComponentContractInterfaces> {
    let mut validator = Validator::new_with_features(WasmFeatures::all());
    let types = validator.validate_all(component).ok()?;
    let mut guest = ComponentContractInterfaces {
        interfaces: ContractInterfaces::new(),
        names: BTreeMap::new(),
    };
    for (name, is_import) in list_import_and_export_names(component) {
        let Some((short, version)) = split_interface_name(&name) else {
            continue;
        };
        // An incompatible contract version has different types, which cannot be compared with the
        // current WIT files.
        if !is_compatible_with_current_contract(version) {
            continue;
        }
        let item = match is_import {
            true => types.component_item_for_import(&name),
            false => types.component_item_for_export(&name),
        };
        let Some(ComponentEntityType::Instance(id)) = item.map(|item| item.ty) else {
            continue;
        };
        let interface = guest.interfaces.entry(short.to_owned()).or_default();
        for (name, item) in &types[id].exports {
            add_guest_interface(&types, name, item.ty, interface);
        }
        guest.names.insert(short.to_owned(), name);
    }
    Some(guest)
}

/// Returns the names of the outermost imports and exports; `true` marks an import.
fn list_import_and_export_names(component: &[u8]) -> Vec<(String, bool)> {
    let (mut names, mut depth) = (Vec::new(), 0_usize);
    for payload in Parser::new(0).parse_all(component).map_while(Result::ok) {
        match payload {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 1 => {
                let imports = section.into_iter().flatten();
                names.extend(imports.map(|import| (import.name.name.to_owned(), true)));
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                let exports = section.into_iter().flatten();
                names.extend(exports.map(|export| (export.name.name.to_owned(), false)));
            }
            _ => {}
        }
    }
    names
}

fn add_guest_interface(
    types: &Types,
    name: &str,
    item: ComponentEntityType,
    interface: &mut ContractInterface,
) {
    match item {
        ComponentEntityType::Func(id) => {
            let function = &types[id];
            let params = function
                .params
                .iter()
                .map(|(_, ty)| format_type(types, *ty));
            let params: Vec<String> = params.collect();
            let result = format_optional_type(types, function.result);
            let text = format!("({}) -> {result}", params.join(", "));
            interface.functions.insert(name.to_owned(), text);
        }
        ComponentEntityType::Type {
            referenced: ComponentAnyTypeId::Defined(id),
            ..
        } => {
            let (kind, parts) = type_kind_and_members(&types[id]);
            let named = NamedWitType {
                kind,
                parts,
                text: format_defined_type(types, id),
            };
            interface.types.insert(name.to_owned(), named);
        }
        _ => {}
    }
}

fn type_kind_and_members(ty: &ComponentDefinedType) -> (&'static str, Vec<String>) {
    match ty {
        ComponentDefinedType::Record(record) => (
            "record",
            record.fields.keys().map(ToString::to_string).collect(),
        ),
        ComponentDefinedType::Variant(variant) => (
            "variant",
            variant.cases.keys().map(ToString::to_string).collect(),
        ),
        ComponentDefinedType::Enum(cases) => {
            ("enum", cases.iter().map(ToString::to_string).collect())
        }
        ComponentDefinedType::Flags(flags) => {
            ("flags", flags.iter().map(ToString::to_string).collect())
        }
        _ => ("type", Vec::new()),
    }
}

fn format_type(types: &Types, ty: ComponentValType) -> String {
    match ty {
        ComponentValType::Primitive(primitive) => format_primitive_type(primitive).to_owned(),
        ComponentValType::Type(id) => format_defined_type(types, id),
    }
}

fn format_optional_type(types: &Types, ty: Option<ComponentValType>) -> String {
    ty.map_or_else(|| "_".to_owned(), |ty| format_type(types, ty))
}

fn format_defined_type(types: &Types, id: ComponentDefinedTypeId) -> String {
    match &types[id] {
        ComponentDefinedType::Primitive(primitive) => format_primitive_type(*primitive).to_owned(),
        ComponentDefinedType::Record(record) => {
            let fields = record.fields.iter();
            let fields: Vec<String> = fields
                .map(|(name, ty)| format!("{name}: {}", format_type(types, *ty)))
                .collect();
            format!("record {{{}}}", fields.join(", "))
        }
        ComponentDefinedType::Variant(variant) => {
            let cases = variant.cases.iter();
            let cases: Vec<String> = cases
                .map(|(name, case)| format!("{name}({})", format_optional_type(types, case.ty)))
                .collect();
            format!("variant {{{}}}", cases.join(", "))
        }
        ComponentDefinedType::List { element, .. } => {
            format!("list<{}>", format_type(types, *element))
        }
        ComponentDefinedType::Tuple(tuple) => {
            let types: Vec<String> = tuple
                .types
                .iter()
                .map(|ty| format_type(types, *ty))
                .collect();
            format!("tuple<{}>", types.join(", "))
        }
        ComponentDefinedType::Flags(names) => {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            format!("flags {{{}}}", names.join(", "))
        }
        ComponentDefinedType::Enum(names) => {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            format!("enum {{{}}}", names.join(", "))
        }
        ComponentDefinedType::Option { ty, .. } => format!("option<{}>", format_type(types, *ty)),
        ComponentDefinedType::Result { ok, err, .. } => {
            format!(
                "result<{}, {}>",
                format_optional_type(types, *ok),
                format_optional_type(types, *err)
            )
        }
        ComponentDefinedType::Own(_) => "own".to_owned(),
        ComponentDefinedType::Borrow(_) => "borrow".to_owned(),
        _ => "other".to_owned(),
    }
}

fn format_primitive_type(ty: PrimitiveValType) -> &'static str {
    match ty {
        PrimitiveValType::Bool => "bool",
        PrimitiveValType::S8 => "s8",
        PrimitiveValType::U8 => "u8",
        PrimitiveValType::S16 => "s16",
        PrimitiveValType::U16 => "u16",
        PrimitiveValType::S32 => "s32",
        PrimitiveValType::U32 => "u32",
        PrimitiveValType::S64 => "s64",
        PrimitiveValType::U64 => "u64",
        PrimitiveValType::F32 => "f32",
        PrimitiveValType::F64 => "f64",
        PrimitiveValType::Char => "char",
        PrimitiveValType::String => "string",
        PrimitiveValType::ErrorContext => "error-context",
    }
}

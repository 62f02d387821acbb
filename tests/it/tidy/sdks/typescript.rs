//! Generates the types of the contract as TypeScript: one ambient module for each interface, with
//! the name that plugins import.

use std::fmt::Write;

use wit_parser::{
    Function, FunctionKind, Handle, InterfaceId, Type, TypeDefKind, TypeId, TypeOwner,
};

use super::{Contract, OTHERS, camel_case, pascal_case, text};

const HEAD: &str = "// Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.\n";

pub(super) fn files(contract: &Contract) -> Vec<(String, String)> {
    let mut ambient = HEAD.to_owned();
    for (name, id) in contract.interfaces() {
        module(contract, name, id, &mut ambient);
    }
    vec![
        ("sdk/js/types/contract.d.ts".to_owned(), ambient),
        ("sdk/js/types/hooks.d.ts".to_owned(), hooks(contract)),
    ]
}

fn docs(out: &mut String, indent: &str, text: &str) {
    if text.is_empty() {
        return;
    }
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    match lines.as_slice() {
        [line] => writeln!(out, "{indent}/** {line} */").unwrap(),
        lines => {
            writeln!(out, "{indent}/**").unwrap();
            for line in lines {
                writeln!(out, "{}", format!("{indent} * {line}").trim_end()).unwrap();
            }
            writeln!(out, "{indent} */").unwrap();
        }
    }
}

fn module(contract: &Contract, name: &str, id: InterfaceId, out: &mut String) {
    let interface = contract.interface(id);
    out.push('\n');
    docs(out, "", text(&interface.docs));
    let path = |name: &str| format!("rind:plugin/{name}@{}", contract.version);
    writeln!(out, "declare module \"{}\" {{", path(name)).unwrap();
    for (name, id) in &interface.types {
        let ty = contract.ty(*id);
        if let TypeDefKind::Type(Type::Id(used)) = ty.kind {
            let used = contract.ty(used);
            let TypeOwner::Interface(owner) = used.owner else {
                continue;
            };
            let from = contract.interface(owner).name.as_deref().unwrap();
            let (there, here) = (
                pascal_case(used.name.as_deref().unwrap()),
                pascal_case(name),
            );
            let name = if there == here {
                here
            } else {
                format!("{there} as {here}")
            };
            writeln!(out, "  import type {{ {name} }} from \"{}\";", path(from)).unwrap();
            continue;
        }
        docs(out, "  ", text(&ty.docs));
        let name = pascal_case(name);
        match &ty.kind {
            TypeDefKind::Record(record) => {
                writeln!(out, "  export interface {name} {{").unwrap();
                for field in &record.fields {
                    docs(out, "    ", text(&field.docs));
                    let (mark, ty) = match optional(contract, &field.ty) {
                        Some(inner) => ("?", of(contract, &inner)),
                        None => ("", of(contract, &field.ty)),
                    };
                    writeln!(out, "    {}{mark}: {ty};", camel_case(&field.name)).unwrap();
                }
                writeln!(out, "  }}").unwrap();
            }
            TypeDefKind::Variant(variant) => {
                writeln!(out, "  export type {name} =").unwrap();
                for (at, case) in variant.cases.iter().enumerate() {
                    docs(out, "    ", text(&case.docs));
                    let val = case.ty.map(|ty| format!(", val: {}", of(contract, &ty)));
                    let end = if at + 1 == variant.cases.len() {
                        ";"
                    } else {
                        ""
                    };
                    let val = val.unwrap_or_default();
                    writeln!(out, "    | {{ tag: \"{}\"{val} }}{end}", case.name).unwrap();
                }
            }
            TypeDefKind::Enum(cases) => {
                let names = cases.cases.iter().map(|case| format!("\"{}\"", case.name));
                let names = names.collect::<Vec<_>>().join(" | ");
                writeln!(out, "  export type {name} = {names};").unwrap();
            }
            TypeDefKind::Resource => {
                writeln!(out, "  export class {name} {{").unwrap();
                writeln!(out, "    private constructor();").unwrap();
                let methods = interface.functions.values();
                for method in
                    methods.filter(|f| matches!(f.kind, FunctionKind::Method(of) if of == *id))
                {
                    docs(out, "    ", text(&method.docs));
                    let own = method.name.rsplit('.').next().unwrap();
                    writeln!(
                        out,
                        "    {}{};",
                        camel_case(own),
                        signature(contract, method, 1)
                    )
                    .unwrap();
                }
                writeln!(out, "  }}").unwrap();
            }
            other => panic!("{name}: {} is not known here", other.as_str()),
        }
    }
    for (name, function) in &interface.functions {
        if !matches!(function.kind, FunctionKind::Freestanding) {
            continue;
        }
        docs(out, "  ", text(&function.docs));
        writeln!(
            out,
            "  export function {}{};",
            camel_case(name),
            signature(contract, function, 0)
        )
        .unwrap();
    }
    writeln!(out, "}}").unwrap();
}

/// Words that cannot be names of parameters in a module (ECMA-262, "Keywords and Reserved Words").
const RESERVED: &str = "arguments await break case catch class const continue debugger default delete do else enum eval export extends \
    false finally for function if implements import in instanceof interface let new null package private protected public return \
    static super switch this throw true try typeof var void while with yield";

fn signature(contract: &Contract, function: &Function, skip: usize) -> String {
    let params = function.params.iter().skip(skip);
    let params = params.map(|param| {
        let name = camel_case(&param.name);
        let is_reserved = RESERVED.split(' ').any(|word| word == name);
        let mark = if is_reserved { "_" } else { "" };
        format!("{name}{mark}: {}", of(contract, &param.ty))
    });
    let params = params.collect::<Vec<_>>().join(", ");
    let result = function
        .result
        .map_or("void".to_owned(), |ty| of(contract, &ty));
    format!("({params}): {result}")
}

fn optional(contract: &Contract, ty: &Type) -> Option<Type> {
    let Type::Id(id) = ty else { return None };
    match contract.ty(*id).kind {
        TypeDefKind::Option(inner) => Some(inner),
        _ => None,
    }
}

/// Returns the TypeScript for a use of a type. A result becomes its success type, because errors
/// are thrown.
fn of(contract: &Contract, ty: &Type) -> String {
    let id: TypeId = match ty {
        Type::Id(id) => *id,
        Type::Bool => return "boolean".to_owned(),
        Type::String | Type::Char => return "string".to_owned(),
        // Numbers of 64 bits are `number` as well, because the engine does not use `bigint`.
        _ => return "number".to_owned(),
    };
    let def = contract.ty(id);
    if let Some(name) = &def.name {
        return pascal_case(name);
    }
    match &def.kind {
        TypeDefKind::Option(inner) => format!("{} | undefined", of(contract, inner)),
        TypeDefKind::List(Type::U8) => "Uint8Array".to_owned(),
        TypeDefKind::List(inner) => format!("Array<{}>", of(contract, inner)),
        TypeDefKind::Result(result) => result.ok.map_or("void".to_owned(), |ok| of(contract, &ok)),
        TypeDefKind::Handle(Handle::Own(id) | Handle::Borrow(id)) => of(contract, &Type::Id(*id)),
        other => panic!("{} is not known here", other.as_str()),
    }
}

/// Returns the type declarations for `hooks.js`.
fn hooks(contract: &Contract) -> String {
    let mut out = HEAD.to_owned();
    let path = |name: &str| format!("rind:plugin/{name}@{}", contract.version);
    out += "\n/// <reference path=\"./contract.d.ts\" />\n";
    for name in ["types", "payloads", "outcomes", "handles"] {
        writeln!(out, "import type * as {name} from \"{}\";", path(name)).unwrap();
    }
    out += "\n/** What a hook exports. */\nexport interface Hook<Payload, Outcome> {\n  run(payload: Payload): Outcome;\n}\n";
    out += "\n/** One function for each point; what it is given may leave fields out, and nothing changes nothing. */\nexport declare const hooks: {\n";
    for point in contract.points() {
        let (outcome, payload) = contract.hook(point);
        let interface = contract.interface(contract.interfaces()[point]);
        let first = text(&interface.docs)
            .split("\n\n")
            .take(2)
            .collect::<Vec<_>>()
            .join("\n\n");
        docs(&mut out, "  ", &first);
        let outcome = qualified(contract, &Type::Id(outcome));
        let payload = qualified(contract, &payload);
        writeln!(
            out,
            "  {}(run: (payload: {payload}) => Partial<{outcome}> | void): Hook<{payload}, {outcome}>;",
            camel_case(point)
        )
        .unwrap();
    }
    out += "};\n";
    let others = OTHERS
        .map(|name| format!("`{}`", camel_case(name)))
        .join(", ");
    writeln!(
        out,
        "\n// Further exports: {others}; their functions are in contract.d.ts."
    )
    .unwrap();
    out
}

/// Returns the TypeScript for a type, qualified with its module.
fn qualified(contract: &Contract, ty: &Type) -> String {
    let Type::Id(id) = ty else {
        return of(contract, ty);
    };
    let id = contract.target(*id);
    let def = contract.ty(id);
    match (&def.kind, &def.name, def.owner) {
        (_, Some(name), TypeOwner::Interface(owner)) => {
            let module = contract.interface(owner).name.as_deref().unwrap();
            format!("{module}.{}", pascal_case(name))
        }
        (TypeDefKind::List(inner), ..) => format!("Array<{}>", qualified(contract, inner)),
        (TypeDefKind::Handle(Handle::Own(id) | Handle::Borrow(id)), ..) => {
            qualified(contract, &Type::Id(*id))
        }
        _ => of(contract, ty),
    }
}

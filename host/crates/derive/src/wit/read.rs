//! Parses WIT with the parser that wasmtime's macros also use. The parser cannot be interrupted,
//! so untrusted text is parsed in a separate process that can be killed. The input is therefore
//! plain text, which can be sent to that process.

use std::collections::BTreeMap;

use wasmparser::{ComponentExternalKind, ComponentTypeRef, Parser, Payload};
use wit_parser::decoding::{DecodedWasm, decode};
use wit_parser::{
    Docs, Function, FunctionKind, Handle, InterfaceId, PackageId, Resolve, SourceMap, Type,
    TypeDef, TypeDefKind, TypeId, TypeOwner, UnresolvedPackageGroup, World, WorldId, WorldItem,
    WorldKey,
};

use super::{WitFiles, WitInterfaceOutline, WitItemOutline, WitPackageOutline, WitWorldOutline};

/// Parses a package.
///
/// # Errors
/// The files are not valid WIT, or refer to a package that is not among them.
pub(crate) fn read_package(files: &WitFiles) -> Result<WitPackageOutline, String> {
    let main = parse_wit_package_group(&files.main)?;
    let dependencies: Result<Vec<_>, String> = files
        .dependencies
        .iter()
        .map(|files| parse_wit_package_group(files))
        .collect();
    let mut resolve = Resolve::default();
    let id = resolve
        .push_groups(main, dependencies?)
        .map_err(|error| error.to_string())?;
    let reader = WitOutlineReader {
        resolve: &resolve,
        own: Some(id),
    };
    let package = &resolve.packages[id];
    let mut interfaces: Vec<WitInterfaceOutline> = package
        .interfaces
        .values()
        .map(|id| reader.outline_interface(*id))
        .collect();
    interfaces.sort_by(|a, b| a.name.cmp(&b.name));
    let mut worlds: Vec<WitWorldOutline> = package
        .worlds
        .values()
        .map(|id| reader.outline_world(*id))
        .collect();
    worlds.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(WitPackageOutline {
        name: format!("{}:{}", package.name.namespace, package.name.name),
        version: package.name.version.as_ref().map(ToString::to_string),
        is_component: false,
        docs: docs_text(&package.docs),
        worlds,
        interfaces,
    })
}

/// Reads the world of a component from its bytes, without running it.
///
/// # Errors
/// The bytes are not a component.
pub(crate) fn outline_component_world(
    name: &str,
    bytes: &[u8],
) -> Result<WitPackageOutline, String> {
    check_world_names(bytes)?;
    let (resolve, id) = match decode(bytes).map_err(|error| format!("{error:#}"))? {
        DecodedWasm::Component(resolve, id) => (resolve, id),
        DecodedWasm::WitPackage(..) => {
            return Err(
                "the file is a binary WIT package: pass the folder with its `.wit` files"
                    .to_owned(),
            );
        }
    };
    let reader = WitOutlineReader {
        resolve: &resolve,
        own: None,
    };
    let world = &resolve.worlds[id];
    let exported = world.exports.values().filter_map(|item| match item {
        WorldItem::Interface { id, .. } => Some(*id),
        WorldItem::Function(_) | WorldItem::Type { .. } => None,
    });
    let mut interfaces: Vec<WitInterfaceOutline> =
        exported.map(|id| reader.outline_interface(id)).collect();
    interfaces.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(WitPackageOutline {
        name: name.to_owned(),
        version: None,
        is_component: true,
        docs: docs_text(&world.docs),
        worlds: vec![reader.outline_world(id)],
        interfaces,
    })
}

/// Checks that a WIT world can express the outermost imports and exports of a component. The parser
/// assumes that without a check, and panics if a function has the name of an interface, or if a
/// name is a URL, a digest or a dependency.
fn check_world_names(bytes: &[u8]) -> Result<(), String> {
    let refuse = |side: &str, name: &str| {
        let name = rind_lib::text::escape_and_truncate_line(name, 100);
        Err(format!(
            "it {side} `{name}` in a way that WIT cannot describe: a world has interfaces by the name of their package, and functions and \
             types by a plain name"
        ))
    };
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(|error| error.to_string())? {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    let import = import.map_err(|error| error.to_string())?;
                    let is_instance = matches!(import.ty, ComponentTypeRef::Instance(_));
                    if !is_expressible_in_wit(import.name.name, is_instance) {
                        return refuse("imports", import.name.name);
                    }
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    let export = export.map_err(|error| error.to_string())?;
                    let is_instance = export.kind == ComponentExternalKind::Instance;
                    if !is_expressible_in_wit(export.name.name, is_instance) {
                        return refuse("exports", export.name.name);
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether WIT can express an import or export: a plain name, or the name of an interface if it is
/// an instance.
fn is_expressible_in_wit(name: &str, is_instance: bool) -> bool {
    match name {
        // WIT has no syntax for the names `url=<…>`, `locked-dep=<…>` and `integrity=<…>`. Names of
        // resource functions begin with `[…]` and count as plain.
        name if name.contains(['=', '<']) => false,
        name if name.contains([':', '/']) => is_instance,
        _ => true,
    }
}

fn parse_wit_package_group(files: &[(String, String)]) -> Result<UnresolvedPackageGroup, String> {
    let mut map = SourceMap::default();
    for (path, text) in files {
        map.push_str(path, text.as_str());
    }
    map.parse().map_err(|(map, error)| error.render(&map))
}

fn docs_text(docs: &Docs) -> String {
    docs.contents.clone().unwrap_or_default()
}

struct WitOutlineReader<'a> {
    resolve: &'a Resolve,
    /// Package whose interfaces are written without the prefix of a package.
    own: Option<PackageId>,
}

impl WitOutlineReader<'_> {
    fn outline_world(&self, id: WorldId) -> WitWorldOutline {
        let world: &World = &self.resolve.worlds[id];
        let names = |items: &mut dyn Iterator<Item = (&WorldKey, &WorldItem)>| {
            let mut names: Vec<String> = items
                .map(|(key, item)| self.render_world_item(key, item))
                .collect();
            names.sort();
            names
        };
        WitWorldOutline {
            name: world.name.clone(),
            docs: docs_text(&world.docs),
            imports: names(&mut world.imports.iter()),
            exports: names(&mut world.exports.iter()),
        }
    }

    fn render_world_item(&self, key: &WorldKey, item: &WorldItem) -> String {
        let name = match key {
            WorldKey::Name(name) => name.clone(),
            WorldKey::Interface(id) => self.interface_name(*id),
        };
        match item {
            WorldItem::Interface { .. } => name,
            WorldItem::Function(function) => {
                format!("{name}: {}", self.render_signature(function, false))
            }
            WorldItem::Type { id, .. } => format!(
                "type {name} = {}",
                self.render_definition(&self.resolve.types[*id])
            ),
        }
    }

    /// Returns the name of an interface, prefixed with its package unless that is the package whose
    /// interfaces are rendered (`own`).
    fn interface_name(&self, id: InterfaceId) -> String {
        let interface = &self.resolve.interfaces[id];
        let name = interface.name.as_deref().unwrap_or("(inline)");
        match interface.package {
            Some(package) if Some(package) != self.own => {
                self.resolve.packages[package].name.interface_id(name)
            }
            _ => name.to_owned(),
        }
    }

    fn outline_interface(&self, id: InterfaceId) -> WitInterfaceOutline {
        let interface = &self.resolve.interfaces[id];
        let mut uses: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut types = Vec::new();
        for (name, id) in &interface.types {
            let ty = &self.resolve.types[*id];
            if let Some((from, original)) = self.find_imported_type(*id) {
                let shown = if original == *name {
                    name.clone()
                } else {
                    format!("{original} as {name}")
                };
                uses.entry(from).or_default().push(shown);
                continue;
            }
            types.push(WitItemOutline {
                name: name.clone(),
                docs: docs_text(&ty.docs),
                text: self.render_named_type(name, *id, interface.functions.values()),
            });
        }
        let functions = interface
            .functions
            .values()
            .filter(|function| function.kind.resource().is_none());
        let functions = functions.map(|function| WitItemOutline {
            name: function.name.clone(),
            docs: docs_text(&function.docs),
            text: format!(
                "{}: {};",
                function.name,
                self.render_signature(function, false)
            ),
        });
        WitInterfaceOutline {
            name: self.interface_name(id),
            docs: docs_text(&interface.docs),
            uses,
            functions: functions.collect(),
            types,
        }
    }

    /// Returns the interface from which a type is imported with `use`, and the type's name there.
    fn find_imported_type(&self, id: TypeId) -> Option<(String, String)> {
        let TypeDefKind::Type(Type::Id(target)) = self.resolve.types[id].kind else {
            return None;
        };
        let target = &self.resolve.types[target];
        let TypeOwner::Interface(owner) = target.owner else {
            return None;
        };
        if TypeOwner::Interface(owner) == self.resolve.types[id].owner {
            return None;
        }
        Some((
            self.interface_name(owner),
            target.name.clone().unwrap_or_default(),
        ))
    }

    fn render_named_type<'f>(
        &self,
        name: &str,
        id: TypeId,
        functions: impl Iterator<Item = &'f Function>,
    ) -> String {
        let ty = &self.resolve.types[id];
        let field = |docs_of: &Docs, text: String| {
            format!("{}    {text},\n", render_docs_comment(docs_of, 4))
        };
        let typed = |name: &str, ty: Option<&Type>| match ty {
            Some(ty) => format!("{name}({})", self.render_type(ty, 0)),
            None => name.to_owned(),
        };
        match &ty.kind {
            TypeDefKind::Record(record) => {
                let fields = record.fields.iter().map(|f| {
                    field(
                        &f.docs,
                        format!("{}: {}", f.name, self.render_type(&f.ty, 0)),
                    )
                });
                format!("record {name} {{\n{}}}", fields.collect::<String>())
            }
            TypeDefKind::Variant(variant) => {
                let cases = variant
                    .cases
                    .iter()
                    .map(|c| field(&c.docs, typed(&c.name, c.ty.as_ref())));
                format!("variant {name} {{\n{}}}", cases.collect::<String>())
            }
            TypeDefKind::Enum(one) => {
                let cases = one.cases.iter().map(|c| field(&c.docs, c.name.clone()));
                format!("enum {name} {{\n{}}}", cases.collect::<String>())
            }
            TypeDefKind::Flags(flags) => {
                let flags = flags.flags.iter().map(|f| field(&f.docs, f.name.clone()));
                format!("flags {name} {{\n{}}}", flags.collect::<String>())
            }
            TypeDefKind::Resource => {
                let own = functions.filter(|function| function.kind.resource() == Some(id));
                let own = own.map(|function| {
                    let name = match function.kind {
                        FunctionKind::Constructor(_) => String::new(),
                        _ => format!("{}: ", function.item_name()),
                    };
                    format!(
                        "{}    {name}{};\n",
                        render_docs_comment(&function.docs, 4),
                        self.render_signature(function, true)
                    )
                });
                let own: String = own.collect();
                match own.is_empty() {
                    true => format!("resource {name};"),
                    false => format!("resource {name} {{\n{own}}}"),
                }
            }
            _ => format!("type {name} = {};", self.render_definition(ty)),
        }
    }

    /// Formats the parameters and the result of a function. The receiver of a method is omitted.
    fn render_signature(&self, function: &Function, of_resource: bool) -> String {
        let is_method = matches!(
            function.kind,
            FunctionKind::Method(_) | FunctionKind::AsyncMethod(_)
        );
        let params = function
            .params
            .iter()
            .skip(usize::from(is_method && of_resource));
        let params: Vec<String> = params
            .map(|p| format!("{}: {}", p.name, self.render_type(&p.ty, 0)))
            .collect();
        let params = params.join(", ");
        let result = function
            .result
            .as_ref()
            .map(|ty| format!(" -> {}", self.render_type(ty, 0)));
        let result = result.unwrap_or_default();
        match function.kind {
            FunctionKind::Constructor(_) => format!("constructor({params})"),
            FunctionKind::Static(_) => format!("static func({params}){result}"),
            FunctionKind::AsyncStatic(_) => format!("static async func({params}){result}"),
            FunctionKind::AsyncFreestanding | FunctionKind::AsyncMethod(_) => {
                format!("async func({params}){result}")
            }
            FunctionKind::Freestanding | FunctionKind::Method(_) => {
                format!("func({params}){result}")
            }
        }
    }

    fn render_type(&self, ty: &Type, depth: usize) -> String {
        let name = match ty {
            Type::Bool => "bool",
            Type::U8 => "u8",
            Type::U16 => "u16",
            Type::U32 => "u32",
            Type::U64 => "u64",
            Type::S8 => "s8",
            Type::S16 => "s16",
            Type::S32 => "s32",
            Type::S64 => "s64",
            Type::F32 => "f32",
            Type::F64 => "f64",
            Type::Char => "char",
            Type::String => "string",
            Type::ErrorContext => "error-context",
            Type::Id(id) => {
                let ty = &self.resolve.types[*id];
                return match &ty.name {
                    Some(name) => name.clone(),
                    None => self.render_anonymous_type(ty, depth + 1),
                };
            }
        };
        name.to_owned()
    }

    /// Formats the definition of the type for which an alias stands.
    fn render_definition(&self, ty: &TypeDef) -> String {
        match &ty.kind {
            TypeDefKind::Record(_)
            | TypeDefKind::Variant(_)
            | TypeDefKind::Enum(_)
            | TypeDefKind::Flags(_) => ty.kind.as_str().to_owned(),
            _ => self.render_anonymous_type(ty, 0),
        }
    }

    fn render_anonymous_type(&self, ty: &TypeDef, depth: usize) -> String {
        // Stop at this depth: the parser allows a hundred levels in WIT, but a component may have
        // more.
        if depth > 120 {
            return "…".to_owned();
        }
        let inner = |ty: &Type| self.render_type(ty, depth);
        let optional = |ty: &Option<Type>| ty.as_ref().map_or_else(|| "_".to_owned(), inner);
        let name = |id: &TypeId| self.resolve.types[*id].name.clone().unwrap_or_default();
        match &ty.kind {
            TypeDefKind::Handle(Handle::Own(id)) => name(id),
            TypeDefKind::Handle(Handle::Borrow(id)) => format!("borrow<{}>", name(id)),
            TypeDefKind::Tuple(tuple) => {
                let types: Vec<String> = tuple.types.iter().map(inner).collect();
                format!("tuple<{}>", types.join(", "))
            }
            TypeDefKind::Option(ty) => format!("option<{}>", inner(ty)),
            TypeDefKind::Result(result) => match (&result.ok, &result.err) {
                (None, None) => "result".to_owned(),
                (ok, None) => format!("result<{}>", optional(ok)),
                (ok, err) => format!("result<{}, {}>", optional(ok), optional(err)),
            },
            TypeDefKind::List(ty) => format!("list<{}>", inner(ty)),
            TypeDefKind::FixedLengthList(ty, n) => format!("list<{}, {n}>", inner(ty)),
            TypeDefKind::Map(key, value) => format!("map<{}, {}>", inner(key), inner(value)),
            TypeDefKind::Future(None) => "future".to_owned(),
            TypeDefKind::Future(ty) => format!("future<{}>", optional(ty)),
            TypeDefKind::Stream(None) => "stream".to_owned(),
            TypeDefKind::Stream(ty) => format!("stream<{}>", optional(ty)),
            TypeDefKind::Type(ty) => inner(ty),
            other => other.as_str().to_owned(),
        }
    }
}

/// Formats documentation as a WIT comment, which is placed above an item.
fn render_docs_comment(docs: &Docs, indent: usize) -> String {
    let text = docs.contents.as_deref().unwrap_or_default().trim();
    let lines = text.lines().map(|line| {
        let line = format!("{}/// {}", " ".repeat(indent), line.trim());
        format!("{}\n", line.trim_end())
    });
    lines.collect()
}

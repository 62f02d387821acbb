//! Patches components whose compiler drops a borrowed handle too late.
//!
//! A guest must drop a borrowed handle before the hook returns. componentize-qjs drops it when the
//! host frees the result, which is after the return and therefore a trap. This module adds a
//! wrapper around each exported function that borrows a handle: the wrapper calls the function,
//! drops the handle and returns. The later drop of the compiler is redirected to a function that
//! does nothing.

use wasmparser::{BinaryReader, ElementItems, ElementKind, Parser, Payload, TypeRef};

use rind_lib::plugin::contract::contract_files;

/// Prefix of the import names of functions that drop a handle.
const DROP: &str = "[resource-drop]";

/// Ids of the sections that are read or changed: first two of components, then four of modules.
const CORE_MODULE: u8 = 1;
const COMPONENT: u8 = 4;
const FUNCTIONS: u8 = 3;
const EXPORTS: u8 = 7;
const ELEMENTS: u8 = 9;
const CODE: u8 = 10;

/// Length of the header before the first section, in bytes.
const HEADER_BYTES: usize = 8;

/// Maximum nesting of components; compilers produce two levels.
const MAX_DEPTH: u32 = 8;

/// Error about a component that does not have the structure that componentize-qjs produces.
#[derive(Debug, thiserror::Error)]
#[error("the component that the compiler made cannot be adapted: {0}")]
pub(super) struct LentError(String);

impl From<wasmparser::BinaryReaderError> for LentError {
    fn from(error: wasmparser::BinaryReaderError) -> Self {
        Self(error.to_string())
    }
}

/// Adds wrappers around those hooks in `exports` that borrow a handle.
pub(super) fn wrap_handle_hooks(
    component: Vec<u8>,
    exports: &[String],
) -> Result<Vec<u8>, LentError> {
    let lent: Vec<(&str, &str)> = exports
        .iter()
        .filter_map(|point| Some((point.as_str(), lent_to(point)?)))
        .collect();
    if lent.is_empty() {
        return Ok(component);
    }
    let mut n_wrapped = 0;
    let made = in_component(&component, &lent, MAX_DEPTH, &mut n_wrapped)?;
    if n_wrapped == lent.len() {
        return Ok(made);
    }
    Err(LentError(format!(
        "only {n_wrapped} of {} hooks with a handle were found",
        lent.len()
    )))
}

/// Returns the name in the contract of the handle that a hook borrows; `None` if the hook borrows
/// none.
fn lent_to(point: &str) -> Option<&'static str> {
    let file = format!("{point}.wit");
    let (_, text) = contract_files().find(|(name, _)| *name == file)?;
    let (_, rest) = text.split_once("borrow<")?;
    Some(rest.split_once('>')?.0)
}

fn in_component(
    bytes: &[u8],
    lent: &[(&str, &str)],
    depth: u32,
    n_wrapped: &mut usize,
) -> Result<Vec<u8>, LentError> {
    if depth == 0 {
        return Err(LentError("it is nested too deeply".to_owned()));
    }
    let mut made = bytes.get(..HEADER_BYTES).unwrap_or(bytes).to_vec();
    for (id, body) in split_sections(bytes)? {
        let changed = match id {
            CORE_MODULE => LentModule::read_module(body, lent)?.map(|module| {
                *n_wrapped += module.wrapped.len();
                module.write_module(body)
            }),
            COMPONENT => Some(in_component(body, lent, depth - 1, n_wrapped)),
            _ => None,
        };
        match changed {
            Some(changed) => put_section(&mut made, id, &changed?),
            None => put_section(&mut made, id, body),
        }
    }
    Ok(made)
}

#[derive(Default)]
struct LentModule {
    n_imports: u32,
    /// Type indices of all functions, imported ones first.
    types: Vec<u32>,
    wrapped: Vec<WrappedComponent>,
}

struct WrappedComponent {
    export: String,
    function: u32,
    give_back: u32,
}

impl LentModule {
    fn read_module(bytes: &[u8], lent: &[(&str, &str)]) -> Result<Option<Self>, LentError> {
        let mut module = Self::default();
        let mut drops: Vec<(String, u32)> = Vec::new();
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        let import = import?;
                        let TypeRef::Func(ty) = import.ty else {
                            continue;
                        };
                        if let Some(handle) = import.name.strip_prefix(DROP)
                            && import.module.starts_with("rind:plugin/handles@")
                        {
                            drops.push((handle.to_owned(), module.n_imports));
                        }
                        module.types.push(ty);
                        module.n_imports += 1;
                    }
                }
                Payload::FunctionSection(functions) => {
                    for ty in functions {
                        module.types.push(ty?);
                    }
                }
                Payload::ExportSection(exports) => {
                    for export in exports {
                        let export = export?;
                        let of = |(point, _): &&(&str, &str)| {
                            let rest = export.name.strip_prefix("rind:plugin/");
                            let rest = rest.and_then(|rest| rest.strip_prefix(*point));
                            rest.is_some_and(|rest| rest.starts_with('@') && rest.ends_with("#run"))
                        };
                        let Some((_, handle)) = lent.iter().find(of) else {
                            continue;
                        };
                        let Some((_, give_back)) = drops.iter().find(|(name, _)| name == handle)
                        else {
                            continue;
                        };
                        module.wrapped.push(WrappedComponent {
                            export: export.name.to_owned(),
                            function: export.index,
                            give_back: *give_back,
                        });
                    }
                }
                _ => {}
            }
        }
        Ok((!module.wrapped.is_empty()).then_some(module))
    }

    /// Returns the index of the first function that is added to the module. The added functions are
    /// the wrappers, followed by the function that does nothing.
    fn first(&self) -> Result<u32, LentError> {
        index_number(self.types.len())
    }

    fn type_of(&self, function: u32) -> Result<u32, LentError> {
        let at = usize::try_from(function).unwrap_or(usize::MAX);
        let ty = self.types.get(at).copied();
        ty.ok_or_else(|| LentError("a function has no type".to_owned()))
    }

    fn write_module(&self, bytes: &[u8]) -> Result<Vec<u8>, LentError> {
        let mut made = bytes.get(..HEADER_BYTES).unwrap_or(bytes).to_vec();
        for (id, body) in split_sections(bytes)? {
            match id {
                FUNCTIONS => put_section(&mut made, id, &self.extend_functions(body)?),
                EXPORTS => put_section(&mut made, id, &self.extend_exports(body)?),
                ELEMENTS => put_section(&mut made, id, &self.extend_elements(body)?),
                CODE => put_section(&mut made, id, &self.extend_code(body)?),
                _ => put_section(&mut made, id, body),
            }
        }
        Ok(made)
    }

    fn extend_functions(&self, body: &[u8]) -> Result<Vec<u8>, LentError> {
        let mut types = Vec::new();
        for wrapped in &self.wrapped {
            put_number(&mut types, self.type_of(wrapped.function)?);
        }
        let give_back = self.wrapped.first().map_or(0, |wrapped| wrapped.give_back);
        put_number(&mut types, self.type_of(give_back)?);
        append_items(body, index_number(self.wrapped.len() + 1)?, &types)
    }

    fn extend_code(&self, body: &[u8]) -> Result<Vec<u8>, LentError> {
        let mut bodies = Vec::new();
        let mut put = |code: &[u8]| {
            put_number(&mut bodies, index_number(code.len())?);
            bodies.extend(code);
            Ok::<(), LentError>(())
        };
        for wrapped in &self.wrapped {
            // Function body without locals: local.get 0, call the hook, local.get 0, call the drop
            // function. The result of the hook stays on the stack and is returned.
            let mut code = vec![0, 0x20, 0, 0x10];
            put_number(&mut code, wrapped.function);
            code.extend([0x20, 0, 0x10]);
            put_number(&mut code, wrapped.give_back);
            code.push(0x0b);
            put(&code)?;
        }
        put(&[0, 0x0b])?;
        append_items(body, index_number(self.wrapped.len() + 1)?, &bodies)
    }

    fn extend_exports(&self, body: &[u8]) -> Result<Vec<u8>, LentError> {
        let exports = wasmparser::ExportSectionReader::new(BinaryReader::new(body, 0))?;
        let mut made = Vec::new();
        put_number(&mut made, exports.count());
        for export in exports {
            let export = export?;
            put_number(&mut made, index_number(export.name.len())?);
            made.extend(export.name.as_bytes());
            made.push(kind_byte(export.kind)?);
            let at = self
                .wrapped
                .iter()
                .position(|wrapped| wrapped.export == export.name);
            put_number(
                &mut made,
                match at {
                    Some(at) => self.first()? + index_number(at)?,
                    None => export.index,
                },
            );
        }
        Ok(made)
    }

    /// Replaces the drop function in the function table, through which the runtime calls it, by the
    /// function that does nothing.
    fn extend_elements(&self, body: &[u8]) -> Result<Vec<u8>, LentError> {
        let nothing = self.first()? + index_number(self.wrapped.len())?;
        let elements = wasmparser::ElementSectionReader::new(BinaryReader::new(body, 0))?;
        let mut made = Vec::new();
        put_number(&mut made, elements.count());
        for element in elements {
            let element = element?;
            let (
                ElementKind::Active {
                    table_index,
                    offset_expr,
                },
                ElementItems::Functions(functions),
            ) = (element.kind, element.items)
            else {
                return Err(LentError(
                    "its function table is initialized in an unexpected way".to_owned(),
                ));
            };
            // Write an element segment with an explicit table index (kind 2) and the element kind
            // "functions" (0).
            put_number(&mut made, 2);
            put_number(&mut made, table_index.unwrap_or(0));
            let mut offset = offset_expr.get_binary_reader();
            made.extend(offset.read_bytes(offset.bytes_remaining())?);
            made.push(0);
            put_number(&mut made, functions.count());
            for function in functions {
                let function = function?;
                let is_end = self.wrapped.iter().any(|it| it.give_back == function);
                put_number(&mut made, if is_end { nothing } else { function });
            }
        }
        Ok(made)
    }
}

/// Returns the sections of a component or module, each as its id and body.
fn split_sections(bytes: &[u8]) -> Result<Vec<(u8, &[u8])>, LentError> {
    let rest = bytes.get(HEADER_BYTES..).unwrap_or_default();
    let mut reader = BinaryReader::new(rest, 0);
    let mut found = Vec::new();
    while !reader.eof() {
        let id = reader.read_u8()?;
        let n_bytes = reader.read_var_u32()?;
        let n_bytes = usize::try_from(n_bytes).unwrap_or(usize::MAX);
        found.push((id, reader.read_bytes(n_bytes)?));
    }
    Ok(found)
}

/// Returns the body of a list section with more items appended.
fn append_items(body: &[u8], n_more: u32, more: &[u8]) -> Result<Vec<u8>, LentError> {
    let mut reader = BinaryReader::new(body, 0);
    let count = reader.read_var_u32()?;
    let mut made = Vec::with_capacity(body.len() + more.len() + 4);
    put_number(&mut made, count + n_more);
    made.extend(reader.read_bytes(reader.bytes_remaining())?);
    made.extend(more);
    Ok(made)
}

fn put_section(bytes: &mut Vec<u8>, id: u8, body: &[u8]) {
    bytes.push(id);
    // `u32::MAX` is unreachable: a section of more than 4 GiB could not have been parsed.
    put_number(bytes, u32::try_from(body.len()).unwrap_or(u32::MAX));
    bytes.extend(body);
}

/// Appends a number in unsigned LEB128, the encoding that WebAssembly uses.
fn put_number(bytes: &mut Vec<u8>, mut number: u32) {
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or_default();
        number >>= 7;
        if number == 0 {
            return bytes.push(low);
        }
        bytes.push(low | 0x80);
    }
}

fn index_number(number: usize) -> Result<u32, LentError> {
    u32::try_from(number).map_err(|_| LentError("it has too many functions".to_owned()))
}

fn kind_byte(kind: wasmparser::ExternalKind) -> Result<u8, LentError> {
    use wasmparser::ExternalKind::{Func, Global, Memory, Table, Tag};
    Ok(match kind {
        Func => 0,
        Table => 1,
        Memory => 2,
        Global => 3,
        Tag => 4,
        _ => return Err(LentError("it exports an unknown kind".to_owned())),
    })
}

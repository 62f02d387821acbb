//! Patches components in which the compiler's generated code drops a borrowed handle too late.
//!
//! A guest must drop a borrowed handle before the hook returns. componentize-qjs drops it when the
//! host frees the result, which is after the return and therefore a trap. This module adds a
//! wrapper around each exported function that borrows a handle: the wrapper calls the function,
//! drops the handle and returns. The drop in the compiler's code is redirected to a function that
//! does nothing.

use wasmparser::{BinaryReader, ElementItems, ElementKind, Parser, Payload, TypeRef};

use rind_lib::plugin::contract::list_contract_files;

/// Prefix of the names of imported functions that drop a handle.
const RESOURCE_DROP_IMPORT_PREFIX: &str = "[resource-drop]";

/// Ids of the WebAssembly sections that this module reads or changes: `CORE_MODULE_SECTION_ID` and
/// `COMPONENT_SECTION_ID` occur in components, the other four in core modules.
const CORE_MODULE_SECTION_ID: u8 = 1;
const COMPONENT_SECTION_ID: u8 = 4;
const FUNCTION_SECTION_ID: u8 = 3;
const EXPORT_SECTION_ID: u8 = 7;
const ELEMENT_SECTION_ID: u8 = 9;
const CODE_SECTION_ID: u8 = 10;

/// Length of the header before the first section, in bytes.
const WASM_HEADER_BYTES: usize = 8;

/// Maximum nesting of components; compilers produce two levels.
const MAX_COMPONENT_NESTING: u32 = 8;

/// Error about a component that does not have the structure that componentize-qjs produces.
#[derive(Debug, thiserror::Error)]
#[error("the component that componentize-qjs created cannot be patched: {0}")]
pub(super) struct ComponentPatchError(String);

impl From<wasmparser::BinaryReaderError> for ComponentPatchError {
    fn from(error: wasmparser::BinaryReaderError) -> Self {
        Self(error.to_string())
    }
}

/// Wraps the hooks in `exports` that borrow a handle: each wrapper calls the hook and then drops
/// the handle.
pub(super) fn add_borrowed_handle_drops(
    component: Vec<u8>,
    exports: &[String],
) -> Result<Vec<u8>, ComponentPatchError> {
    let lent: Vec<(&str, &str)> = exports
        .iter()
        .filter_map(|point| Some((point.as_str(), borrowed_handle_type(point)?)))
        .collect();
    if lent.is_empty() {
        return Ok(component);
    }
    let mut n_wrapped = 0;
    let made = patch_hook_wrappers_into_component(
        &component,
        &lent,
        MAX_COMPONENT_NESTING,
        &mut n_wrapped,
    )?;
    if n_wrapped == lent.len() {
        return Ok(made);
    }
    Err(ComponentPatchError(format!(
        "only {n_wrapped} of {} hooks that borrow a handle were found in the component",
        lent.len()
    )))
}

/// Returns the contract's name of the handle type that a hook borrows; `None` if the hook borrows
/// no handle.
fn borrowed_handle_type(point: &str) -> Option<&'static str> {
    let file = format!("{point}.wit");
    let (_, text) = list_contract_files().find(|(name, _)| *name == file)?;
    let (_, rest) = text.split_once("borrow<")?;
    Some(rest.split_once('>')?.0)
}

fn patch_hook_wrappers_into_component(
    bytes: &[u8],
    lent: &[(&str, &str)],
    depth: u32,
    n_wrapped: &mut usize,
) -> Result<Vec<u8>, ComponentPatchError> {
    if depth == 0 {
        return Err(ComponentPatchError("it is nested too deeply".to_owned()));
    }
    let mut made = bytes.get(..WASM_HEADER_BYTES).unwrap_or(bytes).to_vec();
    for (id, body) in split_wasm_sections(bytes)? {
        let changed = match id {
            CORE_MODULE_SECTION_ID => ParsedCoreModule::read_module(body, lent)?.map(|module| {
                *n_wrapped += module.wrapped.len();
                module.write_patched_module(body)
            }),
            COMPONENT_SECTION_ID => Some(patch_hook_wrappers_into_component(
                body,
                lent,
                depth - 1,
                n_wrapped,
            )),
            _ => None,
        };
        match changed {
            Some(changed) => append_section(&mut made, id, &changed?),
            None => append_section(&mut made, id, body),
        }
    }
    Ok(made)
}

#[derive(Default)]
struct ParsedCoreModule {
    n_imports: u32,
    /// Type indices of all functions of the module, imported functions first.
    types: Vec<u32>,
    wrapped: Vec<HookExportToWrap>,
}

struct HookExportToWrap {
    export: String,
    function: u32,
    give_back: u32,
}

impl ParsedCoreModule {
    fn read_module(
        bytes: &[u8],
        lent: &[(&str, &str)],
    ) -> Result<Option<Self>, ComponentPatchError> {
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
                        if let Some(handle) = import.name.strip_prefix(RESOURCE_DROP_IMPORT_PREFIX)
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
                        module.wrapped.push(HookExportToWrap {
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

    /// Returns the index of the first function that this patch adds to the module. The added
    /// functions are the wrappers, followed by the function that does nothing.
    fn first_wrapper_function_index(&self) -> Result<u32, ComponentPatchError> {
        index_to_u32(self.types.len())
    }

    fn find_function_type(&self, function: u32) -> Result<u32, ComponentPatchError> {
        let at = usize::try_from(function).unwrap_or(usize::MAX);
        let ty = self.types.get(at).copied();
        ty.ok_or_else(|| ComponentPatchError("a function has no type".to_owned()))
    }

    fn write_patched_module(&self, bytes: &[u8]) -> Result<Vec<u8>, ComponentPatchError> {
        let mut made = bytes.get(..WASM_HEADER_BYTES).unwrap_or(bytes).to_vec();
        for (id, body) in split_wasm_sections(bytes)? {
            match id {
                FUNCTION_SECTION_ID => {
                    append_section(&mut made, id, &self.extend_function_section(body)?)
                }
                EXPORT_SECTION_ID => {
                    append_section(&mut made, id, &self.extend_export_section(body)?)
                }
                ELEMENT_SECTION_ID => {
                    append_section(&mut made, id, &self.replace_drop_function_entry(body)?)
                }
                CODE_SECTION_ID => append_section(&mut made, id, &self.extend_code_section(body)?),
                _ => append_section(&mut made, id, body),
            }
        }
        Ok(made)
    }

    fn extend_function_section(&self, body: &[u8]) -> Result<Vec<u8>, ComponentPatchError> {
        let mut types = Vec::new();
        for wrapped in &self.wrapped {
            append_leb128(&mut types, self.find_function_type(wrapped.function)?);
        }
        let give_back = self.wrapped.first().map_or(0, |wrapped| wrapped.give_back);
        append_leb128(&mut types, self.find_function_type(give_back)?);
        append_wasm_section_items(body, index_to_u32(self.wrapped.len() + 1)?, &types)
    }

    fn extend_code_section(&self, body: &[u8]) -> Result<Vec<u8>, ComponentPatchError> {
        let mut bodies = Vec::new();
        let mut put = |code: &[u8]| {
            append_leb128(&mut bodies, index_to_u32(code.len())?);
            bodies.extend(code);
            Ok::<(), ComponentPatchError>(())
        };
        for wrapped in &self.wrapped {
            // Function body without locals: local.get 0, call the hook, local.get 0, call the drop
            // function. The result of the hook stays on the stack and is returned.
            let mut code = vec![0, 0x20, 0, 0x10];
            append_leb128(&mut code, wrapped.function);
            code.extend([0x20, 0, 0x10]);
            append_leb128(&mut code, wrapped.give_back);
            code.push(0x0b);
            put(&code)?;
        }
        put(&[0, 0x0b])?;
        append_wasm_section_items(body, index_to_u32(self.wrapped.len() + 1)?, &bodies)
    }

    fn extend_export_section(&self, body: &[u8]) -> Result<Vec<u8>, ComponentPatchError> {
        let exports = wasmparser::ExportSectionReader::new(BinaryReader::new(body, 0))?;
        let mut made = Vec::new();
        append_leb128(&mut made, exports.count());
        for export in exports {
            let export = export?;
            append_leb128(&mut made, index_to_u32(export.name.len())?);
            made.extend(export.name.as_bytes());
            made.push(export_kind_byte(export.kind)?);
            let at = self
                .wrapped
                .iter()
                .position(|wrapped| wrapped.export == export.name);
            append_leb128(
                &mut made,
                match at {
                    Some(at) => self.first_wrapper_function_index()? + index_to_u32(at)?,
                    None => export.index,
                },
            );
        }
        Ok(made)
    }

    /// Replaces the drop function in the module's function table by the function that does nothing.
    /// The runtime calls the drop function through this table.
    fn replace_drop_function_entry(&self, body: &[u8]) -> Result<Vec<u8>, ComponentPatchError> {
        let nothing = self.first_wrapper_function_index()? + index_to_u32(self.wrapped.len())?;
        let elements = wasmparser::ElementSectionReader::new(BinaryReader::new(body, 0))?;
        let mut made = Vec::new();
        append_leb128(&mut made, elements.count());
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
                return Err(ComponentPatchError(
                    "its function table is initialized in an unexpected way".to_owned(),
                ));
            };
            // Write an element segment with an explicit table index (kind 2) and the element kind
            // "functions" (0).
            append_leb128(&mut made, 2);
            append_leb128(&mut made, table_index.unwrap_or(0));
            let mut offset = offset_expr.get_binary_reader();
            made.extend(offset.read_bytes(offset.bytes_remaining())?);
            made.push(0);
            append_leb128(&mut made, functions.count());
            for function in functions {
                let function = function?;
                let is_end = self.wrapped.iter().any(|it| it.give_back == function);
                append_leb128(&mut made, if is_end { nothing } else { function });
            }
        }
        Ok(made)
    }
}

/// Returns the sections of a component or module, each as its id and body.
fn split_wasm_sections(bytes: &[u8]) -> Result<Vec<(u8, &[u8])>, ComponentPatchError> {
    let rest = bytes.get(WASM_HEADER_BYTES..).unwrap_or_default();
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

/// Returns the body of a WebAssembly section that is a list, with more items appended.
fn append_wasm_section_items(
    body: &[u8],
    n_more: u32,
    more: &[u8],
) -> Result<Vec<u8>, ComponentPatchError> {
    let mut reader = BinaryReader::new(body, 0);
    let count = reader.read_var_u32()?;
    let mut made = Vec::with_capacity(body.len() + more.len() + 4);
    append_leb128(&mut made, count + n_more);
    made.extend(reader.read_bytes(reader.bytes_remaining())?);
    made.extend(more);
    Ok(made)
}

fn append_section(bytes: &mut Vec<u8>, id: u8, body: &[u8]) {
    bytes.push(id);
    // `u32::MAX` is unreachable: a section of more than 4 GiB could not have been parsed.
    append_leb128(bytes, u32::try_from(body.len()).unwrap_or(u32::MAX));
    bytes.extend(body);
}

/// Appends a number in unsigned LEB128, the encoding that WebAssembly uses.
fn append_leb128(bytes: &mut Vec<u8>, mut number: u32) {
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or_default();
        number >>= 7;
        if number == 0 {
            return bytes.push(low);
        }
        bytes.push(low | 0x80);
    }
}

fn index_to_u32(number: usize) -> Result<u32, ComponentPatchError> {
    u32::try_from(number).map_err(|_| ComponentPatchError("it has too many functions".to_owned()))
}

fn export_kind_byte(kind: wasmparser::ExternalKind) -> Result<u8, ComponentPatchError> {
    use wasmparser::ExternalKind::{Func, Global, Memory, Table, Tag};
    Ok(match kind {
        Func => 0,
        Table => 1,
        Memory => 2,
        Global => 3,
        Tag => 4,
        _ => return Err(ComponentPatchError("it exports an unknown kind".to_owned())),
    })
}

//! Packs a plugin into one file: the component, followed by all other files of the plugin as custom
//! sections.
//!
//! WebAssembly runtimes ignore custom sections, so a packed plugin is still a working component. A
//! plugin that has only prompts and skills is packed into an empty component.

use std::borrow::Cow;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use wasm_encoder::{CustomSection, Section};
use wasmparser::BinaryReader;

use super::contents::{FileContentsByPath, PluginContents, split_relative_path};
use rind_lib::plugin::foreign;
use rind_lib::plugin::manifest::{FILE_NAME, Manifest};

/// Prefix of the name of a custom section that contains a file. After the prefix comes the path
/// within the plugin.
const FILE_CUSTOM_SECTION_NAME_PREFIX: &str = "rind:file/";

/// Magic number of WebAssembly binaries.
pub(super) const WASM_MAGIC_BYTES: &[u8] = b"\0asm";

/// WebAssembly component without content, used to pack a plugin that has no component.
const EMPTY_WASM_COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

/// Packs a plugin into one file. Equal plugins produce equal bytes.
pub fn pack_plugin(contents: &PluginContents) -> anyhow::Result<Vec<u8>> {
    let (component, others) = contents.split_component_from_files()?;
    let (mut bytes, carried) = split_packed_plugin(component.unwrap_or(EMPTY_WASM_COMPONENT))?;
    ensure!(
        carried.is_empty(),
        "the component is already a packed plugin; name the original component"
    );
    for (path, data) in others {
        let section = CustomSection {
            name: Cow::Owned(format!("{FILE_CUSTOM_SECTION_NAME_PREFIX}{path}")),
            data: Cow::Borrowed(data),
        };
        section.append_to(&mut bytes);
    }
    Ok(bytes)
}

/// Whether `bytes` can be a packed plugin, that is, a WebAssembly binary, possibly truncated.
pub fn is_wasm_binary(bytes: &[u8]) -> bool {
    bytes.starts_with(WASM_MAGIC_BYTES)
}

/// Whether `bytes` are a packed plugin that contains its manifest. Returns false for components
/// from other tools and for truncated ones.
pub(super) fn has_packed_manifest(bytes: &[u8]) -> bool {
    split_packed_plugin(bytes)
        .is_ok_and(|(_, files)| files.contains_key(&vec![FILE_NAME.to_owned()]))
}

/// Unpacks a packed plugin. `origin` is its path, which is only used in messages.
pub(super) fn unpack_plugin(bytes: &[u8], origin: &Path) -> anyhow::Result<PluginContents> {
    let shown = origin.display();
    if let Some(message) = foreign::describe_core_module(bytes) {
        bail!("{shown} {message}");
    }
    let (component, mut files) =
        split_packed_plugin(bytes).with_context(|| format!("{shown} is not a packed plugin"))?;
    let Some(manifest) = files.get(&vec![FILE_NAME.to_owned()]) else {
        bail!(
            "{shown} has no {FILE_NAME} in it, so it is a component without a manifest; pack it with `rind plugin pack FOLDER`, or install the folder that has both"
        );
    };
    let manifest = String::from_utf8_lossy(manifest);
    let manifest = Manifest::parse(&manifest, &origin.join(FILE_NAME))?;
    match manifest.component.as_deref() {
        Some(path) => {
            let earlier = files.insert(split_relative_path(path)?, component);
            ensure!(
                earlier.is_none(),
                "{shown} contains its component twice, as `{path}`"
            );
        }
        None => ensure!(
            component == EMPTY_WASM_COMPONENT,
            "{shown} has a component that its {FILE_NAME} does not name"
        ),
    }
    PluginContents::from_source_files(files, origin)
}

/// Removes the manifest from a component that `rind plugin build` produced. The manifest file next
/// to the component is the effective one, and without the copy a plugin has the same digest whether
/// it was packed or not. Other components stay unchanged.
pub(super) fn remove_manifest_section(component: &mut Vec<u8>) {
    if let Ok((bare, carried)) = split_packed_plugin(component)
        && carried.len() == 1
        && carried.contains_key(&vec![FILE_NAME.to_owned()])
    {
        *component = bare;
    }
}

/// Splits a WebAssembly binary into the component and the files that were packed as custom sections
/// of its outermost level.
fn split_packed_plugin(bytes: &[u8]) -> anyhow::Result<(Vec<u8>, FileContentsByPath)> {
    ensure!(bytes.starts_with(WASM_MAGIC_BYTES), "it is not WebAssembly");
    let mut files = FileContentsByPath::new();
    let mut component = bytes
        .get(..EMPTY_WASM_COMPONENT.len())
        .context("the file is truncated")?
        .to_vec();
    let mut reader = BinaryReader::new(
        &bytes[EMPTY_WASM_COMPONENT.len()..],
        EMPTY_WASM_COMPONENT.len(),
    );
    while !reader.eof() {
        let start = reader.current_position();
        let id = reader.read_u8().context("the file is truncated")?;
        let n_bytes = reader.read_var_u32().context("the file is truncated")?;
        let body = reader
            .read_bytes(usize::try_from(n_bytes)?)
            .context("the file is truncated")?;
        let carried = (id == 0).then(|| extract_file_from_section(body)).flatten();
        let Some((path, data)) = carried else {
            let end = reader.current_position();
            let whole = bytes
                .get(EMPTY_WASM_COMPONENT.len()..)
                .and_then(|all| all.get(start..end));
            component.extend_from_slice(whole.context("the file is truncated")?);
            continue;
        };
        let earlier = files.insert(split_relative_path(path)?, data.to_vec());
        ensure!(
            earlier.is_none(),
            "it contains `{}` twice",
            path.escape_debug()
        );
    }
    Ok((component, files))
}

/// Returns the path and content of the file in a custom section; `None` if the section does not
/// contain a packed file.
fn extract_file_from_section(body: &[u8]) -> Option<(&str, &[u8])> {
    let mut reader = BinaryReader::new(body, 0);
    let path = reader
        .read_string()
        .ok()?
        .strip_prefix(FILE_CUSTOM_SECTION_NAME_PREFIX)?;
    let data = reader.read_bytes(reader.bytes_remaining()).ok()?;
    Some((path, data))
}

//! Parses and builds manifests of OCI artifacts.
//!
//! Only the parts that installation needs are read, and unknown parts are ignored. An artifact with
//! anything other than one component layer is refused.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::reference::is_valid_digest;

pub(super) const OCI_MANIFEST_MEDIA_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const WASM_CONFIG_MEDIA_TYPE: &str = "application/vnd.wasm.config.v0+json";
pub(super) const WASM_LAYER_MEDIA_TYPE: &str = "application/wasm";

/// Key of the manifest's annotation with the signature of the layer. The value is the text of a
/// `.minisig` file.
pub(super) const SIGNATURE_ANNOTATION_KEY: &str = "rind.minisig";

/// Maximum size of a signature in bytes; usual ones have 300 bytes.
pub(crate) const MAX_SIGNATURE_BYTES: u64 = 8 << 10;

/// Descriptor by which an OCI manifest refers to a blob.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContentDescriptor {
    pub(super) media_type: String,
    pub(super) digest: String,
    pub(super) size: u64,
}

/// Manifest of an artifact, reduced to the fields that are used. Other fields (file names,
/// platforms, URLs) are ignored.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ArtifactManifest {
    pub(super) schema_version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) media_type: Option<String>,
    pub(super) config: ContentDescriptor,
    pub(super) layers: Vec<ContentDescriptor>,
    #[serde(default)]
    pub(super) annotations: BTreeMap<String, String>,
}

impl ArtifactManifest {
    /// Parses the manifest of an OCI artifact. Refuses artifacts that are not WebAssembly
    /// components.
    pub(super) fn parse_manifest(bytes: &[u8]) -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ArtifactKind {
            media_type: Option<String>,
        }
        let kind: ArtifactKind =
            serde_json::from_slice(bytes).context("the manifest is not JSON")?;
        let kind = kind
            .media_type
            .unwrap_or_else(|| OCI_MANIFEST_MEDIA_TYPE.to_owned());
        if kind != OCI_MANIFEST_MEDIA_TYPE {
            bail!(
                "the manifest has the type `{}`, but the manifest of a plugin must have the type `{OCI_MANIFEST_MEDIA_TYPE}`",
                escape_manifest_text(&kind)
            );
        }
        let manifest: Self = serde_json::from_slice(bytes)
            .context("the manifest lacks a field, or a field has the wrong type")?;
        ensure!(
            manifest.schema_version == 2,
            "the manifest has the version {}, but only version 2 is supported",
            manifest.schema_version
        );
        ensure!(
            manifest.config.media_type == WASM_CONFIG_MEDIA_TYPE,
            "it is an artifact of the type `{}`, not a component (`{WASM_CONFIG_MEDIA_TYPE}`)",
            escape_manifest_text(&manifest.config.media_type)
        );
        Ok(manifest)
    }

    /// Returns the descriptor of the only layer, which is the component.
    pub(super) fn plugin_layer(&self, max_bytes: u64) -> anyhow::Result<&ContentDescriptor> {
        let [layer] = self.layers.as_slice() else {
            bail!(
                "the manifest has {} layers, but the manifest of a plugin must have exactly one",
                self.layers.len()
            );
        };
        ensure!(
            layer.media_type == WASM_LAYER_MEDIA_TYPE,
            "the layer has the type `{}`, but a component must have the type `{WASM_LAYER_MEDIA_TYPE}`",
            escape_manifest_text(&layer.media_type)
        );
        ensure!(
            is_valid_digest(&layer.digest),
            "the layer has the digest `{}`, which is not a SHA-256 digest",
            escape_manifest_text(&layer.digest)
        );
        ensure!(
            layer.size <= max_bytes,
            "the layer has {} bytes, and at most {} MiB are installed",
            layer.size,
            max_bytes >> 20
        );
        Ok(layer)
    }

    pub(super) fn signature_annotation(&self) -> anyhow::Result<Option<String>> {
        let signature = self.annotations.get(SIGNATURE_ANNOTATION_KEY).cloned();
        let n_bytes = signature.as_ref().map_or(0, String::len);
        ensure!(
            n_bytes as u64 <= MAX_SIGNATURE_BYTES,
            "the signature has {n_bytes} bytes, at most {MAX_SIGNATURE_BYTES} are read"
        );
        Ok(signature)
    }
}

/// Truncates a text from a registry and escapes it, for use in a message.
fn escape_manifest_text(text: &str) -> String {
    rind_lib::text::escape_and_truncate_line(text, 100)
}

/// Returns the digest of bytes in the notation of registries, `sha256:HEX`.
pub(crate) fn sha256_digest(bytes: &[u8]) -> String {
    let mut text = "sha256:".to_owned();
    for byte in Sha256::digest(bytes) {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

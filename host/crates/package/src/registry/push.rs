//! Publishes a packed plugin to an OCI registry. The same bytes produce the same manifest.
//!
//! An upload goes only to the registry's own host. Content that the registry already has is not
//! uploaded again.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use bytes::Bytes;
use reqwest::Method;
use serde_json::json;

use super::artifact::{SIGNATURE_ANNOTATION_KEY, WASM_CONFIG_MEDIA_TYPE};
use super::transfer::{self, RegistryRequest};
use super::{
    ArtifactManifest, ArtifactReference, ContentDescriptor, OCI_MANIFEST_MEDIA_TYPE,
    PluginRegistryClient, WASM_LAYER_MEDIA_TYPE, reference, sha256_digest,
};
use rind_lib::plugin::manifest::Manifest as PluginManifest;
use rind_lib::plugin::surface::ComponentImportsAndExports;

/// Creation time in the artifact's configuration. It is constant, because the real time would give
/// two artifacts with the same bytes different digests.
const FIXED_ARTIFACT_CREATION_TIME: &str = "1970-01-01T00:00:00Z";

#[derive(Debug)]
pub struct PublishedArtifact {
    pub reference: ArtifactReference,
    pub digest: String,
    /// Whether the registry already contained the same artifact under this tag.
    pub was_there: bool,
}

impl PluginRegistryClient {
    /// Publishes a packed plugin under the tag in the reference, or, if the reference has none,
    /// under the plugin's version. Never overwrites a tag with different bytes: otherwise two users
    /// could have different content under the same version.
    pub async fn publish_plugin(
        &mut self,
        plugin: &PluginManifest,
        bytes: Vec<u8>,
        signature: Option<String>,
    ) -> anyhow::Result<PublishedArtifact> {
        self.transfer.may_push = true;
        let tag = self.reference.tag.clone();
        let tag = tag.unwrap_or_else(|| reference::format_version_tag(&plugin.version));
        let target = self.reference.with_tag(tag.clone());
        let config = build_oci_config(&bytes)?;
        let annotations = [
            ("org.opencontainers.image.title", plugin.name.clone()),
            (
                "org.opencontainers.image.version",
                plugin.version.to_string(),
            ),
            (
                "org.opencontainers.image.description",
                plugin.description.clone(),
            ),
        ];
        let mut annotations: BTreeMap<String, String> = annotations
            .into_iter()
            .map(|(name, text)| (name.to_owned(), text))
            .collect();
        annotations.extend(signature.map(|text| (SIGNATURE_ANNOTATION_KEY.to_owned(), text)));
        let describe = |media_type: &str, bytes: &[u8]| ContentDescriptor {
            media_type: media_type.to_owned(),
            digest: sha256_digest(bytes),
            size: bytes.len() as u64,
        };
        let manifest = ArtifactManifest {
            schema_version: 2,
            media_type: Some(OCI_MANIFEST_MEDIA_TYPE.to_owned()),
            config: describe(WASM_CONFIG_MEDIA_TYPE, &config),
            layers: vec![describe(WASM_LAYER_MEDIA_TYPE, &bytes)],
            annotations,
        };
        let text =
            serde_json::to_vec(&manifest).context("cannot write the manifest of the artifact")?;
        let digest = sha256_digest(&text);
        let published = |was_there| PublishedArtifact {
            reference: target.clone(),
            digest: digest.clone(),
            was_there,
        };
        if let Some(there) = self.fetch_tag_digest(&tag).await? {
            if there == digest {
                return Ok(published(true));
            }
            bail!("{target} already exists with different content; raise `version` in plugin.toml");
        }
        self.push_blob(config).await?;
        self.push_blob(bytes).await?;
        let ask = RegistryRequest {
            body: Some((OCI_MANIFEST_MEDIA_TYPE, text.into())),
            ..RegistryRequest::new(Method::PUT, format!("manifests/{tag}"))
        };
        let answer = self.transfer.send_authenticated(&ask).await?;
        transfer::require_response_status(answer, 201, &target.to_string()).await?;
        Ok(published(false))
    }

    async fn fetch_tag_digest(&mut self, tag: &str) -> anyhow::Result<Option<String>> {
        let ask = RegistryRequest {
            accept: Some(OCI_MANIFEST_MEDIA_TYPE),
            ..RegistryRequest::new(Method::GET, format!("manifests/{tag}"))
        };
        let answer = self.transfer.send_authenticated(&ask).await?;
        if answer.status().as_u16() == 404 {
            return Ok(None);
        }
        let answer = transfer::require_response_status(answer, 200, tag).await?;
        let bytes = transfer::read_response_body(
            answer,
            super::MAX_MANIFEST_OR_TAG_PAGE_BYTES,
            "the manifest",
        )
        .await?;
        Ok(Some(sha256_digest(&bytes)))
    }

    async fn push_blob(&mut self, bytes: Vec<u8>) -> anyhow::Result<()> {
        let digest = sha256_digest(&bytes);
        let ask = RegistryRequest::new(Method::HEAD, format!("blobs/{digest}"));
        if self
            .transfer
            .send_authenticated(&ask)
            .await?
            .status()
            .is_success()
        {
            return Ok(());
        }
        let ask = RegistryRequest::new(Method::POST, "blobs/uploads/".to_owned());
        let answer = self.transfer.send_authenticated(&ask).await?;
        let answer = transfer::require_response_status(answer, 202, "an upload").await?;
        let mut url = self.transfer.location_url(&answer)?;
        if !self.transfer.is_registry_url(&url) {
            bail!(
                "{} redirects the upload to another host, which is not followed",
                self.reference.host
            );
        }
        url.query_pairs_mut().append_pair("digest", &digest);
        let ask = RegistryRequest {
            url: Some(url),
            body: Some(("application/octet-stream", Bytes::from(bytes))),
            ..RegistryRequest::new(Method::PUT, String::new())
        };
        let answer = self.transfer.send_authenticated(&ask).await?;
        transfer::require_response_status(answer, 201, "the upload").await?;
        Ok(())
    }
}

/// Returns the OCI configuration of a component. It lists the component's imports and exports, so
/// that other tools can search for them.
fn build_oci_config(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let surface =
        ComponentImportsAndExports::read_component_surface(Path::new("the component"), bytes)?;
    let config = json!({
        "created": FIXED_ARTIFACT_CREATION_TIME,
        "architecture": "wasm",
        "os": "wasip2",
        "layerDigests": [sha256_digest(bytes)],
        "component": {"exports": surface.exports, "imports": surface.imports, "target": null},
    });
    serde_json::to_vec(&config).context("cannot write the configuration of the artifact")
}

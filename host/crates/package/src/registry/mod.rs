//! Fetches plugins from OCI registries and publishes them, in the Bytecode Alliance's layout for
//! components: a manifest with one layer, the component.
//!
//! A registry is not trusted: its responses are limited in size while they arrive, must have the
//! announced digest and size, and may redirect only the request for a layer, to an https URL. No
//! OCI client library is used, because such libraries follow redirects themselves and read
//! manifests, tokens and errors of any size into memory.
//!
//! Start from [`PluginRegistryClient::pull_plugin`].

mod artifact;
mod auth;
mod download;
mod push;
mod reference;
mod transfer;

use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use reqwest::Method;
use semver::Version;
use serde::Deserialize;

pub(crate) use artifact::MAX_SIGNATURE_BYTES;
pub(crate) use artifact::sha256_digest;
use artifact::{
    ArtifactManifest, ContentDescriptor, OCI_MANIFEST_MEDIA_TYPE, WASM_LAYER_MEDIA_TYPE,
};
pub use auth::RegistryCredentials;
pub(crate) use download::{
    PackageDownloadClient, RegistryAddress, RegistryDownloadRequest, RegistryProxy, parse_url,
};
pub use push::PublishedArtifact;
pub(crate) use reference::{
    ArtifactReference, OCI_REFERENCE_SCHEME, is_loopback_host, parse_version_tag,
};
pub(crate) use reqwest::Url;
use transfer::{RegistryRepositoryConnection, RegistryRequest};

/// Maximum size in bytes of an artifact's manifest and of a page of tags. Usual manifests have 2
/// KiB.
const MAX_MANIFEST_OR_TAG_PAGE_BYTES: u64 = 1 << 20;

/// Maximum number of requests for pages of tags. A page has up to 1000 tags.
const MAX_TAG_PAGE_REQUESTS: usize = 20;

/// Function that looks up the credentials for a host. Called when a registry asks for credentials.
pub type RegistryCredentialsLookup =
    Arc<dyn Fn(&str) -> anyhow::Result<RegistryCredentials> + Send + Sync>;

/// Plugin that was downloaded from an OCI registry.
#[derive(Debug)]
pub(crate) struct PulledPlugin {
    /// Content of the OCI artifact's layer, checked against its digest.
    pub(crate) bytes: Vec<u8>,
    pub(crate) manifest: String,
    /// Signature of `bytes`, which is still to be verified; `None` if the registry has none.
    pub(crate) signature: Option<String>,
}

pub struct PluginRegistryClient {
    transfer: RegistryRepositoryConnection,
    reference: ArtifactReference,
}

impl PluginRegistryClient {
    /// Creates a client for the repository of a reference. Sends no request yet.
    pub fn new(
        reference: &ArtifactReference,
        credentials: RegistryCredentialsLookup,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            transfer: RegistryRepositoryConnection::new(reference, credentials)?,
            reference: reference.clone(),
        })
    }

    /// Downloads the plugin that a reference names by tag or digest.
    pub(crate) async fn pull_plugin(
        &mut self,
        reference: &ArtifactReference,
        max_bytes: u64,
    ) -> anyhow::Result<PulledPlugin> {
        let (manifest, digest) = self.fetch_manifest(reference).await?;
        let layer = manifest.plugin_layer(max_bytes)?;
        let signature = manifest.signature_annotation()?;
        let bytes = self.fetch_layer(layer).await?;
        Ok(PulledPlugin {
            bytes,
            manifest: digest,
            signature,
        })
    }

    async fn fetch_manifest(
        &mut self,
        reference: &ArtifactReference,
    ) -> anyhow::Result<(ArtifactManifest, String)> {
        let (name, pinned) = match (&reference.digest, &reference.tag) {
            (Some(digest), _) => (digest, true),
            (None, Some(tag)) => (tag, false),
            (None, None) => bail!("{reference} names neither a tag nor a digest"),
        };
        let ask = RegistryRequest {
            accept: Some(OCI_MANIFEST_MEDIA_TYPE),
            ..RegistryRequest::new(Method::GET, format!("manifests/{name}"))
        };
        let answer = self.transfer.send_authenticated(&ask).await?;
        let answer = transfer::require_response_status(answer, 200, &reference.to_string()).await?;
        let bytes =
            transfer::read_response_body(answer, MAX_MANIFEST_OR_TAG_PAGE_BYTES, "the manifest")
                .await?;
        let digest = sha256_digest(&bytes);
        ensure!(
            !pinned || digest == *name,
            "the registry answered with a different manifest than the requested one: {digest}"
        );
        Ok((ArtifactManifest::parse_manifest(&bytes)?, digest))
    }

    async fn fetch_layer(&mut self, layer: &ContentDescriptor) -> anyhow::Result<Vec<u8>> {
        let ask = RegistryRequest::new(Method::GET, format!("blobs/{}", layer.digest));
        let answer = self.transfer.follow_redirects(&ask).await?;
        let answer = transfer::require_response_status(answer, 200, "the layer").await?;
        let bytes = transfer::read_response_body(answer, layer.size, "the layer").await?;
        ensure!(
            bytes.len() as u64 == layer.size,
            "the layer has {} bytes, and the manifest says {}",
            bytes.len(),
            layer.size
        );
        let digest = sha256_digest(&bytes);
        ensure!(
            digest == layer.digest,
            "the layer has the digest {digest}, and the manifest says {}",
            layer.digest
        );
        Ok(bytes)
    }

    /// Returns the tag of the newest version. If `installed` is set, only newer versions are
    /// considered, and pre-releases only if the installed version is one.
    pub(crate) async fn fetch_newest_tag(
        &mut self,
        installed: Option<&Version>,
    ) -> anyhow::Result<Option<String>> {
        let tags = self.list_tags().await?;
        let versions = tags
            .iter()
            .filter_map(|tag| Some((reference::parse_version_tag(tag)?, tag)));
        let takes_pre = installed.is_some_and(|version| !version.pre.is_empty());
        let counts = |(version, _): &(Version, &String)| {
            (takes_pre || version.pre.is_empty()) && installed.is_none_or(|own| version > own)
        };
        let newest = versions.filter(counts).max();
        Ok(newest.map(|(_, tag)| tag.clone()))
    }

    async fn list_tags(&mut self) -> anyhow::Result<Vec<String>> {
        #[derive(Deserialize)]
        struct TagsPage {
            #[serde(default)]
            tags: Option<Vec<String>>,
        }
        let mut all: Vec<String> = Vec::new();
        for _ in 0..MAX_TAG_PAGE_REQUESTS {
            // Request each further page by the last tag of the page before: the URL in the server's
            // `Link` header is not trusted.
            let last = all.last().map(|tag| format!("&last={tag}"));
            let ask = RegistryRequest::new(
                Method::GET,
                format!("tags/list?n=1000{}", last.unwrap_or_default()),
            );
            let answer = self.transfer.send_authenticated(&ask).await?;
            let answer = transfer::require_response_status(
                answer,
                200,
                &self.reference.text_without_tag_or_digest(),
            )
            .await?;
            let has_more = answer.headers().contains_key("link");
            let bytes = transfer::read_response_body(
                answer,
                MAX_MANIFEST_OR_TAG_PAGE_BYTES,
                "the list of tags",
            )
            .await?;
            let page: TagsPage =
                serde_json::from_slice(&bytes).context("the list of tags is invalid")?;
            let mut tags = page.tags.unwrap_or_default();
            tags.retain(|tag| reference::is_valid_tag(tag));
            let is_end = !has_more || tags.last().is_none() || tags.last() == all.last();
            all.append(&mut tags);
            if is_end {
                break;
            }
        }
        Ok(all)
    }
}

impl std::fmt::Debug for PluginRegistryClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PluginRegistryClient")
            .field("reference", &self.reference)
            .finish_non_exhaustive()
    }
}

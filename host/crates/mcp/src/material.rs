//! Fetches prompts and resources of a server when the user requests them.
//!
//! A prompt is fetched only if its definition equals the pinned one, a resource only if the server
//! lists it. Start from [`ServerPromptAndResourceFetcher`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use rmcp::model::{GetPromptResult, ResourceContents, Role};
use serde_json::{Map, Value};
use tokio::sync::Mutex as AsyncMutex;

use super::client::McpRequestError;
use super::completion::request_value_completions;
use super::link::SessionServerConnection;
use super::resource::{
    MAX_TEXT_BYTES_PER_ANSWER, ServerResourcesAndTemplates, check_resource_uri,
    convert_resource_contents,
};
use super::result;
use rind_lib::host::{
    FetchedPromptOrResource, InputCompletionRequest, ListedResource, PromptResourceProvider,
};
use rind_lib::message::{Part, PromptImageAttachment};
use rind_lib::text::escape_and_truncate_line;

/// Age of the cached resource list after which the resources are listed again.
const MAX_RESOURCE_LIST_CACHE_AGE: Duration = Duration::from_secs(60);

/// Minimum age of the cached resource list. A request for the list uses a younger list from the
/// cache; otherwise the resources are listed again.
const MIN_RESOURCE_RELIST_INTERVAL: Duration = Duration::from_secs(1);

/// Timeout of a completion; short because the user waits for it while typing.
const ARGUMENT_COMPLETION_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of messages in a prompt of an MCP server.
const MAX_MESSAGES_PER_PROMPT: usize = 100;

/// Maximum length of a quoted URI or name, in bytes.
const MAX_QUOTED_URI_BYTES: usize = 200;

/// Fetches the prompts and resources of one server in one session.
pub(crate) struct ServerPromptAndResourceFetcher {
    pub(crate) link: Arc<SessionServerConnection>,
    /// The last list of resources and the time at which it was read.
    listed: AsyncMutex<Option<(Instant, Arc<ServerResourcesAndTemplates>)>>,
}

impl ServerPromptAndResourceFetcher {
    pub(crate) fn new(link: Arc<SessionServerConnection>) -> Self {
        Self {
            link,
            listed: AsyncMutex::default(),
        }
    }

    async fn fetch_prompt_content(
        &self,
        name: &str,
        arguments: Map<String, Value>,
    ) -> FetchedPromptOrResourceResult {
        let asked = self.request_approved_prompt(name, arguments).await?;
        convert_prompt_messages(&self.link.server.name, name, asked)
    }

    /// Fetches a prompt, if the server still offers it as pinned.
    ///
    /// # Errors
    /// Reason, phrased to follow "the server".
    pub(crate) async fn request_approved_prompt(
        &self,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<GetPromptResult, String> {
        if !self.link.has_pinned_prompt(name) {
            let quoted = escape_and_truncate_line(name, MAX_QUOTED_URI_BYTES);
            return Err(format!("has no prompt `{quoted}` that you approved"));
        }
        let connection = self.link.connect_and_check_approval().await?;
        // Check this now, because `connect_and_check_approval` may have found that the prompt
        // differs from the approved one.
        if let Some(why) = self.link.withheld_prompt_reason(name) {
            let server = &self.link.server.name;
            return Err(format!(
                "does not offer the prompt that you approved: {why}; run `rind mcp test {server}`"
            ));
        }
        self.with_call_timeout(connection.get_prompt(name, arguments))
            .await
    }

    async fn read_resource_content(&self, uri: &str) -> FetchedPromptOrResourceResult {
        convert_resource_contents(uri, self.request_listed_resource(uri).await?)
    }

    /// Reads a resource, if the server lists its URI or a template that the URI matches.
    ///
    /// # Errors
    /// Reason, phrased to follow "the server".
    pub(crate) async fn request_listed_resource(
        &self,
        uri: &str,
    ) -> Result<Vec<ResourceContents>, String> {
        let quoted = escape_and_truncate_line(uri, MAX_QUOTED_URI_BYTES);
        check_resource_uri(uri)
            .map_err(|why| format!("was not asked for the resource: the URI `{quoted}` {why}"))?;
        let is_listed = self
            .cached_resource_list(MAX_RESOURCE_LIST_CACHE_AGE)
            .await?
            .contains_uri(uri);
        // List the resources again, because this resource may be newer than the cached list.
        if !is_listed
            && !self
                .cached_resource_list(Duration::ZERO)
                .await?
                .contains_uri(uri)
        {
            return Err(format!(
                "lists neither the resource `{quoted}` nor a template that it matches"
            ));
        }
        let connection = self.link.connect_and_check_approval().await?;
        self.with_call_timeout(connection.read_resource(uri)).await
    }

    async fn request_input_completions(
        &self,
        begun: &InputCompletionRequest,
    ) -> Result<Vec<String>, String> {
        let list = match begun {
            InputCompletionRequest::Address(_) => {
                self.cached_resource_list(MAX_RESOURCE_LIST_CACHE_AGE)
                    .await?
            }
            InputCompletionRequest::Argument { .. } => Arc::default(),
        };
        let connection = self.link.connect_and_check_approval().await?;
        if let InputCompletionRequest::Argument { prompt, .. } = begun
            && let Some(why) = self.link.withheld_prompt_reason(prompt)
        {
            return Err(format!(
                "does not offer the prompt that you approved: {why}"
            ));
        }
        let asked = request_value_completions(&connection, begun, &list);
        match tokio::time::timeout(ARGUMENT_COMPLETION_TIMEOUT, asked).await {
            Ok(answered) => answered.map_err(McpRequestError::into_error_phrase),
            Err(_) => Err(format!(
                "sent no completions of the typed text within {} s",
                ARGUMENT_COMPLETION_TIMEOUT.as_secs()
            )),
        }
    }

    /// Returns the list of resources, from the cache if the cached list is younger than `age`.
    async fn cached_resource_list(
        &self,
        age: Duration,
    ) -> Result<Arc<ServerResourcesAndTemplates>, String> {
        self.link.check_not_entirely_withheld()?;
        let mut listed = self.listed.lock().await;
        if let Some((at, list)) = &*listed
            && at.elapsed() < age
        {
            return Ok(list.clone());
        }
        let connection = self.link.connect_and_check_approval().await?;
        let list = Arc::new(connection.list_resources().await?);
        *listed = Some((Instant::now(), list.clone()));
        Ok(list)
    }

    /// Limits the duration of a request to the server's timeout for tool calls.
    async fn with_call_timeout<T>(
        &self,
        asked: impl Future<Output = Result<T, McpRequestError>>,
    ) -> Result<T, String> {
        let timeout = self.link.server.call_timeout();
        match tokio::time::timeout(timeout, asked).await {
            Ok(answered) => answered.map_err(McpRequestError::into_error_phrase),
            Err(_) => Err(format!(
                "did not answer in {} s (`timeout_seconds` of its settings)",
                timeout.as_secs()
            )),
        }
    }
}

type FetchedPromptOrResourceResult = Result<FetchedPromptOrResource, String>;

impl PromptResourceProvider for ServerPromptAndResourceFetcher {
    fn fetch_prompt<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
    ) -> BoxFuture<'a, FetchedPromptOrResourceResult> {
        Box::pin(self.fetch_prompt_content(name, arguments))
    }

    fn list_resources(&self) -> BoxFuture<'_, Result<Vec<ListedResource>, String>> {
        Box::pin(async {
            Ok(self
                .cached_resource_list(MIN_RESOURCE_RELIST_INTERVAL)
                .await?
                .resource_suggestions_for_user())
        })
    }

    fn read_resource<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, FetchedPromptOrResourceResult> {
        Box::pin(self.read_resource_content(uri))
    }

    fn suggest_completions<'a>(
        &'a self,
        begun: &'a InputCompletionRequest,
    ) -> BoxFuture<'a, Result<Vec<String>, String>> {
        Box::pin(self.request_input_completions(begun))
    }
}

/// Converts the messages of a prompt into images and one text, which begins with a note that the
/// server wrote it.
fn convert_prompt_messages(
    server: &str,
    name: &str,
    asked: GetPromptResult,
) -> FetchedPromptOrResourceResult {
    let n_messages = asked.messages.len();
    if n_messages > MAX_MESSAGES_PER_PROMPT {
        return Err(format!(
            "answered with a prompt of {n_messages} messages, more than the maximum of {MAX_MESSAGES_PER_PROMPT}"
        ));
    }
    let has_roles = asked.messages.iter().any(|own| own.role != Role::User);
    let mut material = FetchedPromptOrResource::default();
    let mut texts = Vec::new();
    for message in asked.messages {
        let (parts, bytes) = result::convert_content_block(message.content);
        let parts = parts.iter().filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            _ => None,
        });
        let text = parts.collect::<Vec<_>>().join("\n");
        for image in bytes {
            let image = PromptImageAttachment::image(image);
            let image = image.map_err(|why| format!("answered with an image: {why}"))?;
            material.images.push(image);
        }
        match (has_roles, message.role) {
            _ if text.trim().is_empty() => {}
            (false, _) => texts.push(text),
            (true, Role::User) => texts.push(format!("User:\n{text}")),
            (true, _) => texts.push(format!("Assistant:\n{text}")),
        }
    }
    let text = texts.join("\n\n");
    if text.is_empty() && material.images.is_empty() {
        return Err("answered with an empty prompt".to_owned());
    }
    if text.len() > MAX_TEXT_BYTES_PER_ANSWER {
        return Err(format!(
            "answered with a prompt of more than {} KiB",
            MAX_TEXT_BYTES_PER_ANSWER >> 10
        ));
    }
    let name = escape_and_truncate_line(name, MAX_QUOTED_URI_BYTES);
    material.text = format!(
        "[The user ran the prompt `{name}` of the MCP server {server}; the server wrote the text of it]\n\n{text}"
    );
    Ok(material)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn material(messages: Value) -> FetchedPromptOrResourceResult {
        let asked = serde_json::from_value(json!({"messages": messages})).unwrap();
        convert_prompt_messages("docs", "p\u{1b}[2J", asked)
    }

    fn message(role: &str, text: &str) -> Value {
        json!({"role": role, "content": {"type": "text", "text": text}})
    }

    #[test]
    fn the_messages_of_a_prompt_are_one_text_with_its_origin() {
        let one = material(json!([
            message("user", "Review it."),
            message("user", "Now.")
        ]));
        let text = one.unwrap().text;
        assert!(text.starts_with("[The user ran the prompt `p"), "{text}");
        assert!(text.contains("of the MCP server docs"), "{text}");
        assert!(text.ends_with("]\n\nReview it.\n\nNow."), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        let both = material(json!([message("user", "a"), message("assistant", "b")]));
        assert!(both.unwrap().text.ends_with("User:\na\n\nAssistant:\nb"));
        let resource = json!({"role": "user", "content": {"type": "resource",
            "resource": {"uri": "a://b", "text": "inner"}}});
        assert!(
            material(json!([resource]))
                .unwrap()
                .text
                .ends_with("[resource `a://b`]\ninner")
        );
    }

    #[test]
    fn a_prompt_that_is_empty_or_too_large_is_refused() {
        for (messages, expected) in [
            (json!([]), "empty prompt"),
            (json!([message("user", "  ")]), "empty prompt"),
            (
                json!([message("user", &"x".repeat(MAX_TEXT_BYTES_PER_ANSWER + 1))]),
                "more than 256 KiB",
            ),
            (json!(vec![message("user", "x"); 101]), "101 messages"),
        ] {
            let why = material(messages).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }
}

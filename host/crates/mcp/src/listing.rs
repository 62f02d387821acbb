//! Sends requests for prompts and resources on an open connection: lists them, and fetches single
//! ones.
//!
//! A list is requested only if the server declares the capability. The size of a list is checked
//! page by page while it is read.

use std::time::Duration;

use rmcp::ServiceError;
use rmcp::model::{
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, JsonObject, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ResourceContents,
};

use super::client::{McpRequestError, McpServerConnection};
use super::offer::ToolAndPromptSizeCounter;
use super::prompt::{MAX_PROMPTS_PER_SERVER, OfferedArgument, OfferedPrompt};
use super::resource::ServerResourcesAndTemplates;
use rind_lib::host::ListedResource;

/// Maximum number of pages in which a server can send one list.
const MAX_PAGES_PER_LIST: usize = 200;

/// Timeout for listing all tools, all prompts, or all resources.
const MCP_LIST_FETCH_TIMEOUT: Duration = Duration::from_secs(30);

/// Error text for a server that, instead of answering, asks for more input.
const UNSUPPORTED_INPUT_REQUEST_ERROR: &str =
    "asks for more input, which this host does not support here";

impl McpServerConnection {
    /// Lists the prompts; empty if the server does not declare prompts.
    ///
    /// # Errors
    /// Reason, phrased to follow "the server".
    pub(crate) async fn list_prompts(&self) -> Result<Vec<OfferedPrompt>, String> {
        if !self.declares_capability(|own| own.prompts.is_some()) {
            return Ok(Vec::new());
        }
        with_listing_timeout("prompts", self.request_all_prompts()).await
    }

    async fn request_all_prompts(&self) -> Result<Vec<OfferedPrompt>, String> {
        let (mut budget, mut listed) = (ToolAndPromptSizeCounter::default(), Vec::new());
        let ask = |page| self.request_sender().list_prompts(Some(page));
        self.request_list_pages("prompts", ask, |page| {
            for prompt in page.prompts {
                if listed.len() == MAX_PROMPTS_PER_SERVER {
                    return Err(format!("offers more than {MAX_PROMPTS_PER_SERVER} prompts"));
                }
                let arguments = prompt.arguments.unwrap_or_default().into_iter();
                let prompt = OfferedPrompt {
                    name: prompt.name,
                    title: prompt.title,
                    description: prompt.description.unwrap_or_default(),
                    arguments: arguments
                        .map(|own| OfferedArgument {
                            name: own.name,
                            description: own.description.or(own.title).unwrap_or_default(),
                            required: own.required == Some(true),
                        })
                        .collect(),
                };
                budget.count_bytes_within_limit(prompt.total_text_bytes())?;
                listed.push(prompt);
            }
            Ok(page.next_cursor)
        })
        .await?;
        Ok(listed)
    }

    /// Fetches a prompt. Dropping the future sends a cancellation to the server.
    pub(crate) async fn get_prompt(
        &self,
        prompt: &str,
        arguments: JsonObject,
    ) -> Result<GetPromptResult, McpRequestError> {
        let asked = GetPromptRequestParams::new(prompt.to_owned()).with_arguments(arguments);
        match self.request_sender().get_prompt_once(asked).await {
            Ok(GetPromptResponse::Complete(result)) => Ok(result),
            Ok(_) => Err(McpRequestError::Refused(
                UNSUPPORTED_INPUT_REQUEST_ERROR.to_owned(),
            )),
            Err(error) => Err(self.classify_request_error(error).await),
        }
    }

    /// Lists the resources and resource templates; empty if the server does not declare resources.
    ///
    /// # Errors
    /// Reason, phrased to follow "the server".
    pub(crate) async fn list_resources(&self) -> Result<ServerResourcesAndTemplates, String> {
        if !self.declares_capability(|own| own.resources.is_some()) {
            return Ok(ServerResourcesAndTemplates::default());
        }
        let mut list = ServerResourcesAndTemplates::default();
        with_listing_timeout("resources", self.request_resources(&mut list)).await?;
        // Ignore a failure to list templates: many servers have resources but do not implement this
        // request.
        let mut with_templates = list.clone();
        let added = self.request_resource_templates(&mut with_templates);
        match with_listing_timeout("templates of resources", added).await {
            Ok(()) => Ok(with_templates),
            Err(why) => {
                tracing::debug!(server = self.server_name(), "it {why}");
                Ok(list)
            }
        }
    }

    async fn request_resources(
        &self,
        list: &mut ServerResourcesAndTemplates,
    ) -> Result<(), String> {
        let ask = |page| self.request_sender().list_resources(Some(page));
        self.request_list_pages("resources", ask, |page| {
            for own in page.resources {
                let about = own.description.or(own.title);
                list.add_listed_resource(ListedResource {
                    uri: own.uri,
                    template: None,
                    description: about.unwrap_or_else(|| own.name.clone()),
                    name: own.name,
                    media_type: own.mime_type,
                })?;
            }
            Ok(page.next_cursor)
        })
        .await
    }

    async fn request_resource_templates(
        &self,
        list: &mut ServerResourcesAndTemplates,
    ) -> Result<(), String> {
        let ask = |page| self.request_sender().list_resource_templates(Some(page));
        self.request_list_pages("templates", ask, |page| {
            for own in page.resource_templates {
                let about = own.description.or(own.title);
                list.add_listed_resource(ListedResource {
                    uri: String::new(),
                    template: Some(own.uri_template),
                    description: about.unwrap_or_else(|| own.name.clone()),
                    name: own.name,
                    media_type: own.mime_type,
                })?;
            }
            Ok(page.next_cursor)
        })
        .await
    }

    /// Requests the pages of a list and passes each to `take`, which returns the cursor of the next
    /// page.
    ///
    /// # Errors
    /// The server fails, `take` refuses a page, or there are too many pages; phrased to follow
    /// "the server".
    pub(crate) async fn request_list_pages<P, F>(
        &self,
        listed: &str,
        ask: impl Fn(PaginatedRequestParams) -> F,
        mut take: impl FnMut(P) -> Result<Option<String>, String>,
    ) -> Result<(), String>
    where
        F: Future<Output = Result<P, ServiceError>>,
    {
        let mut cursor = None;
        for _ in 0..MAX_PAGES_PER_LIST {
            let page = match ask(PaginatedRequestParams::default().with_cursor(cursor)).await {
                Ok(page) => page,
                Err(error) => {
                    return Err(self.classify_request_error(error).await.into_error_phrase());
                }
            };
            cursor = take(page)?.filter(|cursor| !cursor.is_empty());
            if cursor.is_none() {
                return Ok(());
            }
        }
        Err(format!(
            "lists its {listed} on more than {MAX_PAGES_PER_LIST} pages"
        ))
    }

    /// Reads a resource. Dropping the future sends a cancellation to the server.
    pub(crate) async fn read_resource(
        &self,
        uri: &str,
    ) -> Result<Vec<ResourceContents>, McpRequestError> {
        let asked = ReadResourceRequestParams::new(uri.to_owned());
        match self.request_sender().read_resource_once(asked).await {
            Ok(ReadResourceResponse::Complete(result)) => Ok(result.contents),
            Ok(_) => Err(McpRequestError::Refused(
                UNSUPPORTED_INPUT_REQUEST_ERROR.to_owned(),
            )),
            Err(error) => Err(self.classify_request_error(error).await),
        }
    }
}

/// Applies [`MCP_LIST_FETCH_TIMEOUT`] to a listing.
pub(crate) async fn with_listing_timeout<T>(
    what: &str,
    listed: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let listed = tokio::time::timeout(MCP_LIST_FETCH_TIMEOUT, listed).await;
    listed.unwrap_or_else(|_| {
        Err(format!(
            "did not list its {what} in {} s",
            MCP_LIST_FETCH_TIMEOUT.as_secs()
        ))
    })
}

//! Lists the tools of a server. Number and size are checked after each page.
//!
//! A tool that cannot be parsed is skipped and the reason recorded. Start from
//! [`McpServerConnection::list_tools`].

use rmcp::ServiceError;
use rmcp::model::{
    ClientRequest, CustomResult, ListToolsRequest, PaginatedRequestParams, ServerResult, Tool,
};
use serde_json::Value;

use super::client::McpServerConnection;
use super::listing::with_listing_timeout;
use super::offer::{OfferedTool, ToolAndPromptSizeCounter};
use rind_lib::text::escape_and_truncate_line;

/// Maximum length of the name of an unreadable tool, and of the reason, in bytes.
const MAX_QUOTED_TOOL_NAME_OR_REASON_BYTES: usize = 200;

/// Page of the tool list that a server returns.
struct ToolListPage {
    tools: Vec<Tool>,
    /// Tools in the server's list that cannot be parsed, each with the reason.
    unread: Vec<String>,
    next_cursor: Option<String>,
}

impl McpServerConnection {
    /// Lists the tools, and the reasons why others cannot be parsed.
    ///
    /// # Errors
    /// The server fails or offers too much; phrased to follow "the server".
    pub(crate) async fn list_tools(&self) -> Result<(Vec<OfferedTool>, Vec<String>), String> {
        with_listing_timeout("tools", self.request_all_tools()).await
    }

    async fn request_all_tools(&self) -> Result<(Vec<OfferedTool>, Vec<String>), String> {
        let (mut budget, mut listed) = (ToolAndPromptSizeCounter::default(), Vec::new());
        let mut unread = Vec::new();
        let ask = |page| self.request_tool_page(page);
        self.request_list_pages("tools", ask, |page| {
            for why in page.unread {
                budget.count_unreadable_tool_within_limit(&why)?;
                unread.push(why);
            }
            for tool in page.tools {
                let tool = OfferedTool::from(tool);
                budget.count_tool_within_limit(&tool)?;
                listed.push(tool);
            }
            Ok(page.next_cursor)
        })
        .await?;
        Ok((listed, unread))
    }

    /// Requests one page of the server's tool list.
    async fn request_tool_page(
        &self,
        page: PaginatedRequestParams,
    ) -> Result<ToolListPage, ServiceError> {
        match self.request_sender().list_tools(Some(page.clone())).await {
            Ok(page) => Ok(ToolListPage {
                tools: page.tools,
                unread: Vec::new(),
                next_cursor: page.next_cursor,
            }),
            // The library rejects a complete page if a single tool violates the protocol. Request
            // such a page again as plain JSON.
            Err(ServiceError::UnexpectedResponse) => {
                let asked = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(page));
                match self.request_sender().send_request(asked).await? {
                    ServerResult::CustomResult(CustomResult(page)) => {
                        parse_tool_page(page).ok_or(ServiceError::UnexpectedResponse)
                    }
                    _ => Err(ServiceError::UnexpectedResponse),
                }
            }
            Err(error) => Err(error),
        }
    }
}

/// Parses a page of a server's tool list, tool by tool; `None` if it is not a list of tools.
fn parse_tool_page(mut page: Value) -> Option<ToolListPage> {
    let Value::Array(listed) = page.get_mut("tools")?.take() else {
        return None;
    };
    let (mut tools, mut unread) = (Vec::new(), Vec::new());
    for own in listed {
        let name = own["name"].as_str().unwrap_or_default();
        let name = escape_and_truncate_line(name, MAX_QUOTED_TOOL_NAME_OR_REASON_BYTES);
        match serde_json::from_value(own) {
            Ok(tool) => tools.push(tool),
            Err(error) => unread.push(format!(
                "`{name}`: its description does not follow the protocol: {}",
                escape_and_truncate_line(&error.to_string(), MAX_QUOTED_TOOL_NAME_OR_REASON_BYTES)
            )),
        }
    }
    let next_cursor = page["nextCursor"].as_str().map(str::to_owned);
    Some(ToolListPage {
        tools,
        unread,
        next_cursor,
    })
}

impl From<Tool> for OfferedTool {
    fn from(tool: Tool) -> Self {
        Self {
            name: tool.name.into_owned(),
            title: tool.title,
            description: tool.description.map_or_else(String::new, Into::into),
            input_schema: Value::Object(tool.input_schema.as_ref().clone()),
            output_schema: tool
                .output_schema
                .map(|own| Value::Object(own.as_ref().clone())),
            annotations: tool
                .annotations
                .and_then(|claims| serde_json::to_value(claims).ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_that_cannot_be_read_costs_only_itself() {
        let page = parse_tool_page(json!({
            "tools": [
                {"name": "fine", "inputSchema": {"type": "object"}},
                {"name": "a\u{1b}[2J", "inputSchema": "text"},
                {"name": "none"},
                7,
            ],
            "nextCursor": "2",
        }));
        let page = page.unwrap();
        assert_eq!(page.tools.len(), 1);
        assert_eq!(page.unread.len(), 3, "{:?}", page.unread);
        assert!(page.unread[0].starts_with("`a\\u{1b}[2J`: its description does not"));
        assert_eq!(page.next_cursor.as_deref(), Some("2"));
        assert!(parse_tool_page(json!({"tools": {}})).is_none());
        assert!(parse_tool_page(json!([])).is_none());
    }
}

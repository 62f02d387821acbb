//! Names of the tools of MCP servers in the host: `mcp__SERVER__TOOL`.
//!
//! Servers may use longer names and other characters than model providers accept, so names are
//! converted. Start from [`qualified_tool_name`].

use rind_lib::tool::registry::MAX_TOOL_NAME_BYTES;

/// Returns the origin of the tools of a server: `mcp:NAME`.
#[must_use]
pub fn mcp_tool_source_name(server: &str) -> String {
    format!("mcp:{server}")
}

/// Number of hex digits of the hash that makes a truncated name unique.
const TRUNCATED_NAME_HASH_HEX_DIGITS: usize = 8;

/// Returns the name of a tool in the host. Characters that providers refuse become `_`; a name that
/// is too long is truncated and ends in digits of a hash of the tool's name.
///
/// For example:
///
/// ```text
/// docs, search          mcp__docs__search
/// docs, a.b/c           mcp__docs__a_b_c
/// docs, 80 letters      mcp__docs__aaaa…aaaa_1f2e3d4c
/// ```
pub(crate) fn qualified_tool_name(server: &str, tool: &str) -> String {
    let fitted: String = tool
        .chars()
        .map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => c,
            _ => '_',
        })
        .collect();
    let whole = format!("mcp__{server}__{fitted}");
    if whole.len() <= MAX_TOOL_NAME_BYTES && !tool.is_empty() {
        return whole;
    }
    let hash = blake3::hash(tool.as_bytes()).to_hex();
    let digits = hash
        .get(..TRUNCATED_NAME_HASH_HEX_DIGITS)
        .unwrap_or_default();
    let most = MAX_TOOL_NAME_BYTES - TRUNCATED_NAME_HASH_HEX_DIGITS - 1;
    // The name is ASCII, so it can be truncated at any byte.
    let head = whole.get(..most).unwrap_or(&whole);
    format!("{head}_{digits}")
}

/// Kind of server content, prompt or resource, that clients fetch through an internal tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromptOrResourceKind {
    Prompt,
    Resource,
}

/// Returns the name of the internal tool that fetches prompts or resources of a server, such as
/// `mcp__docs_read_resource`. No tool of a server has this name: a server's name contains no `_`,
/// and the names of its tools have `__` after the server's name.
pub(crate) fn prompt_or_resource_tool_name(server: &str, kind: PromptOrResourceKind) -> String {
    let what = match kind {
        PromptOrResourceKind::Prompt => "get_prompt",
        PromptOrResourceKind::Resource => "read_resource",
    };
    format!("mcp__{server}_{what}")
}

/// Whether a tool's name is one that [`prompt_or_resource_tool_name`] returns.
pub(crate) fn is_prompt_or_resource_tool(name: &str) -> bool {
    let server_and_more = name.strip_prefix("mcp__");
    let parted = server_and_more.and_then(|own| own.split_once('_'));
    parted.is_some_and(|(_, more)| matches!(more, "get_prompt" | "read_resource"))
}

#[cfg(test)]
mod tests {
    use rind_lib::tool::registry::is_valid_tool_name;

    use super::*;

    #[test]
    fn no_tool_of_a_server_has_the_name_of_one_that_fetches_material() {
        for kind in [PromptOrResourceKind::Prompt, PromptOrResourceKind::Resource] {
            let own = prompt_or_resource_tool_name("my-docs", kind);
            assert!(
                is_valid_tool_name(&own) && is_prompt_or_resource_tool(&own),
                "{own}"
            );
        }
        for tool in [
            "get_prompt",
            "_get_prompt",
            "read_resource",
            "x_read_resource",
            "",
        ] {
            assert!(
                !is_prompt_or_resource_tool(&qualified_tool_name("docs", tool)),
                "{tool}"
            );
        }
    }

    #[test]
    fn names_fit_every_provider_and_long_ones_stay_apart() {
        let long = "x".repeat(200);
        let other = format!("{long}y");
        let names = ["search", "a.b/c", "é\u{1b}[2J", "", &long, &other];
        let fitted: Vec<String> = names
            .iter()
            .map(|name| qualified_tool_name("docs", name))
            .collect();
        assert!(
            fitted.iter().all(|name| is_valid_tool_name(name)),
            "{fitted:?}"
        );
        assert_eq!(fitted[0], "mcp__docs__search");
        assert_eq!(fitted[1], "mcp__docs__a_b_c");
        assert_ne!(fitted[4], fitted[5]);
        assert_eq!(fitted[4], qualified_tool_name("docs", &long));
    }
}

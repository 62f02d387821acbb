//! Stores the resource lists of several MCP servers. Finds the server that owns a URI, and selects
//! the resources that clients see.
//!
//! The module must not know sessions or calls. Start from
//! [`UpstreamResourceLists::server_that_lists_uri`].

use std::collections::{BTreeMap, BTreeSet};

use crate::resource::{check_resource_uri, matches_uri_template};
use rind_lib::host::ListedResource;
use rind_lib::secret::SecretScanner;

/// Maximum size of all texts in the list for clients, in bytes. Each server gets an equal share.
const MAX_RESOURCE_LIST_TEXT_BYTES: usize = 4 << 20;

/// URI scheme of skills. The host serves these itself.
const SKILL_URI_SCHEME: &str = "skill";

/// Resources and resource templates that one upstream MCP server lists.
pub(super) struct UpstreamServerResourceList {
    /// Name of the MCP server.
    pub(super) server: String,
    /// Resources and templates, or the reason why the server did not list them, phrased to follow
    /// "the server".
    pub(super) listed: Result<Vec<ListedResource>, String>,
}

/// Resources and resource templates of upstream MCP servers, which Rind forwards to its own
/// clients.
#[derive(Default)]
pub(super) struct UpstreamResourceLists(Vec<UpstreamServerResourceList>);

/// Reason why a URI is not requested from any server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ResourceUriServerLookupError {
    /// No MCP server lists the URI.
    Nobody,
    /// Several MCP servers list the URI, among them these two.
    Several(String, String),
    /// A server did not list its resources, so it may have the URI; contains the server's name and
    /// the reason.
    Unknown(String, String),
}

impl UpstreamResourceLists {
    /// Creates the value from the lists of all servers. Removes URIs of skills, which the host
    /// serves itself.
    pub(super) fn new(mut all: Vec<UpstreamServerResourceList>) -> Self {
        for listed in all.iter_mut().filter_map(|own| own.listed.as_mut().ok()) {
            listed.retain(|own| !is_skill_uri(resource_uri_or_template(own)));
        }
        Self(all)
    }

    /// Returns the name of the only server that lists a URI, or a template that matches it. Fails
    /// if a server did not list its resources, because that server may own the URI too.
    ///
    /// # Errors
    /// No server, several servers, or an unknown number of servers list the URI.
    pub(super) fn server_that_lists_uri(
        &self,
        uri: &str,
    ) -> Result<&str, ResourceUriServerLookupError> {
        if check_resource_uri(uri).is_err() || is_skill_uri(uri) {
            return Err(ResourceUriServerLookupError::Nobody);
        }
        let has = |own: &ListedResource| match &own.template {
            None => own.uri == uri,
            Some(template) => matches_uri_template(template, uri),
        };
        let mut owners: BTreeSet<&str> = BTreeSet::new();
        let mut missing = None;
        for own in &self.0 {
            match &own.listed {
                Ok(listed) if listed.iter().any(has) => {
                    owners.insert(&own.server);
                }
                Ok(_) => {}
                Err(why) => {
                    missing = Some(ResourceUriServerLookupError::Unknown(
                        own.server.clone(),
                        why.clone(),
                    ))
                }
            }
        }
        let mut owners = owners.into_iter();
        match (owners.next(), owners.next(), missing) {
            (Some(first), Some(second), _) => Err(ResourceUriServerLookupError::Several(
                first.to_owned(),
                second.to_owned(),
            )),
            (_, _, Some(missing)) => Err(missing),
            (Some(owner), None, None) => Ok(owner),
            (None, _, None) => Err(ResourceUriServerLookupError::Nobody),
        }
    }

    /// Returns the resources that clients see, each once. Excludes URIs that several servers list.
    /// Excludes URIs with a secret too: the secret is masked, so a client could not request them.
    pub(super) fn resources_for_clients(&self) -> Vec<&ListedResource> {
        self.select_listed_resources(|own| own.template.is_none())
    }

    /// Returns the templates that clients see, by the rules of [`Self::resources_for_clients`].
    pub(super) fn templates_for_clients(&self) -> Vec<&ListedResource> {
        self.select_listed_resources(|own| own.template.is_some())
    }

    /// Returns the name and the list of each server that listed its resources.
    fn resource_lists_by_server(&self) -> impl Iterator<Item = (&str, &[ListedResource])> {
        let known = self.0.iter();
        known.filter_map(|own| Some((own.server.as_str(), own.listed.as_ref().ok()?.as_slice())))
    }

    fn select_listed_resources(
        &self,
        is_wanted: impl Fn(&ListedResource) -> bool,
    ) -> Vec<&ListedResource> {
        let mut owners: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (server, listed) in self.resource_lists_by_server() {
            for own in listed.iter().filter(|own| is_wanted(own)) {
                owners
                    .entry(resource_uri_or_template(own))
                    .or_default()
                    .insert(server);
            }
        }
        let share = MAX_RESOURCE_LIST_TEXT_BYTES / self.0.len().max(1);
        let mut shown = Vec::new();
        for (server, listed) in self.resource_lists_by_server() {
            let mut n_bytes = 0_usize;
            for own in listed.iter().filter(|own| is_wanted(own)) {
                let address = resource_uri_or_template(own);
                // Show a resource once, even if its server lists it twice.
                let is_first = owners.remove(address).is_some_and(|own| own.len() == 1);
                if !is_first || !SecretScanner::shared().find_secrets(address).is_empty() {
                    continue;
                }
                n_bytes += address.len() + own.name.len() + own.description.len();
                if n_bytes > share {
                    tracing::warn!(
                        "the resources of the MCP server `{server}` take more than {} KiB in a list, so they are not all listed",
                        share >> 10
                    );
                    break;
                }
                shown.push(own);
            }
        }
        shown
    }
}

/// Returns the URI of a resource, or the text of a template.
fn resource_uri_or_template(own: &ListedResource) -> &str {
    own.template.as_ref().unwrap_or(&own.uri)
}

fn is_skill_uri(address: &str) -> bool {
    let scheme = address.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|own| own.eq_ignore_ascii_case(SKILL_URI_SCHEME))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the list of a server that has these URIs and templates.
    fn server(name: &str, addresses: &[&str]) -> UpstreamServerResourceList {
        let listed = addresses.iter().map(|address| ListedResource {
            uri: (*address).to_owned(),
            template: address.contains('{').then(|| (*address).to_owned()),
            ..ListedResource::default()
        });
        UpstreamServerResourceList {
            server: name.to_owned(),
            listed: Ok(listed.collect()),
        }
    }

    fn failed(name: &str) -> UpstreamServerResourceList {
        UpstreamServerResourceList {
            server: name.to_owned(),
            listed: Err("hangs".to_owned()),
        }
    }

    fn select_listed(lists: &UpstreamResourceLists) -> Vec<&str> {
        let resources = lists.resources_for_clients().into_iter();
        let all = resources.chain(lists.templates_for_clients());
        all.map(resource_uri_or_template).collect()
    }

    #[test]
    fn an_address_is_of_one_server_or_of_none() {
        let lists = UpstreamResourceLists::new(vec![
            server(
                "a",
                &["x://one", "x://both", "x://twice", "x://twice", "y://7"],
            ),
            server("b", &["x://both", "y://{id}", "z://{id}"]),
        ]);
        let several = |first: &str, second: &str| {
            Err(ResourceUriServerLookupError::Several(
                first.to_owned(),
                second.to_owned(),
            ))
        };
        for (uri, expected) in [
            ("x://one", Ok("a")),
            ("x://twice", Ok("a")),
            ("z://1", Ok("b")),
            ("x://both", several("a", "b")),
            // An exactly listed URI does not take precedence over a template of another server.
            ("y://7", several("a", "b")),
            ("y://8", Ok("b")),
            ("x://none", Err(ResourceUriServerLookupError::Nobody)),
            ("z://1\u{1b}", Err(ResourceUriServerLookupError::Nobody)),
        ] {
            assert_eq!(lists.server_that_lists_uri(uri), expected, "{uri}");
        }
        assert_eq!(
            select_listed(&lists),
            ["x://one", "x://twice", "y://7", "y://{id}", "z://{id}"]
        );
    }

    #[test]
    fn while_the_list_of_a_server_is_missing_no_other_server_gets_its_addresses() {
        let lists = UpstreamResourceLists::new(vec![server("a", &["x://one"]), failed("b")]);
        let unknown = Err(ResourceUriServerLookupError::Unknown(
            "b".to_owned(),
            "hangs".to_owned(),
        ));
        assert_eq!(lists.server_that_lists_uri("x://one"), unknown);
        assert_eq!(lists.server_that_lists_uri("x://two"), unknown);
        assert_eq!(select_listed(&lists), ["x://one"]);
    }

    #[test]
    fn no_server_has_the_addresses_of_skills() {
        let own = ["skill://pdf/SKILL.md", "Skill://{+any}", "skills://x"];
        let lists = UpstreamResourceLists::new(vec![server("a", &own)]);
        assert_eq!(select_listed(&lists), ["skills://x"]);
        assert_eq!(
            lists.server_that_lists_uri("skill://pdf/SKILL.md"),
            Err(ResourceUriServerLookupError::Nobody)
        );
    }

    #[test]
    fn a_long_list_costs_only_its_own_server_and_hides_no_owner() {
        let long: Vec<String> = (0..4_000)
            .map(|n| format!("x://{n}/{}", "y".repeat(1_000)))
            .collect();
        let mut addresses: Vec<&str> = long.iter().map(String::as_str).collect();
        addresses.push("x://last");
        let lists = UpstreamResourceLists::new(vec![
            server("a", &addresses),
            server("b", &["x://last", "x://other"]),
        ]);
        let shown = select_listed(&lists);
        let n_bytes: usize = shown.iter().map(|own| own.len()).sum();
        assert!(
            n_bytes <= MAX_RESOURCE_LIST_TEXT_BYTES / 2 + 100,
            "{n_bytes}"
        );
        assert_eq!(shown.last(), Some(&"x://other"));
        assert!(matches!(
            lists.server_that_lists_uri("x://last"),
            Err(ResourceUriServerLookupError::Several(..))
        ));
    }
}

//! Last listed resources of several MCP servers: which server owns a URI, and which resources
//! clients see.
//!
//! Does not depend on sessions and calls. Start from [`UpstreamLists::owner_of`].

use std::collections::{BTreeMap, BTreeSet};

use crate::resource::{check_uri, fits_template};
use rind_lib::host::ListedResource;
use rind_lib::secret::Scanner;

/// Maximum size of the texts in a list, in bytes, divided equally among the servers.
const MAX_LISTED_BYTES: usize = 4 << 20;

/// URI scheme of skills. The host serves these itself.
const SKILL_SCHEME: &str = "skill";

/// Resources and templates of one server.
pub(super) struct ServerList {
    /// Name of the server.
    pub(super) server: String,
    /// Resources and templates, or the reason why they are not known, phrased to follow "it".
    pub(super) listed: Result<Vec<ListedResource>, String>,
}

/// Resources and templates of all servers that are passed on.
#[derive(Default)]
pub(super) struct UpstreamLists(Vec<ServerList>);

/// Reason why no server is asked for a URI.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoOwner {
    /// No server lists the URI.
    Nobody,
    /// Several servers list the URI, among them these two.
    Several(String, String),
    /// The list of this server is missing, for this reason, so the owner is unknown.
    Unknown(String, String),
}

impl UpstreamLists {
    /// Stores lists without URIs of skills, which the host serves itself.
    pub(super) fn new(mut all: Vec<ServerList>) -> Self {
        for listed in all.iter_mut().filter_map(|own| own.listed.as_mut().ok()) {
            listed.retain(|own| !is_of_skill(address_of(own)));
        }
        Self(all)
    }

    /// Returns the only server that lists a URI or a template that the URI matches. If the list of
    /// a server is missing, that server may be another owner, so the result is an error.
    ///
    /// # Errors
    /// No server, several servers, or an unknown number of servers list the URI.
    pub(super) fn owner_of(&self, uri: &str) -> Result<&str, NoOwner> {
        if check_uri(uri).is_err() || is_of_skill(uri) {
            return Err(NoOwner::Nobody);
        }
        let has = |own: &ListedResource| match &own.template {
            None => own.uri == uri,
            Some(template) => fits_template(template, uri),
        };
        let mut owners: BTreeSet<&str> = BTreeSet::new();
        let mut missing = None;
        for own in &self.0 {
            match &own.listed {
                Ok(listed) if listed.iter().any(has) => {
                    owners.insert(&own.server);
                }
                Ok(_) => {}
                Err(why) => missing = Some(NoOwner::Unknown(own.server.clone(), why.clone())),
            }
        }
        let mut owners = owners.into_iter();
        match (owners.next(), owners.next(), missing) {
            (Some(first), Some(second), _) => {
                Err(NoOwner::Several(first.to_owned(), second.to_owned()))
            }
            (_, _, Some(missing)) => Err(missing),
            (Some(owner), None, None) => Ok(owner),
            (None, _, None) => Err(NoOwner::Nobody),
        }
    }

    /// Returns the resources to list, each once. Excludes URIs that several servers list, and URIs
    /// with a secret, because a client could not request them once the secret is masked.
    pub(super) fn shown_resources(&self) -> Vec<&ListedResource> {
        self.shown(|own| own.template.is_none())
    }

    /// Returns the templates to list, by the same rules as [`Self::shown_resources`].
    pub(super) fn shown_templates(&self) -> Vec<&ListedResource> {
        self.shown(|own| own.template.is_some())
    }

    /// Returns the servers whose lists are known, each with its list.
    fn known(&self) -> impl Iterator<Item = (&str, &[ListedResource])> {
        let known = self.0.iter();
        known.filter_map(|own| Some((own.server.as_str(), own.listed.as_ref().ok()?.as_slice())))
    }

    fn shown(&self, is_wanted: impl Fn(&ListedResource) -> bool) -> Vec<&ListedResource> {
        let mut owners: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (server, listed) in self.known() {
            for own in listed.iter().filter(|own| is_wanted(own)) {
                owners.entry(address_of(own)).or_default().insert(server);
            }
        }
        let share = MAX_LISTED_BYTES / self.0.len().max(1);
        let mut shown = Vec::new();
        for (server, listed) in self.known() {
            let mut n_bytes = 0_usize;
            for own in listed.iter().filter(|own| is_wanted(own)) {
                let address = address_of(own);
                // A resource that its server lists twice is shown once.
                let is_first = owners.remove(address).is_some_and(|own| own.len() == 1);
                if !is_first || !Scanner::shared().scan(address).is_empty() {
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
fn address_of(own: &ListedResource) -> &str {
    own.template.as_ref().unwrap_or(&own.uri)
}

fn is_of_skill(address: &str) -> bool {
    let scheme = address.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|own| own.eq_ignore_ascii_case(SKILL_SCHEME))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the list of a server that has these URIs and templates.
    fn server(name: &str, addresses: &[&str]) -> ServerList {
        let listed = addresses.iter().map(|address| ListedResource {
            uri: (*address).to_owned(),
            template: address.contains('{').then(|| (*address).to_owned()),
            ..ListedResource::default()
        });
        ServerList {
            server: name.to_owned(),
            listed: Ok(listed.collect()),
        }
    }

    fn failed(name: &str) -> ServerList {
        ServerList {
            server: name.to_owned(),
            listed: Err("hangs".to_owned()),
        }
    }

    fn shown(lists: &UpstreamLists) -> Vec<&str> {
        let resources = lists.shown_resources().into_iter();
        let all = resources.chain(lists.shown_templates());
        all.map(address_of).collect()
    }

    #[test]
    fn an_address_is_of_one_server_or_of_none() {
        let lists = UpstreamLists::new(vec![
            server(
                "a",
                &["x://one", "x://both", "x://twice", "x://twice", "y://7"],
            ),
            server("b", &["x://both", "y://{id}", "z://{id}"]),
        ]);
        let several =
            |first: &str, second: &str| Err(NoOwner::Several(first.to_owned(), second.to_owned()));
        for (uri, expected) in [
            ("x://one", Ok("a")),
            ("x://twice", Ok("a")),
            ("z://1", Ok("b")),
            ("x://both", several("a", "b")),
            // An exactly listed URI does not take precedence over a template of another server.
            ("y://7", several("a", "b")),
            ("y://8", Ok("b")),
            ("x://none", Err(NoOwner::Nobody)),
            ("z://1\u{1b}", Err(NoOwner::Nobody)),
        ] {
            assert_eq!(lists.owner_of(uri), expected, "{uri}");
        }
        assert_eq!(
            shown(&lists),
            ["x://one", "x://twice", "y://7", "y://{id}", "z://{id}"]
        );
    }

    #[test]
    fn while_the_list_of_a_server_is_missing_no_other_server_gets_its_addresses() {
        let lists = UpstreamLists::new(vec![server("a", &["x://one"]), failed("b")]);
        let unknown = Err(NoOwner::Unknown("b".to_owned(), "hangs".to_owned()));
        assert_eq!(lists.owner_of("x://one"), unknown);
        assert_eq!(lists.owner_of("x://two"), unknown);
        assert_eq!(shown(&lists), ["x://one"]);
    }

    #[test]
    fn no_server_has_the_addresses_of_skills() {
        let own = ["skill://pdf/SKILL.md", "Skill://{+any}", "skills://x"];
        let lists = UpstreamLists::new(vec![server("a", &own)]);
        assert_eq!(shown(&lists), ["skills://x"]);
        assert_eq!(lists.owner_of("skill://pdf/SKILL.md"), Err(NoOwner::Nobody));
    }

    #[test]
    fn a_long_list_costs_only_its_own_server_and_hides_no_owner() {
        let long: Vec<String> = (0..4_000)
            .map(|n| format!("x://{n}/{}", "y".repeat(1_000)))
            .collect();
        let mut addresses: Vec<&str> = long.iter().map(String::as_str).collect();
        addresses.push("x://last");
        let lists = UpstreamLists::new(vec![
            server("a", &addresses),
            server("b", &["x://last", "x://other"]),
        ]);
        let shown = shown(&lists);
        let n_bytes: usize = shown.iter().map(|own| own.len()).sum();
        assert!(n_bytes <= MAX_LISTED_BYTES / 2 + 100, "{n_bytes}");
        assert_eq!(shown.last(), Some(&"x://other"));
        assert!(matches!(
            lists.owner_of("x://last"),
            Err(NoOwner::Several(..))
        ));
    }
}

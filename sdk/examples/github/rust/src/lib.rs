//! Reads issues of GitHub. The token is a credential of the manifest: the host adds it to requests,
//! and this code never sees it.

#[rind_sdk::plugin]
mod plugin {
    use rind_sdk::http::{self, Request};
    use rind_sdk::prelude::*;

    /// Arguments of `github_issue`.
    #[args]
    struct Wanted {
        /// Repository, as `owner/name`.
        repo: String,
        /// Number of the issue.
        number: u32,
    }

    /// The fields of an issue that are shown.
    #[data]
    struct Issue {
        title: String,
        state: String,
        user: User,
        comments: u32,
        body: Option<String>,
    }

    #[data]
    struct User {
        login: String,
    }

    /// Answer of GitHub when it refuses.
    #[data]
    struct Refusal {
        message: String,
    }

    /// Reads an issue of a GitHub repository: its title, state, author and text.
    #[tool(effect = "external")]
    fn github_issue(wanted: Wanted) -> Result<String, Error> {
        let Wanted { repo, number } = wanted;
        if !is_repository(&repo) {
            return Err(Error::invalid(format!(
                "`{repo}` is no repository; write owner/name"
            )));
        }
        let url = format!("https://api.github.com/repos/{repo}/issues/{number}");
        let request = Request::get(url)
            .header("accept", "application/vnd.github+json")
            .header("user-agent", "rind-example");
        let response = http::send(&request)?;
        match response.status {
            200 => {}
            404 => {
                let text =
                    format!("there is no issue {number} in {repo}, or the token may not read it");
                return Err(Error::NotFound(text));
            }
            status => {
                let said = response.json::<Refusal>().map(|refusal| refusal.message);
                let said = said.unwrap_or_else(|_| "no reason".to_owned());
                return Err(Error::other(format!("GitHub answered {status}: {said}")));
            }
        }
        let issue: Issue = response.json()?;
        let text = issue.body.as_deref().unwrap_or("(no text)");
        Ok(format!(
            "{repo}#{number}: {} ({}, by {}, {} comments)\n\n{text}",
            issue.title, issue.state, issue.user.login, issue.comments
        ))
    }

    /// Two names that cannot lead elsewhere in the address.
    fn is_repository(text: &str) -> bool {
        let is_name = |name: &str| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            !["", ".", ".."].contains(&name) && name.chars().all(is_plain)
        };
        text.split_once('/')
            .is_some_and(|(owner, name)| is_name(owner) && is_name(name))
    }
}
